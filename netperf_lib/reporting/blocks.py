"""What a notebook shows of comparisons: a table, sentences, a marked sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..analysis.tables import markdown_table
from ..analysis.words import UNKNOWN, Words, advice, as_markdown, effect, span
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


# -- verdicts ------------------------------------------------------------------------------------------------------

MARKS = {"better": "▲", "worse": "▼", "equivalent": "■", "inconclusive": "○"}
"""Shape of a verdict, which is told by it and by its word; the colour only supports."""


def findings(family: Iterable[Comparison], *, warnings: bool = True) -> Words:
    """Show every finding of a family in a separate sentence.

    Parameters
    ----------
    family : Family
        As `compare` gives it.
    warnings : bool
        Include the warnings; False if the table of `verdicts` is next to it and has them.
    """
    family = list(family)
    marks, notes = _warnings(family)
    notes = notes if warnings else []
    lines = [
        f"- {c.words}.{f' {mark}.' if mark else ''}" for c, mark in zip(family, marks, strict=True)
    ]
    return Words.of(*lines, *(f"- {note}" for note in notes))


def _warnings(family: Sequence[Comparison]) -> tuple[list[str], list[str]]:
    """For each contrast the numbers of its warnings; and every warning once, with its number."""
    warnings = list(dict.fromkeys(w for c in family for w in c.warnings))
    numbers = [", ".join(str(warnings.index(w) + 1) for w in c.warnings) for c in family]
    marks = [f"Warning{'s' if ',' in ns else ''} {ns}" if ns else "" for ns in numbers]
    return marks, [f"Warning {i}: {w}." for i, w in enumerate(warnings, 1)]


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
    marks, notes = _warnings(family)
    actions = _actions(family, recommendations)
    rows = []
    for i, c in enumerate(family):
        warned = f" {marks[i]}." if marks[i] else ""
        question = (contrasts[i].question if contrasts else None) or _topic(c)
        rows.append(
            [
                f"{MARKS.get(c.verdict, '·')} {c.verdict}",
                question,
                _sides(c),
                effect(c.ratio),
                span(c.ratio, c.low, c.high),
                f"{actions[i]}{warned}".strip(),
            ]
        )
    columns = ["Verdict", "Question", "Measured", "Effect", "Interval", "What to do"]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    caption = _caption(family)
    shown = [f"*{as_markdown(caption)}*", markdown_table(columns, rows)]
    shown += [as_markdown(note) for note in notes]
    text = "\n".join([*(c.words for c in family), *notes])
    return Shown(text, "\n\n".join(shown))


def _topic(c: Comparison) -> str:
    """What a comparison is about, where no question was declared."""
    limit = f" {c.names[1]}?" if c.threshold is not None else ""
    context = f" ({c.context})" if c.context else ""
    return f"{c.quantity[:1].upper()}{c.quantity[1:]}{limit}{context}"


def _actions(family: Family, recommendations: Sequence[str]) -> list[str]:
    """What to do about each comparison; a recommendation stands at the row that shows it."""
    wanted = [*recommendations, *[""] * len(family)][: len(family)]
    decided = {r for r, c in zip(wanted, family, strict=True) if c.verdict != "equivalent"}
    actions = []
    for todo, c in zip(wanted, family, strict=True):
        elsewhere = c.verdict == "equivalent" and todo in decided
        actions.append("" if c.verdict == "exploratory" else advice(c, "" if elsewhere else todo))
    return actions


def _caption(family: Family) -> str:
    sure = sorted({c.confidence for c in family if c.low > 0})
    ends = [f"{100 * share:.4g} %" for share in (sure[:1] + sure[-1:])]
    interval = f"its interval at {' to '.join(dict.fromkeys(ends))}" if sure else "no interval"
    note = family.counts
    if any(c.declared for c in family):
        note = family.note.replace(f"; {family.notice}", "")
    caption = f"Measured: medians. Effect: the first against the second, with {interval}. {note}."
    if first := next((c for c in family if c.verdict == "exploratory"), None):
        caption += f" Exploratory: {advice(first)[:1].lower()}{advice(first)[1:]}"
    return caption


def _sides(c: Comparison) -> str:
    """What was measured on both sides, and what limits it: a ratio without its base says little."""
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    causes = ["" if cause in ("", UNKNOWN) else f" ({cause})" for cause in c.held_back]
    return "\n".join(
        f"{name}: {format_value(value, unit)}{cause}"
        for name, value, cause in zip(c.names, c.medians, causes, strict=True)
        if c.threshold is None or name != c.names[1]
    )
