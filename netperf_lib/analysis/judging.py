"""The one door to verdicts: questions on what was observed, or a plain table, to a family."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError

from ..errors import UsageError
from ..experiment.factors import factor, level_words
from ..experiment.model import Margin
from ..metrics import ALPHA, format_value, plural
from .limits import of_conditions
from .observe import PAIRS, Observations
from .runs import (
    ENDS,
    HOSTS,
    MEASUREMENT,
    ROWS_ALONE,
    UNIT,
    Measurement,
    status_counts,
    varying,
    warned,
)
from .verdicts import (
    Comparison,
    Family,
    Judged,
    Question,
    Sample,
    Verdict,
    judge_samples,
    share_no_round,
)
from .words import SEVERAL, condition_names, levels_text, unit_of, value_words

PLACE = {"placement", "client_region", "server_region", *PAIRS}
"""Factors that describe where the VMs landed."""
HARDWARE = {"client_cpu", "server_cpu", "nic_driver", "server_nic_driver"}
"""What VMs of one size may land on."""
NOTICEABLE = 0.01
"""Share of lost datagrams from which on a throughput is not shown without it."""
HARDLY = 1.005
"""A ratio that three written digits do not show."""
ALIKE = 0.01
"""p below which neighbouring rounds resemble each other."""
THESE = "for these VMs"
"""What the statements of one deployment apply to."""
QUOTIENT = (
    "the ratio is the typical one of common rounds, and not the quotient of the two medians, "
    "which are of all runs"
)
NEIGHBOURS = (
    "neighbouring rounds resemble each other: another hour may differ from those measured"
)
UNPAIRED = (
    "unpaired: any drift between the two sides' measurements is part of the difference"
)

# -- from questions to samples ---------------------------------------------------------------------


def judge_questions(
    questions: Sequence[Question],
    source: Measurement,
    samples: Sequence[Sample] = (),
    *,
    alpha: float = ALPHA,
    sequential: bool = False,
) -> Family:
    """Judge questions as one family: the declared ones share `alpha`, each other stands alone.

    Rows of an experiment that declared its contrasts get none of its verdicts. What limits a
    throughput is told beside a verdict, and no verdict rests on it. The `samples` are those of a
    plain table; by default they are what was observed.
    """
    notes: tuple[str, ...] = ()
    if source.exploratory:
        questions = [replace(q, declared=False) for q in questions]
        notes = (ROWS_ALONE,)
    samples = samples or list(map(sample_of, questions))
    judged = judge_samples(samples, alpha=alpha, sequential=sequential)
    causes: dict[Observations, Mapping[Any, str]] = {}
    comparisons, declared = [], 0
    for q, s, found in zip(questions, samples, judged, strict=True):
        limited_by = "", ""
        if q.obs is not None:
            if q.obs not in causes:
                causes[q.obs] = of_conditions(q.obs)["cause"].to_dict()
            known = causes[q.obs]
            limited_by = known.get(q.a, ""), known.get(q.b, "")
        names, context = names_of(q)
        c = Comparison(
            **vars(found),
            question=q,
            metric=q.metric,
            factor=q.factor,
            names=names,
            context=context,
            margin=s.margin,
            better=s.better,
            threshold=q.threshold,
            declared=s.declared,
            medians=_medians(q, s, found),
            limited_by=limited_by,
        )
        warnings = tuple(warnings_of(c))
        comparisons.append(replace(c, scope=scope_of(c), warnings=warnings))
        # a plain table declares what it holds
        declared += s.declared and (q.contrast is not None or q.obs is None)
    ok, failed, excluded = status_counts(source.runs)
    return Family(
        comparisons=tuple(comparisons),
        alpha=alpha,
        declared=declared,
        ok=ok,
        failed=failed,
        excluded=excluded,
        experiment=source.name,
        warnings=notes,
        notice=source.origin.notice,
    )


def _medians(q: Question, s: Sample, found: Judged) -> tuple[float, float]:
    """Return the levels of A and of B, NaN where there is none: as every table gives them."""
    a = b = math.nan
    if q.obs is None:
        a, b = (float(pd.Series(side[np.isfinite(side)]).median()) for side in (s.a, s.b))
    elif 0 not in found.runs[: len(q.conditions)]:
        a = q.obs.value(q.a)
        if q.threshold is None:
            b = q.obs.value(q.b)
    return a, b


def sample_of(q: Question) -> Sample:
    """Return what both sides of a question gave in each round."""
    a = b = np.zeros(0)
    replicate = np.zeros(0, dtype=np.intp)
    refusal = f"no complete run has a value of {q.metric}"
    if q.obs is not None:
        refusal = ""
        value, due = q.obs.rounds
        replicate = value.index.get_level_values("replicate").to_numpy(np.intp)
        a, b = value[q.a].to_numpy(), value[q.b].to_numpy()
        due_a, due_b = due[q.a].to_numpy(), due[q.b].to_numpy()
        # a threshold is the other side of each round that has a run
        if q.threshold is not None:
            b, due_b = np.where(np.isnan(a), np.nan, q.threshold), due_a
        used = due_a & due_b
        if share_no_round(a, b):
            # rounds that only one side has are of use then
            used = due_a | due_b
        a, b, replicate = a[used], b[used], replicate[used]
    for number, side in enumerate((a, b)):
        if not refusal and not np.isfinite(side).any():
            names, _ = names_of(q)
            refusal = f"no run of {names[number]} has a value of {q.metric}"
    return Sample(
        a=a,
        b=b,
        replicate=replicate,
        margin=q.margin,
        better=q.better,
        to_threshold=q.threshold is not None,
        moved=not refusal and is_moved(q),
        declared=q.declared,
        refusal=refusal,
    )


# -- what the sides are called ---------------------------------------------------------------------


def names_of(q: Question) -> tuple[tuple[str, str], str]:
    """Return the names of both sides, from what differs between them, and what they share."""
    obs = q.obs
    if obs is None and q.contrast is None:
        return (q.a, q.b), ""
    if obs is None or not all(q.conditions):
        names = [levels_text(side) or "all" for side in q.sides]
        return _both(q, names), ""
    facts = obs.facts.loc[q.conditions]
    named = list(dict.fromkeys(name for side in q.sides for name in side))
    differ = {*named}
    if q.threshold is None:
        differ = set(varying(facts, named))
    for pair in ENDS:
        if not differ.isdisjoint(pair):  # a path has one name: "zone 1 → 2"
            differ.update(pair)
    own = [name for name in named if name in differ]
    # what all conditions have in common goes without saying
    shared = [name for name in named if name in obs.apart and name not in differ]
    context = ""
    if q.contrast is not None:
        context = levels_text({name: obs.at(q.a, name) for name in shared})
    elif shared or MEASUREMENT in differ:
        # nobody named these levels, so ordinary ones go unsaid
        context = obs.called(shared)[q.a]
    if own == [MEASUREMENT]:
        return _both(q, list(facts[MEASUREMENT])), context
    if own and {*own} <= {*HOSTS}:
        own = _known_ends(facts) or own
    return _both(q, condition_names(facts, own, obs.varying)), context


def _known_ends(facts: pd.DataFrame) -> list[str]:
    """Return the two ends by which paths are told apart: zones say more than hosts."""
    for path in (["client_zone", "server_zone"], list(HOSTS)):
        if {*path} <= {*facts} and facts[path].notna().all(axis=None):
            return path
    return []


def _both(q: Question, names: list[str]) -> tuple[str, str]:
    """Return the names of two sides, or of one and its threshold."""
    if q.threshold is None:
        return names[0], names[1]
    word = "below" if q.better == "lower" else "at least"
    return names[0], f"{word} {value_words(q.threshold, unit_of(q.metric))}"


# -- what to know before relying on a comparison ---------------------------------------------------


def is_moved(q: Question) -> bool:
    """Return whether the sides were measured on different VMs."""
    obs = q.obs
    if obs is None or q.threshold is not None or MEASUREMENT in obs.by:
        return False
    return bool(q.differ & PLACE) or obs.hosts.get(q.a) != obs.hosts.get(q.b)


def scope_of(c: Comparison) -> str:
    """Return what the statement applies to."""
    obs = c.question.obs
    if c.deployments > 1:
        return f"over {c.deployments} deployments"
    if obs is None or MEASUREMENT in obs.by:
        return ""
    # without hosts or a deployment nobody knows what was measured
    known = obs.table[UNIT].notna().any(axis=None) or any(obs.hosts.values())
    return THESE if known else ""


def warnings_of(c: Comparison) -> list[str]:
    """Return what to know before relying on a comparison."""
    q = c.question
    obs = q.obs
    told = []
    if obs is not None:
        told += _of_runs(c, obs)
        if MEASUREMENT in obs.by:
            # between two measurements everything may have changed, and the family says so once
            return told + _of_rounds(c)
        told = _false_claims(q, obs) + told
        measured = all(name and obs.value(name, "n") > 0 for name in q.conditions)
        if q.threshold is None and measured:
            told += _confounded(q, obs)
            told += _not_switched(q, obs)
    return told + _of_rounds(c) + _of_result(c)


def _false_claims(q: Question, obs: Observations) -> list[str]:
    """Warn of claims about the hosts that turned out false: a verdict rests on them."""
    # a claim without a host is about all of them
    hosts: set[str | None] = {None}
    for condition in q.conditions:
        hosts |= obs.hosts.get(condition, set())
    proofs: dict[Any, str] = {}
    for claim in obs.origin.failed_claims:
        if claim["host"] in hosts:
            text = f"it rests on a claim that does not hold: {claim['claim']}"
            if claim.get("evidence"):
                text += f" ({claim['evidence']})"
            proofs[claim["claim"]] = text
    return list(proofs.values())


def _of_runs(c: Comparison, obs: Observations) -> list[str]:
    """Warn of a side that lost datagrams, and count the runs that carry a warning."""
    lost, counted = [], []
    for name, condition in zip(c.names, c.question.conditions, strict=False):
        if obs.unit == "bps" and (share := lost_share(obs, condition)) > NOTICEABLE:
            lost.append(f"{name} lost {format_value(share, 'ratio')} of its datagrams")
        rows = obs.runs["condition"] == condition
        words = warned(obs.runs[["warnings"]][rows], name)
        if words:
            counted.append(words)
    return lost + counted


def lost_share(obs: Observations, condition: str) -> float:
    """Return the median share of datagrams that runs of a condition lost; 0: none was counted."""
    rows = obs.runs["condition"] == condition
    shares = obs.runs.loc[rows, "lost_ratio"].dropna()
    return float(shares.median()) if len(shares) else 0.0


def _confounded(q: Question, obs: Observations) -> list[str]:
    """Warn about what the sides differ in besides what makes them two."""
    differ = q.differ
    # other hosts go without saying, and so does another place where places are compared
    implied = {*HOSTS}.union(*q.sides)
    if differ & PLACE:
        implied |= PLACE
    told = []
    for name in obs.apart:
        if name in implied or differ & {*factor(name).follows}:
            continue
        one, two = obs.at(q.a, name), obs.at(q.b, name)
        apart = one != two
        levels = f"{level_words(name, one)} and {level_words(name, two)}"
        if SEVERAL in (one, two):
            # hardware that some runs had is another explanation, if it was not that of both sides
            held = obs.runs.groupby("condition")[name].unique()
            apart = name in HARDWARE and {*held[q.a]} != {*held[q.b]}
            levels = "in some runs"
        if apart:
            what = f"the sides also differ in {factor(name).label or name} ({levels})"
            told.append(f"{what}: the difference may be due to that")
    return told


def _not_switched(q: Question, obs: Observations) -> list[str]:
    """Warn where the virtual function of accelerated networking does not differ with it."""
    up, other = obs.at(q.a, "vf_up"), obs.at(q.b, "vf_up")
    if "accelerated" not in q.differ or up != other or up in (None, SEVERAL):
        return []
    had = "both had a" if up else "both had no"
    text = f"the sides differ in accelerated networking, but {had} virtual function"
    return [f"{text}: it was not switched"]


def _of_rounds(c: Comparison) -> list[str]:
    """Return how many rounds failed, and how many have no run."""
    told = []
    failed_a, failed_b = c.failed
    if failed_a or failed_b:
        rounds = plural(c.rounds, "round")
        text = f"failed, missing or repeated: {c.names[0]} in {failed_a} of {rounds}"
        if c.threshold is None:
            text += f", {c.names[1]} in {failed_b}"
        told.append(text)
    if c.absent:
        absent = plural(c.absent, "round")
        told.append(f"{absent} of {c.rounds} without a run on either side")
    return told


def _of_result(c: Comparison) -> list[str]:
    """Return what the interval does not allow for, and what the ratio is not."""
    told = []
    if not c.paired:
        told.append(UNPAIRED)
    elif c.neighbours_p < ALIKE / c.family:
        told.append(NEIGHBOURS)
    # who divides the two medians on the page should not be surprised
    if c.threshold is None and min(c.medians) > 0:
        quotient = c.medians[0] / c.medians[1]
        if not c.low / HARDLY <= quotient <= c.high * HARDLY:
            told.append(QUOTIENT)
    return told


# -- a plain table, and an experiment that is still running ----------------------------------------


def judge(
    wide: pd.DataFrame,
    *,
    baseline: Hashable,
    better: Literal["lower", "higher"],
    margin: float | str = 0.1,
    alpha: float = ALPHA,
) -> Family:
    """Judge each condition of a plain table against a baseline, as one family.

    Parameters
    ----------
    wide : DataFrame
        A row is a round, a column a condition, as `Observations.wide` has them. The index is the
        round, or the deployment and the round: several deployments are the replicates. NaN: there
        is no run; infinity: it failed. What `observe` returned is taken as its ``wide``.
    baseline : hashable
        The column that the others are compared with.
    better : {"lower", "higher"}
        Which direction is good.
    margin : float or str, default 0.1
        Ratios within 1/(1 + margin) … 1 + margin are equivalent; also a percentage, as "5 %".
    alpha : float, default 0.05
        Share of tables that may contain a false verdict.

    Returns
    -------
    Family
        A `Comparison` for each other column, in their order; what `compare` gives for the same
        values.

    Raises
    ------
    UsageError
        There is no such column, or nothing to compare it with.

    Examples
    --------
    >>> wide = npl.observe(exp, "latency_oneway_p99_us").wide
    >>> family = npl.judge(wide, baseline=wide.columns[0], better="lower")
    >>> len(family) == len(wide.columns) - 1
    True
    """
    wide = getattr(wide, "wide", wide)
    if not isinstance(wide, pd.DataFrame):
        raise UsageError(
            "judge takes a table, rounds down and conditions across, as observe(…).wide or "
            f"pandas.DataFrame(…); got {type(wide).__name__}"
        )
    if better not in ("lower", "higher"):
        raise UsageError(f"better is 'lower' or 'higher'; got {better!r}")
    if baseline not in wide.columns:
        columns = ", ".join(map(str, wide.columns))
        raise UsageError(
            f"the table has no column {baseline!r}, the baseline; it has {columns}"
        )
    others = [name for name in wide.columns if name != baseline]
    if not others or not wide.columns.is_unique:
        raise UsageError(
            "the table needs a column for each condition, and two or more of them"
        )
    share = read_margin(margin)
    wide = wide.sort_index().astype(float)
    replicate = np.zeros(len(wide), dtype=np.intp)
    if wide.index.nlevels > 1:
        deployments = list(range(wide.index.nlevels - 1))
        replicate = np.array(wide.groupby(level=deployments).ngroup())
    b = wide[baseline].to_numpy()
    samples, names = [], []
    for name in others:
        a = wide[name].to_numpy()
        samples.append(Sample(a=a, b=b, replicate=replicate, margin=share, better=better))
        names.append((str(name), str(baseline)))
    return family_of(samples, names, alpha=alpha)


def family_of(
    samples: Sequence[Sample],
    names: Iterable[tuple[str, str]],
    *,
    alpha: float = ALPHA,
) -> Family:
    """Return the family of samples of which nothing is known but the names of A and B."""
    questions = [Question(obs=None, a=a, b=b) for a, b in names]
    nothing = Measurement(pd.DataFrame(columns=["excluded", "status"]), ())
    return judge_questions(questions, nothing, samples, alpha=alpha)


def read_margin(margin: Any) -> float:
    """Return a share, or a percentage as text; raises UsageError for anything else."""
    try:
        return float(TypeAdapter(Margin).validate_python(margin))
    except ValidationError:
        raise UsageError(
            f"margin {margin!r}: write a share above 0 and below 1, for example 0.05 or '5 %'"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimAnalysis:
    """Whether a running experiment may stop.

    Attributes
    ----------
    stop : bool
        Every contrast is settled or futile, or no rounds are left.
    words : str
        The decision in a sentence.
    more_rounds : int
        About how many more rounds will settle all open contrasts; at most the rounds left.
    """

    stop: bool
    words: str
    more_rounds: int


def until_decided(family: Family, *, rounds_left: int) -> InterimAnalysis:
    """Decide after a round whether to continue measuring.

    Parameters
    ----------
    family : Family
        The contrasts, judged from all runs so far with the sequential design: looking costs
        nothing, and the number of looks need not be known.
    rounds_left : int
        Rounds (for several deployments: deployments) that the budget still allows.

    Examples
    --------
    >>> import pandas as pd
    >>> near, far = [[level + i for i in range(12)] for level in (50.0, 90.0)]
    >>> runs = {"round": range(12), "near": near, "far": far}
    >>> wide = pd.DataFrame(runs).set_index("round")
    >>> family = npl.judge(wide, baseline="far", better="lower")
    >>> npl.analysis.until_decided(family, rounds_left=3).words
    'stop: 1 of 1 contrast settled'
    """
    settled, futile, rounds = 0, 0, 0
    for c in family:
        hopeless = c.verdict == Verdict.NONE and c.n > 0 and not c.more_rounds
        if c.settled:
            settled += 1
        elif hopeless or c.more_rounds > rounds_left:
            # one that the rounds left will not settle is not waited for
            futile += 1
        else:
            rounds = max(rounds, c.more_rounds, 1)
    state = f"{settled} of {plural(len(family), 'contrast')} settled"
    if futile:
        state += f", {futile} that the remaining rounds will not settle"
    rounds = min(rounds, max(rounds_left, 0))
    if not rounds:
        return InterimAnalysis(stop=True, words=f"stop: {state}", more_rounds=0)
    words_ = f"continue: {state}; about {plural(rounds, 'more round')}"
    return InterimAnalysis(stop=False, words=words_, more_rounds=rounds)
