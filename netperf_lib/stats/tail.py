"""Tails: how two distributions of latencies differ from end to end.

The run stays the unit: a percentile is one value per run, however many packets it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from ..metrics import ALPHA, MARGIN, plural
from ..tools.parsed import Percentile
from .comparison import Comparison, Subject
from .result import Result
from .samples import compare_samples

FEW_BEYOND = 10
"""A percentile with fewer packets beyond it is not yet a property of the network."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Quantiles(Result):
    """How two conditions differ at several percentiles.

    Attributes
    ----------
    comparisons : tuple of Comparison
        One per percentile; they share `alpha` with each other.
    percentiles : tuple of float
    beyond : tuple of int or None
        Fewest observations beyond each percentile in any run; None if the logs do not say.
    notice : str, optional
        The caveat to show with these data.
    """

    comparisons: tuple[Comparison, ...]
    percentiles: tuple[float, ...]
    beyond: tuple[int | None, ...]
    notice: str | None = None

    @property
    def flagged(self) -> tuple[float, ...]:
        """Percentiles with fewer than 10 observations beyond them in some run."""
        return tuple(
            p
            for p, k in zip(self.percentiles, self.beyond, strict=True)
            if k is not None and k < FEW_BEYOND
        )

    @property
    def words(self) -> str:
        """One sentence per percentile, one per line."""
        return "\n".join(c.words for c in self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)


def percentile_name(percentile: float) -> str:
    """Name a percentile: ``median``, ``99.9th percentile``."""
    if percentile == 50:
        return "median"
    ending = (
        {1: "st", 2: "nd", 3: "rd"}.get(int(percentile) % 10, "th")
        if percentile == int(percentile)
        else "th"
    )
    return f"{percentile:g}{'th' if percentile in (11, 12, 13) else ending} percentile"


def tails(
    a: Sequence[Sequence[Percentile]],
    b: Sequence[Sequence[Percentile]],
    *,
    percentiles: Sequence[float] = (99.0, 99.9),
    margin: float = MARGIN,
    alpha: float = ALPHA,
    **subject: Unpack[Subject],
) -> Quantiles:
    """Compare percentiles of two conditions, one value per run; many of them form Doksum's shift function.

    Parameters
    ----------
    a, b : sequence of sequence of Percentile
        The runs of each side by round: the percentiles in the log of each run.
    percentiles : sequence of float
        Percentiles to compare; a round in which a run lacks one is left out of its comparison.
    margin, **subject
        As in `compare_samples`.
    alpha : float, default 0.05
        Share of calls that may contain a false verdict; the percentiles share it.

    Raises
    ------
    StatsError
        Sides of different length.

    Examples
    --------
    >>> from netperf_lib.tools.parsed import Percentile
    >>> near, far = ([[Percentile(99.0, us + i)] for i in range(8)] for us in (50.0, 100.0))
    >>> [str(c.verdict) for c in npl.stats.tails(near, far, percentiles=[99])]
    ['better']
    """
    levels = tuple(float(p) for p in percentiles)
    stated = [[{q.percentile: q for q in run} for run in side] for side in (a, b)]
    what = subject.get("quantity", "latency")
    comparisons, fewest = [], []
    for p in levels:
        names: Subject = {**subject, "quantity": f"{what} ({percentile_name(p)})"}
        sides = [[run[p].latency_us if p in run else math.nan for run in side] for side in stated]
        how: dict[str, Any] = {
            "margin": margin,
            "alpha": alpha,
            "family": len(levels),
            "better": "lower",
        }
        comparisons.append(compare_samples(*sides, **how, **names))
        counts = (run[p].beyond for side in stated for run in side if p in run)
        fewest.append(min((count for count in counts if count is not None), default=None))
    warnings = [
        f"{percentile_name(p)}: a run has only {plural(k, 'observation')} beyond it, fewer than {FEW_BEYOND}"
        for p, k in zip(levels, fewest, strict=True)
        if k is not None and k < FEW_BEYOND
    ]
    return Quantiles(
        comparisons=tuple(comparisons),
        percentiles=levels,
        beyond=tuple(fewest),
        n=min((c.n for c in comparisons), default=0),
        confidence=min((c.confidence for c in comparisons), default=0.0),
        method="percentiles of each run, paired by round, exact signed rank",
        assumptions=("rounds are independent blocks", "packets are never counted as observations"),
        warnings=tuple(warnings),
    )
