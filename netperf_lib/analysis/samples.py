"""Verdicts from arrays: what was measured for each contrast of a family, and what it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..metrics import ALPHA, plural
from .comparison import Comparison, Family, Subject, Verdict
from .intervals import (
    ABOVE,
    EQUIVALENT,
    OPEN,
    Decision,
    Estimate,
    Median,
    Rounds,
    Units,
    Unpaired,
    decide,
    more_rounds,
    nominal_level,
)
from .median_ci import LONG_SERIES, neighbours_p
from .result import Floats, check_share, percent, quantity

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
QUOTIENT = (
    "the ratio is the typical one of common rounds, and not the quotient of the two medians, "
    "which are of all runs"
)
HARDLY = 0.005
"""A log ratio that three written digits do not show."""
NEIGHBOURS = "neighbouring rounds resemble each other: another hour may differ from those measured"
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
    moved: bool = False
    refusal: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def edge(self) -> float:
        """Log of the upper edge of the margin; 0 for a threshold, at which nothing is equivalent."""
        return 0.0 if self.b is None else math.log1p(self.margin)


@dataclass(frozen=True, kw_only=True)
class Ratios:
    """The log ratios of a sample.

    Attributes
    ----------
    estimates : tuple of Estimate
        The estimate; where more is missing than chance explains also those with what is not known
        ranked high, and low. None without observations.
    each : str
        What the observations are.
    units, absent : int
        Deployments; rounds without a run on either side.
    failed : tuple of int
        Rounds in which A failed, and B.
    uneven : bool
        Whether one side failed more often than chance explains.
    """

    sample: Sample
    estimates: tuple[Estimate | None, ...]
    each: str
    units: int
    failed: tuple[int, int]
    refusal: str
    paired: bool = True
    uneven: bool = False
    absent: int = 0

    def estimate(self, analysis: int = 0) -> Estimate | None:
        """Return the estimate of an analysis; None where nothing can be estimated."""
        return None if self.refusal else self.estimates[analysis % len(self.estimates)]


def judge_samples(
    samples: Sequence[Sample],
    *,
    alpha: float = ALPHA,
    design: Design = "fixed",
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
    for sample in samples:
        check_share(sample.margin, "margin")
    every = list(map(ratios, samples))
    declared = [r for r in every if r.sample.declared]
    groups = [declared, *([r] for r in every if not r.sample.declared)]
    judged = {
        id(r): comparison
        for group in groups
        for r, comparison in zip(group, _judged(group, alpha, design), strict=True)
    }
    comparisons = tuple(judged[id(r)] for r in every)
    return Family(comparisons=comparisons, alpha=alpha, **{"declared": len(declared), **family})


# -- from values to log ratios -------------------------------------------------------------------


def ratios(s: Sample) -> Ratios:
    """Return the log ratio of each round, and count the rounds that have none."""
    sides = [np.asarray(v, dtype=float) for v in (s.a, s.b) if v is not None]
    below = sum(int((v < 0).sum()) for v in sides)
    negative = f"{plural(below, 'value')} below zero: there is no ratio" if below else ""
    unit = np.zeros(sides[0].size, dtype=np.intp)
    if s.unit is not None:
        unit = np.unique(s.unit, return_inverse=True)[1]
    known = [~np.isnan(v) for v in sides]
    if all(side.any() for side in known) and not (known[0] & known[-1]).any():
        return _apart(s, sides, unit, s.refusal or negative)
    good = [np.isfinite(v) for v in sides]
    used, absent = good[0] & good[-1], ~known[0] & ~known[-1]
    base = math.log(s.threshold or 1) if s.b is None else _log(sides[1][used])
    d = np.clip(_log(sides[0][used]) - base, -ZERO, ZERO)
    other = ~absent if s.b is None else good[1]
    only = [unit[~good[0] & other], unit[~other & good[0]]]
    failed = only[0].size, only[1].size
    side = 1 if failed[0] >= failed[1] else -1
    excess = _excess(only[0] if side > 0 else only[1], min(failed))
    missing = _excess(unit[absent], 0)
    units = int(unit.max(initial=0)) + 1
    each = "part" if s.b is None and d.size >= LONG_SERIES else "round"

    def estimate(unknown: int) -> Estimate | None:
        """Rank failures beyond chance worst, and rounds of which nothing is known high or low."""
        bad = {"lower": 1, "higher": -1}.get(s.better or "", unknown) * side
        parts = [(d, unit[used])]
        if unknown:
            parts.append((np.full(excess.size, bad * WORST), excess))
            parts.append((np.full(missing.size, unknown * WORST), missing))
        values, of = map(np.concatenate, zip(*parts, strict=True))
        return _estimate(s, values, of, units)

    unsure = excess.size or missing.size
    return Ratios(
        sample=s,
        estimates=tuple(map(estimate, (0, 1, -1) if unsure else (0,))),
        each="deployment" if units > 1 else each,
        units=units,
        failed=failed,
        uneven=excess.size > 0,
        absent=int(absent.sum()),
        refusal=s.refusal or negative,
    )


def _apart(s: Sample, sides: Sequence[Floats], unit: Replicates, refusal: str) -> Ratios:
    """Take both sides apart: by deployment where there are several, else by run."""
    good = [np.isfinite(v) for v in sides]
    logs = [_log(v[ok]) for v, ok in zip(sides, good, strict=True)]
    names = [np.unique(unit[ok]) for ok in good]
    one, two = (name.size for name in names)
    units = 1
    kind: type[Units | Unpaired] = Unpaired
    if min(one, two) > 1:
        units, kind = np.union1d(*names).size, Units
        logs = [
            np.array([v[unit[ok] == u].mean() for u in name])
            for v, ok, name in zip(logs, good, names, strict=True)
        ]
    elif max(one, two) > 1:
        (a, b), what = s.names, plural(one, "deployment")
        refusal = f"{what} of {a} against {two} of {b}: measure at least 2 on each side"
    return Ratios(
        sample=s,
        estimates=(kind(*logs),),
        each="deployment" if units > 1 else "run",
        units=units,
        failed=(int(np.isinf(sides[0]).sum()), int(np.isinf(sides[1]).sum())),
        paired=False,
        refusal=refusal,
    )


def _estimate(s: Sample, d: Floats, unit: Replicates, units: int) -> Estimate | None:
    # what is held against a threshold is the level
    kind = Median if s.b is None else Rounds
    if not d.size or units == 1:
        return kind(d) if d.size else None
    return Units(np.array([kind(d[unit == u]).centre for u in np.unique(unit)]))


def _log(values: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(values, TINY)))


def _excess(more: Replicates, fewer: int) -> Replicates:
    """Return the units of the failures beyond those of the other side and one deviation of chance."""
    beyond = max(0, more.size - fewer - math.ceil(math.sqrt(more.size + fewer)))
    return more[np.linspace(0, more.size - 1, beyond).astype(np.intp)] if beyond else more[:0]


# -- from log ratios to comparisons --------------------------------------------------------------


def _judged(family: Sequence[Ratios], alpha: float, design: Design) -> list[Comparison]:
    """Judge contrasts that share alpha."""
    analyses = max((len(r.estimates) for r in family), default=1)
    edges = [r.sample.edge for r in family]
    decided = []
    for i in range(analyses):
        estimates = [r.estimate(i) for r in family]
        decided.append(decide(estimates, edges, alpha, sequential=design == "sequential"))
    placings = sum(r.sample.moved for r in family) + 1
    comparisons = []
    for r, *decisions in zip(family, *decided, strict=True):
        doubtful = len(r.estimates) > 1 and len({d.code for d in decisions}) > 1
        found = _verdict(r, decisions[0], alpha, design, placings * r.units, doubtful=doubtful)
        comparisons.append(_comparison(r, decisions[0], alpha, design, *found))
    return comparisons


def _verdict(
    r: Ratios, decision: Decision, alpha: float, design: Design, placings: int, *, doubtful: bool
) -> tuple[Verdict, str, int]:
    """Return the verdict, its reason, and how many more observations would settle it."""
    estimate, code, better = r.estimate(), decision.code, r.sample.better
    if estimate is None or not estimate.n:
        return Verdict.NONE, r.refusal or "no round has values of both sides", 0
    side = "" if r.paired else " per side"
    half = (decision.high - decision.low) / 2
    if half == math.inf:
        need = _needed(r, estimate.n, decision.share, alpha, design)
        shared = f" for a family of {decision.share} contrasts" if decision.share > 1 else ""
        more = need - estimate.n
        size = plural(estimate.n, r.each) + side
        return Verdict.NONE, f"{size}, at least {need} are needed{shared} ({more} more)", more
    if code == OPEN:
        more = more_rounds(estimate.n, estimate.centre, half, r.sample.edge)
        reason = f"about {plural(more, f'more {r.each}')}{side} would settle it"
        if half >= RANKED:
            more = 0
            reason = f"how many more {r.each}s would settle it is not known: zeros are ranked"
        return Verdict.INCONCLUSIVE, reason, more
    if doubtful:
        reason = "the verdict does not hold when the failures beyond chance are ranked worst"
        return Verdict.NONE, reason, 0
    if code == EQUIVALENT:
        unseen = r.sample.moved and r.paired and r.units > 1 and _unseen(estimate.d, placings)
        if unseen:
            return Verdict.NONE, *unseen
        certain = decision.low > 0 or decision.high < 0
        reason = "a difference is certain, and smaller than the margin" if certain else ""
        return Verdict.EQUIVALENT, reason, 0
    if better is None:
        return Verdict.NONE, "it differs, but neither direction is better", 0
    return Verdict.BETTER if (code == ABOVE) == (better == "higher") else Verdict.WORSE, "", 0


def _needed(r: Ratios, n: int, share: int, alpha: float, design: Design) -> int:
    """Return how many observations let the clearest difference have a verdict."""

    def suffices(k: int) -> bool:
        level = nominal_level(k, alpha / share) if design == "sequential" else alpha / share
        # share of the signs, or of the orders, that are as extreme as the clearest one
        extreme = 2.0 ** (1 - k) if r.paired else 2 / math.comb(2 * k, k)
        return level > 0 and (r.units > 1 or extreme <= level)

    return next(k for k in count(n + 1) if suffices(k))


def _unseen(y: Floats, placings: int) -> tuple[str, int] | None:
    """Say why equivalence over placings cannot be claimed, and how many more deployments it takes."""
    far = int((np.abs(y - np.median(y)) > FAR_PLACING).sum())
    if far:
        return f"{plural(far, 'deployment')} of {y.size} landed far from the rest", 0
    if placings >= PLACINGS:
        return None
    more = math.ceil((PLACINGS - placings) * y.size / placings)
    reason = (
        f"these {y.size} deployments agree within the margin, but one placing in ten that lands "
        f"far from the others would be missed in {percent(0.9**placings)} of such experiments "
        f"({more} more deployments)"
    )
    return reason, more


def _comparison(
    r: Ratios,
    decision: Decision,
    alpha: float,
    design: Design,
    verdict: Verdict,
    reason: str,
    more: int,
) -> Comparison:
    """Put a decision into numbers: ratios, and what they rest on."""
    s, estimate = r.sample, r.estimate()
    n, centre = (0, math.nan) if estimate is None else (estimate.n, estimate.centre)
    if not s.declared:
        reason = reason if verdict == Verdict.NONE and s.better is not None else ""
        verdict, more = Verdict.EXPLORATORY if n else Verdict.NONE, 0
    sides = [v[np.isfinite(v)] for v in (s.a, s.b) if v is not None]
    medians = [float(np.median(v)) if v.size else math.nan for v in sides]
    subject = {f.name: getattr(s, f.name) for f in fields(Subject)}
    subject["quantity"] = s.quantity or quantity(s.metric) or "value"
    if r.units > 1:
        subject["scope"] = f"over {r.units} deployments"
    if all(map(math.isnan, s.medians)):
        subject["medians"] = (*medians, math.nan)[:2]
    kind: Any = estimate or Rounds
    method = kind.method.format(r.each)
    if design == "sequential":
        method = f"{method.replace('exact ', '')}, valid at every look"
    return Comparison(
        **subject,
        verdict=verdict,
        ratio=_ratio(centre),
        low=_ratio(decision.low),
        high=_ratio(decision.high),
        n=n,
        reason=reason,
        more_rounds=more,
        confidence=decision.confidence,
        method=method,
        assumptions=(kind.assumed.format(r.each),),
        warnings=_warnings(r, decision, subject["medians"]),
        alpha=alpha,
        family=decision.share,
        unit=r.each,
        failed=r.failed,
        paired=r.paired,
        runs=(sides[0].size, sides[-1].size if s.b is not None else 0),
    )


def _ratio(log: float) -> float:
    """Return the ratio; zero and infinity for a value that is compared with zero."""
    return 0.0 if log <= -RANKED else math.inf if log >= RANKED else math.exp(log)


def _warnings(r: Ratios, decision: Decision, medians: tuple[float, float]) -> tuple[str, ...]:
    """Return what the reader must know: what failed, what is missing, and what the ratio is not."""
    s, n, (a, b), estimate = r.sample, len(r.sample.a), r.failed, r.estimate()
    remarks = [*s.warnings]
    if a or b:
        other = f", {s.names[1]} in {b}" if s.b is not None else ""
        more = ": one side fails more often than the other" if other and r.uneven else ""
        text = f"failed, missing or repeated: {s.names[0]} in {a} of {plural(n, 'round')}"
        remarks.append(text + other + more)
    if r.absent:
        remarks.append(f"{plural(r.absent, 'round')} of {n} without a run on either side")
    if not r.paired:
        remarks.append(UNPAIRED)
    elif r.units == 1 and estimate and neighbours_p(estimate.d) < 0.01 / decision.share:
        remarks.append(NEIGHBOURS)
    if s.b is not None and min(medians) > 0:
        quotient = math.log(medians[0] / medians[1])
        if not decision.low - HARDLY <= quotient <= decision.high + HARDLY:
            remarks.append(QUOTIENT)
    return tuple(dict.fromkeys(remarks))


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
