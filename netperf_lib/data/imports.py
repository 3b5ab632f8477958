"""Existing logs, with labels that say under which conditions they were taken.

The facts in a log (tool, test, streams, duration, start) are read from it. Those that it cannot
contain (placement, hosts, round) come from a table of labels or from the log's path. Both together
describe a run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..errors import NoLogError, ParseError, StoreError, UsageError, as_cell, visible
from ..experiment.factors import LOG_NAME
from ..experiment.model import Experiment
from ..experiment.origin import Measured, Origin
from ..metrics import in_words, plural
from ..tools import connections, identity, readers
from ..tools.parsed import ParsedRun
from . import logs
from .declaration import declaration, declare, freeze, read_plan, write_plan
from .factors import decide_factors
from .files import Location, explained, is_there, last_name, sha256_of
from .ingest import OnProgress, ingest
from .labels import (
    COLUMNS,
    FILE,
    LONGEST,
    RUN,
    check_name,
    is_one_line,
    path_reader,
    read_labels,
    typed,
)
from .layout import IMPORT, experiments, is_experiment, lock
from .load import Results, data_frame
from .log_names import condition_of, proposed_pattern
from .raw import (
    Record,
    new_run,
    runs,
    write_records,
)
from .tables import moment, run_row, runs_table

if TYPE_CHECKING:
    import pandas as pd

Files = Location | Iterable[Location]

NOTICE = "Imported logs: order and rounds as labelled, not as planned."
_SHOWN = 8
"""Names of logs that are shown."""
_HOSTS = ("client", "server")
_TEMPLATE = (
    "placement client server accelerated streams tcp_buffer_bytes round deployment started_utc"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
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
    def title(self) -> str:
        """The name of the log, and the number of the run where the log holds several."""
        several = self.index or self.end is not None
        return f"{self.name}, run {self.index + 1}" if several else self.name

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
    no_logs: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    again: dict[str, str] = field(default_factory=dict)
    note: str = ""

    @property
    def notice(self) -> str:
        """What must accompany these runs: what was left out, and what is not labelled."""
        words = [NOTICE, self.note]
        if self.no_logs:
            what = f"{plural(len(self.no_logs), 'file')}, no log"
            words.append(f"Left out: {what} ({_first(self.no_logs)}).")
        if self.unreadable:
            named = [f"{name}: {why}" for name, why in self.unreadable.items()]
            what = f"{plural(len(named), 'log')}, unreadable or damaged"
            words.append(f"Left out: {what} ({_first(named, '; ')}).")
        if self.again:
            named = [f"{name} ({what})" for name, what in self.again.items()]
            what = f"{plural(len(named), 'run')}, there again"
            words.append(f"Left out: {what}: {_first(named)}.")
        unlabelled = [run for run in self.runs if run.part is not None]
        if unlabelled:
            words.append(_how_to_label(unlabelled))
        return " ".join(filter(None, words))


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
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    found = _read(given, labels, progress)
    runs, note = _labelled(found, labels, pattern)
    runs, again = _once(runs)
    runs, ends = _without_other_ends(runs)
    if pattern is None:
        runs = _with_parts(runs)
    _refuse_equal(runs)
    return replace(found, runs=runs, again=again | ends, note=note)


# -- what is in the logs ---------------------------------------------------------------------------


def _read(
    given: Sequence[Location], labels: object = None, progress: OnProgress | None = None
) -> Import:
    """Read every run of the logs, without labels."""
    named = _named(given)
    if isinstance(labels, str | os.PathLike):
        named.pop(os.path.abspath(labels), None)  # noqa: PTH100
    chosen = set(map(Path, given))
    found = Import([])
    for done, (name, path) in enumerate(named.values(), 1):
        try:
            with explained(path):
                if not is_there(path):
                    raise ParseError("no such file", file=str(path))
                found.runs.extend(_runs_of(path, name))
        except ParseError as error:
            if path in chosen:
                raise UsageError(f"{path}: {error.message}") from None
            without = isinstance(error, NoLogError)
            (found.no_logs if without else found.unreadable)[name] = error.message
        if progress:
            progress(done, len(named))
    if not found.runs:
        why = [
            f"{name}: {why}" for name, why in (found.unreadable | found.no_logs).items()
        ]
        lines = [f"no logs in {', '.join(map(str, given))}", *why[:3]]
        raise UsageError("\n".join(lines + [f"{len(why) - 3} more"] * (len(why) > 3)))
    return found


def _named(given: Sequence[Location]) -> dict[str, tuple[str, Path]]:
    """Every log by its place, with its name.

    The path relative to the given folder, or that of the file.

    A link out of a given folder, which may come from anybody, is refused: what it leads to was not
    given.
    """
    named: dict[str, tuple[str, Path]] = {}
    for top in map(Path, given):
        for file in map(Path, logs.expand(os.fspath(top))):
            name = file.relative_to(top).as_posix() if top.is_dir() else file.name
            if not is_one_line(name):
                what = "the name of this log has control characters; rename it"
                raise UsageError(f"{name!a}: {what}")
            if top.is_dir() and not file.resolve().is_relative_to(top.resolve()):
                how = "to import it, name it, not its folder"
                raise UsageError(f"{file}: a link to elsewhere ({file.resolve()}); {how}")
            # a link is another log
            named.setdefault(os.path.abspath(file), (name, file))  # noqa: PTH100
    return named


def _runs_of(path: Path, name: str) -> list[LoggedRun]:
    """Return the runs of one log, without labels."""
    parsed = logs.parse(path)
    content = hashlib.blake2s(path.read_bytes(), digest_size=6)
    lines = logs.text(path).split("\n")
    ends: list[int | None] = [max(a.line, b.line - 1) for a, b in pairwise(parsed)]
    runs = []
    for index, (run, end) in enumerate(zip(parsed, [*ends, None], strict=True)):
        digest = content.copy()
        digest.update(str(index).encode())
        text = "\n".join(lines[run.line - 1 : end])
        one = LoggedRun(
            path=path,
            name=name,
            index=index,
            end=end,
            digest=digest.hexdigest(),
            identity=identity(text),
            connections=connections(text),
            parsed=run,
        )
        runs.append(one)
    return runs


def _stated(run: ParsedRun, where: str) -> dict[str, Any]:
    """Return the values of columns in a log; a table of figures may have columns of its own."""
    has_own = getattr(readers().get(run.tool), "STATES_CONDITIONS", False)
    stated = {"tool": run.tool, "test": run.test} | dict(run.parameters)
    cells = {}
    for column, value in stated.items():
        # a tool's log contains much that is not a condition: ports, window sizes, units
        if value is None or not (has_own or column in COLUMNS):
            continue
        if has_own:
            check_name(column, f"{where}: column {column!r}")
        cells[column] = where, visible(str(value))[:LONGEST]
    return typed(cells)


# -- their labels ----------------------------------------------------------------------------------


def _labelled(
    found: Import,
    labels: pd.DataFrame | Location | None,
    pattern: str | None,
) -> tuple[list[LoggedRun], str]:
    """Return the runs with their labels, and what must be said of how these were read."""
    runs = found.runs
    cells: list[dict[str, tuple[str, Any]]] = [{} for _ in runs]
    note = ""
    if pattern is not None:
        for run, own in zip(runs, cells, strict=True):
            path = _of_path(run, pattern)
            own |= {column: ("the path", cell) for column, cell in path.items()}
    if labels is not None:
        table = read_labels(labels)
        note = table.note
        named = set(table.table[FILE])
        for name, why in (found.unreadable | found.no_logs).items():
            if name in named:
                raise UsageError(f"{name}: {why}")
        counts = Counter(run.path for run in runs)
        spellings = [_spellings(run) for run in runs if run.index == 0]
        rows = table.of_runs(spellings, list(counts.values()))
        columns = table.table.columns.difference([FILE, RUN], sort=False)
        for own, line, row in zip(
            cells, rows["line"], rows[columns].to_dict("records"), strict=True
        ):
            given = {c: cell for c, cell in row.items() if cell == cell}
            own |= {str(c): (table.where(line), cell) for c, cell in given.items()}
    pairs = zip(runs, cells, strict=True)
    return [_with_labels(run, own) for run, own in pairs], note


def _of_path(run: LoggedRun, pattern: str) -> dict[str, str]:
    """Return the labels in the path of a log."""
    read = path_reader(pattern)
    found = read(run.name) or read(run.path.as_posix())
    if found is None:
        how = "import only the logs that match, such as 'logs/*/*.json'"
        what = f"the path does not match the pattern {pattern!r}"
        raise UsageError(f"{run.name}: {what}; {how}")
    return found


def _spellings(run: LoggedRun) -> list[str]:
    """Return how a table of labels may write a log."""
    every = (run.name, PurePosixPath(run.name).name, run.path.as_posix())
    return list(dict.fromkeys(every))


def _with_labels(run: LoggedRun, cells: Mapping[str, tuple[str, Any]]) -> LoggedRun:
    """Return a run with its labels; UsageError for one that contradicts the log."""
    place = f"{run.name}:{run.parsed.line}"
    labels, stated = typed(cells), _stated(run.parsed, place)
    for column in labels.keys() & stated.keys():
        # a host has several names, and a clock no zone
        if column in (*_HOSTS, "started_utc"):
            continue
        if not _agree(column, labels[column], stated[column]):
            where, cell = cells[column]
            says = f"{place} says {stated[column]!r}"
            raise UsageError(f"{where}: {column} is {str(cell)!r}, but {says}")
    hosts = {column: labels[column] for column in _HOSTS if column in labels}
    return replace(run, labels=labels, known={**labels, **stated, **hosts})


def _agree(column: str, label: Any, stated: Any) -> bool:
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
    longest = sorted(runs, key=lambda run: sizes[run.path])[::-1]
    first = {run.identity: run for run in longest if run.identity}
    kept, again = list[LoggedRun](), dict[str, str]()
    for run in runs:
        one = first.get(run.identity or "", run)
        if one is run:
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
        if run.connections and run.parsed.parameters.get("server"):
            clients[run.connections].append(run)
    kept = {id(run): run for run in runs}
    left_out = {}
    for run in runs:
        mirrored = frozenset((there, here) for here, there in run.connections)
        same = [one for one in clients.get(mirrored, ()) if one.parsed.status == "ok"]
        # a port is used again after some hundred tests: then the ends are not known
        if run.parsed.parameters.get("server") or len(same) != 1:
            continue
        client = kept[id(same[0])]
        received = {k: v for k, v in run.parsed.metrics.items() if k in logs.RECEIVED}
        metrics = {**received, **client.parsed.metrics}
        parsed = replace(client.parsed, metrics=metrics)
        alone = client.title == client.name and run.title == run.name
        server = run.path if alone else None
        kept[id(same[0])] = replace(client, parsed=parsed, server=server)
        del kept[id(run)]
        left_out[run.title] = f"the other end of {client.title}"
    return list(kept.values()), left_out


def _refuse_equal(runs: Sequence[LoggedRun]) -> None:
    """Refuse runs of one round that have the same labels, and differ in nothing that is known."""
    groups = defaultdict[str, list[LoggedRun]](list)
    for run in runs:
        if run.get("round") is not None and run.parsed.status == "ok":
            known = {**run.known, "part": run.part, "started_utc": None}
            groups[repr(sorted(known.items()))].append(run)
    for same in groups.values():
        if len(same) > 1:
            how = "label what they differ in, or leave the round out"
            what = f"equal labels in round {same[0].get('round')}; {how}"
            raise UsageError(f"{in_words([run.title for run in same])}: {what}")


# -- names of logs ---------------------------------------------------------------------------------


def _with_parts(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the runs; those that no label puts anywhere with what only their names tell apart."""
    parts = {run.name: condition_of(run.name) for run in runs if _is_unplaced(run)}
    if len(set(parts.values())) < 2:
        return list(runs)
    return [replace(run, part=parts.get(run.name)) for run in runs]


def _is_unplaced(run: LoggedRun) -> bool:
    """Whether neither a placement, a host nor a label of the user's says where a run belongs."""
    known = COLUMNS.keys() - {"placement", *_HOSTS}
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
        f"({_first(parts, '; ', _SHOWN)}): figures by name, and no verdict. "
        f"To label them: {how}."
    )


def _first(words: Iterable[str], between: str = ", ", most: int = 3) -> str:
    """The first few of many, and how many more."""
    every = list(words)
    more = len(every) - most
    return between.join([*every[:most], *([f"{more} more"] if more > 0 else [])])


# -- for the command line --------------------------------------------------------------------------


def labels_template(files: Files) -> str:
    """Return a labels file (CSV) to fill in: a row for each run, with the facts in its log."""
    import pandas as pd

    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    rows = []
    for run in _read(given).runs:
        known = _with_labels(run, {}).known
        row = {FILE: run.name, RUN: run.index + 1}
        rows.append(row | {column: known.get(column) for column in _TEMPLATE})
    # whole numbers stay whole if some are missing
    table = pd.DataFrame(rows).convert_dtypes().astype(object)
    table.loc[~table[FILE].duplicated(keep=False), RUN] = None
    cells = table.map(lambda value: as_cell(value) if isinstance(value, str) else value)
    return cells.to_csv(index=False, lineterminator="\n")


def usable(runs: pd.DataFrame) -> str:
    """Return how many runs give values, and why others do not: ``90 runs, 88 usable; 2 not: …``."""
    ok = int(runs["status"].eq("ok").sum())
    if ok == len(runs):
        return f"{plural(ok, 'run')}, all usable"
    reasons = runs.loc[runs["status"] != "ok", "error"].value_counts()
    why = _first([f"{count} not: {reason}" for reason, count in reasons.items()], "; ")
    return f"{plural(len(runs), 'run')}, {ok} usable; {why}"


# -- into an experiment ----------------------------------------------------------------------------


def import_logs(
    files: Files,
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    into: Location,
    contrasts: Sequence[Mapping[str, Any]] = (),
    progress: OnProgress | None = None,
) -> Results:
    """Import existing logs, so that they can be read, compared and reported like measured data.

    Parameters
    ----------
    files, labels, pattern
        As in `understand`.
    into : path
        Folder of the experiment, for example ``results/mine``. More logs may be imported into it
        later; a log that was imported before is left as it is. Which columns are factors is written
        to its ``experiment.yaml``, where it may be edited.
    contrasts : sequence of dict, optional
        Contrasts declared with the first import, as in an experiment's file; later ones get no
        verdict.
    progress : callable, optional
        Called with (steps done, all steps): each log is read, stored, and read into tables.

    Returns
    -------
    Results
        The imported experiment, as `netperf_lib.read` returns it.

    Raises
    ------
    UsageError
        As `understand`.
    StoreError
        The folder contains a measured experiment, or a log was imported before with other labels.

    Examples
    --------
    >>> import tempfile
    >>> into = tempfile.mkdtemp() + "/mine"
    >>> npl.import_logs("data/published/azure-westeurope-d16v3", into=into)  # doctest: +ELLIPSIS
    Imported logs: ... Only their names tell 9 runs apart (...): figures by name, and no verdict...
    <mine: 9 runs (9 ok), 0 contrasts>
    conditions: tool, test, streams, direction, duration_s, log_name, server
    group npl.observe(exp, metric).table, not exp.runs
    """
    steps = _Steps(progress)
    found = understand(files, labels=labels, pattern=pattern, progress=steps.at(0, 2))
    folder = Path(os.path.abspath(into))  # noqa: PTH100 - a link counts by its own name
    document: dict[str, Any] = {
        "name": last_name(folder),
        "hosts": {"source": "imported"},
        "contrasts": contrasts,
    }
    with explained(folder):
        declared = Experiment.model_validate(document)
    earlier = None
    if is_experiment(folder):
        earlier = declaration(folder).experiment
        if earlier.hosts.source != "imported":
            how = "contains a measured experiment; import into another folder"
            raise StoreError(f"{folder}: {how}")
        declared = declared if contrasts else earlier
    before = list(runs(folder))
    new, again = _new(before, found.runs, folder)
    whole = replace(found, again=found.again | again)
    records = _records(last_name(folder), new, len(before), whole.notice)
    factors = _factors(before, records, earlier)
    declare(folder, declared.model_copy(update={"factors": factors}))
    if read_plan(folder) is None:
        plan = declared.model_dump(mode="json")
        write_plan(folder, {"imported": True, "trials": [], "experiment": plan})
    with lock(folder):
        _store(folder, new, records, steps.at(2, 3))
    ingest(folder, steps.at(3, 5))
    return Results(folder)


class _Steps:
    """The progress of an import, of which each part takes its share."""

    ALL = 5

    def __init__(self, progress: OnProgress | None) -> None:
        self._progress, self._total = progress, 0

    def at(self, start: int, end: int) -> OnProgress:
        """Return what one part calls."""

        def call(done: int, total: int) -> None:
            if self._progress:
                self._total = self._total or total * self.ALL
                share = (start + (end - start) * done / total) / self.ALL
                self._progress(round(share * self._total), self._total)

        return call


def _factors(
    before: Sequence[Record], new: Sequence[Record], earlier: Experiment | None
) -> tuple[str, ...]:
    """Return the factors of all runs; what a person added to or removed from them stays so."""
    now, _ = decide_factors([*before, *new])
    if earlier is None or earlier.factors is None:
        return tuple(now)
    then, _ = decide_factors(before)
    removed = set(then) - set(earlier.factors)
    return tuple(dict.fromkeys([*earlier.factors, *(f for f in now if f not in removed)]))


def factors_in_words(exp: Results) -> str:
    """Return which columns of an import are factors, and which vary and are none."""
    declared = declaration(exp.own_folder).experiment.factors or ()
    _, others = decide_factors(runs(exp.own_folder))
    words = f"Factors: {', '.join(declared) or 'none'} (experiment.yaml)."
    none = [f"{name} ({why})" for name, why in others.items() if name not in declared]
    return f"{words} No factor: {', '.join(none)}." if none else words


def _new(
    before: Sequence[Record], runs: Sequence[LoggedRun], folder: Path
) -> tuple[dict[str, LoggedRun], dict[str, str]]:
    """Runs that have not been imported yet, in order of time, by their ids; and the others.

    Short logs of two rounds can be identical to the byte: they are two runs if their names or
    labels differ.
    """
    known: dict[Any, tuple[str, dict[str, Any]]] = {}
    for record in before:
        imported = record.imported or {}
        known[imported["file"], imported.get("log")] = record.run_id, imported
        if imported.get("identity"):
            known[imported["identity"]] = record.run_id, imported
    new, again = dict[str, LoggedRun](), dict[str, str]()
    for run in runs:
        place = run.name, run.digest
        there, imported = known.get(place) or known.get(run.identity) or ("", {})
        if not there:
            new[_run_id(run)] = run
        elif (imported["file"], imported["log"]) != place:
            again[run.title] = f"the same run as {imported['file']}"
        elif there != _run_id(run):
            what = f"was imported before with other labels (run {there})"
            how = f"import into another folder, or remove {folder} first"
            raise UsageError(f"{run.name}: {what}; {how}")
    first = datetime.min.replace(tzinfo=UTC)
    starts = {
        run_id: moment(run.get("started_utc")) or first for run_id, run in new.items()
    }
    return {run_id: new[run_id] for run_id in sorted(new, key=starts.__getitem__)}, again


def _run_id(run: LoggedRun) -> str:
    """Name a run by its deployment, its round (0: unknown), its tool and a digest.

    It is that of its log, its labels and the name of its log.
    """
    labels = sorted((k, str(v)) for k, v in run.labels.items())
    text = f"{run.digest} {labels}{run.name}"
    digest = hashlib.blake2s(text.encode(), digest_size=6).hexdigest()
    what = f"{run.get('tool')}-{run.get('test') or 'unknown'}"
    what = re.sub(r"[^A-Za-z0-9._]+", "-", what)
    deployment, number = run.get("deployment") or 1, run.get("round") or 0
    return f"d{deployment:02d}-r{number:03d}-{what}-{digest}"


def _store(
    folder: Path,
    new: Mapping[str, LoggedRun],
    records: Sequence[Record],
    progress: OnProgress,
) -> None:
    """Write runs into one folder: each log once, by its digest, and the records of all."""
    if not new:
        return
    folder_id = hashlib.blake2s("".join(new).encode(), digest_size=6).hexdigest()
    frozen = freeze(folder)
    kept: dict[Path, dict[str, str]] = {}
    stored = []
    with new_run(folder, f"{IMPORT}{folder_id}") as staged:
        for done, (run, record) in enumerate(zip(new.values(), records, strict=True), 1):
            if run.path not in kept:
                digest = sha256_of(run.path)
                kept[run.path] = {f"client-{digest[:16]}.out": digest}
                if run.server is not None:
                    # what arrived is in the log of the other end alone
                    other = sha256_of(run.server)
                    kept[run.path][f"server-{digest[:16]}.out"] = other
                    shutil.copyfile(run.server, staged / f"server-{digest[:16]}.out")
                shutil.copyfile(run.path, staged / f"client-{digest[:16]}.out")
            stored.append(replace(record, files=kept[run.path], declaration=frozen))
            progress(done, len(new))
        write_records(staged, stored)


_ALWAYS = (
    "placement client server accelerated tool test duration_s omit_s streams tcp_buffer_bytes "
    "message_bytes during"
).split()
_NO_TRIAL = ("round", "deployment", "started_utc")


def _records(
    experiment: str, runs: Mapping[str, LoggedRun], first: int, notice: str
) -> list[Record]:
    """Return the records of runs in order."""
    numbered = enumerate(runs.items(), first)
    return [_record(experiment, i, run, order, notice) for order, (i, run) in numbered]


def _record(
    experiment: str, run_id: str, run: LoggedRun, order: int, notice: str
) -> Record:
    facts = ("vm_size", "region", "zone", "zone_physical")
    hosts = {}
    for side in _HOSTS:
        known = {name: run.get(f"{side}_{name}") for name in facts}
        hosts[side] = {"name": run.get(side), **known}
    columns = dict.fromkeys([*_ALWAYS, *run.known])
    trial = {column: run.get(column) for column in columns if column not in _NO_TRIAL}
    log: dict[str, Any] = {
        "status": run.parsed.status,
        "error": run.parsed.error,
        "run": run.index,
    }
    imported = {"file": run.name, "log": run.digest}
    if run.part is not None:
        trial[LOG_NAME] = run.part
    if run.index or run.end:
        log["lines"] = [run.parsed.line, run.end]
    if run.identity:
        imported["identity"] = run.identity
    return Record(
        run_id=run_id,
        experiment=experiment,
        deployment=run.get("deployment") or 1,
        round=run.get("round"),
        order=order,
        trial=trial,
        hosts=hosts,
        notice=notice,
        started_utc=run.get("started_utc"),
        log=log,
        imported=imported,
    )


def are_logs(location: Location) -> bool:
    """Return whether a location is a file, a folder or a pattern of logs.

    An experiment, or a folder of experiments, is none of these.
    """
    path = Path(location)
    if is_experiment(path):
        return False
    if set("*?[") & set(str(location)):
        return True
    return is_there(path) and not experiments(location)


def read_logs(files: Files, *, pattern: str | None = None) -> Measured:
    """Read logs into a table of runs like that of `netperf_lib.read`, without importing them.

    See `understand`.
    """
    found = understand(files, pattern=pattern)
    ids = [run.identity or f"{run.path}:{run.index + 1}" for run in found.runs]
    runs = dict(zip(ids, found.runs, strict=True))
    records = _records("logs", runs, 0, NOTICE)
    pairs = zip(records, runs.values(), strict=True)
    rows = [run_row(record, [run.parsed], None) for record, run in pairs]
    factors, _ = decide_factors(records)
    origin = Origin(declared={"factors": factors}, notice=found.notice)
    return Measured(data_frame(runs_table(rows)), origin)
