"""Reads the packets of sockperf's ``--full-log``, and checks the result against them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow.csv import ReadOptions, read_csv

from .parsed import Columns, ParsedRun

# it begins with a line break and not with ^, as Python finds a character faster than a position
_NO_ROW = re.compile(
    r"\n(?!\d+, \d+\.\d{9}, \d+\.\d{9}, -?\d+\.\d{3}$)", re.MULTILINE | re.ASCII
)
_COLUMNS = ("packet", "tx_s", "rx_s", "latency_us")


def add_packets(run: ParsedRun, text: str, line: int) -> None:
    """Add the packets, up to the first line that is none; a run is complete if all are there.

    `text` begins with the line break before the first packet, which is in `line`.
    """
    end = _NO_ROW.search(text)
    rows = text[1 : end.start() + 1 if end else None]
    empty = [np.empty(0)] * 4
    options = ReadOptions(column_names=_COLUMNS)
    columns = read_csv(pa.py_buffer(rows.encode()), options).columns if rows else []
    packet, tx_s, rx_s, latency_us = [column.to_numpy() for column in columns] or empty
    trip_us = (rx_s - tx_s) * (1e6 if run.percentile_basis == "rtt" else 5e5)
    off = (np.abs(trip_us - latency_us) > 0.0021) | (packet != np.arange(len(packet)))
    good = int(np.argmax(off)) if off.any() else len(packet)
    run.samples_count = good
    run.samples = partial(_samples, tx_s[:good] - tx_s[:1], latency_us[:good])
    count = run.metrics.get("messages_count")
    if run.status != "ok":
        return
    if good != count:
        run.error = f"{good} of {count} packets are readable; line {line + good} is not"
        run.status = "partial"
    elif wrong := _contradiction(run, rx_s[-1] - tx_s[0], np.sort(latency_us)):
        run.status, run.error, run.contradictory = "failed", wrong, True
    if run.error:
        run.metrics, run.percentiles, run.percentile_basis = {}, (), None


def _contradiction(run: ParsedRun, length_s: float, latency_us: Any) -> str | None:
    """Say which statistics do not match the packets; None if all match."""
    basis, n = run.percentile_basis, len(latency_us)
    true = {
        f"{basis}_min_us": latency_us[0],
        f"{basis}_max_us": latency_us[-1],
        f"{basis}_us": latency_us.mean(),
        f"{basis}_stdev_us": latency_us.std(ddof=1) if n > 1 else 0.0,
    }
    # latencies are each rounded from clock ticks: one in ten real logs differs by up to 2 ns
    off = [name for name, x in true.items() if abs(run.metrics.get(name, x) - x) > 0.0026]
    off += [
        f"percentile {p.percentile:g}"
        for p in run.percentiles
        if abs(p.latency_us - latency_us[n - 1 - (p.beyond or 0)]) > 0.0026
    ]
    duration_s = run.metrics.get("duration_measured_s", length_s)
    if not run.metrics.get("lost_count") and abs(duration_s - length_s) > 0.0006:
        off.append("duration")
    return f"statistics that are not of the packets: {', '.join(off)}" if off else None


def _samples(t_s: Any, latency_us: Any) -> Iterator[Columns]:
    if len(t_s):
        yield {"t_s": t_s, "latency_us": latency_us}
