"""What limits a transfer: the evidence of one run in, the cause and what raising it would bring out.

The rules were fitted to runs in which every cause had been planted, and judged by others (see "What holds a transfer
back" in the documentation). They are tried in order, for a later one would misread what an earlier one explains: a slow
receiver closes its window, and a window fills the queue of a link. Where none holds the answer is *not known*.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..metrics import format_value

UNKNOWN = "not known"
KIND_OF_CAUSE: dict[str, str] = {
    "receive window": "window",
    "send buffer": "window",
    "window": "window",
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
    busy_share: float = 1.0
    application_share: float = 0.0
    """Of the samples in which the kernel says that the application was the limit."""
    unsent_none_share: float = 0.0
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
    queue_bytes: float | None = None
    """What waits in the queue of the sender's interface."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, and the cause in one word, as JSON types."""
        return {"cause": self.cause, **asdict(self), "causes": list(self.causes)}


def held_back(e: Evidence) -> Limit:
    """Return what limits a transfer.

    Parameters
    ----------
    e : Evidence
        What is known of the run.

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
    first = _declared(e) or (_processor(e) or _window(e) or _path(e) if sampled else _from_log(e))
    if not first.causes:
        return first
    first = replace(first, figure=_figure(e, first.causes[0]))
    # the run itself disproves a limit well below what it reached
    others = {k: v for k, v in roofs(e).items() if k != first.causes[0] and v >= DISPROVED * e.bps}
    if "window" in first.causes or (e.buffer_set and first.cause == "window"):
        others = {k: v for k, v in others.items() if KIND_OF_CAUSE.get(k) != "window"}
    if not others:
        return first
    following = min(others, key=lambda k: others[k])
    ceiling = max(others[following], e.bps)
    causes = first.causes
    if following not in causes and ceiling < CLOSE * e.bps and sampled:
        causes = (*causes, following)
    return replace(first, causes=causes, ceiling_bps=ceiling, next=following)


def waiting(e: Evidence) -> tuple[float, float] | None:
    """Return by how much load raises the round-trip time, and how much of that is the queue at the sender.

    Returns
    -------
    tuple of float or None
        Microseconds; the queue's bytes take that long at the rate of the transfer (Little's law). What remains waits on
        the path or at the receiver. None where the connections or the queue were not sampled.

    Examples
    --------
    >>> waiting(Evidence(bps=1e9, rtt_us=24_000, rtt_min_us=20_000, queue_bytes=125_000))
    (4000.0, 1000.0)
    """
    if e.rtt_us is None or e.rtt_min_us is None or e.queue_bytes is None:
        return None
    rise = max(0.0, e.rtt_us - e.rtt_min_us)
    return rise, min(rise, 8e6 * e.queue_bytes / e.bps)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _figure(e: Evidence, cause: str) -> str:
    """How far a cause is, in a few words."""
    if cause == "link":
        return (
            f"{_percent(e.bps / e.cap_bps)} of the advertised {format_value(e.cap_bps, 'bps')}"
            if e.cap_bps
            else ""
        )
    if cause == "loss":
        return f"{100 * (e.sent_again_share or 0):.2f} % retransmitted"
    if KIND_OF_CAUSE.get(cause) == "window":
        largest = {"receive window": e.receive_max_bytes, "send buffer": e.send_max_bytes}
        both = [size for size in largest.values() if size]
        size = largest.get(cause) or (min(both) if both else e.window_bytes)
        rtt = e.rtt_min_us or e.rtt_us
        return (
            f"{format_value(size, 'bytes')} over {format_value(rtt, 'us')}" if size and rtt else ""
        )
    return ""


def roofs(e: Evidence) -> dict[str, float]:
    """Return the rate that each limit allows, bit/s, where settings or the run itself tell."""
    rates: dict[str, float] = {}
    if e.cap_bps:
        rates["link"] = e.cap_bps
    if e.asked_bps:
        rates["rate"] = e.asked_bps
    if e.rtt_min_us:
        per_window = 8e6 * e.streams / e.rtt_min_us
        if e.receive_max_bytes:
            full = (
                e.window_bytes / e.receive_buffer_bytes
                if e.window_bytes and e.receive_buffer_bytes
                else 0.5
            )
            share = IN_FLIGHT["receive window"] * min(full, PAYLOAD)
            rates["receive window"] = share * e.receive_max_bytes * per_window
        if e.send_max_bytes:
            # what was in flight, even if it stood in a queue, was in the buffer: it holds that much at least
            share = max(
                IN_FLIGHT["send buffer"], min(_in_flight(e) / e.send_max_bytes, FULL_BUFFER[1])
            )
            rates["send buffer"] = share * e.send_max_bytes * per_window
    for cause, process in (("sender's CPU", e.sender), ("receiver's CPU", e.receiver)):
        if process and process[0] > 0.02:
            rates[cause] = e.bps / (sum(process) if sum(process) > FULL_CORE else process[0])
    return rates


def _declared(e: Evidence) -> Limit | None:
    """What the test asked for, and what the link is said to carry."""
    if e.asked_bps:
        share = e.bps / e.asked_bps
        idle = max(map(_load, (e.sender, e.receiver))) < 0.8
        held = max(e.receive_window_share or 0, e.send_buffer_share or 0)
        if share >= OF_RATE or (
            share >= 0.9 and e.application_share >= HELD and held < SOME and idle
        ):
            return Limit(
                causes=("rate",),
                share=share,
                reason=f"{_percent(share)} of the rate that the test asked for",
            )
    if e.cap_bps and e.bps >= OF_CAP * e.cap_bps:
        share = e.bps / e.cap_bps
        text = f"{_percent(share)} of {format_value(e.cap_bps, 'bps')} advertised"
        return Limit(causes=("link",), share=share, reason=text)
    return None


def _load(process: tuple[float, float] | None) -> float:
    return sum(process) if process else 0.0


def _processor(e: Evidence) -> Limit | None:
    """A process that is always on a processor or waiting for one, or data that nobody reads."""
    for cause, process in (("receiver's CPU", e.receiver), ("sender's CPU", e.sender)):
        if process and sum(process) >= FULL_CORE and process[0] >= ON_CORE:
            text = f"{cause.split(chr(39))[0]}'s process {_percent(process[0])} of the time on a processor"
            text += f", {_percent(process[1])} waiting for one" if process[1] >= 0.01 else ""
            return Limit(causes=(cause,), share=min(1.0, sum(process)), reason=text)
    if e.receiver_core and e.receiver_core[0] >= 0.97 and e.receiver_core[1] >= 0.6:
        busy, soft = map(_percent, e.receiver_core)
        text = f"a core of the receiver {busy} busy, {soft} in soft interrupts"
        return Limit(causes=("receiver's CPU",), share=e.receiver_core[0], reason=text)
    unread, window = e.unread_bytes or 0, e.window_bytes or 0
    if (
        (e.receive_window_share or 0) >= HELD
        and unread * e.streams >= 0.3 * window
        and unread > 60_000
    ):
        load = _load(e.receiver)
        text = f"{format_value(unread, 'bytes')} wait for the receiving program, "
        text += f"{_percent(load)} on or waiting for a processor"
        return Limit(causes=("receiver's CPU",) if load >= 0.85 else (), share=load, reason=text)
    return None


def _queue(e: Evidence) -> tuple[float, bool, bool]:
    """How much the round-trip time is raised, whether a queue stands, and whether there is none."""
    base = e.rtt_min_us or 0.0
    queue = (e.rtt_us or base) - base
    return queue, queue >= max(QUEUE_US, QUEUE * base), queue < max(CLEAR_US, CLEAR * base)


def _in_flight(e: Evidence) -> float:
    """Bytes in flight of one stream (Little: rate times round-trip time)."""
    return e.bps / e.streams / 8e6 * (e.rtt_us or 0)


def _filled(e: Evidence) -> float:
    """Share of the receiver's window that is in flight."""
    return _in_flight(e) / e.window_bytes if e.window_bytes else 0.0


def _window(e: Evidence) -> Limit | None:
    """A window or a buffer that is full; filled through a queue, it is only a larger queue, and the link holds."""
    queue, standing, clear = _queue(e)
    receive, send = e.receive_window_share or 0.0, e.send_buffer_share or 0.0
    path = f"round-trip time {format_value(e.rtt_us, 'us')}, {format_value(e.rtt_min_us, 'us')} when idle"
    if receive >= HELD or (receive >= SOME and _filled(e) >= 0.8):
        window = format_value(e.window_bytes, "bytes")
        text = f"{_percent(receive)} of the time limited by a receive window of {window}; {path}"
        if standing:
            return Limit(causes=("link", "receive window"), reason=text)
        alone = clear or queue < 0.12 * (e.rtt_min_us or 0)
        return Limit(
            causes=("receive window",) if alone else ("receive window", "link"),
            share=receive,
            reason=text,
        )
    idle = max(map(_load, (e.sender, e.receiver))) < 0.8
    pauses = e.application_share >= 0.6 and e.unsent_none_share >= 0.5 and idle
    flight = _in_flight(e) / e.send_max_bytes if e.send_max_bytes else 0.0
    full = FULL_BUFFER[0] <= flight <= FULL_BUFFER[1]
    if send >= HELD or (send >= SOME and (pauses or full)):
        text = f"{_percent(send)} of the time limited by the send buffer; {path}"
        if standing and e.delivery_bps and e.bps >= 0.9 * e.delivery_bps:
            return Limit(causes=("link", "send buffer"), reason=text)
        return Limit(causes=("send buffer",), share=send, reason=text)
    # over a long path the kernel counts little of that time: the program writes as soon as a part is acknowledged
    lossless = (e.sent_again_share or 0) < LOST
    if e.application_share >= 0.6 and idle and clear and lossless and full:
        size = format_value(e.send_max_bytes, "bytes")
        text = f"{_percent(flight)} of the send buffer of {size} in flight; {path}"
        return Limit(causes=("send buffer",), share=min(1.0, flight), reason=text)
    if (
        pauses
        and standing
        and e.busy_share >= 0.95
        and e.delivery_bps
        and e.bps >= DELIVERED * e.delivery_bps
    ):
        return Limit(
            causes=("link",), reason=f"a standing queue although all data are sent at once; {path}"
        )
    if pauses or e.busy_share < 0.9:
        share = max(e.unsent_none_share, 1 - e.busy_share)
        text = f"nothing was left to send {_percent(share)} of the time"
        return Limit(reason=f"{text}, though neither a window nor a processor is full")
    if max(receive, send) >= SOME:
        text = f"{_percent(receive)} of the time limited by the receive window, {_percent(send)} by the send buffer"
        return Limit(reason=text)
    return None


def _path(e: Evidence) -> Limit:
    """A queue on the path, or loss without one."""
    queue, standing, clear = _queue(e)
    again, base = e.sent_again_share or 0.0, e.rtt_min_us or 0.0
    text = f"a queue of {format_value(queue, 'us')} on {format_value(base, 'us')}, {100 * again:.2f} % retransmitted"
    if standing or (queue >= max(0.8 * QUEUE_US, 0.1 * base) and again < 1e-3):
        return Limit(causes=("link",), reason=text)
    if e.bbr_bps and 0.85 <= e.bps / e.bbr_bps <= 1.1 and _filled(e) < 0.7:
        return Limit(
            causes=("link",), reason=f"BBR measures {format_value(e.bbr_bps, 'bps')} on the path"
        )
    if again >= LOST and (e.sent_again_count or 0) >= 3 and (clear or again >= LOST_IN_QUEUE):
        text = f"{100 * again:.2f} % retransmitted, no queue: loss, or a cap without one"
        return Limit(causes=("loss",), share=again, reason=text)
    return Limit(reason=text)


def _from_log(e: Evidence) -> Limit:
    """The same from the log and the settings alone: windows, link and loss only where the idle path is known."""
    for cause, process in (("receiver's CPU", e.receiver), ("sender's CPU", e.sender)):
        if process and process[0] >= FULL_CORE:
            text = f"{_percent(process[0])} of a core, says the log"
            return Limit(causes=(cause,), share=min(1.0, process[0]), reason=text)
    if e.lost_share is not None:
        return Limit(
            reason=f"{_percent(e.lost_share)} of its datagrams were lost; no window limits datagrams"
        )
    if not e.rtt_min_us:
        return Limit(
            reason="the log alone does not tell: the round-trip time of the idle path is not known"
        )
    rtt = e.rtt_us or e.rtt_min_us
    queue, again = rtt / e.rtt_min_us - 1, e.sent_again_share or 0.0
    flight = e.bps / e.streams / 8e6 * rtt
    text = f"{format_value(flight, 'bytes')} in flight a stream, round-trip time {format_value(rtt, 'us')}"
    window, congestion = e.window_bytes, e.congestion_bytes
    if (
        window
        and congestion
        and window <= 0.9 * congestion
        and 0.8 <= flight / window <= 1.1
        and queue < QUEUE
    ):
        return Limit(causes=("receive window",), share=min(1.0, flight / window), reason=text)
    sizes = [size for size in (e.receive_max_bytes, e.send_max_bytes) if size]
    if len(sizes) == 2 and 0.5 <= flight / min(sizes) <= 0.9 and queue < 0.1 and again < 1e-4:
        of = f"{text}, {_percent(flight / min(sizes))} of the buffer of {format_value(min(sizes), 'bytes')}"
        return Limit(causes=("window",), share=flight / min(sizes), reason=of)
    if congestion and 0.75 <= flight / congestion <= 1.25 and not math.isnan(queue):
        if queue >= 0.25:
            return Limit(
                causes=("link",),
                reason=f"{text}, {format_value(e.rtt_min_us, 'us')} when idle: a queue",
            )
        if again >= 1e-3 and queue < 0.1:
            return Limit(
                causes=("loss",),
                share=again,
                reason=f"{text}, {100 * again:.2f} % retransmitted, no queue",
            )
    return Limit(reason=text)
