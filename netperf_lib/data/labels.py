"""Labels of logs: a table with a row for each log or pattern of logs, or the structure of the logs' paths."""

from __future__ import annotations

import fnmatch
import io
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..errors import CONTROL, UsageError, did_you_mean, of_cell, pip_install
from ..experiment.factors import FACTORS, FLAGS, is_reserved
from ..experiment.placements import PLACEMENTS
from ..quantities import read_quantity
from .files import Location

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: dict[str, str] = {
    **{name: f.unit if f.unit and f.kind != "text" else f.kind for name, f in FACTORS.items()},
    "placement": "placement",
    "round": "integer",
    "deployment": "integer",
    "started_utc": "time",
    "bandwidth_mbps": "number",
}
"""Columns with a meaning of their own, and the kind of their values; any other is a user's factor."""
FILE, RUN = "file", "run"
"""Columns that identify the log of a row: its path or a pattern, and the number of the run in it."""
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
_MOST, _ALIKE = 20, 4
"""Problems that are shown at once, and those of one kind that are shown one by one."""


@dataclass
class Problems:
    """What is wrong with logs and labels: all of it is said at once."""

    found: dict[str, dict[str, None]] = field(default_factory=dict)
    """What is wrong, and where."""

    def add(self, where: str, what: str) -> None:
        """Note what is wrong at a place."""
        self.found.setdefault(what, {})[where] = None

    def refuse(self) -> None:
        """Raise UsageError if there is a problem."""
        lines = []
        for what, places in self.found.items():
            spots = [*places]
            if len(spots) > _ALIKE:
                spots = [f"{', '.join(spots[:3])} and {len(spots) - 3:,} more"]
            lines += [f"{spot}: {what}" for spot in spots]
        size = sum(map(len, self.found.values()))
        if size > 1:
            lines.insert(0, f"{size:,} problems, nothing was imported:")
        if len(lines) > _MOST:
            lines[_MOST:] = [f"and {len(lines) - _MOST:,} more"]
        if lines:
            raise UsageError("\n".join(lines))


@dataclass
class LabelRow:
    """A row of a table of labels."""

    where: str
    cells: dict[str, Any]
    matches: bool = False
    """Whether there is a log that it names."""
    used: bool = False
    """Whether that log has its run."""

    def is_about(self, index: int) -> bool:
        """Whether it is about the run of this index in its log."""
        return str(self.cells.get(RUN, index + 1)).strip().removesuffix(".0") == str(index + 1)


class LabelTable:
    """A table of labels."""

    def __init__(self, rows: Sequence[LabelRow], source: str) -> None:
        self.rows, self.source = rows, source
        self._exact: dict[str, list[LabelRow]] = {}
        self._patterns = []
        for row in rows:
            text = str(row.cells.get(FILE, ""))
            self._exact.setdefault(text, []).append(row)
            if set("*?[") & set(text):
                self._patterns.append((re.compile(fnmatch.translate(text)).match, row))

    def find(self, name: str, path: Path) -> list[LabelRow]:
        """Return the rows that name a log, else those whose pattern matches it."""
        spellings = dict.fromkeys((name, PurePosixPath(name).name, path.as_posix()))
        rows = [row for text in spellings for row in self._exact.get(text, ())]
        rows = rows or [row for match, row in self._patterns if any(map(match, spellings))]
        for row in rows:
            row.matches = True
        return rows

    def unused(self, problems: Problems) -> None:
        """Note the rows that are about no run."""
        for row in self.rows:
            name = row.cells.get(FILE)
            if name is None:
                what = f"the cell {FILE!r} is empty; name a log or a pattern"
                problems.add(row.where, what)
            elif not row.matches:
                problems.add(f"{row.where} ({name!r})", "it matches no log")
            elif not row.used:
                what = f"{RUN} is the number of a run in its log, and round that of a repetition"
                where = f"{row.where} ({name!r})"
                problems.add(where, f"no such log has a run {row.cells[RUN]}; {what}")


_AS_TEXT: dict[str, Any] = {
    "dtype": str,
    "keep_default_na": False,
    "na_values": ["", "nan", "NaN", "#N/A"],
}
"""Cells as they are written: pandas would also take ``None`` and ``NA`` for empty."""


def read_labels(labels: pd.DataFrame | Location) -> LabelTable:
    """Read labels: CSV as spreadsheets write it, the first sheet of an xlsx, or a DataFrame."""
    import pandas as pd

    if isinstance(labels, pd.DataFrame):
        return _table(labels, "labels")
    path, source = Path(labels), os.fspath(labels)
    try:
        if path.suffix.lower() == ".xlsx":
            return _table(pd.read_excel(path, **_AS_TEXT), source)
        text = _decoded(path.read_bytes())
        separator = max(",;\t", key=text.lstrip().partition("\n")[0].count)
        table = pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, **_AS_TEXT)
        return _table(table, source)
    except ImportError:
        how = f"{pip_install('openpyxl')}, or save as CSV"
        raise UsageError(f"xlsx needs the package openpyxl: {how}") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{source}: cannot be read as a table of labels ({error})") from None


def _decoded(data: bytes) -> str:
    """Text of a CSV file: UTF-16, UTF-8, else what Excel writes on Windows."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _table(table: pd.DataFrame, source: str) -> LabelTable:
    """Rows of a table; UsageError if a column is missing, misspelled or given twice."""
    problems = Problems()
    filled = table.dropna(axis="columns", how="all") if len(table) else table
    names = [_column(str(heading)) for heading in filled.columns]
    for name, count in Counter(names).items():
        if count > 1:
            problems.add(source, f"column {name!r} is given twice")
        wrong = None if name == RUN else wrong_name(name)
        if wrong:
            problems.add(source, f"column {name[:60]!r}: {wrong}")
    if FILE not in names:
        how = "it names the log of a row, or a pattern such as a*"
        problems.add(source, f"there is no column {FILE!r}; {how}")
    problems.refuse()
    cells = filled.astype(object).where(filled.notna(), "").set_axis(names, axis="columns")
    rows = []
    for number, row in enumerate(cells.to_dict("records"), 2):  # the header is line 1
        given = {f"{name}": _cell(value) for name, value in row.items() if str(value).strip()}
        rows.append(LabelRow(f"{source}:{number}", given))
    return LabelTable(rows, source)


def _cell(value: Any) -> Any:
    return of_cell(value) if isinstance(value, str) else value


def _column(heading: str) -> str:
    """Name of a column from its heading: ``TCP buffer bytes`` is ``tcp_buffer_bytes``."""
    plain_name = _plain(heading)
    return plain_name if plain_name in _KNOWN else _LABELS.get(plain_name, heading.strip())


def _plain(heading: str) -> str:
    return re.sub(r"\W+", "_", heading.strip().lower()).strip("_")


_LABELS = {_plain(f.label): name for name, f in reversed(list(FACTORS.items())) if " " in f.label}
"""Columns by the name in a report, where that is no single word, which may be a user's label."""
_LABELS["started"] = "started_utc"


def wrong_name(name: str) -> str | None:
    """Return what to do about the name of a label; None if it is a good one."""
    if name.lower() in _REPETITIONS:
        return (
            "call it round if the runs of one number were measured together, and leave it out "
            "(in a pattern: *) if they were not"
        )
    if name in _KNOWN:
        return None
    if is_reserved(name):
        return "a name that the library uses itself; rename the label"
    near = did_you_mean(name, _KNOWN, cutoff=_CLOSE).rstrip()
    return f"unknown; {near}" if near else _wrong_text(name)


def path_reader(pattern: str) -> Callable[[str], dict[str, str] | None]:
    """Return a function that reads the labels in the end of a path; None if it has another form."""
    problems, names = Problems(), re.findall(r"\{(\w+)\}", pattern)
    if not names:
        example = "write for example {placement}/{tool}-r{round}.txt"
        raise UsageError(f"the pattern {pattern!r} contains no label; {example}")
    for name in names:
        if wrong := wrong_name(name):
            problems.add(f"{{{name}}} in the pattern {pattern!r}", wrong)
    problems.refuse()
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
            expression += f"(?P<{name}>{'[0-9]+' if COLUMNS.get(name) == 'integer' else '[^/]+?'})"
    match = re.compile(rf"(?:^|.*/){expression}$").match

    def read(path: str) -> dict[str, str] | None:
        found = match(path)
        return found and found.groupdict()

    return read


Cells = Mapping[str, tuple[str, Any]]
"""Values of labels as they are written, each with where it stands."""


def typed(cells: Cells, problems: Problems) -> dict[str, Any]:
    """Return the values of labels, each of the kind of its column."""
    values: dict[str, Any] = {}
    for column, (where, cell) in cells.items():
        kind, text = COLUMNS.get(column, "text"), str(cell)
        if wrong := _wrong_text(text):
            problems.add(where, f"{column} is {text[:60]!a}; {wrong}")
            continue
        try:
            values[column] = _value(kind, text.strip())
        except (LookupError, ValueError, OverflowError):
            problems.add(where, f"{column} is {text!r}; write {_WRITTEN.get(kind, 'a number')}")
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
    """Whether a label or name holds only characters that can be shown, without breaks of lines."""
    return not CONTROL.search(text) and len(text.splitlines()) <= 1


def _wrong_text(label: str) -> str | None:
    """What to do about a label that cannot be shown."""
    if not is_one_line(label):
        return "remove the control characters"
    return None if 0 < len(label) <= LONGEST else f"write 1 to {LONGEST} characters"
