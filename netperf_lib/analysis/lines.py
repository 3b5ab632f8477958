"""Comparisons as lines of text: one line a comparison, the worst first, at 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..metrics import METRICS, format_value
from .comparison import UNDECIDED, Family, verdict_counts
from .result import quantity
from .tables import TEXT_WIDTH, beside_names
from .words import UNKNOWN, effect, span

VERDICT_ORDER = (
    "worse",
    "better",
    "inconclusive",
    "no verdict",
    "exploratory",
    "equivalent",
)
"""Verdicts in the order of the lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison.

    `name` is that of its condition, `group` is said once above all lines that have it.
    """

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
    """Return the comparisons, the worst first.

    `two`: of two measurements, whose names are the heads of the columns.
    """
    rows = []
    for c in sorted(family, key=lambda c: VERDICT_ORDER.index(c.verdict)):
        unit = METRICS[c.metric].unit if c.metric in METRICS else ""
        after, before = c.medians
        interval = span(c.ratio, c.low, c.high, short=True).strip("–")
        is_open = c.verdict in (*UNDECIDED, "exploratory")
        more = (
            f"about {c.more_rounds} more would decide it" if c.more_rounds else c.reason
        )
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


def text(
    rows: Sequence[Line],
    heads: tuple[str, str] = ("before", "after"),
    *,
    notes: Sequence[str] = (),
) -> str:
    """Return the lines as text.

    The counts, a heading for each metric and what its names share, and footnotes.
    """
    numbers: dict[str, int] = {}
    parts: dict[tuple[str, str], list[Line]] = {}
    metrics = list(dict.fromkeys(r.metric for r in rows))
    for r in sorted(rows, key=lambda r: metrics.index(r.metric)):
        parts.setdefault((r.metric, r.group), []).append(r)
    blocks = [verdict_counts(r.verdict for r in rows)]
    for (metric, group), some in parts.items():
        cells = []
        for r in some:
            marks = [str(numbers.setdefault(note, len(numbers) + 1)) for note in r.notes]
            verdict = f"{r.verdict} [{', '.join(marks)}]" if marks else r.verdict
            cells.append([r.before, r.after, r.change, verdict, r.n, r.held])
        table = pd.DataFrame(cells, columns=[*heads, "change", "", "n", "limited by"])
        table[""] = table[""].str.ljust(table[""].str.len().max())
        title = quantity(metric) + (f": {group}" if group else "")
        if len({r.n for r in some}) == 1:
            title += f", n = {some[0].n}"
            table = table.drop(columns="n")
        table = table.loc[:, (table != "").any()]
        blocks.append(
            "\n".join([wrapped(title), *beside_names([r.name for r in some], table)])
        )
    footnotes = [wrapped(f"[{number}] {note}") for note, number in numbers.items()]
    return "\n\n".join(
        filter(None, [*blocks, "\n".join([*footnotes, *map(wrapped, notes)])])
    )


def wrapped(words: str) -> str:
    """Return a sentence at the width of the text."""
    return textwrap.fill(
        words, TEXT_WIDTH, subsequent_indent="  ", break_on_hyphens=False
    )
