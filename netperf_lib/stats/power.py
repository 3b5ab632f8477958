"""How many rounds or deployments an experiment needs, before it starts; and whether a running one may stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from ..metrics import ALPHA, MARGIN, plural, rounds_required
from .comparison import Family, Verdict
from .intervals import rank_cap, student
from .rank_tests import signed_rank_cut
from .result import Floats, Statement, check_share, percent

_EFFICIENCY = 3 / math.pi
"""Signed ranks against means on normal data (Hodges and Lehmann, Ann. Math. Statist. 27 (1956) 324-335)."""
SLOWER = 1.5
"""How many times slower a slow run is."""
POWER = 0.9
"""Chance of the verdict that is planned for."""
_SIMULATED = 120
"""Up to this many rounds a plan is simulated, which takes a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RoundsNeeded(Statement):
    """How many rounds (or deployments) to plan.

    Attributes
    ----------
    rounds : int
        Rounds in each deployment.
    deployments : int
    power : float
        Chance of a clear verdict with this many rounds, if the assumptions hold.
    words : str
    """

    rounds: int
    deployments: int = 1
    power: float
    words: str = ""


def rounds_needed(
    cv: float,
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    family: int = 1,
    rounds: int | None = None,
    between: float = 0.0,
    slow: float = 0.0,
) -> RoundsNeeded:
    """Return how many rounds a contrast needs to show equivalence, or how many deployments.

    Parameters
    ----------
    cv : float
        Coefficient of variation of the runs of one condition, apart from drift common to a round, for example 0.02.
    margin, alpha : float
        As in `judge`.
    family : int
        Contrasts that share alpha; those far beyond their margin pass their share on and do not count.
    rounds : int, optional
        Rounds in each of several deployments; the result is then the number of deployments.
    between : float
        Coefficient of variation of the ratio from one deployment to the next; only with `rounds`.
    slow : float
        Share of runs that are 1.5 times slower than the others, as happens on real clouds.

    Raises
    ------
    StatsError
        An option out of range.

    Notes
    -----
    The interval itself is simulated, 2,000 times for a number of rounds, with normal noise; beyond about a hundred
    rounds the power of a t test with n · 3/π rounds (the efficiency of signed ranks) is used instead. Deployments:
    Student's t over them, with their variance pooled over the family. A difference well beyond the margin needs fewer.

    Examples
    --------
    >>> npl.stats.rounds_needed(0.05, margin=0.1).rounds
    10
    """
    check_share(cv, "cv")
    check_share(margin, "margin")
    check_share(alpha, "alpha", below=0.5)
    check_share(family, "family", below=math.inf)
    edge, sd = math.log1p(margin), math.sqrt(2 * math.log1p(cv * cv))
    shared = f" in a family of {family} contrasts" if family > 1 else ""
    if rounds is None:
        n, chance = _rounds(edge, sd, alpha / family, slow)
        slow_runs = f" and {percent(slow)} slow runs" if slow else ""
        planned, variation = (
            plural(n, "round"),
            f"a run-to-run variation of {percent(cv)}{slow_runs}",
        )
    else:
        check_share(rounds, "rounds", below=math.inf)
        n, chance = _deployments(
            edge, math.sqrt(between**2 + sd**2 / rounds / _EFFICIENCY), alpha, family
        )
        planned = f"{plural(n, 'deployment')} of {plural(rounds, 'round')}"
        variation = f"a variation of {percent(cv)} from run to run and {percent(between)} between deployments"
    words = f"{planned} show equivalence within {percent(margin)} with {percent(chance)} chance, at {variation}{shared}"
    return RoundsNeeded(
        rounds=rounds or n, deployments=1 if rounds is None else n, power=chance, words=words
    )


def _rounds(edge: float, sd: float, alpha: float, slow: float) -> tuple[int, float]:
    """How many rounds of one deployment are needed, and the chance with so many; `edge` and `sd` are logarithms."""
    n, chance = rounds_required(alpha), 0.0
    while n < 100_000 and (chance := _of_rounds(n, edge, sd, alpha)) < POWER:
        n = max(n + 1, math.floor(n * 1.02))
    while n <= _SIMULATED and (chance := _simulated(n, edge, sd, alpha, slow)) < POWER:
        n += max(1, n // 20)
        chance = POWER
    return n, chance


def _deployments(edge: float, sd: float, alpha: float, family: int) -> tuple[int, float]:
    """How many deployments are needed, and the chance with so many."""
    count, chance = 2, 0.0
    while count < 1000:
        df = (count - 1) * (1 + (family - 1) / 2)
        if (chance := _inside(df, alpha / family, sd / math.sqrt(count), edge)) >= POWER:
            break
        count += 1
    return count, chance


def _of_rounds(n: int, edge: float, sd: float, alpha: float) -> float:
    """Chance of the verdict with n rounds, roughly and rather too high."""
    _, tail = signed_rank_cut(
        n, alpha
    )  # signed ranks come in steps: use the tail that the interval really has
    return _inside(n - 1, tail, sd / math.sqrt(n * _EFFICIENCY), edge) if tail else 0.0


def _inside(df: float, tail: float, se: float, edge: float) -> float:
    """Chance that an interval of Student's t around no difference lies inside the margin."""
    return max(0.0, 2 * float(scipy.special.ndtr(edge / se - student(df, tail))) - 1)


def _simulated(n: int, edge: float, sd: float, alpha: float, slow: float) -> float:
    """Share of simulated experiments of n rounds that reach the verdict; the same each time it is asked."""
    rng = np.random.default_rng(n)
    d = sd * rng.standard_normal((2000, n))
    if slow:
        d += math.log(SLOWER) * (rng.random(d.shape) < slow)
        d -= math.log(SLOWER) * (rng.random(d.shape) < slow)
    cap = rank_cap(n, 2 * alpha, equality=True)
    k, _ = signed_rank_cut(n, alpha, cap)

    def above(x: Floats) -> npt.NDArray[np.bool_]:
        """Whether so few of the scores belong to values below zero that the typical value is above."""
        ranks = np.abs(x).argsort(axis=1).argsort(axis=1) + 1
        return np.asarray((np.minimum(ranks, cap) * (x < 0)).sum(axis=1) <= k)

    return float((above(d + edge) & above(edge - d)).mean())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class InterimAnalysis(Statement):
    """Whether a running experiment may stop.

    Attributes
    ----------
    stop : bool
        Every contrast is settled or futile, or no rounds are left.
    settled, futile, open : tuple of int
        Indices of the contrasts that have a clear verdict; that the remaining rounds will not settle; that they may.
    more_rounds : int
        About how many more rounds will settle all open contrasts; at most the rounds left.
    family : Family
        The verdicts so far. They hold at every look: further rounds do not invalidate them.
    """

    stop: bool
    settled: tuple[int, ...]
    futile: tuple[int, ...]
    open: tuple[int, ...]
    more_rounds: int
    family: Family

    @property
    def words(self) -> str:
        """The decision in a sentence."""
        state = f"{len(self.settled)} of {plural(len(self.family), 'contrast')} settled"
        if self.futile:
            state += f", {len(self.futile)} that the remaining rounds will not settle"
        if self.stop:
            return f"stop: {state}"
        return f"continue: {state}; about {plural(self.more_rounds, 'more round')}"


def until_decided(family: Family, *, rounds_left: int) -> InterimAnalysis:
    """Decide after a round whether to continue measuring.

    Parameters
    ----------
    family : Family
        The contrasts, judged from all runs so far with the sequential design: looking costs nothing, and the number of
        looks need not be known.
    rounds_left : int
        Rounds (for several deployments: deployments) that the budget still allows.

    Examples
    --------
    >>> near, far = np.arange(50.0, 62), np.arange(90.0, 102)
    >>> family = npl.stats.judge_samples([npl.stats.Sample(a=near, b=far, better="lower")], design="sequential")
    >>> npl.stats.until_decided(family, rounds_left=3).words
    'stop: 1 of 1 contrast settled'
    """
    groups: dict[str, list[int]] = {"settled": [], "futile": [], "open": []}
    more = 0
    for i, c in enumerate(family):
        if c.settled:
            groups["settled"].append(i)
        elif c.more_rounds > rounds_left or (
            c.verdict == Verdict.NONE and not c.more_rounds and c.n
        ):
            groups["futile"].append(i)
        else:
            groups["open"].append(i)
            more = max(more, c.more_rounds, 1)
    return InterimAnalysis(
        stop=not groups["open"] or rounds_left <= 0,
        settled=tuple(groups["settled"]),
        futile=tuple(groups["futile"]),
        open=tuple(groups["open"]),
        more_rounds=min(more, max(rounds_left, 0)),
        family=family,
    )
