"""Tables that show themselves with units and a caption; they stay data frames."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pandas as pd

from ..experiment.factors import FACTORS
from ..metrics import METRICS, format_value, plural
from .lines import levels_text
from .words import as_markdown

LEVEL = ("median", "low", "high", "smallest", "largest")
"""Columns of a table of levels that have the unit of the metric."""
SHARE = ("confidence", "variation", "slowest")
"""Columns that are shares."""
BPS = ("slowest_stream", "fastest_stream")
"""Columns in bit/s that are no metric."""
HEADINGS = {"n": "Runs", "low": "Lower end", "high": "Upper end"}

_ONE = r"[-−+±]?\s*[\d.,]*\d[\d.,]*(?:e[-+]?\d+)?\s*[^\s\d]{0,7}(?:/s)?"
NUMBER = re.compile(rf"{_ONE}(?: to {_ONE})?")


def numeric(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers, with or without a unit; missing values do not count."""
    filled = [
        c for c in cells if c.strip() not in ("", "–", "-", "NaN", "nan", "None", "NaT", "<NA>")
    ]
    return bool(filled) and all(NUMBER.fullmatch(c.strip()) for c in filled)


class Table(pd.DataFrame):
    """A data frame that shows all of its rows in words: values with units, a dash for a missing one, a caption.

    Computations with it give plain data frames. A table without rows says so; columns without values are hidden.
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
            Metric that gives the unit of the columns of a level (median, low, high, smallest, largest).
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

    def content(self) -> dict[str, Any]:
        """Return what the report typesets: caption, columns, and rows as text."""
        caption, metric = self.caption, self.metric
        frame = pd.DataFrame(self.reset_index() if self.index.name else self).rename(columns=str)
        # a failure is worth a column, none is not
        columns = [
            str(c)
            for c in frame
            if (frame[c].any() if c in ("failed", "missing") else frame[c].notna().any())
        ]
        names = dict(self.headings or {c: _heading(c) for c in columns})
        plain = frame[list(names)]
        if metric is not None and len(plain) > 1 and caption:
            same = [
                c
                for c in ("n", "confidence")
                if c in names and len({*plain[c].dropna()}) == 1 and plain[c].notna().all()
            ]
            words = [_same_words(c, plain[c].iloc[0]) for c in same]
            caption = f"{caption.rstrip('.')}{''.join(f'; {w}' for w in words)}."
            names = {c: name for c, name in names.items() if c not in same}
        units = {
            c: METRICS[c].unit if c in METRICS else "ratio" if c in SHARE else None for c in names
        }
        units |= {c: "bps" for c in BPS if c in names} | {
            c: "bytes" for c in names if c.endswith("_bytes")
        }
        units |= {c: METRICS[metric].unit for c in LEVEL if c in names and metric is not None}
        rows = [
            [_cell(v, units[c]) for c, v in zip(names, row, strict=True)]
            for row in plain[list(names)].astype(object).itertuples(index=False, name=None)
        ]
        return {"kind": "table", "caption": caption, "columns": list(names.values()), "rows": rows}

    def __repr__(self) -> str:
        """The levels of conditions as lines; pandas would leave out their figures on a terminal."""
        metric = self.metric
        if metric is None or self.index.name != "condition" or not {"n", *LEVEL[:3]} <= set(self):
            return super().__repr__()
        return levels_text(self.reset_index(), metric)

    def _repr_markdown_(self) -> str:
        if self.empty:  # pandas would show the headings
            return ""
        content = self.content()
        table = markdown_table(content["columns"], content["rows"])
        caption = content["caption"]
        return f"*{as_markdown(caption)}*\n\n{table}" if caption else table

    def _repr_html_(self) -> None:
        """Nothing: the markdown is what is shown."""


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in markdown; numbers stand to the right, and every cell is text."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
    sides = ["---:" if numeric(column) else ":---" for column in columns]
    lines = [_line(header), f"|{'|'.join(sides)}|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    words = (as_markdown(str(cell).replace("\n", "; ")) for cell in cells)
    return f"| {' | '.join(words)} |"


def _same_words(column: str, value: float) -> str:
    """What a caption says instead of a column that is the same in all rows."""
    return (
        f"{plural(int(value), 'run')} each" if column == "n" else f"confidence {100 * value:.4g} %"
    )


def _cell(value: Any, unit: str | None) -> str:
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit is not None:
        return format_value(float(value), unit)
    if isinstance(value, float):
        return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, list | tuple | set):
        return ", ".join(map(str, value))
    return str(value)


def _heading(name: str) -> str:
    if name in HEADINGS:
        return HEADINGS[name]
    described = METRICS.get(name) or FACTORS.get(name)
    words = (described and described.label) or name.replace("_", " ")
    return words[:1].upper() + words[1:]
