"""Labels of logs: a table with a row for each log or pattern, or the structure of their paths."""

from __future__ import annotations

import fnmatch
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CONTROL, UsageError, did_you_mean, of_cell
from ..experiment.factors import FACTORS, Factor, Level, is_reserved
from ..experiment.placements import PLACEMENTS
from .files import Location
from .logs import is_pattern

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = {
    **FACTORS,
    "round": Factor("round", kind="integer"),
    "deployment": Factor("deployment", kind="integer"),
    "started_utc": Factor("started_utc"),
    "bandwidth_mbps": Factor("bandwidth_mbps", kind="number"),
}
"""Columns with a meaning of their own; any other is a user's factor, a text."""
FILE, RUN = "file", "run"
"""Columns that identify the log of a row: its path or a pattern, and the number of the run in
it."""
LONGEST = 200
"""Most characters of a label."""
_KNOWN = (*COLUMNS, FILE, RUN)
_WRITTEN = {
    "integer": "a whole number",
    "flag": "on or off",
    "text": "a time such as 2026-11-03T14:05:00Z",
}
"""How a value of a kind without a unit is written; of the texts only a time can be wrong."""
_REPETITIONS = {"run", "rep", "repeat", "repetition", "iter", "iteration"}
"""What people call a number of a repetition: a round, or nothing that runs have in common."""
_CLOSE = 0.8
"""Similarity to a known column from which on a column counts as misspelled."""
_LARGEST = 2**53
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")

Cells = dict[str, tuple[str, Any]]
"""Labels as they are written: where each stands, and its cell."""


# -- in a table ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table of labels.

    Attributes
    ----------
    source : str
        Its file, or what else to call it.
    rows : DataFrame
        A row for a log or pattern, indexed by where it stands (``labels.csv:2``): ``file``,
        ``run``, and a column for each label. Cells are null where they are empty.
    note : str
        What must be said of how the file was read; else empty.
    """

    source: str
    rows: pd.DataFrame
    note: str = ""

    def of_runs(self, spelled: pd.DataFrame, runs: pd.DataFrame) -> list[Cells]:
        """Return the labels of every run; none if no row is about it.

        Parameters
        ----------
        spelled : DataFrame
            The ways to write each log: columns ``log``, which identifies it, and ``file``.
        runs : DataFrame
            A row a run: its ``log``, and its number ``run`` in it.

        Raises
        ------
        UsageError
            Two rows are about one run, a row is about none, or no row is about a log.
        """
        import pandas as pd

        labels = self.rows.drop(columns=[FILE, RUN])
        rows = self.rows[[FILE, RUN]].assign(row=range(len(self.rows)))
        named = rows.merge(spelled, on=FILE)
        patterns = rows[rows[FILE].map(is_pattern).astype(bool)]
        matching = patterns[FILE].map(lambda one: fnmatch.filter(spelled[FILE], one))
        matched = patterns.assign(file=matching).explode(FILE).merge(spelled, on=FILE)
        # a name goes before a pattern
        matched = matched[~matched["log"].isin(named["log"])]
        about = pd.concat([named, matched]).drop_duplicates(["row", "log"])
        numbers = pd.to_numeric(about[RUN], errors="coerce").astype(float)
        of_one = about.assign(run=numbers)[about[RUN].notna()].merge(runs)
        of_all = about[about[RUN].isna()].drop(columns=RUN).merge(runs, on="log")
        labelled = pd.concat([of_one, of_all]).sort_values("row")
        names = spelled.drop_duplicates("log").set_index("log")[FILE]
        twice = labelled[labelled.duplicated(["log", RUN], keep=False)]
        for (log, _), same in twice.groupby(["log", RUN])["row"]:
            what = f"two rows for one run: {', '.join(labels.index[same])}; keep one"
            raise UsageError(f"{names[str(log)]}: {what}")
        unlabelled = names.drop(labelled["log"].unique()).tolist()
        unused = self.rows.drop(labels.index[labelled["row"].unique()])
        if len(unused):
            raise UsageError(_without_a_run(unused, unlabelled))
        if unlabelled:
            what = f"no row of {self.source} matches this log"
            raise UsageError(f"{unlabelled[0]}: {what}; add one (its cells may be empty)")
        cells: dict[float, Cells] = {}
        for row, (where, labelling) in enumerate(labels.to_dict("index").items()):
            place = str(where)
            given = {str(c): (place, v) for c, v in labelling.items() if pd.notna(v)}
            cells[row] = given
        found = runs.merge(labelled, "left", ["log", RUN], validate="one_to_one")
        return [cells.get(row, {}) for row in found["row"]]


def _without_a_run(unused: pd.DataFrame, unlabelled: Sequence[str]) -> str:
    """Say which rows are about no run, and which logs no row is about."""
    row, others = unused.iloc[0], len(unused) - 1
    what = "it matches no log"
    if row.notna()[RUN]:
        about = f"it matches no run {row[RUN]} of a log"
        what = f"{about}; round is the number of a repetition"
    text = f"{unused.index[0]} ({row[FILE]!r}): {what}"
    if others:
        text += f", as do {others:,} more rows"
    if unlabelled:
        text += f"; without a row: {', '.join(unlabelled[:3])}"
    return text


def read_labels(labels: pd.DataFrame | Location) -> LabelTable:
    """Read labels: CSV as spreadsheets write it, or a DataFrame."""
    import pandas as pd

    if isinstance(labels, pd.DataFrame):
        return LabelTable("labels", _rows(labels, "labels"))
    source = os.fspath(labels)
    try:
        data = Path(labels).read_bytes()
    except OSError as error:
        raise UsageError(f"{source}: cannot be read ({error.strerror})") from None
    note = ""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # what a spreadsheet in Europe writes as CSV
        text = data.decode("cp1252", "replace")
        note = f"{source} is not in UTF-8, and was read as Windows-1252."
    try:
        table = pd.read_csv(
            io.StringIO(text),
            sep=max(",;\t", key=text.lstrip().partition("\n")[0].count),
            skipinitialspace=True,
            dtype=str,
            # pandas would also take ``None`` and ``NA`` for empty
            keep_default_na=False,
            na_values=["", "nan", "NaN", "#N/A"],
        )
    except ValueError as error:
        how = f"cannot be read as a table of labels ({error}); save it as CSV in UTF-8"
        raise UsageError(f"{source}: {how}") from None
    return LabelTable(source, _rows(table, source), note)


def _rows(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return the rows of a table; UsageError for a column that is missing, misspelled or twice."""
    filled = table.dropna(axis="columns", how="all") if len(table) else table
    names = [_column(str(heading)) for heading in filled.columns]
    for name in {*names} - {RUN}:
        check_name(name, f"{source}: column {name[:60]!r}")
    if FILE not in names or len({*names}) < len(names):
        how = f"one column {FILE!r}, for a log or a pattern such as a*, and each other column once"
        found = ", ".join(names)[:200]
        raise UsageError(f"{source}: needs {how}; its columns are {found}")
    rows = filled.set_axis(names, axis="columns").astype(object).map(_cell)
    rows.index = [f"{source}:{line}" for line in range(2, len(rows) + 2)]
    for name in set(names).difference(_KNOWN):
        column = rows[name].dropna().astype(str)
        # a decimal comma in all of them: a table that a spreadsheet wrote
        if len(column) and column.str.fullmatch(_DECIMAL_COMMA).all():
            rows[name] = column.str.replace(",", ".").reindex(rows.index)
    rows = rows.dropna(how="all")
    empty = rows.index[rows[FILE].isna()]
    if len(empty):
        raise UsageError(f"{empty[0]}: the cell {FILE!r} is empty; name a log")
    return rows.assign(file=rows[FILE].astype(str), run=rows.get(RUN))


def _cell(cell: Any) -> Any:
    """Return the content of a cell; None if it is blank."""
    content = of_cell(cell) if isinstance(cell, str) else cell
    return content if str(content).strip() else None


def _column(heading: str) -> str:
    """Return the name of a column: a known one is recognized in any case, with blanks."""
    name = heading.strip()
    plain = re.sub(r"[\s-]+", "_", name.lower())
    if plain == "started":
        return "started_utc"
    return plain if plain in _KNOWN else name


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


# -- in a path -------------------------------------------------------------------------------------


def path_expression(pattern: str) -> str:
    """Return the regular expression of the end of a path; a group of it is a label."""
    names = re.findall(r"\{(\w+)\}", pattern)
    if not names:
        example = "write for example {placement}/{tool}-r{round}.txt"
        raise UsageError(f"the pattern {pattern!r} contains no label; {example}")
    for name in names:
        check_name(name, f"{{{name}}} in the pattern {pattern!r}")
    expression = "^(?:.*/)?"
    for part in re.split(r"(\{\w+\}|\*)", pattern):
        name = part[1:-1]
        if part == "*":
            expression += "[^/]*"
        elif part[:1] != "{":
            expression += re.escape(part)
        elif f"(?P<{name}>" in expression:
            expression += f"(?P={name})"
        elif _kind(name) == "integer":
            expression += f"(?P<{name}>[0-9]+)"
        else:
            expression += f"(?P<{name}>[^/]+?)"
    return f"{expression}$"


# -- their values ----------------------------------------------------------------------------------


def typed(cells: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """Return the values of labels, each of the kind of its column.

    Parameters
    ----------
    cells : mapping
        Each label as it is written, after where it stands.

    Raises
    ------
    UsageError
        A value is not of its kind.
    """
    values: dict[str, Any] = {}
    for column, (where, cell) in cells.items():
        text = str(cell)
        wrong = _wrong_text(text)
        try:
            values[column] = _value(column, text.strip())
        except ValueError:
            wrong = wrong or f"write {_WRITTEN.get(_kind(column), 'a number')}"
        if wrong:
            raise UsageError(f"{where}: {column} is {text[:60]!a}; {wrong}")
    if "bandwidth_mbps" in values:
        values.setdefault("advertised_bps", values.pop("bandwidth_mbps") * 1e6)
    return values


def _kind(column: str) -> str:
    """Return the kind of the values of a column: their unit, where they have one."""
    known = COLUMNS.get(column, Factor(column))
    return known.unit or known.kind


@lru_cache(maxsize=4096)  # a column has few values
def _value(column: str, text: str) -> Level:
    known = COLUMNS.get(column)
    if column == "placement":
        spelled = re.sub(r"[\s_]+", "-", text.lower())
        return spelled if spelled in PLACEMENTS else text
    if column == "started_utc":
        return datetime.fromisoformat(text).isoformat()
    if known is None or known.kind == "text":
        return text
    value = known.cast(text.removesuffix(".0"))  # as pandas writes a number beside a gap
    if value is None:
        return None
    if isinstance(value, str) or not 0 <= value < _LARGEST:
        raise ValueError(text)
    if known.unit == "bytes":
        return int(value)
    if known.kind == "integer" and isinstance(value, float):
        raise ValueError(text)
    return value


def is_one_line(text: str) -> bool:
    """Return whether a label or name can be shown whole, without breaks of lines."""
    return not CONTROL.search(text) and len(text.splitlines()) <= 1


def _wrong_text(label: str) -> str | None:
    if is_one_line(label) and len(label) <= LONGEST:
        return None
    return f"remove the control characters, and write at most {LONGEST} characters"
