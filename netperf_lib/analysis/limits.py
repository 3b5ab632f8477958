"""What limits a transfer: the evidence of one run in, the cause and what raising it would bring out.

The rules were fitted to runs in which every cause had been planted, and judged by others (see "What holds a transfer
back" in the documentation). They are tried in order, for a later one would misread what an earlier one explains: a slow
receiver closes its window, and a window fills the queue of a link. Where none holds the answer is *not known*.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Any

import pandas as pd

from ..experiment.factors import plain, read_rate
from ..experiment.placements import GATEWAYS
from ..metrics import format_value, in_words, plural
from .comparison import Family
from .observe import Data, Observations, observe
from .runs import ok_runs, runs_of
from .tables import Table
from .words import UNKNOWN, Headline, Words, capital

WINDOWS = {
    "receive window": "the receiver's net.ipv4.tcp_rmem",
    "send buffer": "the sender's net.ipv4.tcp_wmem",
    "window": "the TCP buffers on both ends",
}
"""Causes that are a window, and what bounds each."""
KIND_OF_CAUSE = {
    **dict.fromkeys(WINDOWS, "window"),
    "sender's CPU": "cpu",
    "receiver's CPU": "cpu",
}
"""Causes that differ in their host or buffer only, under one word."""

QUEUE_US, QUEUE = 1000.0, 0.2
"""A standing queue raises the round-trip time by more than both."""
CLEAR_US, CLEAR = 700.0, 0.08
"""There is none if it is raised by less than the larger."""
FULL_CORE, ON_CORE = 0.93, 0.1
"""Share of the time on a processor or waiting for one, and of it on one, from which on the processor is the limit."""
IDLE = 0.8
"""Share of the time on a processor or waiting for one, up to which a process has time to spare."""
HELD, SOME = 0.5, 0.2
"""Share of the time in which a window or a buffer was the limit: clearly; partly."""
OF_RATE, OF_CAP = 0.97, 0.95
"""Shares of the requested rate, and of an advertised bandwidth, that count as reached."""
LOST, LOST_IN_QUEUE = 4e-4, 3e-3
"""Share of segments sent again that makes loss the limit: without a queue; although one is possible."""
DELIVERED = 0.75
"""Share of the rate at which a path that is always busy delivers; single samples of that rate are bursts."""
FULL_BUFFER = (0.6, 1.3)
"""Share of the send buffer in flight when it is full, whose kernel counts overhead in it."""
IN_FLIGHT = {"receive window": 0.94, "send buffer": 0.83}
"""Share of a window that is in flight when it is the limit, measured."""
PAYLOAD = 0.65
"""Largest share of a receive buffer that holds data."""
DISPROVED = 0.8
"""A limit that settings predict below this share of the rate that was reached is none."""
CLOSE = 1.3
"""Limits within this factor of each other act together."""
MOST = 0.6
"""Share of the runs of a condition that name a cause, from which on it is the condition's."""
STREAMS = 16
"""Most parallel streams that are recommended."""
SEGMENT = 1448
"""Payload of a segment where the log does not tell, bytes."""
NAMED = 3
"""Conditions up to which a cause names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one transfer; bytes, bits per second, microseconds; shares of its time after slow start.

    ``None`` is not known. Without `receive_window_share` there were no samples: only the log speaks.
    """

    bps: float
    streams: float = 1
    asked_bps: float | None = None
    """The requested rate, all streams."""
    cap_bps: float | None = None
    """The advertised bandwidth."""
    rtt_us: float | None = None
    """Under load: the median."""
    rtt_min_us: float | None = None
    """Of the idle path: the smallest of the connection, or from another measurement."""
    receive_window_share: float | None = None
    send_buffer_share: float | None = None
    busy_share: float | None = None
    application_share: float | None = None
    """Of the samples in which the kernel says that the application was the limit."""
    unsent_none_share: float | None = None
    sent_again_share: float | None = None
    sent_again_count: float | None = None
    lost_share: float | None = None
    """Share of datagrams lost; None: the transfer was no test of datagrams, or the log counts none."""
    delivery_bps: float | None = None
    bbr_bps: float | None = None
    window_bytes: float | None = None
    """The receiver's window, largest, of one stream."""
    congestion_bytes: float | None = None
    """The congestion window of one stream."""
    receive_buffer_bytes: float | None = None
    unread_bytes: float | None = None
    sender: tuple[float, float] | None = None
    """Of the sending process: shares on a processor, and waiting for one."""
    receiver: tuple[float, float] | None = None
    receiver_core: tuple[float, float] | None = None
    """Of the receiver's fullest core: busy share, and share in soft interrupts."""
    receive_max_bytes: float | None = None
    """The largest receive buffer that the settings allow."""
    send_max_bytes: float | None = None
    buffer_set: bool = False
    """Both buffers were set to one size, so that they are raised together."""

    @property
    def base(self) -> float:
        """Round-trip time of the idle path."""
        return self.rtt_min_us or 0.0

    @property
    def queue(self) -> float:
        """By how much load raises the round-trip time."""
        return (self.rtt_us or self.base) - self.base

    @property
    def standing(self) -> bool:
        """Whether a queue stands on the path."""
        return self.queue >= max(QUEUE_US, QUEUE * self.base)

    @property
    def clear(self) -> bool:
        """Whether there is no queue."""
        return self.queue < max(CLEAR_US, CLEAR * self.base)

    @property
    def idle(self) -> bool:
        """Whether both processes have time to spare."""
        return max(sum(self.sender or ()), sum(self.receiver or ())) < IDLE

    @property
    def flight(self) -> float:
        """Bytes in flight of one stream (Little: rate times round-trip time)."""
        return self.bps / self.streams / 8e6 * (self.rtt_us or 0)

    @property
    def filled(self) -> float:
        """Share of the receiver's window that is in flight."""
        return self.flight / self.window_bytes if self.window_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What limits a transfer.

    Attributes
    ----------
    causes : tuple of str
        ``link``, ``receive window``, ``send buffer``, ``window`` (either), ``loss``, ``sender's CPU``,
        ``receiver's CPU``, ``rate``; several where they act together, the first one first; empty if not known.
    share : float or None
        How full the first one is: of the cap, the core, the time, the requested rate.
    figure : str
        How far the first one is: ``4 MiB over 20 ms``, ``98 % of the advertised 8 Gbit/s``.
    reason : str
        The evidence.
    ceiling_bps : float or None
        Raising the first cause brings at most this; None where no further limit is known.
    next : str or None
        The cause that holds then.
    """

    causes: tuple[str, ...] = ()
    share: float | None = None
    figure: str = ""
    reason: str = ""
    ceiling_bps: float | None = None
    next: str | None = None

    @property
    def cause(self) -> str:
        """The first cause in one word: link, window, loss, cpu, rate, or not known."""
        return KIND_OF_CAUSE.get(self.causes[0], self.causes[0]) if self.causes else UNKNOWN

    @property
    def name(self) -> str:
        """The causes in order, as a table shows them: ``receive window, then link``."""
        return ", then ".join(self.causes) or UNKNOWN


def held_back(e: Evidence) -> Limit:
    """Return what limits a transfer.

    Examples
    --------
    >>> held_back(Evidence(bps=7.6e9, cap_bps=8e9)).causes
    ('link',)
    >>> run = Evidence(bps=1e9, receive_window_share=0.8, send_buffer_share=0, window_bytes=2**21,
    ...                rtt_us=16_000, rtt_min_us=16_000, cap_bps=4e9)
    >>> limit = held_back(run)
    >>> limit.cause, limit.ceiling_bps
    ('window', 4000000000.0)
    """
    sampled = e.receive_window_share is not None
    rules = (_declared, _processor, _window, _path) if sampled else (_declared, _log)
    first = next(filter(None, (rule(e) for rule in rules)))
    if not first.causes:
        return first
    cause, causes = first.causes[0], first.causes
    first = replace(first, figure=_figure(e, cause))
    # the run itself disproves a limit well below what it reached
    others = {k: v for k, v in roofs(e).items() if k != cause and v >= DISPROVED * e.bps}
    if cause == "window" or (e.buffer_set and cause in WINDOWS):
        others = {k: v for k, v in others.items() if k not in WINDOWS}
    if not others:
        return first
    following = min(others, key=others.__getitem__)
    ceiling = max(others[following], e.bps)
    if following not in causes and ceiling < CLOSE * e.bps and sampled:
        causes = (*causes, following)
    return replace(first, causes=causes, ceiling_bps=ceiling, next=following)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _bytes(size: float | None) -> str:
    return format_value(size, "bytes")


def _us(time: float | None) -> str:
    return format_value(time, "us")


def _figure(e: Evidence, cause: str) -> str:
    """How far a cause is, in a few words."""
    if cause == "link" and e.cap_bps:
        return f"{_percent(e.bps / e.cap_bps)} of the advertised {format_value(e.cap_bps, 'bps')}"
    if cause == "loss":
        return f"{100 * (e.sent_again_share or 0):.2f} % retransmitted"
    both = [size for size in (e.receive_max_bytes, e.send_max_bytes) if size]
    size = {"receive window": e.receive_max_bytes, "send buffer": e.send_max_bytes}.get(cause)
    size = size or min(both, default=e.window_bytes)
    rtt = e.rtt_min_us or e.rtt_us
    return f"{_bytes(size)} over {_us(rtt)}" if cause in WINDOWS and size and rtt else ""


def roofs(e: Evidence) -> dict[str, float]:
    """Return the rate that each limit allows, bit/s, where settings or the run itself tell."""
    rates = {"link": e.cap_bps or 0.0, "rate": e.asked_bps or 0.0}
    if e.rtt_min_us:
        full = 0.5
        if e.window_bytes and e.receive_buffer_bytes:
            full = e.window_bytes / e.receive_buffer_bytes
        share = IN_FLIGHT["receive window"] * min(full, PAYLOAD)
        per_window = 8e6 * e.streams / e.rtt_min_us
        rates["receive window"] = share * (e.receive_max_bytes or 0.0) * per_window
        # what was in flight, even if it stood in a queue, was in the buffer: it holds that much at least
        sent = e.send_max_bytes or 0.0
        least = min(e.flight, FULL_BUFFER[1] * sent)
        rates["send buffer"] = max(IN_FLIGHT["send buffer"] * sent, least) * per_window
    for cause, process in (("sender's CPU", e.sender), ("receiver's CPU", e.receiver)):
        if process and process[0] > 0.02:
            rates[cause] = e.bps / (sum(process) if sum(process) > FULL_CORE else process[0])
    return {cause: rate for cause, rate in rates.items() if rate}


def _declared(e: Evidence) -> Limit | None:
    """What the test asked for, and what the link is said to carry."""
    share = e.bps / e.asked_bps if e.asked_bps else 0.0
    waits = max(e.receive_window_share or 0, e.send_buffer_share or 0)
    paced = (e.application_share or 0) >= HELD and waits < SOME and e.idle
    if share >= OF_RATE or (share >= 0.9 and paced):
        reason = f"{_percent(share)} of the rate that the test asked for"
        return Limit(causes=("rate",), share=share, reason=reason)
    if e.cap_bps and e.bps >= OF_CAP * e.cap_bps:
        share = e.bps / e.cap_bps
        reason = f"{_percent(share)} of {format_value(e.cap_bps, 'bps')} advertised"
        return Limit(causes=("link",), share=share, reason=reason)
    return None


def _processor(e: Evidence) -> Limit | None:
    """A process that is always on a processor or waiting for one, or data that nobody reads."""
    for host, process in (("receiver", e.receiver), ("sender", e.sender)):
        if process and sum(process) >= FULL_CORE and process[0] >= ON_CORE:
            reason = f"{host}'s process {_percent(process[0])} of the time on a processor"
            reason += f", {_percent(process[1])} waiting for one" if process[1] >= 0.01 else ""
            return Limit(causes=(f"{host}'s CPU",), share=min(1.0, sum(process)), reason=reason)
    busy, soft = e.receiver_core or (0.0, 0.0)
    if busy >= 0.97 and soft >= 0.6:
        reason = (
            f"a core of the receiver {_percent(busy)} busy, {_percent(soft)} in soft interrupts"
        )
        return Limit(causes=("receiver's CPU",), share=busy, reason=reason)
    unread, load = e.unread_bytes or 0, sum(e.receiver or ())
    waits = unread * e.streams >= 0.3 * (e.window_bytes or 0) and unread > 60_000
    if (e.receive_window_share or 0) >= HELD and waits:
        reason = f"{_bytes(unread)} wait for the receiving program, "
        reason += f"{_percent(load)} on or waiting for a processor"
        causes = ("receiver's CPU",) if load >= 0.85 else ()
        return Limit(causes=causes, share=load, reason=reason)
    return None


def _window(e: Evidence) -> Limit | None:
    """A window or a buffer that is full; filled through a queue, it is only a larger queue, and the link holds."""
    receive, send = e.receive_window_share or 0.0, e.send_buffer_share or 0.0
    path = f"round-trip time {_us(e.rtt_us)}, {_us(e.rtt_min_us)} when idle"
    if receive >= HELD or (receive >= SOME and e.filled >= 0.8):
        reason = f"{_percent(receive)} of the time limited by a receive window of "
        reason += f"{_bytes(e.window_bytes)}; {path}"
        if e.standing:
            return Limit(causes=("link", "receive window"), reason=reason)
        alone = e.clear or e.queue < 0.12 * e.base
        causes = ("receive window",) if alone else ("receive window", "link")
        return Limit(causes=causes, share=receive, reason=reason)
    application, none = e.application_share or 0.0, e.unsent_none_share or 0.0
    busy = 1.0 if e.busy_share is None else e.busy_share
    pauses = application >= 0.6 and none >= 0.5 and e.idle
    flight = e.flight / e.send_max_bytes if e.send_max_bytes else 0.0
    full = FULL_BUFFER[0] <= flight <= FULL_BUFFER[1]
    if send >= HELD or (send >= SOME and (pauses or full)):
        reason = f"{_percent(send)} of the time limited by the send buffer; {path}"
        if e.standing and e.delivery_bps and e.bps >= 0.9 * e.delivery_bps:
            return Limit(causes=("link", "send buffer"), reason=reason)
        return Limit(causes=("send buffer",), share=send, reason=reason)
    # over a long path the kernel counts little of that time: the program writes as soon as a part is acknowledged
    lossless = (e.sent_again_share or 0) < LOST
    if application >= 0.6 and e.idle and e.clear and lossless and full:
        reason = (
            f"{_percent(flight)} of the send buffer of {_bytes(e.send_max_bytes)} in flight; {path}"
        )
        return Limit(causes=("send buffer",), share=min(1.0, flight), reason=reason)
    delivers = e.delivery_bps and e.bps >= DELIVERED * e.delivery_bps
    if pauses and e.standing and busy >= 0.95 and delivers:
        return Limit(
            causes=("link",), reason=f"a standing queue although all data are sent at once; {path}"
        )
    if pauses or busy < 0.9:
        reason = f"nothing was left to send {_percent(max(none, 1 - busy))} of the time"
        return Limit(reason=f"{reason}, though neither a window nor a processor is full")
    if max(receive, send) >= SOME:
        reason = f"{_percent(receive)} of the time limited by the receive window, "
        return Limit(reason=f"{reason}{_percent(send)} by the send buffer")
    return None


def _path(e: Evidence) -> Limit:
    """A queue on the path, or loss without one."""
    again = e.sent_again_share or 0.0
    lost = f"{100 * again:.2f} % retransmitted"
    reason = f"a queue of {_us(e.queue)} on {_us(e.base)}, {lost}"
    likely = e.queue >= max(0.8 * QUEUE_US, 0.1 * e.base) and again < 1e-3
    if e.standing or likely:
        return Limit(causes=("link",), reason=reason)
    if e.bbr_bps and 0.85 <= e.bps / e.bbr_bps <= 1.1 and e.filled < 0.7:
        reason = f"BBR measures {format_value(e.bbr_bps, 'bps')} on the path"
        return Limit(causes=("link",), reason=reason)
    if again >= LOST and (e.sent_again_count or 0) >= 3 and (e.clear or again >= LOST_IN_QUEUE):
        reason = f"{lost}, no queue: loss, or a cap without one"
        return Limit(causes=("loss",), share=again, reason=reason)
    return Limit(reason=reason)


def _log(e: Evidence) -> Limit:
    """The same from the log and the settings alone: windows, link and loss only where the idle path is known."""
    for cause, process in (("receiver's CPU", e.receiver), ("sender's CPU", e.sender)):
        if process and process[0] >= FULL_CORE:
            reason = f"{_percent(process[0])} of a core, says the log"
            return Limit(causes=(cause,), share=min(1.0, process[0]), reason=reason)
    if e.lost_share is not None:
        lost = f"{_percent(e.lost_share)} of its datagrams were lost"
        return Limit(reason=f"{lost}; no window limits datagrams")
    if not e.rtt_min_us:
        why = "the round-trip time of the idle path is not known"
        return Limit(reason=f"the log alone does not tell: {why}")
    e = replace(e, rtt_us=e.rtt_us or e.rtt_min_us)
    rise, again = e.queue / e.base, e.sent_again_share or 0.0
    flight, window, congestion = e.flight, e.window_bytes, e.congestion_bytes
    reason = f"{_bytes(flight)} in flight a stream, round-trip time {_us(e.rtt_us)}"
    smaller = window and congestion and window <= 0.9 * congestion
    if smaller and 0.8 <= e.filled <= 1.1 and rise < QUEUE:
        return Limit(causes=("receive window",), share=min(1.0, e.filled), reason=reason)
    sizes = [size for size in (e.receive_max_bytes, e.send_max_bytes) if size]
    share = flight / min(sizes) if len(sizes) == 2 else 0.0
    if 0.5 <= share <= 0.9 and rise < 0.1 and again < 1e-4:
        of = f"{reason}, {_percent(share)} of the buffer of {_bytes(min(sizes))}"
        return Limit(causes=("window",), share=share, reason=of)
    paced = congestion and 0.75 <= flight / congestion <= 1.25
    if paced and rise >= 0.25:
        return Limit(causes=("link",), reason=f"{reason}, {_us(e.rtt_min_us)} when idle: a queue")
    if paced and again >= 1e-3 and rise < 0.1:
        lost = f"{reason}, {100 * again:.2f} % retransmitted, no queue"
        return Limit(causes=("loss",), share=again, reason=lost)
    return Limit(reason=reason)


# -- from rows of the table of runs ------------------------------------------------------------------------------


def _number(row: Mapping[str, Any], *names: str) -> float | None:
    """The first of these columns that holds a number."""
    values = (plain(row.get(name)) for name in names)
    return next(
        (float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)), None
    )


def streams_of(row: Mapping[str, Any]) -> float:
    """Return the parallel streams that gave a run's throughput: where another tool filled the path, those of the load.

    Examples
    --------
    >>> streams_of({"tool": "sockperf", "streams": 1, "during": "iperf3 tcp ×4"})
    4.0
    """
    load = re.match(r"(\S+) \S+ ×(\d+)", str(plain(row.get("during"))))
    of_load = float(load[2]) if load and load[1] != row.get("tool") else None
    return _number(row, "limit_connections") or of_load or _number(row, "streams") or 1.0


SAMPLED = (
    "receive_window_share send_buffer_share busy_share application_share unsent_none_share sent_again_share "
    "sent_again_count delivery_bps bbr_bps rtt_us rtt_min_us window_bytes receive_buffer_bytes unread_bytes"
).split()
"""What samples of the connections tell: fields of `Evidence`, and columns ``limit_…`` of the runs."""
PROCESSES = {
    "sender": ("sender_on", "sender_waiting"),
    "receiver": ("receiver_on", "receiver_waiting"),
    "receiver_core": ("receiver_core", "receiver_softirq"),
}


def evidence_of(row: Mapping[str, Any], *, rtt_idle_us: float | None = None) -> Evidence | None:
    """Return what is known of one run; None if it has no throughput.

    Parameters
    ----------
    row : mapping
        A row of the table of runs.
    rtt_idle_us : float, optional
        Round-trip time of the idle path, for a run without samples of its connections.
    """
    bps = _number(row, "limit_bps") or _number(row, "throughput_bps", "throughput_sent_bps")
    if not bps:
        return None
    streams = streams_of(row)
    rate = read_rate(row["bitrate"]) if plain(row.get("bitrate")) is not None else None
    known: dict[str, Any] = {
        "bps": bps,
        "streams": streams,
        "asked_bps": rate * streams if rate else None,
        "cap_bps": _number(row, "advertised_bps"),
        "receive_max_bytes": _number(row, "limit_receive_max_bytes"),
        "send_max_bytes": _number(row, "limit_send_max_bytes"),
        "buffer_set": _number(row, "tcp_buffer_bytes") is not None,
    }
    if _number(row, "limit_receive_window_ratio") is not None:
        for name in SAMPLED:
            known[name] = _number(row, f"limit_{name.replace('_share', '_ratio')}")
        for name, columns in PROCESSES.items():
            both = [_number(row, f"limit_{column}_ratio") for column in columns]
            known[name] = None if None in both else tuple(both)
        return Evidence(**known)
    hosts = ("client", "server")[:: -1 if row.get("direction") == "reverse" else 1]
    for name, host in zip(("sender", "receiver"), hosts, strict=True):
        used = _number(row, f"cpu_{host}_ratio")
        known[name] = None if used is None else (used, 0.0)
    again = _number(row, "retransmits_count")
    sent = _number(row, "sent_bytes") or _number(row, "transferred_bytes")
    congestion = _number(row, "cwnd_bytes")
    return Evidence(
        rtt_us=_number(row, "rtt_loaded_us"),
        rtt_min_us=rtt_idle_us,
        sent_again_share=again / max(1.0, sent / SEGMENT) if again is not None and sent else None,
        sent_again_count=again,
        lost_share=_number(row, "lost_ratio"),
        congestion_bytes=congestion / streams if congestion else None,
        **known,
    )


def of_run(row: Mapping[str, Any], *, rtt_idle_us: float | None = None) -> Limit:
    """Return what limits one run of throughput; the parameters are those of `evidence_of`."""
    evidence = evidence_of(row, rtt_idle_us=rtt_idle_us)
    return held_back(evidence) if evidence else Limit(reason="there is no throughput")


def _idle_rtt(runs: pd.DataFrame) -> Callable[[Mapping[str, Any]], float | None]:
    """Return the round-trip time of a run's idle path: measured between its hosts, else on its kind of path."""
    idle = ok_runs(runs)
    idle = idle[idle["during"].isna()] if "during" in idle else idle
    values: dict[tuple[Hashable, ...], float] = {}
    keys = [k for k in (("client", "server"), ("placement", "accelerated")) if {*k} <= {*runs}]
    for name, factor in (("latency_oneway_us", 2.0), ("rtt_us", 1.0), ("rtt_p50_us", 1.0)):
        measured = idle[idle[name].notna()] if name in idle else idle[:0]
        for key in keys:
            for level, rows in measured.groupby(list(key), dropna=False):
                values[key, *map(plain, level)] = factor * float(rows[name].median())

    def of(row: Mapping[str, Any]) -> float | None:
        levels = ((key, *(plain(row.get(c)) for c in key)) for key in keys)
        known = (values[x] for x in levels if x in values and {*x[1:]} != {None})
        return next(known, None)

    return of


# -- conditions --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What limits the throughput of a condition.

    Attributes
    ----------
    condition : str
        Its name.
    levels : mapping
        Factor to level.
    bps : float
        Median throughput of its runs, bit/s.
    limit : Limit
        The limit of the median run among those with this cause; without causes if the runs do not agree.
    streams : float
        Parallel streams.
    runs, agree : int
        Complete runs, and how many of them have this cause.
    sampled : bool
        Whether the connections were sampled while they ran; otherwise logs and settings are the only evidence.
    link_known : bool
        Whether the bandwidth of the link is known.
    times : mapping
        Shares of the time that the sender waited for the receive window, the send buffer or the program, and the rest,
        which is the path's: medians over the runs. Empty without samples.
    roofs : mapping
        The rate that each limit allows, bit/s, as far as it follows from the settings and the median run.
    notice : str or None
        The caveat to show with these data.
    """

    condition: str
    levels: Mapping[str, Any]
    bps: float
    limit: Limit
    streams: float
    runs: int
    agree: int
    sampled: bool
    link_known: bool
    times: Mapping[str, float]
    roofs: Mapping[str, float]
    notice: str | None = None

    @property
    def cause(self) -> str:
        """The causes in order; a link through a gateway is called so."""
        gateway = self.levels.get("gateway_sku") or self.levels.get("placement") in GATEWAYS
        return self.limit.name.replace("link", "link (gateway)") if gateway else self.limit.name

    @property
    def ceiling(self) -> str:
        """What raising the cause brings: ``at most 2.5 Gbit/s, then link``; empty where it is not known."""
        one = self.limit
        if one.ceiling_bps is None:
            return ""
        link = "" if self.link_known or one.cause == "link" else ", if the link allows"
        return f"at most {format_value(one.ceiling_bps, 'bps')}, then {one.next}{link}"

    @property
    def short(self) -> str:
        """The cause with its figure, as a table has it beside a level: ``link, 98 % of the advertised 8 Gbit/s``."""
        return ", ".join(filter(None, [self.cause, self.limit.figure]))

    @property
    def recommendation(self) -> str:
        """What to do about it; nothing where the cause is not known."""
        one = self.limit
        if one.cause == "window":
            buffers = WINDOWS[one.causes[0]]
            if not (one.ceiling_bps and self.link_known):
                return f"use several streams, or raise {buffers}"
            several = min(STREAMS, math.ceil(self.streams * one.ceiling_bps / self.bps))
            more = f"use {several} streams, or " if several > self.streams else ""
            return f"{more}raise {buffers}"
        return {
            "cpu": f"a faster, or less busy, core: {one.name}",
            "loss": "look for the loss on the path; several streams, or BBR, suffer less from it",
            "link": "another size of VM"
            if one.share
            else "a faster path: neither end is at its limit",
        }.get(one.cause, "")

    def to_dict(self) -> dict[str, Any]:
        """Return what is known as JSON types."""
        limit = asdict(self.limit) | {"cause": self.limit.cause, "causes": [*self.limit.causes]}
        return {
            "condition": dict(self.levels),
            "name": self.condition,
            "throughput_bps": self.bps,
            "evidence": limit.pop("reason"),
            **limit,
            "sampled": self.sampled,
            "runs": self.runs,
            "agree": self.agree,
            "recommendation": self.recommendation,
        }


class Limits(list[Held]):
    """What limits each condition; it shows itself as `npl limits` prints it, and as a table in a notebook."""

    def __repr__(self) -> str:
        blocks = []
        for one in self:
            lines = [f"{one.condition}: {format_value(one.bps, 'bps')}, limited by: {one.short}"]
            lines += filter(None, (one.limit.reason, one.ceiling, one.recommendation))
            blocks.append("\n  ".join(lines))
        return "\n".join([*blocks, "", note(self)])

    def _repr_markdown_(self) -> str:
        return limits_table(self)._repr_markdown_()


def limits(
    data: Data,
    by: str | Sequence[str] = (),
    *,
    where: Mapping[str, Any] | None = None,
    pool: str | Sequence[str] = (),
) -> Limits:
    """Return what limits the throughput of each condition, with evidence and what raising the limit would bring.

    Parameters
    ----------
    data, by, where, pool
        An experiment, its runs or folder, or raw logs; the others as `netperf_lib.observe` takes them.

    Returns
    -------
    Limits
        A list with a `Held` for each condition that has a complete run.

    Raises
    ------
    UsageError
        No complete run has a throughput; or see `netperf_lib.observe`.

    Examples
    --------
    >>> [one.limit.cause for one in limits("data/recorded/lab-full", where={"tcp_buffer_bytes": 1048576})]
    ['window']
    """
    found = runs_of(data)
    runs = found.runs
    sent = "throughput_sent_bps"
    received = "throughput_bps" in runs and runs["throughput_bps"].notna().any()
    metric = (
        sent if not received and sent in runs and runs[sent].notna().any() else "throughput_bps"
    )
    source = data if isinstance(data, Observations) else found
    return Limits(of_conditions(observe(source, metric, by, where=where, pool=pool)).values())


def limits_table(held: Sequence[Held]) -> Table:
    """The conditions as a table for a page: throughput, cause, evidence, what raising it brings, what to do.

    Examples
    --------
    >>> npl.analysis.limits_table(npl.limits(exp)).columns.to_list()[:3]
    ['condition', 'throughput', 'limited by']
    """
    rows = [
        {
            "condition": h.condition,
            "throughput": format_value(h.bps, "bps"),
            "limited by": h.short,
            "evidence": h.limit.reason,
            "raising it brings": h.ceiling or "–",
            "what to do": h.recommendation or "–",
        }
        for h in held
    ]
    caption = (
        "What limits each condition. Raising the cause brings at most what the next limit allows."
    )
    return Table.of(pd.DataFrame(rows), caption)


def limits_words(held: Sequence[Held]) -> Headline:
    """How many conditions are limited by which cause.

    Examples
    --------
    >>> npl.analysis.limits_words(npl.limits(exp))[:49]
    'The link limits throughput on 4 of 13 conditions.'
    """
    texts = limit_sentences(held) or ["what limits these transfers is not known"]
    return Headline(" ".join(f"{capital(text)}." for text in texts))


def limit_sentences(held: Sequence[Held], *, share: bool = True) -> list[str]:
    """``the window limits throughput on 4 of 12 conditions (cross-region: 4 MiB over 20 ms)``, a sentence a cause.

    The `share` of the link may have been said before.
    """
    groups: dict[str, list[Held]] = {}
    for one in held:
        groups.setdefault(one.cause, []).append(one)
    unknown = len(groups.pop(UNKNOWN, ()))
    sentences = []
    for cause, members in groups.items():
        names = [one.condition for one in members]
        few = len(names) == 1 or (len(names) <= NAMED and not any("," in n for n in names))
        where = in_words(names) if few else f"{len(names)} of {len(held)} conditions"
        where = f"all {len(held)}" if 1 < len(names) == len(held) else where
        first = min(members, key=lambda one: len(one.condition))
        figure = first.limit.figure if share or cause != "link" else ""
        figure = f"{first.condition}: {figure}" if figure and len(names) > 1 else figure
        subject = cause.replace(", then ", ", then the ")
        sentences.append(
            f"the {subject} limits throughput on {where}{f' ({figure})' if figure else ''}"
        )
        if first.link_known and first.ceiling:
            sentences.append(f"raising it brings {first.ceiling}")
    if groups and unknown:
        sentences.append(f"on {plural(unknown, 'other')} the limit is not known")
    return sentences


def note(held: Sequence[Held]) -> Words:
    """What the causes were judged from, in a sentence.

    Examples
    --------
    >>> npl.analysis.note(npl.limits(exp))[:32]
    "Based on the kernel's statistics"
    """
    logs = sum(not one.sampled for one in held)
    if not logs:
        return Words(
            "Based on the kernel's statistics of the connections, sampled on both hosts while they ran."
        )
    which = "All" if logs == len(held) else f"{logs} of {plural(len(held), 'condition')}"
    return Words(
        f"{which} judged by logs and settings alone, for connections were not sampled: fewer causes can be named."
    )


def with_causes(family: Family, sides: Iterable[tuple[Observations | None, str, str]]) -> Family:
    """The comparisons, with what limits both sides where they are of throughput.

    `sides` has the observations of each comparison, and its two conditions, which may be empty.
    """
    every = []
    for comparison, (obs, *both) in zip(family, sides, strict=True):
        held = of_conditions(obs) if obs else {}
        one, two = (held[c].cause if c in held else "" for c in both)
        every.append(replace(comparison, held_back=(one, two)))
    return replace(family, comparisons=tuple(every))


@lru_cache(maxsize=64)  # every comparison asks for the same
def of_conditions(obs: Observations) -> dict[str, Held]:
    """Return what limits the conditions of `obs`, by name; empty where it is no throughput."""
    if not obs.metric.startswith("throughput"):
        return {}
    idle = _idle_rtt(obs._source.runs)
    runs = obs.runs.reset_index(drop=True)
    rows: list[dict[str, Any]] = runs.to_dict("records")  # type: ignore[assignment]  # at once: a column costs, not a row
    groups = runs.groupby("condition", sort=True, observed=True)[obs.metric]
    return {str(c): _held(obs, str(c), [rows[i] for i in x.index], idle) for c, x in groups}


def _held(
    obs: Observations,
    condition: str,
    rows: Sequence[Mapping[str, Any]],
    idle: Callable[[Mapping[str, Any]], float | None],
) -> Held:
    """What limits the runs of a condition."""
    rows = sorted(rows, key=lambda row: row.get(obs.metric) or 0)
    judged = [of_run(row, rtt_idle_us=idle(row)) for row in rows]
    counts = Counter(limit.causes[:1] for limit in judged)
    cause, agree = counts.most_common(1)[0]
    alike = [i for i, limit in enumerate(judged) if limit.causes[:1] == cause]
    middle = alike[len(alike) // 2]
    row, limit = rows[middle], judged[middle]
    if agree < MOST * len(judged):
        shares = [f"{(c or (UNKNOWN,))[0]} in {plural(n, 'run')}" for c, n in counts.most_common()]
        limit = Limit(reason=f"its runs differ: {', '.join(shares)}")
    evidence = evidence_of(row, rtt_idle_us=idle(row))
    return Held(
        condition=condition,
        levels={f: obs.at(condition, f) for f in obs.by},
        bps=median(row[obs.metric] for row in rows),
        limit=limit,
        streams=streams_of(row),
        runs=len(judged),
        agree=agree,
        sampled=all(_number(row, "limit_bps") is not None for row in rows),
        link_known=_number(row, "advertised_bps") is not None,
        times=_times(rows),
        roofs=roofs(evidence) if evidence else {},
        notice=obs.origin.notice,
    )


def _times(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What a sender waited for, as shares of the time."""
    shares = []
    for name in ("receive_window", "send_buffer", "busy"):
        values = [_number(row, f"limit_{name}_ratio") for row in rows]
        known = [v for v in values if v is not None]
        if not known:
            return {}
        shares.append(min(1.0, max(0.0, median(known))))
    receive, send, busy = shares
    rest = max(0.0, busy - receive - send)
    return {"receive window": receive, "send buffer": send, "program": 1 - busy, "path": rest}
