"""What limits a transfer, by the kernel's own account of its connections.

Linux counts, of the time in which a connection had data to send, how long the receive window
and the send buffer stopped it (``tcp_info``: busy, rwnd_limited, sndbuf_limited); in the rest
the path did, by its congestion window. A log alone tells two causes: the rate that was asked
for, and an advertised bandwidth that is reached. Where nothing holds the cause is *not known*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from ..experiment.factors import plain, read_rate
from ..metrics import format_value, plural
from .observe import Observations, observe
from .runs import Data, measurement
from .words import UNKNOWN, Headline

RATE, ADVERTISED, PATH = "rate asked for", "advertised bandwidth", "path"
RECEIVE_WINDOW, SEND_BUFFER = "receive window", "send buffer"
SENDER, RECEIVER = "sender's CPU", "receiver's CPU"

OF_RATE, OF_ADVERTISED = 0.97, 0.95
"""Shares of the rate that was asked for, and of an advertised bandwidth, that reach it."""
FULL_THREAD = 0.93
"""Share of the time that a thread runs or waits for a processor, from which it is the limit."""
WINDOW, ALONE = 0.4, 0.8
"""Shares of the busy time from which on a window or a buffer, and the path, are the limit."""
PROGRAM = 0.5
"""Share of the samples in which the program had nothing ready to send: the path is not proven."""
BUSY = 0.9
"""Share of the time in which data wait to be sent or confirmed; below it the program waits."""
AGREEING = 0.6
"""Share of the runs of a condition that name a cause, from which on it is the condition's."""
TO_DO = {
    ADVERTISED: "another size of VM",
    RECEIVE_WINDOW: "use several streams, or raise the receiver's net.ipv4.tcp_rmem",
    SEND_BUFFER: "use several streams, or raise the sender's net.ipv4.tcp_wmem",
    PATH: "a path that carries more, or loses less",
    SENDER: "a faster, or less busy, core: sender",
    RECEIVER: "a faster, or less busy, core: receiver",
}
"""What to do about a cause."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits one run: the cause, its evidence in words, and the kernel's three shares.

    Attributes
    ----------
    cause : str
        ``advertised bandwidth``, ``receive window``, ``send buffer``, ``path``, ``sender's CPU``,
        ``receiver's CPU``, ``rate asked for`` or ``not known``.
    reason : str
        The evidence.
    receive_window, send_buffer, path : float or None
        Shares of the busy time; None where the connections were not sampled.
    """

    cause: str
    reason: str
    receive_window: float | None = None
    send_buffer: float | None = None
    path: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limited:
    """What limits the throughput of a condition.

    Attributes
    ----------
    condition : str
    levels : mapping
        Factor to level.
    bps : float
        Median throughput of its runs, bit/s.
    cause, reason : str
        As in `Limit`, of most of its runs; not known if they do not agree.
    receive_window, send_buffer, path : float or None
        Medians of the kernel's shares.
    notice : str or None
        The caveat to show with these data.
    """

    condition: str
    levels: Mapping[str, Any]
    bps: float
    cause: str
    reason: str
    receive_window: float | None
    send_buffer: float | None
    path: float | None
    notice: str | None = None

    @property
    def recommendation(self) -> str:
        """What to do about it; empty where nothing is known."""
        return TO_DO.get(self.cause, "")


class Limits(list[Limited]):
    """What limits each condition; it shows itself as text, and as a table in a notebook."""

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each condition: ``bps``, ``cause``, ``reason``, the three shares."""
        columns = [name for name in Limited.__slots__ if name not in ("levels", "notice")]
        return pd.DataFrame([asdict(one) for one in self], columns=columns)

    def __repr__(self) -> str:
        blocks = []
        for one in self:
            rate = format_value(one.bps, "bps")
            lines = [f"{one.condition}: {rate}, limited by: {one.cause}", one.reason]
            lines.append(one.recommendation)
            blocks.append("\n  ".join(filter(None, lines)))
        return "\n".join([*blocks, "", _basis(self)])

    def _repr_html_(self) -> str:
        return str(limits_table(self).to_html())


def of_run(row: Mapping[str, Any]) -> Limit:
    """Return what limits one run, a row of the table of runs.

    Examples
    --------
    >>> of_run({"throughput_bps": 7.7e9, "advertised_bps": 8e9}).cause
    'advertised bandwidth'
    >>> of_run({"throughput_bps": 1e9, "limit_busy_ratio": 1.0, "limit_send_buffer_ratio": 0.9,
    ...         "limit_receive_window_ratio": 0.0}).cause
    'send buffer'
    """
    known = {name: plain(value) for name, value in row.items()}

    def number(*names: str) -> float | None:
        """Return the first of these columns that holds a number."""
        for name in names:
            value = known.get(name)
            if isinstance(value, int | float):
                return float(value)
        return None

    bps = number("limit_bps", "throughput_bps", "throughput_sent_bps")
    if not bps:
        return Limit(UNKNOWN, "there is no throughput")
    receive, send = (
        number("limit_receive_window_ratio"),
        number("limit_send_buffer_ratio"),
    )
    shares: tuple[float, float, float] | None = None
    if receive is not None and send is not None:
        shares = receive, send, max(0.0, 1 - receive - send)
    stated = _stated(bps, known.get("bitrate"), number)
    if stated:
        return Limit(*stated, *(shares or ()))
    if shares is None:
        words = "connections were not sampled, and the log alone does not tell"
        return Limit(UNKNOWN, words)
    full = _full_thread(number)
    if full:
        return Limit(*full, *shares)
    busy, program = number("limit_busy_ratio"), number("limit_application_ratio")
    return Limit(*_by_kernel(shares, busy, program or 0.0), *shares)


def _stated(bps: float, bitrate: Any, number: Any) -> tuple[str, str] | None:
    """Return the rate that was asked for, or the advertised bandwidth, where it is reached."""
    if bitrate is not None:
        asked = (read_rate(bitrate) or 0) * (number("limit_connections", "streams") or 1)
        if asked and bps >= OF_RATE * asked:
            return RATE, f"{_percent(bps / asked)} of the rate that the test asked for"
    advertised = number("advertised_bps")
    if advertised and bps >= OF_ADVERTISED * advertised:
        whole = format_value(advertised, "bps")
        return ADVERTISED, f"{_percent(bps / advertised)} of the advertised {whole}"
    return None


def _full_thread(number: Any) -> tuple[str, str] | None:
    """Return the end whose thread always runs or waits for a processor."""
    for end, cause in (("sender", SENDER), ("receiver", RECEIVER)):
        running = number(f"limit_{end}_on_ratio") or 0.0
        waiting = number(f"limit_{end}_waiting_ratio") or 0.0
        if running + waiting >= FULL_THREAD:
            words = f"its thread ran {_percent(running)} of the time"
            if waiting >= 0.01:
                words += f" and waited {_percent(waiting)} for a processor"
            return cause, words
    return None


def _by_kernel(
    shares: tuple[float, float, float], busy: float | None, program: float
) -> tuple[str, str]:
    """Return the cause that stopped the connections most of their busy time."""
    receive, send, path = shares
    if busy is not None and busy < BUSY:
        return UNKNOWN, f"nothing was left to send {_percent(1 - busy)} of the time"
    cause = UNKNOWN
    if max(receive, send) >= WINDOW:
        cause = RECEIVE_WINDOW if receive >= send else SEND_BUFFER
    elif path >= ALONE and program < PROGRAM:
        cause = PATH
    words = f"{RECEIVE_WINDOW} {_percent(receive)}, {SEND_BUFFER} {_percent(send)}"
    return cause, f"of the busy time: {words}, {PATH} {_percent(path)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def limits(
    data: Data,
    by: str | Sequence[str] = (),
    *,
    where: Mapping[str, Any] | None = None,
) -> Limits:
    """Return what limits the throughput of each condition, with the evidence.

    Parameters
    ----------
    data, by, where
        An experiment, its runs or folder, or raw logs; the others as `netperf_lib.observe` takes
        them.

    Returns
    -------
    Limits
        A list with a `Limited` for each condition that has a complete run.

    Raises
    ------
    UsageError
        No complete run has a throughput; or see `netperf_lib.observe`.

    Examples
    --------
    >>> small = {"tcp_buffer_bytes": 1048576}
    >>> [one.cause for one in limits("data/recorded/lab-full", where=small)]
    ['receive window']
    """
    source = data if isinstance(data, Observations) else measurement(data)
    names = ["throughput_bps", "throughput_sent_bps"]
    counts = source.runs.reindex(columns=names).count()
    sent_alone = counts["throughput_sent_bps"] > 0 and counts["throughput_bps"] == 0
    metric = names[1] if sent_alone else names[0]
    return Limits(of_conditions(observe(source, metric, by, where=where)).values())


def of_conditions(obs: Observations) -> dict[str, Limited]:
    """Return what limits the conditions of `obs`, by name; empty where it is no throughput."""
    if not obs.metric.startswith("throughput"):
        return {}
    found = {}
    for name, runs in obs.runs.groupby("condition", sort=True, observed=True):
        found[str(name)] = _of_condition(obs, str(name), runs)
    return found


def _of_condition(obs: Observations, condition: str, runs: pd.DataFrame) -> Limited:
    """Return what limits the runs of a condition: what most of them name."""
    rows: Any = runs.to_dict("records")
    table = pd.DataFrame(list(map(of_run, rows)))
    counts = table["cause"].value_counts()
    cause = str(counts.index[0])
    same = table[table["cause"] == cause]
    reason = str(same["reason"].iloc[len(same) // 2])
    if counts.iloc[0] < AGREEING * len(table):
        parts = [f"{name} in {plural(int(n), 'run')}" for name, n in counts.items()]
        cause, reason = UNKNOWN, f"its runs differ: {', '.join(parts)}"
    shares = table[["receive_window", "send_buffer", "path"]].astype(float).median()
    medians: list[Any] = [plain(share) for share in shares]
    return Limited(
        condition=condition,
        levels={name: obs.at(condition, name) for name in obs.by},
        bps=float(runs[obs.metric].median()),
        cause=cause,
        reason=reason,
        notice=obs.origin.notice,
        receive_window=medians[0],
        send_buffer=medians[1],
        path=medians[2],
    )


def limits_table(limited: Sequence[Limited]) -> pd.DataFrame:
    """Return the conditions in words: throughput, cause, evidence, what to do.

    Examples
    --------
    >>> npl.analysis.limits_table(npl.limits(exp)).columns.to_list()[:3]
    ['throughput', 'limited by', 'evidence']
    """
    columns = {
        "condition": [one.condition for one in limited],
        "throughput": [format_value(one.bps, "bps") for one in limited],
        "limited by": [one.cause for one in limited],
        "evidence": [one.reason for one in limited],
        "what to do": [one.recommendation or "–" for one in limited],
    }
    return pd.DataFrame(columns).set_index("condition").rename_axis(None)


def limits_words(limited: Sequence[Limited]) -> Headline:
    """Return how many conditions are limited by which cause.

    Examples
    --------
    >>> npl.analysis.limits_words(npl.limits(exp))[:56]
    'The send buffer limits throughput on 5 of 13 conditions.'
    """
    texts = limit_sentences(limited) or ["What limits these transfers is not known."]
    return Headline(" ".join(texts))


def limit_sentences(limited: Sequence[Limited]) -> list[str]:
    """Return ``the send buffer limits throughput on 4 of 12 conditions``, a sentence a cause."""
    groups: dict[str, list[Limited]] = {}
    for one in limited:
        groups.setdefault(one.cause, []).append(one)
    unknown = len(groups.pop(UNKNOWN, ()))
    sentences = []
    for cause, members in groups.items():
        where = f"{len(members)} of {len(limited)} conditions"
        if len(members) == 1:
            where = members[0].condition
        elif len(members) == len(limited):
            where = f"all {len(members)}"
        sentences.append(f"The {cause} limits throughput on {where}.")
    if groups and unknown:
        sentences.append(f"On {plural(unknown, 'other')} the limit is not known.")
    return sentences


def _basis(limited: Sequence[Limited]) -> str:
    """Say what the causes rest on."""
    logs = sum(one.path is None for one in limited)
    if not logs:
        return "Based on the kernel's account of the connections, sampled while they ran."
    which = (
        "All"
        if logs == len(limited)
        else f"{logs} of {plural(len(limited), 'condition')}"
    )
    return (
        f"{which} judged by logs alone, for connections were not sampled: they tell the rate "
        "that was asked for, and an advertised bandwidth that is reached."
    )
