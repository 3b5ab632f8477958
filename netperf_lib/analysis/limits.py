"""What limits a transfer.

The evidence of one run in, the cause and what raising it would bring out.

The rules were fitted to runs in which every cause had been planted, and judged by others (see "What
holds a transfer back" in the documentation). They are tried in order, for a later one would misread
what an earlier one explains: a slow receiver closes its window, and a window fills the queue of a
link. Where none holds the answer is *not known*.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import median
from typing import Any

import pandas as pd

from ..experiment.factors import plain, read_rate
from ..experiment.placements import GATEWAYS
from ..metrics import format_value, plural
from .observe import Data, Observations, observe
from .runs import runs_of
from .tables import Table
from .words import UNKNOWN, Headline, capital

WINDOWS = {
    "receive window": "the receiver's net.ipv4.tcp_rmem",
    "send buffer": "the sender's net.ipv4.tcp_wmem",
}
"""Causes that are a window, and what bounds each."""
KIND_OF_CAUSE = dict.fromkeys(WINDOWS, "window") | {
    "sender's CPU": "cpu",
    "receiver's CPU": "cpu",
}
"""Causes that differ in their host or buffer only, under one word."""

QUEUE_US, QUEUE = 1000.0, 0.2
"""A standing queue raises the round-trip time by more than both."""
CLEAR_US, CLEAR = 700.0, 0.08
"""There is none if it is raised by less than the larger."""
FULL_CORE, ON_CORE = 0.93, 0.1
"""Share of the time on a processor or waiting for one, and of it on one, from which on the
processor is the limit."""
IDLE = 0.8
"""Share of the time on a processor or waiting for one, up to which a process has time to spare."""
HELD, SOME = 0.5, 0.2
"""Share of the time in which a window or a buffer was the limit: clearly; partly."""
OF_RATE, OF_CAP = 0.97, 0.95
"""Shares of the requested rate, and of an advertised bandwidth, that count as reached."""
LOST, LOST_IN_QUEUE = 4e-4, 3e-3
"""Share of segments sent again that makes loss the limit: without a queue; although one is
possible."""
DELIVERED = 0.75
"""Share of the rate at which a path that is always busy delivers; single samples of that rate
are bursts."""
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
AGREEING_SHARE = 0.6
"""Share of the runs of a condition that name a cause, from which on it is the condition's."""
TO_DO = {
    "cpu": "a faster, or less busy, core: {}",
    "loss": "look for the loss on the path; several streams, or BBR, suffer less from it",
    "link": "another size of VM",
}
"""What to do about a cause; about a window see `Held.recommendation`."""
STREAMS = 16
"""Most parallel streams that are recommended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of one transfer; bytes, bits per second, microseconds.

    Ratios are shares of its time.

    A figure of 0 is not known, or is none: it limits nothing. Most are columns ``limit_…`` of the
    table of runs.
    """

    bps: float
    streams: float = 1
    sampled: bool = False
    """Whether the connections were sampled while they ran; otherwise only the log speaks."""
    asked_bps: float = 0
    """The requested rate, all streams."""
    cap_bps: float = 0
    """The advertised bandwidth."""
    rtt_us: float = 0
    """Under load: the median."""
    rtt_min_us: float = 0
    """Of the idle path: the smallest of the connection, or from another measurement."""
    receive_window_ratio: float = 0
    send_buffer_ratio: float = 0
    busy_ratio: float = 0
    application_ratio: float = 0
    """Of the samples in which the kernel says that the application was the limit."""
    unsent_none_ratio: float = 0
    sent_again_ratio: float = 0
    sent_again_count: float = 0
    delivery_bps: float = 0
    window_bytes: float = 0
    """The receiver's window, largest, of one stream."""
    receive_buffer_bytes: float = 0
    unread_bytes: float = 0
    sender_on_ratio: float = 0
    """Of the sending process: shares on a processor, and waiting for one."""
    sender_waiting_ratio: float = 0
    receiver_on_ratio: float = 0
    receiver_waiting_ratio: float = 0
    receiver_core_ratio: float = 0
    """Of the receiver's fullest core: busy share, and share in soft interrupts."""
    receiver_softirq_ratio: float = 0
    receive_max_bytes: float = 0
    """The largest receive buffer that the settings allow."""
    send_max_bytes: float = 0
    buffer_set: bool = False
    """Both buffers were set to one size, so that they are raised together."""

    @property
    def load(self) -> dict[str, tuple[float, float]]:
        """Of both processes: the share on a processor, and that with waiting for one."""
        receiver, sender = self.receiver_on_ratio, self.sender_on_ratio
        return {
            "receiver": (receiver, receiver + self.receiver_waiting_ratio),
            "sender": (sender, sender + self.sender_waiting_ratio),
        }

    @property
    def idle(self) -> bool:
        """Whether both processes have time to spare."""
        return max(busy for _, busy in self.load.values()) < IDLE

    @property
    def queue(self) -> float:
        """By how much load raises the round-trip time."""
        return self.rtt_us - self.rtt_min_us if self.rtt_us else 0.0

    @property
    def standing(self) -> bool:
        """Whether a queue stands on the path."""
        return self.queue >= max(QUEUE_US, QUEUE * self.rtt_min_us)

    @property
    def clear(self) -> bool:
        """Whether there is no queue."""
        return self.queue < max(CLEAR_US, CLEAR * self.rtt_min_us)

    @property
    def flight(self) -> float:
        """Bytes in flight of one stream (Little: rate times round-trip time)."""
        return self.bps / self.streams / 8e6 * self.rtt_us

    @property
    def filled(self) -> float:
        """Share of the receiver's window that is in flight."""
        return self.flight / self.window_bytes if self.window_bytes else 0.0

    @property
    def path(self) -> str:
        """The round-trip time in words."""
        return f"round-trip time {_us(self.rtt_us)}, {_us(self.rtt_min_us)} when idle"


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits a transfer.

    Attributes
    ----------
    causes : tuple of str
        ``link``, ``receive window``, ``send buffer``, ``loss``, ``sender's CPU``,
        ``receiver's CPU``, ``rate``; several where they act together, the first one first; empty if
        not known.
    reason : str
        The evidence.
    share : float or None
        How full the first one is: of the cap, the core, the time, the requested rate.
    figure : str
        How far the first one is: ``4 MiB over 20 ms``, ``98 % of the advertised 8 Gbit/s``.
    ceiling_bps : float or None
        Raising the first cause brings at most this; None where no further limit is known.
    next : str or None
        The cause that holds then.
    """

    causes: tuple[str, ...]
    reason: str
    share: float | None = None
    figure: str = ""
    ceiling_bps: float | None = None
    next: str | None = None

    @property
    def cause(self) -> str:
        """The first cause in one word: link, window, loss, cpu, rate, or not known."""
        first = self.causes[0] if self.causes else UNKNOWN
        return KIND_OF_CAUSE.get(first, first)

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
    >>> run = Evidence(bps=1e9, sampled=True, receive_window_ratio=0.8, window_bytes=2**21,
    ...                rtt_us=16_000, rtt_min_us=16_000, cap_bps=4e9)
    >>> limit = held_back(run)
    >>> limit.cause, limit.ceiling_bps
    ('window', 4000000000.0)
    """
    first = _declared(e) or _processor(e)
    if not first:
        unknown = Limit(
            (), "connections were not sampled, and the log alone does not tell"
        )
        first = _window(e) or _path(e) if e.sampled else unknown
    if not first.causes:
        return first
    cause, causes = first.causes[0], first.causes
    first = replace(first, figure=_figure(e, cause))
    # the run itself disproves a limit well below what it reached
    others = {k: v for k, v in roofs(e).items() if k != cause and v >= DISPROVED * e.bps}
    if e.buffer_set and cause in WINDOWS:
        others = {k: v for k, v in others.items() if k not in WINDOWS}
    if not others:
        return first
    following = min(others, key=others.__getitem__)
    ceiling = max(others[following], e.bps)
    if following not in causes and ceiling < CLOSE * e.bps and e.sampled:
        causes = (*causes, following)
    return replace(first, causes=causes, ceiling_bps=ceiling, next=following)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _bytes(size: float) -> str:
    return format_value(size, "bytes")


def _us(time: float) -> str:
    return format_value(time, "us")


def _figure(e: Evidence, cause: str) -> str:
    """How far a cause is, in a few words."""
    if cause == "link" and e.cap_bps:
        return f"{_percent(e.bps / e.cap_bps)} of the advertised {format_value(e.cap_bps, 'bps')}"
    if cause == "loss":
        return f"{100 * e.sent_again_ratio:.2f} % retransmitted"
    size = {"receive window": e.receive_max_bytes, "send buffer": e.send_max_bytes}.get(
        cause
    )
    size, rtt = size or e.window_bytes, e.rtt_min_us or e.rtt_us
    return f"{_bytes(size)} over {_us(rtt)}" if cause in WINDOWS and size and rtt else ""


def roofs(e: Evidence) -> dict[str, float]:
    """Return the rate that each limit allows, bit/s, where settings or the run itself tell."""
    rates = {"link": e.cap_bps, "rate": e.asked_bps}
    if e.rtt_min_us:
        full = e.window_bytes / e.receive_buffer_bytes if e.receive_buffer_bytes else 0.0
        share = IN_FLIGHT["receive window"] * min(full or 0.5, PAYLOAD)
        per_window = 8e6 * e.streams / e.rtt_min_us
        rates["receive window"] = share * e.receive_max_bytes * per_window
        # what was in flight, even if it stood in a queue, was in the buffer: it holds that much at
        # least
        least = min(e.flight, FULL_BUFFER[1] * e.send_max_bytes)
        sent = max(IN_FLIGHT["send buffer"] * e.send_max_bytes, least)
        rates["send buffer"] = sent * per_window
    for host, (on, busy) in e.load.items():
        if on > 0.02:
            rates[f"{host}'s CPU"] = e.bps / (busy if busy > FULL_CORE else on)
    return {cause: rate for cause, rate in rates.items() if rate}


def _declared(e: Evidence) -> Limit | None:
    """What the test asked for, and what the link is said to carry."""
    share = e.bps / e.asked_bps if e.asked_bps else 0.0
    waits = max(e.receive_window_ratio, e.send_buffer_ratio)
    paced = e.application_ratio >= HELD and waits < SOME and e.idle
    if share >= OF_RATE or (share >= 0.9 and paced):
        return Limit(
            ("rate",), f"{_percent(share)} of the rate that the test asked for", share
        )
    share = e.bps / e.cap_bps if e.cap_bps else 0.0
    if share >= OF_CAP:
        reason = f"{_percent(share)} of {format_value(e.cap_bps, 'bps')} advertised"
        return Limit(("link",), reason, share)
    return None


def _processor(e: Evidence) -> Limit | None:
    """A process that is always on a processor or waiting for one, or data that nobody reads."""
    for host, (on, busy) in e.load.items():
        if busy >= FULL_CORE and on >= ON_CORE:
            reason = f"{host}'s process {_percent(on)} of the time on a processor"
            reason += (
                f", {_percent(busy - on)} waiting for one" if busy - on >= 0.01 else ""
            )
            return Limit((f"{host}'s CPU",), reason, min(1.0, busy))
    core, soft = e.receiver_core_ratio, e.receiver_softirq_ratio
    if core >= 0.97 and soft >= 0.6:
        reason = f"a core of the receiver {_percent(core)} busy, {_percent(soft)} in interrupts"
        return Limit(("receiver's CPU",), reason, core)
    waits = e.unread_bytes * e.streams >= 0.3 * e.window_bytes and e.unread_bytes > 60_000
    if e.receive_window_ratio >= HELD and waits:
        load = e.load["receiver"][1]
        reason = f"{_bytes(e.unread_bytes)} wait for the receiving program, "
        reason += f"{_percent(load)} on or waiting for a processor"
        return Limit(("receiver's CPU",) if load >= 0.85 else (), reason, load)
    return None


def _window(e: Evidence) -> Limit | None:
    """A window or a buffer that is full.

    Filled through a queue, it is only a larger queue, and the link holds.
    """
    receive, send, nothing = (
        e.receive_window_ratio,
        e.send_buffer_ratio,
        e.unsent_none_ratio,
    )
    if receive >= HELD or (receive >= SOME and e.filled >= 0.8):
        reason = f"{_percent(receive)} of the time limited by a receive window of "
        reason += f"{_bytes(e.window_bytes)}; {e.path}"
        if e.standing:
            return Limit(("link", "receive window"), reason)
        alone = e.clear or e.queue < 0.12 * e.rtt_min_us
        return Limit(
            ("receive window",) if alone else ("receive window", "link"), reason, receive
        )
    pauses = e.application_ratio >= 0.6 and nothing >= 0.5 and e.idle
    flight = e.flight / e.send_max_bytes if e.send_max_bytes else 0.0
    full = FULL_BUFFER[0] <= flight <= FULL_BUFFER[1]
    if send >= HELD or (send >= SOME and (pauses or full)):
        reason = f"{_percent(send)} of the time limited by the send buffer; {e.path}"
        if e.standing and 0 < 0.9 * e.delivery_bps <= e.bps:
            return Limit(("link", "send buffer"), reason)
        return Limit(("send buffer",), reason, send)
    # over a long path the kernel counts little of that time: the program writes as soon as a part
    # is acknowledged
    if (
        e.application_ratio >= 0.6
        and e.idle
        and e.clear
        and e.sent_again_ratio < LOST
        and full
    ):
        buffer = f"the send buffer of {_bytes(e.send_max_bytes)}"
        reason = f"{_percent(flight)} of {buffer} in flight; {e.path}"
        return Limit(("send buffer",), reason, min(1.0, flight))
    delivers = 0 < DELIVERED * e.delivery_bps <= e.bps
    if pauses and e.standing and e.busy_ratio >= 0.95 and delivers:
        return Limit(
            ("link",), f"a standing queue although all data are sent at once; {e.path}"
        )
    if pauses or e.busy_ratio < 0.9:
        share = _percent(max(nothing, 1 - e.busy_ratio))
        reason = f"nothing was left to send {share} of the time"
        return Limit((), f"{reason}, though neither a window nor a processor is full")
    if max(receive, send) >= SOME:
        reason = f"{_percent(receive)} of the time limited by the receive window, "
        return Limit((), f"{reason}{_percent(send)} by the send buffer")
    return None


def _path(e: Evidence) -> Limit:
    """A queue on the path, or loss without one."""
    again = e.sent_again_ratio
    lost = f"{100 * again:.2f} % retransmitted"
    reason = f"a queue of {_us(e.queue)} on {_us(e.rtt_min_us)}, {lost}"
    likely = e.queue >= max(0.8 * QUEUE_US, 0.1 * e.rtt_min_us) and again < 1e-3
    if e.standing or likely:
        return Limit(("link",), reason)
    if again >= LOST and e.sent_again_count >= 3 and (e.clear or again >= LOST_IN_QUEUE):
        return Limit(("loss",), f"{lost}, no queue: loss, or a cap without one", again)
    return Limit((), reason)


# -- from rows of the table of runs --------------------------------------------------------------


def evidence_of(row: Mapping[str, Any]) -> Evidence | None:
    """Return what is known of one run, a row of the table of runs; None if it has no throughput."""

    def number(*names: str) -> float:
        """Return the first of these columns that holds a number; 0 if none does."""
        values = (plain(row.get(name)) for name in names)
        return next((float(v) for v in values if isinstance(v, int | float)), 0.0)

    bps = number("limit_bps", "throughput_bps", "throughput_sent_bps")
    if not bps:
        return None
    known: dict[str, Any] = {f.name: number(f"limit_{f.name}") for f in fields(Evidence)}
    sampled = plain(row.get("limit_receive_window_ratio")) is not None
    if not sampled:
        hosts = ("client", "server")[:: -1 if row.get("direction") == "reverse" else 1]
        for end, host in zip(("sender", "receiver"), hosts, strict=True):
            known[f"{end}_on_ratio"] = number(f"cpu_{host}_ratio")
    streams = number("limit_connections", "streams") or 1.0
    rate = read_rate(row["bitrate"]) if plain(row.get("bitrate")) is not None else 0
    known |= {"bps": bps, "streams": streams, "sampled": sampled}
    known |= {"asked_bps": (rate or 0) * streams, "cap_bps": number("advertised_bps")}
    return Evidence(**known | {"buffer_set": number("tcp_buffer_bytes") > 0})


def of_run(row: Mapping[str, Any]) -> Limit:
    """Return what limits one run of throughput."""
    evidence = evidence_of(row)
    return held_back(evidence) if evidence else Limit((), "there is no throughput")


# -- conditions ----------------------------------------------------------------------------------


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
        The limit of the median run among those with this cause; without causes if the runs do not
        agree.
    evidence : Evidence
        What is known of that run.
    notice : str or None
        The caveat to show with these data.
    """

    condition: str
    levels: Mapping[str, Any]
    bps: float
    limit: Limit
    evidence: Evidence
    notice: str | None = None

    @property
    def roofs(self) -> dict[str, float]:
        """The rate that each limit allows, bit/s.

        As far as it follows from the settings and the median run.
        """
        return roofs(self.evidence)

    @property
    def cause(self) -> str:
        """The causes in order; a link through a gateway is called so."""
        gateway = (
            self.levels.get("gateway_sku") or self.levels.get("placement") in GATEWAYS
        )
        return (
            self.limit.name.replace("link", "link (gateway)")
            if gateway
            else self.limit.name
        )

    @property
    def ceiling(self) -> str:
        """What raising the cause brings: ``at most 2.5 Gbit/s, then link``.

        Empty where it is not known.
        """
        one = self.limit
        if one.ceiling_bps is None:
            return ""
        link = (
            "" if self.evidence.cap_bps or one.cause == "link" else ", if the link allows"
        )
        return f"at most {format_value(one.ceiling_bps, 'bps')}, then {one.next}{link}"

    @property
    def short(self) -> str:
        """The cause with its figure, as a table has it beside a level.

        ``link, 98 % of the advertised 8 Gbit/s``.
        """
        return ", ".join(filter(None, [self.cause, self.limit.figure]))

    @property
    def recommendation(self) -> str:
        """What to do about it; nothing where the cause is not known."""
        one, streams = self.limit, self.evidence.streams
        if one.cause == "window":
            more = "use several streams, or "
            if one.ceiling_bps and self.evidence.cap_bps:
                several = min(STREAMS, math.ceil(streams * one.ceiling_bps / self.bps))
                more = f"use {several} streams, or " if several > streams else ""
            return f"{more}raise {WINDOWS[one.causes[0]]}"
        if one.cause == "link" and not one.share:
            return "a faster path: neither end is at its limit"
        return TO_DO.get(one.cause, "").format(one.name)


class Limits(list[Held]):
    """What limits each condition.

    It shows itself as `npl limits` prints it, and as a table in a notebook.
    """

    def __repr__(self) -> str:
        blocks = []
        for one in self:
            lines = [
                f"{one.condition}: {format_value(one.bps, 'bps')}, limited by: {one.short}"
            ]
            lines += filter(None, (one.limit.reason, one.ceiling, one.recommendation))
            blocks.append("\n  ".join(lines))
        return "\n".join([*blocks, "", _basis(self)])

    def _repr_markdown_(self) -> str:
        return limits_table(self)._repr_markdown_()


def limits(
    data: Data,
    by: str | Sequence[str] = (),
    *,
    where: Mapping[str, Any] | None = None,
) -> Limits:
    """Return what limits the throughput of each condition.

    With evidence and what raising the limit would bring.

    Parameters
    ----------
    data, by, where
        An experiment, its runs or folder, or raw logs; the others as `netperf_lib.observe` takes
        them.

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
    """  # noqa: E501  (an example is one line)
    source = data if isinstance(data, Observations) else runs_of(data)
    counts = source.runs.reindex(
        columns=["throughput_bps", "throughput_sent_bps"]
    ).count()
    metric = (
        "throughput_bps"
        if counts.iloc[0] or not counts.iloc[1]
        else "throughput_sent_bps"
    )
    return Limits(of_conditions(observe(source, metric, by, where=where)).values())


def limits_table(held: Sequence[Held]) -> Table:
    """Return the conditions as a table for a page.

    Throughput, cause, evidence, what raising it brings, what to do.

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
    caption = "What limits each condition. Raising the cause brings at most what the next allows. "
    return Table.of(pd.DataFrame(rows), caption + _basis(held))


def limits_words(held: Sequence[Held]) -> Headline:
    """Return how many conditions are limited by which cause.

    Examples
    --------
    >>> npl.analysis.limits_words(npl.limits(exp))[:49]
    'The link limits throughput on 4 of 13 conditions.'
    """
    texts = limit_sentences(held) or ["what limits these transfers is not known"]
    return Headline(" ".join(f"{capital(text)}." for text in texts))


def limit_sentences(held: Sequence[Held]) -> list[str]:
    """Return ``the window limits throughput on 4 of 12 conditions (…)``.

    A sentence a cause.
    """
    groups: dict[str, list[Held]] = {}
    for one in held:
        groups.setdefault(one.cause, []).append(one)
    unknown = len(groups.pop(UNKNOWN, ()))
    sentences = []
    for cause, members in groups.items():
        number, first = len(members), min(members, key=lambda one: len(one.condition))
        figure = (
            first.limit.figure if cause != "link" else ""
        )  # its share stands with the figures
        where = first.condition
        if number > 1:
            where = (
                f"all {number}"
                if number == len(held)
                else f"{number} of {len(held)} conditions"
            )
            figure = f"{first.condition}: {figure}" if figure else ""
        subject = cause.replace(", then ", ", then the ")
        tail = f" ({figure})" if figure else ""
        sentences.append(f"the {subject} limits throughput on {where}{tail}")
        if first.evidence.cap_bps and first.ceiling:
            sentences.append(f"raising it brings {first.ceiling}")
    if groups and unknown:
        sentences.append(f"on {plural(unknown, 'other')} the limit is not known")
    return sentences


def _basis(held: Sequence[Held]) -> str:
    """What the causes were judged from."""
    logs = sum(not one.evidence.sampled for one in held)
    if logs:
        which = (
            "All" if logs == len(held) else f"{logs} of {plural(len(held), 'condition')}"
        )
        return (
            f"{which} judged by logs alone, for connections were not sampled: most causes stay "
            "unknown."
        )
    return "Based on the kernel's statistics of the connections, sampled while they ran."


@lru_cache(maxsize=8)  # each comparison asks for both of its sides
def of_conditions(obs: Observations) -> dict[str, Held]:
    """Return what limits the conditions of `obs`, by name; empty where it is no throughput."""
    if not obs.metric.startswith("throughput"):
        return {}
    runs = obs.runs.sort_values(obs.metric, ignore_index=True)
    # at once: a column costs, not a row
    rows: Any = runs.to_dict("records")
    groups = runs.groupby("condition", sort=True, observed=True)[obs.metric]
    return {str(c): _held(obs, str(c), [rows[i] for i in x.index]) for c, x in groups}


def _held(obs: Observations, condition: str, rows: Sequence[Mapping[str, Any]]) -> Held:
    """What limits the runs of a condition, which are in the order of their throughput."""
    known = [e for e in map(evidence_of, rows) if e is not None]
    judged = list(map(held_back, known))
    counts = Counter(limit.causes[:1] for limit in judged)
    cause, agree = counts.most_common(1)[0]
    alike = [i for i, limit in enumerate(judged) if limit.causes[:1] == cause]
    middle = alike[len(alike) // 2]
    limit = judged[middle]
    if agree < AGREEING_SHARE * len(judged):
        shares = [
            f"{(c or (UNKNOWN,))[0]} in {plural(n, 'run')}"
            for c, n in counts.most_common()
        ]
        limit = Limit((), f"its runs differ: {', '.join(shares)}")
    return Held(
        condition=condition,
        levels={f: obs.at(condition, f) for f in obs.by},
        bps=median(row[obs.metric] for row in rows),
        limit=limit,
        evidence=known[middle],
        notice=obs.origin.notice,
    )
