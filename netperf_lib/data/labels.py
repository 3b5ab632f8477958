"""Labels of logs.

A table with a row for each log or pattern of logs, or the structure of the logs' paths.
"""

from __future__ import annotations

import fnmatch
import io
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..errors import CONTROL, UsageError, did_you_mean, of_cell
from ..experiment.factors import FACTORS, FLAGS, is_reserved
from ..experiment.placements import PLACEMENTS
from ..quantities import read_quantity
from .files import Location

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: dict[str, str] = {
    **{
        name: f.unit if f.unit and f.kind != "text" else f.kind
        for name, f in FACTORS.items()
    },
    "placement": "placement",
    "round": "integer",
    "deployment": "integer",
    "started_utc": "time",
    "bandwidth_mbps": "number",
}
"""Columns with a meaning of their own, and the kind of their values; any other is a user's
factor."""
FILE, RUN = "file", "run"
"""Columns that identify the log of a row: its path or a pattern, and the number of the run in
it."""
_KNOWN = (*COLUMNS, FILE, RUN)
_WRITTEN = {
    "integer": "a whole number",
    "flag": "on or off",
    "time": "a time such as 2026-11-03T14:05:00Z",
}
"""How a value of a kind is written; a number otherwise."""
_REPETITIONS = {"run", "rep", "repeat", "repetition", "iter", "iteration"}
"""What people call a number of a repetition: a round, or nothing that runs have in common."""
_CLOSE = 0.8
"""Similarity to a known column from which on a column counts as misspelled."""
LONGEST = 200
_LARGEST = 2**53


@dataclass
class LabelRow:
    """A row of a table of labels."""

    where: str
    cells: dict[str, Any]
    used: bool = False
    """Whether there is a run that it is about."""

    def is_about(self, index: int) -> bool:
        """Return whether it is about the run of this index in its log."""
        return str(self.cells.get(RUN, index + 1)).strip().removesuffix(".0") == str(
            index + 1
        )


class LabelTable:
    """A table of labels."""

    def __init__(self, rows: list[LabelRow], source: str) -> None:
        self.rows, self.source = rows, source
        self._exact: dict[str, list[LabelRow]] = {}
        self._patterns = []
        for row in rows:
            text = str(row.cells[FILE])
            self._exact.setdefault(text, []).append(row)
            if set("*?[") & set(text):
                self._patterns.append((re.compile(fnmatch.translate(text)).match, row))

    def find(self, name: str, path: Path) -> list[LabelRow]:
        """Return the rows that name a log, else those whose pattern matches it."""
        spellings = dict.fromkeys((name, PurePosixPath(name).name, path.as_posix()))
        rows = [row for text in spellings for row in self._exact.get(text, ())]
        return rows or [
            row for match, row in self._patterns if any(map(match, spellings))
        ]

    def refuse_unused(self) -> None:
        """Raise UsageError if a row is about no run."""
        if unused := [row for row in self.rows if not row.used]:
            row, others = unused[0], len(unused) - 1
            what = "it matches no log"
            if RUN in row.cells:
                about = f"it matches no run {row.cells[RUN]} of a log"
                what = f"{about}; round is the number of a repetition"
            more = f", as do {others:,} more rows" if others else ""
            raise UsageError(f"{row.where} ({row.cells[FILE]!r}): {what}{more}")


_AS_TEXT: dict[str, Any] = {
    "dtype": str,
    "keep_default_na": False,
    "na_values": ["", "nan", "NaN", "#N/A"],
}
"""Cells as they are written: pandas would also take ``None`` and ``NA`` for empty."""


def read_labels(labels: pd.DataFrame | Location) -> LabelTable:
    """Read labels: CSV as spreadsheets write it, or a DataFrame."""
    import pandas as pd

    if isinstance(labels, pd.DataFrame):
        return _table(labels, "labels")
    source = os.fspath(labels)
    try:
        text = Path(labels).read_text("utf-8-sig")
        separator = max(",;\t", key=text.lstrip().partition("\n")[0].count)
        table = pd.read_csv(
            io.StringIO(text), sep=separator, skipinitialspace=True, **_AS_TEXT
        )
    except (OSError, ValueError) as error:
        how = f"cannot be read as a table of labels ({error}); save it as CSV in UTF-8"
        raise UsageError(f"{source}: {how}") from None
    return _table(table, source)


def _table(table: pd.DataFrame, source: str) -> LabelTable:
    """Rows of a table; UsageError if a column is missing, misspelled or given twice."""
    filled = table.dropna(axis="columns", how="all") if len(table) else table
    names = [str(heading).strip() for heading in filled.columns]
    names = ["started_utc" if name == "started" else name for name in names]
    for name in {*names} - {RUN}:
        check_name(name, f"{source}: column {name[:60]!r}")
    if FILE not in names or len({*names}) < len(names):
        how = f"one column {FILE!r}, for a log or a pattern such as a*, and each other column once"
        raise UsageError(f"{source}: needs {how}")
    cells = (
        filled.astype(object).where(filled.notna(), "").set_axis(names, axis="columns")
    )
    rows = []
    for number, row in enumerate(cells.to_dict("records"), 2):  # the header is line 1
        given = {str(name): value for name, value in row.items() if str(value).strip()}
        given |= {
            name: of_cell(value)
            for name, value in given.items()
            if isinstance(value, str)
        }
        if FILE not in given:
            raise UsageError(f"{source}:{number}: the cell {FILE!r} is empty; name a log")
        rows.append(LabelRow(f"{source}:{number}", given))
    return LabelTable(rows, source)


def check_name(name: str, where: str) -> None:
    """Raise UsageError if a label cannot have this name."""
    wrong = _wrong_text(name)
    if name.lower() in _REPETITIONS:
        wrong = (
            "call it round if the runs of one number were measured together, and leave it out "
            "(in a pattern: *) if they were not"
        )
    elif name not in _KNOWN and is_reserved(name):
        wrong = "a name that the library uses itself; rename the label"
    elif name not in _KNOWN and (near := did_you_mean(name, _KNOWN, cutoff=_CLOSE)):
        wrong = f"unknown; {near.rstrip()}"
    if wrong:
        raise UsageError(f"{where}: {wrong}")


def path_reader(pattern: str) -> Callable[[str], dict[str, str] | None]:
    """Return a function that reads the labels in the end of a path; None if it has another form."""
    names = re.findall(r"\{(\w+)\}", pattern)
    if not names:
        example = "write for example {placement}/{tool}-r{round}.txt"
        raise UsageError(f"the pattern {pattern!r} contains no label; {example}")
    for name in names:
        check_name(name, f"{{{name}}} in the pattern {pattern!r}")
    expression = ""
    for part in re.split(r"(\{\w+\}|\*)", pattern):
        name = part[1:-1]
        if part == "*":
            expression += "[^/]*"
        elif part[:1] != "{":
            expression += re.escape(part)
        elif f"(?P<{name}>" in expression:
            expression += f"(?P={name})"
        else:
            expression += (
                f"(?P<{name}>{'[0-9]+' if COLUMNS.get(name) == 'integer' else '[^/]+?'})"
            )
    match = re.compile(rf"(?:^|.*/){expression}$").match

    def read(path: str) -> dict[str, str] | None:
        found = match(path)
        return found and found.groupdict()

    return read


Cells = Mapping[str, tuple[str, Any]]
"""Values of labels as they are written, each with where it stands."""


def typed(cells: Cells) -> dict[str, Any]:
    """Return the values of labels, each of the kind of its column.

    UsageError for one that is not.
    """
    values: dict[str, Any] = {}
    for column, (where, cell) in cells.items():
        kind, text = COLUMNS.get(column, "text"), str(cell)
        wrong = _wrong_text(text)
        try:
            values[column] = _value(kind, text.strip())
        except (LookupError, ValueError, OverflowError):
            wrong = wrong or f"write {_WRITTEN.get(kind, 'a number')}"
        if wrong:
            raise UsageError(f"{where}: {column} is {text[:60]!a}; {wrong}")
    if "bandwidth_mbps" in values:
        values.setdefault("advertised_bps", values.pop("bandwidth_mbps") * 1e6)
    return values


def _value(kind: str, text: str) -> Any:
    if kind == "text":
        return text
    if kind == "placement":
        spelled = re.sub(r"[\s_]+", "-", text.lower())
        return spelled if spelled in PLACEMENTS else text
    if kind == "time":
        return datetime.fromisoformat(text).isoformat()
    if kind == "flag":
        return FLAGS[text.lower().removesuffix(".0")]
    number = read_quantity(text, kind if kind in ("bytes", "bps", "s") else "")
    if not 0 <= number < _LARGEST or (kind == "integer" and number % 1):
        raise ValueError(text)
    return int(number) if kind in ("integer", "bytes") else number


def is_one_line(text: str) -> bool:
    """Return whether a label or name can be shown whole, without breaks of lines."""
    return not CONTROL.search(text) and len(text.splitlines()) <= 1


def _wrong_text(label: str) -> str | None:
    if is_one_line(label) and len(label) <= LONGEST:
        return None
    return f"remove the control characters, and write at most {LONGEST} characters"
