"""Shared by the readers: a run while it is read, printed figures with their rounding, a table of intervals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .parsed import Columns, ParsedRun, Percentile, Status

T = TypeVar("T")
CONTRADICTION = "the figures contradict each other, the log is damaged: "


class Damaged(ValueError):  # noqa: N818 - not an error of the program: a finding about the log
    """A log that cannot be used; the message says why, and `status` how much of the run is usable."""

    def __init__(self, error: str, status: Status | None = None) -> None:
        super().__init__(error)
        self.status = status


class Contradictory(Damaged):
    """Lines that one run of the tool never prints together: the log is damaged, or another process wrote into it."""


@dataclass(slots=True)
class Draft:
    """A run while its log is read; what was read is kept if the rest turns out to be damaged."""

    tool: str
    line: int = 1
    version: str | None = None
    test: str | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    """As `ParsedRun.parameters`; None values are left out."""
    warnings: list[str] = field(default_factory=list)
    intervals: Columns = field(default_factory=dict)
    percentiles: tuple[Percentile, ...] = ()
    basis: str | None = None
    begun: bool = False
    """Rows were read: a run without a result is partial."""

    def run(self, status: Status = "ok", error: str | Damaged | None = None) -> ParsedRun:
        """Return the run; only a complete run has metrics and percentiles."""
        complete = status == "ok"
        return ParsedRun(
            tool=self.tool,
            status=status,
            tool_version=self.version,
            test=self.test,
            error=None if error is None else str(error),
            contradictory=isinstance(error, Contradictory),
            warnings=tuple(dict.fromkeys(self.warnings)),
            metrics={k: _exact(k, v) for k, v in self.metrics.items() if v is not None}
            if complete
            else {},
            parameters={k: v for k, v in self.parameters.items() if v is not None},
            intervals=self.intervals if status != "failed" else {},
            percentiles=self.percentiles if complete else (),
            percentile_basis=self.basis if complete and self.percentiles else None,
            line=self.line,
        )

    def filled(self, fill: Callable[[Draft, T], None], log: T) -> ParsedRun:
        """Have `fill` read a log; if it raises `Damaged`, the run has that error."""
        try:
            fill(self, log)
        except Damaged as error:
            return self.run(error.status or ("partial" if self.begun else "failed"), error)
        return self.run()


def _exact(name: str, value: float) -> float:
    """Return a count or a number of bytes as an integer."""
    return int(value) if name.endswith(("_count", "_bytes")) and value == int(value) else value


def added(counts: Iterable[float | None]) -> float | None:
    """Add counts; None if one is unknown, or there are none."""
    values = list(counts)
    return sum(n for n in values if n is not None) if values and None not in values else None


def add_cpu_costs(metrics: dict[str, float] | dict[str, float | None]) -> None:
    """Add the CPU time per Gbit of both directions; for tools whose CPU share is that of one core."""
    ways = ("throughput", "throughput_reverse")
    rate = sum(metrics.get(f"{way}_bps") or metrics.get(f"{way}_sent_bps") or 0.0 for way in ways)
    for side in ("client", "server"):
        if rate and (share := metrics.get(f"cpu_{side}_ratio")):
            metrics[f"cpu_{side}_per_gbit_s"] = share * 1e9 / rate


def line_start(text: str, at: int) -> int:
    """Return the offset where the line of an offset begins."""
    return text.rfind("\n", 0, at) + 1


def or_above(text: str, at: int, pattern: re.Pattern[str]) -> int:
    """Return the offset of the line above the one at `at` if it matches, else `at`."""
    above = line_start(text, at - 1)
    return above if pattern.match(text, above, at) else at


@dataclass(frozen=True, slots=True)
class Figure:
    """A printed number and its rounding error: half a unit of its last digit."""

    value: float
    half: float = 0.0

    @classmethod
    def printed(cls, text: str, factor: float = 1.0) -> Figure:
        """Read a printed number whose unit is `factor`."""
        digits = len(text.partition(".")[2])
        return cls(float(text) * factor, 0.5 * 10.0**-digits * factor)

    def agrees(self, other: Figure, relative: float = 0.0) -> bool:
        """Return whether both can be the same number, within their rounding and some slack."""
        slack = relative * max(self.value, other.value)
        return abs(self.value - other.value) <= 1.02 * (self.half + other.half) + slack


def rate_fits(size: Figure, seconds: Figure, rate: Figure, relative: float = 1e-3) -> bool:
    """Return whether bytes within seconds can be a printed rate in bit/s."""
    if seconds.value <= seconds.half:
        return True
    moved = 8 * size.value / seconds.value
    off = size.half / max(size.value, size.half, 1e-9) + seconds.half / (
        seconds.value - seconds.half
    )
    return Figure(moved, moved * off).agrees(rate, relative)
