"""Verdicts from arrays: what was measured for each contrast of a family, and what it shows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

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
"""From here on a VM landed elsewhere: a choice, no estimate. It lies between the 15 % by which one
placement of the recorded experiments differs from measurement to measurement, and the 44 % that lie
between a proximity group and its zone."""
QUOTIENT = (
    "the ratio is the typical one of common rounds, and not the quotient of the two medians, "
    "which are of all runs"
)
DOUBTFUL = "the verdict does not hold when the failures beyond chance are ranked worst"
HARDLY = 0.005
"""A log ratio that three written digits do not show."""
NEIGHBOURS = (
    "neighbouring rounds resemble each other: another hour may differ from those measured"
)
UNPAIRED = (
    "unpaired: any drift between the two sides' measurements is part of the difference"
)


@dataclass(frozen=True, kw_only=True)
class Sample(Subject):
    """The measurements for one contrast: one value per round on each side, in time order.

    Sides without a common round are judged as unpaired. `Subject` has the further fields.

    Attributes
    ----------
    a, b : ndarray, shape (rounds,)
        Values of A and of B in the unit of the metric; NaN where there is none, infinity where the
        run failed or had to be repeated. `b` is None for a threshold. A round that was planned and
        not measured is NaN on both sides; one that was excluded for a recorded cause is left out.
    unit : ndarray of int, shape (rounds,), optional
        Deployment of each round: with several, these are the replicates.
    moved : bool, default False
        Whether the sides were measured on different VMs, so that placement is part of the
        difference.
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
    """

    sample: Sample
    estimates: tuple[Estimate | None, ...]
    each: str
    units: int
    failed: tuple[int, int]
    refusal: str
    paired: bool = True
    absent: int = 0


def judge_samples(
    samples: Sequence[Sample], *, alpha: float = ALPHA, sequential: bool = False
) -> Family:
    """Judge contrasts together: the declared ones share `alpha`, the others stand alone.

    Parameters
    ----------
    samples : sequence of Sample
    alpha : float, default 0.05
        Share of families that may contain a false verdict about the hours measured.
    sequential : bool, default False
        Rounds are added until the contrasts are settled; intervals then hold at all looks together.

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
    One deployment: log ratios by round, the Hodges-Lehmann estimate and the exact interval of
    capped signed ranks. Several: one such estimate each, and Student's t over them. Sides without a
    common round: the exact interval of Mann and Whitney's test, or Welch's over deployments. Alpha
    is shared by `intervals.decide`.

    Rounds with a failure are left out. What one side failed beyond the other, and beyond the
    standard deviation of that difference if chance alone decides which side fails (the root of all
    that failed), is ranked worst in a second analysis, and there is a verdict only if both agree;
    rounds that are missing on both sides count in the same way, in both directions.

    A verdict is about the hours measured. That neighbouring rounds resemble each other is a
    warning.

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
    family = [r for r in every if r.sample.declared]
    shared = _judged(family, alpha, sequential)
    comparisons = tuple(
        next(shared if r.sample.declared else _judged([r], alpha, sequential))
        for r in every
    )
    return Family(comparisons=comparisons, alpha=alpha, declared=len(family))


# -- from values to log ratios -------------------------------------------------------------------


def ratios(s: Sample) -> Ratios:
    """Return the log ratio of each round, and count the rounds that have none."""
    sides = [np.asarray(v, dtype=float) for v in (s.a, s.b) if v is not None]
    below = sum(int((v < 0).sum()) for v in sides)
    refusal = f"{plural(below, 'value')} below zero: there is no ratio" if below else ""
    refusal = s.refusal or refusal
    unit = np.zeros(sides[0].size, dtype=np.intp)
    if s.unit is not None:
        unit = np.unique(s.unit, return_inverse=True)[1]
    known = [~np.isnan(v) for v in sides]
    if all(side.any() for side in known) and not (known[0] & known[-1]).any():
        return _apart(s, sides, unit, refusal)
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
    # what is held against a threshold is the level
    kind = Median if s.b is None else Rounds

    def estimate(unknown: int) -> Estimate | None:
        """Rank failures beyond chance worst, and rounds of which nothing is known high or low."""
        bad = {"lower": 1, "higher": -1}.get(s.better or "", unknown) * side
        more = [np.full(excess.size, bad * WORST), np.full(missing.size, unknown * WORST)]
        values = np.concatenate([d, *more] if unknown else [d])
        of = np.concatenate([unit[used], excess, missing])[: values.size]
        if not values.size or refusal:
            return None
        if units == 1:
            return kind(values)
        return Units(np.array([kind(values[of == u]).centre for u in np.unique(of)]))

    long = s.b is None and d.size >= LONG_SERIES
    return Ratios(
        sample=s,
        estimates=tuple(
            map(estimate, (0, 1, -1) if excess.size or missing.size else (0,))
        ),
        each="deployment" if units > 1 else "part" if long else "round",
        units=units,
        failed=failed,
        absent=int(absent.sum()),
        refusal=refusal,
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
        estimates=(None if refusal else kind(*logs),),
        each="deployment" if units > 1 else "run",
        units=units,
        failed=(int(np.isinf(sides[0]).sum()), int(np.isinf(sides[1]).sum())),
        paired=False,
        refusal=refusal,
    )


def _log(values: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(values, TINY)))


def _excess(more: Replicates, fewer: int) -> Replicates:
    """Return the units of failures beyond those of the other side and one deviation of chance."""
    beyond = max(0, more.size - fewer - math.ceil(math.sqrt(more.size + fewer)))
    return more[np.linspace(0, more.size - 1, beyond).astype(np.intp)]


# -- from log ratios to comparisons --------------------------------------------------------------


def _judged(
    family: Sequence[Ratios], alpha: float, sequential: bool
) -> Iterator[Comparison]:
    """Judge contrasts that share alpha."""
    edges = [0.0 if r.sample.b is None else math.log1p(r.sample.margin) for r in family]
    decided = []
    for i in range(max((len(r.estimates) for r in family), default=1)):
        estimates = [r.estimates[i % len(r.estimates)] for r in family]
        decided.append(decide(estimates, edges, alpha, sequential=sequential))
    placings = sum(r.sample.moved for r in family) + 1
    for r, edge, first, *others in zip(family, edges, *decided, strict=True):
        found = _verdict(r, first, edge, alpha, placings, sequential=sequential)
        doubtful = r.estimates[1:] and any(d.code != first.code for d in others)
        if doubtful and found[0] not in (Verdict.NONE, Verdict.INCONCLUSIVE):
            found = Verdict.NONE, DOUBTFUL, 0
        yield _comparison(r, first, found, sequential=sequential)


def _verdict(
    r: Ratios,
    decision: Decision,
    edge: float,
    alpha: float,
    placings: int,
    *,
    sequential: bool,
) -> tuple[Verdict, str, int]:
    """Return the verdict, its reason, and how many more observations would settle it."""
    estimate, code, better = r.estimates[0], decision.code, r.sample.better
    if estimate is None or not estimate.n:
        return Verdict.NONE, r.refusal or "no round has values of both sides", 0
    side = "" if r.paired else " per side"
    half = (decision.high - decision.low) / 2
    if half == math.inf:
        need = _needed(r, estimate.n, alpha / decision.share, sequential=sequential)
        shared = (
            f" for a family of {decision.share} contrasts" if decision.share > 1 else ""
        )
        more, size = need - estimate.n, plural(estimate.n, r.each) + side
        return (
            Verdict.NONE,
            f"{size}, at least {need} are needed{shared} ({more} more)",
            more,
        )
    if code == OPEN and half >= RANKED:
        reason = f"how many more {r.each}s would settle it is not known: zeros are ranked"
        return Verdict.INCONCLUSIVE, reason, 0
    if code == OPEN:
        more = more_rounds(estimate.n, estimate.centre, half, edge)
        reason = f"about {plural(more, f'more {r.each}')}{side} would settle it"
        return Verdict.INCONCLUSIVE, reason, more
    if code == EQUIVALENT:
        moved = r.sample.moved and r.paired and r.units > 1
        if unseen := _unseen(estimate.d, placings * r.units) if moved else None:
            return Verdict.NONE, *unseen
        return Verdict.EQUIVALENT, "", 0
    if better is None:
        return Verdict.NONE, "it differs, but neither direction is better", 0
    return (
        Verdict.BETTER if (code == ABOVE) == (better == "higher") else Verdict.WORSE,
        "",
        0,
    )


def _needed(r: Ratios, n: int, alpha: float, *, sequential: bool) -> int:
    """Return how many observations let the clearest difference have a verdict."""

    def suffices(k: int) -> bool:
        level = nominal_level(k, alpha) if sequential else alpha
        # share of the signs, or of the orders, that are as extreme as the clearest one
        extreme = 2.0 ** (1 - k) if r.paired else 2 / math.comb(2 * k, k)
        return level > 0 and (r.units > 1 or extreme <= level)

    return next(k for k in count(n + 1) if suffices(k))


def _unseen(y: Floats, placings: int) -> tuple[str, int] | None:
    """Say why equivalence over placings cannot be claimed.

    How many more deployments it takes.
    """
    if (np.abs(y - np.median(y)) > FAR_PLACING).any():
        return f"of {y.size} deployments some landed far from the rest", 0
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
    r: Ratios, decision: Decision, found: tuple[Verdict, str, int], *, sequential: bool
) -> Comparison:
    """Put a decision into numbers: ratios, and what they rest on."""
    s, estimate, (verdict, reason, more) = r.sample, r.estimates[0], found
    n, centre = (estimate.n, estimate.centre) if estimate else (0, math.nan)
    if not s.declared:
        reason = reason if verdict == Verdict.NONE and s.better is not None else ""
        verdict, more = Verdict.EXPLORATORY if n else Verdict.NONE, 0
    sides = [v[np.isfinite(v)] for v in (s.a, s.b) if v is not None]
    subject = {f.name: getattr(s, f.name) for f in fields(Subject)}
    subject["quantity"] = s.quantity or quantity(s.metric) or "value"
    if r.units > 1:
        subject["scope"] = f"over {r.units} deployments"
    if all(map(math.isnan, s.medians)):
        medians = [float(np.median(v)) if v.size else math.nan for v in sides]
        subject["medians"] = (*medians, math.nan)[:2]
    kind: Any = estimate or Rounds
    method = kind.method.format(r.each)
    if sequential:
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
        family=decision.share,
        unit=r.each,
        failed=r.failed,
        paired=r.paired,
        runs=(sides[0].size, sides[-1].size if s.b is not None else 0),
    )


def _ratio(log: float) -> float:
    """Return the ratio; zero and infinity for a value that is compared with zero."""
    return 0.0 if log <= -RANKED else math.inf if log >= RANKED else math.exp(log)


def _warnings(
    r: Ratios, decision: Decision, medians: tuple[float, float]
) -> tuple[str, ...]:
    """Return what the reader must know: what failed, what is missing, and what the ratio is not."""
    s, n, (a, b), estimate = r.sample, len(r.sample.a), r.failed, r.estimates[0]
    remarks = [*s.warnings]
    if a or b:
        other = f", {s.names[1]} in {b}" if s.b is not None else ""
        text = f"failed, missing or repeated: {s.names[0]} in {a} of {plural(n, 'round')}"
        remarks.append(text + other)
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
    return tuple(remarks)


def merged(
    values: Floats,
    cell: npt.NDArray[Any],
    part: npt.NDArray[Any],
    group: npt.NDArray[Any],
) -> Floats:
    """Return the mean of the runs of each cell (0, 1, …): geometric, of parts brought to one level.

    A part (a pair of hosts) of a group that is missing in a cell shifts nothing. Where a value is
    zero the mean is arithmetic.
    """
    count = np.bincount(cell)
    if (values <= 0).any():
        return np.asarray(np.bincount(cell, weights=values) / count)
    x, (_, first, which) = (
        np.log(values),
        np.unique(part, return_index=True, return_inverse=True),
    )
    mean = np.bincount(which, weights=x) / np.bincount(which)
    of = np.unique(group[first], return_inverse=True)[1]
    level = np.bincount(of, weights=mean) / np.bincount(of)
    return np.asarray(
        np.exp(np.bincount(cell, weights=x + (level[of] - mean)[which]) / count)
    )
