"""How often the readers are right: intact logs, damaged ones, and two that were written into one file.

``python tests/logs/measure.py [FOLDER] [--draws N] [--seed S]`` prints the shares; FOLDER holds logs, by default
those of the project. A damaged log is silently wrong when a run is `ok` and a number that the intact log
gives more than once is another one, or is gone without a warning.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

from netperf_lib import tools
from netperf_lib.errors import ParseError
from netperf_lib.tools.parsed import ParsedRun

LOGS = Path(__file__).parent


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


def interleaved(one: bytes, two: bytes, rng: random.Random) -> bytes:
    """Write the lines of two processes into one file, each in its own order."""
    rest, both = [one.splitlines(keepends=True), two.splitlines(keepends=True)], []
    while any(rest):
        lines = rng.choice([r for r in rest if r])
        both.append(lines.pop(0))
    return b"".join(both)


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=LOGS)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    a = parser.parse_args()
    rng = random.Random(a.seed)
    paths = [p for p in a.folder.rglob("*") if p.is_file() and p.stat().st_size < 60_000]
    paths = sorted(p for p in paths if not p.name.endswith((".expected.json", ".tsv", ".py", ".md")))
    logs = {p: p.read_bytes() for p in paths}
    truth = {p: read(data) for p, data in logs.items()}
    whole = {p: t for p, t in truth.items() if any(r.status == "ok" for r in t)}
    print(f"{len(logs)} logs, {len(whole)} with a result, {sum(not t for t in truth.values())} refused")
    wrong: Counter[str] = Counter()
    for p in whole:
        for _ in range(a.draws):
            found = read(lines_damaged(logs[p], rng))
            bad = [r for r in found if not right(r, truth[p])]
            wrong[p.parent.name] += bool(bad)
            if bad and a.show:
                print(p.name, bad[0].line, dict(bad[0].metrics))
    count = len(whole) * a.draws
    print(f"damaged: {sum(wrong.values())} of {count} silently wrong ({sum(wrong.values()) / count:.2%}) {dict(wrong)}")
    mixed: Counter[str] = Counter()
    tried = 0
    by_tool = {tool: [p for p, t in whole.items() if t[0].tool == tool] for tool in tools.READERS}
    for tool, same in by_tool.items():
        for _ in range(a.draws * len(same) // 4 if len(same) > 1 else 0):
            one, two = rng.sample(same, 2)
            tried += 1
            found = read(interleaved(logs[one], logs[two], rng))
            bad = [r for r in found if not right(r, truth[one] + truth[two])]
            mixed[tool] += bool(bad)
            if bad and a.show:
                print("mixed", one.name, two.name, bad[0].test, dict(bad[0].metrics), bad[0].warnings)
    print(
        f"interleaved: {sum(mixed.values())} of {tried} wrong ({sum(mixed.values()) / max(tried, 1):.2%}) {dict(mixed)}"
    )


if __name__ == "__main__":
    main()
