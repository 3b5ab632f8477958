"""lagscope: TCP round trips, one after the other; optional percentiles and histogram in whole microseconds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from itertools import pairwise

import orjson

from .draft import CONTRADICTION, Contradictory, Damaged, Draft, drafted, first_or_starts, or_above
from .microsecond_bins import POINTS, histogram, percentiles
from .parsed import ParsedRun, Percentile

NAME = "lagscope"
_EACH_PING = "Index, Latency(us)"
MARKS = ("lagscope ", "Ping statistics for ", '"latencies"', _EACH_PING)

_START = re.compile(
    rf'^lagscope \d+\.\d+\S*\n-{{20}}|^\{{\s*"latencies"\s*:|^{re.escape(_EACH_PING)}[ \t]*$',
    re.MULTILINE,
)
_STATISTICS = re.compile(r"^.*Ping statistics for (\S+):[ \t]*$", re.MULTILINE)
_COMMAND = re.compile(r".*\blagscope .*-P.*\n")
"""A command that requests percentiles."""
_PINGS = re.compile(r"Number of successful Pings: (\d+)[ \t]*\n")
_FIGURES = re.compile(
    r"Minimum = (\d+\.\d{3})us, Maximum = (\d+\.\d{3})us, Average = (\d+\.\d{3})us"
)
_TIME = re.compile(r"^(\d\d):(\d\d):(\d\d) [A-Z]{3,4} ?:", re.MULTILINE)
_TABLE = re.compile(r"^[ \t>]*Percentile[ \t]+Latency\(us\)[ \t]*\n((?:.*\n?)*)", re.MULTILINE)
_POINT = re.compile(r"[ \t]*(\d+(?:\.\d+)?)%[ \t]+(\d+)[ \t]*")


def sightings(text: str) -> Iterator[int]:
    """Yield the offset of the version line, or of the statistics if it is missing, or of a frequency table."""
    first = _STATISTICS.search(text)
    starts = (or_above(text, m.start(), _COMMAND) for m in _START.finditer(text))
    return first_or_starts(starts, first and first.start())


def read(text: str) -> list[ParsedRun]:
    """Read one run: the statistics of each target."""
    if text.startswith("{"):
        return [drafted(Draft(NAME), _frequencies, text)]
    if text.startswith(_EACH_PING):
        return [drafted(Draft(NAME), _each_ping, text)]
    version = m[1] if (m := re.match(r"(?:.*-P.*\n)?lagscope (\d+\.\d+\S*)\n", text)) else None
    starts = [m.start() for m in _STATISTICS.finditer(text)]
    if not starts:
        complaint = re.search(r"\bERR : (.*)", text)
        error = complaint[1].strip() if complaint else "no statistics: the log ends before them"
        return [Draft(NAME, version=version).run("failed", error)]
    command = _COMMAND.match(text) is not None
    lines = [1 + command, *(1 + text[:start].count("\n") for start in starts[1:])]
    fill = partial(_statistics, command=command, mixed=_goes_back(text))
    return [
        drafted(Draft(NAME, line, version), fill, text[start:end])
        for line, (start, end) in zip(lines, pairwise([*starts, len(text)]), strict=True)
    ]


def _goes_back(text: str) -> bool:
    """Return whether the times of the lines go backwards, except at midnight."""
    return any(b < a and a[0] != "23" for a, b in pairwise(_TIME.findall(text)))


def _statistics(run: Draft, text: str, *, command: bool, mixed: bool) -> None:
    """Read the statistics of one target; `command`: the command requested percentiles."""
    if mixed:
        raise Contradictory("the times of the lines go backwards: lines of two processes")
    pings, figures = _PINGS.search(text), _FIGURES.search(text)
    if not pings or not figures:
        raise Damaged("the line with minimum, maximum and average is missing or damaged")
    n = int(pings[1])
    least, most, mean = map(float, figures.groups())
    if n == 0:
        raise Damaged("no ping was answered")
    if not least <= mean <= most:
        raise Contradictory(f"{CONTRADICTION}minimum {least:g}, average {mean:g}, maximum {most:g}")
    run.metrics = {"rtt_us": mean, "rtt_min_us": least, "rtt_max_us": most, "messages_count": n}
    run.parameters = {"protocol": "tcp", "server": _STATISTICS.findall(text)[0]}
    m = _TABLE.search(text)
    if not m:
        histogram(run, text, mean, n)
        if (
            command
            or "Dumping latency frequency table" in text
            or any(map(_POINT.fullmatch, text.split("\n")))
        ):
            run.warnings.append("no percentiles: their table, or its head, is missing")
        return
    points: list[Percentile] = []
    for row in m[1].splitlines(keepends=True):
        if not row.strip():
            continue
        r = _POINT.fullmatch(row.removesuffix("\n"))
        if not r:
            break
        if not row.endswith("\n"):
            run.warnings.append(
                "the log ends early: the last percentile may be cut and is left out"
            )
            break
        p, value = float(r[1]), float(r[2])
        if not int(least) <= value <= most:
            raise Damaged(
                f"percentile {p:g} is {value:g}, outside of minimum and maximum: the log is damaged"
            )
        if points and value < points[-1].latency_us:
            run.warnings.append(f"percentile {p:g} is below the one before it")
        points.append(Percentile(p, value, n - 1 - int(p * (n + 1) / 100 - 1)))
    run.percentiles, run.basis = tuple(points), "rtt"
    named = {
        f"rtt_{POINTS[p.percentile]}_us": p.latency_us for p in points if p.percentile in POINTS
    }
    run.metrics |= named
    if lost := [metric for name in POINTS.values() if (metric := f"rtt_{name}_us") not in named]:
        run.warnings.append(f"the table of percentiles is not whole: {', '.join(lost)} are missing")


def _frequencies(run: Draft, text: str) -> None:
    """Read the table of ``-P file.json``: whole microseconds and how often each was seen."""
    end = re.search(r"^\}", text, re.MULTILINE)
    try:
        rows = orjson.loads(text[: end.end()] if end else text)["latencies"]
        bins = [(row["latency"], row["frequency"]) for row in rows]
    except (ValueError, KeyError, TypeError):
        raise Damaged("the table of frequencies is cut or damaged") from None
    if not all(type(v) is int and v >= 0 for pair in bins for v in pair):
        raise Damaged("the table of frequencies contains a value that is not a count")
    edges = [e for e, _ in bins]
    if edges != sorted(set(edges)) or not any(n for _, n in bins):
        raise Damaged("the latencies of the table are not in order, or the table is empty")
    _from_bins(run, bins, "a table of whole microseconds: percentiles only, no mean")


def _each_ping(run: Draft, text: str) -> None:
    """Read the file of ``-R``: the number of each ping, and its round trip cut to whole microseconds."""
    lines = text.split("\n")
    rows = [
        re.fullmatch(r"(\d+), (\d+)", line)
        for line in lines[1 : lines.index("") if "" in lines else -1]
    ]
    if (
        not rows
        or "" not in lines
        or any(row is None or int(row[1]) != i for i, row in enumerate(rows))
    ):
        raise Damaged("the list of round trips is cut or damaged")
    latencies = Counter(int(row[2]) for row in rows if row)
    _from_bins(
        run,
        latencies.items(),
        "whole microseconds: no mean; the list does not say whether pings are missing",
    )


def _from_bins(run: Draft, bins: Collection[tuple[int, int]], warning: str) -> None:
    run.parameters = {"protocol": "tcp"}
    run.metrics = {"messages_count": sum(n for _, n in bins)}
    run.warnings = [warning]
    percentiles(run, bins)
