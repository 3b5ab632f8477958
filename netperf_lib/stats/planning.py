"""How many rounds an experiment needs, before it starts; and when a running one may stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from .contrast import sides
from .judge import judge_paired, rounds_required, widening
from .rank import signed_rank_cut, walsh
from .result import Result, check_share, percent, plural, spread

__all__ = ["LOOKING", "RoundsNeeded", "StopDecision", "rounds_needed", "stop_rule"]

_EFFICIENCY = 3 / math.pi
"""Signed ranks against means on normal data (Hodges and Lehmann, Ann. Math. Statist. 27 (1956) 324-335)."""
_SIMULATED = 120
"""Up to so many rounds a plan is simulated, in a second or two."""
LOOKING = 0.7
"""Share of the error that is left for each look: an interval quoted as 95 % is computed at 96.5 %."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsNeeded:
    """How many rounds to plan.

    Attributes
    ----------
    rounds : int
    power : float
        Chance of a plain verdict with so many rounds, if the assumptions hold.
    words : str
    """

    rounds: int
    power: float
    words: str

    def __int__(self) -> int:
        return self.rounds


def rounds_needed(
    cv: float,
    *,
    difference: float = 0.0,
    margin: float = 0.05,
    alpha: float = 0.05,
    family: int = 1,
    power: float = 0.9,
) -> RoundsNeeded:
    """Say how many rounds a contrast needs for a plain verdict.

    Parameters
    ----------
    cv : float
        Coefficient of variation of one condition's runs within a round's common drift, for example 0.02.
    difference : float, default 0
        Difference expected, as a share (0.1: A is 10 % above B). Beyond the margin the rounds must show its
        direction; inside, equivalence.
    margin, alpha, family
        As in `compare`.
    power : float, default 0.9
        Chance wanted of that verdict.

    Returns
    -------
    RoundsNeeded

    Raises
    ------
    StatsError
        An option out of its range.

    Notes
    -----
    The very verdict is simulated, 2,000 times at a number of rounds, with normal noise; beyond some hundred rounds the
    power of a t test with n · 3/π rounds, the efficiency of signed ranks, stands for it. For a difference at the edge
    of the margin neither verdict is certain however many the rounds; the direction is what is planned for.
    """
    check_share(cv, "cv")
    check_share(margin, "margin")
    check_share(alpha, "alpha", below=0.5)
    check_share(power, "power", above=0.5)
    check_share(difference, "difference", above=-1.0, below=100.0)
    edge, gap = math.log1p(margin), abs(math.log1p(difference))
    sd = math.sqrt(2 * math.log1p(cv * cv))
    direction = gap >= edge
    n = rounds_required(alpha, family)
    rough = 0.0
    while n < 100_000 and (rough := _power(n, sd, gap, edge, alpha / family, direction)) < power:
        n = max(n + 1, math.floor(n * 1.02))
    got = rough
    while n <= _SIMULATED and (got := _simulated(n, sd, gap, margin, alpha, family, direction)) < power:
        n += max(1, n // 20)
        got = power
    goal = (
        f"the direction of a difference of {percent(abs(difference))}"
        if direction
        else (
            f"equivalence within {percent(margin)}" + (f" at a difference of {percent(abs(difference))}" if gap else "")
        )
    )
    shared = f" in a family of {family} contrasts" if family > 1 else ""
    return RoundsNeeded(
        rounds=n,
        power=got,
        words=f"{plural(n, 'round')} show {goal} with {percent(got)} chance, at a run-to-run variation of "
        f"{percent(cv)}{shared}",
    )


def _power(n: int, sd: float, gap: float, edge: float, alpha: float, direction: bool) -> float:
    """Chance of the verdict wanted with n rounds, roughly and rather too high."""
    se = sd / math.sqrt(n * _EFFICIENCY)
    # signed ranks come in steps: use the tail that the interval really has
    _, tail = signed_rank_cut(n, alpha / 2 if direction else alpha)
    if not tail:
        return 0.0
    t = float(scipy.special.stdtrit(n - 1, 1 - tail))
    if direction:
        return float(scipy.special.ndtr(gap / se - t))
    inside = scipy.special.ndtr((edge - gap) / se - t) + scipy.special.ndtr((edge + gap) / se - t) - 1
    return max(0.0, float(inside))


def _simulated(n: int, sd: float, gap: float, margin: float, alpha: float, family: int, direction: bool) -> float:
    """Share of simulated experiments of n rounds that reach the verdict wanted; the same each time it is asked."""
    d = gap + sd * np.random.default_rng(n).standard_normal((2000, n))
    return float((judge_paired(d, margin, alpha, family).code == (1 if direction else 2)).mean())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StopDecision(Result):
    """Whether a running comparison may stop.

    Attributes
    ----------
    stop : bool
    ratio, low, high : float
        Estimate and interval; its confidence is corrected for looking after every round.
    width : float
        Widest interval wanted: half of it as a share of the ratio.
    more_rounds : int
        About how many more rounds until it is narrow enough.
    """

    stop: bool
    ratio: float
    low: float
    high: float
    width: float
    more_rounds: int

    @property
    def words(self) -> str:
        """The decision in a sentence."""
        if not math.isfinite(self.high):
            return f"go on: about {plural(self.more_rounds, 'more round')} until an interval exists"
        now = f"ratio {self.ratio:.4g}, {spread(self.low, self.high)}"
        if self.stop:
            return f"stop: {now}, no wider than ±{percent(self.width)}"
        return f"go on: {now}; about {plural(self.more_rounds, 'more round')} until ±{percent(self.width)}"


def stop_rule(
    a: npt.ArrayLike, b: npt.ArrayLike, *, width: float = 0.02, confidence: float = 0.95, family: int = 1
) -> StopDecision:
    """Decide after each round whether to stop, by the width of the interval and never by the verdict.

    Looking for a verdict after every round finds false differences in more than 20 % of experiments. The width of the
    interval hardly depends on which way the data point, so stopping on it is safe, once the interval is computed at
    a somewhat higher confidence than it is quoted with.

    Parameters
    ----------
    a, b : array_like, shape (rounds,)
        One value a round so far, in time order; missing rounds are left out.
    width : float, default 0.02
        Stop when the interval reaches no farther than this share to either side of the ratio.
    confidence : float, default 0.95
        Confidence that the interval has at the end, for all contrasts of the family.
    family : int, default 1
        Contrasts that share the error.

    Returns
    -------
    StopDecision

    Raises
    ------
    StatsError
        Sides of different length, or an option out of its range.
    """
    check_share(width, "width")
    check_share(confidence, "confidence", above=0.5)
    x, y, _ = sides(a, b, paired=True)
    if (x <= 0).any() or (y <= 0).any():
        raise StatsError("a ratio needs values above zero; a or b holds one of zero or less")
    d = np.log(x / y)
    n = d.size
    error = (1 - confidence) * LOOKING / family
    need = rounds_required(error)
    k, real = signed_rank_cut(n, error / 2) if n else (-1, 0.0)
    ratio, low, high, more = math.nan, 0.0, math.inf, max(1, need - n)
    stop = False
    if n >= need and k >= 0:
        w = walsh(d[None, :])[0]
        centre = float(np.median(w))
        factor = float(widening(d[None, :])[0])
        lo, hi = (centre + (float(w[j]) - centre) * factor for j in (k, w.size - 1 - k))
        ratio, low, high = math.exp(centre), math.exp(lo), math.exp(hi)
        half, target = max(hi - centre, centre - lo), math.log1p(width)
        stop = half <= target
        more = 0 if stop else max(1, math.ceil(n * (half / target) ** 2) - n)
    return StopDecision(
        stop=stop,
        ratio=ratio,
        low=low,
        high=high,
        width=width,
        more_rounds=more,
        n=n,
        confidence=confidence if k >= 0 else 0.0,
        method=f"signed-rank interval at {percent(1 - 2 * real)}, quoted lower because it was looked at every round",
        assumptions=("rounds are independent blocks", "the decision rests on the width alone"),
    )
