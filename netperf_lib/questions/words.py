"""The words of an answer: an effect, its interval, the headline of a page, and what to do about a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..experiment.model import Contrast
from ..metrics import format_value
from ..stats.result import rounded, size_words, unit_of

if TYPE_CHECKING:
    import pandas as pd

    from ..stats import Comparison

MIME = "application/vnd.netperf+json"
"""MIME type under which words, tables and figures carry their data to the report."""


def factor_of(contrast: Contrast) -> str:
    """Name of the factor in which the sides of a contrast differ; empty when they differ in several or none."""
    b = contrast.b or {}
    names = [n for n in {**contrast.a, **b} if contrast.a.get(n) != b.get(n)] if b else []
    if "placement" in names:
        return "placement"
    return names[0] if len(names) == 1 else ""


def advice(comparison: Comparison, recommendation: str = "") -> str:
    """What to do about a comparison: what the lead paragraph recommends for its level, or what would decide it."""
    if comparison.verdict == "no verdict":
        return comparison.reason[:1].upper() + comparison.reason[1:] + "." if comparison.reason else "Keep measuring."
    if comparison.verdict == "exploratory":
        return "Declare it as a contrast of the next measurement to have a verdict."
    if comparison.verdict == "inconclusive":
        more = comparison.more_rounds
        return (
            f"Measure about {more} more {comparison.unit}{'s' if more != 1 else ''}, or leave the question open."
            if more
            else ("More rounds of this kind will not settle it; look at the scatter.")
        )
    return f"{recommendation}." if recommendation else ""


def contrasts(runs: pd.DataFrame, about: str | None = None, metric: str | None = None) -> list[Contrast]:
    """The contrasts that the experiment declares, optionally only those of `metric` or whose sides differ in `about`.

    Raises UsageError if the table has no such factor.
    """
    if about is not None and about not in runs:
        raise UsageError(f"the table of runs has no factor {about!r}")
    declared: Any = (runs.attrs.get("experiment") or {}).get("contrasts") or ()
    found = [Contrast.model_validate(c) for c in declared]
    return [c for c in found if about in (None, factor_of(c)) and metric in (None, c.metric)]


def effect(ratio: float, outward: int = 0, *, times: bool = False) -> str:
    """A ratio as a change: ``−31 %``, ``×4.2``, ``1/180``; a dash where there is none.

    An end of an interval is rounded outwards, down (−1) or up (1), so that the interval on the page never claims more
    than the one that decided, and its inner end is the number of the sentence ("at least 25 %"). `times` writes a
    ratio above 1 as ``×1.4``.
    """
    if not math.isfinite(ratio) or ratio <= 0:
        return "–"
    if ratio <= 0.1:
        return f"1/{rounded(1 / ratio, 0, -outward)}"
    size = size_words(ratio, outward, times=times and ratio >= 1)
    if size.endswith(" times"):
        return f"×{size.removesuffix(' times')}"
    if not size.strip("0. %"):
        return size
    return f"{'−' if ratio < 1 else '+'}{size}"


def span(c: Comparison) -> str:
    """The interval of a comparison, as changes."""
    if not (math.isfinite(c.high) and c.low > 0):
        return "–"
    times = c.ratio >= 3  # one way to write an effect and its interval
    return f"{effect(c.low, -1, times=times)} … {effect(c.high, 1, times=times)}"


def headline(family: Iterable[Comparison]) -> str:
    """The headline of a page: its clearest finding; without a verdict, what was measured."""
    every = list(family)
    settled = [c for c in every if c.settled]
    if not every:
        return "No contrast was declared for this question: the figures describe the data, without a verdict."
    if not settled:
        levels = {
            name: format_value(value, unit_of(c.metric))
            for c in every
            for name, value in zip(c.names, c.medians, strict=True)
            if math.isfinite(value)
        }
        figures = ", ".join(f"{name} {value}" for name, value in levels.items())
        return f"{every[0].quantity}: {figures or 'not measured'}. Not decided: {every[0].reason or every[0].words}."
    rest = len(settled) - 1
    more = f" ({rest} more verdict{'s' if rest > 1 else ''} below.)" if rest else ""
    return f"{settled[0].words}.{more}"
