"""Shared by the readers: how a run is filled, and printed figures with their rounding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from .parsed import ParsedRun

T = TypeVar("T")


class Damaged(ValueError):  # noqa: N818 - not an error of the program: a finding about the log
    """A log that cannot be used; the message says why."""


class Contradictory(Damaged):
    """Lines that one run of the tool never prints together.

    The log is damaged, or another process wrote into it.
    """


def fill_run(run: ParsedRun, fill: Callable[[ParsedRun, T], None], log: T) -> ParsedRun:
    """Have `fill` read a log into a run, which is complete unless that raises `Damaged`.

    A run without a result is partial if `fill` has said so, because it read rows.
    """
    try:
        fill(run, log)
        run.status = "ok"
    except Damaged as error:
        run.error, run.contradictory = str(error), isinstance(error, Contradictory)
        run.metrics = {}
    metrics: dict[str, Any] = {}
    for name, value in run.metrics.items():
        # a count or a number of bytes is an integer
        counted = name.endswith(("_count", "_bytes"))
        if value is not None:
            metrics[name] = int(value) if counted and value == int(value) else value
    run.metrics = metrics
    run.parameters = {k: v for k, v in run.parameters.items() if v is not None}
    run.warnings = list(dict.fromkeys(run.warnings))
    return run


def added(counts: Iterable[float | None]) -> float | None:
    """Add counts; None if one is unknown, or there are none."""
    total: float | None = None
    for number in counts:
        if number is None:
            return None
        total = number + (total or 0)
    return total


def add_cpu_costs(metrics: dict[str, Any]) -> None:
    """Add the CPU time per Gbit of both directions.

    The CPU share of the tool must be that of one core.
    """
    ways = ("throughput", "throughput_reverse")
    rate = sum(
        metrics.get(f"{way}_bps") or metrics.get(f"{way}_sent_bps") or 0.0 for way in ways
    )
    for side in ("client", "server"):
        if rate and (share := metrics.get(f"cpu_{side}_ratio")):
            metrics[f"cpu_{side}_per_gbit_s"] = share * 1e9 / rate


def add_path(
    metrics: dict[str, Any], rtts: list[int], windows: list[list[float]]
) -> None:
    """Add round trips under load, and congestion windows in the order of time for each stream."""
    if rtts:
        metrics["rtt_loaded_us"] = sum(rtts) / len(rtts)
        metrics |= {"rtt_loaded_min_us": min(rtts), "rtt_loaded_max_us": max(rtts)}
    if windows and all(windows):
        metrics["cwnd_bytes"] = sum(window[-1] for window in windows)
        metrics["cwnd_max_bytes"] = sum(map(max, windows))


def found(pattern: str | re.Pattern[str], text: str) -> str | None:
    """Return the first group of the first match; None without a match."""
    m = re.search(pattern, text)
    return m and m[1]


def line_start(text: str, at: int) -> int:
    """Return the offset where the line of an offset begins."""
    return text.rfind("\n", 0, at) + 1


def or_above(text: str, at: int, pattern: re.Pattern[str]) -> int:
    """Return the offset of the line above the one at `at` if it matches, else `at`.

    Blank lines and code fences between them do not count.
    """
    above = at
    while above:
        end, above = above, line_start(text, above - 1)
        if pattern.match(text, above, end):
            return above
        if text[above:end].strip(" \t\n`"):
            break
    return at


def half_unit(text: str) -> float:
    """Return half a unit of the last digit of a printed number: what rounding may take away."""
    return float(0.5 * 10.0 ** -len(text.partition(".")[2]))


class Figure(NamedTuple):
    """A printed number and its rounding error."""

    value: float
    half: float = 0.0

    @classmethod
    def printed(cls, text: str, factor: float = 1.0) -> Figure:
        """Read a printed number whose unit is `factor`."""
        return cls(float(text) * factor, half_unit(text) * factor)

    def agrees(self, other: Figure, relative: float = 0.0) -> bool:
        """Return whether both can be the same number, within their rounding and some slack."""
        slack = relative * max(self.value, other.value)
        return abs(self.value - other.value) <= 1.02 * (self.half + other.half) + slack


def rate_fits(
    size: Figure, seconds: Figure, rate: Figure, relative: float = 1e-3
) -> bool:
    """Return whether bytes within seconds can be a printed rate in bit/s."""
    length, half = seconds
    if length <= half:
        return True
    moved = 8 * size.value / length
    apart = abs(moved - rate.value)
    slack = relative * max(moved, rate.value)
    if apart <= slack:
        return True
    off = moved * (size.half / max(*size, 1e-9) + half / (length - half))
    return apart <= 1.02 * (off + rate.half) + slack
