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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..errors import ParseError, StoreError, UsageError, as_cell, visible
from ..experiment.factors import LOG_NAME
from ..experiment.model import Experiment
from ..experiment.origin import Measured, Origin
from ..metrics import in_words, plural
from ..tools import connections, identity, readers
from ..tools.parsed import ParsedRun
from . import logs
from .files import Location, explained, is_url, sha256_of
from .ingest import OnProgress
from .labels import (
    COLUMNS,
    FILE,
    LONGEST,
    RUN,
    LabelRow,
    check_name,
    is_one_line,
    path_reader,
    read_labels,
    typed,
)
from .layout import (
    IMPORT,
    RECORD_SCHEMA,
    RECORDS,
    Store,
    experiments,
    new_record,
    packed_records,
)
from .load import Results, data_frame
from .log_names import LogName, name_parts, proposed_pattern
from .tables import moment, run_row, runs_table

if TYPE_CHECKING:
    import pandas as pd

Files = Location | Iterable[Location]

NOTICE = "Imported logs: order and rounds as labelled, not as planned."
_SHOWN = 8
"""Parts of names that are shown."""
_HOSTS = ("client", "server")
_TEMPLATE = (
    "placement client server accelerated streams tcp_buffer_bytes round deployment started_utc"
).split()


@dataclass(frozen=True, kw_only=True)
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
    labels: Mapping[str, Any]
    """Values of the labels, typed; a label that is not given is absent."""
    known: Mapping[str, Any]
    """Values of all columns: those in the log, else the labels; of the hosts first the labels."""
    part: str | None = None
    """What tells its name apart from those of other logs, where no label does."""

    @property
    def title(self) -> str:
        """The name of the log, and the number of the run where the log holds several."""
        several = self.index or self.end is not None
        return f"{self.name}, run {self.index + 1}" if several else self.name

    def get(self, column: str) -> Any:
        """Return the value of a column; None if it is not known."""
        return self.known.get(column)


def understand(
    files: Files,
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[list[LoggedRun], list[str]]:
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
    tuple of list
        The runs, and the names of files that were left out: no log, or the same run again.

    Raises
    ------
    UsageError
        All problems found, one line each: a row that matches no log, a log that no row matches, two
        rows for one log, a label that contradicts the log, a value that cannot be read, a log
        without a run.
    """
    runs, left_out = _labelled(files, labels, pattern, progress)
    runs, again = _once(runs)
    runs, ends = _without_other_ends(runs)
    again += ends
    if pattern is None:
        runs = _with_parts(runs)
    _refuse_equal(runs)
    return runs, [*left_out, *again]


def _labelled(
    files: Files,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[list[LoggedRun], list[str]]:
    """Return every run of the logs, and the files that hold none."""
    table = None if labels is None else read_labels(labels)
    read_path = None if pattern is None else path_reader(pattern)
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    named = _named(given)
    if isinstance(labels, str | os.PathLike):
        named.pop(os.path.abspath(labels), None)  # noqa: PTH100
    runs: list[LoggedRun] = []
    left_out: dict[str, str] = {}
    for done, (name, path) in enumerate(named.values(), 1):
        rows = table.find(name, path) if table else []
        try:
            parsed = _read(path)
        except ParseError as error:
            if rows or path in map(Path, given):
                raise UsageError(f"{path}: {error.message}") from None
            left_out[name] = error.message
            continue
        if table and not rows:
            what = "matches this log; add one (its cells may be empty)"
            raise UsageError(f"{name}: no row of {table.source} {what}")
        found = read_path(name) or read_path(path.as_posix()) if read_path else {}
        if found is None:
            what = "import only the logs that match, such as 'logs/*/*.json'"
            raise UsageError(
                f"{name}: the path does not match the pattern {pattern!r}; {what}"
            )
        runs += _runs(path, name, parsed, found, rows)
        if progress:
            progress(done, len(named))
    if table:
        table.refuse_unused()
    if not runs:
        why = [f"{name}: {why}" for name, why in left_out.items()]
        raise UsageError(
            "\n".join([f"no logs in {', '.join(map(str, given))}", *_first(why)])
        )
    return runs, [*left_out]


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


def _read(path: Path) -> list[ParsedRun]:
    """Read a log; what keeps it from being read now is an error, for which it is not left out."""
    with explained(path):
        if not path.exists():
            raise ParseError("no such file", file=str(path))
        return logs.parse(path)


def _runs(
    path: Path,
    name: str,
    parsed: Sequence[ParsedRun],
    found: Mapping[str, str],
    rows: Sequence[LabelRow],
) -> list[LoggedRun]:
    """Join the runs of a log and their labels: those of a row go before those of the path."""
    content = hashlib.blake2s(path.read_bytes(), digest_size=6)
    lines = logs.text(path).split("\n")
    ends = [max(a.line, b.line - 1) for a, b in pairwise(parsed)]
    runs = []
    for index, (run, end) in enumerate(zip(parsed, [*ends, None], strict=True)):
        cells = {column: ("the path", cell) for column, cell in found.items()}
        about = [row for row in rows if row.is_about(index)]
        if len(about) > 1:
            where = ", ".join(row.where for row in about)
            raise UsageError(f"{name}: two rows for one run: {where}; keep one")
        for row in about:
            row.used = True
            cells |= {
                c: (row.where, cell)
                for c, cell in row.cells.items()
                if c not in (FILE, RUN)
            }
        labels, stated = typed(cells), _stated(run, f"{name}:{run.line}")
        # a host has several names, and a clock no zone
        for column in (labels.keys() & stated.keys()) - {*_HOSTS, "started_utc"}:
            if not _agree(column, labels[column], stated[column]):
                where, cell = cells[column]
                says = f"{name}:{run.line} says {stated[column]!r}"
                raise UsageError(f"{where}: {column} is {str(cell)!r}, but {says}")
        digest = content.copy()
        digest.update(str(index).encode())
        runs.append(
            LoggedRun(
                path=path,
                name=name,
                index=index,
                end=end,
                digest=digest.hexdigest(),
                identity=identity("\n".join(lines[run.line - 1 : end])),
                connections=connections("\n".join(lines[run.line - 1 : end])),
                parsed=run,
                labels=labels,
                known=stated
                | {k: labels[k] for k in labels if k not in stated or k in _HOSTS},
            )
        )
    return runs


def _stated(run: ParsedRun, where: str) -> dict[str, Any]:
    """Return the values of columns in a log; a table of figures may have columns of its own."""
    has_own = getattr(readers().get(run.tool), "STATES_CONDITIONS", False)
    stated = {"tool": run.tool, "test": run.test} | dict(run.parameters)
    # a tool's log contains much that is not a condition: ports, window sizes, units
    stated = {
        k: v for k, v in stated.items() if v is not None and (has_own or k in COLUMNS)
    }
    for column in stated if has_own else ():
        check_name(column, f"{where}: column {column!r}")
    return typed(
        {c: (where, visible(str(value))[:LONGEST]) for c, value in stated.items()}
    )


def _agree(column: str, label: Any, stated: Any) -> bool:
    if isinstance(label, float):
        return bool(abs(label - stated) <= 0.05 * max(label, stated))
    one, other = str(label).lower(), str(stated).lower()
    return one == other or (column, one, other) == ("tool", "iperf", "iperf2")


def _once(runs: Sequence[LoggedRun]) -> tuple[list[LoggedRun], list[str]]:
    """Return each run once, and a line for each that is there again.

    A log to which the next runs were appended holds those before it: of two logs with one run
    the shorter one, which has the labels of that run, counts.
    """
    sizes = Counter(run.path for run in runs)
    longest = sorted(runs, key=lambda run: sizes[run.path])[::-1]
    first = {run.identity: run for run in longest if run.identity}
    kept, again = list[LoggedRun](), list[str]()
    for run in runs:
        one = first.get(run.identity or "", run)
        if one is run:
            kept.append(run)
        else:
            again.append(f"{run.title} (the same run as {one.title})")
    return kept, again


def _without_other_ends(
    runs: Sequence[LoggedRun],
) -> tuple[list[LoggedRun], list[str]]:
    """Return a run for the logs of both ends of a test, and a line for each that is left out.

    The log of the client counts, with what only its server knows: what arrived.
    """
    clients = defaultdict[frozenset[tuple[str, str]], list[LoggedRun]](list)
    for run in runs:
        if run.connections and run.parsed.parameters.get("server"):
            clients[run.connections].append(run)
    kept = {id(run): run for run in runs}
    left_out = []
    for run in runs:
        mirrored = frozenset((there, here) for here, there in run.connections)
        same = [one for one in clients[mirrored] if one.parsed.status == "ok"]
        # a port is used again after some hundred tests: then the ends are not known
        if run.parsed.parameters.get("server") or len(same) != 1:
            continue
        client = kept[id(same[0])]
        received = {k: v for k, v in run.parsed.metrics.items() if k in logs.RECEIVED}
        metrics = {**received, **client.parsed.metrics}
        parsed = replace(client.parsed, metrics=metrics)
        kept[id(same[0])] = replace(client, parsed=parsed)
        del kept[id(run)]
        left_out.append(f"{run.title} (the other end of {client.title})")
    return list(kept.values()), left_out


def _refuse_equal(runs: Sequence[LoggedRun]) -> None:
    """Refuse runs of one round that have the same labels, and differ in nothing that is known."""
    groups = defaultdict[str, list[LoggedRun]](list)
    for run in runs:
        if run.get("round") is not None and run.parsed.status == "ok":
            groups[_condition(run)].append(run)
    for same in groups.values():
        if len(same) > 1:
            how = "label what they differ in, or leave the round out"
            what = f"equal labels in round {same[0].get('round')}; {how}"
            raise UsageError(f"{in_words([run.title for run in same])}: {what}")


def _with_parts(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the runs; those that no label puts anywhere with what only their names tell apart."""
    unplaced = [run for run in runs if _is_unplaced(run)]
    parts = name_parts(list(map(_name, unplaced)))
    if len(set(parts)) < 2:
        return list(runs)
    of_run = dict(zip(map(id, unplaced), parts, strict=True))
    return [replace(run, part=of_run.get(id(run))) for run in runs]


def _condition(run: LoggedRun) -> str:
    """Return all that is known of a run but the time of it."""
    return repr(sorted({**run.known, "part": run.part, "started_utc": None}.items()))


def _is_unplaced(run: LoggedRun) -> bool:
    """Whether neither a placement, a host nor a label of the user's says where a run belongs."""
    known = COLUMNS.keys() - {"placement", *_HOSTS}
    return run.get("placement") is None and run.labels.keys() <= known


def _name(run: LoggedRun) -> LogName:
    tool = str(run.parsed.tool)
    said = {tool, tool.rstrip("0123456789")}
    said |= {str(run.get(c)).lower() for c in ("test", "protocol", "direction")}
    if streams := run.get("streams"):
        said |= {f"p{streams}", f"{streams}", f"{streams}streams", "streams", "stream"}
    return LogName(PurePosixPath(run.name).with_suffix("").as_posix(), tool, said)


def _first(words: Sequence[str], most: int = 3) -> list[str]:
    more = len(words) - most
    return [*words[:most], *([f"{more} more"] if more > 0 else [])]


def _notice(left_out: Sequence[str], runs: Sequence[LoggedRun]) -> str:
    """What must accompany imported logs: what was left out, and what is not labelled."""
    words = [NOTICE]
    if left_out:
        some = ", ".join(_first(left_out))
        words.append(f"Left out, as no log or the same run again: {some}.")
    unknown = [run for run in runs if run.part is not None]
    if unknown:
        parts = "; ".join(_first(sorted({run.part or "" for run in unknown}), _SHOWN))
        pattern = proposed_pattern(list(map(_name, unknown)))
        by_table = "--labels-template, and --labels with its table"
        words.append(
            f"The names of {plural(len(unknown), 'run')} tell apart what no label says "
            f"({parts}): figures by name, and no verdict. "
            f"To label them: {f'--pattern {pattern!r}' if pattern else by_table}."
        )
    return " ".join(words)


def labels_template(files: Files) -> str:
    """Return a labels file (CSV) to fill in: a row for each run, with the facts in its log."""
    import pandas as pd

    rows = [
        {FILE: run.name, RUN: run.index + 1} | {c: run.get(c) for c in _TEMPLATE}
        for run in _labelled(files)[0]
    ]
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
    why = _first([f"{count} not: {reason}" for reason, count in reasons.items()])
    return "; ".join([f"{plural(len(runs), 'run')}, {ok} usable", *why])


# -- into a data root ------------------------------------------------------------------------------


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
    files, labels, pattern, progress
        As in `understand`.
    into : path
        Folder of the experiment, for example ``results/mine``. More logs may be imported into it
        later; a log that was imported before is left as it is.
    contrasts : sequence of dict, optional
        Contrasts declared with the first import, as in an experiment's file; later ones get no
        verdict.

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
    >>> logs = "data/published/azure-westeurope-d16v3"
    >>> len(npl.import_logs(logs, into=tempfile.mkdtemp() + "/mine"))
    9
    """
    runs, left_out = understand(files, labels=labels, pattern=pattern, progress=progress)
    place = Path(os.path.abspath(into))  # noqa: PTH100 - a link counts by its own name
    store = Store(place.parent, place.name)
    document = {
        "name": place.name,
        "hosts": {"source": "imported"},
        "contrasts": contrasts,
    }
    with explained(place):
        declared = Experiment.model_validate(document)
    if (store.path / "experiment.yaml").exists():
        earlier = store.declared()
        if earlier.hosts.source != "imported":
            how = "contains a measured experiment; import into another folder"
            raise StoreError(f"{store.url}: {how}")
        declared = declared if contrasts else earlier
    new, again = _new(store, runs)
    store.declare(declared)
    if store.read_plan() is None:
        whole = declared.model_dump(mode="json")
        store.write_plan({"imported": True, "trials": [], "experiment": whole})
    with store.lock():
        _store(store, new, _notice([*left_out, *again], runs))
    return Results(store)


def _new(
    store: Store, runs: Sequence[LoggedRun]
) -> tuple[list[tuple[str, LoggedRun]], list[str]]:
    """Runs that have not been imported yet, in order of time, each with its id; and the others.

    Short logs of two rounds can be identical to the byte: they are two runs if their names or
    labels differ.
    """
    known: dict[Any, tuple[str, Mapping[str, Any]]] = {}
    for run_id, record in store.runs():
        imported = record["imported"]
        for key in (imported.get("identity"), (imported["file"], imported.get("log"))):
            known[key] = run_id, imported
    known.pop(None, None)
    new, again = dict[str, LoggedRun](), list[str]()
    for run in runs:
        place = run.name, run.digest
        before, imported = known.get(place) or known.get(run.identity) or ("", {})
        if not before:
            new[_run_id(run, run.name)] = run
        elif (imported["file"], imported["log"]) != place:
            again.append(f"{run.title} (the same run as {imported['file']})")
        elif before not in (_run_id(run), _run_id(run, run.name)):
            what = f"was imported before with other labels (run {before})"
            how = f"import into another folder, or remove {store.url} first"
            raise UsageError(f"{run.name}: {what}; {how}")
    first = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(
        new.items(), key=lambda item: moment(item[1].get("started_utc")) or first
    )
    return ordered, again


def _run_id(run: LoggedRun, name: str = "") -> str:
    """Name a run by its deployment, its round (0: unknown), its tool and a digest.

    It is that of its log, its labels and, but in older imports, the name of its log.
    """
    labels = sorted((k, str(v)) for k, v in run.labels.items())
    digest = hashlib.blake2s(
        f"{run.digest} {labels}{name}".encode(), digest_size=6
    ).hexdigest()
    what = re.sub(
        r"[^A-Za-z0-9._]+", "-", f"{run.get('tool')}-{run.get('test') or 'unknown'}"
    )
    return (
        f"d{run.get('deployment') or 1:02d}-r{run.get('round') or 0:03d}-{what}-{digest}"
    )


def _store(store: Store, new: Sequence[tuple[str, LoggedRun]], notice: str) -> None:
    """Write runs into one folder: each log once, by its digest, and the records of all."""
    if not new:
        return
    ids = "".join(run_id for run_id, _ in new)
    folder_id = hashlib.blake2s(ids.encode(), digest_size=6).hexdigest()
    same = {"schema": RECORD_SCHEMA, "declaration": store.freeze()}
    digests = {path: sha256_of(path) for path in {run.path for _, run in new}}
    records = []
    with store.new_run(f"{IMPORT}{folder_id}") as folder:
        for order, (run_id, run) in enumerate(new, len(store.run_ids())):
            digest = digests[run.path]
            log = folder / f"client-{digest[:16]}.out"
            if not log.exists():
                shutil.copyfile(run.path, log)
            record = _record(store.experiment, run_id, run, order, notice)
            records.append(record | same | {"files": {log.name: digest}})
        (folder / RECORDS).write_bytes(packed_records(records))
        store.write_record(folder, {})


_ALWAYS = (
    "placement client server accelerated tool test duration_s omit_s streams tcp_buffer_bytes "
    "message_bytes during"
).split()


def _record(
    experiment: str, run_id: str, run: LoggedRun, order: int, notice: str
) -> dict[str, Any]:
    facts = ("vm_size", "region", "zone", "zone_physical")
    hosts = {
        side: {"name": run.get(side)}
        | {name: run.get(f"{side}_{name}") for name in facts}
        for side in _HOSTS
    }
    columns = dict.fromkeys([*_ALWAYS, *run.known])
    trial = {
        c: run.get(c) for c in columns if c not in ("round", "deployment", "started_utc")
    }
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
    return new_record(
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

    Not an experiment or data root.
    """
    path = Path(location)
    if is_url(location) or (path / "experiment.yaml").exists():
        return False
    return bool(set("*?[") & set(str(location))) or (
        path.exists() and not experiments(location)
    )


def read_logs(files: Files, *, pattern: str | None = None) -> Measured:
    """Read logs into a table of runs like that of `netperf_lib.read`, without importing them.

    See `understand`.
    """
    runs, left_out = understand(files, pattern=pattern)
    rows = []
    for order, run in enumerate(runs):
        run_id = run.identity or f"{run.path}:{run.index + 1}"
        record = _record("logs", run_id, run, order, NOTICE)
        rows.append(run_row(record, [run.parsed], None))
    return Measured(data_frame(runs_table(rows)), Origin(notice=_notice(left_out, runs)))
