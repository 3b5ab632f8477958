"""Where a run becomes steady: one common cut for all conditions, found on their mean curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from ..metrics import plural
from .result import Floats, Result, percent


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Warmup(Result):
    """How much of the start of every run to leave out.

    Attributes
    ----------
    cut_s : float
        The common cut: the longest of the conditions' own; 0 where none has a warm-up.
    cuts : mapping of str to float
        Where each condition's mean curve becomes steady, in seconds.
    duration_s : float
        Length of the shortest condition's curve.
    flagged : bool
        Whether the runs are too short: the cut reaches half of them, or they still rise or fall after it.
    moving : mapping of str to float
        Conditions that still rise or fall after the cut, and by what share from the first half of what is left to
        the second.
    """

    cut_s: float
    cuts: Mapping[str, float]
    duration_s: float
    flagged: bool
    moving: Mapping[str, float]

    @property
    def words(self) -> str:
        """The result in a sentence."""
        if self.moving:
            most = ", ".join(f"{name} by {percent(abs(v))}" for name, v in self.moving.items())
            return f"the runs ({self.duration_s:g} s) are too short: they still change after {self.cut_s:g} s ({most})"
        if self.flagged and not self.cut_s:
            return f"the runs ({self.duration_s:g} s) are too short: no warm-up can be seen in a single interval"
        if self.flagged:
            return (
                f"the shortest runs ({self.duration_s:g} s) are too short: the longest warm-up takes "
                f"{self.cut_s:g} s; measure at least {math.ceil(4 * self.cut_s):g} s"
            )
        if not self.cut_s:
            return f"no warm-up was found: the runs ({self.duration_s:g} s) are steady from their first interval"
        cut = f"leave out the first {self.cut_s:g} s of every run, in all conditions alike"
        return f"the warm-up takes {self.cut_s:g} s: {cut}"

    @property
    def basis(self) -> str:
        """What the statement rests on, in a line."""
        return f"{plural(self.n, 'run')}, {self.method}"


def mser(curve: Floats) -> int:
    """How many points to leave out at the start of a curve of even steps, at most half of them.

    White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69 (1997) 323-334:
    the cut d that minimises the squared standard error of the mean of what is left, sum((x - mean)²) / (n - d)².
    Searched in the first half only: at the end of a curve a few points that happen to agree would win. On a steady
    curve the criterion is flat and its minimum anywhere, so the earliest cut is taken that comes within twice it, the
    uncertainty of a variance of a few dozen autocorrelated points.
    """
    n = curve.size
    if n < 4:
        return 0
    sums = np.cumsum(curve[::-1] - curve.mean())[::-1]
    squares = np.cumsum(((curve - curve.mean()) ** 2)[::-1])[::-1]
    left = n - np.arange(n)
    error = (squares - sums**2 / left) / left**2
    error = error[: n // 2 + 1]
    return int(np.flatnonzero(error <= 2 * error.min())[0])


def warmup(curves: Mapping[str, Sequence[npt.ArrayLike]]) -> Warmup:
    """Find one common cut for the start of all runs.

    Two conditions with the same plateau and different ramps would differ falsely if the ramps were left in or if each
    were cut at its own place, so all are cut at the longest.

    Parameters
    ----------
    curves : mapping of str to sequence of array_like, shape (intervals, 3)
        Condition to its runs; the rows of a run are its intervals in time order: start and end in seconds, and the
        value, such as the throughput.

    Raises
    ------
    StatsError
        There is no value, or a run that is not such an array.

    Notes
    -----
    `mser` on the mean curve of each condition.

    Examples
    --------
    >>> run = [[t, t + 1, 1e9 if t > 2 else 4e8] for t in range(20)]
    >>> npl.stats.warmup({"ppg": [run] * 6}).cut_s
    3.0
    """
    runs = {name: [_run(run) for run in every] for name, every in curves.items() if len(every)}
    if not runs:
        raise StatsError("no run has a value: nothing to find the warm-up in")
    cuts: dict[str, float] = {}
    lengths = []
    single = False
    for condition, every in runs.items():
        starts, means = _curve(every)
        # a run of a single interval is as long as that interval
        first = float(np.median([run[0, 1] - run[0, 0] for run in every]))
        step = float(np.median(np.diff(starts))) if starts.size > 1 else round(first, 2)
        single |= starts.size < 2
        cut = mser(means)
        cuts[condition] = float(starts[cut] - starts[0]) if cut else 0.0
        lengths.append(float(starts[-1] - starts[0] + step))
    cut_s, duration = max(cuts.values()), min(lengths)
    moving = {name: by for name, every in runs.items() if (by := _moving(every, cut_s, len(runs)))}
    return Warmup(
        cut_s=cut_s,
        cuts=cuts,
        duration_s=duration,
        flagged=cut_s >= duration / 2 or bool(moving) or single,
        moving=moving,
        n=sum(map(len, runs.values())),
        confidence=0.0,
        method="MSER on the mean curve of each condition, the longest",
        assumptions=("runs of a condition warm up alike", "the second half of a run is steady"),
        warnings=("the cut reaches half the run",) if cut_s >= duration / 2 else (),
    )


def _run(rows: npt.ArrayLike) -> Floats:
    run = np.asarray(rows, dtype=float)
    if run.ndim != 2 or run.shape[1] != 3 or not len(run) or not np.isfinite(run).all():
        raise StatsError(
            f"a run is an array of intervals (start, end, value), all numbers; got shape {run.shape}"
        )
    return run


def _curve(every: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Starts of the intervals of a condition, and the mean of its runs in each."""
    rows = np.concatenate(every)
    starts, which, size = np.unique(rows[:, 0].round(3), return_inverse=True, return_counts=True)
    # the last interval is often short, and only some runs have it
    usual = size >= size.max() / 2
    return starts[usual], (np.bincount(which, weights=rows[:, 2]) / size)[usual]


def _moving(every: Sequence[Floats], cut_s: float, conditions: int) -> float:
    """By how much the runs still rise or fall after the cut: the second half of each against its first; 0 for not."""
    change = []
    for run in every:
        v = run[run[:, 0] - run[0, 0] >= cut_s - 1e-6, 2]
        half = v.size // 2
        if half and (v > 0).all():
            change.append(math.log(v[half:].mean() / v[:half].mean()))
    if len(change) < 6 or not any(change):
        return 0.0
    by = math.expm1(float(np.median(change)))
    # few runs cannot reach a small p: then all must move alike
    alarm = max(0.01 / conditions, 2.0 ** (1 - len(change)))
    return (
        by
        if abs(by) > 0.01 and float(scipy.stats.wilcoxon(change).pvalue) <= alarm + 1e-12
        else 0.0
    )
