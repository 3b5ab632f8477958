"""Every log that is damaged: cut at each line and anywhere, one line lost or doubled, two logs
written into one file.

``python -m tests.tools.measure`` (``make damages``) does all of it to all golden logs and prints
which are silently wrong: a run is `ok`, and a number of it is not the intact log's (to the rounding
of three digits), or one that the intact log gives is gone without a warning. Nothing is left out,
not even a log that is cut where the tool would have ended with fewer options. The page of the
documentation lists those that no reader can tell (`untold`).
"""

import random
import re
from collections import Counter
from pathlib import Path

from tests.tools.intact import printed, read

PAGE = Path(__file__).parents[2] / "docs/reference/logs.md"


def right(run, truth):
    """Whether a run that is `ok` says what some run of the intact logs says, or warns of what it
    lacks."""
    if run.status != "ok":
        return True
    for other in truth:
        same = {
            k
            for k in run.metrics.keys() & other.metrics.keys()
            if near(run.metrics[k], other.metrics[k])
        }
        lost = other.metrics.keys() - run.metrics.keys()
        if same == run.metrics.keys() and (
            not lost or set(run.warnings) - set(other.warnings)
        ):
            return True
    return False


def near(a, b):
    """Equal within the rounding of three digits, which is what text says twice."""
    return abs(a - b) <= 0.03 * max(abs(a), abs(b)) + 0.003


def damages(data, other, rng):
    """Every way to end a log early, to lose or repeat a line; some cuts anywhere; and the
    `other` log, line by line."""
    rows = data.splitlines(keepends=True)
    for i in range(1, len(rows)):
        yield "cut", b"".join(rows[:i])
        yield "dropped", b"".join(rows[:i] + rows[i + 1 :])
        yield "doubled", b"".join(rows[: i + 1] + rows[i:])
    for cut in (
        range(1, len(data)) if len(data) < 200 else rng.choices(range(1, len(data)), k=20)
    ):
        yield "torn", data[:cut]
    yield "interleaved", interleaved(data, other, rng)


def every(seed):
    """Do all `damages` to all logs; return which were silently wrong, and how many were tried."""
    rng = random.Random(seed)
    wrong = set()
    tried = Counter()
    # of forms, many tests in one file and with what is printed only on request, nobody can tell
    # what is gone
    logs = {p: p.read_bytes() for p in printed("*")}
    truth = {p: read(data) for p, data in logs.items()}
    for p, data in logs.items():
        if not any(r.status == "ok" for r in truth[p]):
            continue
        alike = [q for q in logs if q.parent == p.parent and q != p and truth[q]]
        other = rng.choice(alike) if alike else p
        for kind, damaged in damages(data, logs[other], rng):
            tried[kind] += 1
            known = truth[p] + (truth[other] if kind == "interleaved" else [])
            if not all(right(run, known) for run in read(damaged)):
                wrong.add((kind, p.name))
    return wrong, tried


def interleaved(one, two, rng):
    """Write the lines of two processes into one file, each in its own order."""
    rest, both = [one.splitlines(keepends=True), two.splitlines(keepends=True)], []
    while any(rest):
        lines = rng.choice([r for r in rest if r])
        both.append(lines.pop(0))
    return b"".join(both)


def untold():
    """The damages (kind and log) that no reader can tell, as the documentation lists them."""
    rows = re.findall(
        r"^\| ([\w, ]+) \| `([\w.-]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return {(kind, name) for kinds, name in rows for kind in kinds.split(", ")}


def main():
    """Print what is silently wrong."""
    wrong, tried = every(seed=1)
    print(
        f"{len(wrong)} logs silently wrong in a kind of damage, of {tried.total()} damages "
        f"{dict(tried)}"
    )
    for kind, name in sorted(wrong | untold()):
        print(
            f"  {kind}: "
            f"{name}{'' if (kind, name) in wrong else ': in the documentation, and right now'}"
        )


if __name__ == "__main__":
    main()
