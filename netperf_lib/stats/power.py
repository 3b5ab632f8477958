"""How many rounds or deployments an experiment needs, before it starts; and whether a running one may stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from ..metrics import ALPHA, MARGIN, plural
from .comparison import Family, Verdict
from .intervals import rank_cap, rounds_required
from .rank_tests import signed_rank_cut
from .result import Floats, Shown, check_share, percent

_EFFICIENCY = 3 / math.pi
"""Signed ranks against means on normal data (Hodges and Lehmann, Ann. Math. Statist. 27 (1956) 324-335)."""
SLOWER = 1.5
"""How many times slower a slow run is."""
_SIMULATED = 120
"""Up to this many rounds a plan is simulated, which takes a second or two."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RoundsNeeded(Shown):
    """How many rounds (or deployments) to plan.

    Attributes
    ----------
    rounds : int
        Rounds in each deployment.
    deployments : int
    power : float
        Chance of a plain verdict with this many, if the assumptions hold.
    words : str
    """

    rounds: int
    deployments: int = 1
    power: float
    words: str = ""

    def __int__(self) -> int:
        return self.rounds


def rounds_needed(
    cv: float,
    *,
    difference: float = 0.0,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    family: int = 1,
    power: float = 0.9,
    rounds: int | None = None,
    between: float = 0.0,
    slow: float = 0.0,
) -> RoundsNeeded:
    """Say how many rounds a contrast needs for a plain verdict; or, of several deployments, how many deployments.

    Parameters
    ----------
    cv : float
        Coefficient of variation of one condition's runs within a round's common drift, for example 0.02.
    difference : float, default 0
        Difference expected, as a share (0.1: A is 10 % above B). Beyond the margin the rounds must show its
        direction; inside, equivalence.
    margin, alpha : float
        As in `judge`.
    family : int
        Contrasts among which alpha is shared; those far beyond their margin hand their share on, and do not count.
    power : float, default 0.9
        Chance wanted for that verdict.
    rounds : int, optional
        Rounds in each of several deployments: asks for the number of deployments.
    between : float, default 0
        Coefficient of variation of the ratio from one deployment to the next; only with `rounds`.
    slow : float, default 0
        Share of runs that are 1.5 times as slow as the others, as on every real cloud.

    Raises
    ------
    StatsError
        An option out of range.

    Notes
    -----
    The interval itself is simulated, 2,000 times for a number of rounds, with normal noise; beyond about a hundred
    rounds the power of a t test with n · 3/π rounds (the efficiency of signed ranks) is used instead. Deployments:
    Student's t over them, with their variance pooled over the family. At the edge of the margin the direction counts.

    Examples
    --------
    >>> npl.stats.rounds_needed(0.05, difference=0.2, margin=0.1).rounds
    6
    """
    check_share(cv, "cv")
    check_share(margin, "margin")
    check_share(alpha, "alpha", below=0.5)
    check_share(power, "power", above=0.5)
    check_share(difference, "difference", above=-1.0, below=100.0)
    check_share(family, "family", below=math.inf)
    goal = _Goal(math.log1p(margin), abs(math.log1p(difference)), math.sqrt(2 * math.log1p(cv * cv)))
    aim, shared = _words(goal, difference, margin), f" in a family of {family} contrasts" if family > 1 else ""
    if rounds is None:
        return _rounds(goal, aim, cv, alpha, family, power, slow, shared)
    check_share(rounds, "rounds", below=math.inf)
    unit = math.sqrt(between**2 + goal.sd**2 / rounds / _EFFICIENCY)
    count, chance = 2, 0.0
    while count < 1000 and (chance := _of_units(count, unit, goal, alpha, family)) < power:
        count += 1
    words = (
        f"{plural(count, 'deployment')} of {plural(rounds, 'round')} show {aim} with {percent(chance)} chance, "
        f"at a variation of {percent(cv)} from run to run and {percent(between)} between deployments{shared}"
    )
    return RoundsNeeded(rounds=rounds, deployments=count, power=chance, words=words)


@dataclass(frozen=True, slots=True)
class _Goal:
    """What is to be shown, as logarithms: the edge of the margin, the difference expected, the noise of a round."""

    edge: float
    gap: float
    sd: float

    @property
    def direction(self) -> bool:
        """Whether it is the direction of the difference; else equivalence."""
        return self.gap >= self.edge


def _rounds(
    goal: _Goal, aim: str, cv: float, alpha: float, family: int, power: float, slow: float, shared: str
) -> RoundsNeeded:
    """How many rounds of one deployment reach the goal, which `aim` says in words."""
    n, chance = rounds_required(alpha, family), 0.0
    while n < 100_000 and (chance := _power(n, goal, alpha / family)) < power:
        n = max(n + 1, math.floor(n * 1.02))
    while n <= _SIMULATED and (chance := _simulated(n, goal, alpha / family, slow)) < power:
        n += max(1, n // 20)
        chance = power
    variation = percent(cv) + (f" and {percent(slow)} slow runs" if slow else "")
    words = f"{plural(n, 'round')} show {aim} with {percent(chance)} chance, at a run-to-run variation of {variation}"
    return RoundsNeeded(rounds=n, power=chance, words=words + shared)


def _words(goal: _Goal, difference: float, margin: float) -> str:
    """What the rounds are to show, in words."""
    if goal.direction:
        return f"the direction of a difference of {percent(abs(difference))}"
    at = f" at a difference of {percent(abs(difference))}" if goal.gap else ""
    return f"equivalence within {percent(margin)}{at}"


def _power(n: int, goal: _Goal, alpha: float) -> float:
    """Chance of the verdict wanted with n rounds, roughly and rather too high."""
    # signed ranks come in steps: use the tail that the interval really has
    _, tail = signed_rank_cut(n, alpha / 2 if goal.direction else alpha)
    return _chance(n - 1, tail, goal.sd / math.sqrt(n * _EFFICIENCY), goal) if tail else 0.0


def _of_units(n: int, sd: float, goal: _Goal, alpha: float, family: int) -> float:
    """Chance of the verdict wanted with n deployments."""
    df = (n - 1) * (1 + (family - 1) / 2)
    tail = alpha / family / (2 if goal.direction else 1)
    return _chance(df, tail, sd / math.sqrt(n), goal)


def _chance(df: float, tail: float, se: float, goal: _Goal) -> float:
    t = float(scipy.special.stdtrit(df, 1 - tail))
    gap, edge = goal.gap, goal.edge
    if goal.direction:
        return float(scipy.special.ndtr(gap / se - t))
    inside = scipy.special.ndtr((edge - gap) / se - t) + scipy.special.ndtr((edge + gap) / se - t) - 1
    return max(0.0, float(inside))


def _simulated(n: int, goal: _Goal, alpha: float, slow: float) -> float:
    """Share of simulated experiments of n rounds that reach the verdict wanted; the same each time it is asked."""
    rng = np.random.default_rng(n)
    d = goal.gap + goal.sd * rng.standard_normal((2000, n))
    if slow:
        d += math.log(SLOWER) * (rng.random(d.shape) < slow)
        d -= math.log(SLOWER) * (rng.random(d.shape) < slow)
    error = alpha if goal.direction else 2 * alpha
    cap = rank_cap(n, error, not goal.direction)
    k, _ = signed_rank_cut(n, error / 2, cap)

    def below(x: Floats) -> npt.NDArray[np.bool_]:
        """Whether so few of the scores belong to values below zero that the typical value is above."""
        ranks = np.abs(x).argsort(axis=1).argsort(axis=1) + 1
        return np.asarray((np.minimum(ranks, cap) * (x < 0)).sum(axis=1) <= k)

    reached = below(d) if goal.direction else below(d + goal.edge) & below(goal.edge - d)
    return float(reached.mean())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Progress(Shown):
    """Whether a running experiment may stop.

    Attributes
    ----------
    stop : bool
        Every contrast is settled or futile, or no rounds are left.
    settled, futile, open : tuple of int
        Indices of the contrasts: with a plain verdict; that the remaining rounds will not settle; that more rounds may.
    more_rounds : int
        About how many more rounds settle all that are open; at most the rounds left.
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


def until_decided(family: Family, *, rounds_left: int, width: float | None = None) -> Progress:
    """Decide after a round whether to continue measuring.

    Parameters
    ----------
    family : Family
        The contrasts, judged from all runs so far with the sequential design: looking costs nothing, and the number of
        looks need not be known.
    rounds_left : int
        Rounds (of several deployments: deployments) that the budget still allows.
    width : float, optional
        A contrast is then settled if its interval reaches no farther than this share to either side of the ratio,
        whatever its verdict.

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
        wide = max(c.high / c.ratio, c.ratio / c.low) if c.low > 0 else math.inf
        known = c.settled or c.confidence >= 1 - c.alpha  # the range of a few rounds has less
        if c.settled if width is None else known and wide <= 1 + width:
            groups["settled"].append(i)
        elif c.more_rounds > rounds_left or (c.verdict == Verdict.NONE and not c.more_rounds and c.n):
            groups["futile"].append(i)
        else:
            groups["open"].append(i)
            more = max(more, c.more_rounds, 1)
    return Progress(
        stop=not groups["open"] or rounds_left <= 0,
        settled=tuple(groups["settled"]),
        futile=tuple(groups["futile"]),
        open=tuple(groups["open"]),
        more_rounds=min(more, max(rounds_left, 0)),
        family=family,
    )
