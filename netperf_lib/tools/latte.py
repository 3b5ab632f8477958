"""latte: round trips on Windows, the mean of many iterations and optionally a histogram.

Both ends print the same block, and nothing says which end it is, so the CPU share is kept for neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .draft import Damaged, Draft, drafted
from .microsecond_bins import histogram
from .parsed import ParsedRun

NAME = "latte"
MARKS = ("SendMethod",)

_START = re.compile(r"^[ \t>]*Protocol[ \t]+\w+[ \t]*\n[ \t>]*SendMethod[ \t]", re.MULTILINE)
_LINE = re.compile(r"[ \t>]*([A-Z][\w()/%]*)[ \t]+(\S+)(?:[ \t]+\(\S+/iteration\))?[ \t]*")


def sightings(text: str) -> Iterator[int]:
    """Offsets of ``Protocol`` lines."""
    return (m.start() for m in _START.finditer(text))


def read(text: str) -> list[ParsedRun]:
    """Read one block."""
    return [drafted(Draft(NAME), _fill, text)]


def _fill(run: Draft, text: str) -> None:
    fields: dict[str, str] = {}
    for row in text.split("\n"):
        if m := _LINE.fullmatch(row):
            fields.setdefault(m[1], m[2])
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
    histogram(run, text, mean, run.metrics["messages_count"])
