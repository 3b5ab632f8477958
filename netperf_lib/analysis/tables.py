"""Tables that show themselves with units and a caption; they stay data frames."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd

from ..experiment.factors import FACTORS
from ..metrics import METRICS, format_value
from .words import as_markdown

LEVEL = ("median", "low", "high", "smallest", "largest")
"""Columns of a table of levels that have the unit of the metric."""
SHOWN_OF_LEVELS = ("Runs", "Median", "Lower end", "Upper end", "Failed", "Missing")
"""Columns of a table of levels that a terminal shows."""
TEXT_WIDTH = 80
"""Characters on a line of a terminal."""
HEADINGS = {"n": "Runs", "low": "Lower end", "high": "Upper end"}

_ONE = r"[-−+±]?\s*[\d.,]*\d[\d.,]*(?:e[-+]?\d+)?\s*[^\s\d]{0,7}(?:/s)?"
NUMBER = re.compile(rf"{_ONE}(?: to {_ONE})?")


def numeric(cells: Sequence[str]) -> bool:
    """Return whether a column holds numbers, with or without a unit, where it holds anything."""
    filled = [cell.strip() for cell in cells if cell.strip() not in ("", "–")]
    return bool(filled) and all(map(NUMBER.fullmatch, filled))


class Table(pd.DataFrame):
    """A data frame that shows all of its rows in words.

    Values with units, a dash for a missing one, a caption.

    Computations with it give plain data frames. A table without rows says so; columns without
    values are hidden.
    """

    # pandas' name for attributes that are no columns
    _metadata: ClassVar = ["caption", "headings", "metric", "deployments", "notice"]
    caption: str | None = None
    headings: Mapping[str, str] | None = None
    metric: str | None = None
    deployments: int = 1
    notice: str | None = None

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        caption: str | None = None,
        *,
        metric: str | None = None,
        columns: Mapping[str, str] | None = None,
        deployments: int = 1,
        notice: str | None = None,
    ) -> Table:
        """Make such a table.

        Parameters
        ----------
        frame : DataFrame
            The rows. A column named as a metric is shown with its unit.
        caption : str, optional
            What it shows.
        metric : str, optional
            Metric that gives the unit of the columns of a level (median, low, high, smallest,
            largest).
        columns : dict, optional
            Columns to show, and their headings; default all.
        deployments : int
            Deployments behind a table of levels.
        notice : str, optional
            The caveat to show with it.
        """
        table = cls(frame)
        table.caption, table.headings = caption, columns
        table.metric, table.deployments, table.notice = metric, deployments, notice
        return table

    @property
    def shown(self) -> pd.DataFrame:
        """The headings and the cells as text."""
        frame = pd.DataFrame(self.reset_index() if self.index.name else self).rename(
            columns=str
        )
        # a failure is worth a column, none is not
        counts = frame.reindex(columns=["failed", "missing"]).fillna(0)
        hidden = [c for c in counts if not counts[c].any()]
        if "condition" in frame:  # its name says the levels of the factors
            hidden += FACTORS
        columns = frame.drop(columns=hidden, errors="ignore").dropna(
            axis="columns", how="all"
        )
        names = self.headings or {c: _heading(c) for c in map(str, columns)}
        cells = {
            head: [_cell(v, self._unit(c)) for v in frame[c]] for c, head in names.items()
        }
        return pd.DataFrame(cells, dtype=object)

    def _unit(self, column: str) -> str | None:
        """Unit of the numbers of a column; None: they have none."""
        if self.metric is not None and column in LEVEL:
            return METRICS[self.metric].unit
        if column in METRICS:
            return METRICS[column].unit
        return "ratio" if column == "confidence" else None

    def __repr__(self) -> str:
        """All rows as text; of a table of levels the figures."""
        table = self.shown
        first = textwrap.wrap(self.notice or "", TEXT_WIDTH)
        if self.metric is None or "Condition" not in table:
            return "\n".join([*first, table.to_string(index=False)])
        figures = table[[c for c in SHOWN_OF_LEVELS if c in table]]
        return "\n".join([*first, *beside_names(list(table["Condition"]), figures)])

    def _repr_markdown_(self) -> str:
        if self.empty:  # pandas would show the headings
            return ""
        shown = self.shown
        first = f"> {as_markdown(self.notice)}" if self.notice else ""
        caption = f"*{as_markdown(self.caption)}*" if self.caption else ""
        table = markdown_table([*map(str, shown)], shown.to_numpy().tolist())
        return "\n\n".join(filter(None, [first, caption, table]))

    def _repr_html_(self) -> None:
        """Nothing: the markdown is what is shown."""


def beside_names(names: Sequence[str], table: pd.DataFrame) -> list[str]:
    """Return a head, and rows of names and figures.

    Where there is no room beside it, a name has a line of its own.
    """
    columns = [[str(head), *map(str, table[head])] for head in table]
    widths = [max(map(len, column)) for column in columns]
    right = [
        [c.rjust(w) for c in column] for column, w in zip(columns, widths, strict=True)
    ]
    gap = "  " if sum(widths) + 2 * len(widths) <= TEXT_WIDTH else " "
    figures = [gap.join(row) for row in zip(*right, strict=True)]
    room = TEXT_WIDTH - 4 - len(figures[0])
    wide = max(0, min(room, max(map(len, names))))
    indent = "  " if room > -3 else ""
    whole = []
    for name, line in zip(["", *names], figures, strict=True):
        if len(name) > wide:
            whole.append(f"{indent}{name}")
        beside = name if len(name) <= wide else ""
        whole.append(f"{indent}{f'{beside:{wide}}  ' if wide else ''}{line}".rstrip())
    return whole


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in markdown; numbers stand to the right, and every cell is text."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
    sides = ["---:" if numeric(column) else ":---" for column in columns]
    lines = [_line(header), f"|{'|'.join(sides)}|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    words = (as_markdown(str(cell).replace("\n", "; ")) for cell in cells)
    return f"| {' | '.join(words)} |"


def _cell(value: Any, unit: str | None) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if pd.isna(value):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit is not None:
        return format_value(float(value), unit)
    if isinstance(value, float):
        return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"
    return str(value)


def _heading(name: str) -> str:
    described = METRICS.get(name) or FACTORS.get(name)
    words = (
        HEADINGS.get(name) or (described and described.label) or name.replace("_", " ")
    )
    return words[:1].upper() + words[1:]
