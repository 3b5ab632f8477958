"""Conditions by name: which runs answer a question, what each condition is called, and where its level lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..metrics import format_value
from ..metrics import metric as metric_of
from ..stats import level
from .origin import ok_runs
from .show import NothingToReport, Shown, say

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["levels", "measured", "select"]

ORDER = ("ppg", "same-zone", "cross-zone", "cross-region")
"""Placements from near to far; others follow in the order of the alphabet."""
FACTORS = ("placement", "accelerated", "tool", "test", "streams", "tcp_buffer_bytes", "message_bytes", "direction")


def _words(factor: str, value: Any) -> str:
    """How a condition calls a level; empty where it is the ordinary one."""
    import pandas as pd

    if value is None or pd.isna(value):
        return ""
    if factor == "accelerated":
        return "" if value else "not accelerated"
    if factor == "streams":
        return f"{int(value)} stream{'s' if value != 1 else ''}"
    if factor == "tcp_buffer_bytes":
        return f"{format_value(float(value), 'bytes')} buffers"
    if factor == "message_bytes":
        return f"{format_value(float(value), 'bytes')} messages"
    return str(value)


def select(
    runs: pd.DataFrame,
    metric: str,
    *,
    about: str | None = None,
    tool: str | None = None,
    factors: Sequence[str] = FACTORS,
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
        The factor in question: every other one is held at its most frequent level, so that conditions differ in this.
    tool : str, optional
        Only this tool's; default: the tool with most of these runs, for tools are not mixed.
    factors : sequence of str
        What makes a condition; those that do not vary are not named.
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
        No run answers.
    """
    import pandas as pd

    metric_of(metric)
    kept = ok_runs(runs)
    attrs = kept.attrs
    kept = kept[kept[metric].notna()]
    for factor, wanted in where.items():
        if factor not in kept:
            raise UsageError(f"the table of runs has no factor {factor!r}")
        kept = kept[kept[factor].isin(wanted if isinstance(wanted, list | tuple | set) else [wanted])]
    if tool is None and len(kept):
        tool = str(kept["tool"].value_counts().sort_index().idxmax())
    kept = kept[kept["tool"] == tool]
    if kept.empty:
        which = "".join(f", {k} {v}" for k, v in ({"tool": tool} | where).items() if v is not None)
        raise NothingToReport(f"the experiment holds no run with a value of {metric}{which}")
    if about is not None:
        kept = _held(kept, about, factors)
    varying = [f for f in factors if f in kept and len(kept[f].astype(object).unique()) > 1]
    kept = kept.sort_values([c for c in ("deployment", "round", "order") if c in kept], kind="stable")
    named = [_condition(varying, row) for row in kept[varying].astype(object).itertuples(index=False, name=None)]
    named = named or ["all"] * len(kept)
    first = kept.assign(condition=named).drop_duplicates("condition")

    def place(row: Any) -> tuple[Any, ...]:
        known = ORDER.index(row.placement) if row.placement in ORDER else len(ORDER)
        rest = [
            float(v) if v is not None and not pd.isna(v) else 0.0
            for v in (row.streams, row.tcp_buffer_bytes, row.message_bytes)
        ]
        return known, str(row.placement), row.accelerated is not True, *rest

    order = [row.condition for row in sorted(first.itertuples(), key=place)]
    kept = kept.assign(condition=pd.Categorical(named, categories=order, ordered=True))
    kept.attrs = attrs
    return kept


def _condition(factors: Sequence[str], row: Sequence[Any]) -> str:
    return ", ".join(filter(None, (_words(f, v) for f, v in zip(factors, row, strict=True)))) or "default"


def _held(runs: pd.DataFrame, about: str, factors: Sequence[str]) -> pd.DataFrame:
    """Keep the most frequent level of every factor but one, unless that one would then vary no more."""
    if about not in runs:
        raise UsageError(f"the table of runs has no factor {about!r}")
    for factor in factors:
        if factor == about or factor not in runs:
            continue
        level_of = runs[factor].astype(object).where(runs[factor].notna(), None)
        texts = level_of.map(str)
        common = texts == texts.value_counts().sort_index().idxmax()
        if len(runs.loc[common, about].astype(object).unique()) > 1:
            runs = runs[common]
    return runs


def levels(runs: pd.DataFrame, metric: str, *, confidence: float = 0.95) -> pd.DataFrame:
    """Level of every condition: the median of the runs and its interval.

    Parameters
    ----------
    runs : DataFrame
        As `select` gives it.
    metric : str
        Column.
    confidence : float
        Of the interval; fewer runs than it needs give none.

    Returns
    -------
    DataFrame
        ``condition``, ``n``, ``median``, ``low``, ``high``, ``smallest``, ``largest``; in the unit of the metric.
    """
    import math

    import pandas as pd

    rows = []
    for name, group in runs.groupby("condition", observed=True, sort=True):
        values = group[metric].astype(float)
        found = level(values, confidence, metric=metric)
        ends = [v if math.isfinite(v) else None for v in (found.low, found.high)]
        rows.append([str(name), len(values), found.median, *ends, values.min(), values.max()])
    return pd.DataFrame(rows, columns=["condition", "n", "median", "low", "high", "smallest", "largest"])


def measured(runs: pd.DataFrame, metric: str) -> Shown:
    """Say what was measured: metric, tool, conditions, rounds, lengths, hosts.

    Parameters
    ----------
    runs : DataFrame
        As `select` gives it.
    metric : str
        Column.
    """
    info = metric_of(metric)
    tests = sorted({" ".join(t) for t in zip(runs["tool"].astype(str), runs["test"].astype(str), strict=True)})
    seconds = sorted(runs["duration_s"].dropna().unique())
    counts = runs["condition"].value_counts()
    each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    basis = f" ({info.basis})" if info.basis and info.basis not in info.label.lower() else ""
    better = {"lower": " Less is better.", "higher": " More is better."}.get(info.better or "", "")
    length = f", {' or '.join(f'{s:g}' for s in seconds)} s a run" if seconds else ""
    return say(
        f"Shown is **{info.label[0].lower()}{info.label[1:]}**{basis}, measured by {' and '.join(tests)} in "
        f"{_count(runs['round'].nunique(), 'round')} of {_count(runs['deployment'].nunique(), 'deployment')}: "
        f"{len(counts)} conditions, {each} complete runs each{length}.{better}"
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
