"""Tables that fit a page: widths, sizes, and parts for a table that is too wide for any size."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..questions.tables import numeric

WIDTH = 170.0
"""Millimetres between the margins."""
CHARACTER = 1.64
"""Millimetres of an average character at nine points."""
GAP = 3.2
"""Millimetres that a column's padding takes at nine points."""
LONG = (34, 24, 17)
"""Characters above which a column of text wraps: the first with which a table fits."""
READABLE = 8.0
"""Points below which a table is made smaller only when wrapping does not help."""
SMALLEST = 6.5
"""Points below which a table is cut into parts rather than made smaller."""


def fitted(
    header: Sequence[Sequence[str]], rows: Sequence[Sequence[str]], *, caption: str | None
) -> dict[str, Any]:
    """Lay a table out: every cell of every row is kept.

    Returns ``caption``, ``size`` in points, and ``parts``, each with ``header`` (one or more rows), ``rows``,
    ``align``, ``widths`` (None: as wide as its content, else a share of what is left) and ``note``.
    """
    columns = list(zip(*header, *rows, strict=True))
    heads = len(header)
    right = [numeric(c[heads:]) for c in columns]
    # a heading may wrap at its spaces, a number never
    longest = [
        max(
            [max(map(len, h.split() or [""])) for h in c[:heads]] + [len(x) for x in c[heads:]],
            default=0,
        )
        for c in columns
    ]
    for long, least in [(n, READABLE) for n in LONG] + [(n, SMALLEST) for n in LONG]:
        wraps = [n > long and not r for n, r in zip(longest, right, strict=True)]
        need = [
            (min(n, long) if w else max(n, 2)) * CHARACTER + GAP
            for n, w in zip(longest, wraps, strict=True)
        ]
        if sum(need) * least / 9 <= WIDTH:
            break
    size = 9.0 if sum(need) <= WIDTH else max(SMALLEST, 9 * WIDTH / sum(need))
    room = WIDTH * 9 / size
    parts: list[list[int]] = [[]]
    used = 0.0
    for i, width in enumerate(need):
        if parts[-1] and used + width > room * 1.001:
            parts.append([0])
            used = need[0]
        parts[-1].append(i)
        used += width
    return {
        "caption": caption,
        "size": round(size, 2),
        "parts": [
            {
                "header": [
                    [h[i] if wraps[i] else textwrap.fill(h[i], max(longest[i], 14)) for i in part]
                    for h in header
                ],
                "rows": [[breakable(r[i]) for i in part] for r in rows],
                "align": ["right" if right[i] else "left" for i in part],
                # one long cell does not squeeze the other columns to one word per line
                "widths": [round(math.sqrt(longest[i]), 2) if wraps[i] else None for i in part],
                "note": f"Columns {part[1] + 1 if n else 1} to {part[-1] + 1} of {len(columns)}",
            }
            for n, part in enumerate(parts)
        ],
    }


def breakable(text: str) -> str:
    """Let a word that is longer than a column break after punctuation, or anywhere when it has none."""
    return re.sub(
        r"\S{28,}", lambda w: re.sub(r"([/_.:,;=-]|[^/_.:,;=-]{24})", "\\1\u200b", w[0]), text
    )


@dataclass
class HtmlTable:
    """A table read from HTML, its spans filled."""

    header: list[list[str]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    caption: str | None = None


def parse(html: str) -> list[HtmlTable]:
    """Read the tables of a piece of HTML; every row has as many cells as the widest."""
    from bs4 import BeautifulSoup  # the library's own pages hold no table of HTML

    tables = []
    soup: Any = BeautifulSoup(html, "html.parser")
    for tag in soup.find_all("table"):
        table = HtmlTable(caption=_words(tag.caption) if tag.caption else None)
        down: dict[int, tuple[int, str]] = {}
        for line in tag.find_all("tr"):
            head, cells = (
                line.find_parent("thead") is not None,
                line.find_all(["td", "th"], recursive=False),
            )
            row: list[str] = []
            for cell in cells:
                for i in range(int(cell.get("colspan") or 1)):
                    _fill(row, down)
                    text = _words(cell) if i == 0 or head else ""
                    if (deep := int(cell.get("rowspan") or 1)) > 1:
                        down[len(row)] = (deep - 1, text)
                    row.append(text)
            _fill(row, down)
            heads = head or (not table.rows and all(cell.name == "th" for cell in cells))
            if row:
                (table.header if heads else table.rows).append(row)
        wide = max(map(len, [*table.header, *table.rows]), default=0)
        for row in [*table.header, *table.rows]:
            row += [""] * (wide - len(row))
        table.header = table.header or [[""] * wide]
        if table.rows or any(map(any, table.header)):
            tables.append(table)
    return tables


def _fill(row: list[str], down: dict[int, tuple[int, str]]) -> None:
    """Put what spans down from rows above where it belongs: `down` holds by column how many rows are left."""
    while len(row) in down:
        at = len(row)
        left, text = down.pop(at)
        if left > 1:
            down[at] = (left - 1, text)
        row.append(text)


def _words(tag: Any) -> str:
    return " ".join("\n".join(tag.strings if tag.br else [tag.get_text()]).split())
