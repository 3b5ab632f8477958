"""Labels of logs: a table with a row for each log or pattern, or the structure of their paths."""

from __future__ import annotations

import fnmatch
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
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
LONGEST = 200
"""Most characters of a label."""
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
_LARGEST = 2**53
_AS_TEXT: dict[str, Any] = {
    "dtype": str,
    "keep_default_na": False,
    "na_values": ["", "nan", "NaN", "#N/A"],
}
"""Cells as they are written: pandas would also take ``None`` and ``NA`` for empty."""
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")


@dataclass(frozen=True, eq=False)
class LabelTable:
    """A table of labels.

    Attributes
    ----------
    source : str
        Its file, or what else to call it.
    table : DataFrame
        A row for a log or pattern, by its line in the file: ``file``, perhaps ``run``, and a column
        for each label. Cells are text, and null where they are empty.
    note : str
        What must be said of how the file was read; else empty.
    """

    source: str
    table: pd.DataFrame
    note: str = ""

    def where(self, line: Any) -> str:
        """Return where a row stands."""
        return f"{self.source}:{int(line)}"

    def of_runs(
        self, spellings: Sequence[Sequence[str]], counts: Sequence[int]
    ) -> pd.DataFrame:
        """Return the labels of every run, a row for each in the order of the logs.

        Parameters
        ----------
        spellings : sequence of sequence of str
            The ways to write each log.
        counts : sequence of int
            How many runs each log has.

        Returns
        -------
        DataFrame
            ``log`` and ``run`` (numbers from 0), ``line`` (null: no row is about this run), labels.

        Raises
        ------
        UsageError
            Two rows are about one run, a row is about none, or no row is about a log.
        """
        import pandas as pd

        logs = pd.RangeIndex(len(counts))
        runs = pd.DataFrame({"log": logs.repeat(list(counts))})
        runs["run"] = runs.groupby("log").cumcount()
        table = self.table.rename_axis("line").reset_index()
        rows = self._expanded(spellings).merge(table, on="line", validate="m:1")
        if RUN in rows:
            number = rows[RUN].astype(str).str.strip().str.removesuffix(".0")
            which = pd.to_numeric(number, errors="coerce") - 1
            of_one = rows[RUN].notna()
            each = rows[of_one].assign(run=which[of_one])
            every = rows[~of_one].drop(columns=RUN)
            about = [runs.merge(every, on="log"), runs.merge(each, on=["log", "run"])]
            rows = pd.concat(about, ignore_index=True)
        else:
            rows = runs.merge(rows, on="log")
        twice = rows[rows.duplicated(["log", "run"], keep=False)]
        if len(twice):
            log = twice["log"].iloc[0]
            lines = twice.loc[twice["log"] == log, "line"].drop_duplicates()
            where = ", ".join(map(self.where, lines))
            what = f"two rows for one run: {where}; keep one"
            raise UsageError(f"{spellings[log][0]}: {what}")
        unlabelled = sorted({*logs} - {*rows["log"]})
        if unlabelled and self._unused(rows).empty:
            what = f"no row of {self.source} matches this log; add one (its cells may be empty)"
            raise UsageError(f"{spellings[unlabelled[0]][0]}: {what}")
        self._refuse(self._unused(rows), spellings, unlabelled)
        return runs.merge(rows, on=["log", "run"], how="left", validate="1:1")

    def _unused(self, rows: pd.DataFrame) -> pd.DataFrame:
        return self.table[~self.table.index.isin(rows["line"])]

    def _refuse(
        self,
        unused: pd.DataFrame,
        spellings: Sequence[Sequence[str]],
        unlabelled: Sequence[int],
    ) -> None:
        """Raise UsageError if rows are about no run; it names what matches neither side."""
        if unused.empty:
            return
        row, others = unused.iloc[0], len(unused) - 1
        what = "it matches no log"
        if RUN in unused and row.notna()[RUN]:
            about = f"it matches no run {row[RUN]} of a log"
            what = f"{about}; round is the number of a repetition"
        text = f"{self.where(unused.index[0])} ({row[FILE]!r}): {what}"
        if others:
            text += f", as do {others:,} more rows"
        if unlabelled:
            some = ", ".join(spellings[number][0] for number in unlabelled[:3])
            text += f"; without a row: {some}"
        raise UsageError(text)

    def _expanded(self, spellings: Sequence[Sequence[str]]) -> pd.DataFrame:
        """Which rows name which logs: a name goes before a pattern."""
        import pandas as pd

        written = [(text, log) for log, texts in enumerate(spellings) for text in texts]
        logs = pd.DataFrame(written, columns=[FILE, "log"]).drop_duplicates()
        rows = self.table[[FILE]].rename_axis("line").reset_index()
        named = rows.merge(logs, on=FILE)[["log", "line"]].drop_duplicates()
        others = logs[~logs["log"].isin(named["log"])]
        found = [named]
        for line, pattern in rows[["line", FILE]].itertuples(index=False):
            if set("*?[") & set(pattern):
                match = re.compile(fnmatch.translate(pattern)).match
                matching = others[others[FILE].map(match).notna()]
                found.append(matching[["log"]].drop_duplicates().assign(line=line))
        return pd.concat(found, ignore_index=True)


def read_labels(labels: pd.DataFrame | Location) -> LabelTable:
    """Read labels: CSV as spreadsheets write it, or a DataFrame."""
    import pandas as pd

    if isinstance(labels, pd.DataFrame):
        return _labels(labels, "labels")
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
    separator = max(",;\t", key=text.lstrip().partition("\n")[0].count)
    try:
        table = pd.read_csv(
            io.StringIO(text), sep=separator, skipinitialspace=True, **_AS_TEXT
        )
    except ValueError as error:
        how = f"cannot be read as a table of labels ({error}); save it as CSV in UTF-8"
        raise UsageError(f"{source}: {how}") from None
    return _labels(table, source, note)


def _labels(table: pd.DataFrame, source: str, note: str = "") -> LabelTable:
    """Return labels; UsageError for a column that is missing, misspelled or twice there."""
    import pandas as pd

    filled = table.dropna(axis="columns", how="all") if len(table) else table
    names = [_column(str(heading)) for heading in filled.columns]
    for name in {*names} - {RUN}:
        check_name(name, f"{source}: column {name[:60]!r}")
    if FILE not in names or len({*names}) < len(names):
        how = f"one column {FILE!r}, for a log or a pattern such as a*, and each other column once"
        found = ", ".join(names)[:200]
        raise UsageError(f"{source}: needs {how}; its columns are {found}")
    cells = filled.set_axis(names, axis="columns").astype(object)
    cells.index = pd.RangeIndex(2, len(cells) + 2)  # the header is line 1
    cells = cells[cells.map(lambda cell: bool(str(cell).strip())) & cells.notna()]
    cells = cells.map(lambda cell: of_cell(cell) if isinstance(cell, str) else cell)
    for name in (one for one in names if one not in _KNOWN):
        column = cells[name].dropna().astype(str)
        # a decimal comma in all of them: a table that a spreadsheet wrote
        if len(column) and column.map(_DECIMAL_COMMA.fullmatch).notna().all():
            cells[name] = cells[name].map(
                lambda cell: str(cell).replace(",", "."), "ignore"
            )
    cells = cells.dropna(how="all")
    if (empty := cells.index[cells[FILE].isna()]).size:
        raise UsageError(f"{source}:{empty[0]}: the cell {FILE!r} is empty; name a log")
    return LabelTable(source, cells.assign(**{FILE: cells[FILE].astype(str)}), note)


def _column(heading: str) -> str:
    """The name of a column: a known one is recognized in any case, with blanks."""
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
        elif COLUMNS.get(name) == "integer":
            expression += f"(?P<{name}>[0-9]+)"
        else:
            expression += f"(?P<{name}>[^/]+?)"
    match = re.compile(rf"(?:^|.*/){expression}$").match

    def read(path: str) -> dict[str, str] | None:
        found = match(path)
        return found and found.groupdict()

    return read


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
            values[column] = _value(COLUMNS.get(column, "text"), text.strip())
        except (LookupError, ValueError, OverflowError):
            wrong = wrong or f"write {_WRITTEN.get(COLUMNS[column], 'a number')}"
        if wrong:
            raise UsageError(f"{where}: {column} is {text[:60]!a}; {wrong}")
    if "bandwidth_mbps" in values:
        values.setdefault("advertised_bps", values.pop("bandwidth_mbps") * 1e6)
    return values


@lru_cache(maxsize=4096)  # a column has few values
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
