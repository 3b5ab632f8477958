"""Comparisons as lines of text: one line a comparison, the worst first, at 80 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..metrics import METRICS, format_value
from .comparison import UNDECIDED, Family, verdict_counts
from .result import quantity
from .tables import WIDTH, beside_names, markdown_table
from .words import UNKNOWN, as_markdown, effect, span

ORDER = ("worse", "better", "inconclusive", "no verdict", "exploratory", "equivalent")
"""Verdicts in the order of the lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison; `name` is that of its condition, `group` is said once above all lines that have it."""

    name: str
    group: str
    metric: str
    before: str
    after: str
    change: str
    """The effect where it is decided, else its interval."""
    verdict: str
    n: str
    notes: tuple[str, ...] = ()
    """Why it is not decided, and what is uncertain about it: footnotes."""
    held: str = ""
    """What limits the two levels of throughput."""


def lines(family: Family, *, two: bool = False) -> list[Line]:
    """The comparisons, the worst first; `two`: of two measurements, whose names are the heads of the columns."""
    rows = []
    for c in sorted(family, key=lambda c: ORDER.index(c.verdict)):
        unit = METRICS[c.metric].unit if c.metric in METRICS else ""
        after, before = c.medians
        interval = span(c.ratio, c.low, c.high, short=True).strip("–")
        is_open = c.verdict in (*UNDECIDED, "exploratory")
        more = f"about {c.more_rounds} more would decide it" if c.more_rounds else c.reason
        reason = [more] if c.verdict in UNDECIDED and more else []
        held = dict.fromkeys(cause for cause in reversed(c.held_back) if cause)
        rows.append(
            Line(
                name=c.context if two else " / ".join(c.names),
                group="" if two else c.context,
                metric=c.metric,
                before=format_value(before if c.threshold is None else c.threshold, unit),
                after=format_value(after, unit),
                change=(interval if is_open else "") or effect(c.ratio),
                verdict=UNDECIDED.get(c.verdict, str(c.verdict)),
                n="/".join(reversed(c.size.split("/"))),  # as the columns are
                notes=(*reason, *c.warnings),
                held="" if {*held} <= {UNKNOWN} else " / ".join(held),
            )
        )
    return rows


def _cells(rows: Sequence[Line], heads: Sequence[str], numbers: dict[str, int]) -> pd.DataFrame:
    """The figures of lines in columns; footnotes get the numbers of `numbers`, or new ones."""
    marks = []
    for r in rows:
        noted = [str(numbers.setdefault(note, len(numbers) + 1)) for note in r.notes]
        marks.append(f" [{', '.join(noted)}]" if noted else "")
    columns = [*heads, "change", "verdict", "n", "limited by"]
    cells = [
        [r.before, r.after, r.change, r.verdict + mark, r.n, r.held]
        for r, mark in zip(rows, marks, strict=True)
    ]
    table = pd.DataFrame(cells, columns=columns)
    return table.loc[:, (table != "").any()]


def text(
    rows: Sequence[Line], heads: tuple[str, str] = ("before", "after"), *, notes: Sequence[str] = ()
) -> str:
    """The lines as text: the counts, a heading for each metric and what its names share, and footnotes."""
    blocks = [verdict_counts(r.verdict for r in rows)]
    numbers: dict[str, int] = {}
    parts: dict[tuple[str, str], list[Line]] = {}
    metrics = list(dict.fromkeys(r.metric for r in rows))
    for r in sorted(rows, key=lambda r: metrics.index(r.metric)):
        parts.setdefault((r.metric, r.group), []).append(r)
    for (metric, group), some in parts.items():
        title = f"{quantity(metric)}{f': {group}' if group else ''}"
        table = _cells(some, heads, numbers)
        width = table["verdict"].str.len().max()
        table["verdict"] = table["verdict"].str.ljust(width)
        table = table.rename(columns={"verdict": ""})
        if len({r.n for r in some}) == 1:
            title += f", n = {some[0].n}"
            table = table.drop(columns="n")
        blocks.append("\n".join([wrapped(title), *beside_names([r.name for r in some], table)]))
    footnotes = [wrapped(f"[{number}] {note}") for note, number in numbers.items()]
    return "\n\n".join(filter(None, [*blocks, "\n".join([*footnotes, *map(wrapped, notes)])]))


def wrapped(words: str) -> str:
    """A sentence at the width of the text."""
    return textwrap.fill(words, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def comment(text: str) -> str:
    """One line of Markdown that shows a text as it is, and calls nobody where it is written into a pull request.

    GitHub looks for @names and #numbers after it has read the Markdown, backslashes and all; only a blank without width
    keeps them text.
    """
    return _uncalled(as_markdown(" ".join(text.split())))


def _uncalled(markdown: str) -> str:
    return re.sub("[@#]", r"\g<0>&#8203;", markdown)


def markdown(
    rows: Sequence[Line], heads: tuple[str, str] = ("before", "after"), *, notes: Sequence[str] = ()
) -> str:
    """The lines as a table of Markdown, for the comment of a pull request."""
    numbers: dict[str, int] = {}
    table = _cells(rows, heads, numbers).drop(columns="n")
    names = [", ".join(filter(None, [r.group, r.name])) for r in rows]
    metrics = [quantity(r.metric) for r in rows]
    figures = table.to_numpy().tolist()
    cells = [[n, m, *row] for n, m, row in zip(names, metrics, figures, strict=True)]
    shown = _uncalled(markdown_table(["condition", "metric", *map(str, table)], cells))
    footnotes = [f"[{number}] {note}" for note, number in numbers.items()]
    foot = [f"- {comment(note)}" for note in (*footnotes, *notes)]
    counts = verdict_counts(r.verdict for r in rows)
    return "\n".join([f"**{counts}**", "", shown, "", *foot]).rstrip()
