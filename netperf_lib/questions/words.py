"""The words of an answer: an effect, its interval, the headline of a page, and what to do about a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..experiment.factors import factor
from ..experiment.model import Contrast
from ..stats.result import rounded, size_words

if TYPE_CHECKING:
    import pandas as pd

    from ..stats import Comparison

MIME = "application/vnd.netperf+json"
"""MIME type under which words, tables and figures carry their data to the report."""


ADVICE: dict[str, dict[str, str]] = {
    "ppg": {
        "better": "Use a placement group for tiers that talk often; plan for its limits on size and capacity.",
        "worse": "Do not use the placement group for this.",
        "equivalent": "Leave the placement group out; it costs flexibility and gives nothing here.",
    },
    "cross-zone": {
        "better": "Spread over zones; it costs nothing here.",
        "worse": "Spread over zones for safety, and keep chatty tiers in one zone.",
        "equivalent": "Spread over zones; any cost in the network is within the margin.",
    },
    "cross-region": {
        "better": "Check the measurement: distance should not help.",
        "worse": "Keep synchronous calls inside a region; replicate asynchronously.",
        "equivalent": "Regions may be mixed for this metric.",
    },
    "placement": {
        "better": "Prefer this placement where this metric matters.",
        "worse": "Avoid this placement where this metric matters.",
        "equivalent": "Choose by other criteria; the network does not decide it.",
    },
    "accelerated": {
        "better": "Keep accelerated networking on everywhere.",
        "worse": "Check the driver and the virtual function: acceleration should not cost anything.",
        "equivalent": "Keep it on to relieve the processor; this metric does not show the effect.",
    },
    "streams": {
        "better": "Use several connections for bulk transfers over this path.",
        "worse": "Use fewer connections; here they slow each other down.",
        "equivalent": "One connection is enough here.",
    },
    "tcp_buffer_bytes": {
        "better": "Raise the TCP buffer limits on both ends; see the notebook on TCP buffers.",
        "worse": "Leave the TCP buffers as they are.",
        "equivalent": "Leave the TCP buffers as they are; they are not the limit here.",
    },
    "threshold": {
        "better": "Count on it for these VMs.",
        "worse": "Do not count on it; change the design or the requirement.",
    },
    "": {
        "better": "Prefer the first condition where this metric matters.",
        "worse": "Prefer the second condition where this metric matters.",
        "equivalent": "Choose by other criteria; the network does not decide it.",
    },
}


def factor_of(contrast: Contrast) -> str:
    """Name of the factor in which the sides of a contrast differ; empty when they differ in several or none."""
    b = contrast.b or {}
    names = [n for n in {**contrast.a, **b} if contrast.a.get(n) != b.get(n)] if b else []
    if "placement" in names:
        return "placement"
    return names[0] if len(names) == 1 else ""


def advice(comparison: Comparison, contrast: Contrast | None = None) -> str:
    """What to do about a comparison, in a sentence."""
    if comparison.verdict == "no verdict":
        return comparison.reason[:1].upper() + comparison.reason[1:] + "." if comparison.reason else "Keep measuring."
    if comparison.verdict == "inconclusive":
        more = comparison.more_rounds
        return (
            f"Measure about {more} more {comparison.unit}{'s' if more != 1 else ''}, or leave the question open."
            if more
            else ("More rounds of this kind will not settle it; look at the scatter.")
        )
    about, verdict = factor_of(contrast) if contrast else "", str(comparison.verdict)
    if contrast is not None and contrast.b is None:
        about = "threshold"
    elif contrast is not None and contrast.b is not None and about in ("accelerated", "streams", "tcp_buffer_bytes"):
        key = factor(about).key
        if key(contrast.a.get(about)) < key(contrast.b.get(about)):  # the advice is on more of it
            verdict = {"better": "worse", "worse": "better"}.get(verdict, verdict)
    side = str(contrast.a.get("placement")) if contrast and about == "placement" else ""
    return ADVICE[side if side and side in ADVICE else about if about in ADVICE else ""][verdict]


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
    """The headline of a page: the clearest finding of a family, or why there is none."""
    every = list(family)
    told = [c for c in every if c.verdict in ("better", "worse", "equivalent")]
    if not every:
        return "No contrast was declared for this question: the figures describe the data, without a verdict."
    if not told:
        return f"No verdict yet: {every[0].reason or every[0].words}."
    first = told[0].words
    rest = len(told) - 1
    more = f" ({rest} more verdict{'s' if rest > 1 else ''} below.)" if rest else ""
    return f"{first}.{more}"
