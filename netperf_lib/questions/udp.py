"""How much of what is sent as datagrams arrives, by the rate that was asked for: the question of RFC 2544."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ..errors import NothingToReport
from ..experiment.attached import attach, attached
from ..experiment.factors import plain, read_rate
from ..metrics import format_value, plural
from .observe import Data, Observations, level_names, observe
from .runs import runs_of
from .tables import Table
from .words import Headline

CARRIED = 0.001
"""Share of lost datagrams that still counts as carried."""
_BESIDE = {"sent": "throughput_sent_bps", "received": "throughput_bps", "jitter": "jitter_us"}


def datagrams(data: Data, *, where: Mapping[str, Any] | None = None, pool: str | Sequence[str] = ()) -> pd.DataFrame:
    """Return what each rate of datagrams gave: a row for each path and rate that was asked for.

    Parameters
    ----------
    data : Results, DataFrame or path
        An experiment, its runs or its folder.
    where, pool
        As `netperf_lib.observe` takes them.

    Returns
    -------
    DataFrame
        ``path`` (the other factors of the condition), ``asked_bps`` of all streams (that which was sent where no rate
        is known), ``runs`` with a loss and ``failed`` ones, medians ``sent_bps``, ``received_bps``, ``lost_ratio``,
        ``jitter_us`` (µs; null: unknown), and ``lost_most_ratio``, the largest loss of a run. By path and rate.

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
    by_id = runs.set_index("run_id")
    rows = []
    groups = dict(iter(obs.table.groupby("condition", sort=False, observed=True)))
    for name in filter(groups.__contains__, obs.conditions.index):
        rate = read_rate(obs.conditions.loc[name, "bitrate"]) if rated else None
        if (groups[name]["state"] == "ok").any():
            rows.append({"path": paths[str(name)], **_row_of(groups[name], by_id, rate)})
    table = pd.DataFrame(rows).astype({"asked_bps": float, "lost_ratio": float, "lost_most_ratio": float})
    table = table.sort_values(["path", "asked_bps"], kind="stable", ignore_index=True)
    attach(table, notice=attached(runs).notice)  # stands in the figure
    return table


def has_rates(runs: pd.DataFrame) -> bool:
    """Whether datagrams were counted at several rates."""
    return {"lost_ratio", "bitrate"} <= set(runs) and len(set(runs.loc[runs["lost_ratio"].notna(), "bitrate"])) > 1


def _row_of(group: pd.DataFrame, runs: pd.DataFrame, rate: float | None) -> dict[str, Any]:
    complete = group[group["state"] == "ok"]
    own = runs.loc[complete["run_id"]]
    values = {key: own[c].median() if c in own else None for key, c in _BESIDE.items()}
    streams = float(plain(own["streams"].iloc[0]) or 1) if "streams" in own else 1.0
    return {
        "asked_bps": rate * streams if rate else values["sent"],
        "runs": len(complete),
        "failed": int((group["state"] == "failed").sum()),
        "sent_bps": values["sent"],
        "received_bps": values["received"],
        "lost_ratio": complete["value"].median(),
        "lost_most_ratio": complete["value"].max(),
        "jitter_us": values["jitter"],
    }


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
            text += "" if best.lost_most_ratio <= loss else f"; up to {format_value(best.lost_most_ratio, 'ratio')}"
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
    words = {"asked_bps": "rate asked for", "sent_bps": "sent", "received_bps": "received"}
    shown = pd.DataFrame({"condition": table["path"]})
    for column, head in words.items():
        shown[head] = [format_value(v, "bps") for v in table[column].astype(float)]
    shown["lost"] = [format_value(v, "ratio") for v in table["lost_ratio"]]
    shown["largest loss"] = [format_value(v, "ratio") for v in table["lost_most_ratio"]]
    shown["jitter"] = [format_value(v, "us") for v in table["jitter_us"].astype(float)]
    shown["runs"] = [
        f"{n}" + (f", {f} failed" if f else "") for n, f in zip(table["runs"], table["failed"], strict=True)
    ]
    caption = "Rate asked for, sent and received; loss of the median run and of the worst; jitter: medians."
    return Table.of(shown, caption)
