"""How often the readers are right: intact logs, damaged ones, and two that were written into one file.

``python tests/tools/measure.py [FOLDER] [--draws N] [--seed S]`` prints the shares; FOLDER holds logs, by default
those of the project. A damaged log is silently wrong when a run is `ok` and a number of it is not the intact log's
(to the rounding of three digits), or one that the intact log gives is gone without a warning. Every damage counts, but
for one: lines that a tool prints only when something happened, and that no other line refers to (`ALONE`). Without
them the log is one that the tool prints as well. Nothing else is left out: not even a log that is cut where the tool
would have ended with fewer options.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools.parsed import ParsedRun

LOGS = Path(__file__).parents[1] / "logs"
ALONE = re.compile(rb"datagrams received out-of-order|\[ CT\] final connect times|^\d+, \d+\s*$")
"""Lines that no other line refers to: of iperf 2, which prints them at times, and the last ones of lagscope's list."""


def read(data: bytes) -> list[ParsedRun]:
    """Read every run, and none where the log is refused."""
    try:
        return tools.parse(data)
    except ParseError:
        return []


def right(run: ParsedRun, truth: list[ParsedRun]) -> bool:
    """Whether a run that is `ok` says what some run of the intact logs says, or warns of what it lacks."""
    if run.status != "ok":
        return True
    for other in truth:
        same = {k for k in run.metrics.keys() & other.metrics.keys() if near(run.metrics[k], other.metrics[k])}
        lost = other.metrics.keys() - run.metrics.keys()
        if same == run.metrics.keys() and (not lost or set(run.warnings) - set(other.warnings)):
            return True
    return False


def near(a: float, b: float) -> bool:
    """Equal within the rounding of three digits, which is what text says twice."""
    return abs(a - b) <= 0.03 * max(abs(a), abs(b)) + 0.003


def lines_damaged(data: bytes, rng: random.Random) -> bytes:
    """Drop, double, swap or cut lines."""
    lines = data.splitlines(keepends=True)
    i = rng.randrange(len(lines))
    match rng.choice(["drop", "double", "swap", "cut", "head", "tail"]):
        case "drop":
            del lines[i]
        case "double":
            lines.insert(i, lines[i])
        case "swap":
            j = min(i + 1, len(lines) - 1)
            lines[i], lines[j] = lines[j], lines[i]
        case "cut":
            lines[i] = lines[i][: rng.randrange(len(lines[i]) + 1)]
        case "head":
            lines = lines[i:]
        case _:
            lines = lines[: i + 1]
    return b"".join(lines)


def damages(data: bytes, other: bytes, rng: random.Random, lines: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Every way to end a log early, to lose or repeat a line; 20 cuts anywhere; and the `other` log, line by line.

    With `lines` only that many lines are damaged.
    """
    rows = data.splitlines(keepends=True)
    places = range(1, len(rows))
    for i in places if lines is None or lines >= len(places) else rng.sample(places, lines):
        yield "cut", b"".join(rows[:i])
        yield "drop", b"".join(rows[:i] + rows[i + 1 :])
        yield "double", b"".join(rows[: i + 1] + rows[i:])
    for _ in range(20):
        yield "torn", data[: rng.randrange(len(data))]
    yield "interleaved", interleaved(data, other, rng)


def every(folder: Path, seed: int, lines: int | None = None) -> tuple[set[tuple[str, str]], Counter[str]]:
    """Do all `damages` to all logs; return which were silently wrong (kind and log), and how many were tried."""
    rng = random.Random(seed)
    wrong: set[tuple[str, str]] = set()
    tried: Counter[str] = Counter()
    logs = {p: p.read_bytes() for p in sorted(folder.glob("*/*")) if not p.name.endswith(".expected.json")}
    truth = {p: read(data) for p, data in logs.items()}
    for p, data in logs.items():
        if not any(r.status == "ok" for r in truth[p]):
            continue
        alike = [q for q in logs if q.parent == p.parent and q != p and truth[q]]
        other = rng.choice(alike) if alike else p
        short = data.count(b"\n") <= 60
        for kind, damaged in damages(data, logs[other], rng, None if short else lines):
            tried[kind] += 1
            known = truth[p] + (truth[other] if kind == "interleaved" else [])
            if not all(right(run, known) for run in read(damaged)) and not alone(data, damaged):
                wrong.add((kind, p.name))
    return wrong, tried


def interleaved(one: bytes, two: bytes, rng: random.Random) -> bytes:
    """Write the lines of two processes into one file, each in its own order."""
    rest, both = [one.splitlines(keepends=True), two.splitlines(keepends=True)], []
    while any(rest):
        lines = rng.choice([r for r in rest if r])
        both.append(lines.pop(0))
    return b"".join(both)


def alone(intact: bytes, damaged: bytes) -> bool:
    """Whether all that the damage did is to take off lines that nothing else in the log refers to."""
    before, after = Counter(intact.splitlines()), Counter(damaged.splitlines())
    return not after - before and all(ALONE.search(line) for line in before - after)


def count(folder: Path, draws: int, seed: int, *, show: bool = False) -> dict[str, tuple[Counter[str], int, int]]:
    """Draw damages; for each kind how many are silently wrong by tool, out of how many, and how many nothing shows."""
    rng = random.Random(seed)
    paths = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size < 60_000]
    paths = sorted(p for p in paths if not p.name.endswith((".expected.json", ".expected", ".tsv", ".py", ".md")))
    logs = {p: p.read_bytes() for p in paths}
    truth = {p: read(data) for p, data in logs.items()}
    whole = {p: t for p, t in truth.items() if any(r.status == "ok" for r in t)}
    print(f"{len(logs)} logs, {len(whole)} with a result, {sum(not t for t in truth.values())} refused")
    wrong: Counter[str] = Counter()
    unseen = 0
    for p in whole:
        for _ in range(draws):
            data = lines_damaged(logs[p], rng)
            bad = [r for r in read(data) if not right(r, truth[p])]
            if bad and alone(logs[p], data):
                unseen += 1
                continue
            wrong[p.parent.name] += bool(bad)
            if bad and show:
                print(p.name, bad[0].line, dict(bad[0].metrics))
    mixed: Counter[str] = Counter()
    tried = 0
    by_tool = {tool: [p for p, t in whole.items() if t[0].tool == tool] for tool in tools.READERS}
    for tool, same in by_tool.items():
        for _ in range(draws * len(same) // 4 if len(same) > 1 else 0):
            one, two = rng.sample(same, 2)
            tried += 1
            found = read(interleaved(logs[one], logs[two], rng))
            bad = [r for r in found if not right(r, truth[one] + truth[two])]
            mixed[tool] += bool(bad)
            if bad and show:
                print("mixed", one.name, two.name, bad[0].test, dict(bad[0].metrics), bad[0].warnings)
    return {"damaged": (wrong, len(whole) * draws - unseen, unseen), "interleaved": (mixed, tried, 0)}


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=LOGS)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--every", action="store_true", help="every line of every log, instead of draws")
    a = parser.parse_args()
    if a.every:
        wrong, tried = every(a.folder, a.seed)
        print(f"{len(wrong)} logs silently wrong in a kind of damage, of {tried.total()} damages {dict(tried)}")
        print("\n".join(f"  {kind}: {name}" for kind, name in sorted(wrong)))
        return
    for kind, (wrong, tried, unseen) in count(a.folder, a.draws, a.seed, show=a.show).items():
        share = sum(wrong.values()) / max(tried, 1)
        print(f"{kind}: {sum(wrong.values())} of {tried} silently wrong ({share:.2%}) {dict(+wrong)}")
        if unseen:
            print(f"  and {unseen} that the log cannot show: a line that nothing else refers to is gone")


if __name__ == "__main__":
    main()
