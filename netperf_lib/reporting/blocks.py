"""What a notebook shows of comparisons: a table, sentences, a marked sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ..analysis.tables import markdown_table
from ..analysis.verdicts import advice, confidences
from ..analysis.words import UNKNOWN, as_markdown, effect, span
from ..metrics import METRICS, format_value

if TYPE_CHECKING:
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


def callout(text: str, *, title: str) -> Shown:
    """Return a marked sentence."""
    return Shown(
        f"{title}: {text}", f"> **{as_markdown(title)}.** {as_markdown(text)}", title
    )


def notice(words: str | None) -> list[Shown]:
    """Return what must be known before any figure is read; nothing where there is nothing."""
    return [Shown(words, f"> {as_markdown(words)}")] if words else []


MARKS = {"better": "▲", "worse": "▼", "equivalent": "■", "inconclusive": "○"}
"""Shape of a verdict, which is told by it and by its word; the colour only supports."""


def verdicts(
    family: Family,
    contrasts: Sequence[Contrast] | None = None,
    recommendations: Sequence[str] = (),
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
    recommendations : sequence of str, optional
        What the lead paragraph recommends for each contrast.
    short : bool
        Without caption and warnings, which page two of a report has.
    """
    warnings = list(dict.fromkeys(w for c in family for w in c.warnings))
    notes = [f"Warning {number}: {words}." for number, words in enumerate(warnings, 1)]
    columns = ["Verdict", "Question", "Measured", "Effect", "Interval", "What to do"]
    rows = []
    for c, contrast, todo in zip_longest(family, contrasts or (), recommendations):
        said = [] if c.verdict == "exploratory" else [advice(c, todo or "")]
        if short and c.warnings:
            said.append("Mind the warnings of section 1.")
        elif not short:
            said += [f"Warning {warnings.index(w) + 1}." for w in c.warnings]
        verdict = f"{MARKS.get(c.verdict, '·')} {c.verdict}"
        question = (contrast and contrast.question) or _topic(c)
        measured = [
            verdict,
            question,
            _sides(c),
            effect(c.ratio),
            span(c.ratio, c.low, c.high),
        ]
        rows.append([*measured, " ".join(filter(None, said))])
    shown = 6 if any(row[-1] for row in rows) else 5
    table = markdown_table(columns[:shown], [row[:shown] for row in rows])
    text = "\n".join([*(c.words for c in family), *notes])
    if short:
        return Shown(text, table)
    caption = f"*{as_markdown(_caption(family))}*"
    return Shown(text, "\n\n".join([caption, table, *map(as_markdown, notes)]))


def _topic(c: Comparison) -> str:
    """What a comparison is about, where no question was declared."""
    limit = f" {c.names[1]}?" if c.threshold is not None else ""
    context = f" ({c.context})" if c.context else ""
    return f"{c.quantity[:1].upper()}{c.quantity[1:]}{limit}{context}"


def _caption(family: Family) -> str:
    sure = " to ".join(f"{percent} %" for percent in confidences(family))
    interval = f"its interval at {sure}" if sure else "no interval"
    said = (
        f"{family.counts}; {family.promise}." if family.promise else f"{family.counts}."
    )
    if "exploratory" in family.verdicts and not family.promise:
        said += " Exploratory: declare it for the next measurement to have a verdict."
    return f"Measured: medians. Effect: the first against the second, with {interval}. {said}"


def _sides(c: Comparison) -> str:
    """What was measured on both sides, and what limits it: a ratio without its base says little."""
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    causes = ["" if cause in ("", UNKNOWN) else f" ({cause})" for cause in c.limited_by]
    sides = list(zip(c.names, c.medians, causes, strict=True))[
        : 2 if c.threshold is None else 1
    ]
    return "\n".join(
        f"{name}: {format_value(value, unit)}{cause}" for name, value, cause in sides
    )
