"""Golden logs: ``tests/logs/<tool>/<log>`` and beside each ``<log>.expected.json``, what a
reader finds in it.

Run as a script (``make golden``) to write the expectations anew; it prints every difference, for a
person to check against the log before it is committed.
"""

import difflib
import gzip
import hashlib
import json
import math
import numbers
import random
import re
import sys
from functools import cache
from pathlib import Path

from netperf_lib import tools
from netperf_lib.data import logs
from netperf_lib.errors import ParseError
from tests.tools.intact import FOLDER
from tests.tools.measure import interleaved

DAMAGED = Path(__file__).with_name("damaged.digests")
EDGES = Path(__file__).with_name("edges.jsonl.gz")
"""Texts that stand at the edge of a rule of a reader, each with a digest of what is read of it."""


def golden_logs():
    return sorted(p for p in FOLDER.glob("*/*") if not p.name.endswith(".expected.json"))


def expectation(log):
    return log.with_name(log.name + ".expected.json")


def read(data):
    """What the library says of a log: its runs, or that it refuses."""
    try:
        runs = tools.parse(data)
    except ParseError:
        return "no run of a known tool"
    return [complete(run) for run in runs]


CORPUS = Path(__file__).with_name("conformance.jsonl.gz")
"""Documents of real tools, with what interfaces, ``ss`` and the exit status said at the time."""


def documents():
    """Return the documents of the corpus."""
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def edges():
    with gzip.open(EDGES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def digest(edge):
    """Return a digest of what is read of a text."""
    text = edge["text"]
    read_now = read(text.encode("latin-1") if edge["bytes"] else text)
    return hashlib.sha256(rounded(read_now)).hexdigest()[:10]


def rounded(value):
    """Return JSON whose figures have 12 digits, as from Python 3.12 on sums are exact."""
    short = json.loads(dump(value), parse_float=lambda figure: f"{float(figure):.12g}")
    return json.dumps(short).encode()


def complete(run):
    """Everything that a reader says about a run; tables with their columns and a digest of their
    values."""
    plain = logs.to_json(run)
    plain["parameters"] = dict(sorted(run.parameters.items()))
    del plain["file"]
    plain |= {"percentile_basis": run.percentile_basis} if run.percentiles else {}
    if run.intervals:
        digest = hashlib.sha256()
        for column in sorted(run.intervals):
            values = "\n".join(map(_text, run.intervals[column]))
            digest.update(values.encode() + b"\0")
        plain["intervals_columns"] = ", ".join(sorted(run.intervals))
        plain["intervals_digest"] = digest.hexdigest()[:16]
    return plain


def _text(value):
    """Nine digits of a number: the last ones depend on the version of numpy."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return f"{float(value):.9g}" if number else str(value)


def same(a, b):
    """Equal, where numbers may differ in the last digits that a float holds."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-12)
    return bool(a == b)


def dump(value):
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def difference(log):
    """Return the unified difference between what is expected and what is read; empty when there
    is none."""
    path = expectation(log)
    expected = json.loads(path.read_text()) if path.exists() else None
    found = read(log.read_bytes())
    if same(expected, found):
        return ""
    return "".join(
        difflib.unified_diff(
            dump(expected).splitlines(keepends=True),
            dump(found).splitlines(keepends=True),
            f"{log.parent.name}/{path.name}",
            "as read now",
        )
    )


def damaged(log):
    """Return a digest of all that is read of a log that is cut, loses, repeats or changes a
    line, or meets another."""
    rng = random.Random(log.name)
    data, digest = log.read_bytes(), hashlib.sha256()
    rows = data.splitlines(keepends=True)
    for i in sorted(
        rng.sample(range(len(rows)), min(16 if len(data) < 4000 else 5, len(rows)))
    ):
        changed = {_another(rows[i], rng) for _ in range(5)} - {rows[i]}
        for lines in ([], [rows[i]] * 2, *([row] for row in sorted(changed))):
            digest.update(rounded(read(b"".join((*rows[:i], *lines, *rows[i + 1 :])))))
        digest.update(rounded(read(b"".join(rows[:i]))))
    for _ in range(4):
        digest.update(rounded(read(data[: rng.randrange(len(data) + 1)])))
    alike = [other for other in small_logs() if other.parent == log.parent]
    for step in (1, 2):  # the next logs of the tool, in the same file
        other = alike[(alike.index(log) + step) % len(alike)].read_bytes()
        for both in (
            data + other,
            data[: rng.randrange(len(data))] + other,
            interleaved(data, other, rng),
        ):
            digest.update(rounded(read(both)))
    return digest.hexdigest()[:12]


def _another(row, rng):
    """Change one figure of a row, or one letter."""
    figures = list(re.finditer(rb"\d+", row))
    if not figures or rng.random() < 0.2:
        letters = list(re.finditer(rb"[A-Za-z]", row))
        return (
            row[: (at := rng.choice(letters).start())] + b"q" + row[at + 1 :]
            if letters
            else row
        )
    m = rng.choice(figures)
    of = m[0]
    way = rng.choice(
        (
            b"%d" % (int(of) + 1),
            b"%d" % (int(of) + 5),
            b"%d" % (int(of) * 11 // 10),
            b"%d" % (int(of) * 2),
            b"0",
            b"-1",
        )
    )
    return (
        row[: m.start()]
        + (way if of[:1] != b"0" else way.rjust(len(of), b"0"))
        + row[m.end() :]
    )


@cache
def small_logs():
    """The logs whose damages are read."""
    return [log for log in golden_logs() if log.stat().st_size < 20_000]


def main():
    changed = 0
    for log in golden_logs():
        if text := difference(log):
            changed += 1
            sys.stdout.write(text)
            expectation(log).write_text(dump(read(log.read_bytes())))
    DAMAGED.write_text(
        "".join(f"{log.parent.name}/{log.name} {damaged(log)}\n" for log in small_logs())
    )
    lines = [json.dumps(edge | {"read": digest(edge)}) + "\n" for edge in edges()]
    EDGES.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    from tests.tools import test_conformance as corpus

    corpus.DIGESTS.write_text("\n".join(map(corpus.digest, corpus.DOCUMENTS)) + "\n")
    page = Path(__file__).parents[2] / "docs/reference/logs.md"
    head, _, rest = page.read_text("utf-8").partition("<!-- conformance -->\n")
    table = corpus.summary(corpus.DOCUMENTS)
    page.write_text(
        f"{head}<!-- conformance -->\n\n{table}\n<!-- end -->{rest.partition('<!-- end -->')[2]}",
        "utf-8",
    )
    print(
        f"{changed} of {len(golden_logs())} expectations changed; check each against its log "
        "before you commit"
    )


if __name__ == "__main__":
    main()
