"""From the table of runs to verdicts: one function that reports, plans, stopping rules and validation all call."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
import numpy.typing as npt
import scipy

from ..errors import StatsError
from ..experiment.model import Contrast
from ..metrics import Better, plural
from .comparison import About, Comparison, Family, Verdict
from .contrasts import Question, question
from .evidence import (
    ABOVE,
    EQUIVALENT,
    OPEN,
    Decision,
    Estimate,
    Rounds,
    Unblocked,
    Units,
    decide,
    more_rounds,
    rounds_required,
    without_far,
)
from .result import Floats, check_share, numbers, percent, quantity
from .runs_table import Factors, Mask, RunsTable
from .sequential import nominal_level
from .sides import Measured, Sides
from .trust import Trust, trusts

if TYPE_CHECKING:
    import pandas as pd

Design = Literal["fixed", "sequential"]

LOST = 0.25
"""With a larger share of rounds lost there is no verdict: the Hodges-Lehmann estimate breaks down at 29 %."""
PLACINGS = 22
"""Placings needed without a far one: if one in ten lands elsewhere, that is then missed in a tenth of the cases."""
FAR_PLACING = math.log(1.25)
HOURS = "the hours measured represent others: a path may be in another state at another time of day"


def judge(
    runs: pd.DataFrame,
    contrasts: Iterable[Contrast | Question | Mapping[str, Any]],
    *,
    alpha: float = 0.05,
    design: Design | None = None,
    rounds: int | None = None,
    paired: bool = True,
) -> Family:
    """Judge the declared contrasts of a report from its table of runs.

    Parameters
    ----------
    runs : DataFrame
        One row per run and attempt. Columns: ``experiment``, ``deployment``, ``round``, ``order``, ``attempt``,
        ``status``, ``tool``, ``test``, the factors, the metrics; runs that failed have null metrics. A missing
        column has a default (one experiment, one deployment, first attempt, ok); every other column with several
        levels is a factor.
    contrasts : iterable of dict or Contrast
        As in the yaml: ``{"metric": …, "a": {factor: level}, "b": {factor: level}, "margin": 0.1}``, or against a
        threshold: ``{"metric": …, "a": {…}, "below": "1 ms"}``, ``{"metric": …, "a": {…}, "at_least": "900 Mbit/s"}``,
        ``{"metric": …, "a": {…}, "at_least": "90 %", "of": "10 Gbit/s"}`` (a number is in the unit of the metric).
        Margin: a share or a percentage, default 0.05. ``"declared": False``: exploratory, an interval but no verdict;
        it takes no share of `alpha`.
    alpha : float, default 0.05
        Share of reports that may hold a false verdict.
    design : {"fixed", "sequential"}, optional
        "fixed": the number of rounds was chosen before the data, and this is the only look. "sequential": rounds are
        added until the contrasts are settled; intervals then hold at all looks together, so adding rounds is always
        allowed. Default: the column ``design`` of `runs` where there is one, else "fixed".
    rounds : int, optional
        Rounds planned in each deployment: those not measured count as lost, and in a fixed design any further rounds
        are not used.
    paired : bool, default True
        False: the runs were not measured in rounds; labelled "unblocked".

    Returns
    -------
    Family
        `Family.verdicts` in the order of `contrasts`.

    Raises
    ------
    StatsError
        No such column, an invalid contrast, or a table without runs.

    Notes
    -----
    One deployment: log ratios by round, the Hodges-Lehmann estimate and the signed-rank interval (`evidence.Rounds`).
    Several deployments (or experiments): one such estimate each, and Student's t over them (`evidence.Units`); rounds
    of different deployments or experiments are never merged. Alpha is shared among the contrasts, and a contrast that
    lies wholly beyond its margin hands its share on (`evidence.decide`).

    A verdict is given only if it also holds (a) with failed or repeated runs ranked worst, and (b) without outlying
    rounds (`evidence.without_far`). There is no verdict if more than a quarter of the rounds is lost, if rounds depend
    on their neighbours, if too few packets lie beyond a percentile, or if there are too few deployments to show an
    occasional far placing.
    """
    table = RunsTable(getattr(runs, "runs", runs))
    paired = paired and table.blocked
    check_share(alpha, "alpha", below=0.5)
    asked = [question(c) for c in contrasts]
    if design is None:
        told = set(map(str, table.runs["design"].dropna())) if "design" in table.columns else set()
        design = "sequential" if "sequential" in told else "fixed"
    if design not in ("fixed", "sequential"):
        raise StatsError(f"design must be 'fixed' or 'sequential'; got {design!r}")
    warnings = []
    if rounds is not None and design == "fixed":
        late = _beyond_plan(table, rounds)
        if late.any():
            table.ok &= ~late
            table.failed &= ~late
            warnings.append(
                f"{plural(np.unique(table.block[late]).size, 'round')} beyond the {rounds} planned are not used: "
                "to add rounds until contrasts are settled, use a sequential design"
            )
    sides = Sides(table, rounds)
    measured = [Measured.of(sides, q, paired) for q in asked]
    declared = [m for m in measured if m.asked.declared]
    together = iter(_judged(declared, sides, alpha, design))
    return Family(
        comparisons=tuple(
            next(together) if m.asked.declared else _judged([m], sides, alpha, design)[0] for m in measured
        ),
        ok=int(table.ok.sum()),
        failed=int(table.failed.sum()),
        excluded=int(table.excluded.sum()),
        alpha=alpha,
        declared=len(declared),
        warnings=tuple(warnings),
    )


def _beyond_plan(table: RunsTable, rounds: int) -> Mask:
    """Runs of rounds beyond the first `rounds` of their deployment."""
    blocks, first = np.unique(table.block, return_index=True)
    deployment = table.deployment[first]
    rank = np.concatenate([np.arange((deployment == d).sum()) for d in np.unique(deployment)])
    return np.asarray(np.isin(table.block, blocks[rank >= rounds]))


def _estimates(family: Sequence[Measured], trusts: Sequence[Trust], logs: Sequence[tuple[Floats, Any]]) -> list[Any]:
    """Estimates of a family from these log ratios and their units; None where there are none."""
    made: list[Any] = []
    by_unit: dict[int, Floats] = {}
    for i, (m, trust, (d, unit)) in enumerate(zip(family, trusts, logs, strict=True)):
        if m.unblocked is not None:
            made.append(Unblocked(*m.unblocked, units=m.unit_means, factor=trust.factor, reach=trust.reach))
        elif not d.size:
            made.append(None)
        elif len(m.unknown) > 1:
            by_unit[i] = np.array([Rounds(d[unit == u]).middle for u in np.unique(unit)])
            made.append(None)
        else:
            states = tuple(s for s in trust.states if s.size == d.size)
            made.append(Rounds(d, trust.factor, states, trust.reach))
    for i, y in by_unit.items():
        variance, df = _pooled(i, by_unit)
        made[i] = Units(y, variance, df, trusts[i].reach)
    return made


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
    rest = float(np.mean([v.var(ddof=1) for v in others]))
    more = sum(v.size - 1.0 for v in others) / 2
    if own > rest * float(scipy.special.fdtri(df, more, 0.9)) or own <= 0:
        return own, df
    return max(own, (own * df + rest * more) / (df + more)), df + more


def _judged(family: Sequence[Measured], sides: Sides, alpha: float, design: Design) -> list[Comparison]:
    """Judge measured contrasts that share alpha."""
    found = trusts(family, sides)
    edges = [m.asked.edge for m in family]
    logs = [(m.d, m.unit) for m in family]
    sequential = design == "sequential"

    def decided(logs: Sequence[tuple[Floats, Any]]) -> tuple[list[Any], list[Decision]]:
        estimates = _estimates(family, found, logs)
        usable = [e if not m.refusal else None for e, m in zip(estimates, family, strict=True)]
        return estimates, decide(usable, edges, alpha, sequential=sequential)

    estimates, main = decided(logs)
    doubts: list[str] = ["" for _ in family]
    if any(m.lost for m in family):
        both_ways = any(sum(m.unknown.values()) or m.asked.better is None for m in family)
        for unknown in (1, -1) if both_ways else (1,):
            ranked = [m.ranked(unknown) if m.lost and m.unblocked is None else (m.d, m.unit) for m in family]
            for i, d in enumerate(decided(ranked)[1]):
                if d.code != main[i].code and family[i].lost:
                    doubts[i] = "the verdict does not hold when failed runs are ranked worst"
    near = [without_far(m.d) if len(m.unknown) == 1 and m.unblocked is None and m.d.size else None for m in family]
    if any(v is not None and not v.all() for v in near):
        core = [(m.d, m.unit) if v is None else (m.d[v], m.unit[v]) for m, v in zip(family, near, strict=True)]
        for i, d in enumerate(decided(core)[1]):
            v = near[i]
            beyond = _beyond_doubt(family[i]) == main[i].code
            if d.code != main[i].code and v is not None and not v.all() and not beyond:
                doubts[i] = doubts[i] or (
                    f"the verdict would change without {plural(int((~v).sum()), 'outlying round')} of {v.size}"
                )
    placings = sum(len(np.unique(m.unit)) for m in {id(s): m for m in family for s in (m.a, m.b)}.values() if m.moved)
    return [
        _comparison(m, t, e, d, doubt, alpha, len(family), design, placings)
        for m, t, e, d, doubt in zip(family, found, estimates, main, doubts, strict=True)
    ]


def _beyond_doubt(m: Measured) -> int:
    """1 or -1 if every round is on one side of no difference, by more than the rounds differ from each other."""
    d = m.d
    if d.size < 6 or m.unblocked is not None or len(m.unknown) > 1:
        return 0
    spread = float(d.max() - d.min())
    return 1 if d.min() > spread else -1 if d.max() < -spread else 0


def _comparison(
    m: Measured,
    trust: Trust,
    estimate: Estimate | None,
    decision: Decision,
    doubt: str,
    alpha: float,
    size: int,
    design: Design,
    placings: int,
) -> Comparison:
    """Put a decision into words, or give the reason why there is none."""
    q = m.asked
    n = estimate.n if estimate is not None else 0
    unit = m.unit_name if len(m.unknown) > 1 else "round" if m.unblocked is None else "run"
    side = " per side" if m.unblocked is not None else ""
    warnings = list(m.warnings)
    low, high, confidence = decision.low, decision.high, decision.confidence
    code, reason, more = decision.code, "", 0
    verdict = Verdict.NONE
    need = _least(m, alpha, size, design)
    lost = m.lost / max(1, m.scheduled)
    warnings += _failures(m)
    if m.refusal or estimate is None:
        reason = m.refusal or "no round has values of both sides"
    elif n < need:
        more = need - n
        shared = f" for a family of {size} contrasts" if size > 1 else ""
        reason = f"{plural(n, unit)}{side}, at least {need} are needed{shared} ({more} more)"
    elif lost > LOST and m.unblocked is None:
        reason = f"{percent(lost)} of {m.scheduled} rounds failed or are missing: too many for a verdict"
    elif trust.alarm and not (code and _beyond_doubt(m) == code):
        reason = trust.alarm
    elif doubt and code != OPEN:
        reason = doubt
    elif code == EQUIVALENT and (unseen := _unseen(m, placings)):
        reason, more = unseen
    elif code == EQUIVALENT:
        verdict = Verdict.EQUIVALENT
        reason = "a difference is certain, and smaller than the margin" if low > 0 or high < 0 else ""
    elif code == OPEN:
        verdict, more = Verdict.INCONCLUSIVE, more_rounds(n, estimate.middle, (high - low) / 2, q.edge)
        many = more > 300
        units = unit if more == 1 else f"{unit}s"
        reason = f"about {float(f'{more:.1e}') if many else more:,.0f} more {units}{side} would settle it"
        reason += ": find what makes the runs vary first" if many else ""
    elif q.better is None:
        reason = "it differs, but neither direction is better"
    else:
        verdict = Verdict.BETTER if (code == ABOVE) == (q.better == "higher") else Verdict.WORSE
    for upper in trust.states:
        few = int(min(upper.sum(), (~upper).sum()))
        warnings.append(
            f"the rounds fall into two groups ({few} and {upper.size - few}), and the interval covers both: "
            "look for a path or host that changes its state"
        )
    warnings += trust.warnings
    if m.unblocked is not None:
        warnings.append("unblocked: any drift between the two sides' measurements is part of the difference")
    if not q.declared:
        reason = reason if verdict == Verdict.NONE and q.better is not None else ""
        verdict, more = Verdict.NONE if estimate is None or not n else Verdict.EXPLORATORY, 0
    if not math.isfinite(low + high) and estimate is not None and n > 1 and m.unblocked is None and len(m.unknown) == 1:
        low, high, confidence = float(m.d.min()), float(m.d.max()), 1 - 2.0 ** (1 - n)
    if m.a.zeros and m.b is None and m.d.size:  # widening counts from the middle, which is far from zero in logs
        low, high = max(low, float(m.d.min())), min(high, float(m.d.max()))
    middle = estimate.middle if estimate is not None and n else math.nan
    if m.refusal and not math.isfinite(middle):
        low, high, confidence = -math.inf, math.inf, 0.0
    method, estimand, assumed = _basis(m, trust, design)
    return Comparison(
        verdict=verdict,
        ratio=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high),
        n=n,
        reason=reason,
        more_rounds=more,
        confidence=confidence,
        method=method,
        assumptions=assumed,
        warnings=tuple(dict.fromkeys(warnings)),
        margin=q.margin,
        alpha=alpha,
        family=int(decision.share),
        better=q.better,
        unit=unit,
        dropped=m.dropped,
        failed=m.failed,
        declared=q.declared,
        metric=q.metric,
        quantity=quantity(q.metric),
        names=m.names,
        context=m.context,
        scope=m.scope,
        medians=m.medians,
        hosts=m.hosts,
        estimand=estimand,
        question=q.question,
        threshold=q.threshold,
        design=design,
    )


def _least(m: Measured, alpha: float, family: int, design: Design) -> int:
    """Fewest rounds (deployments, runs per side) with which a verdict is possible."""
    if len(m.unknown) > 1:
        return 2
    need = rounds_required(alpha, family)
    if design == "sequential":
        while nominal_level(need, alpha / family) < 2.0 ** (1 - need):
            need += 1
    return need


def _failures(m: Measured) -> list[str]:
    """What failed, on which side, and whether the sides differ in it."""
    found = []
    a, b = m.failed
    if a or b:
        n = m.scheduled
        text = f"failed, missing or repeated: {m.names[0]} in {a} of {plural(n, 'round')}"
        if m.b is not None:
            text += f", {m.names[1]} in {b}"
            p = _fisher(a, b, n)
            if p < 0.05:
                text += f": the sides differ in how often they fail (p = {p:.2g})"
        found.append(text)
    if unknown := sum(m.unknown.values()):
        found.append(f"{plural(unknown, 'round')} of {m.scheduled} without a run on either side")
    if m.dropped > unknown:  # else it is said above
        found.append(f"{plural(m.dropped, 'round')} of {m.scheduled} dropped: a value is missing")
    return found


def _fisher(a: int, b: int, n: int) -> float:
    """Fisher's exact two-sided p for a of n against b of n."""
    total = math.comb(2 * n, a + b)
    chances = [math.comb(n, k) * math.comb(n, a + b - k) / total for k in range(max(0, a + b - n), min(n, a + b) + 1)]
    here = math.comb(n, a) * math.comb(n, b) / total
    return min(1.0, sum(c for c in chances if c <= here * (1 + 1e-9)))


def _unseen(m: Measured, placings: int) -> tuple[str, int] | None:
    """Why equivalence over placings cannot be claimed, and how many more deployments it takes."""
    if len(m.unknown) < 2 or not m.moved:
        return None
    y = np.array([Rounds(m.d[m.unit == u]).middle for u in np.unique(m.unit)])
    far = np.abs(y - np.median(y)) > FAR_PLACING
    if far.any():
        return f"{plural(int(far.sum()), m.unit_name)} of {y.size} landed far from the rest", 0
    if placings < PLACINGS:
        each = max(1, round(placings / y.size))
        more = math.ceil((PLACINGS - placings) / each)
        reason = (
            f"these {y.size} {m.unit_name}s agree within the margin, but one placing in ten that lands far from the "
            f"others would be missed in {percent(0.9**placings)} of such experiments ({more} more {m.unit_name}s)"
        )
        return reason, more
    return None


def _basis(m: Measured, trust: Trust, design: Design) -> tuple[str, str, tuple[str, ...]]:
    """Method, what is estimated, and what is assumed."""
    looks = ", valid at every look" if design == "sequential" else ""
    assumed: tuple[str, ...]
    over = f"geometric mean over {m.unit_name}s of the " if len(m.unknown) > 1 else ""
    if m.unblocked is not None:
        method = f"unblocked, {'Welch over deployments' if m.unit_means else 'Mann-Whitney shift'}"
        what = "typical ratio of a run of A to a run of B"
        assumed = ("runs are independent", "both distributions have the same shape", "nothing drifted between them")
        return method + looks, over + what, assumed
    what = "typical value of a round relative to the threshold" if m.b is None else "typical ratio within a round"
    if over:
        assumed = (
            f"each {m.unit_name} is an independent draw of where VMs land",
            f"{m.unit_name} means are near normal",
        )
        return f"paired by {m.unit_name}, Student's t over them{looks}", over + what, assumed
    exact = "exact " if trust.factor == 1 and not trust.reach and not trust.states and not looks else ""
    assumed = ("rounds are independent blocks", "log ratios are symmetrically distributed", HOURS)
    return f"paired by round, Hodges-Lehmann, {exact}signed rank{looks}", what, assumed


def compare_samples(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    margin: float = 0.05,
    alpha: float = 0.05,
    family: int = 1,
    better: Better | None = "higher",
    paired: bool = True,
    **about: Unpack[About],
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
        Share of families that may hold a false verdict.
    family : int, default 1
        Number of contrasts that share `alpha` (Bonferroni).
    better : {"higher", "lower"} or None
        Which direction is good; None: neither, so a difference gets no verdict.
    paired : bool, default True
        False: the values were not measured in common rounds. Any drift between the two sides is then part of the
        difference, and the result says so.
    **about
        For the words: `declared` (False: exploratory, an interval but no verdict), `metric`,
        `quantity`, `names`, `context`, `scope`; see `Comparison`.

    Raises
    ------
    StatsError
        Sides of different length, values that are not numbers, or an option out of range.

    Notes
    -----
    Does what `judge` does for one deployment, but cannot know what only a table shows: which runs failed, what ran
    before.

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
        raise StatsError(f"family must be the number of contrasts that share alpha, 1 or more; got {family!r}")
    if better not in ("higher", "lower", None):
        raise StatsError(f"better must be 'higher', 'lower' or None; got {better!r}")
    x, y = numbers(a, "a"), numbers(b, "b")
    if paired and x.size != y.size:
        raise StatsError(
            f"a holds {plural(x.size, 'value')} and b {y.size}: paired values belong to the same rounds; "
            "give both in round order with NaN where a round is missing, or pass paired=False"
        )
    if not paired:
        x, y = x[np.isfinite(x)], y[np.isfinite(y)]
    import pandas as pd

    values = np.concatenate([x, y])
    if not values.size:
        values, x = np.array([np.nan]), np.array([np.nan])
    runs = pd.DataFrame(
        {
            "round": np.concatenate([np.arange(x.size), np.arange(y.size)]),
            "side": ["a"] * x.size + ["b"] * y.size,
            "value": values,
            "status": np.where(np.isfinite(values), "ok", "failed"),
        }
    )
    asked = {
        "metric": "value",
        "a": {"side": "a"},
        "b": {"side": "b"},
        "margin": margin,
        "better": better or "neither",
        "declared": about.get("declared", True),
    }
    # Bonferroni: the share of this contrast alone
    [c] = judge(runs, [asked], alpha=alpha / family, paired=paired)
    shared = f" for a family of {family} contrasts" if family > 1 else ""
    reason = c.reason.replace(" are needed (", f" are needed{shared} (") if shared else c.reason
    given: dict[str, Any] = {"names": ("A", "B"), "metric": "", "quantity": "value", "scope": "", **about}
    return dataclasses.replace(c, alpha=alpha, family=int(family), reason=reason, **given)


def compare(
    runs: pd.DataFrame,
    metric: str | None = None,
    *,
    margin: float | None = None,
    contrasts: Iterable[Contrast | Question | Mapping[str, Any]] | None = None,
    where: Factors | None = None,
    alpha: float | None = None,
    paired: bool = True,
    looked: bool | None = None,
) -> Family:
    """Judge contrasts of an experiment.

    Without `contrasts`, those that the experiment declared are judged (those of `metric`, if given). Every declared
    contrast of the experiment, shown or not, shares `alpha`; a contrast that was not declared is exploratory.

    Parameters
    ----------
    runs : DataFrame, or the result of `read`
        The table of runs, as `load` returns it; the declared experiment is in ``runs.attrs["experiment"]``.
    metric : str, optional
        Only contrasts of this metric.
    margin : float, optional
        Margin of all contrasts; default: as declared.
    contrasts : iterable of Contrast or dict, optional
        Contrasts to judge instead. Where the experiment declares none, these are taken as its declaration.
    where : dict, optional
        Factors and levels that both sides share.
    alpha : float, optional
        Share of reports that may hold a false verdict; default: as the experiment declares, else 0.05.
    paired : bool, default True
        False for runs that were not measured in rounds; labelled "unblocked".
    looked : bool, optional
        True: rounds were added while looking at the results (the sequential design). Default:
        ``runs.attrs["looked"]``, else the column ``design``, else False.

    Raises
    ------
    StatsError
        No such column, nothing to compare, or a table without runs.

    See Also
    --------
    judge : The function that this one calls.
    """
    runs = getattr(runs, "runs", runs)
    RunsTable(runs)  # refuses anything else
    experiment: Mapping[str, Any] = runs.attrs.get("experiment") or {}
    declared = [question(c) for c in experiment.get("contrasts") or ()]
    alpha = alpha if alpha is not None else float(experiment.get("alpha") or 0.05)
    looked = runs.attrs.get("looked") if looked is None else looked
    design: Design | None = "sequential" if looked or experiment.get("design") == "sequential" else None
    warnings: list[str] = []
    if contrasts is not None:
        chosen = [question(c) for c in contrasts]
        if not declared and (declared := [q for q in chosen if q.declared]):
            warnings.append("the contrasts were named with the analysis, not declared with the experiment")
    else:
        chosen = [q for q in declared if metric is None or q.metric == metric]
        if not chosen:
            known = ", ".join(sorted({q.metric for q in declared})) or "none"
            of = f" of {metric}" if metric else ""
            raise StatsError(f"the experiment declares no contrast{of} (declared: {known}); name a factor to compare")
    wanted = {q.key: q for q in declared}
    extra = []
    shown = []
    for q in chosen:
        q = q.within(dict(where or {}))
        twin = wanted.get(q.key)
        size = twin.margin if twin is not None and margin is None else margin if margin is not None else q.margin
        # another margin is another question
        is_declared = twin is not None and math.isclose(size, twin.margin)
        q = dataclasses.replace(q, margin=size, declared=is_declared)
        if is_declared:
            wanted[q.key] = q  # asked in this direction
        else:
            extra.append(q)
        shown.append(q)
    every = [*wanted.values(), *extra]
    imported = (experiment.get("hosts") or {}).get("source") == "imported"  # no rounds were planned
    rounds = None if imported else experiment.get("rounds")
    made = judge(runs, every, alpha=alpha, design=design, rounds=rounds, paired=paired)
    place = {id(q): i for i, q in enumerate(every)}
    claims = runs.attrs.get("failed_claims") or ()
    return dataclasses.replace(
        made,
        comparisons=tuple(_with_claims(made[place[id(q)]], claims) for q in shown),
        declared=len(wanted),
        experiment=str(experiment.get("name") or ""),
        warnings=(*warnings, *made.warnings),
        notice=runs.attrs.get("notice"),
    )


def _with_claims(c: Comparison, claims: Iterable[Mapping[str, Any]]) -> Comparison:
    """Warn if claims about the hosts of a contrast turned out false: the verdict rests on them."""
    about = [claim for claim in claims if claim["host"] is None or claim["host"] in c.hosts]
    found = {str(claim["claim"]): claim.get("evidence") for claim in about}
    if not found:
        return c
    if len(found) == 1:
        (claim, evidence), *_ = found.items()
        told = f"it rests on a claim that does not hold: {claim}" + (f" ({evidence})" if evidence else "")
    else:
        told = f"it rests on {len(found)} claims that do not hold: {'; '.join(found)}"
    return dataclasses.replace(c, warnings=(told, *c.warnings))
