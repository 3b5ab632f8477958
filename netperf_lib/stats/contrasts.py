"""Contrasts as people declare them: two conditions and a margin, or one condition and a threshold."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import StatsError
from ..experiment.model import Contrast
from ..metrics import MARGIN, METRICS, Better, read_value
from .result import check_share, unit_of, value_words
from .runs_table import Factors


@dataclass(frozen=True, slots=True)
class Question:
    """A contrast as declared, its numbers read."""

    metric: str
    a: Factors
    b: Factors | None
    margin: float
    declared: bool = True
    question: str = ""
    threshold: float | None = None
    limit: Literal["below", "at least"] = "below"
    wanted: str = ""
    """The threshold in words."""
    good: Literal["higher", "lower", "neither", ""] = ""
    """Which direction is good, if the metric does not define it."""

    @property
    def edge(self) -> float:
        """Log of the upper edge of the margin; 0 for a threshold, at which nothing is equivalent."""
        return 0.0 if self.b is None else math.log1p(self.margin)

    @property
    def key(self) -> Any:
        """What is asked, regardless of direction."""
        sides = [self.a] if self.b is None else [self.a, self.b]
        return self.metric, self.threshold, self.limit, frozenset(map(side_key, sides))

    def within(self, where: Factors) -> Question:
        """The same, with these levels of both sides."""
        b = None if self.b is None else {**where, **self.b}
        return dataclasses.replace(self, a={**where, **self.a}, b=b)

    @property
    def better(self) -> Better | None:
        """Which direction is good."""
        if self.good:
            return None if self.good == "neither" else self.good
        if self.b is None:
            return "lower" if self.limit == "below" else "higher"
        info = METRICS.get(self.metric)
        return info.better if info else "higher"


KEYS = {"metric", "a", "b", "margin", "question", "declared", "below", "at_least", "of", "better"}


def side_key(side: Factors) -> frozenset[tuple[str, Any]]:
    """What a side asks for, as a key."""
    return frozenset((k, tuple(v) if isinstance(v, list) else v) for k, v in side.items())


def question(c: Contrast | Question | Mapping[str, Any]) -> Question:
    """Read a contrast; raise StatsError if it is not valid."""
    if isinstance(c, Question):
        return c
    given = {k: v for k, v in (c.model_dump() if isinstance(c, Contrast) else dict(c)).items() if v is not None}
    limits = [k for k in ("below", "at_least") if k in given]
    unknown = sorted(set(given) - KEYS)
    if unknown or "metric" not in given or not isinstance(given.get("a"), Mapping) or len(limits) + ("b" in given) != 1:
        raise StatsError(
            f"not a contrast: {given!r}; needed: metric, a, and b (with a margin) or one of below, at_least"
            + (f"; unknown: {', '.join(unknown)}" if unknown else "")
        )
    metric = str(given["metric"])
    common: dict[str, Any] = {
        "metric": metric,
        "a": dict(given["a"]),
        "declared": bool(given.get("declared", True)),
        "question": str(given.get("question", "")),
        "good": given.get("better", ""),
    }
    if not limits:
        try:
            margin = check_share(read_value(given.get("margin", MARGIN), "ratio"), "margin")
        except (TypeError, ValueError):
            raise StatsError(f"a margin is a share such as 0.1 or '10 %'; got {given['margin']!r}") from None
        return Question(b=dict(given["b"]), margin=margin, **common)
    limit: Any = limits[0].replace("_", " ")
    threshold = _threshold(given[limits[0]], metric, given.get("of"))
    if not (threshold > 0 and math.isfinite(threshold)):
        raise StatsError(f"a threshold must be above zero; got {given[limits[0]]!r} for {metric}")
    wanted = f"{limit} {value_words(threshold, unit_of(metric))}"
    return Question(b=None, margin=MARGIN, threshold=threshold, limit=limit, wanted=wanted, **common)


def _threshold(value: Any, metric: str, of: Any) -> float:
    """A threshold in the stored unit of its metric."""
    unit = unit_of(metric)
    share = re.fullmatch(r"\s*([0-9.]+)\s*%(?:\s*of\s+(.*))?\s*", str(value))
    try:
        if share is None:
            return read_value(value if isinstance(value, int | float) else str(value), unit)
        base = share[2] or of
        return float(share[1]) / 100 * (1.0 if base is None else read_value(base, unit))
    except ValueError as error:
        raise StatsError(f"not a threshold for {metric}: {error}") from None
