"""Further questions of single pages: network cards, bandwidth, completeness, tails, windows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd

from ..errors import StatsError
from ..experiment.factors import FACTORS, factor, plain
from ..experiment.placements import PLACES
from ..metrics import format_value, in_words, plural
from ..metrics import metric as metric_of
from .observe import Data, Observations, ladders, level_names, levels, observe
from .result import check_share, percent, quantity
from .runs import HOSTS, headline_metrics, ok_runs, status_counts, table_of
from .scaling import Streams, streams
from .tables import Table
from .tcp_window import Buffers, buffer_needed, buffers
from .words import Headline, Words


def network_cards(data: Data, metric: str | None = None) -> Table | Words:
    """Network cards as the guests saw them, by condition; a sentence if nothing was recorded.

    Examples
    --------
    >>> npl.analysis.network_cards(exp, "latency_oneway_us")
    'The network cards of these hosts were not recorded.'
    """
    runs = observe(data, metric).runs
    cards = runs.groupby("condition", observed=True)[["nic_driver", "vf_up"]].first()
    cards = cards.dropna(how="all").reset_index()
    if cards.empty:
        return Words("The network cards of these hosts were not recorded.")
    cards = cards.set_axis(["condition", "driver", "virtual_function_up"], axis=1)
    return Table.of(cards, "Network cards as the guests see them.")


def advertised_bps(data: Any, gbps: float | None = None) -> float | None:
    """Advertised bandwidth of the smallest VM in bit/s: as given in Gbit/s, else as the experiment declares it.

    Examples
    --------
    >>> npl.analysis.advertised_bps(exp, 12.5)
    12500000000.0
    """
    if gbps:
        return gbps * 1e9
    runs = table_of(data)
    advertised = runs["advertised_bps"].dropna() if "advertised_bps" in runs else ()
    return float(min(advertised)) if len(advertised) else None


def _observed(data: Data, metric: str, by: str = "") -> Observations:
    """What was observed already, whatever its metric; else the observations of a metric."""
    inside = getattr(data, "observations", data)
    return inside if isinstance(inside, Observations) else observe(data, metric, by or ())


def places(data: Any) -> list[str] | None:
    """Placements that are locations, not paths, if there are several: ``ppg`` to ``cross-region``; else None (all).

    Examples
    --------
    >>> npl.analysis.places(exp)
    ['ppg', 'same-zone', 'cross-zone', 'cross-region']
    """
    names = [p for p in PLACES if p in set(ok_runs(data)["placement"].dropna())]
    return names if len(names) > 1 else None


def saturation(
    data: Data,
    metric: str | None = None,
    *,
    share: float = 0.95,
    advertised_bps: float | None = None,
) -> dict[str, Streams]:
    """How many streams are enough, for each condition: the result of `netperf_lib.analysis.streams`.

    `share` of the best throughput counts as saturated. A condition that cannot be fitted is left out. The metric is by
    default the throughput at the receiver.

    Examples
    --------
    >>> {fit.enough for fit in npl.analysis.saturation(exp).values()}
    {4}
    """
    check_share(share, "share")
    curves = {}
    obs = _observed(data, metric or "throughput_bps", by="streams")
    for name, rows in ladders(obs, "streams").items():
        wide = rows.pivot_table(
            index=["unit", "round"], columns="streams", values=obs.metric, aggfunc="median"
        )
        with contextlib.suppress(StatsError):
            rates = {int(k): wide[k].to_numpy(float) for k in wide.columns}
            curves[name] = streams(rates, share=share, advertised_bps=advertised_bps)
    return curves


COSTS = {
    "retransmits_count": ("{} instead of {} retransmitted segments", 10.0),
    "rtt_loaded_us": ("{} instead of {} round trip under load", 1.2),
}
"""What too many streams raise, in words, and from which ratio on that is said."""


def filling(obs: Observations, path: str, fit: Streams) -> list[str]:
    """How many streams fill a path, and what the most that were measured cost: one sentence or two."""
    enough, most = fit.enough or 0, max(fit.levels)
    fill = "fills" if enough == 1 else "fill"
    first = (
        f"{plural(enough, 'stream')} {fill} the path (at least {percent(fit.share)} of the best)"
    )
    if enough == most:
        return [first, "more than were measured may carry more"]
    rows, runs = ladders(obs, "streams")[path], obs.runs.set_index("run_id")
    costs = []
    for name, (sentence, ratio) in COSTS.items():
        if name not in runs:
            continue
        few, many = (
            runs.loc[rows.loc[rows["streams"] == n, "run_id"], name].median()
            for n in (enough, most)
        )
        if many > ratio * max(few, 1):
            unit = metric_of(name).unit
            costs.append(sentence.format(format_value(many, unit), format_value(few, unit)))
    cost = f" and cost {in_words(costs)}" if costs else ""
    return [first, f"{plural(most, 'stream')} give no more{cost}"]


def filled_paths(obs: Observations) -> list[str]:
    """For each ladder of three steps and more a line: how many streams fill its path, and what more cost."""
    if obs.asked != ("streams",) or metric_of(obs.metric).unit != "bps":
        return []
    fits = saturation(obs, obs.metric)
    enough = {
        path: fit for path, fit in fits.items() if len(fit.levels) > 2 and fit.enough is not None
    }
    return [f"{path}: {'. '.join(filling(obs, path, fit))}." for path, fit in enough.items()]


def levels_words(table: pd.DataFrame, metric: str) -> str:
    """The levels of conditions in a sentence, for a headline."""
    info = metric_of(metric)
    figures = ", ".join(
        f"{format_value(float(m), info.unit)} ({c})"
        for c, m in table["median"].items()
        if not isnan(m)
    )
    return f"{info.label}: {figures}."


def measured_intervals(intervals: pd.DataFrame) -> pd.DataFrame:
    """Intervals with a throughput, without those that the tool itself omitted."""
    measured = intervals[intervals["throughput_bps"].notna()]
    return (
        measured[~measured["omitted"].fillna(False).astype(bool)]
        if "omitted" in measured
        else measured
    )


def totals(intervals: pd.DataFrame) -> pd.DataFrame:
    """Intervals that add up to the data of a run: the sums that its tool reported, else those of its streams."""
    total = intervals["stream"] == -1
    return intervals[total | ~intervals["run_id"].isin(intervals.loc[total, "run_id"])]


def tail_metric(data: Any) -> str:
    """The percentile that gets a verdict: the 99th of one-way latency, else of the round trip.

    Examples
    --------
    >>> npl.analysis.tail_metric(exp)
    'latency_oneway_p99_us'
    """
    runs = ok_runs(data)
    for name in ("latency_oneway_p99_us", "rtt_p99_us"):
        if runs[name].notna().any():
            return name
    return "latency_oneway_p99_us"


@dataclass(frozen=True, slots=True)
class Windows:
    """Whether the window limits a stream, and which buffer a path needs.

    Attributes
    ----------
    runs : DataFrame
        Runs of one stream, with the size of the default buffer filled in where the hosts reported it.
    fit : Buffers or None
        The model; None where fewer than two sizes are known.
    needs : DataFrame
        ``path``, ``rtt_loaded_us``, ``buffer``: the buffer that a stream needs for the target.
    words : str
        The model, in sentences.
    settings : str
        The sysctl lines for the path that needs the largest buffer; empty if no round trip is known.
    """

    runs: pd.DataFrame
    fit: Buffers | None
    needs: Table
    words: Words
    settings: Words


def ask_windows(data: Data, target_gbps: float, *, eta: float | None = None) -> Windows:
    """Return which TCP buffer a stream needs.

    Parameters
    ----------
    data : what `observe` takes
        The experiment. Transfers of one stream are used, except those that only fill the path for another test.
    target_gbps : float
        Throughput wanted for one stream, in Gbit/s.
    eta : float, optional
        Share of a buffer that is in flight; default: estimated from the data, else one half.

    Raises
    ------
    NothingToReport
        There is no run of one stream with a throughput.

    Examples
    --------
    >>> npl.analysis.ask_windows(exp, 1.0).needs["path"].nunique()
    5
    """
    obs = observe(data, "throughput_bps", where={"streams": 1})
    if "during" in obs.by and None in set(obs.conditions["during"]):
        obs = observe(data, "throughput_bps", where={"streams": 1, "during": None})
    runs, words = obs.runs, _default_buffer(obs.runs)
    if DEFAULT in runs:
        runs["tcp_buffer_bytes"] = runs["tcp_buffer_bytes"].fillna(runs[DEFAULT])
    paths = level_names(obs, [f for f in obs.by if f != "tcp_buffer_bytes"])
    runs = runs.assign(path=runs["condition"].astype(str).map(paths))
    fit, model = _window_model(
        runs[runs["rtt_loaded_us"].notna() & runs["tcp_buffer_bytes"].notna()]
    )
    used = eta or (fit.eta.median if fit and fit.eta else 0.5)
    # a buffer beyond the need fills a queue, which makes the round trip longer: the shortest one counts
    timed = runs[runs["rtt_loaded_us"].notna()]
    by_buffer = (
        timed["rtt_loaded_us"]
        .groupby([timed["path"], timed["tcp_buffer_bytes"].fillna(0)])
        .median()
    )
    shortest = by_buffer.groupby("path").min().astype(float)
    needs = {
        str(path): buffer_needed(target_gbps * 1e9, rtt, used) for path, rtt in shortest.items()
    }
    rows = [
        [path, shortest[path], format_value(need.buffer_bytes, "bytes")]
        for path, need in needs.items()
    ]
    settings = ""
    if needs:
        path, need = max(needs.items(), key=lambda item: item[1].buffer_bytes)
        rate = format_value(target_gbps * 1e9, "bps")
        settings = "\n".join(
            [f"For {rate} over {path}, set on both ends:", *(f"- {line}" for line in need.sysctl)]
        )
    heads = {"path": "Path", "rtt_loaded_us": "Round trip under load", "buffer": "Buffer needed"}
    caption = f"Buffer that one stream needs on each path for {target_gbps:g} Gbit/s, at the shortest round trip under load."
    table = Table.of(pd.DataFrame(rows, columns=list(heads)), caption, columns=heads)
    return Windows(runs, fit, table, Words(model + words), Words(settings))


DEFAULT = "tcp_buffer_default_bytes"


def _default_buffer(runs: pd.DataFrame) -> str:
    """The size of the default buffer of the hosts, in a sentence."""
    if DEFAULT not in runs:
        return ""
    sizes = runs.loc[runs["tcp_buffer_bytes"].isna(), DEFAULT].dropna().unique()
    words = " or ".join(format_value(float(s), "bytes") for s in sizes)
    return f" The default buffer of these hosts is {words}." if words else ""


def _window_model(runs: pd.DataFrame) -> tuple[Buffers | None, str]:
    """The model of the window, on the path with most buffer sizes, in words."""
    sizes = runs.groupby("path")["tcp_buffer_bytes"].nunique()
    if not len(sizes) or sizes.max() < 2:
        return (
            None,
            "The model of the window is not fitted: it needs two buffer sizes with a round-trip time.",
        )
    path = sizes.idxmax()
    try:
        some = runs[runs["path"] == path]
        rounds = some.groupby(["deployment", "round"], dropna=False).ngroup()
        fit = buffers(
            some["tcp_buffer_bytes"], some["throughput_bps"], some["rtt_loaded_us"], rounds
        )
    except StatsError as error:
        return None, f"The model of the window is not fitted: {error}."
    return fit, f"On {path}: {fit.words}."


BESIDE = (
    "cpu_client_ratio",
    "cpu_server_ratio",
    "retransmits_count",
    "cwnd_max_bytes",
    "connect_us",
    "rtt_loaded_us",
    "jitter_us",
    "lost_ratio",
)
"""What the tools measure together with a headline metric."""


def beside(obs: Observations) -> tuple[pd.DataFrame, list[str]]:
    """Medians, by condition, of what was measured along with a metric: CPU, retransmits, congestion window.

    A column for each metric of `BESIDE` that at least half of the conditions have, and the names of the others.
    """
    names = [m for m in BESIDE if m in obs.runs and m != obs.metric]
    medians: pd.DataFrame = obs.runs.groupby("condition", observed=True)[names].median()
    share = medians.notna().mean()
    labels = [
        metric_of(str(m)).label.partition(",")[0] for m in share.index[(share > 0) & (share < 0.5)]
    ]
    few = [label if label[1:2].isupper() else label[:1].lower() + label[1:] for label in labels]
    return medians.loc[:, share >= 0.5].reset_index(), few


def overview(data: Data) -> pd.DataFrame:
    """What was measured, in one table: a row for each kind of pair, a column for each headline metric and kind of test.

    Medians with their units, as text. Several pairs of one kind are merged to their geometric mean in each round. With
    many kinds of test and few kinds of pairs, the table is transposed.

    Examples
    --------
    >>> npl.analysis.overview(exp).shape
    (12, 6)
    """
    metrics = headline_metrics(data)
    columns: dict[str, dict[str, str]] = {}
    order: dict[str, Any] = {}
    observed = [observe(data, metric, pool="pairs") for metric in metrics]
    places = _place_names(observed)
    for obs in observed:
        info = metric_of(obs.metric)
        label = (
            info.label
            if "throughput_sent_bps" in metrics
            else info.label.removesuffix(" at the receiver")
        )
        kinds = [f for f in obs.by if not _of_the_pair(obs.runs, f)]
        tests = level_names(obs, kinds) if kinds else {}
        for condition, value in zip(
            map(str, obs.conditions.index), levels(obs)["median"], strict=True
        ):
            placement = plain(obs.facts.loc[condition].get("placement"))
            row = places[obs.metric, condition]
            head = f"{label}, {tests[condition]}" if tests else label
            if not isnan(value):
                columns.setdefault(head, {})[row] = format_value(float(value), info.unit)
                order.setdefault(row, factor("placement").key(placement))
    table = pd.DataFrame(columns, index=sorted(order, key=order.__getitem__)).rename_axis(
        "condition"
    )
    if table.shape[1] > max(4, table.shape[0]):
        table = table.T.rename_axis("measured")
    return table.reset_index()


def _place_names(observed: Sequence[Observations]) -> dict[tuple[str, str], str]:
    """What to call the pair of each condition, the same for every metric: its placement, and what else varies there."""
    names: dict[tuple[str, str], str] = {}
    placed = list(
        dict.fromkeys(
            f for o in observed for f in o.by if f != "placement" and _of_the_pair(o.runs, f)
        )
    )
    seen: dict[Any, dict[str, set[Any]]] = {}
    for obs in observed:
        for facts in obs.facts.to_dict("records"):
            levels_there = seen.setdefault(plain(facts.get("placement")), {})
            for f in placed:
                levels_there.setdefault(f, set()).add(plain(facts.get(f)))
    for obs in observed:
        pairs = [f for f in obs.by if _of_the_pair(obs.runs, f)]
        own = level_names(obs, pairs) if pairs else {}
        for condition, facts in zip(
            map(str, obs.conditions.index), obs.facts.to_dict("records"), strict=True
        ):
            placement = plain(facts.get("placement"))
            more = [f for f in placed if len(seen[placement][f]) > 1]
            levels = {f: plain(facts.get(f)) for f in more}
            name = own.get(condition) or str(placement or "all runs")
            if placement is not None and all(isinstance(v, str) for v in levels.values()):
                name = ", ".join(
                    [str(placement), *(factor(f).level_words(v) for f, v in levels.items())]
                )
            names[obs.metric, condition] = name
    return names


def _of_the_pair(runs: pd.DataFrame, name: str) -> bool:
    """Whether a factor is a property of the pair of hosts; where these are not known, whether it is a label."""
    if runs[list(HOSTS)].isna().any(axis=None):
        return name == "placement" or name not in FACTORS
    return bool(runs.groupby(list(HOSTS), dropna=False)[name].nunique(dropna=False).max() < 2)


@dataclass(frozen=True, slots=True)
class Counts:
    """How complete the data are: a sentence, a table by condition, and the fate of the runs that do not count."""

    words: Headline
    table: pd.DataFrame
    causes: Table
    share: str
    """How many conditions are complete in every round."""

    @property
    def incomplete(self) -> Table | Words:
        """The rows of the table in which an observation failed or is missing; a sentence if there is none.

        Where all are complete, the headline counts only the runs.
        """
        t: Any = self.table
        rows = t[(t["failed"] > 0) | (t["missing"] > 0)]
        if rows.empty:
            return Words(self.share)
        return Table.of(rows, "Conditions that are not complete in every round.")


def counts(data: Data) -> Counts:
    """Count what was measured, by metric and condition: complete, failed, missing.

    Examples
    --------
    >>> npl.analysis.counts(exp).words[:10]
    '264 runs o'
    """
    runs = table_of(data)
    ok, failed, excluded = status_counts(runs)
    tables = [
        levels(data, m)[["n", "failed", "missing"]].assign(metric=quantity(m))
        for m in headline_metrics(runs)
    ]
    heads = ["condition", "metric", "n", "failed", "missing"]
    table = pd.concat(tables).reset_index()[heads] if tables else pd.DataFrame(columns=heads)
    rounds = int(runs.groupby("deployment", dropna=False)["round"].nunique().sum())
    # rounds that nobody planned are not known to be missing
    full = int(((table["failed"] == 0) & (table["missing"] == 0) & (table["n"] >= rounds)).sum())
    every = plural(len(table), "condition")
    share = (
        f"all {every}"
        if 1 < full == len(table)
        else every
        if full == len(table)
        else f"{full} of {every}"
    )
    share += " is" if 1 in (full, len(table)) else " are"
    every = (
        f" in every one of {plural(rounds, 'round')}."
        if rounds
        else "; which round a run is of is not known."
    )
    share = f"{share} complete{every}" if len(table) else ""
    words = f"{plural(ok, 'run')} ok, {failed} failed or cut short, {excluded} excluded"
    words += "." if full == len(table) else f"; {share}"
    bad = runs[
        (runs["status"] != "ok") | (runs["excluded"].notna() if "excluded" in runs else False)
    ]
    what = bad["excluded"].fillna(bad["status"]) if "excluded" in bad else bad["status"]
    causes = pd.DataFrame({"run": bad["run_id"], "what": what, "cause": bad["error"]})
    return Counts(
        Headline(words),
        table,
        Table.of(causes, "Runs that do not count, and why."),
        share[:1].upper() + share[1:],
    )
