"""Verdicts from arrays: what was measured for each contrast of a family, and what it shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack

import numpy as np
import numpy.typing as npt

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
    Units,
    Unpaired,
    UnpairedUnits,
    decide,
    more_rounds,
    nominal_level,
    without_far,
)
from .median_ci import LONG_SERIES, neighbours_p
from .result import Floats, check_share, numbers, percent, quantity

Design = Literal["fixed", "sequential"]
Mask = npt.NDArray[np.bool_]
Replicates = npt.NDArray[np.intp]

WORST = 12.0
"""Log ratio of a failed run: farther than any measured one."""
TINY = 1e-300
"""Stands for zero where logs are taken."""
ZERO, RANKED = 100.0, 25.0
"""Log ratio of a value to zero, which is judged by its rank; and from where on it is no size."""
PLACINGS = 22
"""Placings needed without a far one: one in ten is then missed in a tenth of the experiments."""
FAR_PLACING = math.log(1.25)
HOURS = "about the hours measured: another hour may differ"
QUOTIENT = "the ratio is the typical one of common rounds, and not the quotient of the two medians, which are of all runs"
HARDLY = 0.005
"""A log ratio that three written digits do not show."""
UNPAIRED = "unpaired: any drift between the two sides' measurements is part of the difference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The measurements for one contrast: one value per round on each side, in time order.

    Sides without a common round are judged as unpaired.

    Attributes
    ----------
    a, b : ndarray, shape (rounds,)
        Values of A and of B in the unit of the metric; NaN where there is none. `b` is None for a
        threshold. A round that was planned and not measured is NaN on both sides; one that was excluded
        for a recorded cause is not part of the sample.
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
    moved : bool, default False
        Whether the sides were measured on different VMs, so that placement is part of the difference.
    unit_name : {"deployment", "experiment"}
    step : float, default 0
        Half of the resolution of the values, as a share: the interval's half-width if all are equal.
    refusal : str
        Why there can be no verdict, if this is known in advance.
    warnings : tuple of str
        Further warnings for the reader.
    subject : dict
        For the words: `names`, `metric`, `quantity`, `context`, `scope`, `hosts`, `question` and, if
        known, `medians`; see `Comparison`.
    """

    a: Floats
    b: Floats | None = None
    failed_a: Mask | None = None
    failed_b: Mask | None = None
    unit: Replicates | None = None
    hour: Replicates | None = None
    threshold: float | None = None
    limit: Literal["below", "at least"] = "below"
    margin: float = MARGIN
    better: Better | None = "higher"
    declared: bool = True
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
    samples: Sequence[Sample],
    *,
    alpha: float = ALPHA,
    design: Design = "fixed",
    further: int = 0,
    **family: Any,
) -> Family:
    """Judge contrasts together: the declared ones share `alpha`, the others stand alone.

    Parameters
    ----------
    samples : sequence of Sample
    alpha : float, default 0.05
        Share of families that may contain a false verdict about the hours measured.
    design : {"fixed", "sequential"}
        "sequential": rounds are added until the contrasts are settled; intervals then hold at all looks
        together.
    further : int
        Contrasts of the family that are not among the samples.
    **family
        Fields of `Family`, such as ``ok``, ``failed``, ``notice``.

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
    One deployment: log ratios by round, the Hodges-Lehmann estimate and the exact interval of capped
    signed ranks. Several: one such estimate each, and Student's t over them. Sides without a common
    round: the exact interval of Mann and Whitney's test, or Welch's over deployments. Alpha is shared
    by `intervals.decide`.

    Rounds with a failure are left out. What one side failed beyond the other, and beyond the standard
    deviation of that difference if chance alone decides which side fails (the root of all that failed),
    is ranked worst in a second analysis, and there is a verdict only if both agree; rounds that are
    missing on both sides count in the same way, in both directions.

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
    together = iter(_judged(declared, alpha, design, further))
    comparisons = tuple(
        next(together) if data.sample.declared else _judged([data], alpha, design, further)[0]
        for data in prepared
    )
    return Family(comparisons=comparisons, alpha=alpha, **{"declared": len(declared), **family})


class _Data:
    """The log ratios of a sample, and what is not known of its rounds."""

    def __init__(self, s: Sample) -> None:
        if s.b is None and not s.threshold:
            raise StatsError("a sample needs b, or a threshold above zero")
        sides = [np.asarray(v, dtype=float) for v in (s.a, s.b) if v is not None]
        if sides[0].size != sides[-1].size:
            raise StatsError(
                f"a holds {plural(sides[0].size, 'value')} and b {sides[-1].size}: give both in round "
                "order with NaN where a round is missing, or pass paired=False"
            )
        self.sample, self.scheduled = s, sides[0].size
        flags = [
            np.zeros(self.scheduled, dtype=bool) if flag is None else flag
            for flag in (s.failed_a, s.failed_b)[: len(sides)]
        ]
        usable = [np.where(np.isfinite(v) & (v >= 0), v, math.nan) for v in sides]
        values = [v[np.isfinite(v)] for v in usable]
        below = sum(int((v < 0).sum()) for v in sides)
        self.refusal = s.refusal
        if below and not s.refusal:
            self.refusal = f"{plural(below, 'value')} below zero: there is no ratio"
        counts = [v.size for v in values]
        slow = [_slow(v, s.good) for v in values]
        medians = [float(np.median(v)) if v.size else math.nan for v in values]
        self.runs = counts[0], counts[1] if s.b is not None else 0
        self.slow = slow[0], slow[1] if s.b is not None else 0
        self.medians = medians[0], medians[1] if s.b is not None else math.nan
        self.unit = np.zeros(self.scheduled, dtype=np.intp)
        if s.unit is not None:
            self.unit = np.unique(s.unit, return_inverse=True)[1]
        self.units, self.hourly = int(self.unit.max(initial=0)) + 1, False
        self.excess, self.excess_units = 1, self.unit[:0]
        """Which side failed beyond the other and chance (1: A), and the units of these failures."""
        self.unknown, self.absent = self.unit[:0], 0
        """Units of the rounds missing beyond chance, and how many rounds are missing."""
        self.d = np.zeros(0)
        self.apart: tuple[Floats, Floats] | None = None
        measured = [np.isfinite(v) | flag for v, flag in zip(sides, flags, strict=True)]
        logs = [np.log(np.maximum(v, TINY)) for v in usable]
        common = (measured[0] & measured[-1]).any()
        if not common and all(side.any() for side in measured):
            self.failed = int(flags[0].sum()), int(flags[1].sum())
            self._separate(logs)
        else:
            self._pair(logs, flags)

    def _separate(self, logs: Sequence[Floats]) -> None:
        """Take both sides apart: by deployment where there are several, else by run."""
        s = self.sample
        found = [np.isfinite(v) for v in logs]
        units = [np.unique(self.unit[ok]) for ok in found]
        self.apart = logs[0][found[0]], logs[1][found[1]]
        one, two = (unit.size for unit in units)
        self.units = np.union1d(*units).size if min(one, two) > 1 else 1
        if self.units > 1:
            x, y = (
                np.array([v[ok & (self.unit == u)].mean() for u in unit])
                for v, ok, unit in zip(logs, found, units, strict=True)
            )
            self.apart = x, y
        elif max(one, two) > 1 and min(one, two) == 1 and not self.refusal:
            a, b = s.subject.get("names", ("A", "B"))
            self.refusal = (
                f"{plural(one, s.unit_name)} of {a} against {two} of {b}: "
                "measure at least 2 on each side"
            )

    def _pair(self, logs: Sequence[Floats], flags: Sequence[Mask]) -> None:
        """Take the log ratio of each round, and count the rounds without one."""
        s, unit = self.sample, self.unit
        gone = [np.isnan(v) | flag for v, flag in zip(logs, flags, strict=True)]
        silent = [np.isnan(v) & ~flag for v, flag in zip(logs, flags, strict=True)]
        absent = np.logical_and.reduce(silent)
        lost = np.logical_or.reduce(gone)
        ratio = logs[0] - (logs[1] if s.b is not None else math.log(s.threshold or 1))
        self.d = np.clip(ratio[~lost], -ZERO, ZERO)
        self.unit = unit[~lost]
        only_a = gone[0] & ~absent
        only_b = np.zeros_like(only_a)
        if s.b is not None:
            only_a, only_b = gone[0] & ~gone[1], gone[1] & ~gone[0]
        self.failed, self.absent = (int(only_a.sum()), int(only_b.sum())), int(absent.sum())
        self.excess = 1 if self.failed[0] >= self.failed[1] else -1
        more, fewer = (only_a, only_b) if self.excess > 0 else (only_b, only_a)
        self.excess_units = _excess(unit[more], int(fewer.sum()))
        self.unknown = _excess(unit[absent], 0)
        hour = s.hour
        if s.b is None and hour is not None and self.units == 1 and self.d.size >= LONG_SERIES:
            hour = np.asarray(hour)[~lost]
            self.d = np.array([np.median(self.d[hour == h]) for h in np.unique(hour)])
            self.unit, self.hourly = np.zeros(self.d.size, dtype=np.intp), True
            # the level that other pages give
            self.medians = (math.exp(math.log(s.threshold or 1) + np.median(self.d)), math.nan)

    @property
    def name(self) -> str:
        """What the observations are."""
        if self.units > 1:
            return self.sample.unit_name
        return "run" if self.apart is not None else "hour" if self.hourly else "round"

    @property
    def series(self) -> Floats:
        """The log ratios in time order; none of several units, or of sides without common rounds."""
        return self.d if self.units == 1 else self.d[:0]

    @property
    def unsure(self) -> bool:
        """Whether more is missing than chance explains."""
        return bool(self.excess_units.size or self.unknown.size)

    def estimate(self, unknown: int = 0) -> Estimate | None:
        """Return the estimate; None without observations.

        Where `unknown` is 1 or -1, failures beyond chance are ranked worst, and rounds of which nothing
        is known highest (1) or lowest (-1).
        """
        if self.refusal:
            return None
        if self.apart is not None:
            return (UnpairedUnits if self.units > 1 else Unpaired)(*self.apart)
        d, unit = self.d, self.unit
        if unknown:
            bad = {"lower": 1, "higher": -1}.get(self.sample.good or "", unknown)
            failed = np.full(self.excess_units.size, bad * self.excess * WORST)
            missing = np.full(self.unknown.size, unknown * WORST)
            d = np.concatenate([d, failed, missing])
            unit = np.concatenate([unit, self.excess_units, self.unknown])
        if not d.size:
            return None
        if self.units == 1:
            return self._of_rounds(d)
        return Units(np.array([self._of_rounds(d[unit == u]).centre for u in np.unique(unit)]))

    def _of_rounds(self, d: Floats) -> Median | Rounds:
        """Return the estimate of one deployment; what is held against a threshold is the level."""
        return Median(d) if self.sample.b is None else Rounds(d)


def _excess(more: Replicates, fewer: int) -> Replicates:
    """Return the units of the failures beyond those of the other side and one deviation of chance."""
    beyond = max(0, more.size - fewer - math.ceil(math.sqrt(more.size + fewer)))
    return more[np.linspace(0, more.size - 1, beyond).astype(np.intp)] if beyond else more[:0]


def _slow(values: Floats, good: Better | None) -> int:
    """Return how many values are far on the bad side."""
    x = np.log(np.maximum(values, TINY))
    if x.size < 6:
        return 0
    far = ~without_far(x)
    if good is None:
        return int(far.sum())
    bad = x > np.median(x) if good == "lower" else x < np.median(x)
    return int((far & bad).sum())


@dataclass(frozen=True, slots=True)
class _Rules:
    """What the contrasts of a family share."""

    alpha: float
    size: int
    design: Design
    placings: int
    """Placings of hosts that are seen in each unit."""

    def decide(
        self, family: Sequence[_Data], estimates: Sequence[Estimate | None]
    ) -> list[Decision]:
        """Return what the estimates of a family decide."""
        edges = [data.sample.edge for data in family]
        further = self.size - len(family)
        return decide(
            [*estimates, *[None] * further],
            [*edges, *[0.0] * further],
            self.alpha,
            sequential=self.design == "sequential",
        )


def _judged(
    family: Sequence[_Data], alpha: float, design: Design, further: int
) -> list[Comparison]:
    """Judge samples that share alpha, with so many further contrasts."""
    placings = sum(data.sample.moved for data in family) + 1
    rules = _Rules(alpha, len(family) + further, design, placings)
    estimates = [data.estimate() for data in family]
    decisions = rules.decide(family, estimates)
    doubtful: set[int] = set()
    if any(data.unsure for data in family):
        for unknown in (1, -1):
            ranked = rules.decide(family, [data.estimate(unknown) for data in family])
            doubtful |= {
                i
                for i, data in enumerate(family)
                if data.unsure and ranked[i].code != decisions[i].code
            }
    return [
        _comparison(data, estimates[i], decisions[i], rules, doubtful=i in doubtful)
        for i, data in enumerate(family)
    ]


def _comparison(
    data: _Data, estimate: Estimate | None, decision: Decision, rules: _Rules, *, doubtful: bool
) -> Comparison:
    """Put a decision into words, or give the reason why there is none."""
    s = data.sample
    n = estimate.n if estimate is not None else 0
    verdict, reason, more = _verdict(data, estimate, decision, rules, doubtful=doubtful)
    centre = estimate.centre if estimate is not None and n else math.nan
    low, high, confidence = _printed(data, decision, centre)
    warnings = [*s.warnings, *_failures(data)]
    if neighbours_p(data.series) < 0.01 / rules.size:
        warnings.append(
            f"neighbouring {data.name}s resemble each other: another hour may differ from those measured"
        )
    if data.apart is not None:
        warnings.append(UNPAIRED)
    medians = s.subject.get("medians", data.medians)
    quotient = math.nan
    if s.b is not None and min(medians) > 0:
        quotient = math.log(medians[0] / medians[1])
    if quotient < low - HARDLY or quotient > high + HARDLY:
        warnings.append(QUOTIENT)
    if not s.declared:
        reason = reason if verdict == Verdict.NONE and s.good is not None else ""
        verdict, more = Verdict.EXPLORATORY if n else Verdict.NONE, 0
    method, estimand, assumed = _basis(data, rules.design)
    subject = {"quantity": quantity(str(s.subject.get("metric", ""))) or "value", **s.subject}
    if data.units > 1:
        subject["scope"] = f"over {data.units} {s.unit_name}s"
    shown = data.apart is None and not data.hourly
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
        dropped=data.scheduled - data.d.size if shown else 0,
        failed=data.failed,
        declared=s.declared,
        paired=data.apart is None,
        slow=data.slow,
        runs=data.runs,
        estimand=estimand,
        threshold=s.threshold if s.b is None else None,
        design=rules.design,
        **{**subject, "medians": medians},
    )


def _ratio(log: float) -> float:
    """Return the ratio; zero and infinity for a value that is compared with zero."""
    return 0.0 if log <= -RANKED else math.inf if log >= RANKED else math.exp(log)


def _verdict(
    data: _Data, estimate: Estimate | None, decision: Decision, rules: _Rules, *, doubtful: bool
) -> tuple[Verdict, str, int]:
    """Return the verdict, its reason, and how many more observations would settle it."""
    if estimate is None or not estimate.n:
        return Verdict.NONE, data.refusal or "no round has values of both sides", 0
    s, code = data.sample, decision.code
    if few := _too_few(data, estimate.n, rules):
        return Verdict.NONE, *few
    if doubtful and code != OPEN:
        reason = "the verdict does not hold when the failures beyond chance are ranked worst"
        return Verdict.NONE, reason, 0
    if code == EQUIVALENT:
        if unseen := _unseen(data, estimate, rules.placings * data.units):
            return Verdict.NONE, *unseen
        certain = decision.low > 0 or decision.high < 0
        reason = "a difference is certain, and smaller than the margin" if certain else ""
        return Verdict.EQUIVALENT, reason, 0
    if code == OPEN:
        return Verdict.INCONCLUSIVE, *_open(data, estimate, decision)
    if s.good is None:
        return Verdict.NONE, "it differs, but neither direction is better", 0
    return Verdict.BETTER if (code == ABOVE) == (s.good == "higher") else Verdict.WORSE, "", 0


def _open(data: _Data, estimate: Estimate, decision: Decision) -> tuple[str, int]:
    """Return how many more observations would settle what is open, in words and as a number."""
    half = (decision.high - decision.low) / 2
    if RANKED <= half < math.inf:
        unknown = f"how many more {data.name}s would settle it is not known"
        return f"values of zero are judged by their rank: {unknown}", 0
    more = more_rounds(estimate.n, estimate.centre, half, data.sample.edge)
    count = f"{float(f'{more:.1e}') if more > 300 else more:,.0f}"
    units = data.name if more == 1 else f"{data.name}s"
    side = " per side" if data.apart is not None else ""
    hint = ": find what makes the runs vary first" if more > 300 else ""
    return f"about {count} more {units}{side} would settle it{hint}", more


def _too_few(data: _Data, n: int, rules: _Rules) -> tuple[str, int] | None:
    """Return what is missing where even the clearest difference would get no verdict."""
    a, b = data.runs if data.units == 1 else (n, n)
    apart = data.apart is not None
    need = DEPLOYMENTS
    if data.units == 1:
        # the share of the orders, or of the signs, that are as extreme as the clearest one
        least = (lambda k: 2 / math.comb(2 * k, k)) if apart else (lambda k: 2.0 ** (1 - k))
        need = 2 if apart else rounds_required(rules.alpha, rules.size)
        share = rules.alpha / rules.size
        while least(need) > (nominal_level(need, share) if rules.design == "sequential" else share):
            need += 1
        if apart and rules.design == "fixed" and 2 / math.comb(a + b, a) <= share:
            return None
    if n >= need:
        return None
    side = " per side" if apart else ""
    size = (
        f"{plural(n, data.name)}{side}"
        if a == b or not apart
        else f"{plural(a, 'run')} against {b}"
    )
    shared = f" for a family of {rules.size} contrasts" if rules.size > 1 else ""
    return f"{size}, at least {need} are needed{shared} ({need - n} more)", need - n


def _printed(data: _Data, decision: Decision, centre: float) -> tuple[float, float, float]:
    """Return the interval that is printed, and its confidence; of too few rounds their range."""
    low, high, confidence = decision.low, decision.high, decision.confidence
    if not math.isfinite(centre):
        return -math.inf, math.inf, 0.0
    if not data.series.size:
        return low, high, confidence
    least, most = float(data.d.min()), float(data.d.max())
    if not math.isfinite(low + high) and data.d.size > 1:
        return least, most, 1 - 2.0 ** (1 - data.d.size)
    if low == high:  # alike, they stand for all that the tool rounds to them
        step = data.sample.step
        least, most = (least, most) if least < most else (low - step, high + step)
        low, high = max(low - step, least), min(high + step, most)
    return low, high, confidence


def _failures(data: _Data) -> list[str]:
    """Say what failed, on which side, and whether one side failed more often than chance allows."""
    remarks = []
    a, b = data.failed
    one, two = data.sample.subject.get("names", ("A", "B"))
    n = data.scheduled
    if a or b:
        text = f"failed, missing or repeated: {one} in {a} of {plural(n, 'round')}"
        if data.sample.b is not None:
            more = ": one side fails more often than the other" if data.excess_units.size else ""
            text += f", {two} in {b}{more}"
        remarks.append(text)
    if data.absent:
        remarks.append(f"{plural(data.absent, 'round')} of {n} without a run on either side")
    dropped = n - data.d.size
    if data.apart is None and not data.hourly and dropped > data.absent:
        remarks.append(f"{plural(dropped, 'round')} of {n} dropped: a value is missing")
    return remarks


def _unseen(data: _Data, estimate: Estimate, placings: int) -> tuple[str, int] | None:
    """Say why equivalence over placings cannot be claimed, and how many more deployments it takes."""
    s = data.sample
    if not s.moved or not isinstance(estimate, Units):
        return None
    y = estimate.d
    far = np.abs(y - np.median(y)) > FAR_PLACING
    if far.any():
        return f"{plural(int(far.sum()), s.unit_name)} of {y.size} landed far from the rest", 0
    if placings >= PLACINGS:
        return None
    more = math.ceil((PLACINGS - placings) / max(1, round(placings / y.size)))
    reason = (
        f"these {y.size} {s.unit_name}s agree within the margin, but one placing in ten that lands "
        f"far from the others would be missed in {percent(0.9**placings)} of such experiments "
        f"({more} more {s.unit_name}s)"
    )
    return reason, more


def _basis(data: _Data, design: Design) -> tuple[str, str, tuple[str, ...]]:
    """Return the method, what is estimated, and what is assumed."""
    s = data.sample
    looks = ", valid at every look" if design == "sequential" else ""
    over = f"geometric mean over {s.unit_name}s of the " if data.units > 1 else ""
    if data.apart is not None:
        test = f"Welch over {s.unit_name}s" if over else "Mann-Whitney shift"
        what = f"{over}typical ratio of a run of A to a run of B"
        assumed: tuple[str, ...] = (
            f"{s.unit_name if over else 'run'}s are independent",
            "both distributions have the same shape",
            "nothing drifted between them",
        )
        return f"unpaired, {test}{looks}", what, assumed
    what = f"{over}typical ratio within a round"
    if s.b is None:
        what = f"{over}typical value relative to the threshold"
    if over:
        assumed = (
            f"each {s.unit_name} is an independent draw of where VMs land",
            f"{s.unit_name} means are near normal",
        )
        return f"paired by {s.unit_name}, Student's t over them{looks}", what, assumed
    unit = "hour" if data.hourly else "round"
    if s.b is None:
        method = f"by {unit}, median, interpolated order statistics{looks}"
        return method, what, ("the runs measure one level", HOURS)
    exact = "" if looks else "exact "
    method = f"paired by {unit}, Hodges-Lehmann, {exact}capped signed rank{looks}"
    even = "the ratios of the rounds scatter evenly around their median, on a log scale"
    return method, what, (even, HOURS)


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
        One value per run, in time order. Paired: position i of both is round i; a round in which a side
        has no value is dropped and counted.
    margin : float, default 0.05
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    alpha : float, default 0.05
        Share of families that may contain a false verdict.
    family : int, default 1
        Number of contrasts that share `alpha` (Bonferroni).
    better : {"higher", "lower"} or None
        Which direction is good; None: neither, so a difference gets no verdict.
    paired : bool, default True
        False: the values were not measured in common rounds. Any drift between the two sides is then
        part of the difference, and the result says so.
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
    'ppg: 32 % lower one-way latency than same-zone, at least 30 %'
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
    step = half_step(x) + half_step(y)
    if not paired:
        none = [np.full(v.size, math.nan) for v in (y, x)]
        x, y = np.concatenate([x, none[0]]), np.concatenate([none[1], y])
    sample = Sample(
        a=x,
        b=y,
        margin=margin,
        better=better,
        declared=bool(subject.get("declared", True)),
        step=step,
        subject={name: value for name, value in subject.items() if name != "declared"},
    )
    [comparison] = judge_samples([sample], alpha=alpha, further=int(family) - 1)
    return comparison


def merged(
    values: Floats, cell: npt.NDArray[Any], part: npt.NDArray[Any], group: npt.NDArray[Any]
) -> Floats:
    """Return the mean of the runs of each cell (0, 1, …): geometric, of parts brought to one level.

    A part (a pair of hosts) of a group that is missing in a cell shifts nothing. Where a value is zero
    the mean is arithmetic.
    """
    count = np.bincount(cell)
    if (values <= 0).any():
        return np.asarray(np.bincount(cell, weights=values) / count)
    x, (_, first, which) = np.log(values), np.unique(part, return_index=True, return_inverse=True)
    mean = np.bincount(which, weights=x) / np.bincount(which)
    of = np.unique(group[first], return_inverse=True)[1]
    level = np.bincount(of, weights=mean) / np.bincount(of)
    return np.asarray(np.exp(np.bincount(cell, weights=x + (level[of] - mean)[which]) / count))


def half_step(x: Floats) -> float:
    """Return half a step of values that take one or two steps of the tool's resolution, as a share."""
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
