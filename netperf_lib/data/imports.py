"""Existing logs, with labels that say under which conditions they were taken.

The facts in a log (tool, test, streams, duration, start) are read from it. Those that it cannot contain (placement,
hosts, round) come from a table of labels or from the log's path. Both together describe a run.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import io
import os
import re
import shutil
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..errors import (
    CONTROL,
    NetperfError,
    ParseError,
    StoreError,
    UsageError,
    as_cell,
    of_cell,
    pip_install,
    visible,
)
from ..experiment.attached import attach
from ..experiment.factors import FACTORS, FLAGS, LOG_NAME, is_address, is_reserved
from ..experiment.model import Contrast, Experiment
from ..experiment.placements import PLACEMENTS
from ..metrics import in_words, metric, plural
from ..quantities import read_quantity
from ..tools import READERS
from ..tools.figures import NAME as FIGURES
from ..tools.parsed import ParsedRun
from . import log_names, logs
from .files import Location, explained, is_url, sha256_of
from .layout import IMPORT, RECORD_SCHEMA, RECORDS, Store, experiments, new_record, packed_records
from .load import Results, data_frame
from .tables import moment, run_row, runs_table

if TYPE_CHECKING:
    import pandas as pd

NOTICE = "Imported logs: order and rounds as labelled, not as planned."

TIME_OF_NAME = (
    "the start is taken from the name of the log, as UTC; the label started_utc corrects it"
)

COLUMNS: dict[str, str] = {
    **{name: f.unit if f.unit and f.kind != "text" else f.kind for name, f in FACTORS.items()},
    "round": "integer",
    "deployment": "integer",
    "started_utc": "time",
    "bandwidth_mbps": "number",
}
"""Columns of a labels table with a meaning of their own, and the kind of their values; any other column is a user's
factor."""
_WRITTEN = {
    "integer": "a whole number",
    "flag": "on or off",
    "time": "a time such as 2026-11-03T14:05:00Z",
}
"""How a value of a kind is written; a number otherwise."""
_REPETITIONS = {"run", "rep", "repeat", "repetition", "iter", "iteration"}
"""What people call a number of a repetition: a round, or nothing that runs have in common."""
FILE, RUN = "file", "run"
"""Columns that identify the log of a row: its path or a pattern, and the number of the run in that log, from 1."""
_CLOSE = 0.8
"""Similarity to a known column from which on a column counts as misspelled."""
_MOST_PROBLEMS = 20
"""Problems that are shown at once."""
_ALIKE = 4
"""Problems of more logs than this that are the same are one line."""
_TIMES = re.compile(r"20\d\d-?\d\d-?\d\d[T ]\d\d:?\d\d(:?\d\d)?(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)?")
_SHOWN = 8
"""Parts of names that are shown."""
_DAY_S = 24 * 3600.0


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """One run of an existing log: the facts in the log, and its labels."""

    path: Path
    name: str
    """Path of the log relative to the given folder, with ``/``."""
    index: int
    """Number of the run in its log, from 0."""
    end: int | None
    """Last line of the run in its log, in which another run follows; None: the last line of the log."""
    digest: str
    """Digest of the log and of the run's position in it."""
    identity: str | None
    """What no other run's lines can hold; None: two runs can print the same lines."""
    parsed: ParsedRun
    labels: Mapping[str, Any]
    """Values of the labels, typed; a label that is not given is absent."""
    stated: Mapping[str, Any]
    """Values of the same columns in the log."""
    addresses: Mapping[str, str]
    """Address in the log of ``client`` and ``server``, where a label gives its name."""
    warnings: list[str]
    """What the labels and the log do not agree on, without a contradiction."""
    part: str | None = None
    """What tells its name apart from those of other logs, where no label does."""

    @property
    def title(self) -> str:
        """The name of the log, and the number of the run where the log holds several."""
        several = self.index or self.end is not None
        return f"{self.name}, run {self.index + 1}" if several else self.name

    def get(self, column: str) -> Any:
        """Return the value of a column: from the log, else from its label, else None."""
        return self.stated.get(column, self.labels.get(column))


LabelRows = list[tuple[str, dict[str, Any]]]
"""Rows of a table of labels, each with where it stands."""
_AS_TEXT: dict[str, Any] = {
    "dtype": str,
    "keep_default_na": False,
    "na_values": ["", "nan", "NaN", "#N/A"],
}
"""Cells as they are written: pandas would also take ``None`` and ``NA`` for empty."""


def _read_labels(labels: pd.DataFrame | Location) -> tuple[str, LabelRows]:
    """Name and rows of a table of labels: CSV as spreadsheets write it, the first sheet of an xlsx, or a DataFrame."""
    import pandas as pd

    if isinstance(labels, pd.DataFrame):
        return "labels", _label_rows(labels, "labels")
    path, source = Path(labels), os.fspath(labels)
    try:
        if path.suffix.lower() == ".xlsx":
            return source, _label_rows(pd.read_excel(path, **_AS_TEXT), source)
        text = _decoded(path.read_bytes())
        first = next((line for line in text.splitlines() if line.strip()), "")
        separator = max(",;\t", key=first.count)
        table = pd.read_csv(io.StringIO(text), sep=separator, skipinitialspace=True, **_AS_TEXT)
        return source, _label_rows(table, source)
    except ImportError:
        raise UsageError(
            f"xlsx needs the package openpyxl: {pip_install('openpyxl')}, or save as CSV"
        ) from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{source}: cannot be read as a table of labels ({error})") from None


def _label_rows(table: pd.DataFrame, source: str) -> LabelRows:
    """Rows of a table; UsageError if a column is missing, misspelled or given twice."""
    names = [_column(str(c)) for c in table.columns]
    problems = [
        f"{source}: column {c!r} is given twice" for c, n in Counter(names).items() if n > 1
    ]
    if FILE not in names:
        problems.append(
            f"{source}: there is no column {FILE!r}; it names the log of a row, or a pattern such as a*"
        )
    for i, name in enumerate(names):
        if name in (*COLUMNS, FILE, RUN) or not table.iloc[:, i].notna().any():
            continue
        if wrong := _wrong_text(name):
            problems.append(f"{source}: column {name[:60]!a}: {wrong}")
        near = difflib.get_close_matches(name, [*COLUMNS, FILE, RUN], n=1, cutoff=_CLOSE)
        if name.lower() in _REPETITIONS:
            what = "call it round if the runs of one number were measured together, and leave it out if they were not"
            problems.append(f"{source}: column {name!r}: {what}")
        elif is_reserved(name):
            problems.append(
                f"{source}: column {name!r} is a name that the library uses itself; rename the label"
            )
        elif near:
            problems.append(f"{source}: unknown column {name!r}; did you mean {near[0]!r}?")
    _refuse(problems)
    cells = table.astype(object).where(table.notna(), None).to_dict("records")
    if "started_utc" not in names:
        clock = next(
            (n for n in names if n not in COLUMNS and _are_times(table.iloc[:, names.index(n)])),
            None,
        )
        names = ["started_utc" if n == clock else n for n in names]
    rows: LabelRows = []
    for number, cell in enumerate(cells, 2):  # the header is line 1
        row = {
            n: c
            for n, c in zip(names, cell.values(), strict=True)
            if c is not None and str(c).strip() != ""
        }
        rows.append(
            (
                f"{source}:{number}",
                {n: of_cell(c) if isinstance(c, str) else c for n, c in row.items()},
            )
        )
    return rows


def _decoded(data: bytes) -> str:
    """Text of a CSV file: UTF-8 with or without a byte-order mark, else what Excel writes on Windows."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", errors="replace")


def _are_times(cells: pd.Series) -> bool:
    """Whether a column holds a date and time of day for each run: when it was started, whatever it is called."""
    text = [str(cell).strip() for cell in cells]
    return 1 < len(set(text)) == len(text) and all(map(_TIMES.fullmatch, text))


def _column(heading: str) -> str:
    """Name of a column from its heading: ``TCP buffer bytes`` is ``tcp_buffer_bytes``; an own heading is kept."""
    plain_name = _plain(heading)
    return (
        plain_name
        if plain_name in (*COLUMNS, FILE, RUN)
        else _LABELS.get(plain_name, heading.strip())
    )


def _plain(heading: str) -> str:
    return re.sub(r"\W+", "_", heading.strip().lower()).strip("_")


_LABELS = {_plain(f.label): name for name, f in reversed(list(FACTORS.items())) if " " in f.label}
"""Columns by the name that a report gives them, where that is no single word, which may be a label of the user's."""


def understand(
    files: Location | Iterable[Location],
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    left_out: list[str] | None = None,
) -> list[LoggedRun]:
    """Read logs and join their labels, in the order of the files.

    A file of a folder that holds no run of a known tool, such as a readme, is left out; one that was named is refused.

    Parameters
    ----------
    files : path or iterable of paths
        Logs, folders of logs, or patterns.
    labels : DataFrame or path of a CSV file, optional
        A row for a log or for a pattern of logs: a column ``file``, optionally ``run``, and one for each label.
    pattern : str, optional
        Structure of the end of a log's path, for example ``"{placement}/{tool}-P{streams}-r{round}.txt"``.
    left_out : list, optional
        The names of files that were left out are added to it.

    Raises
    ------
    UsageError
        All problems found, one line each: a row that matches no log, a log that no row matches, two rows for one log, a
        label that contradicts the log, a value that cannot be read, a log without a run.
    """
    source, table = ("", None) if labels is None else _read_labels(labels)
    skip = Path(labels).resolve() if isinstance(labels, str | os.PathLike) else None
    problems: list[str] = []
    find_rows = _row_finder(table or [])
    named = [(n, p) for n, p in _named(files, problems) if p.resolve() != skip]
    by_name = {Path(f) for f in _several(files)}
    logged, unread, matched, used = (
        list[LoggedRun](),
        list[tuple[str, str, bool]](),
        set[str](),
        set[str](),
    )
    for name, path in named:
        if not is_one_line(name):
            problems.append(f"{name!a}: the name of this log has control characters; rename it")
            continue
        rows = find_rows(name, path)
        matched |= (here := {where for where, _ in rows})
        try:
            parsed = _read(path)
        except ParseError as error:
            used |= here
            unread.append((name, str(error), bool(rows) or path in by_name))
            continue
        if table is not None and not rows:
            problems.append(
                f"{name}: no row of {source} matches this log; add one (its cells may be empty)"
            )
        used |= {where for where, row in rows if any(_is_about(row, i) for i in range(len(parsed)))}
        logged += _runs_of(path, name, parsed, pattern, rows, problems)
    problems += [message for _, message, is_named in unread if is_named or not logged]
    if left_out is not None:
        left_out += [name for name, _, is_named in unread if not is_named and logged]
    for where, row in table or ():
        if FILE not in row:
            problems.append(f"{where}: the cell {FILE!r} is empty; name a log or a pattern")
        elif where not in matched:
            problems.append(f"{where} ({row[FILE]!r}): it matches no log")
        elif where not in used:
            what = f"{RUN} is the number of a run in its log, and round that of a repetition"
            problems.append(f"{where} ({row[FILE]!r}): no such log has a run {row[RUN]}; {what}")
    _refuse(problems if named or problems else [_no_logs(files)])
    logged, again = _once(logged)
    if left_out is not None:
        left_out += again
    if pattern is None:
        logged = _with_parts(logged)
    _refuse(_collisions(logged))
    _warn_of_addresses(logged)
    return logged


_COOKIE = re.compile(r"\bcookie\"?: *\"?([\w.-]{20,})", re.IGNORECASE)
_UNIQUE = re.compile(r"\bport \d{4,}|_port\"?: *\d{4,}|\d\d:\d\d:\d\d|(?:percentile .*\n.*){5}")
"""A port, a time or a long histogram: two runs do not print the same lines with one of these."""


def _identity(lines: Sequence[str]) -> str | None:
    """Return what tells a run from any other one, whatever its log and labels are called."""
    text = "\n".join(lines)
    if cookie := _COOKIE.search(text):
        return cookie[1]
    if not _UNIQUE.search(text):
        return None
    return hashlib.blake2s(" ".join(text.split()).encode(), digest_size=9).hexdigest()


def _once(runs: Sequence[LoggedRun]) -> tuple[list[LoggedRun], list[str]]:
    """Return each run once, and a line for each that is there again.

    A log to which the next runs were appended holds those before it: of two logs with one run
    the shorter one, which has the labels of that run, counts.
    """
    sizes = Counter(run.path for run in runs)
    first: dict[str, LoggedRun] = {}
    for run in sorted(runs, key=lambda run: sizes[run.path]):
        if run.identity:
            first.setdefault(run.identity, run)
    kept, again = list[LoggedRun](), list[str]()
    for run in runs:
        one = first.get(run.identity or "", run)
        if one is run:
            kept.append(run)
        else:
            again.append(f"{run.title} (the same run as {one.title})")
    return kept, again


def _collisions(runs: Sequence[LoggedRun]) -> list[str]:
    """Name the runs of one round that have the same labels, and differ in nothing that is known."""
    groups = defaultdict[str, list[LoggedRun]](list)
    for run in runs:
        if run.get("round") is not None and run.parsed.status == "ok":
            known = {**run.stated, **run.labels, **run.addresses, "part": run.part}
            known.pop("started_utc", None)
            groups[repr(sorted(known.items()))].append(run)
    return [
        f"{in_words([run.title for run in group])}: equal labels in round {group[0].get('round')}; "
        "label what they differ in, or leave the round out"
        for group in groups.values()
        if len(group) > 1
    ]


def _with_parts(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the runs with what tells their names apart, for those that no label puts anywhere."""
    unknown = [run for run in runs if _is_unplaced(run)]
    parts = log_names.name_parts(list(map(_name, unknown)))
    if len(set(parts)) < 2:
        return list(runs)
    of_run = dict(zip(map(id, unknown), parts, strict=True))
    return [replace(run, part=of_run[id(run)]) if id(run) in of_run else run for run in runs]


def _is_unplaced(run: LoggedRun) -> bool:
    """Whether neither a placement, a host nor a label of the user's says where a run belongs."""
    placed = {"placement", "client", "server"}
    own = [label for label in run.labels if label in placed or label not in COLUMNS]
    return run.get("placement") is None and not own


def _name(run: LoggedRun) -> log_names.LogName:
    said = {str(run.stated.get(c) or "").lower() for c in ("test", "protocol", "direction")}
    streams = run.stated.get("streams")
    if streams:
        said |= {f"p{streams}", f"{streams}", f"{streams}streams", "streams", "stream"}
    return log_names.LogName(run.name, str(run.parsed.tool), said)


def _no_logs(files: Location | Iterable[Location]) -> str:
    return f"no logs in {', '.join(os.fspath(f) for f in _several(files))}"


def _runs_of(
    path: Path,
    name: str,
    parsed: Sequence[ParsedRun],
    pattern: str | None,
    rows: LabelRows,
    problems: list[str],
) -> Iterator[LoggedRun]:
    """Join the runs of a log and their labels: those of a row go before those of the path."""
    of_path: dict[str, Any] = {}
    if pattern is not None:
        read_path = _path_reader(pattern)
        if matched := read_path(name) or read_path(path.as_posix()):
            of_path = matched.groupdict()
        else:
            what = "import only the logs that match, such as 'logs/*/*.json'"
            problems.append(
                f"{name}: the end of the path does not match the pattern {pattern!r}; {what}"
            )
    content = hashlib.blake2s(path.read_bytes(), digest_size=6)
    lines = logs.text(path).split("\n")
    for index, run in enumerate(parsed):
        matching = [(w, r) for w, r in rows if _is_about(r, index)]
        if len(matching) > 1:
            problems.append(
                f"{name}: two rows for one run: {', '.join(w for w, _ in matching)}; keep one"
            )
        cells = {k: ("the path", v) for k, v in of_path.items()}
        cells |= {
            k: (where, v)
            for where, row in matching[:1]
            for k, v in row.items()
            if k not in (FILE, RUN)
        }
        labels, (stated, warnings) = _typed(cells, problems), _stated(run)
        if run.tool == FIGURES and index == 0:
            problems += _own_columns(name, stated)
        addresses: dict[str, str] = {
            side: str(stated.pop(side))
            for side in ("client", "server")
            if side in labels and is_address(stated.get(side)) and not is_address(labels[side])
        }
        for column in labels.keys() & stated.keys():
            if not _agree(column, labels[column], stated[column]):
                where, value = cells[column]
                problems.append(
                    f"{where}: {column} is {str(value)!r}, but {name}:{run.line} says {stated[column]!r}"
                )
        if not (index or stated.get("started_utc") or labels.get("started_utc")) and (
            at := _time_in(name)
        ):
            stated["started_utc"] = at
            warnings.append(TIME_OF_NAME)
        digest = content.copy()
        digest.update(str(index).encode())
        end = max(run.line, parsed[index + 1].line - 1) if index + 1 < len(parsed) else None
        yield LoggedRun(
            path=path,
            name=name,
            index=index,
            end=end,
            digest=digest.hexdigest(),
            identity=_identity(lines[run.line - 1 : end]),
            parsed=run,
            labels=labels,
            stated=stated,
            addresses=addresses,
            warnings=warnings,
        )


def _is_about(row: Mapping[str, Any], index: int) -> bool:
    """Whether a row of a table of labels is about the run of this index in its log."""
    return RUN not in row or str(row[RUN]).strip().removesuffix(".0") == str(index + 1)


_TIME_IN_NAME = re.compile(
    r"(?<!\d)(20\d\d)[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])"
    r"[-_.T /]{0,2}([01]\d|2[0-3])[-_.:h]?([0-5]\d)(?:[-_.:m]?([0-5]\d))?Z?(?!\d)"
)


def _time_in(name: str) -> str | None:
    """The start in the name of a log of one run, such as ``20261103-140500``."""
    if matched := _TIME_IN_NAME.search(name):
        year, month, day, hour, minute, second = (int(part or 0) for part in matched.groups())
        with suppress(ValueError):  # 31 February
            return datetime(year, month, day, hour, minute, second, tzinfo=UTC).isoformat()
    return None


def _warn_of_addresses(runs: Sequence[LoggedRun]) -> None:
    """Add a warning to runs of a host that has several addresses, or shares its address with another name."""
    names, addresses = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    hosts = [
        (run, side, address, run.labels[side])
        for run in runs
        for side, address in run.addresses.items()
    ]
    for _, _, address, name in hosts:
        names[address].add(name)
        addresses[name].add(address)
    for run, side, address, name in hosts:
        if len(addresses[name]) > 1:
            run.warnings.append(
                f"{side} {name!r} has several addresses: {', '.join(sorted(addresses[name]))}"
            )
        if len(names[address]) > 1:
            run.warnings.append(
                f"the address {address} has several names: {', '.join(sorted(names[address]))}"
            )


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        alike = defaultdict[str, dict[str, None]](dict)  # what is wrong, and where
        for problem in problems:
            where, _, what = problem.partition(": ")
            alike[what or where][where if what else ""] = None
        lines = list[str]()
        for what, spots in alike.items():
            if len(spots) > _ALIKE:
                lines.append(f"{', '.join([*spots][:3])} and {len(spots) - 3:,} more: {what}")
            else:
                lines += [f"{where}: {what}" if where else what for where in spots]
        size = sum(map(len, alike.values()))
        head = "" if size == 1 else f"{size:,} problems, nothing was imported:\n"
        more = f"\nand {len(lines) - _MOST_PROBLEMS:,} more" if len(lines) > _MOST_PROBLEMS else ""
        raise UsageError(head + "\n".join(lines[:_MOST_PROBLEMS]) + more)


def _several(files: Location | Iterable[Location]) -> list[Location]:
    return [files] if isinstance(files, str | os.PathLike) else list(files)


def _named(files: Location | Iterable[Location], problems: list[str]) -> list[tuple[str, Path]]:
    """Every log with its name: the path relative to the given folder, or the name of the file.

    A link out of a given folder, which may come from anybody, is a problem: what it leads to was not given.
    """
    names: dict[Path, str] = {}
    for location in _several(files):
        top = Path(location)
        for file in map(Path, logs.expand(os.fspath(location))):
            if not top.is_dir():
                names.setdefault(file, file.name)
            elif file.is_symlink() and not file.resolve().is_relative_to(top.resolve()):
                problems.append(
                    f"{file}: a link to elsewhere ({file.resolve()}); to import it, name it, not its folder"
                )
            else:
                names.setdefault(file, file.relative_to(top).as_posix())
    return [(name, path) for path, name in names.items()]


def _read(path: Path) -> list[ParsedRun]:
    """Read a log; what keeps it from being read now is an error, for which it is not left out."""
    with explained(path):
        if not path.exists():
            raise ParseError("no such file", file=str(path))
        return logs.read_log(path)


def _row_finder(table: LabelRows) -> Callable[[str, Path], LabelRows]:
    """Return a function that finds the rows about a log: those that name it, else those whose pattern matches it."""
    exact = defaultdict[str, LabelRows](list)
    patterns = []
    for where, row in table:
        text = str(row.get(FILE, ""))
        exact[text].append((where, row))
        if set("*?[") & set(text):
            patterns.append((re.compile(fnmatch.translate(text)).match, (where, row)))

    def find(name: str, path: Path) -> LabelRows:
        spellings = dict.fromkeys((name, PurePosixPath(name).name, path.as_posix()))
        rows = [row for text in spellings for row in exact.get(text, ())]
        return rows or [row for match, row in patterns if any(map(match, spellings))]

    return find


@lru_cache(maxsize=8)
def _path_reader(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return a regular expression for the end of a path, with a group for each label."""
    names = re.findall(r"\{(\w+)\}", pattern)
    if not names:
        raise UsageError(
            f"the pattern {pattern!r} contains no label; write for example {{placement}}/{{tool}}-r{{round}}.txt"
        )
    for name in names:
        if name.lower() in _REPETITIONS:
            raise UsageError(
                f"{{{name}}} in the pattern {pattern!r}: write {{round}} if the runs of one number were measured "
                "together, and * if they were not"
            )
    own = [name for name in names if is_reserved(name) and name not in COLUMNS]
    _refuse(
        [
            f"{name!r} in the pattern is a name that the library uses itself; rename the label"
            for name in own
        ]
    )
    expression = ""
    seen: set[str] = set()
    for part in re.split(r"(\{\w+\}|\*)", pattern):
        if part == "*":
            expression += "[^/]*"
        elif part[:1] == "{" and (name := part[1:-1]) in seen:
            expression += f"(?P={name})"
        elif part[:1] == "{":
            seen.add(name := part[1:-1])
            kind = COLUMNS.get(name, "text")
            expression += rf"(?P<{name}>{'[0-9]+' if kind == 'integer' else '[^/]+?'})"
        else:
            expression += re.escape(part)
    return re.compile(rf"(?:^|.*/){expression}$").match


def _typed(cells: Mapping[str, tuple[str, Any]], problems: list[str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for column, (where, value) in cells.items():
        if wrong := _wrong_text(str(value)):
            problems.append(f"{where}: {column} is {str(value)[:60]!a}; {wrong}")
            continue
        try:
            typed[column] = _value(COLUMNS.get(column, "text"), value)
            spelled = re.sub(r"[\s_]+", "-", str(typed[column]).lower())
            if column == "placement" and spelled in PLACEMENTS:
                typed[column] = spelled
        except (ValueError, OverflowError):
            what = _WRITTEN.get(COLUMNS[column], "a number")
            problems.append(f"{where}: {column} is {str(value)!r}; write {what}")
    if (mbps := typed.pop("bandwidth_mbps", None)) is not None:
        typed.setdefault("advertised_bps", mbps * 1e6)
    return typed


_LONGEST, _LARGEST = 200, 2**53


def is_one_line(text: str) -> bool:
    """Whether a label or name holds only characters that can be shown, without breaks of lines."""
    return not CONTROL.search(text) and len(text.splitlines()) <= 1


def _wrong_text(label: str) -> str | None:
    """What to do about a label that cannot be shown."""
    if not is_one_line(label):
        return "remove the control characters"
    return None if 0 < len(label) <= _LONGEST else f"write 1 to {_LONGEST} characters"


def _value(kind: str, value: Any) -> Any:
    text = str(value).strip()
    if kind == "flag":
        if text.lower().removesuffix(".0") not in FLAGS:
            raise ValueError(text)
        return FLAGS[text.lower().removesuffix(".0")]
    if kind not in ("text", "time"):
        unit = kind if kind in ("bytes", "bps", "s") else ""
        number = read_quantity(text, unit)
        if not 0 <= number < _LARGEST or (kind == "integer" and number != int(number)):
            raise ValueError(text)
        return int(number) if kind in ("integer", "bytes") else number
    if kind == "time":
        return datetime.fromisoformat(text).isoformat()
    return text


def _stated(run: ParsedRun) -> tuple[dict[str, Any], list[str]]:
    """Values of columns in a log, and warnings about those of another kind than their column's."""
    stated = {"tool": run.tool, "test": run.test} | dict(run.parameters)
    if not getattr(READERS.get(run.tool), "STATES_CONDITIONS", False):
        # a tool's log contains much that is not a condition: ports, window sizes, units
        stated = {k: v for k, v in stated.items() if k in COLUMNS}
    stated = {
        k: visible(v) if isinstance(v, str) else v for k, v in stated.items() if v is not None
    }
    warnings = []
    for column in sorted(stated.keys() & COLUMNS.keys()):
        kind = COLUMNS[column]
        try:
            value = _value(kind, stated[column])
            if run.tool == FIGURES:
                stated[column] = value
        except (ValueError, OverflowError):
            what = f"{stated.pop(column)!r}, which is not {_WRITTEN.get(kind, 'a number')}"
            warnings.append(f"the log says {column} is {what}: left out")
    return stated, warnings


def _own_columns(name: str, stated: Mapping[str, Any]) -> list[str]:
    """Say which columns of a table of figures have names that are the library's own."""
    return [
        f"{name}: column {column!r} is a name that the library uses itself; rename the label"
        for column in stated
        if is_reserved(column) and column not in COLUMNS
    ]


def _agree(column: str, label: Any, stated: Any) -> bool:
    if column == "tool":
        return str(label).lower() in (
            str(stated).lower(),
            "iperf" if stated == "iperf2" else stated,
        )
    if column == "started_utc":  # a clock without a zone is off by hours, never by days
        a, b = (datetime.fromisoformat(str(v)).replace(tzinfo=None) for v in (label, stated))
        return abs((a - b).total_seconds()) < _DAY_S
    if column in ("client", "server"):  # a short and a full name
        one, other = sorted((str(label).lower(), str(stated).lower()), key=len)
        return one == other or other.startswith(f"{one}.")
    if isinstance(label, float):
        return abs(label - float(stated)) <= 0.05 * max(label, float(stated))
    return str(label).lower() == str(stated).lower() or label == stated


_CONNECTION = re.compile(
    rb"local (\S+) port (\d+) connected (?:to|with) (\S+) port (\d+)|"
    rb'"local_host":\s*"([^"]+)",\s*"local_port":\s*(\d+),\s*"remote_host":\s*"([^"]+)",\s*"remote_port":\s*(\d+)'
)
_HEAD = 1 << 16
"""Bytes at the start of a log in which its connections are looked for."""


def _both_ends(runs: Sequence[LoggedRun]) -> list[str]:
    """Pairs of logs of the two ends of one connection that tell the same figure.

    The server may have another address than the one connected to: the client's address and both ports tell.
    """
    here, there = (
        defaultdict[tuple[bytes, ...], list[LoggedRun]](list),
        dict[tuple[bytes, ...], LoggedRun](),
    )
    for run in {run.path: run for run in runs}.values():
        with run.path.open("rb") as log:
            found = _CONNECTION.findall(log.read(_HEAD))
        for groups in found:
            address, port, peer, peer_port = filter(None, groups)
            here[address, port, peer_port].append(run)
            there[peer, peer_port, port] = run
    figures = {"throughput_bps", "throughput_sent_bps"}
    pairs = {
        frozenset((a.name, b.name)): f"{a.name} and {b.name}"
        for connection, b in there.items()
        for a in here.get(connection, ())
        if a.path != b.path and figures & a.parsed.metrics.keys() & b.parsed.metrics.keys()
    }
    return [*pairs.values()]


def _first(names: Sequence[str]) -> str:
    more = len(names) - 3
    return f"{', '.join(names[:3])}{f' and {more} more' if more > 0 else ''}"


def _notice(left_out: Sequence[str], runs: Sequence[LoggedRun]) -> str:
    """What must accompany imported logs: which files of their folders hold no run, and what is there twice."""
    notice = (
        f"{NOTICE} Left out, as no log or the same run again: {_first(left_out)}."
        if left_out
        else NOTICE
    )
    if pairs := _both_ends(runs):
        notice += f" One test counts as two runs: {_first(pairs)}; import one end."
    return f"{notice} {said}" if (said := _unlabelled(runs)) else notice


def _unlabelled(runs: Sequence[LoggedRun]) -> str:
    """What the names of logs tell apart without a label, and how to label it; empty if nothing."""
    unknown = [run for run in runs if run.part is not None]
    if not unknown:
        return ""
    parts = sorted({run.part or "nothing more" for run in unknown})
    if len(parts) > _SHOWN:
        parts[_SHOWN:] = [f"and {len(parts) - _SHOWN} more"]
    pattern = log_names.proposed_pattern(list(map(_name, unknown)))
    if pattern and not all(_path_reader(pattern)(run.name) for run in unknown):
        pattern = None
    how = f"--pattern {pattern!r}" if pattern else "--labels-template, and --labels with its table"
    return (
        f"The names of {plural(len(unknown), 'run')} tell apart what no label says "
        f"({'; '.join(parts)}): figures by name, and no verdict. To label them: {how}."
    )


def overview(runs: Sequence[LoggedRun]) -> pd.DataFrame:
    """What was understood of each run, and what is missing: a row per run, with the known value of every label."""
    import pandas as pd

    own = dict.fromkeys(k for r in runs for k in (*r.labels, *r.stated) if k not in COLUMNS)
    rows = []
    for run in runs:
        values = {c: run.get(c) for c in [*COLUMNS, *own]}
        missing = [c for c in ("placement", "round", "started_utc") if values[c] is None]
        rows.append(
            {FILE: run.name, RUN: run.index + 1}
            | values
            | {"status": run.parsed.status, "missing": ", ".join(missing)}
        )
    table = pd.DataFrame(rows).convert_dtypes()  # whole numbers stay whole if some are missing
    keep = [
        c for c in table.columns if c in (FILE, RUN, "status", "missing") or table[c].notna().any()
    ]
    return table[keep]


def usable(runs: pd.DataFrame) -> str:
    """How many runs give values, and why the others do not: ``90 runs, 88 usable; 2 not: the log ends early``."""
    bad = runs[runs["status"] != "ok"]
    words = plural(len(runs), "run")
    if bad.empty:
        return f"{words}, all usable"
    each = zip(bad["error"], bad["status"], strict=True)
    reasons = Counter(str(error or status) for error, status in each)
    frequent = [f"{count} not: {reason}" for reason, count in reasons.most_common(5)]
    rarer = len(reasons) - len(frequent)
    return "; ".join(
        [
            f"{words}, {len(runs) - len(bad)} usable",
            *frequent,
            *([f"{rarer} more reasons"] if rarer > 0 else []),
        ]
    )


def labels_template(files: Location | Iterable[Location]) -> str:
    """Return a labels file (CSV) to fill in: a row for each run, already filled with the facts in its log.

    Logs without a run are left out.
    """
    import pandas as pd

    columns = [
        FILE,
        RUN,
        "placement",
        "client",
        "server",
        "accelerated",
        "streams",
        "tcp_buffer_bytes",
        "round",
    ]
    columns += ["deployment", "started_utc"]
    named = _named(files, [])
    _refuse([] if named else [_no_logs(files)])
    rows = []
    for name, path in named:
        with suppress(NetperfError):
            parsed = logs.parse(path)
            for number, run in enumerate(parsed, 1):
                row = _stated(run)[0] | {FILE: name, RUN: number if len(parsed) > 1 else None}
                rows.append({c: as_cell(v) if isinstance(v, str) else v for c, v in row.items()})
    return pd.DataFrame(rows, columns=columns, dtype=object).to_csv(
        index=False, lineterminator="\n"
    )


# -- into a data root --------------------------------------------------------------------------------------------------


def import_logs(
    files: Location | Iterable[Location],
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    into: Location,
    contrasts: Sequence[Mapping[str, Any]] | None = None,
    title: str = "",
) -> Results:
    """Import existing logs, so that they can be read, compared and reported like measured data.

    Parameters
    ----------
    files, labels, pattern
        As in `understand`.
    into : path
        Folder of the experiment, for example ``results/mine``. More logs may be imported into it later; a log that was
        imported before is left as it is.
    contrasts : sequence of dict, optional
        Contrasts declared with the first import, as in an experiment file; later ones get no verdict.
    title : str
        Title of the experiment.

    Returns
    -------
    Results
        The imported experiment, as `netperf_lib.read` returns it.

    Raises
    ------
    UsageError
        As `understand`; or a contrast asks for a level that no log has.
    StoreError
        The folder contains a measured experiment, or a log was imported before with other labels.

    Examples
    --------
    >>> import tempfile
    >>> npl.import_logs("data/published/azure-westeurope-d16v3", into=tempfile.mkdtemp() + "/mine")
    <mine: 9 runs (9 ok), 0 contrasts>
    """
    left_out: list[str] = []
    logged = understand(files, labels=labels, pattern=pattern, left_out=left_out)
    parent, name = os.path.split(os.path.abspath(os.fspath(into)))  # noqa: PTH100 - a name, which need not exist yet
    store = Store(parent, name)
    declared = _declaration(name, title, contrasts, logged)
    earlier = store.declared() if store.files.exists("experiment.yaml") else None
    if earlier is not None and earlier.hosts.source != "imported":
        raise StoreError(f"{store.url}: contains a measured experiment; import into another folder")
    if earlier is not None and contrasts is None:
        declared = earlier
    new = _new(store, logged, left_out)
    store.declare(declared)
    if store.read_plan() is None:
        store.write_plan(
            {"imported": True, "trials": [], "experiment": declared.model_dump(mode="json")}
        )
    with store.lock():
        _store(store, new, _notice(left_out, logged))
    return Results(store)


def _store(store: Store, new: Sequence[tuple[str, LoggedRun]], notice: str) -> None:
    """Write runs into one folder: each log once, by its digest, and the records of all."""
    if not new:
        return
    frozen, order = store.freeze(), len(store.run_ids())
    digest = hashlib.blake2s(
        "".join(run_id for run_id, _ in new).encode(), digest_size=6
    ).hexdigest()
    with store.new_run(f"{IMPORT}{digest}") as folder:
        digests = {path: sha256_of(path) for path in {run.path for _, run in new}}
        names = {path: f"client-{digest[:16]}.out" for path, digest in digests.items()}
        for path, log in names.items():
            if not (folder / log).exists():
                shutil.copyfile(path, folder / log)
        records = (
            _record(store.experiment, run_id, run, position, notice)
            | {
                "schema": RECORD_SCHEMA,
                "declaration": frozen,
                "files": {names[run.path]: digests[run.path]},
            }
            for position, (run_id, run) in enumerate(new, order)
        )
        (folder / RECORDS).write_bytes(packed_records(records))
        store.write_record(folder, {})


def are_logs(location: Location) -> bool:
    """Whether a location is a file, a folder or a pattern of logs, not an experiment or data root."""
    path = Path(location)
    if is_url(location) or (path / "experiment.yaml").exists():
        return False
    return bool(set("*?[") & set(str(location))) or (path.exists() and not experiments(location))


def read_logs(files: Location | Iterable[Location], *, pattern: str | None = None) -> pd.DataFrame:
    """Read logs into a table of runs like that of `netperf_lib.load`, without importing them; see `understand`."""
    rows = []
    left_out: list[str] = []
    logged = understand(files, pattern=pattern, left_out=left_out)
    for order, run in enumerate(logged):
        run_id = run.identity or f"{run.path}:{run.index + 1}"
        record = _record("logs", run_id, run, order, NOTICE)
        rows.append(run_row(record, [run.parsed], None))
    frame = data_frame(runs_table(rows))
    attach(frame, notice=_notice(left_out, logged))
    return frame


def read_contrasts(path: Location) -> list[dict[str, Any]]:
    """Read declared comparisons from a YAML file: a list, or a mapping with the key ``contrasts``."""
    import yaml

    try:
        document = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{os.fspath(path)}: cannot be read as YAML ({error})") from None
    contrasts = document.get("contrasts") if isinstance(document, dict) else document
    if not isinstance(contrasts, list) or not all(isinstance(c, dict) for c in contrasts):
        raise UsageError(
            f"{os.fspath(path)}: write a list of contrasts, each with metric, a, b and margin"
        )
    return contrasts


def _declaration(
    name: str, title: str, contrasts: Sequence[Mapping[str, Any]] | None, runs: Sequence[LoggedRun]
) -> Experiment:
    document = {
        "name": name,
        "title": title,
        "hosts": {"source": "imported"},
        "contrasts": list(contrasts or ()),
    }
    try:
        declared = Experiment.model_validate(document)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise UsageError("; ".join(wrong)) from None
    _refuse([problem for c in declared.contrasts for problem in _unanswerable(c, runs)])
    return declared


def _unanswerable(contrast: Contrast, runs: Sequence[LoggedRun]) -> list[str]:
    """Report levels and metrics of contrasts that no log has."""
    metric(contrast.metric)
    problems = []
    if not any(contrast.metric in r.parsed.metrics for r in runs):
        measured = ", ".join(dict.fromkeys(name for r in runs for name in r.parsed.metrics))
        problems.append(f"contrasts: no log gives {contrast.metric} (the logs give {measured})")
    for side in filter(None, (contrast.a, contrast.b)):
        for factor, level in side.items():
            levels = {r.get(factor) for r in runs}
            if level not in levels:
                labelled = ", ".join(sorted(map(str, levels - {None}))) or "nothing"
                problems.append(
                    f"contrasts: no log has {factor} = {level!r} (the logs have {labelled})"
                )
    return problems


def _new(
    store: Store, runs: Sequence[LoggedRun], left_out: list[str]
) -> list[tuple[str, LoggedRun]]:
    """Runs that have not been imported yet, in order of time, each with its id.

    Short logs of two rounds can be identical to the byte: they are two runs if their names or labels differ.
    """
    earlier = {run_id: r["imported"] for run_id, r in store.runs() if "log" in r["imported"]}
    names = {(str(i["file"]), i["log"]): run_id for run_id, i in earlier.items()}
    known = {i["identity"]: i["file"] for i in earlier.values() if i.get("identity")}
    new: dict[str, LoggedRun] = {}
    problems = []
    for run in runs:
        run_id, other_id = _run_id(run), _run_id(run, run.name)
        before = names.get((run.name, run.digest))
        if before in (run_id, other_id) or (run.identity and run_id in earlier):
            continue
        if before:
            problems.append(f"{run.name}: was imported before with other labels (run {before})")
        elif run.identity in known:
            left_out.append(f"{run.title} (the same run as {known[run.identity]})")
        else:
            new[other_id if run_id in new or run_id in earlier else run_id] = run
    _refuse(problems)
    first = datetime.min.replace(tzinfo=UTC)
    return sorted(new.items(), key=lambda item: moment(item[1].get("started_utc")) or first)


def _run_id(run: LoggedRun, name: str = "") -> str:
    """Name a run by its deployment, its round (0: unknown), its tool and a digest of its log and labels.

    The name of the log is added for a log that is equal to another one's.
    """
    labels = sorted((k, str(v)) for k, v in run.labels.items())
    digest = hashlib.blake2s(f"{run.digest} {labels}{name}".encode(), digest_size=6).hexdigest()
    what = re.sub(r"[^A-Za-z0-9._]+", "-", f"{run.get('tool')}-{run.get('test') or 'unknown'}")
    return f"d{run.get('deployment') or 1:02d}-r{run.get('round') or 0:03d}-{what}-{digest}"


_ALWAYS = (
    "placement client server accelerated tool test duration_s omit_s streams tcp_buffer_bytes message_bytes during"
).split()


def _record(
    experiment: str, run_id: str, run: LoggedRun, order: int, notice: str
) -> dict[str, Any]:
    hosts = {
        side: {"name": run.get(side), "data_address": run.addresses.get(side)}
        | {k: run.get(f"{side}_{k}") for k in ("vm_size", "region", "zone", "zone_physical")}
        for side in ("client", "server")
    }
    columns = dict.fromkeys([*_ALWAYS, *run.labels, *run.stated])
    return new_record(
        run_id=run_id,
        experiment=experiment,
        deployment=run.get("deployment") or 1,
        round=run.get("round"),
        order=order,
        trial={c: run.get(c) for c in columns if c not in ("round", "deployment", "started_utc")}
        | ({} if run.part is None else {LOG_NAME: run.part}),
        hosts=hosts,
        notice=notice,
        started_utc=run.get("started_utc"),
        warnings=[*dict.fromkeys(run.warnings)],
        log={"status": run.parsed.status, "error": run.parsed.error, "run": run.index}
        | ({"lines": [run.parsed.line, run.end]} if run.index or run.end else {}),
        imported={"file": run.name, "log": run.digest}
        | ({"identity": run.identity} if run.identity else {}),
    )
