"""What holds each run and each condition of throughput back, from the table of runs."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pandas as pd

from ..experiment.attached import attached
from ..experiment.factors import plain, read_rate
from ..experiment.placements import GATEWAYS
from ..metrics import format_value, in_words, plural
from .comparison import Family
from .observe import Data, Observations, observe
from .runs import ok_runs, runs_of
from .tables import Table
from .transfer_limits import UNKNOWN, Evidence, Limit, held_back, roofs, waiting
from .words import Headline, Words

TIMES = {"receive window": "limit_receive_window_ratio", "send buffer": "limit_send_buffer_ratio"}
MOST = 0.6
"""Share of the runs of a condition that name a cause, from which on it is the condition's."""
SETTINGS = {
    "receive window": "the receiver's net.ipv4.tcp_rmem",
    "send buffer": "the sender's net.ipv4.tcp_wmem",
}
"""What bounds a window."""
RISE, RISE_US = 0.1, 50.0
"""A rise of the round-trip time under load that is smaller than one of these is none."""
STREAMS = 16
"""Most parallel streams that are recommended."""

SAMPLED = (
    "rtt_us rtt_min_us receive_window_share send_buffer_share busy_share application_share unsent_none_share "
    "sent_again_share sent_again_count delivery_bps bbr_bps window_bytes receive_buffer_bytes unread_bytes queue_bytes"
).split()
"""What samples of the connections tell: fields of `Evidence`, and columns ``limit_…`` of the runs."""
SEGMENT = 1448
"""Payload of a segment where the log does not tell, bytes."""


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
    rtt_us : tuple of float or None
        Round-trip time when idle and under load, and the part of the rise that is due to the queue at the sender:
        medians over the runs, µs. None without samples.
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
    rtt_us: tuple[float, float, float] | None
    notice: str | None = None

    @property
    def delay(self) -> str:
        """Where a packet waits under load, in words; empty where it is not known, or nothing waits.

        A rise below a tenth of the idle path's round-trip time, or below 50 µs, is none.
        """
        if self.rtt_us is None:
            return ""
        idle, loaded, sender = self.rtt_us
        rise = loaded - idle
        if rise < max(RISE_US, RISE * idle):
            return ""
        times = f"round-trip time {format_value(loaded, 'us')} under load, {format_value(idle, 'us')} when idle"
        share = sender / rise
        if share >= 0.9:
            return f"{times}: the queue at the sender"
        path = (
            "on the path or at the receiver"
            if self.limit.causes[:1] == ("receiver's CPU",)
            else "on the path"
        )
        if share <= 0.1:
            return f"{times}: waiting {path}, not at the sender"
        return f"{times}: {100 * share:.0f} % of the rise waits at the sender, the rest {path}"

    @property
    def cause(self) -> str:
        """The causes in order; a link through a gateway is called so."""
        gateway = self.levels.get("gateway_sku") or self.levels.get("placement") in GATEWAYS
        return self.limit.name.replace("link", "link (gateway)") if gateway else self.limit.name

    @property
    def basis(self) -> str:
        """From what it was judged."""
        return "connections" if self.sampled else "log"

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
        return self.cause + (f", {self.limit.figure}" if self.limit.figure else "")

    @property
    def recommendation(self) -> str:
        """What to do about it; nothing where the cause is not known."""
        one, cause = self.limit, self.limit.causes[:1]
        if not cause or cause == ("rate",):
            return ""
        if one.cause == "window":
            buffers = SETTINGS.get(cause[0], "the TCP buffers on both ends")
            if not (one.ceiling_bps and self.link_known):
                return f"use several streams, or raise {buffers}"
            several = min(STREAMS, math.ceil(self.streams * one.ceiling_bps / self.bps))
            return (
                f"use {several} streams, or raise {buffers}"
                if several > self.streams
                else f"raise {buffers}"
            )
        if one.cause == "cpu":
            return f"a faster, or less busy, core on the {cause[0].partition(chr(39))[0]}"
        if one.cause == "loss":
            return "look for the loss on the path; several streams, or BBR, suffer less from it"
        return "another size of VM" if one.share else "a faster path: neither end is at its limit"

    def to_dict(self) -> dict[str, Any]:
        """Return what is known as JSON types."""
        one = self.limit.to_dict()
        return {
            "condition": dict(self.levels),
            "name": self.condition,
            "throughput_bps": self.bps,
            "cause": one["cause"],
            "causes": one["causes"],
            "share": one["share"],
            "evidence": one["reason"],
            "basis": self.basis,
            "ceiling_bps": one["ceiling_bps"],
            "next": one["next"],
            "runs": self.runs,
            "agree": self.agree,
            "recommendation": self.recommendation,
            **dict(
                zip(
                    ("rtt_idle_us", "rtt_loaded_us", "sender_queue_us"),
                    self.rtt_us or (None,) * 3,
                    strict=True,
                )
            ),
        }


class Limits(list[Held]):
    """What limits each condition; it shows itself as `npl limits` prints it, and as a table in a notebook."""

    def __repr__(self) -> str:
        return text(self)

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
    runs = runs_of(data)
    name = next(
        (
            m
            for m in ("throughput_bps", "throughput_sent_bps")
            if m in runs and runs[m].notna().any()
        ),
        None,
    )
    source = data if isinstance(data, Observations) else runs
    return Limits(
        of_conditions(
            observe(source, name or "throughput_bps", by, where=where, pool=pool)
        ).values()
    )


def limits_table(held: Sequence[Held]) -> Table:
    """The conditions as a table for a page: throughput, cause, evidence, what raising it brings, what to do.

    Examples
    --------
    >>> npl.analysis.limits_table(npl.limits(exp)).columns.to_list()[:3]
    ['condition', 'throughput', 'limited by']
    """
    heads = ["condition", "throughput", "limited by", "evidence", "raising it brings", "what to do"]
    rows = [
        (
            h.condition,
            format_value(h.bps, "bps"),
            h.short,
            "; ".join(filter(None, (h.limit.reason, h.delay))),
            h.ceiling or "–",
            h.recommendation or "–",
        )
        for h in held
    ]
    caption = (
        "What limits each condition. Raising the cause brings at most what the next limit allows."
    )
    return Table.of(pd.DataFrame(rows, columns=heads), caption)


def limits_words(held: Sequence[Held]) -> Headline:
    """How many conditions are limited by which cause.

    Examples
    --------
    >>> npl.analysis.limits_words(npl.limits(exp))[:49]
    'The link limits throughput on 5 of 13 conditions.'
    """
    texts = limit_sentences(held) or ["what limits these transfers is not known"]
    return Headline(" ".join(f"{text[:1].upper()}{text[1:]}." for text in texts))


NAMED = 3
"""Conditions up to which a cause names them."""


def limit_sentences(held: Sequence[Held], *, share: bool = True) -> list[str]:
    """``the window limits throughput on 4 of 12 conditions (cross-region: 4 MiB over 20 ms)``, a sentence a cause.

    The `share` of the link may have been said before.
    """
    groups: dict[str, list[Held]] = {}
    for one in held:
        groups.setdefault(one.cause, []).append(one)
    unknown = groups.pop(UNKNOWN, [])
    sentences = []
    for name, members in groups.items():
        names = [one.condition for one in members]
        few = len(members) == 1 or (len(members) <= NAMED and not any("," in n for n in names))
        where = in_words(names) if few else f"{len(members)} of {len(held)} conditions"
        where = f"all {len(held)}" if 1 < len(members) == len(held) else where
        first = min(members, key=lambda one: len(one.condition))
        figure = first.limit.figure if share or name != "link" else ""
        example = "" if len(members) == 1 else f"{first.condition}: "
        sentences.append(
            f"the {name.replace(', then ', ', then the ')} limits throughput on {where}"
            + (f" ({example}{figure})" if figure else "")
        )
        if first.link_known and first.ceiling:
            sentences.append(f"raising it brings {first.ceiling}")
    if groups and unknown:
        sentences.append(f"on {plural(len(unknown), 'other')} the limit is not known")
    return sentences


def text(held: Sequence[Held]) -> str:
    """The conditions as lines of text: cause, evidence, what raising it brings, and what to do."""
    blocks = []
    for one in held:
        lines = [f"{one.condition}: {format_value(one.bps, 'bps')}, limited by: {one.short}"]
        lines += [
            f"  {words}"
            for words in (one.limit.reason, one.ceiling, one.delay, one.recommendation)
            if words
        ]
        blocks.append("\n".join(lines))
    return "\n".join([*blocks, "", note(held)])


def note(held: Sequence[Held]) -> Words:
    """What the causes were judged from, in a sentence.

    Examples
    --------
    >>> npl.analysis.note(npl.limits(exp))[:32]
    "Based on the kernel's statistics"
    """
    sampled = sum(one.sampled for one in held)
    if sampled == len(held):
        return Words(
            "Based on the kernel's statistics of the connections, sampled on both hosts while they ran."
        )
    which = "All" if not sampled else f"{len(held) - sampled} of {plural(len(held), 'condition')}"
    return Words(
        f"{which} judged by logs and settings alone, for connections were not sampled: fewer causes can be named."
    )


def with_causes(family: Family, sides: Iterable[tuple[Observations | None, str, str]]) -> Family:
    """The comparisons, with what limits both sides where they are of throughput.

    `sides` has the observations of each comparison, and its two conditions, which may be empty.
    """
    held = [
        ([of_conditions(obs).get(c) for c in both] if obs else [None, None]) for obs, *both in sides
    ]
    causes = [[one.cause if one else "" for one in both] for both in held]
    every = (replace(c, held_back=(a, b)) for c, (a, b) in zip(family, causes, strict=True))
    return replace(family, comparisons=tuple(every))


def of_conditions(obs: Observations) -> dict[str, Held]:
    """Return what limits the conditions of `obs`, by name; empty where it is no throughput."""
    held: dict[str, Held] = obs.once("held back", lambda: _of_conditions(obs))
    return held


def _of_conditions(obs: Observations) -> dict[str, Held]:
    if not obs.metric.startswith("throughput"):
        return {}
    idle = _idle_rtt(obs._source.runs)
    held: dict[str, Held] = {}
    runs = obs.runs.reset_index(drop=True)
    rows: list[dict[str, Any]] = runs.to_dict("records")  # type: ignore[assignment]  # at once: a column costs, not a row
    for name, measured in runs.groupby("condition", sort=True, observed=True)[obs.metric]:
        every = [rows[position] for position in measured.index]
        judged = [(row, of_run(row, rtt_idle_us=idle(row))) for row in every]
        counts = Counter(limit.causes[:1] for _, limit in judged)
        cause, agree = counts.most_common(1)[0]
        alike = [(row, limit) for row, limit in judged if limit.causes[:1] == cause]
        row, limit = sorted(alike, key=lambda pair: pair[0].get(obs.metric) or 0)[len(alike) // 2]
        if agree < MOST * len(judged):
            shares = ", ".join(
                f"{(c or (UNKNOWN,))[0]} in {plural(n, 'run')}" for c, n in counts.most_common()
            )
            limit = Limit(reason=f"its runs differ: {shares}")
        held[str(name)] = Held(
            condition=str(name),
            levels={
                str(f): plain(level) for f, level in obs.conditions.loc[name].items() if f in obs.by
            },
            bps=float(measured.median()),
            limit=limit,
            streams=streams_of(row),
            runs=len(judged),
            agree=agree,
            sampled=all(_number(row, "limit_bps") is not None for row in every),
            link_known=_number(row, "advertised_bps") is not None,
            times=_times(every),
            roofs=roofs(e) if (e := evidence_of(row, rtt_idle_us=idle(row))) else {},
            rtt_us=_delays(every),
            notice=attached(obs.table).notice,
        )
    return held


def _times(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What a sender waited for, as shares of the time."""
    names = {**TIMES, "busy": "limit_busy_ratio"}
    values = {
        k: [v for row in rows if (v := _number(row, column)) is not None]
        for k, column in names.items()
    }
    if not all(values.values()):
        return {}
    shares = {k: min(1.0, max(0.0, median(v))) for k, v in values.items()}
    busy = shares.pop("busy")
    return {**shares, "program": 1 - busy, "path": max(0.0, busy - sum(shares.values()))}


def _delays(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float, float] | None:
    """Round-trip times of sampled runs, idle and under load, and what of the rise waits at the sender: medians, µs."""
    evidence = [e for row in rows if (e := evidence_of(row)) is not None]
    delays = [
        (e.rtt_min_us, e.rtt_us, w[1])
        for e in evidence
        if (w := waiting(e)) and e.rtt_min_us and e.rtt_us
    ]
    if not delays or len(delays) < len(rows):
        return None
    idle, loaded, sender = (median(column) for column in zip(*delays, strict=True))
    return idle, loaded, sender


def _idle_rtt(runs: pd.DataFrame) -> Callable[[Mapping[str, Any]], float | None]:
    """Return the round-trip time of a run's idle path: measured between its hosts, else on its kind of path."""
    keys = ("client", "server"), ("placement", "accelerated")
    idle = ok_runs(runs)
    idle = idle[idle["during"].isna()] if "during" in idle else idle
    values: dict[tuple[int, Hashable], float] = {}
    for name, factor in (("latency_oneway_us", 2.0), ("rtt_us", 1.0), ("rtt_p50_us", 1.0)):
        if name not in idle or not idle[name].notna().any():
            continue
        measured = idle[idle[name].notna()]
        for number, columns in enumerate(keys):
            if set(columns) <= set(runs):
                medians = measured.groupby(list(columns), dropna=False)[name].median()
                for level, delay in zip(medians.index, medians, strict=True):
                    values[number, tuple(map(plain, level))] = factor * float(delay)

    def of(row: Mapping[str, Any]) -> float | None:
        levels = [
            (number, tuple(plain(row.get(c)) for c in columns))
            for number, columns in enumerate(keys)
        ]
        return next(
            (values[key] for key in levels if key in values and any(v is not None for v in key[1])),
            None,
        )

    return of


def of_run(row: Mapping[str, Any], *, rtt_idle_us: float | None = None) -> Limit:
    """Return what limits one run of throughput; the parameters are those of `evidence_of`."""
    evidence = evidence_of(row, rtt_idle_us=rtt_idle_us)
    return held_back(evidence) if evidence else Limit(reason="there is no throughput")


def evidence_of(row: Mapping[str, Any], *, rtt_idle_us: float | None = None) -> Evidence | None:
    """Return what is known of one run; None if it has no throughput.

    Parameters
    ----------
    row : mapping
        A row of the table of runs.
    rtt_idle_us : float, optional
        Round-trip time of the idle path, for a run without samples of its connections.
    """
    sampled = _number(row, "limit_receive_window_ratio") is not None
    names = ("limit_bps", "throughput_bps", "throughput_sent_bps")
    bps = next((value for name in names if (value := _number(row, name))), None)
    if bps is None:
        return None
    streams = streams_of(row)
    rate = read_rate(row["bitrate"]) if plain(row.get("bitrate")) is not None else None
    common = Evidence(
        bps=bps,
        streams=streams,
        asked_bps=rate * streams if rate else None,
        cap_bps=_number(row, "advertised_bps"),
        receive_max_bytes=_number(row, "limit_receive_max_bytes"),
        send_max_bytes=_number(row, "limit_send_max_bytes"),
        buffer_set=_number(row, "tcp_buffer_bytes") is not None,
    )
    return _from_samples(row, common) if sampled else _from_log(row, common, rtt_idle_us)


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


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = plain(row.get(name))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _pair(row: Mapping[str, Any], *names: str) -> tuple[float, float] | None:
    one, two = (_number(row, f"limit_{name}_ratio") for name in names)
    return None if one is None or two is None else (one, two)


def _from_samples(row: Mapping[str, Any], common: Evidence) -> Evidence:
    values: dict[str, Any] = {
        f: _number(row, f"limit_{f.replace('_share', '_ratio')}") for f in SAMPLED
    }
    return replace(
        common,
        **values
        | {f: values[f] or 0.0 for f in ("busy_share", "application_share", "unsent_none_share")},
        sender=_pair(row, "sender_on", "sender_waiting"),
        receiver=_pair(row, "receiver_on", "receiver_waiting"),
        receiver_core=_pair(row, "receiver_core", "receiver_softirq"),
    )


def _from_log(row: Mapping[str, Any], common: Evidence, rtt_idle_us: float | None) -> Evidence:
    hosts = ("server", "client") if row.get("direction") == "reverse" else ("client", "server")
    processors = [_number(row, f"cpu_{host}_ratio") for host in hosts]
    again, sent = (
        _number(row, "retransmits_count"),
        _number(row, "sent_bytes") or _number(row, "transferred_bytes"),
    )
    congestion = _number(row, "cwnd_bytes")
    return replace(
        common,
        rtt_us=_number(row, "rtt_loaded_us"),
        rtt_min_us=rtt_idle_us,
        sent_again_share=again / max(1.0, sent / SEGMENT) if again is not None and sent else None,
        sent_again_count=again,
        lost_share=_number(row, "lost_ratio"),
        congestion_bytes=congestion / common.streams if congestion else None,
        sender=None if processors[0] is None else (processors[0], 0.0),
        receiver=None if processors[1] is None else (processors[1], 0.0),
    )
