"""What the command line prints, made of values: rich lays it out as wide as the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

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


_VERDICT = " "
"""The head of the verdicts, which need none."""
_WRAPPED = ("", "limited by")
_WORDS = (*_WRAPPED, _VERDICT)
"""Heads of columns that are no numbers."""


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


def _grid(rows: Sequence[Mapping[str, str]]) -> RenderableType:
    """Return a table of rows that have the same heads; columns without content are left out."""
    table = Table(box=None, pad_edge=False)
    heads = [head for head in rows[0] if any(row[head].strip("–") for row in rows)]
    for head in heads:
        justify: Literal["left", "right"] = "left" if head in _WORDS else "right"
        table.add_column(head, justify=justify, no_wrap=head not in _WRAPPED)
    for row in rows:
        table.add_row(*(visible(row[head]) for head in heads))
    return Padding(table, (0, 0, 0, 2))


def levels_block(levels: pd.DataFrame) -> RenderableType:
    """Return the level of each condition, as `netperf_lib.levels` has them."""
    rows = []
    for name, level in levels.iterrows():
        cells = {"": str(name)}
        for count in ("n", "failed", "missing"):
            cells[count] = str(level[count]) if levels[count].any() else ""
        for figure in ("median", "low", "high"):
            value = None if pd.isna(level[figure]) else level[figure]
            cells[figure] = format_value(value, level["unit"])
        rows.append(cells)
    return Group(quantity(levels["metric"].iloc[0]), _grid(rows))


def verdict_blocks(family: Family, *, two: bool = False) -> list[RenderableType]:
    """Return the counts, a table for each metric and what its names share, and footnotes.

    `two`: of two measurements, before and after. The worst come first.
    """
    blocks: list[RenderableType] = [family.summary]
    footnotes: dict[str, int] = {}
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for c in sorted(family, key=lambda c: VERDICT_ORDER.index(c.verdict)):
        groups.setdefault((c.metric, "" if two else c.context), []).append(c)
    for (metric, context), comparisons in groups.items():
        heading = quantity(metric) + (f": {context}" if context else "")
        sizes = {size(c, before_first=two) for c in comparisons}
        if len(sizes) == 1:
            heading += f", n = {sizes.pop()}"
        table = _table(comparisons, footnotes, two=two, sized=bool(sizes))
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
    """Return a row a comparison, and number its notes."""
    heads = ["before", "after"] if two else ["condition", "baseline"]
    # both medians, the number of runs and the limits have one order
    order = -1 if two else 1
    rows = []
    for c in comparisons:
        verdict = UNDECIDED.get(c.verdict, str(c.verdict))
        numbers = [footnotes.setdefault(n, len(footnotes) + 1) for n in _notes(c)]
        if numbers:
            verdict += f" [{', '.join(map(str, numbers))}]"
        unit = METRICS[c.metric].unit if c.metric in METRICS else ""
        first, second = c.medians
        baseline = second if c.threshold is None else c.threshold
        medians = [format_value(v, unit) for v in (first, baseline)]
        limits = dict.fromkeys(limit for limit in c.limited_by[::order] if limit)
        cells = {"": c.context if two else " / ".join(c.names)}
        cells |= zip(heads, medians[::order], strict=True)
        cells |= {"change": _change(c), _VERDICT: verdict}
        cells["n"] = size(c, before_first=two) if sized else ""
        cells["limited by"] = " / ".join(limits) if {*limits} - {UNKNOWN} else ""
        rows.append(cells)
    return _grid(rows)


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
