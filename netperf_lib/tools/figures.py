"""A table of figures that were measured elsewhere: a row a run, a column a metric or factor.

Columns are named as the library names its metrics and factors; any other column is a label.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable

from ..errors import ParseError
from ..metrics import METRICS, unknown_metric
from .parsed import ParsedRun

NAME = "figures"
MARKS = ("_",)
STATES_CONDITIONS = True
_ENDS = re.compile(r"_(?:us|bps|per_s|ratio|count)$")
"""The units of metrics that no factor has."""


def find_runs(text: str) -> Iterable[int]:
    """Yield the start of the table if the text is one."""
    names = _names(text)
    # a table in which each name of a metric is misspelled is one, too
    near = len(names) > 1 and any(map(_ENDS.search, names))
    return [0] if near or METRICS.keys() & {*names} else []


def _separator(text: str) -> str:
    """Return what stands between two cells: the one that is most often in the header."""
    return max(",;\t", key=text.partition("\n")[0].count)


def _names(text: str) -> list[str]:
    header = text.partition("\n")[0].replace('"', "")
    return [name.strip() for name in header.split(_separator(text))]


def read(text: str) -> list[ParsedRun]:
    """Read each row as a run; ParseError if a column or a cell cannot be read."""
    separator = _separator(text)
    rows = csv.reader(text.splitlines(), skipinitialspace=True, delimiter=separator)
    names = [name.strip() for name in next(rows)]
    for name in names:
        if _ENDS.search(name) and name not in METRICS:
            raise _refused(1, unknown_metric(name))
        if names.count(name) > 1 or not name:
            raise _refused(1, f"the column {name!r} is there twice, or has no name")
    return [
        _run(names, cells, rows.line_num, separator)
        for cells in rows
        if any(map(str.strip, cells))
    ]


def _run(names: list[str], cells: list[str], line: int, separator: str) -> ParsedRun:
    if len(cells) != len(names):
        raise _refused(line, f"{len(cells)} cells under {len(names)} columns")
    run = ParsedRun(tool=NAME, line=line)
    for name, cell in zip(names, map(str.strip, cells), strict=True):
        if name in METRICS and cell:
            # spreadsheets that separate cells by semicolons write decimal commas
            number = cell if separator == "," else cell.replace(",", ".")
            run.metrics[name] = _number(name, number, line)
        elif cell:
            run.parameters[name] = cell
    if run.metrics:
        run.status = "ok"
    else:
        run.error = "the row has no figure"
    return run


def _number(name: str, cell: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise _refused(
            line, f"{name} is {cell!r}; write a number in {METRICS[name].unit}"
        )
    return value


def _refused(line: int, message: str) -> ParseError:
    return ParseError(f"line {line}: {message}", file=None)
