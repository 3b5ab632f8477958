"""Reads the packets of sockperf's ``--full-log``, and checks each row against its times and all against the result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import ReadOptions, read_csv

from ..draft import CONTRADICTION
from ..parsed import Columns, ParsedRun

# they begin with a line break and not with ^, as Python finds a given character four times faster than a position
_NO_ROW = re.compile(r"\n(?!\d+, \d+\.\d{9}, \d+\.\d{9}, -?\d+\.\d{3}$)", re.MULTILINE | re.ASCII)
_NO_PAIR = re.compile(r"\n(?!\d+\.\d{9}, \d+\.\d{9}$)", re.MULTILINE | re.ASCII)
"""A line that is no row of before 3.0: times sent and received."""


def with_rows(run: ParsedRun, text: str, line: int) -> ParsedRun:
    """Add the packets, up to the first line that is not one; the run is complete if all observations are there."""
    halves = 1 if run.percentile_basis == "rtt" else 2
    table = _table(text, _NO_ROW, 4)
    pairs = _table(text, _NO_PAIR, 2) if not len(table) else table[:0]
    if len(pairs):
        table = np.column_stack((np.arange(len(pairs)), pairs, np.diff(pairs) * (1e6 / halves)))
    good = _readable(*table.T, halves=halves)
    sampled = replace(
        run, samples_count=good, samples=partial(_samples, table[:good, 1] - table[:1, 1], table[:good, 3])
    )
    count = run.metrics.get("messages_count")
    if run.status != "ok":
        return sampled
    if good == count:
        if wrong := _contradiction(run, table):
            return replace(sampled, status="failed", error=wrong, contradictory=True, metrics={}, percentiles=())
        return sampled
    if count is None or len(pairs):
        of = "packets, and how many there should be is not told" if count is None else f"of {count:.0f} packets"
        return replace(sampled, warnings=(*run.warnings, f"the log holds {good} {of}"))
    unread = next(iter(text.split("\n", good + 1)[good:]), "")[:80]
    error = f"{good} of {count:.0f} packets are readable; line {line + good} is {unread!r}"
    return replace(sampled, status="partial", error=error, metrics={}, percentiles=(), percentile_basis=None)


def _table(text: str, no_row: re.Pattern[str], columns: int) -> Any:
    """Return the figures of the rows at the start of a text, which end at its first line that is none."""
    match = no_row.search("\n" + text)
    rows = text[: match.start()] if match else text
    if not rows:
        return np.empty((0, columns))
    table = read_csv(pa.py_buffer(rows.encode()), ReadOptions(column_names=list(map(str, range(columns)))))
    return np.column_stack([column.to_numpy() for column in table.columns])


def _contradiction(run: ParsedRun, table: Any) -> str | None:
    """Say which statistic does not match the packets; None if all match."""
    latency_us, metrics, basis = np.sort(table[:, 3]), run.metrics, run.percentile_basis
    n = len(latency_us)
    seconds = metrics.get("duration_measured_s") if not metrics.get("lost_count") else None
    checks: list[tuple[str, float | None, float]] = [
        ("the duration in s", seconds, table[-1, 2] - table[0, 1]),
        ("the minimum", metrics.get(f"{basis}_min_us"), latency_us[0]),
        ("the maximum", metrics.get(f"{basis}_max_us"), latency_us[-1]),
        ("the mean", metrics.get(f"{basis}_us"), latency_us.mean()),
        ("the deviation", metrics.get(f"{basis}_stdev_us"), latency_us.std(ddof=1) if n > 1 else 0.0),
    ]
    checks += [
        (f"percentile {p.percentile:g}", p.latency_us, latency_us[n - 1 - (p.beyond or 0)]) for p in run.percentiles
    ]
    for what, printed, computed in checks:
        # latencies are each rounded from clock ticks: one in ten real logs differs somewhere, by up to 2 ns
        rounding = 0.0006 if what == "the duration in s" else 0.0026
        if printed is not None and abs(printed - computed) > rounding:
            return f"{CONTRADICTION}{what} is {printed:g}, of the packets {computed:.3f}"
    return None


def _readable(packet: Any, tx_s: Any, rx_s: Any, latency_us: Any, *, halves: int) -> int:
    """Count the rows before the first damaged one: out of order, or with a latency that its times contradict."""
    off = np.abs((rx_s - tx_s) * (1e6 / halves) - latency_us) > 0.0021
    off |= packet != np.arange(len(packet))
    return int(np.argmax(off)) if off.any() else len(packet)


def _samples(t_s: Any, latency_us: Any) -> Iterator[Columns]:
    if len(t_s):
        yield {"t_s": t_s, "latency_us": latency_us}
