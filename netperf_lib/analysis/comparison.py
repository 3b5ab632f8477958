"""Results for one contrast, and for the contrasts of a report together: numbers, words, tables."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..metrics import ALPHA, Better, plural
from .result import (
    Result,
    difference_words,
    direction,
    html_table,
    percent,
    spread,
    unit_of,
    value_words,
)

if TYPE_CHECKING:
    import pandas as pd


class Subject(TypedDict, total=False):
    """What a contrast is about, for its words: fields of `Comparison`."""

    declared: bool
    metric: str
    quantity: str
    names: tuple[str, str]
    context: str
    scope: str


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
    """How many there are of each: ``22 compared: 0 worse, 0 better, 17 equivalent, 5 not decided``."""
    counts = Counter(UNDECIDED.get(v, v) for v in map(str, verdicts))
    words = [f"{counts[v]} {v}" for v in ("worse", "better", "equivalent", "not decided")]
    words += [f"{counts['exploratory']} exploratory"] if counts["exploratory"] else []
    return f"{counts.total()} compared: {', '.join(words)}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Result):
    """The result for A against B, or against a threshold.

    Attributes
    ----------
    verdict : Verdict
        A against B; `better` and `worse` are the user's view (less latency is better).
    ratio, low, high : float
        A divided by B (or by the threshold), and its interval; NaN, 0 and infinity if there is none.
        Values of zero are judged by their rank: the ratio is 0 or infinity where one side is typically zero.
        For an equivalence it is the interval of the two one-sided tests, which lies inside the margin.
    reason : str
        Why there is no clear verdict, or a remark on the given one; may be empty.
    more_rounds : int
        About how many more of `unit` would settle it; 0 if more of them would not help.
    margin, alpha : float
        Ratios within 1/(1 + margin) … 1 + margin count as equivalent; the share of families with a false verdict.
    family : int
        Contrasts that shared `alpha` when this one was decided.
    better : {"higher", "lower"} or None
        Which direction of the metric is good.
    unit : str
        What `n` counts: "round", "hour", "run", "deployment" or "experiment".
    dropped : int
        Rounds in which a side had no value.
    failed : tuple of int
        Rounds in which A failed (or had to be repeated), and B.
    declared : bool
        Whether the contrast belongs to the family of the report; if not, it is exploratory.
    paired : bool
        Whether the sides have common rounds; if not, drift between them is part of the difference.
    metric, quantity : str
        Name of the metric, and its name in the sentence.
    names : tuple of str
        Names of A and B in the sentence.
    context : str
        Levels that both sides share, for example "8 streams".
    scope : str
        What the statement applies to, for example "for these VMs".
    medians : tuple of float
        Level of A and of B, in the unit of the metric, over all their complete runs, also in rounds that only one side
        has; NaN if there are none.
    slow, runs : tuple of int
        Runs of A and of B that lie far from the others on the bad side; and how many runs there are.
    hosts : tuple of str
        Hosts that the sides were measured on.
    estimand : str
        The quantity that the ratio estimates.
    question : str
        As declared, or empty.
    threshold : float or None
        In the unit of the metric, for a contrast with a threshold.
    held_back : tuple of str
        What limits the throughput of A and of B, in a word; empty for other metrics.
    design : {"fixed", "sequential"}
    """

    verdict: Verdict
    ratio: float
    low: float
    high: float
    reason: str = ""
    more_rounds: int = 0
    margin: float
    alpha: float
    family: int = 1
    better: Better | None = "higher"
    unit: str = "round"
    dropped: int = 0
    failed: tuple[int, int] = (0, 0)
    declared: bool = True
    paired: bool = True
    metric: str = ""
    quantity: str = "value"
    names: tuple[str, str] = ("A", "B")
    context: str = ""
    scope: str = ""
    medians: tuple[float, float] = (math.nan, math.nan)
    slow: tuple[int, int] = (0, 0)
    runs: tuple[int, int] = (0, 0)
    hosts: tuple[str, ...] = ()
    estimand: str = ""
    question: str = ""
    threshold: float | None = None
    held_back: tuple[str, str] = ("", "")
    design: Literal["fixed", "sequential"] = "fixed"

    @property
    def label(self) -> str:
        """A, B and the levels that they share, in few words: ``cross-zone / same-zone (16 streams)``."""
        return " / ".join(self.names) + (f" ({self.context})" if self.context else "")

    @property
    def settled(self) -> bool:
        """Whether there is a clear verdict."""
        return self.verdict in (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT)

    @property
    def words(self) -> str:
        """The result in a sentence that names the direction in the metric's words."""
        a, b = self.names
        tail = (f" ({self.context})" if self.context else "") + (
            f", {self.scope}" if self.scope else ""
        )
        if self.threshold is not None and math.isfinite(self.ratio):
            return self._of_threshold(tail)
        if self.settled and self.ratio in (0, math.inf):
            values = " and ".join(value_words(v, unit_of(self.metric)) for v in self.medians)
            return f"{a}: {'higher' if self.ratio else 'lower'} {self.quantity} than {b} ({values}){tail}"
        interval = spread(self.ratio, self.low, self.high)
        if self.verdict in ("better", "worse"):
            return (
                difference_words(
                    self.ratio, self.low if self.ratio > 1 else self.high, a, b, self.quantity
                )
                + tail
            )
        if self.verdict == "equivalent":
            slow = f"; {self.slow_words}" if sum(self.slow) else ""
            size = f"({direction(self.ratio)}{slow})"
            return (
                f"{a}: {self.quantity} equivalent to {b} within {percent(self.margin)} {size}{tail}"
            )
        if self.verdict == "inconclusive":
            return f"{a} against {b}: {self.quantity} inconclusive, {interval}{tail}; {self.reason}"
        if math.isnan(self.ratio):
            return f"{a} against {b}: no verdict on {self.quantity}{tail}: {self.reason}"
        bounds = f"{interval}, {percent(self.confidence)}" if self._bounded else "no interval"
        effect = f"{direction(self.ratio)} in these runs ({bounds}){tail}"
        reason = f": {self.reason}" if self.reason else ""
        return f"{a} against {b}: {self.quantity} {effect}; {self.verdict}{reason}"

    def _of_threshold(self, tail: str) -> str:
        a, condition = self.names
        unit, limit = unit_of(self.metric), self.threshold or math.nan
        # shares of the threshold; those of zero are stored as a very small one
        value, low, high = (
            value_words(v * limit if v > 1e-4 else 0.0, unit)
            for v in (self.ratio, self.low, self.high)
        )
        if self.settled:
            negation = "" if self.verdict == "better" else "not "
            bound = f"at most {high}" if self.high < 1 else f"at least {low}"
            return f"{a}: {self.quantity} {negation}{condition} ({value}, {bound}){tail}"
        sure = (
            f" at {percent(self.confidence)}"
            if self.verdict in ("no verdict", "exploratory")
            else ""
        )
        bounds = f"between {low} and {high}{sure}" if self._bounded else "no interval"
        text = f"{a}: {self.quantity} {condition}? {self.verdict} ({value}, {bounds}){tail}"
        return f"{text}; {self.reason}" if self.reason else text

    @property
    def ratio_words(self) -> str:
        """The ratio and its interval, in figures."""
        if not math.isfinite(self.ratio):
            return "–"
        return f"{self.ratio:.3g} ({f'{self.low:.3g} to {self.high:.3g}' if self._bounded else 'no interval'})"

    @property
    def _bounded(self) -> bool:
        """Whether there is an interval: one round has a ratio alone."""
        return not (self.low == 0 and self.high == math.inf)

    @property
    def slow_words(self) -> str:
        """How many runs were slow, in words."""
        return f"{sum(self.slow)} of {plural(sum(self.runs), 'run')} slow"

    @property
    def topic(self) -> str:
        """Both sides, without what was found."""
        a, b = self.names
        return f"{a} against {b}" if self.threshold is None else f"{a} ({self.quantity} {b})"

    @property
    def size(self) -> str:
        """The number of rounds; for unpaired sides, of runs of A and of B: ``1/7``."""
        a, b = self.runs
        return f"{a}/{b}" if a != b and not self.paired else str(self.n)

    @property
    def basis(self) -> str:
        """What the statement rests on, in a line."""
        share = f", one of {self.family} that share the error" if self.family > 1 else ""
        margin = (
            f", margin {percent(self.margin)} ({percent(1 / (1 + self.margin) - 1)} to +{percent(self.margin)})"
            if self.threshold is None
            else ""
        )
        slow = f"; {self.slow_words}" if sum(self.slow) else ""
        return (
            f"verdict {str(self.verdict)!r}: ratio {self.ratio:.4g}, {self.low:.4g} to {self.high:.4g} "
            f"at {percent(self.confidence)}, {self.size} {self.unit}{'' if self.size == '1' else 's'}{margin}{share}; "
            f"{self.estimand or 'typical ratio'}; {self.method}{slow}"
        )


_COLUMNS = (
    "metric contrast verdict ratio low high confidence n unit scope words reason warnings a b median_a median_b "
    "more_rounds margin"
).split()


@dataclass(frozen=True, slots=True, repr=False)
class Family(Sequence[Comparison]):
    """Contrasts that were judged together, and the runs behind them.

    Attributes
    ----------
    comparisons : tuple of Comparison
    ok, failed, excluded : int
        Runs that were used, that failed or were cut short, and that were excluded for a recorded cause.
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

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

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
        return f"{plural(self.ok, 'run')} ok, {self.failed} failed, {self.excluded} excluded"

    @property
    def words(self) -> str:
        """One sentence per contrast, one per line."""
        return "\n".join(c.words for c in self)

    def to_frame(self) -> pd.DataFrame:
        """Return a tidy table: one row per contrast."""
        import pandas as pd

        apart = ("names", "medians", "assumptions")
        names = [f.name for f in dataclasses.fields(Comparison) if f.name not in apart]
        rows = [
            {"contrast": c.label, **dict(zip("ab", c.names, strict=True))}
            | dict(zip(("median_a", "median_b"), c.medians, strict=True))
            | {name: getattr(c, name) for name in names}
            | {"verdict": str(c.verdict), "warnings": "; ".join(c.warnings), "words": c.words}
            for c in self
        ]
        return pd.DataFrame(rows, columns=[*_COLUMNS, *(n for n in names if n not in _COLUMNS)])

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types."""
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
    def note(self) -> str:
        """The note below the table."""
        verb = "shares" if self.declared == 1 else "share"
        rule = f"at most {percent(self.alpha)} of reports contain a false verdict about the hours measured"
        if not all(c.paired for c in self):
            rule = "the sides share no rounds, so no share of false verdicts is promised"
        shared = (
            f" ({plural(self.declared, 'declared contrast')} {verb} it)" if self.declared else ""
        )
        return f"{self.counts}; {rule}{shared}" + (f"; {self.notice}" if self.notice else "")

    @property
    def notes(self) -> list[str]:
        """Every warning once: those of the family, then those of its contrasts, with the contrasts concerned."""
        return [*self.warnings, *self.concerning(lambda c: c.warnings)]

    def concerning(self, sayings: Callable[[Comparison], Iterable[str]]) -> list[str]:
        """Statements about the contrasts, each once, with the contrasts concerned."""
        labels: dict[str, list[str]] = {}
        for c in self:
            for saying in filter(None, sayings(c)):
                labels.setdefault(saying, []).append(c.label)
        n = len(self)
        return [
            f"{'; '.join(of) if len(of) < n or n == 1 else 'all'}: {saying}"
            for saying, of in labels.items()
        ]

    def __repr__(self) -> str:
        lines = [
            f"Family of {plural(len(self), 'contrast')}: {self.note}",
            *(f"  {c.words}" for c in self),
        ]
        return "\n".join([*lines, *(f"  ! {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        assumed = dict.fromkeys(a for c in self for a in c.assumptions)
        assumptions = [f"assumed: {', '.join(assumed)}"] if assumed else []
        head = ("contrast", "metric", "ratio (interval)", "n", "verdict", "in words")
        rows = [
            (c.label, c.quantity, c.ratio_words, plural(c.n, c.unit), c.verdict, c.words)
            for c in self
        ]
        return html_table(head, rows, "; ".join((self.note, *self.notes, *assumptions)))
