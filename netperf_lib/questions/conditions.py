"""Conditions by name: which runs answer a question, the name of each condition, and its level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import NothingToReport, UsageError
from ..experiment.factors import dimensions, factor, level_words, sort_levels
from ..experiment.factors import plain as level_of
from ..metrics import MARGIN, METRICS, plural
from ..metrics import metric as metric_of
from ..stats import Quantiles, level, tails, units_of
from ..stats.runs_table import HOSTS
from ..tools.parsed import Percentile
from .observe import conditioned
from .words import effect, span

if TYPE_CHECKING:
    import pandas as pd

LENGTHS = ("duration_s", "omit_s")
"""The length of a test is not part of what it measures."""


def select(
    runs: pd.DataFrame,
    metric: str,
    *,
    about: str | None = None,
    along: str | None = None,
    tool: str | None = None,
    factors: Sequence[str] | None = None,
    **where: Any,
) -> pd.DataFrame:
    """Return the runs that answer a question, each with the name of its condition.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    metric : str
        Only complete runs with a value of this metric.
    about : str, optional
        The factor in question: every other one is held at one level, so that conditions differ only in this one.
    along : str, optional
        A factor that is an axis and not part of a condition: only conditions in which it varies are kept.
    tool : str, optional
        Only runs of this tool; default: the tool with most of these runs (tools are not mixed).
    factors : sequence of str, optional
        What makes a condition; those that do not vary are not named. Default: every factor but the lengths of a test.
    **where
        Factor and level, or a list of levels.

    Returns
    -------
    DataFrame
        The runs in time order with a column ``condition``, a categorical from near to far.

    Raises
    ------
    UsageError
        Unknown metric or factor.
    NothingToReport
        No run matches.
    """
    import pandas as pd

    metric_of(metric)
    factors = condition_factors(runs) if factors is None else factors
    kept = ok_runs(runs)
    kept = kept[kept[metric].notna()]
    for name, wanted in where.items():
        if name not in kept:
            raise UsageError(f"the table of runs has no factor {name!r}")
        kept = kept[kept[name].isin(wanted if isinstance(wanted, list | tuple | set) else [wanted])]
    if tool is None and len(kept):
        tool = str(kept["tool"].value_counts().sort_index().idxmax())
    kept = kept[kept["tool"] == tool]
    if kept.empty:
        which = "".join(f", {k} {v}" for k, v in ({"tool": tool} | where).items() if v is not None)
        raise NothingToReport(f"the experiment holds no run with a value of {metric}{which}")
    if about is not None:
        kept = _held(kept, about, factors)
    kept = kept.sort_values([c for c in ("deployment", "round", "order") if c in kept], kind="stable")
    names = named(kept, [f for f in factors if f != along])
    if along is not None:
        wide = (
            pd.Series(names, index=kept.index)
            .groupby(names)
            .transform(lambda v: len(objects(kept.loc[v.index, along]).unique()) > 1)
        )
        kept = kept[wide.astype(bool)]
        if kept.empty:
            raise NothingToReport(f"{along} does not vary in any condition with a value of {metric}")
        names = named(kept, [f for f in factors if f != along])
    columns = [f for f in factors if f in kept]
    first = kept[columns].assign(condition=names).drop_duplicates("condition")
    place = {row["condition"]: [factor(f).key(row[f]) for f in columns] for row in first.to_dict("records")}
    order = sorted(place, key=place.__getitem__)
    return kept.assign(condition=pd.Categorical(names, categories=order, ordered=True))


def condition_factors(runs: pd.DataFrame) -> list[str]:
    """Columns that make up a condition: every factor but the lengths of a test, which change nothing measured."""
    return [f for f in dimensions(runs.columns) if f not in LENGTHS]


def of_the_pair(runs: pd.DataFrame, name: str) -> bool:
    """Whether a factor is a property of the pair of hosts, so that it differs between pairs and never inside one."""
    return bool(runs.groupby(list(HOSTS), dropna=False)[name].nunique(dropna=False).max() == 1)


def objects(column: Any) -> Any:
    """A column, or a table, whose missing values are None and whose others are Python's own."""
    return column.astype(object).where(column.notna(), None)


def named(runs: pd.DataFrame, factors: Sequence[str]) -> list[str]:
    """Names of the conditions of runs, from the factors that vary; hosts only where they are needed."""
    plain = {f: objects(runs[f]) for f in factors if f in runs and len(runs[f].unique()) > 1}
    varying = [f for f, column in plain.items() if len(column.unique()) > 1]
    if not varying:
        alone = level_of(runs["placement"].iloc[0]) if "placement" in runs and len(runs) else None
        return [str(alone or "all runs")] * len(runs)
    for redundant in ("server", "client", "omit_s", "duration_s", "direction", "protocol", "test"):
        rest = [f for f in varying if f != redundant]
        if rest and redundant in varying and _distinct(plain, rest) == _distinct(plain, varying):
            varying = rest
    rows = list(zip(*(plain[f] for f in varying), strict=True))
    full = {row: [level_words(f, v) for f, v in zip(varying, row, strict=True)] for row in dict.fromkeys(rows)}
    ordinary = [(None, factor(f).ordinary) for f in varying]
    short = {
        row: ", ".join(w for w, v, usual in zip(words, row, ordinary, strict=True) if v not in usual)
        for row, words in full.items()
    }
    # the ordinary levels go unsaid, unless nothing else names the condition or tells it from another
    count = Counter(short.values())
    name_of = {row: name if name and count[name] == 1 else ", ".join(full[row]) for row, name in short.items()}
    return [name_of[row] for row in rows]


def _distinct(columns: dict[str, Any], names: Sequence[str]) -> int:
    return len(set(zip(*(columns[n] for n in names), strict=True)))


def _held(runs: pd.DataFrame, about: str, factors: Sequence[str]) -> pd.DataFrame:
    """Hold every factor but one at a level at which that one still varies: that with most runs, or the ordinary one."""
    if about not in runs:
        raise UsageError(f"the table of runs has no factor {about!r}")
    for name in factors:
        if name == about or name not in runs or len(runs[name].unique()) < 2:
            continue
        texts = objects(runs[name]).map(str)
        sizes = {
            text: (len(objects(group[about]).unique()), len(group)) for text, group in runs.groupby(texts, sort=True)
        }
        best = max(sizes, key=lambda t: (*sizes[t], t in ("None", "True")), default=None)
        if best is not None and sizes[best][0] > 1:
            runs = runs[texts == best]
    return runs


def label(table: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Give the rows of another table (intervals, percentiles) the conditions of their runs; others are left out.

    The runs are as `select` gives them. Raises NothingToReport if the table has no rows for them.
    """
    found = table.merge(runs[["run_id", "condition", "deployment", "round"]], on="run_id", how="inner")
    if found.empty:
        raise NothingToReport("the tools of these runs reported no such detail")
    return found


def shift(percentiles: pd.DataFrame, a: str, b: str, *, margin: float = MARGIN) -> Quantiles:
    """How condition `a` differs from `b` at every percentile in their logs: one value per run, paired by round.

    The table of percentiles is as `label` gives it; ratios within the margin count as equivalent.
    """
    import pandas as pd

    kept = percentiles[percentiles["percentile"].between(1, 100, inclusive="left")]
    sides = {}
    for name in (a, b):
        rows = kept[kept["condition"].astype(str) == name]
        sides[name] = {
            key: [
                Percentile(float(p), float(v), None if pd.isna(n) else int(n))
                for p, v, n in zip(g["percentile"], g["latency_us"], g["beyond"], strict=True)
            ]
            for key, g in rows.groupby(["deployment", "round"])
        }
    both = sorted(sides[a].keys() & sides[b].keys())
    if not both:
        raise NothingToReport(f"no round holds percentiles of both {a} and {b}")
    common = sorted(set.intersection(*({q.percentile for q in sides[n][k]} for n in (a, b) for k in both)))
    return tails(
        [sides[a][k] for k in both],
        [sides[b][k] for k in both],
        percentiles=common,
        margin=margin,
        names=(a, b),
        quantity="latency",
    )


def shift_table(quantiles: Quantiles | None) -> pd.DataFrame:
    """The result of `shift` as a table of text, one row per percentile."""
    import pandas as pd

    if quantiles is None:
        return pd.DataFrame(columns=["percentile", "effect", "interval", "rounds", "packets_beyond"])
    rows = [
        [f"{p:g}", effect(c.ratio), span(c), c.n, "few" if p in quantiles.flagged else "enough"]
        for p, c in zip(quantiles.percentiles, quantiles, strict=True)
    ]
    return pd.DataFrame(rows, columns=["percentile", "effect", "interval", "rounds", "packets_beyond"])


def levels(runs: pd.DataFrame, metric: str, *, confidence: float = 0.95) -> pd.DataFrame:
    """Level of every condition: the median of the runs, and its interval with its actual confidence.

    Parameters
    ----------
    runs : DataFrame
        The table of runs, or what `select` made of it.
    metric : str
        Column.
    confidence : float
        Confidence wanted for the interval. 95 % needs six runs; with fewer the interval is the range of the runs, and
        ``confidence`` is how often such a range covers the median: 75 % of the time with three runs.

    Returns
    -------
    DataFrame
        ``condition``, ``n``, ``median``, ``low``, ``high``, ``smallest``, ``largest`` in the unit of the metric, and
        ``confidence``. A single run has no interval.
    """
    import math

    import pandas as pd

    runs = conditioned(runs, metric)
    rows = []
    for name, group in runs.groupby("condition", observed=True, sort=True):
        group = group[group[metric].notna()]
        if not len(group):
            continue
        values = group[metric].astype(float)
        found = level(values, confidence, metric=metric, units=units_of(group))
        ends = [v if len(values) > 1 and math.isfinite(v) else None for v in (found.low, found.high)]
        sure = found.confidence if len(values) > 1 else None
        rows.append([str(name), len(values), found.median, *ends, values.min(), values.max(), sure])
    heads = ["condition", "n", "median", "low", "high", "smallest", "largest", "confidence"]
    table = pd.DataFrame(rows, columns=heads)
    table.attrs["deployments"] = len(set(units_of(runs)))
    return table


def interval_words(n: Iterable[int], confidence: float = 0.95, deployments: int = 1) -> str:
    """A level's interval, described for a caption: with few runs it is their range, at a lower confidence."""
    if deployments > 1:
        return f"its {100 * confidence:g} % interval (Student's t over the medians of {deployments} deployments)"
    counts = sorted(set(n))
    few = [k for k in counts if k > 1 and 1 - 0.5 ** (k - 1) < confidence]
    whole = [k for k in counts if k > 1 and k not in few]
    usual = f"its {100 * confidence:g} % interval by order statistics"
    if not few:
        return usual if whole else "no interval (one run each)"
    sure = list(dict.fromkeys(f"{100 * (1 - 0.5 ** (k - 1)):.3g} %" for k in (few[0], few[-1])))
    range_words = f"the range of the runs, which covers the median with {' to '.join(sure)} confidence"
    return f"{usual}, or, below {whole[0]} runs, {range_words}" if whole else range_words


def pooled(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each condition and round: the geometric mean over the pairs of hosts that were measured in it.

    A question about placement is a question about every pair of that placement; pairs in one round are not independent
    rounds. Runs that are alone in their round, or whose round is not known, stay as they are. ``client`` and
    ``server`` name all hosts; ``attrs["pooled"]`` is the largest number of pairs in a round.
    """
    import numpy as np
    import pandas as pd

    keys = ["deployment", "round", "condition"]
    every, alone = runs, runs[keys].isna().any(axis=1)
    runs = runs[~alone]
    if not len(runs) or runs.groupby(keys, observed=True).size().max() == 1:
        return every
    numbers = [m for m in METRICS if m in runs and runs[m].notna().any()]
    groups = runs.groupby(keys, observed=True, sort=False)

    def mean(values: Any) -> float:
        x = values.dropna().to_numpy(dtype=float)
        if not x.size:
            return float("nan")
        return float(np.exp(np.log(x).mean())) if (x > 0).all() else float(x.mean())

    table = groups.first().reset_index()
    for name in numbers:
        table[name] = groups[name].agg(mean).to_numpy()
    for side in HOSTS:
        table[side] = groups[side].agg(lambda v: "+".join(sorted(set(map(str, v))))).to_numpy()
    pairs = runs[[*keys, *HOSTS]].drop_duplicates().groupby(keys, observed=True).size()
    table = pd.concat([table[[*runs.columns]], every[alone]]) if alone.any() else table[[*runs.columns]]
    table = table.sort_values([c for c in ("deployment", "round", "order") if c in table])
    table.attrs = runs.attrs | {"pooled": int(pairs.max())}
    return table


def metric_label(metric: str) -> str:
    """The label of a metric, for readers."""
    return metric_of(metric).label


def heading(what: str, metric: str) -> str:
    """Heading of a page: ``Placement: one-way latency``."""
    quantity = metric_of(metric).label
    return f"{what}: {quantity[:1].lower()}{quantity[1:]}"


def describe(runs: pd.DataFrame, metric: str) -> str:
    """Describe in a sentence what was measured in runs of `select`: metric, tool, conditions, rounds, lengths."""
    info = metric_of(metric)
    tests = sorted({" ".join(t) for t in zip(runs["tool"].astype(str), runs["test"].astype(str), strict=True)})
    seconds = sorted(runs["duration_s"].dropna().unique())
    counts = runs["condition"].value_counts()
    each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    basis = f" ({info.basis})" if info.basis and info.basis not in info.label.lower() else ""
    better = {"lower": " Lower is better.", "higher": " Higher is better."}.get(info.better or "", "")
    length = f", {' or '.join(f'{s:g}' for s in seconds)} s per run" if seconds else ""
    return (
        f"The metric is **{info.label[0].lower()}{info.label[1:]}**{basis}, measured by {' and '.join(tests)} in "
        f"{plural(runs['round'].nunique(), 'round')} of {plural(runs['deployment'].nunique(), 'deployment')}: "
        f"{plural(len(counts), 'condition')}, {each} complete run{'' if counts.max() == 1 else 's'}"
        f"{' each' if len(counts) > 1 else ''}{length}.{better}"
    )


def status_counts(runs: pd.DataFrame) -> tuple[int, int, int]:
    """Count runs that are complete, that failed or were cut short, and that are excluded."""
    ok, excluded = _state(runs)
    return int(ok.sum()), int((~ok & ~excluded).sum()), int(excluded.sum())


def _state(runs: pd.DataFrame) -> tuple[pd.Series[bool], pd.Series[bool]]:
    """Which runs are complete and count, and which are excluded."""
    excluded = runs["excluded"].notna() if "excluded" in runs else runs["status"].isna()
    return (runs["status"] == "ok") & ~excluded, excluded


def ok_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs that count: complete, and not excluded."""
    return runs[_state(runs)[0]].copy()


def require(runs: pd.DataFrame, factor: str, *, metric: str | None = None) -> list[Any]:
    """Levels of a factor (null is None and comes first), in runs with a value of `metric` if one is given.

    Raises
    ------
    NothingToReport
        The experiment does not vary the factor. A report keeps the page, gives the reason, and leaves out the rest of
        the notebook.
    """
    for name in filter(None, (factor, metric)):
        if name not in runs:
            raise UsageError(f"the table of runs has no column {name!r}")
    kept = ok_runs(runs)
    if metric is not None:
        kept = kept[kept[metric].notna()]
    levels = sort_levels(factor, kept[factor].unique())
    if len(levels) < 2:
        held = ", ".join(str(level) for level in levels if level is not None) or "no known level"
        what = f" in runs with a value of {metric}" if metric else ""
        every = ok_runs(runs)
        others = [m for m in METRICS if m in every and len(every.loc[every[m].notna(), factor].unique()) > 1]
        held += f"; use the metric {' or '.join(others[:3])} instead" if metric and others else ""
        raise NothingToReport(f"this question needs at least 2 levels of {factor}{what}; the experiment holds {held}")
    return levels


def end(reason: str) -> NoReturn:
    """End the notebook here: the experiment lacks the data for it, and the report gives `reason`."""
    raise NothingToReport(reason)


@dataclass(frozen=True, slots=True)
class Counts:
    """How complete the data are: a sentence, a table by condition, and what happened to the runs that do not count."""

    words: str
    table: pd.DataFrame
    causes: pd.DataFrame

    @property
    def incomplete(self) -> pd.DataFrame:
        """The rows of the table with a run that does not count, or a round missing."""
        t: Any = self.table
        found: pd.DataFrame = t[(t["failed"] > 0) | (t["excluded"] > 0) | (t["rounds"] < t["rounds"].max())]
        return found


def counts(runs: pd.DataFrame) -> Counts:
    """Count what was measured, by condition: complete, failed, excluded, and in how many rounds."""
    import pandas as pd

    ok, excluded = _state(runs)
    each = pd.DataFrame({"ok": ok, "failed": ~ok & ~excluded, "excluded": excluded})
    each["condition"] = named(runs, condition_factors(runs))
    each["block"] = [f"{d}/{r}" for d, r in zip(runs["deployment"], runs["round"], strict=True)]
    by = each.groupby("condition", sort=True)
    summed = by[["ok", "failed", "excluded"]].sum().astype(int)
    rounds = each["block"].nunique()
    summed["rounds"] = each[ok].groupby("condition")["block"].nunique().reindex(summed.index, fill_value=0)
    whole = int((summed["rounds"] == rounds).sum())
    every = plural(len(summed), "condition")
    share = f"all {every}" if 1 < whole == len(summed) else every if whole == len(summed) else f"{whole} of {every}"
    share += " is" if 1 in (whole, len(summed)) else " are"
    words = (
        f"{plural(int(ok.sum()), 'run')} ok, {each['failed'].sum()} failed or cut short, {excluded.sum()} excluded; "
        f"{share} complete in every one of {plural(rounds, 'round')}."
    )
    bad = runs[~ok]
    what = bad["excluded"].fillna(bad["status"]) if "excluded" in bad else bad["status"]
    causes = pd.DataFrame({"run": bad["run_id"], "what": what, "cause": bad["error"]})
    return Counts(words, summed.reset_index(), causes)


def given(value: Any) -> bool:
    """Whether a cell of a table holds something."""
    import pandas as pd

    return not pd.isna(value)
