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
from ..metrics import METRICS, to_bps, to_bytes, to_us
from .comparison import Better
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
    """Which direction is good, where the metric does not tell."""

    @property
    def edge(self) -> float:
        """Log of the upper edge of the margin; 0 for a threshold, at which nothing is equivalent."""
        return 0.0 if self.b is None else math.log1p(self.margin)

    @property
    def key(self) -> Any:
        """What is asked, in whichever direction."""
        sides = [self.a] if self.b is None else [self.a, self.b]
        return self.metric, self.threshold, self.limit, frozenset(frozenset(_hashable(s)) for s in sides)

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


def _hashable(side: Factors) -> list[tuple[str, Any]]:
    return [(k, tuple(v) if isinstance(v, list) else v) for k, v in side.items()]


def question(c: Contrast | Question | Mapping[str, Any]) -> Question:
    """Read a contrast; StatsError where it is none."""
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
        margin = check_share(_share(given.get("margin", 0.05)), "margin")
        return Question(b=dict(given["b"]), margin=margin, **common)
    limit: Any = limits[0].replace("_", " ")
    threshold = _quantity_of(given[limits[0]], metric, given.get("of"))
    if not (threshold > 0 and math.isfinite(threshold)):
        raise StatsError(f"a threshold must be above zero; got {given[limits[0]]!r} for {metric}")
    wanted = f"{limit} {value_words(threshold, unit_of(metric))}"
    return Question(b=None, margin=0.05, threshold=threshold, limit=limit, wanted=wanted, **common)


def _share(value: Any) -> float:
    text = str(value).strip()
    try:
        return float(text.removesuffix("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise StatsError(f"a margin is a share such as 0.1 or '10 %'; got {value!r}") from None


def _quantity_of(value: Any, metric: str, of: Any = None) -> float:
    """A threshold in the stored unit of its metric."""
    if isinstance(value, int | float):
        return float(value)
    unit = unit_of(metric)
    if part := re.fullmatch(r"(.*%)\s*of\s+(.*)", str(value)):
        return _quantity_of(part[1], metric, part[2])
    match = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?\d+)?)\s*(.*?)\s*", str(value), re.IGNORECASE)
    try:
        if match is None:
            raise ValueError
        number, suffix = float(match[1]), match[2]
        if suffix == "%":
            return number / 100 * (1.0 if of is None else _quantity_of(of, metric))
        if not suffix:
            return number
        if unit in ("us", "s"):
            return to_us(number, suffix) * (1.0 if unit == "us" else 1e-6)
        if unit == "bps" and (m := re.fullmatch(r"([kKMGT]?)(?:bit/s|bps|bit)", suffix)):
            return to_bps(number, m[1].upper(), "bit")
        if unit == "bytes" and (m := re.fullmatch(r"([kKMGT]?i?)(?:B|bytes?)", suffix)):
            return to_bytes(number, m[1])
        if unit == "per_s" and suffix == "/s":
            return number
        raise ValueError
    except ValueError:
        example = {"us": "'1 ms'", "bps": "'900 Mbit/s'", "bytes": "'64 MiB'", "ratio": "'5 %'"}.get(unit, "a number")
        raise StatsError(f"not a threshold for {metric}: {value!r}; write for example {example}") from None
