"""What the command line prints, made of values: rich lays it out as wide as the terminal."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

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
_WORDS = ("", _VERDICT, "limited by")
"""Heads of columns that are no numbers."""


def text(blocks: Iterable[RenderableType], width: int | None = None) -> str:
    """Return blocks as text, an empty line between them; `width` None: that of the terminal."""
    console = Console(
        file=io.StringIO(),
        width=width or Console().width,
        markup=False,
        highlight=False,
        emoji=False,
        no_color=True,
    )
    with console.capture() as captured:
        for block in blocks:
            console.print(block)
            console.print()
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def _grid(rows: Sequence[Mapping[Any, str]]) -> RenderableType:
    """Return a table of rows that have the same heads; columns without content are left out."""
    table = Table(box=None, pad_edge=False)
    cells = pd.DataFrame(rows).map(visible)
    cells = cells.loc[:, ~cells.isin(["", "–"]).all()]
    for head in cells:
        justify: Literal["left", "right"] = "left" if head in _WORDS else "right"
        # the widest columns take several lines first; a word is never cut off
        table.add_column(str(head), justify=justify, overflow="fold")
    for row in cells.itertuples(index=False):
        table.add_row(*row)
    return Padding(table, (0, 0, 0, 2))


def levels_block(levels: pd.DataFrame) -> RenderableType:
    """Return the level of each condition, as `netperf_lib.levels` has them."""
    counts = [name for name in ("n", "failed", "missing") if levels[name].any()]
    rows = []
    for name, level in levels.iterrows():
        cells = {"": str(name)} | level[counts].map(str).to_dict()
        for figure in ("median", "low", "high"):
            cells[figure] = format_value(level[figure], level["unit"])
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
        heading = quantity(metric)
        if context:
            heading += f": {context}"
        rows = [_row(c, footnotes, two=two) for c in comparisons]
        sizes = {row["n"] for row in rows}
        if len(sizes) == 1:
            heading += f", n = {sizes.pop()}"
            rows = [row | {"n": ""} for row in rows]
        blocks.append(Group(visible(heading), _grid(rows)))
    notes = [f"[{number}] {note}" for note, number in footnotes.items()]
    note = replace(family, notice=None).note
    blocks.append(visible("\n".join([*notes, *family.warnings, note])))
    return blocks


def _row(c: Comparison, footnotes: dict[str, int], *, two: bool) -> dict[str, str]:
    """Return the cells of a comparison by their heads, and add its notes to the footnotes."""
    unit = METRICS[c.metric].unit if c.metric in METRICS else ""
    first, second = c.medians
    if c.threshold is not None:
        second = c.threshold
    values = [format_value(first, unit), format_value(second, unit)]
    limits = [limit for limit in c.limited_by if limit]
    name, heads = " / ".join(c.names), ["condition", "baseline"]
    if two:
        name, heads = c.context, ["before", "after"]
        values.reverse()
        limits.reverse()
    if {*limits} <= {UNKNOWN}:
        limits = []
    notes = [*c.warnings]
    if c.verdict in UNDECIDED:
        why = c.reason
        if c.more_rounds:
            why = f"about {c.more_rounds} more {c.counted}s would decide it"
        notes.insert(0, why)
    numbers = [footnotes.setdefault(n, len(footnotes) + 1) for n in notes if n]
    verdict = UNDECIDED.get(c.verdict, str(c.verdict))
    return {
        "": name,
        heads[0]: values[0],
        heads[1]: values[1],
        "change": _change(c),
        _VERDICT: f"{verdict} {numbers or ''}",
        "n": size(c, before_first=two),
        "limited by": " / ".join(dict.fromkeys(limits)),
    }


def _change(c: Comparison) -> str:
    """Return the effect where it is decided, else its interval."""
    interval = span(c.ratio, c.low, c.high, short=True).strip("–")
    is_open = c.verdict in (*UNDECIDED, "exploratory")
    if is_open and interval:
        return interval
    return effect(c.ratio)


def compared(
    family: Family,
    *,
    lead: Sequence[str] = (),
    levels: pd.DataFrame | None = None,
    two: bool = False,
) -> str:
    """Return what `npl compare` prints: what page one says, levels, and verdicts."""
    blocks: list[RenderableType] = []
    if family.notice:
        blocks.append(visible(family.notice))
    if lead:
        blocks.append(visible("\n".join(lead)))
    if levels is not None:
        blocks.append(levels_block(levels))
    return text([*blocks, *verdict_blocks(family, two=two)])
