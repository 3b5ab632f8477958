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
    """Add the packets, up to the first line that is not one; the run is complete if all observations are there.

    `text` begins with the line break before the first packet, which is in `line`.
    """
    halves = 1 if run.percentile_basis == "rtt" else 2
    packet, tx_s, rx_s, latency_us = _columns(text, _NO_ROW, 4)
    pairs = not len(packet)
    if pairs:
        tx_s, rx_s = _columns(text, _NO_PAIR, 2)
        packet, latency_us = np.arange(len(tx_s)), (rx_s - tx_s) * (1e6 / halves)
    good = _readable(packet, tx_s, rx_s, latency_us, halves=halves)
    sampled = replace(
        run,
        samples_count=good,
        samples=partial(_samples, tx_s[:good] - tx_s[:1], latency_us[:good]),
    )
    count = run.metrics.get("messages_count")
    if run.status != "ok":
        return sampled
    if good == count:
        if wrong := _contradiction(run, tx_s, rx_s, latency_us):
            return replace(
                sampled,
                status="failed",
                error=wrong,
                contradictory=True,
                metrics={},
                percentiles=(),
            )
        return sampled
    if count is None or (pairs and len(packet)):
        of = (
            "packets, and how many there should be is not told"
            if count is None
            else f"of {count:.0f} packets"
        )
        return replace(sampled, warnings=(*run.warnings, f"the log holds {good} {of}"))
    unread = next(iter(text.split("\n", good + 2)[good + 1 :]), "")[:80]
    error = f"{good} of {count:.0f} packets are readable; line {line + good} is {unread!r}"
    return replace(
        sampled, status="partial", error=error, metrics={}, percentiles=(), percentile_basis=None
    )


def _columns(text: str, no_row: re.Pattern[str], columns: int) -> list[Any]:
    """Return the columns of the rows at the start of a text, which end at its first line that is none."""
    match = no_row.search(text)
    rows = text[1 : match.start() + 1 if match else None]
    if not rows:
        return [np.empty(0)] * columns
    table = read_csv(
        pa.py_buffer(rows.encode()), ReadOptions(column_names=list(map(str, range(columns))))
    )
    return [column.to_numpy() for column in table.columns]


def _contradiction(run: ParsedRun, tx_s: Any, rx_s: Any, latency_us: Any) -> str | None:
    """Say which statistic does not match the packets; None if all match."""
    latency_us, metrics, basis = np.sort(latency_us), run.metrics, run.percentile_basis
    n = len(latency_us)
    seconds = metrics.get("duration_measured_s") if not metrics.get("lost_count") else None
    checks: list[tuple[str, float | None, float]] = [
        ("the duration in s", seconds, rx_s[-1] - tx_s[0]),
        ("the minimum", metrics.get(f"{basis}_min_us"), latency_us[0]),
        ("the maximum", metrics.get(f"{basis}_max_us"), latency_us[-1]),
        ("the mean", metrics.get(f"{basis}_us"), latency_us.mean()),
        (
            "the deviation",
            metrics.get(f"{basis}_stdev_us"),
            latency_us.std(ddof=1) if n > 1 else 0.0,
        ),
    ]
    checks += [
        (f"percentile {p.percentile:g}", p.latency_us, latency_us[n - 1 - (p.beyond or 0)])
        for p in run.percentiles
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
