"""Existing logs, with labels that say under which conditions they were taken.

The facts in a log (tool, test, streams, duration, start) are read from it. Those that it cannot contain (placement,
hosts, round) come from a table of labels or from the log's path. Both together describe a run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ..errors import ParseError, StoreError, UsageError, as_cell, visible
from ..experiment.factors import LOG_NAME, is_address
from ..experiment.model import Contrast, Experiment
from ..experiment.origin import Measured, Origin
from ..metrics import in_words, metric, plural
from ..tools import READERS, identity
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
    Problems,
    is_one_line,
    path_reader,
    read_labels,
    typed,
    wrong_name,
)
from .layout import IMPORT, RECORD_SCHEMA, RECORDS, Store, experiments, new_record, packed_records
from .load import Results, data_frame
from .log_names import LogName, name_parts, proposed_pattern
from .tables import moment, run_row, runs_table

if TYPE_CHECKING:
    import pandas as pd

Files = Location | Iterable[Location]

NOTICE = "Imported logs: order and rounds as labelled, not as planned."
_SHOWN = 8
"""Parts of names that are shown."""
_DAY_S = 24 * 3600.0
_TEMPLATE = (
    f"{FILE} {RUN} placement client server accelerated streams tcp_buffer_bytes round deployment "
    "started_utc"
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
    parsed: ParsedRun
    labels: Mapping[str, Any]
    """Values of the labels, typed; a label that is not given is absent."""
    stated: Mapping[str, Any]
    """Values of the same columns in the log."""
    addresses: Mapping[str, str]
    """Address in the log of ``client`` and ``server``, where a label gives its name."""
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


def understand(
    files: Files,
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    progress: OnProgress | None = None,
) -> tuple[list[LoggedRun], list[str]]:
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
    progress : callable, optional
        Called with (logs read, logs to read).

    Returns
    -------
    tuple of list
        The runs, and the names of files that were left out: no log, or the same run again.

    Raises
    ------
    UsageError
        All problems found, one line each: a row that matches no log, a log that no row matches, two rows for one log, a
        label that contradicts the log, a value that cannot be read, a log without a run.
    """
    runs, left_out = _labelled(files, labels, pattern, progress)
    runs, again = _once(runs)
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
    problems = Problems()
    table = None if labels is None else read_labels(labels)
    read_path = None if pattern is None else path_reader(pattern)
    own = Path(labels).resolve() if isinstance(labels, str | os.PathLike) else None
    named = [(name, path) for name, path in _named(files, problems) if path.resolve() != own]
    runs: list[LoggedRun] = []
    left_out: dict[str, str] = {}
    given = {Path(location) for location in _several(files)}
    for done, (name, path) in enumerate(named, 1):
        if not is_one_line(name):
            problems.add(f"{name!a}", "the name of this log has control characters; rename it")
            continue
        rows = table.find(name, path) if table else []
        try:
            parsed = _read(path)
        except ParseError as error:
            for row in rows:
                row.used = True
            if rows or path in given:
                problems.add(f"{path}", error.message)
            else:
                left_out[name] = error.message
            continue
        if table and not rows:
            what = "matches this log; add one (its cells may be empty)"
            problems.add(name, f"no row of {table.source} {what}")
        found = read_path(name) or read_path(path.as_posix()) if read_path else {}
        if found is None:
            what = "import only the logs that match, such as 'logs/*/*.json'"
            problems.add(name, f"the path does not match the pattern {pattern!r}; {what}")
        runs += _runs(path, name, parsed, found or {}, rows, problems)
        if progress:
            progress(done, len(named))
    for name, why in () if runs else left_out.items():
        problems.add(name, why)
    if table:
        table.unused(problems)
    problems.refuse()
    if not runs:
        raise UsageError(f"no logs in {', '.join(map(str, _several(files)))}")
    return runs, [*left_out]


def _several(files: Files) -> list[Location]:
    return [files] if isinstance(files, str | os.PathLike) else list(files)


def _named(files: Files, problems: Problems) -> list[tuple[str, Path]]:
    """Every log with its name: the path relative to the given folder, or the name of the file.

    A link out of a given folder, which may come from anybody, is a problem: what it leads to was not given.
    """
    names: dict[Path, str] = {}
    for location in _several(files):
        top = Path(location)
        is_folder = top.is_dir()
        for file in map(Path, logs.expand(os.fspath(location))):
            if is_folder and file.is_symlink():
                target = file.resolve()
                if not target.is_relative_to(top.resolve()):
                    how = "to import it, name it, not its folder"
                    problems.add(f"{file}", f"a link to elsewhere ({target}); {how}")
                    continue
            names.setdefault(file, file.relative_to(top).as_posix() if is_folder else file.name)
    return [(name, path) for path, name in names.items()]


def _read(path: Path) -> list[ParsedRun]:
    """Read a log; what keeps it from being read now is an error, for which it is not left out."""
    with explained(path):
        if not path.exists():
            raise ParseError("no such file", file=str(path))
        return logs.read_log(path)


def _runs(
    path: Path,
    name: str,
    parsed: Sequence[ParsedRun],
    found: Mapping[str, str],
    rows: Sequence[LabelRow],
    problems: Problems,
) -> Iterator[LoggedRun]:
    """Join the runs of a log and their labels: those of a row go before those of the path."""
    content = hashlib.blake2s(path.read_bytes(), digest_size=6)
    lines = logs.text(path).split("\n")
    for index, run in enumerate(parsed):
        about = [row for row in rows if row.is_about(index)]
        for row in about:
            row.used = True
        if len(about) > 1:
            where = ", ".join(row.where for row in about)
            problems.add(name, f"two rows for one run: {where}; keep one")
        cells = {column: ("the path", cell) for column, cell in found.items()}
        for row in about[:1]:
            cells |= {column: (row.where, cell) for column, cell in row.cells.items()}
        cells = {column: cell for column, cell in cells.items() if column not in (FILE, RUN)}
        labels = typed(cells, problems)
        stated = _stated(run, f"{name}:{run.line}", problems)
        addresses: dict[str, str] = {
            side: str(stated.pop(side))
            for side in ("client", "server")
            if side in labels and is_address(stated.get(side)) and not is_address(labels[side])
        }
        for column in labels.keys() & stated.keys():
            if not _agree(column, labels[column], stated[column]):
                where, cell = cells[column]
                says = f"{name}:{run.line} says {stated[column]!r}"
                problems.add(where, f"{column} is {str(cell)!r}, but {says}")
        digest = content.copy()
        digest.update(str(index).encode())
        end = max(run.line, parsed[index + 1].line - 1) if index + 1 < len(parsed) else None
        yield LoggedRun(
            path=path,
            name=name,
            index=index,
            end=end,
            digest=digest.hexdigest(),
            identity=identity("\n".join(lines[run.line - 1 : end])),
            parsed=run,
            labels=labels,
            stated=stated,
            addresses=addresses,
        )


def _stated(run: ParsedRun, where: str, problems: Problems) -> dict[str, Any]:
    """Return the values of columns in a log; a table of figures may have columns of its own."""
    has_own = getattr(READERS.get(run.tool), "STATES_CONDITIONS", False)
    stated = {"tool": run.tool, "test": run.test} | dict(run.parameters)
    # a tool's log contains much that is not a condition: ports, window sizes, units
    stated = {k: v for k, v in stated.items() if v is not None and (has_own or k in COLUMNS)}
    for column in stated if has_own else ():
        if wrong := wrong_name(column):
            problems.add(f"{where}: column {column!r}", wrong)
    cells = {column: (where, visible(str(value))[:LONGEST]) for column, value in stated.items()}
    return typed(cells, problems)


def _agree(column: str, label: Any, stated: Any) -> bool:
    if column == "started_utc":  # a clock without a zone is off by hours, never by days
        a, b = (datetime.fromisoformat(text).replace(tzinfo=None) for text in (label, stated))
        return abs((a - b).total_seconds()) < _DAY_S
    if isinstance(label, float):
        return bool(abs(label - stated) <= 0.05 * max(label, stated))
    one, other = str(label).lower(), str(stated).lower()
    if column in ("client", "server"):  # a short and a full name
        return one == other or other.startswith(f"{one}.") or one.startswith(f"{other}.")
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


def _refuse_equal(runs: Sequence[LoggedRun]) -> None:
    """Refuse runs of one round that have the same labels, and differ in nothing that is known."""
    problems, groups = Problems(), defaultdict[str, list[LoggedRun]](list)
    for run in runs:
        if run.get("round") is not None and run.parsed.status == "ok":
            groups[_known(run)].append(run)
    for same in groups.values():
        if len(same) > 1:
            how = "label what they differ in, or leave the round out"
            what = f"equal labels in round {same[0].get('round')}; {how}"
            problems.add(in_words([run.title for run in same]), what)
    problems.refuse()


def _with_parts(runs: Sequence[LoggedRun]) -> list[LoggedRun]:
    """Return the runs with what only their names tell apart.

    These are runs that no label puts anywhere, and runs of no round that have equal labels.
    """
    groups = defaultdict[str, list[LoggedRun]](list)
    for run in runs:
        if _is_unplaced(run):
            groups[""].append(run)
        elif run.get("round") is None:
            groups[_known(run)].append(run)
    of_run = dict[int, str]()
    for known, group in groups.items():
        parts = name_parts(list(map(_name, group)))
        most = len(parts) // 2 if known else len(parts)  # a name for each run tells nothing apart
        if 1 < len(set(parts)) <= most:
            of_run |= zip(map(id, group), parts, strict=True)
    return [replace(run, part=of_run.get(id(run))) for run in runs]


def _known(run: LoggedRun) -> str:
    """Return all that is known of a run but the time of it."""
    known = {**run.stated, **run.labels, **run.addresses, "part": run.part, "started_utc": None}
    return repr(sorted(known.items()))


def _is_unplaced(run: LoggedRun) -> bool:
    """Whether neither a placement, a host nor a label of the user's says where a run belongs."""
    known = COLUMNS.keys() - {"placement", "client", "server"}
    return run.get("placement") is None and run.labels.keys() <= known


def _name(run: LoggedRun) -> LogName:
    tool = str(run.parsed.tool)
    said = {tool, tool.rstrip("0123456789")}
    said |= {str(run.stated.get(c)).lower() for c in ("test", "protocol", "direction")}
    if streams := run.stated.get("streams"):
        said |= {f"p{streams}", f"{streams}", f"{streams}streams", "streams", "stream"}
    return LogName(PurePosixPath(run.name).with_suffix("").as_posix(), tool, said)


_CONNECTION = re.compile(rb"local (\S+) port (\d+) connected (?:to|with) (\S+) port (\d+)")
_HEAD = 1 << 16
"""Bytes at the start of a log in which its connections are looked for."""
_RATES = {"throughput_bps", "throughput_sent_bps"}


def _both_ends(runs: Sequence[LoggedRun]) -> list[str]:
    """Pairs of logs of the two ends of one connection that tell the same figure.

    The server may have another address than the one connected to: the client's address and both
    ports tell. Documents of iperf3 have one cookie at both ends, and are one run.
    """
    here, there = dict[tuple[bytes, ...], LoggedRun](), dict[tuple[bytes, ...], LoggedRun]()
    for run in {run.path: run for run in runs}.values():
        with run.path.open("rb") as log:
            for address, port, peer, peer_port in _CONNECTION.findall(log.read(_HEAD)):
                here[address, port, peer_port] = run
                there[peer, peer_port, port] = run
    pairs = {}
    for end in here.keys() & there.keys():
        one, other = here[end], there[end]
        if one is not other and _RATES & one.parsed.metrics.keys() & other.parsed.metrics.keys():
            pairs[frozenset((one.name, other.name))] = f"{one.name} and {other.name}"
    return [*pairs.values()]


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"


def _notice(left_out: Sequence[str], runs: Sequence[LoggedRun]) -> str:
    """What must accompany imported logs: what was left out, and what is not labelled."""
    words = [NOTICE]
    if left_out:
        words.append(f"Left out, as no log or the same run again: {_first(left_out)}.")
    if pairs := _both_ends(runs):
        words.append(f"One test counts as two runs: {_first(pairs)}; import one end.")
    unknown = [run for run in runs if run.part is not None]
    if unknown:
        parts = sorted({run.part or "" for run in unknown})
        if len(parts) > _SHOWN:
            parts[_SHOWN:] = [f"and {len(parts) - _SHOWN} more"]
        pattern = proposed_pattern(list(map(_name, unknown)))
        by_table = "--labels-template, and --labels with its table"
        words.append(
            f"The names of {plural(len(unknown), 'run')} tell apart what no label says "
            f"({'; '.join(parts)}): figures by name, and no verdict. "
            f"To label them: {f'--pattern {pattern!r}' if pattern else by_table}."
        )
    return " ".join(words)


def overview(runs: Sequence[LoggedRun]) -> pd.DataFrame:
    """Return a row for each run: the known value of every label, and what is missing."""
    import pandas as pd

    columns = dict.fromkeys([*COLUMNS, *(k for r in runs for k in (*r.labels, *r.stated))])
    rows = []
    for run in runs:
        values = {column: run.get(column) for column in columns}
        missing = [c for c in ("placement", "round", "started_utc") if values[c] is None]
        state = {"status": run.parsed.status, "missing": ", ".join(missing)}
        rows.append({FILE: run.name, RUN: run.index + 1, **values, **state})
    # whole numbers stay whole if some are missing
    return pd.DataFrame(rows).convert_dtypes().dropna(axis="columns", how="all")


def labels_template(files: Files) -> str:
    """Return a labels file (CSV) to fill in: a row for each run, with the facts in its log."""
    runs, _ = _labelled(files)
    table = overview(runs).reindex(columns=_TEMPLATE).astype(object)
    table.loc[~table[FILE].duplicated(keep=False), RUN] = None
    cells = table.map(lambda value: as_cell(value) if isinstance(value, str) else value)
    return cells.to_csv(index=False, lineterminator="\n")


def usable(runs: pd.DataFrame) -> str:
    """How many runs give values, and why the others do not: ``90 runs, 88 usable; 2 not: …``."""
    bad = runs[runs["status"] != "ok"]
    words = plural(len(runs), "run")
    if bad.empty:
        return f"{words}, all usable"
    reasons = Counter(bad.get("error", bad["status"]).fillna(bad["status"])).most_common()
    frequent = [f"{count} not: {reason}" for reason, count in reasons[:5]]
    rarer = [f"{len(reasons) - 5} more reasons"] if len(reasons) > 5 else []
    return "; ".join([f"{words}, {len(runs) - len(bad)} usable", *frequent, *rarer])


# -- into a data root --------------------------------------------------------------------------------------------------


def import_logs(
    files: Files,
    *,
    labels: pd.DataFrame | Location | None = None,
    pattern: str | None = None,
    into: Location,
    contrasts: Sequence[Mapping[str, Any]] | None = None,
    title: str = "",
    progress: OnProgress | None = None,
) -> Results:
    """Import existing logs, so that they can be read, compared and reported like measured data.

    Parameters
    ----------
    files, labels, pattern, progress
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
    conditions: tool, test, streams, direction, duration_s, log_name, server
    group npl.observe(exp, metric).table, not exp.runs
    """
    runs, left_out = understand(files, labels=labels, pattern=pattern, progress=progress)
    parent, name = os.path.split(os.path.abspath(os.fspath(into)))  # noqa: PTH100 - a name, which need not exist yet
    store = Store(parent, name)
    declared = _declaration(name, title, contrasts, runs)
    earlier = store.declared() if store.files.exists("experiment.yaml") else None
    if earlier is not None and earlier.hosts.source != "imported":
        raise StoreError(f"{store.url}: contains a measured experiment; import into another folder")
    if earlier is not None and contrasts is None:
        declared = earlier
    new, again = _new(store, runs)
    store.declare(declared)
    if store.read_plan() is None:
        document = declared.model_dump(mode="json")
        store.write_plan({"imported": True, "trials": [], "experiment": document})
    with store.lock():
        _store(store, new, _notice([*left_out, *again], runs))
    return Results(store)


def _declaration(
    name: str, title: str, contrasts: Sequence[Mapping[str, Any]] | None, runs: Sequence[LoggedRun]
) -> Experiment:
    document = {
        "name": name,
        "title": title,
        "hosts": {"source": "imported"},
        "contrasts": list(contrasts or ()),
    }
    problems = Problems()
    try:
        declared = Experiment.model_validate(document)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise UsageError("; ".join(wrong)) from None
    for contrast in declared.contrasts:
        _check_levels(contrast, runs, problems)
    problems.refuse()
    return declared


def _check_levels(contrast: Contrast, runs: Sequence[LoggedRun], problems: Problems) -> None:
    """Note the metric and levels of a contrast that no log has."""
    wishes = [*contrast.a.items(), *(contrast.b or {}).items()]
    name = metric(contrast.metric).name
    if not any(name in run.parsed.metrics for run in runs):
        problems.add("contrasts", f"no log gives {name}")
    for factor, level in wishes:
        levels = {run.get(factor) for run in runs}
        if level not in levels:
            labelled = ", ".join(sorted(map(str, levels - {None}))) or "nothing"
            what = f"no log has {factor} = {level!r} (the logs have {labelled})"
            problems.add("contrasts", what)


def _new(store: Store, runs: Sequence[LoggedRun]) -> tuple[list[tuple[str, LoggedRun]], list[str]]:
    """Runs that have not been imported yet, in order of time, each with its id; and the others.

    Short logs of two rounds can be identical to the byte: they are two runs if their names or labels differ.
    """
    known: dict[Any, tuple[str, Mapping[str, Any]]] = {}
    for run_id, record in store.runs():
        imported = record["imported"]
        for key in (imported.get("identity"), (imported["file"], imported.get("log"))):
            known[key] = run_id, imported
    known.pop(None, None)
    problems, new, again = Problems(), dict[str, LoggedRun](), list[str]()
    for run in runs:
        place = run.name, run.digest
        before, imported = known.get(place) or known.get(run.identity) or ("", {})
        if not before:
            new[_run_id(run, run.name)] = run
        elif (imported["file"], imported["log"]) != place:
            again.append(f"{run.title} (the same run as {imported['file']})")
        elif before not in (_run_id(run), _run_id(run, run.name)):
            problems.add(run.name, f"was imported before with other labels (run {before})")
    problems.refuse()
    first = datetime.min.replace(tzinfo=UTC)
    ordered = sorted(new.items(), key=lambda item: moment(item[1].get("started_utc")) or first)
    return ordered, again


def _run_id(run: LoggedRun, name: str = "") -> str:
    """Name a run by its deployment, its round (0: unknown), its tool and a digest.

    It is that of its log, its labels and, but in older imports, the name of its log.
    """
    labels = sorted((k, str(v)) for k, v in run.labels.items())
    digest = hashlib.blake2s(f"{run.digest} {labels}{name}".encode(), digest_size=6).hexdigest()
    what = re.sub(r"[^A-Za-z0-9._]+", "-", f"{run.get('tool')}-{run.get('test') or 'unknown'}")
    return f"d{run.get('deployment') or 1:02d}-r{run.get('round') or 0:03d}-{what}-{digest}"


def _store(store: Store, new: Sequence[tuple[str, LoggedRun]], notice: str) -> None:
    """Write runs into one folder: each log once, by its digest, and the records of all."""
    if not new:
        return
    names = "".join(run_id for run_id, _ in new)
    folder_id = hashlib.blake2s(names.encode(), digest_size=6).hexdigest()
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
    hosts = {
        side: {"name": run.get(side), "data_address": run.addresses.get(side)}
        | {k: run.get(f"{side}_{k}") for k in ("vm_size", "region", "zone", "zone_physical")}
        for side in ("client", "server")
    }
    columns = dict.fromkeys([*_ALWAYS, *run.labels, *run.stated])
    trial = {c: run.get(c) for c in columns if c not in ("round", "deployment", "started_utc")}
    log: dict[str, Any] = {"status": run.parsed.status, "error": run.parsed.error, "run": run.index}
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
    """Whether a location is a file, a folder or a pattern of logs, not an experiment or data root."""
    path = Path(location)
    if is_url(location) or (path / "experiment.yaml").exists():
        return False
    return bool(set("*?[") & set(str(location))) or (path.exists() and not experiments(location))


def read_logs(files: Files, *, pattern: str | None = None) -> Measured:
    """Read logs into a table of runs like that of `netperf_lib.read`, without importing them; see `understand`."""
    runs, left_out = understand(files, pattern=pattern)
    rows = []
    for order, run in enumerate(runs):
        run_id = run.identity or f"{run.path}:{run.index + 1}"
        record = _record("logs", run_id, run, order, NOTICE)
        rows.append(run_row(record, [run.parsed], None))
    return Measured(data_frame(runs_table(rows)), Origin(notice=_notice(left_out, runs)))


def read_contrasts(path: Location) -> list[dict[str, Any]]:
    """Read declared comparisons from a YAML file: a list, or a mapping with the key ``contrasts``."""
    import yaml

    with explained(path):
        document = yaml.safe_load(Path(path).read_text("utf-8"))
    contrasts = document.get("contrasts") if isinstance(document, dict) else document
    if not isinstance(contrasts, list):
        how = "write a list of contrasts, each with metric, a, b and margin"
        raise UsageError(f"{os.fspath(path)}: {how}")
    return contrasts
