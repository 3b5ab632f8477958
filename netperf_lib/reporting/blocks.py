"""What a notebook shows of comparisons: a table, sentences, a marked sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..analysis.tables import markdown_table
from ..analysis.words import UNKNOWN, advice, as_markdown, effect, span
from ..metrics import METRICS, format_value

if TYPE_CHECKING:
    from ..analysis.comparison import Comparison, Family
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


def callout(text: str, *, title: str = "") -> Shown:
    """Return a marked sentence."""
    words = f"{title}: {text}" if title else text
    head = f"**{as_markdown(title)}.** " if title else ""
    return Shown(words, f"> {head}{as_markdown(text)}", title)


SAME = "equivalent"
MARKS = {"better": "▲", "worse": "▼", "equivalent": "■", "inconclusive": "○"}
"""Shape of a verdict, which is told by it and by its word; the colour only supports."""


def verdicts(
    family: Family,
    contrasts: Sequence[Contrast] | None = None,
    recommendations: Sequence[str] = (),
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
    """
    warnings = list(dict.fromkeys(w for c in family for w in c.warnings))
    notes = [f"Warning {number}: {words}." for number, words in enumerate(warnings, 1)]
    advised = {t for t, c in zip(recommendations, family, strict=False) if c.verdict != SAME}
    rows = []
    for i, c in enumerate(family):
        todo = recommendations[i] if i < len(recommendations) else ""
        if c.verdict == SAME and todo in advised:  # it stands at the row that shows it
            todo = ""
        words = [] if c.verdict == "exploratory" else [advice(c, todo)]
        words += [f"Warning {warnings.index(w) + 1}." for w in c.warnings]
        question = (contrasts[i].question if contrasts else None) or _topic(c)
        interval = span(c.ratio, c.low, c.high)
        verdict = f"{MARKS.get(c.verdict, '·')} {c.verdict}"
        what = " ".join(filter(None, words))
        rows.append([verdict, question, _sides(c), effect(c.ratio), interval, what])
    columns = ["Verdict", "Question", "Measured", "Effect", "Interval", "What to do"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    shown = [f"*{as_markdown(_caption(family))}*", markdown_table(columns, rows)]
    text = "\n".join([*(c.words for c in family), *notes])
    return Shown(text, "\n\n".join([*shown, *map(as_markdown, notes)]))


def _topic(c: Comparison) -> str:
    """What a comparison is about, where no question was declared."""
    limit = f" {c.names[1]}?" if c.threshold is not None else ""
    context = f" ({c.context})" if c.context else ""
    return f"{c.quantity[:1].upper()}{c.quantity[1:]}{limit}{context}"


def _caption(family: Family) -> str:
    sure = sorted({f"{100 * c.confidence:.4g} %" for c in family if c.low > 0})
    ends = " to ".join(dict.fromkeys([*sure[:1], *sure[-1:]]))
    interval = f"its interval at {ends}" if sure else "no interval"
    declared = any(c.declared for c in family)
    note = family.note.replace(f"; {family.notice}", "") if declared else family.counts
    caption = f"Measured: medians. Effect: the first against the second, with {interval}. {note}."
    if first := next((c for c in family if c.verdict == "exploratory"), None):
        caption += f" Exploratory: {advice(first)[:1].lower()}{advice(first)[1:]}"
    return caption


def _sides(c: Comparison) -> str:
    """What was measured on both sides, and what limits it: a ratio without its base says little."""
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    causes = ["" if cause in ("", UNKNOWN) else f" ({cause})" for cause in c.held_back]
    sides = list(zip(c.names, c.medians, causes, strict=True))
    shown = sides if c.threshold is None else sides[:1]
    return "\n".join(f"{name}: {format_value(value, unit)}{cause}" for name, value, cause in shown)
