"""The result of reading a tool's log.

Apart from ``experiment.model``, because to import the code that checks a declaration takes longer
than to read thousands of small files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "partial", "failed"]


@dataclass(frozen=True, slots=True)
class Percentile:
    """One point of a latency distribution: its value, and how many observations are beyond it."""

    percentile: float
    latency_us: float
    beyond: int | None = None


Columns = Mapping[str, Sequence[Any]]
"""A small table: column name to values, all of the same length. A sequence may be a numpy array."""


@dataclass(slots=True, kw_only=True)
class ParsedRun:
    """One run as a tool's log reports it.

    Numbers are in the library's units; unknown values are absent, never zero.
    """

    tool: str
    status: Status = "failed"
    """`ok`: every number is valid. `partial`: cut short, with intervals but without metrics.
    `failed`: no numbers."""
    tool_version: str | None = None
    test: str | None = None
    error: str | None = None
    """The tool's own message, or what was missing; set unless the status is `ok`."""
    contradictory: bool = False
    """The log cannot be that of one run: it is damaged, or another process wrote into it."""
    warnings: list[str] = field(default_factory=list)
    metrics: dict[str, Any] = field(default_factory=dict)
    """Metric name (see `netperf_lib.metrics`) to value."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """The settings that the log states: `streams`, `message_bytes`, `protocol`, `direction`,
    `duration_s`, `omit_s`, `tcp_buffer_bytes`, `congestion_control`, `server`, `started_utc` …,
    each only if the log contains it."""
    intervals: Columns = field(default_factory=dict)
    """Columns `stream` (int; -1 is the sum of all), `direction` ("forward" or "reverse": forward
    is client to server), `start_s`, `end_s`, `omitted` (bool), `throughput_bps`,
    `retransmits_count`, `rtt_loaded_us`, `cwnd_bytes`; a missing value is None."""
    percentiles: tuple[Percentile, ...] = ()
    percentile_basis: str | None = None
    """The quantity of the percentiles: `latency_oneway`, `rtt` or `rtt_loaded`."""
    file: str | None = None
    line: int = 1
    """1-based line where this run starts in its file."""
