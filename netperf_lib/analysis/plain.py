"""Verdicts on a plain table: rounds down, conditions across."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..errors import UsageError
from ..metrics import ALPHA
from .comparison import Family
from .samples import Sample, judge_samples

if TYPE_CHECKING:
    import pandas as pd


def judge(
    wide: pd.DataFrame,
    *,
    baseline: Hashable,
    better: Literal["lower", "higher"],
    margin: float = 0.1,
    alpha: float = ALPHA,
) -> Family:
    """Judge each condition of a plain table against a baseline, as one family.

    Parameters
    ----------
    wide : DataFrame
        A row is a round, a column a condition, as `Observations.wide` has them. The index is the
        round, or the deployment and the round: several deployments are the replicates. NaN: there
        is no run; infinity: it failed.
    baseline : hashable
        The column that the others are compared with.
    better : {"lower", "higher"}
        Which direction is good.
    margin : float, default 0.1
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    alpha : float, default 0.05
        Share of tables that may contain a false verdict.

    Returns
    -------
    Family
        A `Comparison` for each other column, in their order; what `compare` gives for the same
        values.

    Raises
    ------
    UsageError
        There is no such column, or nothing to compare it with.

    Examples
    --------
    >>> wide = npl.observe(exp, "latency_oneway_p99_us").wide
    >>> family = npl.judge(wide, baseline=wide.columns[0], better="lower")
    >>> len(family) == len(wide.columns) - 1
    True
    """
    if better not in ("lower", "higher"):
        raise UsageError(f"better is 'lower' or 'higher'; got {better!r}")
    if baseline not in wide.columns:
        columns = ", ".join(map(str, wide.columns))
        raise UsageError(
            f"the table has no column {baseline!r}, the baseline; it has {columns}"
        )
    others = [name for name in wide.columns if name != baseline]
    if not others or not wide.columns.is_unique:
        raise UsageError(
            "the table needs a column for each condition, and two or more of them"
        )
    wide = wide.sort_index().astype(float)
    unit = None
    if wide.index.nlevels > 1:
        groups = wide.groupby(level=list(range(wide.index.nlevels - 1))).ngroup()
        unit = np.asarray(groups, dtype=np.intp)
    samples = [
        Sample(
            a=wide[name].to_numpy(),
            b=wide[baseline].to_numpy(),
            unit=unit,
            margin=margin,
            better=better,
            names=(str(name), str(baseline)),
        )
        for name in others
    ]
    return judge_samples(samples, alpha=alpha)
