"""What the command line prints, made of values: rich lays it out as wide as the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import groupby

import pandas as pd
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table

from .analysis.verdicts import Comparison, Family, size
from .analysis.words import UNDECIDED, UNKNOWN, effect, quantity, span
from .errors import visible
from .metrics import METRICS, format_value

VERDICT_ORDER = (
    "worse",
    "better",
    "inconclusive",
    "no verdict",
    "exploratory",
    "equivalent",
)
"""Verdicts in the order of the rows."""


def text(blocks: Iterable[RenderableType], width: int | None = None) -> str:
    """Return blocks as text, an empty line between them; `width` None: that of the terminal."""
    file = io.StringIO()
    width = width or Console().width
    console = Console(
        file=file, width=width, markup=False, highlight=False, emoji=False, no_color=True
    )
    for number, block in enumerate(blocks):
        if number:
            console.print()
        console.print(block)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def levels_block(levels: pd.DataFrame) -> RenderableType:
    """Return the level of each condition, as `netperf_lib.levels` has them."""
    figures = [name for name in ("median", "low", "high") if levels[name].any()]
    counts = ["n", *(name for name in ("failed", "missing") if levels[name].any())]
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for head in (*counts, *figures):
        table.add_column(head, justify="right", no_wrap=True)
    for name, row in levels.iterrows():
        words = []
        for one in figures:
            known = not pd.isna(row[one])
            words.append(format_value(row[one], row["unit"]) if known else "–")
        table.add_row(visible(str(name)), *(str(row[one]) for one in counts), *words)
    return Group(quantity(levels["metric"].iloc[0]), Padding(table, (0, 0, 0, 2)))


def verdict_blocks(family: Family, *, two: bool = False) -> list[RenderableType]:
    """Return the counts, a table for each metric and what its names share, and footnotes.

    `two`: of two measurements, before and after. The worst come first.
    """
    blocks: list[RenderableType] = [family.summary]
    footnotes: dict[str, int] = {}
    ordered = sorted(family, key=lambda c: VERDICT_ORDER.index(c.verdict))
    metrics = list(dict.fromkeys(c.metric for c in ordered))

    def subject(c: Comparison) -> tuple[int, str]:
        return metrics.index(c.metric), "" if two else c.context

    subjects = list(dict.fromkeys(map(subject, ordered)))
    ordered.sort(key=lambda c: subjects.index(subject(c)))
    for (number, context), group in groupby(ordered, key=subject):
        comparisons = list(group)
        heading = quantity(metrics[number]) + (f": {context}" if context else "")
        sizes = {size(c, before_first=two) for c in comparisons}
        sized = len(sizes) > 1
        if not sized:
            heading += f", n = {sizes.pop()}"
        table = _table(comparisons, footnotes, two=two, sized=sized)
        blocks.append(Group(visible(heading), table))
    notes = [f"[{number}] {note}" for note, number in footnotes.items()]
    blocks.append(visible("\n".join([*notes, *family.warnings, family.note])))
    return blocks


def _table(
    comparisons: list[Comparison],
    footnotes: dict[str, int],
    *,
    two: bool,
    sized: bool,
) -> RenderableType:
    """Return a row a comparison, and number its notes; columns without content are left out."""
    heads = ["before", "after"] if two else ["condition", "baseline"]
    rows = []
    for c in comparisons:
        marks = [
            str(footnotes.setdefault(note, len(footnotes) + 1)) for note in _notes(c)
        ]
        verdict = UNDECIDED.get(c.verdict, str(c.verdict))
        # both columns, the number of runs and the limits have one order
        order = -1 if two else 1
        unit = METRICS[c.metric].unit if c.metric in METRICS else ""
        first, second = c.medians
        baseline = second if c.threshold is None else c.threshold
        limits = dict.fromkeys(limit for limit in c.limited_by[::order] if limit)
        rows.append(
            [
                c.context if two else " / ".join(c.names),
                *(format_value(v, unit) for v in (first, baseline)[::order]),
                _change(c),
                f"{verdict} [{', '.join(marks)}]" if marks else verdict,
                size(c, before_first=two) if sized else "",
                " / ".join(limits) if {*limits} - {UNKNOWN} else "",
            ]
        )
    table = Table(box=None, pad_edge=False)
    columns = zip(["", *heads, "change", "", "n", "limited by"], *rows, strict=True)
    filled = [(head, cells) for head, *cells in columns if any(cells)]
    for position, (head, _) in enumerate(filled):
        is_number = head in (*heads, "change", "n")
        is_wrapped = position == 0 or head == "limited by"
        table.add_column(
            head, justify="right" if is_number else "left", no_wrap=not is_wrapped
        )
    for cells in zip(*(cells for _, cells in filled), strict=True):
        table.add_row(*map(visible, cells))
    return Padding(table, (0, 0, 0, 2))


def _notes(c: Comparison) -> list[str]:
    """Return why a comparison is not decided, and what is uncertain about it."""
    reason = c.reason
    if c.more_rounds:
        reason = f"about {c.more_rounds} more {c.counted}s would decide it"
    return [*([reason] if reason and c.verdict in UNDECIDED else []), *c.warnings]


def _change(c: Comparison) -> str:
    """Return the effect where it is decided, else its interval."""
    interval = span(c.ratio, c.low, c.high, short=True).strip("–")
    is_open = c.verdict in (*UNDECIDED, "exploratory")
    return interval if is_open and interval else effect(c.ratio)
