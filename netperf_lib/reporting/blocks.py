"""What a notebook shows of data: tables of levels and of comparisons, and marked sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ..analysis.verdicts import advice, confidences
from ..analysis.words import UNKNOWN, as_markdown, capital, effect, span, unit_of
from ..metrics import format_span, format_value
from ..metrics import metric as metric_of

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.verdicts import Comparison, Family
    from ..experiment.model import Contrast


@dataclass(frozen=True)
class Shown:
    """Something shown: in a terminal as text, in a notebook and a report as markdown."""

    text: str
    markdown: str
    title: str = ""

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.markdown


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()
) -> str:
    """Return a table in markdown; every cell is text, and numbers stand to the `right`."""
    sides = ""
    for head in header:
        sides += "---:|" if head in right else ":---|"
    return "\n".join([_line(header), f"|{sides}", *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    words = [as_markdown(cell.replace("\n", "; ")) for cell in cells]
    return f"| {' | '.join(words)} |"


def callout(text: str, *, title: str) -> Shown:
    """Return a marked sentence."""
    marked = f"> **{as_markdown(title)}.** {as_markdown(text)}"
    return Shown(f"{title}: {text}", marked, title)


def notice(words: str | None) -> list[Shown]:
    """Return what must be known before any figure is read; nothing where there is nothing."""
    return [Shown(words, f"> {as_markdown(words)}")] if words else []


# -- levels ----------------------------------------------------------------------------------------


def measured(levels: pd.DataFrame, metric: str) -> Shown:
    """Show the level of each condition: median, interval and range.

    Parameters
    ----------
    levels : DataFrame
        As `netperf_lib.levels` gives them.
    metric : str
        What they are levels of.
    """
    info = metric_of(metric)
    known = levels["confidence"].dropna()
    head = "Interval"
    if len(known):
        ends = map("{:.3g}".format, (100 * known.min(), 100 * known.max()))
        head += f" ({' to '.join(dict.fromkeys(ends))} %)"
    heads = [info.label, "Runs", "Median", head, "Smallest to largest"]
    lost = [name for name in ("failed", "missing") if levels[name].any()]
    rows = []
    for condition, level in levels.iterrows():
        row = [str(condition), str(level["n"]), "–", "–", "–"]
        if level["n"]:
            row[2] = format_value(level["median"], info.unit)
        if level["n"] > 1:
            row[3] = format_span(level["low"], level["high"], info.unit)
            row[4] = format_span(level["smallest"], level["largest"], info.unit)
        rows.append(row + [str(level[name]) for name in lost])
    heads += map(capital, lost)
    figures = levels[["n", "median", "low", "high"]]
    return Shown(figures.to_string(), markdown_table(heads, rows, right=heads[1:]))


# -- comparisons -----------------------------------------------------------------------------------

MARKS = {"better": "▲", "worse": "▼", "equivalent": "■", "inconclusive": "○"}
"""Shape of a verdict, which is told by it and by its word; the colour only supports."""


def verdicts(
    family: Family,
    contrasts: Sequence[Contrast] | None = None,
    *,
    short: bool = False,
) -> Shown:
    """Show a family of contrasts as the table that a reader acts on.

    Parameters
    ----------
    family : Family
        As `compare` gives it.
    contrasts : sequence of Contrast, optional
        The contrasts in the same order: their questions go into the table.
    short : bool
        Without caption and warnings, which page two of a report has.
    """
    warnings = list(dict.fromkeys(w for c in family for w in c.warnings))
    heads = ["Verdict", "Question", "Measured", "Effect", "Interval", "What to do"]
    rows = []
    for c, contrast in zip_longest(family, contrasts or ()):
        todo = []
        if c.verdict != "exploratory":  # what to do about all of these is in the caption
            todo.append(advice(c))
        if short and c.warnings:
            todo.append("Mind the warnings of section 1.")
        elif not short:
            todo += [f"Warning {warnings.index(w) + 1}." for w in c.warnings]
        rows.append(
            [
                f"{MARKS.get(c.verdict, '·')} {c.verdict}",
                (contrast and contrast.question) or _topic(c),
                _sides(c),
                effect(c.ratio),
                span(c.ratio, c.low, c.high),
                " ".join(filter(None, todo)),
            ]
        )
    if not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    table = markdown_table(heads, rows, right=["Effect"])
    words = [c.words for c in family]
    if short:
        return Shown("\n".join(words), table)
    notes = [f"Warning {number}: {words}." for number, words in enumerate(warnings, 1)]
    caption = f"*{as_markdown(_caption(family))}*"
    text = "\n".join([*words, *notes])
    return Shown(text, "\n\n".join([caption, table, *map(as_markdown, notes)]))


def _topic(c: Comparison) -> str:
    """What a comparison is about, where no question was declared."""
    topic = capital(c.quantity)
    if c.threshold is not None:
        topic += f" {c.names[1]}?"
    return f"{topic} ({c.context})" if c.context else topic


def _caption(family: Family) -> str:
    interval = "no interval"
    if sure := confidences(family):
        interval = f"its interval at {' % to '.join(sure)} %"
    caption = f"Measured: medians. Effect: the first against the second, with {interval}."
    if family.promise:
        return f"{caption} {family.counts}; {family.promise}."
    caption += f" {family.counts}."
    if "exploratory" in family.verdicts:
        caption += " Exploratory: declare it for the next measurement to have a verdict."
    return caption


def _sides(c: Comparison) -> str:
    """What was measured on both sides, and what limits it: a ratio without its base says little."""
    unit, sides = unit_of(c.metric), []
    for name, value, cause in zip(c.names, c.medians, c.limited_by, strict=True):
        side = f"{name}: {format_value(value, unit)}"
        if cause not in ("", UNKNOWN):
            side += f" ({cause})"
        sides.append(side)
    if c.threshold is not None:  # the second side is a bound, and no measurement
        sides = sides[:1]
    return "\n".join(sides)
