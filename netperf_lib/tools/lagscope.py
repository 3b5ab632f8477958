"""lagscope: TCP round trips, one after the other; percentiles and histogram on request, in whole microseconds."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from .microsecond_bins import POINTS, histogram, percentiles
from .parsed import ParsedRun, Percentile

NAME = "lagscope"
MARKS = ("lagscope ", "Ping statistics for ", '"latencies"')

_START = re.compile(r'^lagscope \d+\.\d+\S*\n-{20}|^\{\s*"latencies"\s*:', re.MULTILINE)
_STATISTICS = re.compile(r"^.*Ping statistics for (\S+):[ \t]*$", re.MULTILINE)
_PINGS = re.compile(r"Number of successful Pings: (\d+)[ \t]*\n")
_FIGURES = re.compile(r"Minimum = (\d+\.\d{3})us, Maximum = (\d+\.\d{3})us, Average = (\d+\.\d{3})us")
_TABLE = re.compile(r"^[ \t>]*Percentile[ \t]+Latency\(us\)[ \t]*\n((?:.*\n?)*)", re.MULTILINE)
_POINT = re.compile(r"[ \t]*(\d+(?:\.\d+)?)%[ \t]+(\d+)[ \t]*")


def sightings(text: str) -> Iterator[int]:
    """Offsets of the version line, or of the statistics where that line is missing, or of a frequency table."""
    starts = [m.start() for m in _START.finditer(text)]
    first = _STATISTICS.search(text)
    if first and not any(s < first.start() for s in starts):
        starts.append(first.start())
    return iter(sorted(starts))


def read(text: str) -> list[ParsedRun]:
    """Read one run: for each target that was pinged, the statistics."""
    if text.startswith("{"):
        return [_frequencies(text)]
    version = m[1] if (m := re.match(r"lagscope (\d+\.\d+\S*)\n", text)) else None
    starts = [m.start() for m in _STATISTICS.finditer(text)]
    if not starts:
        said = re.search(r"\bERR : (.*)", text)
        error = said[1].strip() if said else "no statistics: the log ends before them"
        return [ParsedRun(tool=NAME, tool_version=version, status="failed", error=error)]
    runs = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        line = 1 if start == starts[0] else 1 + text.count("\n", 0, start)
        runs.append(_statistics(text[start:end], version, line))
    return runs


def _statistics(text: str, version: str | None, line: int) -> ParsedRun:
    def failed(error: str) -> ParsedRun:
        return ParsedRun(tool=NAME, tool_version=version, status="failed", error=error, line=line)

    pings, figures = _PINGS.search(text), _FIGURES.search(text)
    if not pings or not figures:
        return failed("the line with minimum, maximum and average is missing or damaged")
    n = int(pings[1])
    least, most, mean = map(float, figures.groups())
    if n == 0:
        return failed("no ping was answered")
    if not least <= mean <= most:
        return failed(f"the figures contradict each other, the log is damaged: minimum {least:g}, average {mean:g}")
    metrics = {"rtt_us": mean, "rtt_min_us": least, "rtt_max_us": most, "messages_count": n}
    points: tuple[Percentile, ...] = ()
    warnings = []
    if m := _TABLE.search(text):
        rows: list[Percentile] = []
        named: dict[str, float] = {}
        for row in m[1].splitlines(keepends=True):
            r = _POINT.fullmatch(row.removesuffix("\n"))
            if not row.strip():
                continue
            if not r:
                break
            if not row.endswith("\n"):
                warnings.append("the log ends early: the last percentile may be cut and is left out")
                break
            p, value = float(r[1]), float(r[2])
            if not int(least) <= value <= most:
                return failed(f"percentile {p:g} is {value:g}, outside of minimum and maximum: the log is damaged")
            if rows and value < rows[-1].latency_us:
                warnings.append(f"percentile {p:g} is below the one before it")
            rows.append(Percentile(p, value, n - 1 - int(p * (n + 1) / 100 - 1)))
            if p in POINTS:
                named[f"rtt_{POINTS[p]}_us"] = value
        points = tuple(rows)
        metrics |= named
        if lost := [f"rtt_{name}_us" for p, name in POINTS.items() if f"rtt_{name}_us" not in named]:
            warnings.append(f"the table of percentiles is not whole: {', '.join(lost)} are missing")
    else:
        try:
            points, named, warning = histogram(text, mean, n, "rtt")
        except ValueError as e:
            return failed(f"the figures contradict each other: {e}")
        metrics |= named
        warnings += [warning] if warning else []
    return ParsedRun(
        tool=NAME,
        tool_version=version,
        status="ok",
        metrics=metrics,
        parameters={"protocol": "tcp", "server": str(_STATISTICS.findall(text)[0])},
        percentiles=points,
        percentile_basis="rtt" if points else None,
        warnings=tuple(warnings),
        line=line,
    )


def _frequencies(text: str) -> ParsedRun:
    """Read the table of ``-P file.json``: whole microseconds and how often each was seen."""

    def failed(error: str) -> ParsedRun:
        return ParsedRun(tool=NAME, status="failed", error=error)

    end = re.search(r"^\}", text, re.MULTILINE)
    try:
        rows = orjson.loads(text[: end.end()] if end else text)["latencies"]
        bins = [(row["latency"], row["frequency"]) for row in rows]
    except (ValueError, KeyError, TypeError):
        return failed("the table of frequencies is cut or damaged")
    if not all(type(v) is int and v >= 0 for pair in bins for v in pair):
        return failed("the table of frequencies holds what is no count")
    edges = [e for e, _ in bins]
    if edges != sorted(set(edges)):
        return failed("the latencies of the table are not in order")
    total = sum(n for _, n in bins)
    if not total:
        return failed("the table of frequencies is empty")
    points = percentiles(bins)
    metrics: dict[str, float] = {"messages_count": total}
    metrics |= {f"rtt_{POINTS[p.percentile]}_us": p.latency_us for p in points}
    note = "a table of whole microseconds: percentiles only, no mean"
    return ParsedRun(
        tool=NAME,
        status="ok",
        metrics=metrics,
        parameters={"protocol": "tcp"},
        percentiles=points,
        percentile_basis="rtt",
        warnings=(note,),
    )
