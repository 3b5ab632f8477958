"""Runs of existing logs, with the labels that say under which conditions they were taken.

The facts in a log (tool, test, streams, duration, start) are read from it. Those that it cannot
contain (placement, hosts, round) come from a table of labels or from the log's path. Both together
describe a run.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import NoLogError, ParseError, UsageError, visible
from ..metrics import in_words, plural
from ..tools import connections, identity, readers
from ..tools.parsed import ParsedRun
from . import logs
from .files import Location, explained, is_there
from .ingest import OnProgress
from .labels import (
    COLUMNS,
    FILE,
    LONGEST,
    RUN,
    Cells,
    check_name,
    is_one_line,
    path_expression,
    read_labels,
    typed,
)
from .log_names import condition_of, proposed_pattern

if TYPE_CHECKING:
    import pandas as pd

Files = Location | Iterable[Location]

NOTICE = "Imported logs: order and rounds as labelled, not as planned."
HOSTS = ("client", "server")
_SHOWN = 8
"""Names of logs that are shown."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """One run of an existing log: the facts in the log, and its labels."""

    path: Path
    name: str
    """Path of the log relative to the given folder, with ``/``."""
    index: int
    """Number of the run in its log, from 0."""
    end: int | None
    """Last line of the run in its log, in which another run follows; None: that of the log."""
    digest: str
    """Digest of the log and of the run's position in it."""
    identity: str | None
    """What no other run's lines can hold; None: two runs can print the same lines."""
    connections: frozenset[tuple[str, str]]
    """Its connections: this end, and the other one."""
    parsed: ParsedRun
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Values of the labels, typed; a label that is not given is absent."""
    known: Mapping[str, Any] = field(default_factory=dict)
    """Values of all columns: those in the log, else the labels; of the hosts first the labels."""
    server: Path | None = None
    """The log of its other end, if neither log holds another run."""
    part: str | None = None
    """Its name without the running number, where no label tells it apart from others."""

    @property
    def is_alone(self) -> bool:
        """Whether its log holds no other run."""
        return self.index == 0 and self.end is None

    @property
    def title(self) -> str:
        """The name of the log, and the number of the run where the log holds several."""
        return self.name if self.is_alone else f"{self.name}, run {self.index + 1}"

    @property
    def key(self) -> str:
        """What identifies the run: its identity, else its place."""
        return self.identity or f"{self.path}:{self.index + 1}"

    def get(self, column: str) -> Any:
        """Return the value of a column; None if it is not known."""
        return self.known.get(column)


@dataclass(frozen=True, slots=True)
class Import:
    """The runs of logs, and what was left out of them.

    Attributes
    ----------
    runs : list of LoggedRun
        In the order of the logs.
    no_logs : dict
        Files without a run of a known tool, each with the reason.
    unreadable : dict
        Logs that cannot be read, or are damaged, each with the reason.
    again : dict
        Runs that are there a second time, each with what it repeats.
    note : str
        What must be said of how the labels were read; else empty.
    """

    runs: list[LoggedRun]
    no_logs: Mapping[str, str]
    unreadable: Mapping[str, str]
    again: Mapping[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def notice(self) -> str:
        """What must accompany these runs: what was left out, and what is not labelled."""
        damaged = _with_reasons(self.unreadable)
        repeated = [f"{name} ({what})" for name, what in self.again.items()]
        words = [
            NOTICE,
            self.note,
            _left_out("file", self.no_logs, f"no log ({first(self.no_logs)})"),
            _left_out("log", damaged, f"unreadable or damaged ({first(damaged, '; ')})"),
            _left_out("run", repeated, f"there again: {first(repeated)}"),
        ]
        unlabelled = [run for run in self.runs if run.part is not None]
        if unlabelled:
            words.append(_how_to_label(unlabelled))
        return " ".join(filter(None, words))


def _with_reasons(found: Mapping[str, str]) -> list[str]:
    return [f"{name}: {why}" for name, why in found.items()]


def _left_out(noun: str, found: Collection[str], why: str) -> str:
    return f"Left out: {plural(len(found), noun)}, {why}." if found else ""


def understand(
    files: Files,
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    progress: OnProgress | None = None,
) -> Import:
    """Read logs and join their labels, in the order of the files.

    A file of a folder that holds no run of a known tool, such as a readme, is left out; one that
    was named is refused.

    Parameters
    ----------
    files : path or iterable of paths
        Logs, folders of logs, or patterns.
    labels : DataFrame or path of a CSV file, optional
        A row for a log or for a pattern of logs: a column ``file``, optionally ``run``, and one for
        each label.
    pattern : str, optional
        Structure of the end of a log's path, for example
        ``"{placement}/{tool}-P{streams}-r{round}.txt"``.
    progress : callable, optional
        Called with (logs read, logs to read).

    Returns
    -------
    Import
        The runs, and what was left out.

    Raises
    ------
    UsageError
        A row that matches no log, a log that no row matches, two rows for one log, a label that
        contradicts the log, a value that cannot be read, a log without a run.
    """
    found = read_runs(files, labels, progress)
    cells, note = _cells(found, labels, pattern)
    runs = list(map(with_labels, found.runs, cells))
    runs, again = _once(runs)
    runs, ends = _without_other_ends(runs)
    if pattern is None:
        runs = _with_parts(runs)
    _refuse_equal(runs)
    return replace(found, runs=runs, again=again | ends, note=note)


# -- what is in the logs ---------------------------------------------------------------------------


def read_runs(
    files: Files, labels: object = None, progress: OnProgress | None = None
) -> Import:
    """Read every run of the logs, without labels; the table of labels itself is no log."""
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    named = _named(given)
    if isinstance(labels, str | os.PathLike):
        named.pop(os.path.abspath(labels), None)  # noqa: PTH100
    chosen = set(map(Path, given))
    runs, no_logs, unreadable = list[LoggedRun](), dict[str, str](), dict[str, str]()
    for done, (name, path) in enumerate(named.values(), 1):
        try:
            with explained(path):
                if not is_there(path):
                    raise ParseError("no such file", file=str(path))
                runs += _runs_of(path, name)
        except ParseError as error:
            if path in chosen:
                raise UsageError(f"{path}: {error.message}") from None
            left_out = no_logs if isinstance(error, NoLogError) else unreadable
            left_out[name] = error.message
        if progress:
            progress(done, len(named))
    if not runs:
        why = _with_reasons(unreadable | no_logs)
        places = ", ".join(map(str, given))
        raise UsageError(first([f"no logs in {places}", *why], "\n", 4))
    return Import(runs, no_logs, unreadable)


def _named(given: Sequence[Location]) -> dict[str, tuple[str, Path]]:
    """Return every log by its place: its name, relative to the given folder, and its path.

    A link out of a given folder, which may come from anybody, is refused: what it leads to was not
    given.
    """
    named: dict[str, tuple[str, Path]] = {}
    for top in map(Path, given):
        is_folder, given_folder = top.is_dir(), Path(os.path.realpath(top))
        for file in map(Path, logs.expand(os.fspath(top))):
            name = file.relative_to(top).as_posix() if is_folder else file.name
            if not is_one_line(name):
                what = "the name of this log has control characters; rename it"
                raise UsageError(f"{name!a}: {what}")
            target = Path(os.path.realpath(file))
            if is_folder and not target.is_relative_to(given_folder):
                how = "to import it, name it, not its folder"
                raise UsageError(f"{file}: a link to elsewhere ({target}); {how}")
            # a link is another log
            named.setdefault(os.path.abspath(file), (name, file))  # noqa: PTH100
    return named


def _runs_of(path: Path, name: str) -> list[LoggedRun]:
    """Return the runs of one log, without labels."""
    parsed = logs.parse(path)
    content = path.read_bytes()
    lines = logs.text(path).split("\n")
    ends: list[int | None] = [max(a.line, b.line - 1) for a, b in pairwise(parsed)]
    runs = []
    for index, (run, end) in enumerate(zip(parsed, [*ends, None], strict=True)):
        position = str(index).encode()
        digest = hashlib.blake2s(content + position, digest_size=6).hexdigest()
        text = "\n".join(lines[run.line - 1 : end])
        facts = identity(text), connections(text), run
        runs.append(LoggedRun(path, name, index, end, digest, *facts))
    return runs


def _stated(run: LoggedRun, place: str) -> dict[str, Any]:
    """Return the values of columns in a log; a table of figures may have columns of its own."""
    parsed = run.parsed
    has_own = getattr(readers().get(parsed.tool), "STATES_CONDITIONS", False)
    cells = {}
    stated = {"tool": parsed.tool, "test": parsed.test} | parsed.parameters
    for column, value in stated.items():
        # a tool's log contains much that is not a condition: ports, window sizes, units
        if value is None or not (has_own or column in COLUMNS):
            continue
        if has_own:
            check_name(column, f"{place}: column {column!r}")
        cells[column] = place, visible(str(value))[:LONGEST]
    return typed(cells)


# -- their labels ----------------------------------------------------------------------------------


def _cells(
    found: Import, labels: pd.DataFrame | Location | None, pattern: str | None
) -> tuple[list[Cells], str]:
    """Return the labels of each run, and what must be said of how these were read."""
    import pandas as pd

    runs, note = found.runs, ""
    cells: list[Cells] = [{} for _ in runs]
    places = [(run.path.as_posix(), run.name, run.index + 1) for run in runs]
    frame = pd.DataFrame(places, columns=["log", "name", RUN])
    if pattern is not None:
        cells = _of_paths(frame, pattern)
    if labels is not None:
        table = read_labels(labels)
        note = table.note
        left_out = {**found.unreadable, **found.no_logs}
        for name in left_out.keys() & {*table.rows[FILE]}:
            raise UsageError(f"{name}: {left_out[name]}")
        # how a row may write a log
        ways = frame.assign(last=frame["name"].str.rpartition("/")[2], path=frame["log"])
        spelled = ways.melt("log", ["name", "last", "path"], value_name=FILE)
        spelled = spelled[["log", FILE]].drop_duplicates()
        rows = table.of_runs(spelled, frame[["log", RUN]])
        cells = [own | row for own, row in zip(cells, rows, strict=True)]
    return cells, note


def _of_paths(frame: pd.DataFrame, pattern: str) -> list[Cells]:
    """Return the labels in the path of each run's log."""
    expression = path_expression(pattern)
    of_path = frame["log"].str.extract(expression)
    found = frame["name"].str.extract(expression).fillna(of_path)
    for name in frame["name"][found.isna().any(axis="columns")]:
        how = "import only the logs that match, such as 'logs/*/*.json'"
        what = f"the path does not match the pattern {pattern!r}"
        raise UsageError(f"{name}: {what}; {how}")
    places = found.map(lambda cell: ("the path", cell))
    cells: list[Any] = places.to_dict("records")
    return cells


def with_labels(run: LoggedRun, cells: Cells) -> LoggedRun:
    """Return a run with its labels; UsageError for one that contradicts the log."""
    place = f"{run.name}:{run.parsed.line}"
    labels, stated = typed(cells), _stated(run, place)
    known = labels | stated
    for column in labels.keys() & stated.keys():
        if column in HOSTS:  # a host has several names
            known[column] = labels[column]
        elif not _agree(column, labels[column], stated[column]):
            where, cell = cells[column]
            says = f"{place} says {stated[column]!r}"
            raise UsageError(f"{where}: {column} is {str(cell)!r}, but {says}")
    return replace(run, labels=labels, known=known)


def _agree(column: str, label: Any, stated: Any) -> bool:
    if column == "started_utc":  # a clock may lack its zone
        return True
    if isinstance(label, float):
        return bool(abs(label - stated) <= 0.05 * max(label, stated))
    one, other = str(label).lower(), str(stated).lower()
    return one == other or (column, one, other) == ("tool", "iperf", "iperf2")


# -- each run once ---------------------------------------------------------------------------------


def _once(runs: Sequence[LoggedRun]) -> tuple[list[LoggedRun], dict[str, str]]:
    """Return each run once, and for each that is there again what it repeats.

    A log to which the next runs were appended holds those before it: of two logs with one run
    the shorter one, which has the labels of that run, counts.
    """
    sizes = Counter(run.path for run in runs)
    first_of: dict[str, LoggedRun] = {}
    for run in sorted(runs, key=lambda run: sizes[run.path]):
        first_of.setdefault(run.key, run)
    kept, again = list[LoggedRun](), dict[str, str]()
    for run in runs:
        one = first_of[run.key]
        if run is one:
            kept.append(run)
        else:
            again[run.title] = f"the same run as {one.title}"
    return kept, again


def _without_other_ends(
    runs: Sequence[LoggedRun],
) -> tuple[list[LoggedRun], dict[str, str]]:
    """Return a run for the logs of both ends of a test, and what was left out for it.

    The log of the client counts, with what only its server knows: what arrived.
    """
    clients = defaultdict[frozenset[tuple[str, str]], list[LoggedRun]](list)
    for run in runs:
        if _is_client(run) and run.parsed.status == "ok":
            clients[run.connections].append(run)
    whole, left_out = {run.key: run for run in runs}, dict[str, str]()
    for run in runs:
        mirrored = frozenset((there, here) for here, there in run.connections)
        same = clients.get(mirrored, [])
        # a port is used again after some hundred tests: then the ends are not known
        if not mirrored or _is_client(run) or len(same) != 1:
            continue
        client = whole[same[0].key]
        parsed = logs.with_received(client.parsed, run.parsed)
        server = run.path if client.is_alone and run.is_alone else None
        whole[client.key] = replace(client, parsed=parsed, server=server)
        del whole[run.key]
        left_out[run.title] = f"the other end of {client.title}"
    return list(whole.values()), left_out


def _is_client(run: LoggedRun) -> bool:
    return bool(run.parsed.parameters.get("server"))


def _refuse_equal(runs: Sequence[LoggedRun]) -> None:
    """Refuse runs of one round that have the same labels, and differ in nothing that is known."""
    equal = defaultdict[str, list[LoggedRun]](list)
    for run in runs:
        if run.get("round") is not None and run.parsed.status == "ok":
            known = {**run.known, "part": run.part, "started_utc": None}
            equal[repr(sorted(known.items()))].append(run)
    for same in equal.values():
        if len(same) > 1:
            how = "label what they differ in, or leave the round out"
            what = f"equal labels in round {same[0].get('round')}; {how}"
            raise UsageError(f"{in_words([run.title for run in same])}: {what}")


# -- names of logs ---------------------------------------------------------------------------------


def _with_parts(runs: list[LoggedRun]) -> list[LoggedRun]:
    """Return the runs; those that no label puts anywhere with what only their names tell apart."""
    parts = {run.name: condition_of(run.name) for run in runs if _is_unplaced(run)}
    if len(set(parts.values())) < 2:
        return runs
    return [replace(run, part=parts.get(run.name)) for run in runs]


def _is_unplaced(run: LoggedRun) -> bool:
    """Whether neither a placement, a host nor a label of the user's says where a run belongs."""
    known = COLUMNS.keys() - {"placement", *HOSTS}
    return run.get("placement") is None and run.labels.keys() <= known


def _how_to_label(runs: Sequence[LoggedRun]) -> str:
    """Say that names of logs are no labels, and how to label them."""
    parts = sorted({run.part or "without a name" for run in runs})
    pattern = proposed_pattern([run.name for run in runs])
    how = "--labels-template, and --labels with its table"
    if pattern:
        how = f"--pattern {pattern!r}, or {how}"
    return (
        f"Only their names tell {plural(len(runs), 'run')} apart "
        f"({first(parts, '; ', _SHOWN)}): figures by name, and no verdict. "
        f"To label them: {how}."
    )


def first(words: Iterable[str], between: str = ", ", most: int = 3) -> str:
    """Return the first few of many, and how many more."""
    every = list(words)
    shown = every[:most]
    if len(every) > most:
        shown.append(f"{len(every) - most} more")
    return between.join(shown)
