"""latte: round trips on Windows, the mean of many iterations and optionally a histogram.

Both ends print the same block, and nothing says which end it is, so the CPU share is kept for neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .draft import CONTRADICTION, Contradictory, Damaged, Draft, drafted
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
    return [drafted(Draft(NAME), _fill, text)]


def _fill(run: Draft, text: str) -> None:
    fields: dict[str, str] = {}
    each: set[tuple[float, float]] = set()  # events per second and per iteration
    for row in text.split("\n")[:40]:
        if (m := _LINE.fullmatch(row)) and m[1] not in fields:
            fields[m[1]] = m[2]
            if m[3] and m[2].isdecimal():
                each.add((float(m[2]), float(m[3])))
        if m and m[1] == _LAST:
            break
    latency = fields.get("Latency(usec)", "missing: the log ends before its result")
    if not re.fullmatch(r"\d+\.\d\d", latency):
        raise Damaged(f"'Latency(usec)' is not a latency with two decimals: {latency}")
    mean = float(latency)
    if mean == 0:
        raise Damaged("the latency is 0.00: nothing was measured")
    protocol, size, count = (fields.get(k, "") for k in ("Protocol", "MsgSize(byte)", "Iterations"))
    run.parameters = {
        "protocol": protocol.lower() if protocol in ("TCP", "UDP") else None,
        "message_bytes": int(size) if size.isdecimal() else None,
    }
    run.metrics = {"rtt_us": mean, "messages_count": int(count) if count.isdecimal() else None}
    if not count.isdecimal():
        run.warnings.append("the number of iterations is missing")
    times = [1e6 * share / rate for rate, share in each if rate]  # per iteration; some logs count otherwise
    if len(times) > 1 and max(times) < 1.02 * min(times) and not 0.96 < mean / times[0] < 1.04:
        raise Contradictory(f"{CONTRADICTION}{mean:g} us, and {times[0]:.1f} us by the rates of events")
    histogram(run, text, mean, run.metrics["messages_count"])
