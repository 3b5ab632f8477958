"""The words of an answer.

An effect, its interval, the headline of a page, and what to do about a verdict.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn, Self

from ..errors import NothingToReport, UsageError, visible
from ..experiment.model import Contrast
from ..experiment.placements import PLACEMENTS
from ..metrics import metric as metric_of
from .result import size_words
from .runs import origin_of, read_data, table_of

_MARKS = re.compile(r"[\\`*_\[\]{}<>|$~^&@#]|:(?=\S)|(?<=www)\.")
_FIRST = re.compile(r"(\(?\w{1,9}(?=[.)])|(?=[:+=%-]))(.)")

RUNS = 6
"""Runs from which on their range covers the median with more than 95 % confidence."""
UNKNOWN = "not known"
"""What limits a transfer where no rule holds."""


def as_markdown(text: str) -> str:
    r"""Return the markdown that shows a text as it is.

    A label in it is no link, picture, code, formula, tag or border of a cell.

    Everything that is computed from data passes through here before it is rendered. Lines that
    begin with a dash are the items of a list.

    Examples
    --------
    >>> print(as_markdown("[fast](http://x): 2 * 3"))
    \[fast\](http\://x): 2 \* 3
    """
    lines = []
    for line in text.split("\n"):
        dash = "- " if line.startswith("- ") else ""
        words = _MARKS.sub(
            r"\\\g<0>",
            re.sub(r"\s+", lambda s: s[0][:1], visible(line.removeprefix("- ")).strip()),
        )
        lines.append(
            dash
            + (_FIRST.sub(r"\1\\\2", words, count=1) if _FIRST.match(words) else words)
        )
    return "\n".join(lines)


def shortened(notice: str, most: int = 130) -> str:
    """Return what a notice says first, for a footer or a corner of a figure.

    The words before its first stop.
    """
    first = re.split(r"[;.] |[.;]$", notice)[0]
    return first if len(first) <= most else f"{first[: most - 1]}…"


class Words(str):
    """Sentences that were computed from data: text, which Jupyter and a report show as it is.

    Lines that begin with a dash are the items of a list.
    """

    shown: str = ""
    """Its markdown, where that says more than the text."""

    @classmethod
    def of(cls, *sentences: str) -> Self:
        """Join sentences to a paragraph, or to a list where each begins with a dash."""
        parts = [s.strip() for s in sentences if s and s.strip()]
        return cls(("\n" if all(s.startswith("- ") for s in parts) else " ").join(parts))

    @classmethod
    def line(cls, topic: str, text: str) -> Self:
        """Return a line of a lead: what it says about a topic, which is bold and may be empty."""
        line = cls(f"{topic}: {text}" if topic else text)
        about = f"**{as_markdown(topic)}:** " if topic else ""
        line.shown = f"> {about}{as_markdown(text)}"
        return line

    @classmethod
    def lead(cls, lines: Iterable[Words]) -> Self:
        """Return lines as the paragraphs of one text."""
        lines = list(lines)
        words = cls("\n".join(lines))
        words.shown = "\n>\n".join(line._repr_markdown_() for line in lines)
        return words

    def _repr_markdown_(self) -> str:
        if self.shown:
            return self.shown
        lines = as_markdown(str(self)).split("\n")
        # each line is a paragraph, but those of a list
        return "\n".join(
            line if line.startswith("- ") else f"{line}\n" for line in lines
        ).strip()


class Headline(Words):
    """The headline of a page; several lines are its paragraphs."""

    def _repr_markdown_(self) -> str:
        lines = [as_markdown(line) for line in self.split("\n") if line]
        bold = (
            f"> **{lines[0]}**"
            if len(lines) == 1
            else "\n>\n".join(f"> {x}" for x in lines)
        )
        return self.shown or bold


def capital(text: str) -> str:
    """Return a text that begins with a capital.

    Unless it begins with a name such as ``ppg`` or ``zone1``.
    """
    first = text.partition(" ")[0].rstrip(",:")
    named = first in PLACEMENTS or any(map(str.isdigit, first))
    return text if named else text[:1].upper() + text[1:]


def as_text(markdown: str) -> str:
    """Return the text that `as_markdown` was given."""
    return re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", markdown)


def factor_of(contrast: Contrast) -> str:
    """Name of the factor in which the sides of a contrast differ.

    Empty when they differ in several or none.
    """
    b = contrast.b or {}
    names = [n for n in {**contrast.a, **b} if contrast.a.get(n) != b.get(n)] if b else []
    if "placement" in names:
        return "placement"
    return names[0] if len(names) == 1 else ""


def contrasts(
    data: Any, about: str | None = None, metric: str | None = None
) -> list[Contrast]:
    """Return the contrasts that the experiment declares.

    Optionally only those of `metric` or whose sides differ in `about`.

    Raises UsageError if the table has no such factor.

    Examples
    --------
    >>> len(npl.analysis.contrasts(exp, metric="throughput_bps"))
    5
    """
    data = read_data(data)
    runs = table_of(data)
    if about is not None and about not in runs:
        raise UsageError(f"the table of runs has no factor {about!r}")
    declared = origin_of(data).declared.get("contrasts") or ()
    every = [Contrast.model_validate(c) for c in declared]
    return [
        c for c in every if about in (None, factor_of(c)) and metric in (None, c.metric)
    ]


def effect(ratio: float, outward: int = 0, *, times: bool | None = None) -> str:
    """Return a ratio as a change: ``−31 %``, ``×4.2``, ``−99.4 %``; a dash where there is none.

    An end of an interval is rounded outwards, down (−1) or up (1), so that the interval on the page
    never claims more than the one that decided, and its inner end is the number of the sentence
    ("at least 25 %"). `times` says which way, where the ratio is the end of an interval.
    """
    if not math.isfinite(ratio) or ratio <= 0:
        return "–"
    size = size_words(ratio, outward, times=times)
    if size.endswith(" times"):
        return f"×{size.removesuffix(' times')}"
    if not size.strip("0. %"):
        return size
    return f"{'−' if ratio < 1 else '+'}{size}"


def span(ratio: float, low: float, high: float, *, short: bool = False) -> str:
    """Return the interval of a ratio, as `effect` writes it; a dash where there is none.

    Examples
    --------
    >>> span(0.69, 0.66, 0.703), span(2.9, 2.7, 3.1), span(3.1, 0.9, 3.3)
    ('−34 % to −29 %', '+170 % to +210 %', '×0.90 to ×3.3')
    >>> span(0.996, 0.981, 1.004, short=True)
    '−2 to +1 %'
    """
    if not (math.isfinite(high) and low > 0):
        return "–"
    times = ratio >= 3
    if short and not times and low > 0.1:
        ends = (
            f"{math.floor(100 * (low - 1) + 1e-9):+d} to "
            f"{math.ceil(100 * (high - 1) - 1e-9):+d} %"
        )
        return ends.replace("-", "−").replace("+0 ", "0 ")
    return f"{effect(low, -1, times=times)} to {effect(high, 1, times=times)}"


def interval_words(n: Iterable[int], deployments: int = 1) -> str:
    """Return what the interval of a level is, for a caption: with few runs it is their range."""
    if deployments > 1:
        return f"its 95 % interval (Student's t over the medians of {deployments} deployments)"
    counts = [k for k in n if k > 1]
    if not counts:
        return "no interval (one run each)"
    enough, few = (
        "its 95 % interval by order statistics",
        "the range of the runs, at a lower confidence",
    )
    if max(counts) < RUNS:
        return few
    return enough if min(counts) >= RUNS else f"{enough}, or, below {RUNS} runs, {few}"


def metric_label(metric: str) -> str:
    """Return the label of a metric, for readers.

    Examples
    --------
    >>> npl.analysis.metric_label("latency_oneway_p99_us")
    'One-way latency, 99th percentile'
    """
    return metric_of(metric).label


def heading(what: str, metric: str) -> str:
    """Return the heading of a page: ``Placement: one-way latency``."""
    quantity = metric_of(metric).label
    return f"{what}: {quantity[:1].lower()}{quantity[1:]}"


def end(reason: str) -> NoReturn:
    """End the notebook here, because the experiment lacks the data for it.

    The report shows `reason`.

    Examples
    --------
    >>> npl.analysis.end("no run was complete")
    Traceback (most recent call last):
        ...
    netperf_lib.errors.NothingToReport: no run was complete
    """
    raise NothingToReport(reason)
