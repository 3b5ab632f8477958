"""What a tool printed, read.

Apart from ``model``, because whoever only reads logs declares nothing: thousands of small files are read in less time
than it takes to import what checks a declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class Percentile:
    """One point of a latency distribution: its value, and how many observations lie beyond it (None: not known)."""

    percentile: float
    latency_us: float
    beyond: int | None = None


Columns = Mapping[str, Sequence[Any]]
"""A small table: column name to values, all of one length. A sequence may be a numpy array."""


def _no_samples() -> Iterator[Columns]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRun:
    """One run as a tool's log tells it. Numbers are in the library's units; what is not known is absent, never zero."""

    tool: str
    status: Status
    """`ok`: every number stands. `partial`: cut short, intervals kept, no metrics. `failed`: no numbers."""
    tool_version: str | None = None
    test: str | None = None
    error: str | None = None
    """The tool's own message, or what was missing; set unless the status is `ok`."""
    contradictory: bool = False
    """What the log says cannot be of one run: it is damaged, or another process wrote into it."""
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metric name (see `netperf_lib.metrics`) to value."""
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """What the log says was asked for: `streams`, `message_bytes`, `protocol`, `direction`, `duration_s`, `omit_s`,
    `tcp_buffer_bytes`, `congestion_control`, `server`, `port`, `started_utc` …, each only where the log holds it."""
    intervals: Columns = field(default_factory=dict)
    """Columns `stream` (int; -1 is the sum of all), `direction` ("forward" or "reverse": forward is client to
    server), `start_s`, `end_s`, `omitted` (bool), `throughput_bps`, `retransmits_count`, `rtt_loaded_us`,
    `cwnd_bytes`; a missing value is None."""
    percentiles: tuple[Percentile, ...] = ()
    percentile_basis: str | None = None
    """Quantity that the percentiles are of: `latency_oneway`, `rtt` or `rtt_loaded`."""
    samples_count: int = 0
    samples: Callable[[], Iterator[Columns]] = _no_samples
    """Gives the packets in order, in batches with columns `t_s` and `latency_us`; read lazily."""
    file: str | None = None
    line: int = 1
    """1-based line where this run starts in its file."""
