"""Every pair of ends against every other: zones, availability domains, regions or hosts as a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import NothingToReport
from ..experiment.factors import dimensions
from ..experiment.model import Contrast
from ..metrics import format_value
from ..metrics import metric as metric_of
from ..stats import Family
from ..stats.runs_table import HOSTS
from ..stats.verdict import compare
from .conditions import LENGTHS, condition_factors, describe, levels, objects, of_the_pair, ok_runs, select
from .question import headline_metrics
from .words import contrasts

if TYPE_CHECKING:
    import pandas as pd

ENDS = {
    "zone_physical": "physical zone",
    "zone": "zone (logical: the subscription's own number)",
    "region": "region",
    "": "host",
}
"""Names for the two ends of a pair, the most informative first."""
ALIKE = 0.02
"""Pairs whose medians differ by no more are not called best and worst."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """A metric between every two ends.

    Attributes
    ----------
    metric : str
    ends : str
        What the rows and columns are: zones, regions or hosts.
    runs : DataFrame
        The runs, with ``condition`` as ``client → server``.
    levels : DataFrame
        ``client``, ``server`` (names of the ends) and what `levels` gives.
    family : Family or tuple
        Verdicts on the declared contrasts between pairs; empty where none is declared.
    contrasts : tuple of Contrast
    """

    metric: str
    ends: str
    runs: pd.DataFrame
    levels: pd.DataFrame
    family: Family | tuple[()]
    contrasts: tuple[Contrast, ...]

    @property
    def words(self) -> str:
        """Which pair is best and worst, and how much the two directions of a pair differ."""
        info = metric_of(self.metric)
        ordered = self.levels.sort_values("median", ascending=info.better != "higher")
        first, last = ordered.iloc[0], ordered.iloc[-1]
        best, worst = (format_value(float(row["median"]), info.unit) for row in (first, last))
        words = f"Best is {first['condition']} with {best}, worst {last['condition']} with {worst}."
        medians = sorted((float(first["median"]), float(last["median"])))
        if best == worst:
            words = f"All pairs have {best}."
        elif medians[1] <= (1 + ALIKE) * medians[0]:
            low, high = (format_value(m, info.unit) for m in medians)
            words = f"All pairs have {low} to {high}, within {100 * (medians[1] / medians[0] - 1):.2g} % of each other."
        both = self.levels.merge(self.levels, left_on=["client", "server"], right_on=["server", "client"])
        both = both[both["client_x"].astype(str) < both["client_y"].astype(str)]
        if len(both):
            ratio = (both["median_x"] / both["median_y"]).map(lambda r: max(r, 1 / r) - 1)
            words += f" The two directions of a pair differ by up to {100 * float(ratio.max()):.2g} %."
        else:
            words += " Each pair was measured in one direction."
        sure = self.levels["confidence"].min()
        if sure < 0.95:
            few = self.levels.loc[self.levels["confidence"] == sure].iloc[0]
            width = (self.levels["high"] / self.levels["low"] - 1).max()
            words += (
                f" The {few['n']} runs of a pair differ by up to {100 * width:.2g} %: their range covers the median "
                f"with {100 * sure:.3g} % confidence."
            )
        return words

    @property
    def measured(self) -> str:
        """What was measured, in sentences."""
        return describe(self.runs, self.metric)


def has_pairs(runs: pd.DataFrame, metric: str) -> bool:
    """Whether a metric was measured of pairs that make a matrix: several that differ in nothing but their hosts."""
    kept = ok_runs(runs)
    kept = kept[kept[metric].notna() & kept["client"].notna() & kept["server"].notna()]
    kinds = [f for f in condition_factors(kept) if f not in HOSTS and of_the_pair(kept, f)]
    each = kept.groupby(kinds, dropna=False, observed=True)[list(HOSTS)].nunique() if len(kept) else kept[[*HOSTS]]
    return bool((each.min(axis=1) > 1).any())


def ends_of(runs: pd.DataFrame) -> tuple[str, str]:
    """Names of the ends of the pairs for which every cell of a matrix is one pair: column suffix and words."""
    pairs = runs.drop_duplicates(["client", "server"])
    for end, words in ENDS.items():
        columns = [f"client_{end}", f"server_{end}"] if end else ["client", "server"]
        if not set(columns) <= set(runs.columns) or pairs[columns].isna().any(axis=None):
            continue
        if len(pairs[columns].drop_duplicates()) == len(pairs):
            return end, words
    return "", ENDS[""]


def ask_pairs(runs: pd.DataFrame, metric: str | None = None, *, tool: str | None = None) -> Pairs:
    """Ask for a metric between every two ends.

    Parameters
    ----------
    runs : DataFrame
        The table of runs.
    metric : str, optional
        Default: the first headline metric.
    tool : str, optional
        Only runs of this tool; default: the tool with most runs.

    Raises
    ------
    NothingToReport
        There are not several pairs of one placement.

    Examples
    --------
    >>> npl.plots.matrix(npl.questions.ask_pairs(exp.runs, "throughput_bps").levels, "throughput_bps")
    """
    import pandas as pd

    metric = metric or next(iter(headline_metrics(runs)), "latency_oneway_us")
    if not has_pairs(runs, metric):
        raise NothingToReport("a matrix needs several pairs of one placement, with several clients and servers")
    factors = [f for f in dimensions(runs.columns) if f not in (*LENGTHS, "client", "server")]
    chosen = select(runs, metric, tool=tool, factors=["client", "server", *factors])
    for name in [f for f in factors if f != "placement"]:  # one level of whatever varies besides the pair
        if len(chosen[name].drop_duplicates()) > 1:
            most = objects(chosen[name]).map(str)
            chosen = chosen[most == most.value_counts().sort_index().idxmax()]
    end, words = ends_of(chosen)
    sides = [f"client_{end}", f"server_{end}"] if end else ["client", "server"]
    names = chosen[sides[0]].astype(str) + " → " + chosen[sides[1]].astype(str)
    ordered = names.groupby(names).first().index
    table = chosen.assign(condition=pd.Categorical(names, categories=list(ordered), ordered=True))
    found = levels(table, metric)
    parts = found["condition"].str.split(" → ", n=1, expand=True)
    found = found.assign(client=parts[0], server=parts[1])
    known = {"client", "server", *(f"{side}_{e}" for side in ("client", "server") for e in ENDS if e)}
    declared = tuple(c for c in contrasts(runs, metric=metric) if _differ(c) and _differ(c) <= known)
    family = compare(runs, contrasts=declared) if declared else ()
    return Pairs(metric, words, table, found, family, declared)


def _differ(contrast: Contrast) -> set[str]:
    return {n for n in {**contrast.a, **(contrast.b or {})} if contrast.a.get(n) != (contrast.b or {}).get(n)}
