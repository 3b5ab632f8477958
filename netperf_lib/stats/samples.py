"""Verdicts from arrays: what was measured for each contrast of a family, and what it shows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from ..metrics import ALPHA, MARGIN, Better, plural, rounds_required
from .comparison import Comparison, Family, Subject, Verdict
from .intervals import (
    ABOVE,
    DEPLOYMENTS,
    EQUIVALENT,
    OPEN,
    Decision,
    Estimate,
    Median,
    Rounds,
    Unblocked,
    Units,
    decide,
    more_rounds,
    nominal_level,
    without_far,
)
from .median_ci import LONG_SERIES
from .rank_tests import median, neighbours_p
from .result import Floats, check_share, numbers, percent, quantity

Design = Literal["fixed", "sequential"]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]

WORST = 12.0
"""Log ratio of a failed run: farther than any measured one."""
TINY = 1e-300
"""Stands for zero where logs are taken."""
ZERO, RANKED = 100.0, 25.0
"""Log ratio of a value to zero, which is judged by its rank, below all else; and from where on it is no size."""
PLACINGS = 22
"""Placings needed without a far one: if one in ten lands elsewhere, that is then missed in a tenth of the cases."""
FAR_PLACING = math.log(1.25)
_NO_UNITS = np.zeros(0, dtype=np.intp)
HOURS = "about the hours measured: another hour may differ"
QUOTIENT = "the ratio is the typical one of common rounds, and not the quotient of the two medians, which are of all runs"
HARDLY = 0.005
"""A log ratio that three written digits do not show."""
UNPAIRED = "unblocked: any drift between the two sides' measurements is part of the difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The measurements for one contrast: one value per round on each side, in time order.

    Attributes
    ----------
    a, b : ndarray, shape (rounds,)
        Values of A and of B in the unit of the metric; NaN where there is none. `b` is None for a threshold.
        A round that was planned and not measured is NaN on both sides; one that was excluded for a recorded cause is
        not part of the sample.
    failed_a, failed_b : ndarray of bool, shape (rounds,), optional
        Rounds in which the side failed or had to be repeated; their values are not used.
    unit : ndarray of int, shape (rounds,), optional
        Deployment or experiment of each round: with several, these are the replicates.
    hour : ndarray of int, shape (rounds,), optional
        Hour in which each round was measured; from `LONG_SERIES` rounds it is the unit for a threshold.
    threshold : float, optional
        In the unit of the metric; needed where `b` is None.
    limit : {"below", "at least"}
        Which side of the threshold is good.
    margin : float, default 0.05
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    better : {"higher", "lower"} or None
        Which direction is good; ignored for a threshold.
    declared : bool, default True
        False: exploratory; it has an interval but no verdict, and takes no share of alpha.
    paired : bool, default True
        False: the sides share no round and may differ in length.
    unit_means : bool, default False
        Of unpaired sides: whether each value is the mean of a deployment.
    moved : bool, default False
        Whether the sides were measured on different VMs, so that their placement is part of the difference.
    unit_name : {"deployment", "experiment"}
    step : float, default 0
        Half of the resolution of the values, as a share: the half-width of the interval if all values are equal.
    refusal : str
        Why there can be no verdict, if this is known in advance.
    warnings : tuple of str
        Further warnings for the reader.
    subject : dict
        For the words: `names`, `metric`, `quantity`, `context`, `scope`, `hosts`, `question` and, if known, `medians`;
        see `Comparison`.
    """

    a: Floats
    b: Floats | None = None
    failed_a: Mask | None = None
    failed_b: Mask | None = None
    unit: npt.NDArray[np.intp] | None = None
    hour: npt.NDArray[np.intp] | None = None
    threshold: float | None = None
    limit: Literal["below", "at least"] = "below"
    margin: float = MARGIN
    better: Better | None = "higher"
    declared: bool = True
    paired: bool = True
    unit_means: bool = False
    moved: bool = False
    unit_name: str = "deployment"
    step: float = 0.0
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    subject: Mapping[str, Any] = field(default_factory=dict)

    @property
    def edge(self) -> float:
        """Log of the upper edge of the margin; 0 for a threshold, at which nothing is equivalent."""
        return 0.0 if self.b is None else math.log1p(self.margin)

    @property
    def good(self) -> Better | None:
        """Which direction is good."""
        if self.b is None:
            return "lower" if self.limit == "below" else "higher"
        return self.better


def judge_samples(
    samples: Sequence[Sample], *, alpha: float = ALPHA, design: Design = "fixed", **family: Any
) -> Family:
    """Judge contrasts together: the declared ones as a family that shares `alpha`, the others individually.

    Parameters
    ----------
    samples : sequence of Sample
    alpha : float, default 0.05
        Share of families that may contain a false verdict about the hours measured.
    design : {"fixed", "sequential"}
        "sequential": rounds are added until the contrasts are settled; intervals then hold at all looks together.
    **family
        Further fields of `Family`, such as ``ok``, ``failed``, ``notice``.

    Returns
    -------
    Family
        One `Comparison` for each sample, in their order.

    Raises
    ------
    StatsError
        An option out of range, or sides that do not fit together.

    Notes
    -----
    One deployment: log ratios by round, the Hodges-Lehmann estimate and an exact signed-rank interval, with capped
    ranks for equality and small shares (`intervals.rank_cap`). Several: one such estimate each, and Student's t over
    them. Alpha is shared by `intervals.decide`.

    Rounds with a failure are left out. What one side failed beyond the other, and beyond what chance allows (the root
    of all that failed), is ranked worst in a second analysis, and there is a verdict only if both agree; rounds that
    are missing on both sides count in the same way, in both directions. A verdict must also hold without outlying
    rounds (`intervals.without_far`), unless every round is farther from no difference than they are from each other.

    A verdict is about the hours measured. That neighbouring rounds resemble each other is a warning.

    Examples
    --------
    >>> a = np.array([58.0, 57, 59, 58, 58, 60, 57, 58])
    >>> b = np.array([84.0, 85, 86, 84, 87, 88, 85, 85])
    >>> [c] = judge_samples([Sample(a=a, b=b, margin=0.1, better="lower")])
    >>> c.verdict.value, round(c.ratio, 2), round(c.high, 2)
    ('better', 0.68, 0.69)
    """
    check_share(alpha, "alpha", below=0.5)
    if design not in ("fixed", "sequential"):
        raise StatsError(f"design must be 'fixed' or 'sequential'; got {design!r}")
    prepared = [_Data(s) for s in samples]
    declared = [data for data in prepared if data.sample.declared]
    together = iter(_judged(declared, alpha, design))
    comparisons = (
        next(together) if d.sample.declared else _judged([d], alpha, design)[0] for d in prepared
    )
    return Family(
        comparisons=tuple(comparisons), alpha=alpha, **{"declared": len(declared), **family}
    )


class _Data:
    """The log ratios of a sample, and what is not known of its rounds."""

    def __init__(self, s: Sample) -> None:
        a, b = np.asarray(s.a, dtype=float), None if s.b is None else np.asarray(s.b, dtype=float)
        if b is None and not s.threshold:
            raise StatsError("a sample needs b, or a threshold above zero")
        if s.paired and b is not None and a.size != b.size:
            raise StatsError(
                f"a holds {plural(a.size, 'value')} and b {b.size}: paired values belong to the same rounds; "
                "give both in round order with NaN where a round is missing, or pass paired=False"
            )
        sides = [a] if b is None else [a, b]
        flags = [
            np.zeros(v.size, dtype=bool) if f is None else f
            for v, f in zip(sides, (s.failed_a, s.failed_b), strict=False)
        ]
        usable = [np.where(np.isfinite(v) & (v >= 0), v, math.nan) for v in sides]
        values = [v[np.isfinite(v)] for v in usable] + [np.zeros(0)] * (b is None)
        below = sum(int((v < 0).sum()) for v in sides)
        logs = [np.log(np.maximum(v, TINY)) for v in usable]
        self.sample, self.scheduled = s, max(v.size for v in sides)
        self.medians = median(values[0]), median(values[1])
        self.slow = _slow(values[0], s.good), _slow(values[1], s.good)
        self.runs = values[0].size, values[1].size
        self.refusal = s.refusal or (
            f"{plural(below, 'value')} below zero: there is no ratio" if below else ""
        )
        self.d, self.unit, self.units, self.hourly = np.zeros(0), _NO_UNITS, 1, False
        self.unblocked: tuple[Floats, Floats] | None = None
        self.excess, self.unknown, self.absent = (0, _NO_UNITS), _NO_UNITS, 0
        """Which side failed beyond the other and chance (1: A), the units of these failures; of missing rounds."""
        if s.paired or b is None:
            self._pair(logs, flags)
        else:
            self.unblocked = logs[0][np.isfinite(logs[0])], logs[1][np.isfinite(logs[1])]
            self.failed = int(flags[0].sum()), int(flags[1].sum())

    def _pair(self, logs: Sequence[Floats], flags: Sequence[Mask]) -> None:
        """Take the log ratio of each round, and count the rounds without one."""
        s = self.sample
        base = logs[1] if s.b is not None else np.full(self.scheduled, math.log(s.threshold or 1))
        gone = [np.isnan(v) | f for v, f in zip(logs, flags, strict=True)]
        absent = np.logical_and.reduce([np.isnan(v) & ~f for v, f in zip(logs, flags, strict=True)])
        only_a, only_b = (
            (gone[0] & ~absent, absent & False)
            if s.b is None
            else (gone[0] & ~gone[1], gone[1] & ~gone[0])
        )
        unit = np.zeros(self.scheduled, dtype=np.intp)
        if s.unit is not None:
            names, unit = np.unique(s.unit, return_inverse=True)
            self.units = max(1, names.size)
        ok = ~np.logical_or.reduce(gone)
        self.d, self.unit = np.clip((logs[0] - base)[ok], -ZERO, ZERO), unit[ok]
        self.excess, self.unknown = (
            _excess(unit[only_a], unit[only_b]),
            _excess(unit[absent], unit[:0])[1],
        )
        self.failed, self.absent = (int(only_a.sum()), int(only_b.sum())), int(absent.sum())
        if s.b is None and s.hour is not None and self.units == 1 and self.d.size >= LONG_SERIES:
            hour = np.asarray(s.hour)[ok]
            self.d = np.array([np.median(self.d[hour == h]) for h in np.unique(hour)])
            self.unit, self.hourly = np.zeros(self.d.size, dtype=np.intp), True
            # the level that other pages give
            self.medians = (math.exp(math.log(s.threshold or 1) + np.median(self.d)), math.nan)

    @property
    def name(self) -> str:
        """What the observations are."""
        if self.unblocked is not None:
            return self.sample.unit_name if self.sample.unit_means else "run"
        return self.sample.unit_name if self.units > 1 else "hour" if self.hourly else "round"

    @property
    def series(self) -> Floats:
        """The log ratios in time order; none of several units, or of sides without common rounds."""
        return self.d if self.units == 1 else self.d[:0]

    @property
    def unsure(self) -> bool:
        """Whether more is missing than chance explains."""
        return bool(self.excess[1].size or self.unknown.size)

    def ranked(self, unknown: int) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Log ratios and units with the excess ranked worst; rounds of which nothing is known highest (1) or lowest."""
        side, units = self.excess
        worst = {"lower": 1, "higher": -1}.get(self.sample.good or "", unknown) * side * WORST
        return (
            np.concatenate(
                [self.d, np.full(units.size, worst), np.full(self.unknown.size, unknown * WORST)]
            ),
            np.concatenate([self.unit, units, self.unknown]),
        )


def _excess(a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> tuple[int, npt.NDArray[np.intp]]:
    """Which side failed more often, and the units of its failures beyond the other's and one deviation of chance."""
    if not a.size and not b.size:
        return 1, a
    more = a if a.size >= b.size else b
    beyond = max(0, abs(a.size - b.size) - math.ceil(math.sqrt(a.size + b.size)))
    return (1 if a.size >= b.size else -1), more[
        np.linspace(0, more.size - 1, beyond).astype(np.intp)
    ]


def _slow(values: Floats, good: Better | None) -> int:
    """How many values are far on the bad side."""
    x = np.log(np.maximum(values, TINY))
    if x.size < 6:
        return 0
    far = ~without_far(x)
    if not far.any() or good is None:
        return int(far.sum())
    return int((far & (x > median(x) if good == "lower" else x < median(x))).sum())


def _estimates(
    family: Sequence[_Data], logs: Sequence[tuple[Floats, Any]]
) -> list[Estimate | None]:
    """Estimates of a family from these log ratios and their units; None where there are none."""
    estimates: list[Estimate | None] = []
    by_unit: dict[int, Floats] = {}
    for i, (data, (d, unit)) in enumerate(zip(family, logs, strict=True)):
        if data.unblocked is not None:
            estimates.append(Unblocked(*data.unblocked, units=data.sample.unit_means))
            continue
        if d.size and data.units > 1:
            by_unit[i] = np.array([_of_rounds(data, d[unit == u]).centre for u in np.unique(unit)])
        estimates.append(_of_rounds(data, d) if d.size and data.units == 1 else None)
    for i, y in by_unit.items():
        estimates[i] = Units(y, *_pooled(i, by_unit))
    return estimates


def _of_rounds(data: _Data, d: Floats) -> Estimate:
    """Estimate of one deployment; what is held against a threshold is the level, as on every page."""
    return Median(d) if data.sample.b is None else Rounds(d)


def _pooled(i: int, every: Mapping[int, Floats]) -> tuple[float, float]:
    """Variance of a unit of contrast `i`: that of the whole family, unless its own is clearly larger.

    Never less than its own. Contrasts with a common baseline share a part of it, so each of the others counts half.
    """
    y = every[i]
    if y.size < 2:
        return math.inf, 0.0
    own, df = float(y.var(ddof=1)), y.size - 1.0
    others = [v for j, v in every.items() if j != i and v.size > 1]
    if not others:
        return own, df
    of_others = float(np.mean([v.var(ddof=1) for v in others]))
    more = sum(v.size - 1.0 for v in others) / 2
    if own > of_others * float(scipy.special.fdtri(df, more, 0.9)) or own <= 0:
        return own, df
    return max(own, (own * df + of_others * more) / (df + more)), df + more


@dataclass(frozen=True, slots=True)
class _Rules:
    """What the contrasts of a family share."""

    alpha: float
    size: int
    design: Design
    placings: int
    """Placings of hosts that are seen in each unit."""

    def decide(
        self, estimates: Sequence[Estimate | None], family: Sequence[_Data]
    ) -> list[Decision]:
        """What the estimates of a family decide."""
        usable = [
            e if not data.refusal else None for e, data in zip(estimates, family, strict=True)
        ]
        edges = [data.sample.edge for data in family]
        return decide(usable, edges, self.alpha, sequential=self.design == "sequential")


def _judged(family: Sequence[_Data], alpha: float, design: Design) -> list[Comparison]:
    """Judge samples that share alpha."""
    rules = _Rules(alpha, len(family), design, sum(data.sample.moved for data in family) + 1)
    estimates = _estimates(family, [(data.d, data.unit) for data in family])
    decisions = rules.decide(estimates, family)
    doubts = _doubts(family, estimates, decisions, rules)
    return [
        _comparison(data, e, d, doubt, rules)
        for data, e, d, doubt in zip(family, estimates, decisions, doubts, strict=True)
    ]


def _doubts(
    family: Sequence[_Data],
    estimates: Sequence[Estimate | None],
    decisions: Sequence[Decision],
    rules: _Rules,
) -> list[str]:
    """Why a decision does not hold: failures beyond chance, or outlying rounds; empty where it does."""
    doubts = ["" for _ in family]
    if any(data.unsure for data in family):
        both_ways = any(data.unknown.size or data.sample.good is None for data in family)
        for unknown in (1, -1) if both_ways else (1,):
            ranked = rules.decide(
                _estimates(family, [data.ranked(unknown) for data in family]), family
            )
            for i, (data, decision) in enumerate(zip(family, ranked, strict=True)):
                if decision.code != decisions[i].code and data.unsure:
                    doubts[i] = (
                        "the verdict does not hold when the failures beyond chance are ranked worst"
                    )
    near = [without_far(data.series) for data in family]
    if not all(v.all() for v in near):
        core = [
            e if v.all() else _of_rounds(data, data.d[v])
            for e, data, v in zip(estimates, family, near, strict=True)
        ]
        for i, (data, decision, v) in enumerate(
            zip(family, rules.decide(core, family), near, strict=True)
        ):
            # every round is farther from no difference than they are from each other
            spread = float(np.ptp(data.d)) if data.d.size >= 6 else math.inf
            beyond = int((data.d > spread).all()) - int((data.d < -spread).all())
            if not v.all() and decision.code != decisions[i].code != beyond:
                count = plural(int((~v).sum()), f"outlying {data.name}")
                doubts[i] = doubts[i] or f"the verdict would change without {count} of {v.size}"
    return doubts


def _comparison(
    data: _Data,
    estimate: Estimate | None,
    decision: Decision,
    doubt: str,
    rules: _Rules,
) -> Comparison:
    """Put a decision into words, or give the reason why there is none."""
    s = data.sample
    n = estimate.n if estimate is not None else 0
    verdict, reason, more = _verdict(data, estimate, decision, doubt, rules)
    centre = estimate.centre if estimate is not None and n else math.nan
    low, high, confidence = _printed(data, decision, centre)
    warnings = [*s.warnings, *_failures(data)]
    if neighbours_p(data.series) < 0.01 / rules.size:
        warnings.append(
            f"neighbouring {data.name}s resemble each other: another hour may differ from those measured"
        )
    if data.unblocked is not None:
        warnings.append(UNPAIRED)
    medians = s.subject.get("medians", data.medians)
    quotient = (
        math.log(medians[0] / medians[1]) if s.b is not None and min(medians) > 0 else math.nan
    )
    if quotient < low - HARDLY or quotient > high + HARDLY:
        warnings.append(QUOTIENT)
    if not s.declared:
        reason = reason if verdict == Verdict.NONE and s.good is not None else ""
        verdict, more = Verdict.NONE if not n else Verdict.EXPLORATORY, 0
    method, estimand, assumed = _basis(data, decision, rules.design)
    metric = str(s.subject.get("metric", ""))
    return Comparison(
        verdict=verdict,
        ratio=_ratio(centre),
        low=_ratio(low),
        high=_ratio(high),
        n=n,
        reason=reason,
        more_rounds=more,
        confidence=confidence,
        method=method,
        assumptions=assumed,
        warnings=tuple(dict.fromkeys(warnings)),
        margin=s.margin,
        alpha=rules.alpha,
        family=decision.share,
        better=s.good,
        unit=data.name,
        dropped=data.scheduled - data.d.size if data.unblocked is None and not data.hourly else 0,
        failed=data.failed,
        declared=s.declared,
        slow=data.slow,
        runs=data.runs,
        estimand=estimand,
        threshold=s.threshold if s.b is None else None,
        design=rules.design,
        **{"quantity": quantity(metric) or "value", "medians": medians, **s.subject},
    )


def _ratio(log: float) -> float:
    """The ratio; zero and infinity for a value that is compared with zero."""
    return 0.0 if log <= -RANKED else math.inf if log >= RANKED else math.exp(log)


def _verdict(
    data: _Data, estimate: Estimate | None, decision: Decision, doubt: str, rules: _Rules
) -> tuple[Verdict, str, int]:
    """The verdict, its reason, and how many more observations would settle it."""
    if data.refusal or estimate is None:
        return Verdict.NONE, data.refusal or "no round has values of both sides", 0
    s, n, unit, code = data.sample, estimate.n, data.name, decision.code
    side = " per side" if data.unblocked is not None else ""
    a, b = map(len, data.unblocked or ((), ()))
    if n < (need := _least(data, rules)):
        shared = f" for a family of {rules.size} contrasts" if rules.size > 1 else ""
        size = f"{plural(n, unit)}{side}" if a == b else f"{plural(a, unit)} against {b}"
        return (
            Verdict.NONE,
            f"{size}, at least {need} are needed{shared} ({need - n} more)",
            need - n,
        )
    if doubt and code != OPEN:
        return Verdict.NONE, doubt, 0
    if code == EQUIVALENT:
        if unseen := _unseen(data, rules.placings * data.units):
            return Verdict.NONE, *unseen
        certain = decision.low > 0 or decision.high < 0
        return (
            Verdict.EQUIVALENT,
            "a difference is certain, and smaller than the margin" if certain else "",
            0,
        )
    if code == OPEN:
        half = (decision.high - decision.low) / 2
        if RANKED <= half < math.inf:
            reason = f"values of zero are judged by their rank: how many more {unit}s would settle it is not known"
            return Verdict.INCONCLUSIVE, reason, 0
        more = more_rounds(n, estimate.centre, half, s.edge)
        many = more > 300
        units = unit if more == 1 else f"{unit}s"
        reason = f"about {float(f'{more:.1e}') if many else more:,.0f} more {units}{side} would settle it"
        return (
            Verdict.INCONCLUSIVE,
            reason + (": find what makes the runs vary first" if many else ""),
            more,
        )
    if s.good is None:
        return Verdict.NONE, "it differs, but neither direction is better", 0
    return Verdict.BETTER if (code == ABOVE) == (s.good == "higher") else Verdict.WORSE, "", 0


def _printed(data: _Data, decision: Decision, centre: float) -> tuple[float, float, float]:
    """The interval that is printed, and its confidence; of too few rounds their range."""
    low, high, confidence = decision.low, decision.high, decision.confidence
    if not math.isfinite(centre):
        return -math.inf, math.inf, 0.0
    if not data.series.size:
        return low, high, confidence
    least, most = float(data.d.min()), float(data.d.max())
    if not math.isfinite(low + high) and data.d.size > 1:
        return least, most, 1 - 2.0 ** (1 - data.d.size)
    if (
        low == high
    ):  # the values that count are alike, and stand for all that the tool rounds to them
        step = data.sample.step
        least, most = (least, most) if least < most else (low - step, high + step)
        low, high = max(low - step, least), min(high + step, most)
    return low, high, confidence


def _least(data: _Data, rules: _Rules) -> int:
    """Fewest rounds (deployments, runs per side) with which a verdict is possible."""
    if data.units > 1 or data.sample.unit_means:
        return DEPLOYMENTS
    need = rounds_required(rules.alpha, rules.size)
    if rules.design == "sequential":
        while nominal_level(need, rules.alpha / rules.size) < 2.0 ** (1 - need):
            need += 1
    return need


def _failures(data: _Data) -> list[str]:
    """What failed, on which side, and whether one side failed more often than chance allows."""
    remarks = []
    a, b = data.failed
    names = data.sample.subject.get("names", ("A", "B"))
    n = data.scheduled
    if a or b:
        text = f"failed, missing or repeated: {names[0]} in {a} of {plural(n, 'round')}"
        if data.sample.b is not None:
            text += f", {names[1]} in {b}"
            text += ": one side fails more often than the other" if data.excess[1].size else ""
        remarks.append(text)
    if data.absent:
        remarks.append(f"{plural(data.absent, 'round')} of {n} without a run on either side")
    dropped = n - data.d.size
    if (
        data.unblocked is None and not data.hourly and dropped > data.absent
    ):  # else it is said above
        remarks.append(f"{plural(dropped, 'round')} of {n} dropped: a value is missing")
    return remarks


def _unseen(data: _Data, placings: int) -> tuple[str, int] | None:
    """Why equivalence over placings cannot be claimed, and how many more deployments it takes."""
    s = data.sample
    if data.units < 2 or not s.moved:
        return None
    y = np.array([Rounds(data.d[data.unit == u]).centre for u in np.unique(data.unit)])
    far = np.abs(y - np.median(y)) > FAR_PLACING
    if far.any():
        return f"{plural(int(far.sum()), s.unit_name)} of {y.size} landed far from the rest", 0
    if placings < PLACINGS:
        more = math.ceil((PLACINGS - placings) / max(1, round(placings / y.size)))
        reason = (
            f"these {y.size} {s.unit_name}s agree within the margin, but one placing in ten that lands far from the "
            f"others would be missed in {percent(0.9**placings)} of such experiments ({more} more {s.unit_name}s)"
        )
        return reason, more
    return None


def _basis(data: _Data, decision: Decision, design: Design) -> tuple[str, str, tuple[str, ...]]:
    """Method, what is estimated, and what is assumed."""
    s = data.sample
    looks = ", valid at every look" if design == "sequential" else ""
    over = f"geometric mean over {s.unit_name}s of the " if data.units > 1 else ""
    if data.unblocked is not None:
        method = f"unblocked, {'Welch over deployments' if s.unit_means else 'Mann-Whitney shift'}"
        what = "typical ratio of a run of A to a run of B"
        return method + looks, over + what, (
            "runs are independent", "both distributions have the same shape", "nothing drifted between them"
        )  # fmt: skip
    what = (
        "typical value relative to the threshold" if s.b is None else "typical ratio within a round"
    )
    if over:
        assumed = (
            f"each {s.unit_name} is an independent draw of where VMs land",
            f"{s.unit_name} means are near normal",
        )
        return f"paired by {s.unit_name}, Student's t over them{looks}", over + what, assumed
    capped = decision.code == EQUIVALENT or (1 - decision.confidence) <= 0.01
    ranks = "capped signed rank" if capped else "signed rank"
    unit = "by hour" if data.hourly else "by round"
    if s.b is None:
        return (
            f"{unit}, median, interpolated order statistics{looks}",
            what,
            ("the runs measure one level", HOURS),
        )
    assumed = ("the ratios of the rounds scatter evenly around their median, on a log scale", HOURS)
    return (
        f"paired {unit}, Hodges-Lehmann, {'' if looks else 'exact '}{ranks}{looks}",
        what,
        assumed,
    )


def compare_samples(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    margin: float = MARGIN,
    alpha: float = ALPHA,
    family: int = 1,
    better: Better | None = "higher",
    paired: bool = True,
    **subject: Unpack[Subject],
) -> Comparison:
    """Compare condition A with condition B, given as arrays.

    Parameters
    ----------
    a, b : array_like, shape (rounds,)
        One value per run, in time order. Paired: position i of both is round i; a round in which a side has no value
        is dropped and counted.
    margin : float, default 0.05
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    alpha : float, default 0.05
        Share of families that may contain a false verdict.
    family : int, default 1
        Number of contrasts that share `alpha` (Bonferroni).
    better : {"higher", "lower"} or None
        Which direction is good; None: neither, so a difference gets no verdict.
    paired : bool, default True
        False: the values were not measured in common rounds. Any drift between the two sides is then part of the
        difference, and the result says so.
    **subject
        For the words: `declared` (False: exploratory, an interval but no verdict), `metric`,
        `quantity`, `names`, `context`, `scope`; see `Comparison`.

    Raises
    ------
    StatsError
        Sides of different length, values that are not numbers, or an option out of range.

    Examples
    --------
    >>> a = [58, 57, 59, 58, 58, 60, 57, 58]
    >>> b = [84, 85, 86, 84, 87, 88, 85, 85]
    >>> compare_samples(a, b, better="lower", quantity="one-way latency", names=("ppg", "same-zone")).words
    'ppg: 32 % lower one-way latency than same-zone, at least 31 %'
    """
    check_share(margin, "margin")
    check_share(alpha, "alpha", below=0.5)
    if family < 1 or int(family) != family:
        raise StatsError(
            f"family must be the number of contrasts that share alpha, 1 or more; got {family!r}"
        )
    if better not in ("higher", "lower", None):
        raise StatsError(f"better must be 'higher', 'lower' or None; got {better!r}")
    x, y = numbers(a, "a"), numbers(b, "b")
    declared, step = bool(subject.get("declared", True)), half_step(x) + half_step(y)
    words = {name: value for name, value in subject.items() if name != "declared"}
    sample = Sample(
        a=x,
        b=y,
        margin=margin,
        better=better,
        paired=paired,
        declared=declared,
        step=step,
        subject=words,
    )
    # Bonferroni: the share of this contrast alone
    [c] = judge_samples([sample], alpha=alpha / family)
    shared = f" for a family of {family} contrasts" if family > 1 else ""
    reason = c.reason.replace(" are needed (", f" are needed{shared} (") if shared else c.reason
    return dataclasses.replace(c, alpha=alpha, family=int(family), reason=reason)


def merged(values: Floats, cell: Numbers, part: Numbers, group: Numbers) -> Floats:
    """Mean of the runs of each cell (0, 1, …): geometric, and of a group's parts that are brought to one level.

    A part (a pair of hosts) that is missing in a cell shifts nothing. Where a value is zero the mean is arithmetic.
    """
    count = np.bincount(cell)
    if (values <= 0).any():
        return np.asarray(np.bincount(cell, weights=values) / count)
    x, (_, first, which) = np.log(values), np.unique(part, return_index=True, return_inverse=True)
    mean, of = (
        np.bincount(which, weights=x) / np.bincount(which),
        np.unique(group[first], return_inverse=True)[1],
    )
    level = np.bincount(of, weights=mean) / np.bincount(of)
    return np.asarray(np.exp(np.bincount(cell, weights=x + (level[of] - mean)[which]) / count))


def half_step(x: Floats) -> float:
    """Half a step of values that take only one or two steps of the tool's resolution, as a share; else 0."""
    levels = np.unique(x[np.isfinite(x)])
    if not 0 < levels.size <= 2 or x.size < 3 or levels[0] <= 0:
        return 0.0
    if levels.size == 2:
        return float((levels[1] - levels[0]) / 2 / levels.mean())
    value = float(levels[0])
    digits = f"{value:.12g}".lower().partition("e")[0]
    integer, _, part = digits.partition(".")
    step = 10.0 ** -len(part) if part else 10.0 ** (len(integer) - len(integer.rstrip("0")))
    return step / 2 / value if step < value else 0.0
