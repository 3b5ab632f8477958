"""Results for one contrast, and for the contrasts of a report together: numbers, words, tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ..metrics import ALPHA, MARGIN, Better, plural
from .result import as_json, percent, unit_of, value_words
from .words import effect, span

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True, repr=False)
class Subject:
    """What a contrast is about.

    Attributes
    ----------
    metric, quantity : str
        Name of the metric, and its name in the sentence; default: as the metric is called.
    names : tuple of str
        Names of A and B in the sentence.
    context : str
        Levels that both sides share, for example "8 streams".
    scope : str
        What the statement applies to, for example "for these VMs".
    margin : float, default 0.05
        Ratios within 1/(1 + margin) … 1 + margin are equivalent.
    better : {"higher", "lower"} or None
        Which direction is good; None: neither, so a difference gets no verdict.
    threshold : float or None
        In the unit of the metric, for a contrast with a threshold instead of B.
    declared : bool, default True
        False: exploratory; it has an interval but no verdict, and takes no share of alpha.
    medians : tuple of float
        Level of A and of B, in the unit of the metric, over all their complete runs, also in rounds
        that only one side has; NaN if there are none.
    held_back : tuple of str
        What limits the throughput of A and of B, in a word; empty for other metrics.
    factor : str
        The factor whose levels A and B are, ``pair`` for two hosts, ``measurement`` for before and
        after; empty for a threshold, and where the sides differ in several.
    """

    metric: str = ""
    quantity: str = ""
    names: tuple[str, str] = ("A", "B")
    context: str = ""
    scope: str = ""
    margin: float = MARGIN
    better: Better | None = "higher"
    threshold: float | None = None
    declared: bool = True
    medians: tuple[float, float] = (math.nan, math.nan)
    held_back: tuple[str, str] = ("", "")
    factor: str = ""


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


UNDECIDED = {"inconclusive": "not decided", "no verdict": "not decided"}


def verdict_counts(verdicts: Iterable[str]) -> str:
    """Return how many there are of each.

    ``22 compared: 0 worse, 0 better, 17 equivalent, 5 not decided``.
    """
    counts = Counter(UNDECIDED.get(v, v) for v in map(str, verdicts))
    words = [f"{counts[v]} {v}" for v in ("worse", "better", "equivalent", "not decided")]
    words += [f"{counts['exploratory']} exploratory"] if counts["exploratory"] else []
    return f"{counts.total()} compared: {', '.join(words)}"


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison(Subject):
    """The result for A against B, or against a threshold.

    Attributes
    ----------
    verdict : Verdict
        A against B; `better` and `worse` are the user's view (less latency is better).
    ratio, low, high : float
        A divided by B (or by the threshold), and its interval; NaN, 0 and infinity if there is
        none. Values of zero are judged by their rank: the ratio is 0 or infinity where one side is
        typically zero. For an equivalence it is the interval of the two one-sided tests, inside the
        margin.
    n : int
        Independent observations: runs, paired rounds or deployments; never seconds or packets.
    confidence : float
        Actual confidence of the interval, which may differ from the one requested.
    method : str
        Name of the method.
    assumptions, warnings : tuple of str
        What must hold for the statement to hold, and what to know before relying on it.
    reason : str
        Why there is no clear verdict, or a remark on the given one; may be empty.
    more_rounds : int
        About how many more of `unit` would settle it; 0 if more of them would not help.
    family : int
        Contrasts that shared the error when this one was decided.
    unit : str
        What `n` counts: "round", "run" or "deployment"; "part": of a long series.
    failed : tuple of int
        Rounds in which A failed (or had to be repeated), and B.
    paired : bool
        Whether the sides have common rounds; if not, drift between them is part of the difference.
    runs : tuple of int
        How many runs of A and of B have a value.
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    n: int
    confidence: float
    method: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    reason: str = ""
    more_rounds: int = 0
    family: int = 1
    unit: str = "round"
    failed: tuple[int, int] = (0, 0)
    paired: bool = True
    runs: tuple[int, int] = (0, 0)

    @property
    def label(self) -> str:
        """A, B and the levels that they share: ``cross-zone / same-zone (16 streams)``."""
        return " / ".join(self.names) + (f" ({self.context})" if self.context else "")

    @property
    def settled(self) -> bool:
        """Whether there is a clear verdict."""
        return self.verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT)

    @property
    def words(self) -> str:
        """The result in a sentence: what was found, its interval, the verdict, and what holds."""
        (a, b), ratio, verdict = self.names, self.ratio, str(self.verdict)
        tail = f" ({self.context})" if self.context else ""
        tail += f", {self.scope}" if self.scope else ""
        tail += f": {self.reason}" if self.reason else ""
        bounded = self.low > 0 and math.isfinite(self.high)
        interval = span(ratio, self.low, self.high) if bounded else "no interval"
        found, head = effect(ratio), f"{a} against {b}: {self.quantity}"
        if self.threshold is not None:
            head = f"{a}: {self.quantity} {b}?"
            ends = (v * self.threshold for v in (ratio, self.low, self.high))
            found, low, high = (value_words(v, unit_of(self.metric)) for v in ends)
            interval = f"{low} to {high}" if self.high < math.inf else "no interval"
        elif ratio in (0, math.inf):
            values = (value_words(v, unit_of(self.metric)) for v in self.medians)
            found = " and ".join(values)
        within = f" within {percent(self.margin)}" if verdict == "equivalent" else ""
        return f"{head} {found} ({interval}), {verdict}{within}{tail}"

    @property
    def topic(self) -> str:
        """Both sides, without what was found."""
        a, b = self.names
        return (
            f"{a} against {b}" if self.threshold is None else f"{a} ({self.quantity} {b})"
        )

    @property
    def size(self) -> str:
        """The number of rounds; for unpaired sides, of runs of A and of B: ``1/7``."""
        a, b = self.runs
        return f"{a}/{b}" if a != b and not self.paired else str(self.n)

    def to_dict(self) -> dict[str, Any]:
        """Return every field and the words, as JSON types; values that are not finite are None."""
        return {k: as_json(v) for k, v in vars(self).items()} | {"words": self.words}

    def __repr__(self) -> str:
        return "\n  ! ".join([self.words, *self.warnings])


def advice(comparison: Comparison, recommendation: str = "") -> str:
    """Return what to do about a comparison.

    What the lead paragraph recommends for its level, or what would decide it.
    """
    c, more = comparison, comparison.more_rounds
    if c.verdict == "exploratory":
        return "Declare it as a contrast of the next measurement to have a verdict."
    if c.verdict == "inconclusive" and more:
        rounds = f"{more} more {c.unit}{'s' if more != 1 else ''}"
        return f"Measure about {rounds}, or leave the question open."
    text = recommendation if c.settled else c.reason or "keep measuring"
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def confidences(comparisons: Iterable[Comparison]) -> list[str]:
    """Return the lowest and the highest confidence of intervals, in percent.

    One if they are equal; empty if there is no interval.
    """
    sure = sorted(c.confidence for c in comparisons if c.low > 0)
    return list(dict.fromkeys(f"{100 * share:.4g}" for share in sure[:1] + sure[-1:]))


@dataclass(frozen=True, slots=True, repr=False)
class Family(Sequence[Comparison]):
    """Contrasts that were judged together, and the runs behind them.

    Attributes
    ----------
    comparisons : tuple of Comparison
    ok, failed, excluded : int
        Runs that were used, that failed or were cut short, and that were excluded for a recorded
        cause.
    alpha : float
        Share of families that may contain a false verdict.
    declared : int
        Contrasts declared in the experiment; they share `alpha`.
    experiment : str
        Its name.
    warnings : tuple of str
    notice : str or None
        A notice that every table made from these runs must show.
    """

    comparisons: tuple[Comparison, ...]
    ok: int = 0
    failed: int = 0
    excluded: int = 0
    alpha: float = ALPHA
    declared: int = 0
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
    def summary(self) -> str:
        """How many comparisons have each verdict, in words."""
        return verdict_counts(self.verdicts)

    @property
    def counts(self) -> str:
        """How many runs were used, in words."""
        return (
            f"{plural(self.ok, 'run')} ok, {self.failed} failed, {self.excluded} excluded"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one row per contrast."""
        import pandas as pd

        rows = [
            vars(c)
            | dict(zip(("a", "b"), c.names, strict=True))
            | dict(zip(("median_a", "median_b"), c.medians, strict=True))
            | {"contrast": c.label, "words": c.words, "verdict": str(c.verdict)}
            | {"warnings": "; ".join(c.warnings)}
            for c in self
        ]
        columns = ["names", "medians", "assumptions"]
        return pd.DataFrame(rows).drop(columns=columns, errors="ignore")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        return {
            "experiment": self.experiment,
            "notice": self.notice,
            "runs": {"ok": self.ok, "failed": self.failed, "excluded": self.excluded},
            "alpha": self.alpha,
            "declared": self.declared,
            "warnings": list(self.warnings),
            "comparisons": [c.to_dict() for c in self],
        }

    @property
    def promise(self) -> str:
        """How many reports contain a false verdict; empty without a verdict."""
        if not any(c.settled for c in self):
            return ""
        if not all(c.paired for c in self):
            return "the sides share no rounds, so no share of false verdicts is promised"
        verb = "shares" if self.declared == 1 else "share"
        shared = f" ({plural(self.declared, 'declared comparison')} {verb} it)"
        rule = "of reports contain a false verdict about the hours measured"
        return f"at most {percent(self.alpha)} {rule}{shared if self.declared else ''}"

    @property
    def note(self) -> str:
        """The note below the table."""
        return "; ".join(filter(None, (self.counts, self.promise, self.notice)))

    @property
    def notes(self) -> list[str]:
        """Every warning once, those of contrasts with the contrasts concerned."""
        labels: dict[str, list[str]] = {}
        for c in self:
            for warning in c.warnings:
                labels.setdefault(warning, []).append(c.label)
        of_contrasts = (f"{'; '.join(of)}: {words}" for words, of in labels.items())
        return [*self.warnings, *of_contrasts]

    def __repr__(self) -> str:
        lines = (f"  {c.words}" for c in self)
        notes = (f"  ! {note}" for note in (*self.notes, self.note))
        return "\n".join([self.summary, *lines, *notes])
