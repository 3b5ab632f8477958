"""Verdicts: the two sides of a question, their sample, and what a family of them shows.

A question names two conditions, or one and a threshold. Its sample is what both gave in each round.
`judge_samples` decides samples together: numbers alone. How they come about is in `judging`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..errors import NetperfError
from ..experiment.contrasts import threshold
from ..experiment.model import Contrast
from ..metrics import ALPHA, MARGIN, METRICS, Better, plural
from . import words
from .intervals import (
    ABOVE,
    EQUIVALENT,
    LONG_SERIES,
    OPEN,
    Decision,
    Deployments,
    Estimate,
    Floats,
    Median,
    Rounds,
    Unpaired,
    check_share,
    decide,
    more_observations,
    neighbours_p,
    observations_needed,
)
from .runs import MEASUREMENT, OF_ENDS, PAIR, Levels

if TYPE_CHECKING:
    from .observe import Observations

Replicates: TypeAlias = npt.NDArray[np.intp]

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
DOUBTFUL = "the verdict does not hold when the failures beyond chance are ranked worst"

OF_DEPLOYMENTS = (
    "each deployment is an independent draw of where VMs land, and their means are near "
    "normal"
)
OF_RUNS = (
    "runs are independent, of distributions of one shape, and nothing drifted between"
)
"""What must hold for a statement to hold."""


class Verdict(StrEnum):
    """The verdict on A against B, or on A against a threshold (better: the threshold is met).

    Exploratory: outside the family of the report, with an estimate and its interval but no verdict.
    """

    BETTER = "better"
    WORSE = "worse"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    EXPLORATORY = "exploratory"
    NONE = "no verdict"


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is asked: how a condition compares with another one, or with a threshold.

    Attributes
    ----------
    obs : Observations or None
        None: no complete run has a value, or the conditions are those of a plain table.
    a, b : str
        Names of the conditions; empty where none was observed, or for a threshold.
    margin : float
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    factor : str
        The factor whose levels A and B are; empty for a threshold, and where they differ in
        several.
    contrast : Contrast or None
        What was declared; None: the conditions are compared as they are.
    declared : bool
        Whether it shares the error of the report; another one is exploratory.
    """

    obs: Observations | None
    a: str
    b: str = ""
    margin: float = MARGIN
    factor: str = ""
    contrast: Contrast | None = None
    declared: bool = True

    @property
    def metric(self) -> str:
        """What is compared; empty for a plain table."""
        if self.contrast is not None:
            return self.contrast.metric
        return self.obs.metric if self.obs is not None else ""

    @cached_property
    def threshold(self) -> float | None:
        """What A is compared with instead of B, in the unit of the metric."""
        c = self.contrast
        return threshold(c) if c is not None and c.b is None else None

    @property
    def better(self) -> Better | None:
        """Which direction is good; None: neither, so a difference gets no verdict."""
        if self.threshold is None or self.contrast is None:
            return METRICS[self.metric].better
        return "higher" if self.contrast.below is None else "lower"

    @property
    def conditions(self) -> list[str]:
        """The conditions that are compared."""
        return [self.a, self.b] if self.threshold is None else [self.a]

    @property
    def sides(self) -> list[Levels]:
        """The levels that make the sides what they are."""
        if self.contrast is not None:
            return sides_of(self.contrast)
        assert self.obs is not None
        return list(map(self.obs.side, self.conditions))

    def as_contrast(self) -> Contrast:
        """Return the contrast that names exactly these conditions."""
        if self.contrast is not None:
            return self.contrast
        assert self.obs is not None
        a, b = ({**side, **self.obs.where} for side in self.sides)
        return Contrast(metric=self.metric, a=a, b=b, margin=self.margin)

    @property
    def differ(self) -> set[str]:
        """The factors that make two sides of them; against a threshold all that are named."""
        return differing(self.sides)


def sides_of(c: Contrast) -> list[Levels]:
    """Return the levels that a contrast names: of both sides, or of one and no threshold."""
    return [c.a] if c.b is None else [c.a, c.b]


def differing(sides: Sequence[Levels]) -> set[str]:
    """Return the factors in which two sides differ, of one side all of its factors."""
    if len(sides) < 2:
        return {*sides[0]}
    a, b = sides
    return {name for name in {*a, *b} if a.get(name) != b.get(name)}


def factor_of(c: Contrast) -> str:
    """Return the factor in which the sides of a contrast differ, the two ends being one, ``pair``.

    Empty for a threshold, and where they differ in several besides the placement.
    """
    if c.b is None:
        return ""
    names = differing(sides_of(c))
    if "placement" in names:
        return "placement"
    others = names - OF_ENDS
    if names and not others:
        return PAIR
    return others.pop() if len(others) == 1 else ""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What both sides gave: a value per round, in time order.

    Sides without a common round are judged as unpaired.

    Attributes
    ----------
    a, b : ndarray, shape (rounds,)
        NaN: no run; infinity: it failed or had to be repeated. Instead of B the threshold, where A
        has a run.
    replicate : ndarray of int, shape (rounds,)
        Deployment of each round: with several, these are the replicates.
    moved : bool
        Whether the sides were measured on different VMs, so that placement is in the difference.
    refusal : str
        Why there can be no verdict, if this is known in advance.
    """

    a: Floats
    b: Floats
    replicate: Replicates
    margin: float = MARGIN
    better: Better | None = "higher"
    to_threshold: bool = False
    moved: bool = False
    declared: bool = True
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What a result rests on: how much was measured, and what of it is of no use.

    Attributes
    ----------
    counted : str
        What counts as an observation: round, run, deployment, or part of a long series.
    deployments, rounds : int
        Those with either side.
    failed : tuple of int
        Rounds in which A failed (or had to be repeated), and B.
    absent : int
        Rounds without a run on either side.
    runs : tuple of int
        How many values A and B have.
    paired : bool
        Whether the sides have common rounds; if not, drift between them is in the difference.
    """

    counted: str
    deployments: int
    rounds: int
    failed: tuple[int, int]
    absent: int
    runs: tuple[int, int]
    paired: bool = True


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The log ratios of a sample, and what they rest on.

    Attributes
    ----------
    measured : Estimate or None
        None: there is nothing to estimate, for the reason `refusal`.
    ranked : sequence of Estimate
        With what is unknown beyond chance ranked high, and ranked low; empty where nothing is.
    """

    sample: Sample
    counts: Counts
    measured: Estimate | None = None
    ranked: Sequence[Estimate] = ()
    refusal: str = ""


@dataclass(frozen=True, kw_only=True)
class Judged(Counts):
    """What a sample shows, in numbers.

    Attributes
    ----------
    verdict : Verdict
        A against B; `better` and `worse` are the user's view (less latency is better).
    ratio, low, high : float
        A divided by B (or by the threshold), and its interval; NaN, 0 and infinity if there is
        none. Values of zero are judged by their rank: the ratio is then 0 or infinity. For an
        equivalence it is the interval of the two one-sided tests, inside the margin.
    n : int
        Independent observations; never seconds or packets.
    confidence : float
        Actual confidence of the interval, which may differ from the one requested.
    family : int
        Comparisons that shared the error when this one was decided.
    reason : str
        Why there is no clear verdict; may be empty.
    more_rounds : int
        About how many more of `counted` would settle it; 0 if more of them would not help.
    neighbours_p : float
        Of neighbouring observations that resemble each other.
    sequential : bool
        Whether the interval holds at all looks together.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    n: int
    confidence: float
    family: int = 1
    reason: str = ""
    more_rounds: int = 0
    neighbours_p: float = 1.0
    sequential: bool = False

    @property
    def settled(self) -> bool:
        """Whether there is a clear verdict."""
        return self.verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT)


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Judged):
    """The result for A against B, or against a threshold: what was found, and what it is about.

    Attributes
    ----------
    question : Question
        What was asked.
    metric, factor : str
        As in `Question`.
    names : tuple of str
        Names of A and B in the sentence.
    context : str
        Levels that both sides share, for example "8 streams".
    scope : str
        What the statement applies to, for example "for these VMs".
    margin, better, threshold, declared
        As in `Question`.
    medians : tuple of float
        Level of A and of B, in the unit of the metric, over all their complete runs, also in rounds
        that only one side has; NaN if there are none.
    limited_by : tuple of str
        What limits the throughput of A and of B, in a word; empty where nobody asked.
    warnings : tuple of str
        What to know before relying on it.
    """

    question: Question = field(repr=False, compare=False)
    metric: str = ""
    factor: str = ""
    names: tuple[str, str] = ("A", "B")
    context: str = ""
    scope: str = ""
    margin: float = MARGIN
    better: Better | None = None
    threshold: float | None = None
    declared: bool = True
    medians: tuple[float, float] = (math.nan, math.nan)
    limited_by: tuple[str, str] = ("", "")
    warnings: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """A, B and the levels that they share: ``cross-zone / same-zone (16 streams)``."""
        label = " / ".join(self.names)
        if self.context:
            label += f" ({self.context})"
        return label

    @property
    def quantity(self) -> str:
        """The metric in a sentence."""
        return words.quantity(self.metric) or "value"

    @property
    def words(self) -> str:
        """The result in a sentence: what was found, its interval, the verdict, and what holds."""
        a, b = self.names
        unit = words.unit_of(self.metric)
        head = f"{a} against {b}: {self.quantity}"
        found = words.effect(self.ratio)
        interval = words.span(self.ratio, self.low, self.high)
        if self.threshold is not None:
            head = f"{a}: {self.quantity} {b}?"
            ends = np.array([self.ratio, self.low, self.high]) * self.threshold
            found, low, high = (words.value_words(value, unit) for value in ends)
            interval = f"{low} to {high}" if math.isfinite(self.high) else words.DASH
        elif self.ratio in (0, math.inf):  # one side is zero, and the ratio no size
            found = " and ".join(words.value_words(side, unit) for side in self.medians)
        if interval == words.DASH:
            interval = "no interval"
        text = f"{head} {found} ({interval}), {self.verdict}"
        if self.verdict == "equivalent":
            text += f" within {words.percent(self.margin)}"
        if self.context:
            text += f" ({self.context})"
        if self.scope:
            text += f", {self.scope}"
        if self.reason:
            text += f": {self.reason}"
        return text

    @property
    def topic(self) -> str:
        """Both sides, without what was found."""
        a, b = self.names
        if self.threshold is None:
            return f"{a} against {b}"
        return f"{a} ({self.quantity} {b})"

    @property
    def method(self) -> str:
        """Name of the method."""
        if self.counted == "run":
            name = "unpaired, Mann-Whitney shift"
        elif not self.paired:
            name = "unpaired, Welch over deployments"
        elif self.counted == "deployment":
            name = "paired by deployment, Student's t over them"
        elif self.threshold is not None:
            name = f"by {self.counted}, median, interpolated order statistics"
        elif self.sequential:
            name = f"paired by {self.counted}, Hodges-Lehmann, capped signed rank"
        else:
            name = f"paired by {self.counted}, Hodges-Lehmann, exact capped signed rank"
        if self.sequential:
            name += ", valid at every look"
        return name

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold for the statement to hold."""
        if self.counted == "deployment":
            return (OF_DEPLOYMENTS,)
        if not self.paired:
            return (OF_RUNS,)
        if self.threshold is not None:
            return ("the runs measure one level",)
        ratios = f"the ratios of the {self.counted}s"
        return (f"{ratios} scatter evenly around their median, on a log scale",)

    def __repr__(self) -> str:
        return "\n  ! ".join([self.words, *self.warnings])


SIDES = {
    "medians": ("median_a", "median_b"),
    "failed": ("failed_a", "failed_b"),
    "runs": ("runs_a", "runs_b"),
    "limited_by": ("limited_by_a", "limited_by_b"),
}
"""What a comparison has of A and of B, which are columns of their own in a table."""


@dataclass(frozen=True, repr=False)
class Family(Sequence[Comparison]):
    """Comparisons that were judged together, and the runs behind them.

    Attributes
    ----------
    comparisons : tuple of Comparison
    alpha : float
        Share of families that may contain a false verdict.
    declared : int
        Contrasts declared in the experiment; they share `alpha`.
    ok, failed, excluded : int
        Runs that were used, that failed or were cut short, and that were excluded for a recorded
        cause; 0 where there is no table of runs.
    experiment : str
        Its name.
    warnings : tuple of str
    notice : str or None
        A notice that every table made from these runs must show.
    """

    comparisons: tuple[Comparison, ...] = ()
    alpha: float = ALPHA
    declared: int = 0
    ok: int = 0
    failed: int = 0
    excluded: int = 0
    experiment: str = ""
    warnings: tuple[str, ...] = ()
    notice: str | None = None

    def __len__(self) -> int:
        return len(self.comparisons)

    def __getitem__(self, index: Any) -> Any:
        return self.comparisons[index]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts in the order of the contrasts."""
        return tuple(c.verdict for c in self)

    @property
    def decided(self) -> bool:
        """Whether the data allow a verdict on any comparison."""
        return not {*self.verdicts} <= {Verdict.NONE, Verdict.EXPLORATORY}

    @property
    def summary(self) -> str:
        """How many comparisons have each verdict, in words."""
        return words.verdict_counts(self.verdicts)

    @property
    def counts(self) -> str:
        """How many runs were used, in words; empty where there is no table of runs."""
        if not self.ok + self.failed + self.excluded:
            return ""
        runs = plural(self.ok, "run")
        return f"{runs} ok, {self.failed} failed, {self.excluded} excluded"

    @property
    def promise(self) -> str:
        """How many reports contain a false verdict; empty without a verdict."""
        if not any(c.settled for c in self):
            return ""
        if not all(c.paired for c in self):
            return "the sides share no rounds, so no share of false verdicts is promised"
        text = f"at most {words.percent(self.alpha)} of reports contain a false verdict"
        text += " about the hours measured"
        if self.declared:
            verb = "shares" if self.declared == 1 else "share"
            text += f" ({plural(self.declared, 'declared comparison')} {verb} it)"
        return text

    @property
    def note(self) -> str:
        """The note below the table."""
        return "; ".join(filter(None, [self.counts, self.promise, self.notice]))

    @property
    def notes(self) -> list[str]:
        """Every warning once, those of comparisons with the comparisons concerned."""
        labels: dict[str, list[str]] = {}
        for comparison in self:
            for warning in comparison.warnings:
                labels.setdefault(warning, []).append(comparison.label)
        notes = list(self.warnings)
        for warning, concerned in labels.items():
            notes.append(f"{'; '.join(concerned)}: {warning}")
        return notes

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: a row for each comparison, a column for each field.

        What there is of both sides has a column for each: ``a``, ``b``, ``median_a``, ``median_b``,
        ``failed_a`` …
        """
        rows = []
        for c in self:
            row: dict[str, Any] = {"contrast": c.label, "a": c.names[0], "b": c.names[1]}
            for name, value in vars(c).items():
                if name in SIDES:
                    row |= zip(SIDES[name], value, strict=True)
                elif name not in ("names", "question"):
                    row[name] = value
            row["verdict"] = str(c.verdict)
            row["warnings"] = "; ".join(c.warnings)
            rows.append(row | {"method": c.method, "words": c.words})
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        return {
            "experiment": self.experiment,
            "notice": self.notice,
            "runs": {"ok": self.ok, "failed": self.failed, "excluded": self.excluded},
            "alpha": self.alpha,
            "declared": self.declared,
            "warnings": list(self.warnings),
            "comparisons": words.as_json(self.to_frame()),
        }

    def __repr__(self) -> str:
        notes = filter(None, [*self.notes, self.note])
        lines = [f"  {c.words}" for c in self]
        return "\n".join([self.summary, *lines, *(f"  ! {note}" for note in notes)])


# -- from samples to evidence ----------------------------------------------------------------------


def share_no_round(a: Floats, b: Floats) -> bool:
    """Return whether two sides were both measured, but never in the same round."""
    known_a, known_b = ~np.isnan(a), ~np.isnan(b)
    return bool(known_a.any() and known_b.any() and not (known_a & known_b).any())


def evidence_of(s: Sample) -> Evidence:
    """Return the log ratio of each round, and what the rounds without one may hide.

    Rounds with a failure are left out. What one side failed beyond the other, and beyond chance,
    is ranked worst in a second analysis; rounds that are missing on both sides count in the same
    way, in both directions.
    """
    refusal = s.refusal
    below = int((np.append(s.a, s.b) < 0).sum())
    if below and not refusal:
        refusal = f"{plural(below, 'value')} below zero: there is no ratio"
    if share_no_round(s.a, s.b):
        return _unpaired(s, refusal)
    ok_a, ok_b = np.isfinite(s.a), np.isfinite(s.b)
    both = ok_a & ok_b
    # rounds in which both failed say nothing of a difference
    failed_a, failed_b = s.replicate[~ok_a & ok_b], s.replicate[ok_a & ~ok_b]
    # NaN: there is no run; infinity: there is one, and it failed
    absent = s.replicate[np.isnan(s.a) & np.isnan(s.b)]
    deployments = np.unique(s.replicate).size
    counted = "round"
    if deployments > 1:
        counted = "deployment"
    elif s.to_threshold and both.sum() >= LONG_SERIES:
        counted = "part"
    counts = Counts(
        counted=counted,
        deployments=deployments,
        rounds=both.size,
        failed=(failed_a.size, failed_b.size),
        absent=absent.size,
        runs=(int(ok_a.sum()), int(ok_b.sum())),
    )
    if refusal or not both.any():
        return Evidence(sample=s, counts=counts, refusal=refusal)
    # a value to zero has a rank, and no size
    d = np.clip(_log(s.a[both]) - _log(s.b[both]), -ZERO, ZERO)
    # as many failures of either side are what chance gives
    more, fewer, side = failed_a, failed_b, 1
    if failed_a.size < failed_b.size:
        more, fewer, side = failed_b, failed_a, -1
    excess, missing = _beyond_chance(more, fewer.size), _beyond_chance(absent, 0)
    unknown = np.concatenate([s.replicate[both], excess, missing])
    measured = _estimate(s, d, s.replicate[both])
    ranked = []
    for sign in (1, -1):
        if unknown.size == d.size:
            break
        # which way a failure points is known, where one direction is good
        bad = {"lower": 1, "higher": -1, None: sign}[s.better] * side
        worst = np.repeat([bad * WORST, sign * WORST], [excess.size, missing.size])
        ranked.append(_estimate(s, np.concatenate([d, worst]), unknown))
    return Evidence(sample=s, counts=counts, measured=measured, ranked=ranked)


def _estimate(s: Sample, d: Floats, replicate: Replicates) -> Estimate:
    """Return the estimate of log ratios, in the deployments of their rounds."""
    kind: type[Median | Rounds] = Rounds
    if s.to_threshold:
        # what is held against a threshold is the level
        kind = Median
    if np.unique(s.replicate).size == 1:
        return kind(d)
    # rounds of one deployment measure one draw of where VMs land
    centres = [kind(d[replicate == one]).centre for one in np.unique(replicate)]
    return Deployments(np.array(centres))


def _unpaired(s: Sample, refusal: str) -> Evidence:
    """Take both sides apart: by deployment where each has several, else by run."""
    ok_a, ok_b = np.isfinite(s.a), np.isfinite(s.b)
    a, b = _log(s.a[ok_a]), _log(s.b[ok_b])
    by_a = pd.Series(a).groupby(s.replicate[ok_a]).mean()
    by_b = pd.Series(b).groupby(s.replicate[ok_b]).mean()
    several = min(by_a.size, by_b.size) > 1
    # one draw against several: nothing says how much draws differ
    if max(by_a.size, by_b.size) > 1 and not several:
        refusal = (
            f"{plural(by_a.size, 'deployment')} against {by_b.size}: "
            "measure at least 2 on each side"
        )
    measured: Estimate | None = Unpaired(a, b)
    counted, deployments = "run", 1
    if several:
        measured = Deployments(np.array(by_a), np.array(by_b))
        counted, deployments = "deployment", by_a.index.union(by_b.index).size
    counts = Counts(
        counted=counted,
        deployments=deployments,
        rounds=s.a.size,
        failed=(int(np.isinf(s.a).sum()), int(np.isinf(s.b).sum())),
        absent=0,
        runs=(a.size, b.size),
        paired=False,
    )
    if refusal:
        measured = None
    return Evidence(sample=s, counts=counts, measured=measured, refusal=refusal)


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, TINY))


def _beyond_chance(failed: Replicates, fewer: int) -> Replicates:
    """Return the deployments of failures beyond those of the other side and beyond chance.

    If chance alone decides which side fails, the difference has the root of all as its deviation.
    """
    beyond = max(0, failed.size - fewer - math.ceil(math.sqrt(failed.size + fewer)))
    rows = np.linspace(0, failed.size - 1, beyond).astype(np.intp)
    return np.asarray(failed[rows], dtype=np.intp)


# -- from evidence to verdicts ---------------------------------------------------------------------


def judge_samples(
    samples: Sequence[Sample],
    *,
    alpha: float = ALPHA,
    sequential: bool = False,
) -> list[Judged]:
    """Judge samples together: the declared ones share `alpha`, each other stands alone.

    One deployment: log ratios by round, the Hodges-Lehmann estimate and the exact interval of
    capped signed ranks. Several: one such estimate each, and Student's t over them. Sides without
    a common round: the exact interval of Mann and Whitney's test, or Welch's over deployments.

    A verdict is about the hours measured.
    """
    check_share(alpha, "alpha", below=0.5)
    family, judged = list[Evidence](), list[Judged]()
    for s in samples:
        check_share(s.margin, "margin")
        if s.declared:
            family.append(evidence_of(s))
    shared = iter(_judged_together(family, alpha, sequential=sequential))
    for s in samples:
        if s.declared:
            judged.append(next(shared))
        else:
            judged += _judged_together([evidence_of(s)], alpha, sequential=sequential)
    return judged


def _judged_together(
    family: Sequence[Evidence], alpha: float, *, sequential: bool
) -> list[Judged]:
    """Judge samples that share alpha.

    A verdict must also hold with what is unknown beyond chance ranked high, and ranked low.
    """
    edges = [_edge(e.sample) for e in family]
    measured = [e.measured for e in family]
    decided = decide(measured, edges, alpha, sequential=sequential)
    doubtful = set[int]()
    hidden = [i for i, e in enumerate(family) if e.ranked]
    for rank in range(2):
        if not hidden:
            break
        ranked = [*measured]
        for i in hidden:
            ranked[i] = family[i].ranked[rank]
        others = decide(ranked, edges, alpha, sequential=sequential)
        doubtful.update(i for i in hidden if decided[i].code != others[i].code)
    # each contrast of placements adds a draw to the common one
    placings = 1 + sum(e.sample.moved for e in family)
    judged = []
    for i, (e, decision) in enumerate(zip(family, decided, strict=True)):
        found = _verdict(e, decision, alpha, placings=placings, sequential=sequential)
        if i in doubtful and found[0] not in (Verdict.NONE, Verdict.INCONCLUSIVE):
            found = Verdict.NONE, DOUBTFUL, 0
        judged.append(_judged(e, decision, *found, sequential=sequential))
    return judged


def _edge(s: Sample) -> float:
    """Return the log of 1 + margin; at a threshold nothing is equivalent."""
    if s.to_threshold:
        return 0.0
    return math.log1p(s.margin)


def _verdict(
    e: Evidence, decision: Decision, alpha: float, *, placings: int, sequential: bool
) -> tuple[Verdict, str, int]:
    """Return the verdict, its reason, and how many more observations would settle it."""
    estimate, code, counts = e.measured, decision.code, e.counts
    if estimate is None or not estimate.n:
        return Verdict.NONE, e.refusal or "no round has values of both sides", 0
    per_side = "" if counts.paired else " per side"
    half = (decision.high - decision.low) / 2
    if half == math.inf:
        # no result of so few observations could have been decided
        share = alpha / decision.share
        need = observations_needed(estimate, share, sequential=sequential)
        reason = (
            f"{plural(estimate.n, counts.counted)}{per_side}, at least {need} are needed"
        )
        if decision.share > 1:
            reason += f" for a family of {decision.share} contrasts"
        more = need - estimate.n
        return Verdict.NONE, f"{reason} ({more} more)", more
    if code == OPEN and half >= RANKED:
        reason = f"how many more {counts.counted}s would settle it is not known: zeros are ranked"
        return Verdict.INCONCLUSIVE, reason, 0
    if code == OPEN:
        more = more_observations(estimate.n, estimate.centre, half, _edge(e.sample))
        rounds = plural(more, f"more {counts.counted}")
        return Verdict.INCONCLUSIVE, f"about {rounds}{per_side} would settle it", more
    if code == EQUIVALENT:
        # a far placing is rare: a few that agree do not rule it out
        if e.sample.moved and counts.paired and counts.deployments > 1:
            return _equivalent_placings(estimate.d, placings * counts.deployments)
        return Verdict.EQUIVALENT, "", 0
    if e.sample.better is None:
        return Verdict.NONE, "it differs, but neither direction is better", 0
    if (code == ABOVE) == (e.sample.better == "higher"):
        return Verdict.BETTER, "", 0
    return Verdict.WORSE, "", 0


def _equivalent_placings(d: Floats, placings: int) -> tuple[Verdict, str, int]:
    """Return whether deployments show placements to be equivalent: few miss the rare far one."""
    n = d.size
    if (np.abs(d - np.median(d)) > FAR_PLACING).any():
        return Verdict.NONE, f"of {n} deployments some landed far from the rest", 0
    if placings >= PLACINGS:
        return Verdict.EQUIVALENT, "", 0
    more = math.ceil((PLACINGS - placings) * n / placings)
    missed = words.percent(0.9**placings)
    reason = (
        f"these {n} deployments agree within the margin, but one placing in ten that lands far "
        f"from the others would be missed in {missed} of such experiments ({more} more deployments)"
    )
    return Verdict.NONE, reason, more


def _judged(
    e: Evidence,
    decision: Decision,
    verdict: Verdict,
    reason: str,
    more: int,
    *,
    sequential: bool,
) -> Judged:
    """Put a decision into ratios, and what they rest on."""
    s, estimate = e.sample, e.measured
    n, centre, alike = 0, math.nan, 1.0
    if estimate is not None:
        n, centre = estimate.n, estimate.centre
        if e.counts.paired and e.counts.deployments == 1:
            alike = neighbours_p(estimate.d)
    if not s.declared:
        # an interval and no verdict: what is not asked before the data is found too easily
        if verdict != Verdict.NONE or s.better is None:
            reason = ""
        verdict = Verdict.EXPLORATORY if n else Verdict.NONE
        more = 0
    return Judged(
        **vars(e.counts),
        verdict=verdict,
        ratio=_ratio(centre),
        low=_ratio(decision.low),
        high=_ratio(decision.high),
        n=n,
        confidence=decision.confidence,
        family=decision.share,
        reason=reason,
        more_rounds=more,
        neighbours_p=alike,
        sequential=sequential,
    )


def _ratio(log: float) -> float:
    """Return the ratio; zero and infinity for a value that is compared with zero."""
    if log <= -RANKED:
        return 0.0
    if log >= RANKED:
        return math.inf
    return math.exp(log)


# -- how they are written --------------------------------------------------------------------------


def size(c: Comparison, *, before_first: bool = False) -> str:
    """Write the number of rounds; of unpaired sides the runs of A and of B: ``1/7``."""
    a, b = c.runs
    if c.paired or a == b:
        return str(c.n)
    if before_first:
        a, b = b, a
    return f"{a}/{b}"


def advice(c: Comparison) -> str:
    """Return what to do about a comparison: which side to use, or what would decide it."""
    if c.verdict == "exploratory":
        return "Declare it as a contrast of the next measurement to have a verdict."
    if c.verdict == "inconclusive" and c.more_rounds:
        rounds = plural(c.more_rounds, f"more {c.counted}")
        return f"Measure about {rounds}, or leave the question open."
    if not c.settled:
        text = c.reason or "keep measuring"
        return f"{text[:1].upper()}{text[1:]}."
    if c.factor in ("", MEASUREMENT):
        return ""
    if c.verdict == "equivalent":
        return f"Either will do for {c.quantity}."
    better = c.names[0] if c.verdict == "better" else c.names[1]
    return f"Use {better} where {c.quantity} matters."


def confidences(comparisons: Iterable[Comparison]) -> list[str]:
    """Return the lowest and the highest confidence of intervals, in percent.

    One if they are equal; empty if there is no interval.
    """
    known = sorted(c.confidence for c in comparisons if c.low > 0)
    ends = [f"{100 * share:.4g}" for share in known[:1] + known[-1:]]
    return list(dict.fromkeys(ends))


# -- for a pipeline --------------------------------------------------------------------------------


class GateError(NetperfError):
    """The verdicts do not let a change pass."""

    exit_code = 3


def check_gate(family: Family, fail_on: Collection[str]) -> str:
    """Say that the gate lets a change pass, and on which verdicts.

    Raises GateError if a comparison has one of the verdicts in `fail_on`, or if there is nothing to
    judge: a gate that saw no data must not open.
    """
    if not len(family):
        raise GateError(
            "gate: nothing was compared (no data, or no condition that both sides share)"
        )
    refused = [c for c in family if c.verdict in fail_on]
    if refused:
        text = f"gate: {refused[0].verdict}: {refused[0].words}"
        if len(refused) > 1:
            text += f" (and {len(refused) - 1} more)"
        raise GateError(text)
    if not family.decided:
        raise GateError(
            f"gate: no comparison has a verdict; the first: {family[0].words}"
        )
    return f"gate: passed, none is {' or '.join(fail_on)}; {family.summary}"
