"""Reads the packets of sockperf's ``--full-log``, in memory or in pieces, and checks each row against its times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar

import numpy as np

from ...errors import ParseError
from ..draft import CONTRADICTION
from ..parsed import Columns, ParsedRun

_T = TypeVar("_T")
_BLOCK = 16 << 20
_RULE = b"------------------------------"
_ROW = re.compile(r"\d+, \d+\.\d{9}, \d+\.\d{9}, -?\d+\.\d{3}")
_TIMES = re.compile(r"\d+\.\d{9}, \d+\.\d{9}")


def with_rows(run: ParsedRun, text: str, line: int) -> ParsedRun:
    """Add the packets, up to the first line that is not one; the run is complete if all observations are there."""
    halves = 1 if run.percentile_basis == "rtt" else 2
    lines = text.split("\n")
    rows = list(takewhile(_ROW.fullmatch, lines))
    if not rows and (times := list(takewhile(_TIMES.fullmatch, lines))):
        moments = [list(map(float, r.split(", "))) for r in times]
        rows = [f"{i}, {r}, {(b - a) * 1e6 / halves}" for i, (r, (a, b)) in enumerate(zip(times, moments, strict=True))]
    table = np.array([r.split(", ") for r in rows], dtype=float).reshape(-1, 4)
    good = _readable(*table.T, first=0, halves=halves)
    start = table[0, 1] if good else 0.0
    kept = replace(run, samples_count=good, samples=partial(_in_memory, table[:good, 1] - start, table[:good, 3]))
    wanted = run.metrics.get("messages_count")
    if run.status != "ok":
        return kept
    if good == wanted:
        if wrong := _contradiction(run, table):
            return replace(kept, status="failed", error=wrong, contradictory=True, metrics={}, percentiles=())
        return kept
    if wanted is None or (rows and not _ROW.fullmatch(rows[0])):
        of = "packets, and how many there should be is not told" if wanted is None else f"of {wanted:.0f} packets"
        return replace(kept, warnings=(*run.warnings, f"the log holds {good} {of}"))
    rest = lines[good][:80] if good < len(lines) else ""
    return incomplete(kept, f"{good} of {wanted:.0f} packets are readable; line {line + good} is {rest!r}")


def _contradiction(run: ParsedRun, table: Any) -> str | None:
    """Say which statistic does not match the packets; None if all match."""
    latency_us, metrics, basis = np.sort(table[:, 3]), run.metrics, run.percentile_basis
    n = len(latency_us)
    seconds = metrics.get("duration_measured_s") if not metrics.get("lost_count") else None
    # each is rounded separately from clock ticks: one in ten real logs differs somewhere, by up to 2 ns
    checks: list[tuple[str, float | None, float, float]] = [
        ("the duration in s", seconds, table[-1, 2] - table[0, 1], 0.0021),
        ("the minimum", metrics.get(f"{basis}_min_us"), latency_us[0], 0.0026),
        ("the maximum", metrics.get(f"{basis}_max_us"), latency_us[-1], 0.0026),
        ("the mean", metrics.get(f"{basis}_us"), latency_us.mean(), 0.0026),
        ("the deviation", metrics.get(f"{basis}_stdev_us"), latency_us.std(ddof=1) if n > 1 else 0.0, 0.0026),
    ]
    checks += [
        (f"percentile {p.percentile:g}", p.latency_us, latency_us[n - 1 - (p.beyond or 0)], 0.0026)
        for p in run.percentiles
    ]
    for what, told, found, slack in checks:
        if told is not None and abs(told - found) > slack:
            return f"{CONTRADICTION}{what} is {told:g}, of the packets {found:.3f}"
    return None


def incomplete(run: ParsedRun, error: str) -> ParsedRun:
    """Return the run marked as cut short."""
    return replace(run, status="partial", error=error, metrics={}, percentiles=(), percentile_basis=None)


def _readable(packet: Any, tx_s: Any, rx_s: Any, latency_us: Any, *, first: int, halves: int) -> int:
    """Count the rows before the first damaged one: out of order, or with a latency that its times contradict."""
    off = np.abs((rx_s - tx_s) * (1e6 / halves) - latency_us) > 0.0021
    off |= packet != np.arange(first, first + len(packet))
    return int(np.argmax(off)) if off.any() else len(packet)


def _in_memory(t_s: Any, latency_us: Any) -> Iterator[Columns]:
    if len(t_s):
        yield {"t_s": t_s, "latency_us": latency_us}


def span(chunks: Callable[[], Iterator[bytes]], first: int) -> tuple[int, bytes] | None:
    """Find the end of the last row that begins at or after `first`, and that row; None if other text follows it."""
    place, before = 0, b""
    end: int | None = None
    rest = b""
    for piece in chunks():
        window, offset = before + piece, place - len(before)
        if end is not None:
            rest += piece
        elif (at := window.find(_RULE, max(0, first - offset))) >= 0:
            end, rest, before = offset + at, window[at + len(_RULE) :], window[:at]
        if rest.strip():
            return None
        if end is None:
            before = window[-256:]
        place += len(piece)
    if end is None:  # cut: the last line may not be whole
        end = place - (len(before) - before.rfind(b"\n") - 1)
        before = before[: before.rfind(b"\n") + 1]
    last = before.rstrip(b"\n").rpartition(b"\n")[2]
    return end, last if _ROW.fullmatch(last.decode("ascii", errors="replace")) else b""


def streamed(chunks: Callable[[], Iterator[bytes]], first: int, end: int, halves: int, line: int) -> Iterator[Columns]:
    """Yield the rows between two offsets in batches; raise `ParseError` at the first damaged one."""
    count, origin = 0, 0.0
    for columns, whole in _ahead(_table, _blocks(chunks, first, end)):
        good = _readable(*columns, first=count, halves=halves)
        if good:
            tx_s, latency_us = columns[1][:good], columns[3][:good]
            origin = origin if count else tx_s[0]
            yield {"t_s": tx_s - origin, "latency_us": latency_us}
        count += good
        if good < len(columns[0]) or not whole:
            raise ParseError("a packet's row is damaged; measure again, or cut the file there", line=line + count)


def _ahead(work: Callable[[bytes], _T], items: Iterator[bytes]) -> Iterator[_T]:
    """Map `work` over `items`, one item ahead of the caller."""
    with ThreadPoolExecutor(1) as thread:
        following = (thread.submit(work, item) for item in items)
        pending = next(following, None)
        while pending is not None:
            now, pending = pending, next(following, None)
            yield now.result()


def _table(block: bytes) -> tuple[list[Any], bool]:
    """Read rows into columns: packet, time sent, time received, latency; False if a line is not a row."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ReadOptions, read_csv

    names = ReadOptions(column_names=["packet", "tx_s", "rx_s", "latency_us"])
    types = ConvertOptions(column_types=dict.fromkeys(names.column_names, pa.float64()) | {"packet": pa.int64()})
    try:
        return [c.combine_chunks().to_numpy() for c in read_csv(pa.py_buffer(block), names, None, types).columns], True
    except (pa.ArrowInvalid, ValueError):  # slowly, up to the damaged row
        rows = takewhile(_ROW.fullmatch, block.decode("ascii", errors="replace").split("\n"))
        return list(np.array([r.split(", ") for r in rows], dtype=float).reshape(-1, 4).T), False


def _blocks(chunks: Callable[[], Iterator[bytes]], first: int, end: int) -> Iterator[bytes]:
    """Cut the bytes between two offsets into large blocks of whole lines."""
    place, waiting, size = 0, list[bytes](), 0
    for piece in chunks():
        part = piece[max(0, first - place) : max(0, end - place)]
        place += len(piece)
        cut = part.rfind(b"\n") + 1
        if size + len(part) >= _BLOCK and cut:
            yield b"".join((*waiting, part[:cut]))
            part, waiting, size = part[cut:], [], 0
        waiting.append(part)
        size += len(part)
        if place >= end:
            break
    if block := b"".join(waiting):
        yield block
