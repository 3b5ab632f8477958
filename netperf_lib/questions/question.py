"""One question: a factor and a metric, with everything that its page shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import NothingToReport, UsageError
from ..experiment.factors import FACTORS, dimensions, factor, plain, residue, sort_levels
from ..experiment.model import Contrast
from ..experiment.placements import PLACES, USUAL
from ..metrics import MARGIN, PAGES, format_value
from ..metrics import metric as metric_of
from ..stats import Family
from ..stats.runs_table import HOSTS
from ..stats.steady_state import kept, whole
from ..stats.verdict import compare
from .conditions import (
    LENGTHS,
    condition_factors,
    describe,
    heading,
    levels,
    named,
    objects,
    of_the_pair,
    ok_runs,
    pooled,
    require,
    select,
)
from .words import contrasts

if TYPE_CHECKING:
    import pandas as pd

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
_FIGURES = ["condition", "n", "median", "low", "high"]


def headline_metrics(runs: pd.DataFrame) -> list[str]:
    """Headline metrics that the complete runs of an experiment have, in the order of a report.

    Examples
    --------
    >>> npl.questions.headline_metrics(exp.runs)
    ['latency_oneway_us', 'throughput_bps']
    """
    kept = ok_runs(runs)
    found = [m for m in PAGES if m in kept and kept[m].notna().any()]
    if "throughput_bps" in found and "throughput_sent_bps" in found:
        # the sender's figure is used where a tool reports no other, as in the client's log of iperf 2
        known = kept.groupby("tool")[["throughput_bps", "throughput_sent_bps"]].count() > 0
        if not (known["throughput_sent_bps"] & ~known["throughput_bps"]).any():
            found.remove("throughput_sent_bps")
    return found


@dataclass(frozen=True, slots=True)
class Question:
    """What a factor does to a metric.

    Attributes
    ----------
    factor, metric : str
        What is asked.
    runs : DataFrame
        One row for each condition and round, as `select` gives it; other factors are held at one level.
    family : Family
        Verdicts on the declared contrasts, else intervals against the baseline.
    contrasts : tuple of Contrast
        Those that the experiment declares for this question.
    confidence : float
        Of the intervals of the levels.
    notes : str
        Which factors were held, what was aggregated, and what else varies.
    elsewhere : DataFrame
        Levels of all other runs of the metric in which the factor varies; empty where `runs` holds them all.
    """

    factor: str
    metric: str
    runs: pd.DataFrame
    family: Family
    contrasts: tuple[Contrast, ...]
    confidence: float
    notes: str
    elsewhere: pd.DataFrame

    @property
    def title(self) -> str:
        """The question as a heading: ``Placement: one-way latency``."""
        label = factor(self.factor).label or self.factor.replace("_", " ")
        return heading(label[:1].upper() + label[1:], self.metric)

    @property
    def words(self) -> str:
        """What was measured, in sentences."""
        return f"{describe(self.runs, self.metric)} {self.notes}".strip()

    @property
    def levels(self) -> pd.DataFrame:
        """Median of each condition with its interval."""
        return levels(self.runs, self.metric, confidence=self.confidence)

    @property
    def beside(self) -> pd.DataFrame:
        """Medians of what the same runs measured too, by condition."""
        return beside(self.runs, self.metric)

    def to_frame(self) -> pd.DataFrame:
        """Return the comparisons, as `Family.to_frame` does."""
        return self.family.to_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; levels in the unit of the metric."""
        found = [dict(zip(_FIGURES, row, strict=True)) for row in (*_figures(self.levels), *_figures(self.elsewhere))]
        asked = {"factor": self.factor, "metric": self.metric, "words": self.words, "levels": found}
        return {**asked, **self.family.to_dict()}


def _figures(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Name, runs, median and ends of each level; unknown values are None."""
    if "tool" in table:
        table = table.assign(condition=table["condition"] + " (" + table["tool"] + ")")
    return [tuple(row) for row in objects(table.reindex(columns=_FIGURES)).to_numpy()]


def ask(
    runs: pd.DataFrame,
    about: str,
    metric: str | None = None,
    *,
    tool: str | None = None,
    baseline: Any = None,
    confidence: float = 0.95,
    margin: float | None = None,
    only: Sequence[Any] | None = None,
    **where: Any,
) -> Question:
    """Ask what a factor does to a metric.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    about : str
        The factor: any column that varies, including a label of your own.
    metric : str, optional
        Default: the first headline metric that was measured at two levels of the factor.
    tool : str, optional
        Only runs of this tool; default: the tool with most runs (tools are not mixed).
    baseline : optional
        Level that the others are compared with where no contrast is declared.
    confidence : float
        Of the intervals of the levels.
    margin : float, optional
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; default: as declared, else 0.05.
    only : sequence, optional
        Levels of the factor to compare; default: all.
    **where
        Factor and level, or a list of levels.

    Raises
    ------
    UsageError
        Unknown factor, metric or baseline.
    NothingToReport
        The factor does not vary in runs of this metric.

    Examples
    --------
    >>> npl.questions.ask(exp.runs, "placement", "throughput_bps").levels
    """
    if about not in runs:
        raise UsageError(f"the table of runs has no factor {about!r} (factors: {', '.join(dimensions(runs.columns))})")
    kept = ok_runs(runs)
    for name, level in {**where, **({about: list(only)} if only is not None else {})}.items():
        kept = kept[kept[name].isin(level if isinstance(level, list | tuple | set) else [level])]
    metrics = headline_metrics(kept)
    if metric is None:
        metric = next((m for m in metrics if _varies(kept[kept[m].notna()], about)), metrics[0] if metrics else None)
        if metric is None:
            raise NothingToReport("no complete run has a latency, a round trip or a throughput")
    require(kept, about, metric=metric)
    declared = tuple(c for c in contrasts(runs, about=about, metric=metric) if _within(c, about, only))
    asked = _asked(kept[kept[metric].notna()], about, declared)
    tool = tool or _tool(asked, about)
    names = condition_factors(runs)
    bound = about not in HOSTS and of_the_pair(kept, about)
    names = [f for f in names if f not in HOSTS] if bound else names
    chosen = select(asked, metric, about=about, tool=tool, factors=names)
    if not _varies(chosen, about):
        raise NothingToReport(f"{about} varies only together with the tool or another factor, in runs of {metric}")
    held = _held_words(kept, chosen, metric, names, about)
    left = [f for f in residue(chosen, ["condition"]) if f not in LENGTHS]
    chosen = pooled(chosen) if bound else chosen
    notes = [held]
    if chosen.attrs.get("pooled", 1) > 1:
        notes.append(
            f"Each value is the geometric mean over up to {chosen.attrs['pooled']} pairs of hosts of a condition in "
            "one round."
        )
    if others := [f for f in left if f not in HOSTS]:
        notes.append(f"Within conditions, {', '.join(others)} also var{'ies' if len(others) == 1 else 'y'}.")
    family = _family(runs, chosen, metric, about, declared, baseline, margin)
    rest = _rest(kept, chosen, metric, about, names)
    return Question(about, metric, chosen, family, declared, confidence, " ".join(filter(None, notes)), rest)


def _varies(runs: pd.DataFrame, about: str) -> bool:
    return len(runs[about].drop_duplicates()) > 1


def _tool(runs: pd.DataFrame, about: str) -> str:
    """The tool whose runs say most about a factor: most levels, then most runs."""
    sizes = {str(tool): (len(g[about].drop_duplicates()), len(g)) for tool, g in runs.groupby("tool", sort=True)}
    return max(sizes, key=lambda name: sizes[name])


def _within(contrast: Contrast, about: str, only: Sequence[Any] | None) -> bool:
    return only is None or bool({contrast.a.get(about), (contrast.b or {}).get(about)} & set(only))


def _asked(runs: pd.DataFrame, about: str, declared: Sequence[Contrast]) -> pd.DataFrame:
    """The runs at the levels that all declared contrasts share, unless that loses a level of the factor.

    What was declared about 32 streams is shown at 32 streams.
    """
    sides = [c.a for c in declared]
    for name, level in sides[0].items() if sides else ():
        if name in runs and name != about and all(name in side and side[name] == level for side in sides):
            found = runs[runs[name].isna() if level is None else runs[name] == level]
            if set(found[about].dropna()) == set(runs[about].dropna()) and len(found):
                runs = found
    return runs


def _held_words(every: pd.DataFrame, chosen: pd.DataFrame, metric: str, names: Sequence[str], about: str) -> str:
    """At which level other factors are held that vary in the experiment."""
    measured = every[every[metric].notna() & every["tool"].isin(chosen["tool"].unique())]
    words = []
    for name in names:
        if name in (about, *HOSTS, "tool", "test") or name not in chosen or not _varies(measured, name):
            continue
        if not _varies(chosen, name):
            words.append(factor(name).level_words(chosen[name].iloc[0]))
    return f"Held at: {', '.join(words)}." if words else ""


def _rest(kept: pd.DataFrame, chosen: pd.DataFrame, metric: str, about: str, names: Sequence[str]) -> pd.DataFrame:
    """Levels of the runs that the question leaves out, tool by tool, where the factor varies in them."""
    import pandas as pd

    shown = set(chosen["run_id"])
    tables = []
    for tool in sorted(kept.loc[kept[metric].notna(), "tool"].dropna().unique()):
        try:
            found = select(kept, metric, along=about, tool=tool, factors=names)
        except NothingToReport:
            continue
        found = select(found.drop(columns="condition"), metric, tool=tool, factors=names)
        # a condition that is shown whole is not repeated
        whole = found.groupby("condition", observed=True)["run_id"].agg(lambda ids: shown.isdisjoint(ids))
        found = found[found["condition"].astype(str).isin(whole[whole].index.astype(str))]
        found = found.assign(condition=found["condition"].cat.remove_unused_categories())
        if len(found) and not found.attrs.get("pooled") and chosen.attrs.get("pooled", 1) > 1:
            continue
        if len(found):
            tables.append(levels(found, metric).assign(tool=str(tool)))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["condition", "n"])


def _family(
    runs: pd.DataFrame,
    chosen: pd.DataFrame,
    metric: str,
    about: str,
    declared: Sequence[Contrast],
    baseline: Any,
    margin: float | None,
) -> Family:
    """Declared contrasts, or every level against the baseline that a reader would choose."""
    if declared:
        return compare(runs, contrasts=declared, margin=margin)
    table = chosen.drop(columns=["condition"]).assign(condition=chosen["condition"].astype(str))
    first = chosen.drop_duplicates("condition").sort_values("condition")
    level_of = {str(c): plain(v) for c, v in zip(first["condition"], first[about], strict=True)}
    name_of = {v: c for c, v in reversed(level_of.items())}
    bases: dict[str, list[str]] = {}
    for condition, level in level_of.items():
        base = baseline if baseline is not None else _baseline(first, about, level, list(name_of))
        # text from a command line means the level that is written like it
        base = base if base in name_of else next((v for v in name_of if str(v) == str(base)), base)
        if base not in name_of:
            known = ", ".join(map(str, level_of.values()))
            raise UsageError(f"no run of {metric} has {about} {base!r}, the baseline (levels: {known})")
        if condition != name_of[base]:
            bases.setdefault(name_of[base], []).append(condition)
    families = [
        compare(
            table[table["condition"].isin([base, *others])],
            contrasts=[_undeclared(metric, name, base, margin) for name in others],
        )
        for base, others in bases.items()
    ]
    return dataclasses.replace(families[0], comparisons=tuple(c for f in families for c in f))


def _undeclared(metric: str, one: str, base: str, margin: float | None) -> dict[str, Any]:
    sides = {"a": {"condition": one}, "b": {"condition": base}}
    return {"metric": metric, **sides, "margin": MARGIN if margin is None else margin, "declared": False}


def _baseline(first: pd.DataFrame, about: str, level: Any, levels: Sequence[Any]) -> Any:
    """The level that a reader would compare with: the ordinary one; for a far path the far place without it."""
    levels = sort_levels(about, levels)
    if about == "placement":
        ends = first[first[about] == level]
        path = level not in PLACES
        far = path and bool((ends["client_region"].fillna("") != ends["server_region"].fillna("")).any())
        return next((p for p in (*(["cross-region"] if far else []), *USUAL) if p in levels), levels[0])
    ordinary = factor(about).ordinary
    return ordinary if ordinary in levels else levels[0]


def beside(runs: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Medians, by condition of `select`, of what was measured along with a metric: CPU, retransmits, congestion window.

    A column for each metric of `BESIDE` with values; no row if there is none.
    """
    have = [m for m in BESIDE if m in runs and m != metric and runs[m].notna().any()]
    if not have:
        return runs.head(0)[["condition"]]
    found: pd.DataFrame = runs.groupby("condition", observed=True)[have].median().reset_index()
    return found


def overview(runs: pd.DataFrame) -> pd.DataFrame:
    """What was measured, in one table: a row for each kind of pair, a column for each headline metric and kind of test.

    Medians with their units, as text; where several pairs are of one kind, of their geometric mean in a round. Where
    there are many kinds of test and few of pairs, the table is the other way round.
    """
    import pandas as pd

    kept = ok_runs(runs)
    names = [f for f in condition_factors(kept) if f not in (*HOSTS, "tool", "test", "protocol", "direction")]
    unknown = kept[list(HOSTS)].isna().any(axis=None)  # labels then stand for the pairs of hosts
    ends = [f for f in names if (f == "placement" or f not in FACTORS if unknown else of_the_pair(kept, f))]
    kept = kept.assign(condition=named(kept, ends))
    order = list(dict.fromkeys(kept.sort_values(ends, key=lambda c: c.map(factor(str(c.name)).key))["condition"]))
    table = pd.DataFrame(index=pd.Index(order, name="condition"))
    metrics = headline_metrics(kept)
    for metric in metrics:
        unit, label = metric_of(metric).unit, metric_of(metric).label
        label = label if "throughput_sent_bps" in metrics else label.removesuffix(" at the receiver")
        measured = select(kept.drop(columns="condition"), metric, factors=[f for f in names if f not in ends])
        kinds = measured["condition"].cat.categories
        for kind in kinds:
            mine = pooled(measured[measured["condition"] == kind].assign(condition=kept["condition"]))
            middle = mine.groupby("condition")[metric].median()
            head = f"{label}, {kind}" if len(kinds) > 1 else label
            table[head] = middle.map(lambda v, unit=unit: format_value(float(v), unit)).reindex(order)
    if table.shape[1] > max(4, table.shape[0]):
        table = table.T.rename_axis("measured")
    return table.reset_index()


def stability(intervals: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """How steady the seconds inside the runs of `select` are, and how evenly parallel streams share.

    By condition, as medians over its runs: ``variation``, the standard deviation of the intervals of a run as a share
    of their mean; ``slowest``, the slowest interval as a share of the mean; ``slowest_stream`` and ``fastest_stream``
    in bits per second (null with one stream). No row where the tools gave no intervals.
    """
    import pandas as pd

    heads = ["condition", "runs", "variation", "slowest", "slowest_stream", "fastest_stream"]
    found = kept(intervals).merge(runs[["run_id", "condition"]], on="run_id", how="inner")
    if found.empty:
        return pd.DataFrame(columns=heads)
    single = found[found["stream"] != -1]
    sums = whole(found).groupby(["condition", "run_id", "start_s"], observed=True)["throughput_bps"].sum()
    each = sums.groupby(["condition", "run_id"], observed=True).agg(["mean", "std", "min", "size"])
    each = each[each["size"] > 1]
    streams = single.groupby(["condition", "run_id", "stream"], observed=True)["throughput_bps"].mean()
    ends = streams.groupby(["condition", "run_id"], observed=True).agg(["min", "max", "size"])
    ends = ends.loc[ends["size"] > 1, ["min", "max"]]
    rows = []
    for name, group in each.groupby("condition", observed=True):
        own = ends.loc[ends.index.get_level_values("condition") == name]
        shares = [float((group[what] / group["mean"]).median()) for what in ("std", "min")]
        rows.append([str(name), len(group), *shares, *(float(own[e].median()) if len(own) else None for e in ends)])
    return pd.DataFrame(rows, columns=heads)


def stability_words(table: pd.DataFrame) -> str:
    """The most and the least steady condition, in a sentence."""
    if not len(table):
        return "The tools reported no intervals within these runs."
    worst = table.sort_values("variation").iloc[-1]
    best = table.sort_values("variation").iloc[0]
    words = f"Within a run the intervals vary by {100 * best['variation']:.2g} % ({best['condition']})"
    if worst["condition"] != best["condition"]:
        words += f" to {100 * worst['variation']:.2g} % ({worst['condition']})"
    words += " of their mean."
    uneven = table.dropna(subset=["slowest_stream"])
    if len(uneven):
        row = uneven.iloc[int((uneven["fastest_stream"] / uneven["slowest_stream"]).to_numpy().argmax())]
        ends = [format_value(float(row[c]), "bps") for c in ("slowest_stream", "fastest_stream")]
        words += f" Parallel streams of one run carry {ends[0]} to {ends[1]} each ({row['condition']})."
    return words
