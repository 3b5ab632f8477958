"""A table of figures that were measured elsewhere: a row a run, with metrics and factors as columns.

Columns are named as the library names its metrics and factors; any other column is a label.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable

from ..errors import ParseError
from ..metrics import METRICS, unknown_metric
from .draft import Draft
from .parsed import ParsedRun

NAME = "figures"
MARKS = ("_us", "_bps", "_per_s", "_ratio", "_count", "_bytes", "_s")
STATES_CONDITIONS = True
_ENDS = re.compile(r"_(?:us|bps|per_s|ratio|count)$")
"""The units of metrics that no factor has."""


def sightings(text: str) -> Iterable[int]:
    """Yield the start of the table if the text is one."""
    return [0] if METRICS.keys() & {*_cells(text.partition("\n")[0])} else []


def _cells(row: str) -> list[str]:
    return [name.strip() for name in row.split(max(",;\t", key=row.count))]


def read(text: str) -> list[ParsedRun]:
    """Read each row as a run; ParseError if a column or a cell cannot be read."""
    head = text.partition("\n")[0]
    names = _cells(head)
    for name in names:
        if _ENDS.search(name) and name not in METRICS:
            raise _refused(1, unknown_metric(name))
        if names.count(name) > 1 or not name:
            raise _refused(1, f"the column {name!r} is there twice, or has no name")
    rows = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=head.count))
    next(rows)
    return [_run(names, cells, rows.line_num) for cells in rows if any(map(str.strip, cells))]


def _run(names: list[str], cells: list[str], line: int) -> ParsedRun:
    if len(cells) != len(names):
        raise _refused(line, f"{len(cells)} cells under {len(names)} columns")
    row = {name: cell.strip() for name, cell in zip(names, cells, strict=True) if cell.strip()}
    draft = Draft(NAME, line)
    draft.metrics = {
        name: _number(name, row.pop(name), line)
        for name in names
        if name in METRICS and name in row
    }
    draft.parameters = row
    return draft.run() if draft.metrics else draft.run("failed", "the row has no figure")


def _number(name: str, cell: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise _refused(line, f"{name} is {cell!r}; write a number in {METRICS[name].unit}")
    return value


def _refused(line: int, message: str) -> ParseError:
    return ParseError(f"line {line}: {message}", file=None)
