"""Verdicts from arrays: what was measured for each contrast of a family, and what it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..metrics import ALPHA, plural, rounds_required
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
)
from .median_ci import LONG_SERIES, neighbours_p
from .result import Floats, check_share, numbers, percent, quantity

Design = Literal["fixed", "sequential"]
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
QUOTIENT = "the ratio is the typical one of common rounds, and not the quotient of the two medians, which are of all runs"
HARDLY = 0.005
"""A log ratio that three written digits do not show."""
UNPAIRED = "unpaired: any drift between the two sides' measurements is part of the difference"


@dataclass(frozen=True, kw_only=True)
class Sample(Subject):
    """The measurements for one contrast: one value per round on each side, in time order.

    Sides without a common round are judged as unpaired. `Subject` has the further fields.

    Attributes
    ----------
    a, b : ndarray, shape (rounds,)
        Values of A and of B in the unit of the metric; NaN where there is none, infinity where the run
        failed or had to be repeated. `b` is None for a threshold. A round that was planned and not
        measured is NaN on both sides; one that was excluded for a recorded cause is left out.
    unit : ndarray of int, shape (rounds,), optional
        Deployment of each round: with several, these are the replicates.
    hour : ndarray of int, shape (rounds,), optional
        Hour of each round; from `LONG_SERIES` rounds it is the unit for a threshold.
    moved : bool, default False
        Whether the sides were measured on different VMs, so that placement is part of the difference.
    refusal : str
        Why there can be no verdict, if this is known in advance.
    warnings : tuple of str
        Further warnings for the reader.
    """

    a: Floats
    b: Floats | None = None
    unit: Replicates | None = None
    hour: Replicates | None = None
    moved: bool = False
    refusal: str = ""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_share(self.margin, "margin")
        if self.better not in ("higher", "lower", None):
            raise StatsError(f"better must be 'higher', 'lower' or None; got {self.better!r}")
        if self.b is None and not self.threshold:
            raise StatsError("a sample needs b, or a threshold above zero")
        if self.b is not None and len(self.a) != len(self.b):
            raise StatsError(
                f"a holds {plural(len(self.a), 'value')} and b {len(self.b)}: give both in round order "
                "with NaN where a round is missing, or pass paired=False"
            )

    @property
    def edge(self) -> float:
        """Log of the upper edge of the margin; 0 for a threshold, at which nothing is equivalent."""
        return 0.0 if self.b is None else math.log1p(self.margin)


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
        An option out of range.

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
    every = [_Data(s) for s in samples]
    declared = [data for data in every if data.sample.declared]
    together = iter(_judged(declared, alpha, design, further))
    comparisons = tuple(
        next(together) if data.sample.declared else _judged([data], alpha, design, further)[0]
        for data in every
    )
    return Family(comparisons=comparisons, alpha=alpha, **{"declared": len(declared), **family})


class _Data:
    """The log ratios of a sample, and what is not known of its rounds."""

    def __init__(self, s: Sample) -> None:
        self.sample = s
        sides = [np.asarray(v, dtype=float) for v in (s.a, s.b) if v is not None]
        good = [np.isfinite(v) for v in sides]
        values = [v[ok] for v, ok in zip(sides, good, strict=True)]
        medians = [float(np.median(v)) if v.size else math.nan for v in values]
        self.scheduled = sides[0].size
        self.unit = np.zeros(self.scheduled, dtype=np.intp)
        if s.unit is not None:
            self.unit = np.unique(s.unit, return_inverse=True)[1]
        self.units = int(self.unit.max(initial=0)) + 1
        self.runs = values[0].size, 0 if s.b is None else values[1].size
        self.medians = medians[0], math.nan if s.b is None else medians[1]
        below = sum(int((v < 0).sum()) for v in sides)
        negative = f"{plural(below, 'value')} below zero: there is no ratio" if below else ""
        self.refusal = s.refusal or negative
        self.d, self.hourly = np.zeros(0), False
        self.excess, self.excess_units = 1, self.unit[:0]
        """Which side failed beyond the other and chance (1: A), and the units of these failures."""
        self.unknown, self.absent = self.unit[:0], 0
        """Units of the rounds missing beyond chance, and how many rounds are missing."""
        self.apart: tuple[Floats, Floats] | None = None
        self.failed = 0, 0
        known = [~np.isnan(v) for v in sides]
        if all(side.any() for side in known) and not (known[0] & known[-1]).any():
            self.failed = int(np.isinf(sides[0]).sum()), int(np.isinf(sides[1]).sum())
            self._separate([_log(v) for v in values], [self.unit[ok] for ok in good])
        else:
            self._pair(sides, [~ok for ok in good])

    def _separate(self, logs: Sequence[Floats], units: Sequence[Replicates]) -> None:
        """Take both sides apart: by deployment where there are several, else by run."""
        x, y = logs
        names = [np.unique(unit) for unit in units]
        one, two = (name.size for name in names)
        self.units = 1
        if min(one, two) > 1:
            self.units = np.union1d(*names).size
            x, y = (
                np.array([v[unit == u].mean() for u in name])
                for v, unit, name in zip(logs, units, names, strict=True)
            )
        elif max(one, two) > 1 and min(one, two) == 1 and not self.refusal:
            (a, b), what = self.sample.names, plural(one, "deployment")
            self.refusal = f"{what} of {a} against {two} of {b}: measure at least 2 on each side"
        self.apart = x, y

    def _pair(self, sides: Sequence[Floats], gone: Sequence[npt.NDArray[np.bool_]]) -> None:
        """Take the log ratio of each round, and count the rounds without one."""
        s, unit = self.sample, self.unit
        absent = np.logical_and.reduce([np.isnan(v) for v in sides])
        used = ~np.logical_or.reduce(gone)
        base = math.log(s.threshold or 1) if s.b is None else _log(sides[1][used])
        self.d, self.unit = np.clip(_log(sides[0][used]) - base, -ZERO, ZERO), unit[used]
        other = absent if s.b is None else gone[1]
        only = [gone[0] & ~other, other & ~gone[0]]
        self.failed, self.absent = (int(only[0].sum()), int(only[1].sum())), int(absent.sum())
        self.excess = 1 if self.failed[0] >= self.failed[1] else -1
        more, fewer = only[:: self.excess]
        self.excess_units = _excess(unit[more], int(fewer.sum()))
        self.unknown = _excess(unit[absent], 0)
        if s.b is None and s.hour is not None and self.units == 1 and self.d.size >= LONG_SERIES:
            hour = np.asarray(s.hour)[used]
            self.d = np.array([np.median(self.d[hour == h]) for h in np.unique(hour)])
            self.unit, self.hourly = np.zeros(self.d.size, dtype=np.intp), True
            # the level that other pages give
            self.medians = math.exp(base + float(np.median(self.d))), math.nan

    @property
    def name(self) -> str:
        """What the observations are."""
        if self.units > 1:
            return "deployment"
        return "run" if self.apart is not None else "hour" if self.hourly else "round"

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
            bad = {"lower": 1, "higher": -1}.get(self.sample.better or "", unknown)
            failed = np.full(self.excess_units.size, bad * self.excess * WORST)
            missing = np.full(self.unknown.size, unknown * WORST)
            d = np.concatenate([d, failed, missing])
            unit = np.concatenate([unit, self.excess_units, self.unknown])
        if not d.size:
            return None
        # what is held against a threshold is the level
        kind = Median if self.sample.b is None else Rounds
        if self.units == 1:
            return kind(d)
        return Units(np.array([kind(d[unit == u]).centre for u in np.unique(unit)]))


def _log(values: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(values, TINY)))


def _excess(more: Replicates, fewer: int) -> Replicates:
    """Return the units of the failures beyond those of the other side and one deviation of chance."""
    beyond = max(0, more.size - fewer - math.ceil(math.sqrt(more.size + fewer)))
    return more[np.linspace(0, more.size - 1, beyond).astype(np.intp)] if beyond else more[:0]


@dataclass(frozen=True, slots=True)
class _Rules:
    """What the contrasts of a family share."""

    alpha: float
    size: int
    sequential: bool
    placings: int
    """Placings of hosts that are seen in each unit."""


def _judged(
    family: Sequence[_Data], alpha: float, design: Design, further: int
) -> list[Comparison]:
    """Judge samples that share alpha, with so many further contrasts."""
    placings = sum(data.sample.moved for data in family) + 1
    rules = _Rules(alpha, len(family) + further, design == "sequential", placings)
    edges = [data.sample.edge for data in family]

    def decided(unknown: int) -> tuple[list[Estimate | None], list[Decision]]:
        found = [data.estimate(unknown) for data in family]
        return found, decide(found, edges, alpha, further=further, sequential=rules.sequential)

    estimates, decisions = decided(0)
    doubtful: set[int] = set()
    for unknown in (1, -1) if any(data.unsure for data in family) else ():
        _, ranked = decided(unknown)
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
    if not s.declared:
        reason = reason if verdict == Verdict.NONE and s.better is not None else ""
        verdict, more = Verdict.EXPLORATORY if n else Verdict.NONE, 0
    centre = estimate.centre if estimate is not None and n else math.nan
    low, high, confidence = _printed(data, decision, centre)
    subject = {f.name: getattr(s, f.name) for f in fields(Subject)}
    subject["quantity"] = s.quantity or quantity(s.metric) or "value"
    if data.units > 1:
        subject["scope"] = f"over {data.units} deployments"
    if all(map(math.isnan, s.medians)):
        subject["medians"] = data.medians
    kind = type(estimate) if estimate is not None else Rounds
    method = kind.method.format(data.name)
    if rules.sequential:
        method = f"{method.replace('exact ', '')}, valid at every look"
    shown = data.apart is None and not data.hourly
    return Comparison(
        **subject,
        verdict=verdict,
        ratio=_ratio(centre),
        low=_ratio(low),
        high=_ratio(high),
        n=n,
        reason=reason,
        more_rounds=more,
        confidence=confidence,
        method=method,
        assumptions=(kind.assumed.format(data.name),),
        warnings=_warnings(data, subject["medians"], low, high, rules.size),
        alpha=rules.alpha,
        family=decision.share,
        unit=data.name,
        dropped=data.scheduled - data.d.size if shown else 0,
        failed=data.failed,
        paired=data.apart is None,
        runs=data.runs,
        design="sequential" if rules.sequential else "fixed",
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
    code, better = decision.code, data.sample.better
    if few := _too_few(data, estimate.n, rules):
        return Verdict.NONE, *few
    if code == OPEN:
        return Verdict.INCONCLUSIVE, *_open(data, estimate, decision)
    if doubtful:
        reason = "the verdict does not hold when the failures beyond chance are ranked worst"
        return Verdict.NONE, reason, 0
    if code == EQUIVALENT:
        if unseen := _unseen(data, estimate, rules.placings * data.units):
            return Verdict.NONE, *unseen
        certain = decision.low > 0 or decision.high < 0
        reason = "a difference is certain, and smaller than the margin" if certain else ""
        return Verdict.EQUIVALENT, reason, 0
    if better is None:
        return Verdict.NONE, "it differs, but neither direction is better", 0
    return Verdict.BETTER if (code == ABOVE) == (better == "higher") else Verdict.WORSE, "", 0


def _open(data: _Data, estimate: Estimate, decision: Decision) -> tuple[str, int]:
    """Return how many more observations would settle what is open, in words and as a number."""
    half = (decision.high - decision.low) / 2
    if RANKED <= half < math.inf:
        unknown = f"how many more {data.name}s would settle it is not known"
        return f"values of zero are judged by their rank: {unknown}", 0
    more = more_rounds(estimate.n, estimate.centre, half, data.sample.edge)
    side = " per side" if data.apart is not None else ""
    return f"about {plural(more, f'more {data.name}')}{side} would settle it", more


def _too_few(data: _Data, n: int, rules: _Rules) -> tuple[str, int] | None:
    """Return what is missing where even the clearest difference would get no verdict."""
    a, b = data.runs if data.units == 1 else (n, n)
    apart, share, need = data.apart is not None, rules.alpha / rules.size, DEPLOYMENTS
    if data.units == 1:
        need = rounds_required(rules.alpha, rules.size, paired=not apart)
        # the share of the orders, or of the signs, that are as extreme as the clearest one
        while rules.sequential and nominal_level(need, share) < (
            2 / math.comb(2 * need, need) if apart else 2.0 ** (1 - need)
        ):
            need += 1
        if apart and not rules.sequential and 2 / math.comb(a + b, a) <= share:
            return None
    if n >= need:
        return None
    size = plural(n, data.name) + (" per side" if apart else "")
    if apart and a != b:
        size = f"{plural(a, 'run')} against {b}"
    shared = f" for a family of {rules.size} contrasts" if rules.size > 1 else ""
    return f"{size}, at least {need} are needed{shared} ({need - n} more)", need - n


def _printed(data: _Data, decision: Decision, centre: float) -> tuple[float, float, float]:
    """Return the interval that is printed, and its confidence; of too few rounds their range."""
    if not math.isfinite(centre):
        return -math.inf, math.inf, 0.0
    low, high, d = decision.low, decision.high, data.d
    if data.units == 1 and d.size > 1 and not math.isfinite(low + high):
        return float(d.min()), float(d.max()), 1 - 2.0 ** (1 - d.size)
    return low, high, decision.confidence


def _warnings(
    data: _Data, medians: tuple[float, float], low: float, high: float, size: int
) -> tuple[str, ...]:
    """Return what the reader must know: what failed, what is missing, and what the ratio is not."""
    s, n = data.sample, data.scheduled
    (a, b), (one, two) = data.failed, s.names
    remarks = [*s.warnings]
    if a or b:
        text = f"failed, missing or repeated: {one} in {a} of {plural(n, 'round')}"
        if s.b is not None:
            more = ": one side fails more often than the other" if data.excess_units.size else ""
            text += f", {two} in {b}{more}"
        remarks.append(text)
    if data.absent:
        remarks.append(f"{plural(data.absent, 'round')} of {n} without a run on either side")
    dropped = n - data.d.size
    if data.apart is None and not data.hourly and dropped > data.absent:
        remarks.append(f"{plural(dropped, 'round')} of {n} dropped: a value is missing")
    if data.units == 1 and neighbours_p(data.d) < 0.01 / size:
        remarks.append(
            f"neighbouring {data.name}s resemble each other: another hour may differ from those measured"
        )
    if data.apart is not None:
        remarks.append(UNPAIRED)
    if s.b is not None and min(medians) > 0:
        quotient = math.log(medians[0] / medians[1])
        if not low - HARDLY <= quotient <= high + HARDLY:
            remarks.append(QUOTIENT)
    return tuple(dict.fromkeys(remarks))


def _unseen(data: _Data, estimate: Estimate, placings: int) -> tuple[str, int] | None:
    """Say why equivalence over placings cannot be claimed, and how many more deployments it takes."""
    if not data.sample.moved or type(estimate) is not Units:
        return None
    y = estimate.d
    far = np.abs(y - np.median(y)) > FAR_PLACING
    if far.any():
        return f"{plural(int(far.sum()), 'deployment')} of {y.size} landed far from the rest", 0
    if placings >= PLACINGS:
        return None
    more = math.ceil((PLACINGS - placings) / max(1, round(placings / y.size)))
    reason = (
        f"these {y.size} deployments agree within the margin, but one placing in ten that lands "
        f"far from the others would be missed in {percent(0.9**placings)} of such experiments "
        f"({more} more deployments)"
    )
    return reason, more


def compare_samples(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    alpha: float = ALPHA,
    family: int = 1,
    paired: bool = True,
    **subject: Any,
) -> Comparison:
    """Compare condition A with condition B, given as arrays.

    Parameters
    ----------
    a, b : array_like, shape (rounds,)
        One value per run, in time order. Paired: position i of both is round i; a round in which a side
        has no value is dropped and counted.
    alpha : float, default 0.05
        Share of families that may contain a false verdict.
    family : int, default 1
        Number of contrasts that share `alpha` (Bonferroni).
    paired : bool, default True
        False: the values were not measured in common rounds. Any drift between the two sides is then
        part of the difference, and the result says so.
    **subject
        Fields of `Sample`, such as ``margin``, ``better``, ``metric``, ``names``.

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
    if family < 1 or int(family) != family:
        raise StatsError(f"family must be the number of contrasts that share alpha; got {family!r}")
    x, y = numbers(a, "a"), numbers(b, "b")
    if not paired:
        none = [np.full(v.size, math.nan) for v in (y, x)]
        x, y = np.concatenate([x, none[0]]), np.concatenate([none[1], y])
    [comparison] = judge_samples(
        [Sample(a=x, b=y, **subject)], alpha=alpha, further=int(family) - 1
    )
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
