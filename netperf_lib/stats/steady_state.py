"""Where a run becomes steady: one common cut for all conditions, found on their mean curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from ..errors import StatsError
from ..metrics import plural
from .result import Floats, Result, percent

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Warmup(Result):
    """How much of the start of every run to leave out.

    Attributes
    ----------
    cut_s : float
        The common cut: the longest of the conditions' own, and up to `extra_s` more; 0 where none has a warm-up.
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
        measured = max(self.cuts.values(), default=0.0)
        if self.moving:
            most = ", ".join(f"{name} by {percent(abs(v))}" for name, v in self.moving.items())
            return f"the runs ({self.duration_s:g} s) are too short: they still change after {self.cut_s:g} s ({most})"
        if self.flagged and not measured:
            return f"the runs ({self.duration_s:g} s) are too short: no warm-up can be seen in a single interval"
        if self.flagged:
            return (
                f"the runs ({self.duration_s:g} s) are too short: the warm-up takes {measured:g} s, half of a run "
                f"or more; measure at least {math.ceil(4 * measured):g} s"
            )
        if not measured:
            return f"no warm-up was found: the runs ({self.duration_s:g} s) are steady from their first interval"
        cut = f"leave out the first {self.cut_s:g} s of every run, in all conditions alike"
        return f"the warm-up takes {measured:g} s: {cut}"

    @property
    def basis(self) -> str:
        """What the statement rests on, in a line."""
        return f"{plural(self.n, 'run')}, {self.method}"

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one row per condition, with the start of its steady part and its later change."""
        import pandas as pd

        return pd.DataFrame(
            [{"condition": k, "steady_from_s": v, "change": self.moving.get(k)} for k, v in self.cuts.items()]
        )


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
    rest = np.cumsum(curve[::-1] - curve.mean())[::-1]
    squares = np.cumsum(((curve - curve.mean()) ** 2)[::-1])[::-1]
    left = n - np.arange(n)
    error = (squares - rest**2 / left) / left**2
    error = error[: n // 2 + 1]
    return int(np.flatnonzero(error <= 2 * error.min())[0])


def warmup(
    intervals: pd.DataFrame,
    conditions: Mapping[str, Any] | pd.Series[Any] | None = None,
    *,
    extra_s: float = 2.0,
) -> Warmup:
    """Find one common cut for the start of all runs.

    Two conditions with the same plateau and different ramps differ falsely when the ramp is left in, and when each is
    cut at its own place; so all are cut at the longest.

    Parameters
    ----------
    intervals : DataFrame
        The table of intervals: `run_id`, `start_s`, `throughput_bps`; `stream` -1 (the sum) is used where there is one,
        and the streams are added up where there is not.
    conditions : mapping or Series, optional
        run_id to the name of its condition; default: the column `condition`, or all runs are of one condition.
    extra_s : float
        Seconds beyond the longest warm-up, where there is one.

    Raises
    ------
    StatsError
        The table lacks a column, or has no value.

    Notes
    -----
    `mser` on the mean curve of each condition.
    """
    data, warnings = _by_condition(intervals, conditions)
    cuts: dict[str, float] = {}
    lengths = []
    single = False
    for condition, part in data.groupby("condition", sort=False):
        starts, means = _curve(part)
        # a run of a single interval is as long as that interval
        step = float(np.median(np.diff(starts))) if starts.size > 1 else round(float(part["length_s"].median()), 2)
        single |= starts.size < 2
        cut = mser(means)
        cuts[str(condition)] = float(starts[cut] - starts[0]) if cut else 0.0
        lengths.append(float(starts[-1] - starts[0] + step))
    measured, duration = max(cuts.values()), min(lengths)
    # as far beyond a warm-up as requested, while half of the run is left
    cut_s = max(measured, min(measured + extra_s, duration / 2)) if measured else 0.0
    moving = _moving(data, cut_s, len(cuts))
    if measured >= duration / 2:
        warnings.append("the cut reaches half the run")
    return Warmup(
        cut_s=cut_s,
        cuts=cuts,
        duration_s=duration,
        flagged=measured >= duration / 2 or bool(moving) or single,
        moving=moving,
        n=int(data["run_id"].nunique()),
        confidence=0.0,
        method=f"MSER on the mean curve of each condition, the longest and {extra_s:g} s more",
        assumptions=("runs of a condition warm up alike", "the second half of a run is steady"),
        warnings=tuple(warnings),
    )


def _by_condition(intervals: pd.DataFrame, conditions: Any) -> tuple[pd.DataFrame, list[str]]:
    """Sums of the intervals with the condition of each, and a warning if runs have none."""
    data = _sums(intervals)
    if conditions is not None:
        data["condition"] = data["run_id"].map(conditions)
    elif "condition" in intervals:
        data["condition"] = data["run_id"].map(dict(zip(intervals["run_id"], intervals["condition"], strict=True)))
    else:
        data["condition"] = "all runs"
    unknown = data["condition"].isna()
    if unknown.all():
        raise StatsError("no interval belongs to a condition: nothing to find the warm-up in")
    lost = plural(int(data.loc[unknown, "run_id"].nunique()), "run")
    return data[~unknown], [f"{lost} without a condition left out"] if unknown.any() else []


def _curve(part: pd.DataFrame) -> tuple[Floats, Floats]:
    """Starts of the intervals of a condition, and the mean of its runs in each."""
    curve = part.groupby(part["start_s"].round(3), sort=True)["value"].agg(["mean", "size"])
    # the last interval is often short, and only some runs have it
    curve = curve[curve["size"] >= curve["size"].max() / 2]
    return curve.index.to_numpy(dtype=float), curve["mean"].to_numpy(dtype=float)


def _moving(data: pd.DataFrame, cut_s: float, conditions: int) -> dict[str, float]:
    """Conditions whose runs still rise or fall after the cut: the second half of each against its first."""
    moving = {}
    since = data["start_s"] - data.groupby("run_id")["start_s"].transform("min")
    for condition, part in data[since >= cut_s - 1e-6].groupby("condition", sort=False):
        change = []
        for _, run in part.groupby("run_id", sort=False):
            v = run["value"].to_numpy(dtype=float)
            half = v.size // 2
            if half and (v > 0).all():
                change.append(math.log(v[half:].mean() / v[:half].mean()))
        if len(change) < 6 or not any(change):
            continue
        by = math.expm1(float(np.median(change)))
        # few runs cannot reach a small p: then all must move alike
        alarm = max(0.01 / conditions, 2.0 ** (1 - len(change)))
        if abs(by) > 0.01 and float(scipy.stats.wilcoxon(change).pvalue) <= alarm + 1e-12:
            moving[str(condition)] = by
    return moving


def measured_intervals(intervals: pd.DataFrame) -> pd.DataFrame:
    """Intervals with a throughput, without those that the tool itself omitted."""
    measured = intervals[intervals["throughput_bps"].notna()]
    return measured[~measured["omitted"].fillna(False).astype(bool)] if "omitted" in measured else measured


def totals(intervals: pd.DataFrame) -> pd.DataFrame:
    """Intervals that add up to the data of a run: the sums that its tool reported, else those of its streams."""
    if "stream" not in intervals:
        return intervals
    total = intervals["stream"] == -1
    return intervals[total | ~intervals["run_id"].isin(intervals.loc[total, "run_id"])]


def _sums(intervals: pd.DataFrame) -> pd.DataFrame:
    """One row per run and interval: the sum of all streams, without what the tool itself omitted."""
    missing = {"run_id", "start_s", "throughput_bps"} - set(intervals.columns)
    if missing:
        raise StatsError(f"the table of intervals has no column {', '.join(sorted(missing))}")
    data = totals(measured_intervals(intervals))
    if data.empty:
        raise StatsError("the table of intervals holds no throughput_bps")
    ends = data["end_s"] if "end_s" in data else data["start_s"] + 1.0
    data = data.assign(length_s=(ends - data["start_s"]).astype(float), start_s=data["start_s"].astype(float))
    keys = ["run_id", "start_s"]
    data = data.groupby(keys, sort=True, as_index=False).agg(
        value=("throughput_bps", "sum"), length_s=("length_s", "max")
    )
    return data.assign(value=data["value"].astype(float))
