"""From the table of runs to verdicts: one function that reports, plans, stopping rules and validation all call."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import StatsError
from ..experiment.model import Contrast
from ..metrics import ALPHA, plural
from .comparison import Comparison, Family
from .contrasts import Question, question
from .result import check_share
from .runs_table import Factors, Mask, RunsTable
from .samples import Design, judge_samples
from .sides import Sides, sample

if TYPE_CHECKING:
    import pandas as pd


def judge(
    runs: pd.DataFrame,
    contrasts: Iterable[Contrast | Question | Mapping[str, Any]],
    *,
    alpha: float = ALPHA,
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
    Makes a `Sample` of each contrast and calls `judge_samples`. Rounds of different deployments or experiments are
    never merged.
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
    return judge_samples(
        [sample(sides, q, paired) for q in asked],
        alpha=alpha,
        design=design,
        ok=int(table.ok.sum()),
        failed=int(table.failed.sum()),
        excluded=int(table.excluded.sum()),
        warnings=tuple(warnings),
    )


def _beyond_plan(table: RunsTable, rounds: int) -> Mask:
    """Runs of rounds beyond the first `rounds` of their deployment."""
    blocks, first = np.unique(table.block, return_index=True)
    deployment = table.deployment[first]
    rank = np.concatenate([np.arange((deployment == d).sum()) for d in np.unique(deployment)])
    return np.asarray(np.isin(table.block, blocks[rank >= rounds]))


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
    alpha = alpha if alpha is not None else float(experiment.get("alpha") or ALPHA)
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
