"""One contrast: is condition A better than condition B, by how much, and is that certain enough to be said?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from .judge import DEPENDENT, judge_paired, judge_unpaired, more_rounds, rounds_required
from .rank import walsh
from .result import (
    Floats,
    Result,
    check_share,
    difference,
    direction,
    numbers,
    percent,
    plural,
    spread,
)

__all__ = ["About", "Better", "Comparison", "Verdict", "compare"]

Verdict = Literal["better", "worse", "equivalent", "inconclusive", "no verdict"]
Better = Literal["higher", "lower"]


class About(TypedDict, total=False):
    """What a contrast is about, for its words: fields of `Comparison`."""

    declared: bool
    metric: str
    quantity: str
    names: tuple[str, str]
    context: str
    scope: str


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Result):
    """What the data say about A against B.

    Attributes
    ----------
    verdict : {"better", "worse", "equivalent", "inconclusive", "no verdict"}
        A against B; `better` and `worse` are the user's view (less latency is better).
    ratio, low, high : float
        A divided by B, and its interval; NaN, 0 and infinity where there is none.
    reason : str
        Why there is no plain answer, or what to know about the one given; may be empty.
    more_rounds : int
        About how many more rounds would settle it; 0 where more rounds are not the remedy.
    margin, alpha : float
        Ratios within 1/(1 + margin) … 1 + margin count as equivalent; the share of families with a false verdict.
    family : int
        Contrasts that share `alpha`.
    better : {"higher", "lower"} or None
        Which direction of the metric is good.
    unit : str
        What is counted by `n`: "round", "run" or "deployment".
    dropped : int
        Rounds (or runs) in which a side had no value.
    declared : bool
        Whether the contrast was declared before the data; without that there is an interval and no verdict.
    metric, quantity : str
        Name of the metric, and how the sentence calls it.
    names : tuple of str
        What the sentence calls A and B.
    context : str
        Levels that both sides share, for example "8 streams".
    scope : str
        What the statement holds for, for example "for this VM pair".
    medians : tuple of float
        Median of the runs of A and of B, in the unit of the metric; NaN where they were not given.
    lag1_p : float or None
        How surely neighbouring rounds resemble each other (lag-1 rank permutation); None where it was not tested.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    reason: str = ""
    more_rounds: int = 0
    margin: float
    alpha: float
    family: int = 1
    better: Better | None = "higher"
    unit: str = "round"
    dropped: int = 0
    declared: bool = True
    metric: str = ""
    quantity: str = "value"
    names: tuple[str, str] = ("A", "B")
    context: str = ""
    scope: str = ""
    medians: tuple[float, float] = (math.nan, math.nan)
    lag1_p: float | None = None

    @property
    def dependent(self) -> bool:
        """Whether the rounds are not independent, so that no verdict is given."""
        return self.lag1_p is not None and self.lag1_p < DEPENDENT

    @property
    def words(self) -> str:
        """The result in a sentence that names the direction in the metric's words."""
        a, b = self.names
        tail = (f" ({self.context})" if self.context else "") + (f", {self.scope}" if self.scope else "")
        if self.verdict in ("better", "worse"):
            return difference(self.ratio, self.low if self.ratio > 1 else self.high, a, b, self.quantity) + tail
        if self.verdict == "equivalent":
            return (
                f"{a}: {self.quantity} equivalent to {b} within {percent(self.margin)} ({direction(self.ratio)}){tail}"
            )
        if self.verdict == "inconclusive":
            return f"{a} against {b}: {self.quantity} inconclusive, {spread(self.low, self.high)}{tail}; {self.reason}"
        if not math.isfinite(self.ratio):
            return f"{a} against {b}: no verdict on {self.quantity}{tail}: {self.reason}"
        return (
            f"{a} against {b}: {self.quantity} {direction(self.ratio)} in these runs "
            f"({spread(self.low, self.high)}, {percent(self.confidence)}){tail}; no verdict: {self.reason}"
        )

    @property
    def basis(self) -> str:
        """What the statement rests on, in a line."""
        share = f", one of a family of {self.family}" if self.family > 1 else ""
        return (
            f"verdict {self.verdict!r}: ratio {self.ratio:.4g}, {self.low:.4g} to {self.high:.4g} "
            f"at {percent(self.confidence)}, {plural(self.n, self.unit)}, margin {percent(self.margin)}{share}; "
            f"{self.method}"
        )


def check_options(margin: float, alpha: float, family: int, better: Better | None) -> None:
    """Refuse impossible options of a contrast.

    Raises
    ------
    StatsError
        An option is out of its range.
    """
    check_share(margin, "margin")
    check_share(alpha, "alpha", below=0.5)
    if family < 1 or int(family) != family:
        raise StatsError(f"family must be the number of contrasts that share alpha, 1 or more; got {family!r}")
    if better not in ("higher", "lower", None):
        raise StatsError(f"better must be 'higher', 'lower' or None; got {better!r}")


def conclude(code: int, low: float, high: float, better: Better | None, declared: bool) -> tuple[Verdict, str]:
    """Turn a code of `verdict_of` into the user's word, and the reason where there is something to say."""
    if not declared:
        return "no verdict", "not declared before the data"
    if code == 2:
        sure = low > 0 or high < 0
        return "equivalent", "a difference is certain, and smaller than the margin" if sure else ""
    if code == 0:
        return "inconclusive", ""
    if better is None:
        return "no verdict", "it differs, but neither direction is better"
    return "better" if (code == 1) == (better == "higher") else "worse", ""


def settle(more: int, what: str) -> str:
    """Say how many more of `what` would settle a contrast."""
    if more <= 300:
        return f"about {more} more {what} would settle it"
    return f"about {float(f'{more:.1e}'):,.0f} more {what} would settle it: find what makes the runs vary first"


def compare(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    margin: float = 0.05,
    alpha: float = 0.05,
    family: int = 1,
    better: Better | None = "higher",
    paired: bool = True,
    **about: Unpack[About],
) -> Comparison:
    """Compare condition A with condition B.

    Parameters
    ----------
    a, b : array_like, shape (rounds,)
        One value a run, in time order. Paired: position i of both is round i; a round in which a side has no value
        is dropped and counted.
    margin : float, default 0.05
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    alpha : float, default 0.05
        Share of families that may hold a false verdict.
    family : int, default 1
        Number of contrasts that share `alpha` (Bonferroni).
    better : {"higher", "lower"} or None
        Which direction is good; None: neither, so that a difference gets no verdict.
    paired : bool, default True
        False: the values were not measured in common rounds. The verdict then carries whatever drifted between the
        two sides, and says so.
    **about
        For the words: `declared` (False: found by looking at the data; an interval and no verdict), `metric`,
        `quantity`, `names`, `context`, `scope`; see `Comparison`.

    Returns
    -------
    Comparison

    Raises
    ------
    StatsError
        Sides of different length, values that are no numbers, or an option out of its range.

    Notes
    -----
    Paired: the Hodges-Lehmann estimate of the log ratio and the exact signed-rank interval; unpaired: the
    Hodges-Lehmann shift of the logs and the Mann-Whitney interval. No verdict is given below `rounds_required`, nor
    when the lag-1 rank permutation test shows rounds that are not independent (p < 0.01), nor for values of zero or
    less, which have no ratio. `more_rounds` is for planning the next experiment; to look again and again while
    rounds come in, use `stop_rule`.

    Examples
    --------
    >>> a = [58, 57, 59, 58, 58, 60, 57, 58]
    >>> b = [84, 85, 86, 84, 87, 88, 85, 85]
    >>> compare(a, b, better="lower", quantity="one-way latency", names=("ppg", "same-zone")).words
    'ppg: 32 % lower one-way latency than same-zone, at least 31 %'
    """
    check_options(margin, alpha, family, better)
    x, y, dropped = sides(a, b, paired)
    n, need = min(x.size, y.size), rounds_required(alpha, family)
    unit, side = ("round", "") if paired else ("run", " a side")
    ratio, low, high, confidence, more = math.nan, 0.0, math.inf, 0.0, 0
    lag1: float | None = None
    verdict: Verdict = "no verdict"
    warnings = []
    if dropped:
        warnings.append(f"{plural(dropped, unit)} dropped: a value is missing")
    if not paired:
        warnings.append("unblocked: what drifted between the two sides' measurements is part of the difference")

    if below := int((x <= 0).sum() + (y <= 0).sum()):
        reason = f"{plural(below, 'value')} of zero or less: there is no ratio"
    elif n < need:
        more = need - n
        shared = f" for a family of {family} contrasts" if family > 1 else ""
        reason = f"{plural(n, unit)}{side}, at least {need} are needed{shared} ({more} more)"
        if n:
            ratio, low, high, confidence = _range(x, y, paired)
    else:
        judge = judge_paired(np.log(x / y)[None, :], margin, alpha, family) if paired else None
        judged = judge or judge_unpaired(np.log(x)[None, :], np.log(y)[None, :], margin, alpha, family)
        estimate, lo, hi = (float(v[0]) for v in (judged.estimate, judged.low, judged.high))
        ratio, low, high, confidence = math.exp(estimate), math.exp(lo), math.exp(hi), judged.confidence
        verdict, reason = conclude(int(judged.code[0]), lo, hi, better, about.get("declared", True))
        lag1 = float(judged.lag1[0])
        if judged.code[0] == -2:
            verdict = "no verdict"
            reason = (
                f"the {unit}s are not independent (neighbours resemble each other, p = {lag1:.2g}): "
                "measure with more time between rounds"
            )
        elif verdict == "inconclusive":
            more = more_rounds(n, estimate, (hi - lo) / 2, margin)
            reason = settle(more, f"{unit}s{side}")
        if judged.factor[0] > 1.25:
            warnings.append(
                f"neighbouring {unit}s resemble each other: the interval was widened {judged.factor[0]:.1f} times"
            )
    if not about.get("declared", True) and "declared" not in reason:
        reason += "; nor was it declared before the data"
    return Comparison(
        verdict=verdict,
        ratio=ratio,
        low=low,
        high=high,
        n=n,
        reason=reason,
        more_rounds=more,
        confidence=confidence,
        method="paired by round, Hodges-Lehmann, exact signed rank" if paired else "unblocked, Mann-Whitney shift",
        assumptions=(
            ("rounds are independent blocks", "log ratios are spread symmetrically")
            if paired
            else ("runs are independent", "both sides have spreads of the same shape", "nothing drifted between them")
        ),
        warnings=tuple(warnings),
        margin=margin,
        alpha=alpha,
        family=int(family),
        better=better,
        unit=unit,
        dropped=dropped,
        lag1_p=lag1,
        **about,
    )


def sides(a: npt.ArrayLike, b: npt.ArrayLike, paired: bool) -> tuple[Floats, Floats, int]:
    """Both sides without what is missing, and how many rounds (or runs) that was."""
    x, y = numbers(a, "a"), numbers(b, "b")
    if not paired:
        one, two = np.isfinite(x), np.isfinite(y)
        return x[one], y[two], int(x.size + y.size - one.sum() - two.sum())
    if x.size != y.size:
        raise StatsError(
            f"a holds {plural(x.size, 'value')} and b {y.size}: paired values belong to the same rounds; "
            "give both in round order with NaN where a round is missing, or say paired=False"
        )
    ok = np.isfinite(x) & np.isfinite(y)
    return x[ok], y[ok], int(ok.size - ok.sum())


def _range(x: Floats, y: Floats, paired: bool) -> tuple[float, float, float, float]:
    """Ratio, the range that the data span, and its confidence, where there is too little for more."""
    if paired:
        d = np.log(x / y)
        middle, confidence = float(np.median(walsh(d[None, :])[0])), 1 - 2.0 ** (1 - d.size)
    else:
        d = (np.log(x)[:, None] - np.log(y)[None, :]).ravel()
        middle, confidence = float(np.median(d)), max(0.0, 1 - 2 / math.comb(x.size + y.size, x.size))
    return math.exp(middle), math.exp(d.min()), math.exp(d.max()), confidence
