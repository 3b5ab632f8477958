"""What limits a transfer, by the kernel's own account of its connections.

Linux counts, of the time in which a connection had data to send, how long the receive window
and the send buffer stopped it (``tcp_info``: busy, rwnd_limited, sndbuf_limited); in the rest
the path did, by its congestion window. A log alone tells two causes: the rate that was asked
for, and an advertised bandwidth that is reached. Where nothing holds the cause is *not known*.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..experiment.factors import read_rate
from ..metrics import plural
from .observe import Observations, observe
from .runs import Data, Levels, Names, measurement
from .words import UNKNOWN, Headline

RATE, ADVERTISED, PATH = "rate asked for", "advertised bandwidth", "path"
RECEIVE_WINDOW, SEND_BUFFER = "receive window", "send buffer"
SENDER, RECEIVER = "sender's CPU", "receiver's CPU"

OF_RATE, OF_ADVERTISED = 0.97, 0.95
"""Shares of the rate that was asked for, and of an advertised bandwidth, that reach it."""
FULL_THREAD = 0.93
"""Share of the time that a thread runs or waits for a processor, from which it is the limit."""
WINDOW, ALONE = 0.4, 0.8
"""Shares of the time from which on a window or a buffer, and the path, are the limit."""
TO_DO = {
    ADVERTISED: "another size of VM",
    RECEIVE_WINDOW: "more streams, or raise the receiver's tcp_rmem",
    SEND_BUFFER: "more streams, or raise the sender's tcp_wmem",
    PATH: "a path that carries more, or loses less",
    SENDER: "a faster, or less busy, core: sender",
    RECEIVER: "a faster, or less busy, core: receiver",
}
"""What to do about a cause."""


def causes(runs: pd.DataFrame) -> pd.DataFrame:
    """Return what limits each run of the table of runs, beside the shares that say so.

    Examples
    --------
    >>> fast = {"throughput_bps": 7.7e9, "advertised_bps": 8e9}
    >>> full = {"throughput_bps": 1e9, "limit_busy_ratio": 1.0,
    ...         "limit_send_buffer_ratio": 0.9, "limit_receive_window_ratio": 0.0}
    >>> causes(pd.DataFrame([fast, full]))["cause"].to_list()
    ['advertised bandwidth', 'send buffer']
    """

    def column(*names: str) -> pd.Series[float]:
        """Return the first of these columns that holds a number, of each run."""
        first = pd.Series(np.nan, runs.index)
        for name in names:
            if name in runs:
                numbers = pd.to_numeric(runs[name], errors="coerce").astype(float)
                first = first.fillna(numbers)
        return first

    bps = column("limit_bps", "throughput_bps", "throughput_sent_bps")
    rates = runs.reindex(columns=["bitrate"])["bitrate"].map(read_rate).astype(float)
    receive, send = (
        column("limit_receive_window_ratio"),
        column("limit_send_buffer_ratio"),
    )
    path = (1 - receive - send).clip(lower=0)
    idle = (1 - column("limit_busy_ratio").fillna(1)).clip(lower=0)
    # a program that had nothing ready to send leaves it open whether the path carries more
    waiting = column("limit_application_ratio").fillna(0).clip(lower=idle)
    found = pd.DataFrame(index=runs.index)
    found["of_asked"] = bps / (rates * column("limit_connections", "streams").fillna(1))
    found["of_advertised"] = bps / column("advertised_bps")
    for end in ("sender", "receiver"):
        # a thread that waits for a processor has no time left either
        running = column(f"limit_{end}_on_ratio").fillna(0)
        queued = column(f"limit_{end}_waiting_ratio").fillna(0)
        found[f"{end}_thread"] = (running + queued).where(path.notna())
    found["receive_window"], found["send_buffer"], found["path"] = receive, send, path
    rules = {
        RATE: found["of_asked"] >= OF_RATE,
        ADVERTISED: found["of_advertised"] >= OF_ADVERTISED,
        SENDER: found["sender_thread"] >= FULL_THREAD,
        RECEIVER: found["receiver_thread"] >= FULL_THREAD,
        RECEIVE_WINDOW: (receive >= send) & (receive * (1 - idle) >= WINDOW),
        SEND_BUFFER: (send > receive) & (send * (1 - idle) >= WINDOW),
        PATH: path * (1 - waiting) >= ALONE,
    }
    cause = np.select(list(rules.values()), list(rules), UNKNOWN)
    found["cause"] = np.where(bps > 0, cause, UNKNOWN)
    return found


def limits(
    data: Data,
    by: Names = (),
    *,
    where: Levels | None = None,
) -> pd.DataFrame:
    """Return what limits the throughput of each condition, with the evidence.

    Parameters
    ----------
    data, by, where
        An experiment, its runs or folder, or raw logs; the others as `netperf_lib.observe` takes
        them.

    Returns
    -------
    DataFrame
        A row for each condition that has a complete run: its levels; the throughput; ``cause``,
        which most of its runs name; ``what_to_do``; and the medians of ``of_asked`` and
        ``of_advertised``, shares of both rates, ``sender_thread`` and ``receiver_thread``, shares
        of the time, ``receive_window``, ``send_buffer`` and ``path``, the kernel's shares of the
        time in which there were data to send: null where the connections were not sampled.

    Raises
    ------
    UsageError
        No complete run has a throughput; or see `netperf_lib.observe`.

    Examples
    --------
    >>> small = {"tcp_buffer_bytes": 1048576}
    >>> limits("data/recorded/lab-full", where=small)["cause"].to_list()
    ['receive window']
    """
    source = data if isinstance(data, Observations) else measurement(data)
    metric = "throughput_bps"
    counts = source.runs[[metric, "throughput_sent_bps"]].count()
    if not counts[metric] and counts.any():
        metric = "throughput_sent_bps"
    return of_conditions(observe(source, metric, by, where=where))


def of_conditions(obs: Observations) -> pd.DataFrame:
    """Return what limits the conditions of `obs`; empty where it is no throughput."""
    if not obs.metric.startswith("throughput"):
        return pd.DataFrame(columns=["cause", "path"])
    found = causes(obs.runs).groupby(obs.runs["condition"].astype(object))
    table = obs.runs[[obs.metric]].groupby(obs.runs["condition"].astype(object)).median()
    table["cause"] = found["cause"].agg(_most)
    table["what_to_do"] = table["cause"].map(TO_DO).fillna("")
    shares = found.median(numeric_only=True)
    return obs.conditions.join([table, shares], how="inner")


def _most(named: pd.Series[str]) -> str:
    """Return what most runs name."""
    counts = named.value_counts()
    return str(counts.index[0]) if counts.iloc[0] > named.size / 2 else UNKNOWN


def limits_words(limited: pd.DataFrame) -> Headline:
    """Return how many conditions are limited by which cause, and of how many logs alone tell.

    Examples
    --------
    >>> npl.analysis.limits_words(npl.limits(exp))[:56]
    'The send buffer limits throughput on 5 of 13 conditions.'
    """
    sentences = []
    counts = limited["cause"].value_counts(sort=False)
    unknown = counts.pop(UNKNOWN) if UNKNOWN in counts else 0
    for cause, count in counts.items():
        where = f"{count} of {len(limited)} conditions"
        if count == 1:
            where = limited.index[limited["cause"] == cause][0]
        elif count == len(limited):
            where = f"all {count}"
        sentences.append(f"The {cause} limits throughput on {where}.")
    if sentences and unknown:
        sentences.append(f"On {plural(unknown, 'other')} the limit is not known.")
    elif unknown:
        sentences.append("What limits these transfers is not known.")
        if limited["path"].isna().all():
            sentences.append("Connections were not sampled, and logs alone do not tell.")
    return Headline(" ".join(sentences))
