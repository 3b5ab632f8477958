"""latte: round trips on Windows, the mean of many iterations and on request a histogram.

Both ends print the same block, and nothing says which end it is, so the processor's share is kept for neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .microsecond_bins import histogram
from .parsed import ParsedRun

NAME = "latte"
MARKS = ("SendMethod",)

_START = re.compile(r"^[ \t>]*Protocol[ \t]+\w+[ \t]*\n[ \t>]*SendMethod[ \t]", re.MULTILINE)
_LINE = re.compile(r"[ \t>]*([A-Z][\w()/%]*)[ \t]+(\S+)(?:[ \t]+\((\d+\.\d\d)/iteration\))?[ \t]*")
_LAST = "Interrupt/sec"


def sightings(text: str) -> Iterator[int]:
    """Offsets of ``Protocol`` lines."""
    return (m.start() for m in _START.finditer(text))


def read(text: str) -> list[ParsedRun]:
    """Read one block."""
    found: dict[str, str] = {}
    each: dict[tuple[str, str], tuple[float, float]] = {}  # events: in a second, in an iteration
    lines = text.split("\n")
    for row in lines[: 40 if len(lines) > 40 else None]:
        if (m := _LINE.fullmatch(row)) and m[1] not in found:
            found[m[1]] = m[2]
            if m[3]:
                each[m[2], m[3]] = float(m[2]), float(m[3])
        if m and m[1] == _LAST:
            break

    def failed(error: str) -> list[ParsedRun]:
        return [ParsedRun(tool=NAME, status="failed", error=error)]

    if "Latency(usec)" not in found:
        return failed("no line 'Latency(usec)': the log ends before its result, or that line is damaged")
    if not re.fullmatch(r"\d+\.\d\d", found["Latency(usec)"]):
        return failed(f"not a latency with two decimals: {found['Latency(usec)']!r}")
    mean = float(found["Latency(usec)"])
    if mean == 0:
        return failed("the latency is 0.00: nothing was measured")
    parameters: dict[str, str | int | float | bool] = {}
    if re.fullmatch(r"TCP|UDP", found.get("Protocol", "")):
        parameters["protocol"] = found["Protocol"].lower()
    if found.get("MsgSize(byte)", "").isdecimal():
        parameters["message_bytes"] = int(found["MsgSize(byte)"])
    metrics: dict[str, float] = {"rtt_us": mean}
    warnings = []
    if not found.get("Iterations", "").isdecimal():
        warnings.append("the number of iterations is missing")
    else:
        metrics["messages_count"] = int(found["Iterations"])
    times = [1e6 * share / rate for rate, share in each.values() if rate]  # of an iteration; some logs count otherwise
    if len(times) > 1 and max(times) < 1.02 * min(times) and not 0.96 < mean / times[0] < 1.04:
        return failed(f"the figures contradict each other: {mean:g} us, and {times[0]:.1f} us by the rates of events")
    try:
        points, named, warning = histogram(text, mean, metrics.get("messages_count"), "rtt")
    except ValueError as e:
        return failed(f"the figures contradict each other: {e}")
    if warning:
        warnings.append(warning)
    return [
        ParsedRun(
            tool=NAME,
            status="ok",
            metrics=metrics | named,
            parameters=parameters,
            percentiles=points,
            percentile_basis="rtt" if points else None,
            warnings=tuple(warnings),
        )
    ]
