"""How much of what is sent as datagrams arrives, by the rate that was asked for: the question of RFC 2544."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from ..errors import NothingToReport
from ..experiment.attached import attach, attached
from ..experiment.factors import read_rate
from ..metrics import format_value, plural
from .observe import Data, Observations, level_names, observe
from .runs import runs_of
from .tables import Table
from .words import Headline

CARRIED = 0.001
"""Share of lost datagrams that still counts as carried."""
NOTICEABLE = 0.01
"""Share of lost datagrams from which on a throughput is not shown without it."""
_BESIDE = {
    "sent_bps": "throughput_sent_bps",
    "received_bps": "throughput_bps",
    "jitter_us": "jitter_us",
}


def datagrams(
    data: Data, *, where: Mapping[str, Any] | None = None, pool: str | Sequence[str] = ()
) -> pd.DataFrame:
    """Return the results at each rate of datagrams: a row for each path and requested rate.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, its runs or its folder.
    where, pool
        As `netperf_lib.observe` takes them.

    Returns
    -------
    DataFrame
        ``path`` (the other factors of the condition), ``asked_bps`` of all streams (the rate sent, if no requested rate
        is known), ``runs`` with a loss and ``failed`` ones, medians ``sent_bps``, ``received_bps``, ``lost_ratio``,
        ``jitter_us`` (µs; null: unknown), and ``lost_most_ratio``, the largest loss of a run. Sorted by path and rate.

    Raises
    ------
    NothingToReport
        No complete run counted lost datagrams.

    Examples
    --------
    >>> float(npl.questions.datagrams("data/recorded/datagrams")["lost_ratio"].round(2).max())
    0.62
    """
    runs = runs_of(data)
    if "lost_ratio" not in runs or not runs["lost_ratio"].notna().any():
        raise NothingToReport("no run counted lost datagrams")
    rated = has_rates(runs)
    source = data if isinstance(data, Observations) else runs
    obs = observe(source, "lost_ratio", "bitrate" if rated else (), where=where, pool=pool)
    paths = level_names(obs, [name for name in obs.by if name != "bitrate"])
    own = (
        obs.runs.set_index("condition")
        .reindex(columns=["streams", *_BESIDE.values()])
        .astype(float)
    )
    own = own.groupby(level=0, observed=True).median()
    lost = obs.complete.groupby("condition", observed=True)["lost_ratio"].agg(
        ["size", "median", "max"]
    )
    failed = (obs.table["state"] == "failed").groupby(obs.table["condition"], observed=True).sum()
    rates = [read_rate(obs.at(str(c), "bitrate")) if rated else None for c in lost.index]
    table = pd.DataFrame(
        {
            "path": [paths[str(c)] for c in lost.index],
            "asked_bps": pd.Series(rates, lost.index, dtype=float) * own["streams"].fillna(1),
            "runs": lost["size"],
            "failed": failed,
            **{key: own[column] for key, column in _BESIDE.items()},
            "lost_ratio": lost["median"],
            "lost_most_ratio": lost["max"],
        },
        index=lost.index,
    )
    table["asked_bps"] = table["asked_bps"].where(
        table["asked_bps"] > 0, table["sent_bps"]
    )  # 0: as fast as it goes
    table = table.sort_values(["path", "asked_bps"], kind="stable", ignore_index=True)
    attach(table, notice=attached(runs).notice)  # stands in the figure
    return table


def lost_share(obs: Observations, conditions: Collection[str]) -> float:
    """The median share of datagrams that runs of these conditions lost; 0 where none was counted."""
    shares = obs.column("lost_ratio", conditions).dropna()
    return float(shares.median()) if len(shares) else 0.0


def has_rates(runs: pd.DataFrame) -> bool:
    """Whether datagrams were counted at several rates."""
    return {"lost_ratio", "bitrate"} <= set(runs) and len(
        set(runs.loc[runs["lost_ratio"].notna(), "bitrate"])
    ) > 1


def datagrams_words(table: pd.DataFrame, loss: float = CARRIED) -> Headline:
    """Return for each path the largest rate with at most this share of datagrams lost, and what the next one loses.

    Examples
    --------
    >>> rates = npl.questions.datagrams("data/recorded/datagrams")
    >>> npl.questions.datagrams_words(rates).splitlines()[0][:70]
    'cross-region: the largest rate with at most 0.1 % of the datagrams los'
    """
    limit = format_value(loss, "ratio")
    lines = []
    for path, rates in table.groupby("path", sort=False):
        rates = rates[rates["asked_bps"].notna()]
        below = rates["lost_ratio"] <= loss
        carried = rates[below.cummin()]
        if carried.empty:
            first = rates.iloc[0]
            text = f"every rate loses more than {limit} ({_loss(first)} at {format_value(first.asked_bps, 'bps')})"
        else:
            best = carried.iloc[-1]
            text = (
                f"the largest rate with at most {limit} of the datagrams lost is {format_value(best.asked_bps, 'bps')} "
                f"({_loss(best)}, median of {plural(int(best.runs), 'run')}"
            )
            text += (
                ""
                if best.lost_most_ratio <= loss
                else f"; up to {format_value(best.lost_most_ratio, 'ratio')}"
            )
            after = rates.iloc[len(carried) :]
            if after.empty:
                text += "), which is the highest that was asked for"
            else:
                text += f"); at {format_value(after.iloc[0].asked_bps, 'bps')} it is {_loss(after.iloc[0])}"
        lines.append(f"{path}: {text}.")
    return Headline("\n".join(lines))


def _loss(row: Any) -> str:
    return "none lost" if row.lost_ratio == 0 else f"{format_value(row.lost_ratio, 'ratio')} lost"


def datagrams_table(table: pd.DataFrame) -> Table:
    """The rates as a table for a page: rate, received, loss (median and largest), jitter, runs.

    Examples
    --------
    >>> rates = npl.questions.datagrams("data/recorded/datagrams")
    >>> npl.questions.datagrams_table(rates)["lost"].iloc[-1]
    '0 %'
    """
    words = {
        "asked_bps": ("requested rate", "bps"), "sent_bps": ("sent", "bps"), "received_bps": ("received", "bps"),
        "lost_ratio": ("lost", "ratio"), "lost_most_ratio": ("largest loss", "ratio"), "jitter_us": ("jitter", "us"),
    }  # fmt: skip
    rows = pd.DataFrame({"condition": table["path"]})
    for column, (head, unit) in words.items():
        rows[head] = [format_value(v, unit) for v in table[column]]
    failed = [f", {n} failed" if n else "" for n in table["failed"]]
    rows["runs"] = table["runs"].astype(str) + failed
    caption = "Requested rate, sent and received; loss of the median run and of the worst; jitter: medians."
    return Table.of(rows, caption)
