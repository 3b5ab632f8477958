"""Every metric once.

Its name, unit, direction and label, and the one place where units are converted.

A metric is named ``<quantity>[_<statistic>]_<unit>``. One unit per quantity everywhere:
microseconds, bits per second (decimal), bytes, seconds. A missing value is null, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from .errors import UsageError, did_you_mean

Better = Literal["higher", "lower"]
Basis = Literal["one-way", "one-way under load", "round trip", "round trip under load"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured quantity."""

    name: str
    """Column name in the tables, ``<quantity>[_<statistic>]_<unit>``."""
    label: str
    """What a reader sees on an axis, without the unit."""
    unit: str
    """Unit of the stored numbers: ``us``, ``bps``, ``bytes``, ``s``, ``count``, ``ratio``,
    ``per_s``."""
    better: Better | None
    """Which direction is good for the user; None where neither is."""
    basis: Basis | None = None
    """For latencies: which way was timed. Different bases are never merged."""


_STATISTICS = {
    "": "mean",
    "min": "minimum",
    "p25": "25th percentile",
    "p50": "median",
    "p75": "75th percentile",
    "p90": "90th percentile",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "p999": "99.9th percentile",
    "p9999": "99.99th percentile",
    "p99999": "99.999th percentile",
    "max": "maximum",
    "stdev": "standard deviation",
}
_LATENCIES: dict[str, tuple[str, Basis]] = {
    "latency_oneway": ("One-way latency", "one-way"),
    "latency_oneway_loaded": ("One-way latency under load", "one-way under load"),
    "rtt": ("Round-trip time", "round trip"),
    "rtt_loaded": ("Round-trip time under load", "round trip under load"),
}


_LABELS = {
    "throughput_bps": "Throughput at the receiver",
    "throughput_sent_bps": "Throughput at the sender",
    "throughput_reverse_bps": "Reverse throughput at the receiver",
    "throughput_reverse_sent_bps": "Reverse throughput at the sender",
    "transferred_bytes": "Data received",
    "sent_bytes": "Data sent",
    "transferred_reverse_bytes": "Data received, reverse",
    "sent_reverse_bytes": "Data sent, reverse",
    "retransmits_count": "Retransmitted segments",
    "retransmits_reverse_count": "Retransmitted segments, reverse",
    "cwnd_bytes": "Congestion window, all streams, last",
    "cwnd_max_bytes": "Congestion window, all streams, largest",
    "jitter_us": "Jitter (RFC 1889)",
    "jitter_reverse_us": "Jitter (RFC 1889), reverse",
    "lost_count": "Lost datagrams",
    "lost_ratio": "Share of datagrams lost",
    "lost_reverse_count": "Lost datagrams, reverse",
    "unaccounted_count": "Datagrams neither received nor known to be lost",
    "unaccounted_reverse_count": "Datagrams neither received nor known to be lost, reverse",
    "lost_reverse_ratio": "Share of datagrams lost, reverse",
    "packets_count": "Datagrams or packets",
    "packets_reverse_count": "Datagrams or packets, reverse",
    "out_of_order_count": "Datagrams out of order",
    "duplicated_count": "Datagrams received twice",
    "messages_count": "Messages",
    "message_rate_per_s": "Message rate",
    "transaction_rate_per_s": "Transaction rate",
    "connect_us": "TCP connect time",
    "cpu_client_ratio": "CPU used at the client",
    "cpu_server_ratio": "CPU used at the server",
    "cpu_client_per_gbit_s": "CPU time per Gbit at the client",
    "cpu_server_per_gbit_s": "CPU time per Gbit at the server",
    "duration_measured_s": "Measured duration",
}
"""What a reader sees of a metric that is no latency."""
_UNITS = ("us", "bps", "bytes", "count", "ratio", "per_s", "s")
_BETTER: dict[str, Better] = {
    "throughput": "higher",
    "message": "higher",
    "transaction": "higher",
    "retransmits": "lower",
    "jitter": "lower",
    "lost": "lower",
    "out": "lower",
    "duplicated": "lower",
    "connect": "lower",
    "cpu": "lower",
}
"""Which direction is good, by the first word of a name."""


def _registry() -> Iterator[Metric]:
    for quantity, (label, basis) in _LATENCIES.items():
        for statistic, word in _STATISTICS.items():
            name = "_".join(filter(None, (quantity, statistic, "us")))
            title = f"{label}, {word}"
            if not statistic:
                title = label
            yield Metric(name, title, "us", "lower", basis)
    for name, label in _LABELS.items():
        unit = next(unit for unit in _UNITS if name.endswith(f"_{unit}"))
        yield Metric(name, label, unit, _BETTER.get(name.partition("_")[0]))


METRICS: dict[str, Metric] = {m.name: m for m in _registry()}

MARGIN = 0.05
"""Ratios from 1/(1 + margin) to 1 + margin count as equivalent, unless another margin is
declared."""
ALPHA = 0.05
"""Share of reports that may contain a false verdict, unless another one is declared."""


def rounds_required(alpha: float = ALPHA, family: int = 1, *, paired: bool = True) -> int:
    """Return the smallest number of rounds, or of runs a side, that makes a verdict possible.

    With n rounds an exact paired test cannot reach a p below 2 ** (1 - n). Without common rounds
    the Mann-Whitney test of n runs a side cannot reach one below 2 / C(2n, n). `family` contrasts
    share alpha.

    Examples
    --------
    >>> npl.analysis.rounds_required(0.05, family=10)
    9
    >>> npl.analysis.rounds_required(0.05, family=10, paired=False)
    6
    """
    if paired:
        return max(6, math.ceil(math.log2(2 * family / alpha)))
    return next(n for n in count(2) if 2 / math.comb(2 * n, n) <= alpha / family)


HEADLINES = ("latency_oneway_us", "rtt_us", "throughput_bps")
"""Metrics that a question tries first."""
PAGES = (*HEADLINES, "throughput_sent_bps", "transaction_rate_per_s")
"""Metrics that have pages of their own, in the order of a report; the sender's throughput where
no other is known."""
COMPARED = tuple(
    m for m in METRICS if m in {*PAGES, "latency_oneway_loaded_us", "rtt_p99_us"}
)
"""Metrics that are compared between two measurements by default, if both sides have them."""

EVIDENCE = tuple(
    f"limit_{name}"
    for name in (
        "connections bps busy_ratio receive_window_ratio send_buffer_ratio application_ratio "
        "sender_on_ratio sender_waiting_ratio receiver_on_ratio receiver_waiting_ratio"
    ).split()
)
"""Columns of evidence of what limits a transfer: the kernel's account of its connections,
sampled at both ends.

Ratios are shares of the time after slow start: the busiest thread on a processor, waiting for one;
limited by the receive window or the send buffer; of the samples in which the application was the
limit.
"""


def metric(name: str) -> Metric:
    """Look a metric up by name.

    The UsageError for an unknown one suggests the nearest known ones.
    """
    if name not in METRICS:
        raise UsageError(unknown_metric(name))
    return METRICS[name]


def unknown_metric(name: str) -> str:
    """Say that a metric does not exist, and which ones are near."""
    having = [known for known in METRICS if name in known.split("_")][:3]
    near = f"did you mean {' or '.join(having)}?" if having else ""
    near = near or did_you_mean(name, METRICS, count=3, cutoff=0.4).rstrip()
    near = near or f"for example {', '.join(HEADLINES)}"
    return f"unknown metric {name[:60]!r}; {near}"


_US = {
    "ns": 1e-3,
    "us": 1.0,
    "µs": 1.0,
    "usec": 1.0,
    "ms": 1e3,
    "msec": 1e3,
    "s": 1e6,
    "sec": 1e6,
    "min": 60e6,
}
_PREFIX = {
    "": 1.0,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def to_us(value: float, unit: str) -> float:
    """Convert a time in `unit` (ns, us, ms, s, …) to microseconds.

    ValueError where the unit is not known.
    """
    if unit not in _US:
        raise ValueError(f"unknown time unit {unit!r} (known: {', '.join(_US)})")
    return value * _US[unit]


def to_bytes(value: float, prefix: str) -> float:
    """Convert an amount of data to bytes.

    `prefix` is K, M, G, T (decimal) or Ki, Mi, Gi, Ti (binary).
    """
    key = prefix[:1].upper() + prefix[1:]
    if key not in _PREFIX:
        raise ValueError(
            f"unknown prefix {prefix!r} (known: {', '.join(p for p in _PREFIX if p)})"
        )
    return value * _PREFIX[key]


def to_bps(value: float, prefix: str, per: Literal["bit", "byte"]) -> float:
    """Convert a rate to bits per second; prefixes as in `to_bytes`."""
    return to_bytes(value, prefix) * {"bit": 1, "byte": 8}[per]


WRITTEN: dict[str, tuple[tuple[str, float], ...]] = {
    "us": (("s", 1e6), ("ms", 1e3), ("µs", 1.0)),
    "bps": (
        ("Tbit/s", 1e12),
        ("Gbit/s", 1e9),
        ("Mbit/s", 1e6),
        ("kbit/s", 1e3),
        ("bit/s", 1.0),
    ),
    "bytes": (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("B", 1.0)),
    "s": (("s", 1.0),),
    "per_s": (("/s", 1.0),),
}
"""Units that people read, the largest first, and how many of the stored ones each is."""


def format_value(value: float | None, unit: str, digits: int = 3) -> str:
    """Write a stored number the way network engineers do: ``58.2 µs``, ``7.55 Gbit/s``, ``64 MiB``.

    A missing value is an en dash.
    """
    if value is None or math.isnan(value):
        return "–"
    sizes = (("%", 0.01),) if unit == "ratio" else WRITTEN.get(unit, (("", 1.0),))
    fitting = [size for size in sizes if abs(value) >= size[1]]
    suffix, factor = [*fitting, sizes[-1]][0]
    scaled = value / factor
    text = f"{scaled:.{digits}g}"
    # three digits say enough of a rate, but 1,234,567 messages must not turn into 1.23e+06
    if abs(scaled) >= 10**digits - 0.5:
        text = f"{scaled:,.0f}"
    return f"{text} {suffix}".rstrip()


def format_span(low: float, high: float, unit: str, digits: int = 3) -> str:
    """Write two numbers, with the unit once where they share it.

    ``405 to 420 µs``, ``900 µs to 1.1 ms``.
    """
    first, last = (format_value(v, unit, digits) for v in (low, high))
    same = first.partition(" ")[2] == last.partition(" ")[2]
    return f"{first.partition(' ')[0] if same else first} to {last}"


def plural(n: int, noun: str) -> str:
    """Count things: ``1 round``, ``7 rounds``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def in_words(names: Iterable[str]) -> str:
    """Return the names as a list in a sentence, each once: ``ppg, same-zone and cross-zone``."""
    once = list(dict.fromkeys(names))
    return " and ".join([", ".join(once[:-1]), once[-1]] if len(once) > 1 else once)
