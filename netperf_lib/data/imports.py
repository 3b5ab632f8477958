"""Existing logs as an experiment: runs of logs become raw runs, with what was said of them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import StoreError, UsageError, as_cell
from ..experiment.factors import LOG_NAME
from ..experiment.model import Experiment
from ..experiment.origin import Measured, Origin
from ..metrics import plural
from . import logs
from .declaration import declaration, declare, freeze, read_plan, write_plan
from .factors import decide_factors
from .files import Location, explained, is_there, last_name, sha256_of
from .ingest import OnProgress, ingest
from .labels import FILE, RUN
from .layout import IMPORT, experiments, is_experiment, lock
from .load import Results, data_frame
from .logged import (
    HOSTS,
    NOTICE,
    Files,
    LoggedRun,
    first,
    read_runs,
    understand,
    with_labels,
)
from .raw import Record, new_run, runs, write_records
from .tables import moment, run_row, runs_table

if TYPE_CHECKING:
    import pandas as pd

_TEMPLATE = (
    "placement client server accelerated streams tcp_buffer_bytes round deployment started_utc"
).split()
_HOST_FACTS = ("vm_size", "region", "zone", "zone_physical")
_NO_TRIAL = ("round", "deployment", "started_utc")


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
        Called with (percent done, 100): each log is read, stored, and read into tables.

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
    reading = _share(progress, 0, 40)
    found = understand(files, labels=labels, pattern=pattern, progress=reading)
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
    notice = replace(found, again={**found.again, **again}).notice
    records = _records(last_name(folder), new, len(before), notice)
    factors = _factors(before, records, earlier)
    declare(folder, declared.model_copy(update={"factors": factors}))
    if read_plan(folder) is None:
        plan = declared.model_dump(mode="json")
        write_plan(folder, {"imported": True, "trials": [], "experiment": plan})
    if new:
        with lock(folder):
            _store(folder, new, records, _share(progress, 40, 60))
    ingest(folder, _share(progress, 60, 100))
    return Results(folder)


def _share(progress: OnProgress | None, start: int, end: int) -> OnProgress:
    """Return what a part of an import calls, which takes these percent of the whole."""

    def call(done: int, total: int) -> None:
        if progress:
            progress(start + (end - start) * done // total, 100)

    return call


def _new(
    before: Sequence[Record], found: Sequence[LoggedRun], folder: Path
) -> tuple[dict[str, LoggedRun], dict[str, str]]:
    """Return runs that were not imported yet, in order of time, by their ids; and the others.

    Short logs of two rounds can be identical to the byte: they are two runs if their names or
    labels differ.
    """
    known: dict[Any, Record] = {}
    for record in before:
        imported = record.imported or {}
        known[imported["file"], imported.get("log")] = record
        if "identity" in imported:
            known[imported["identity"]] = record
    new, again = dict[str, LoggedRun](), dict[str, str]()
    for run in found:
        run_id, place = _run_id(run), (run.name, run.digest)
        there = known.get(place) or known.get(run.identity)
        if there is None or there.imported is None:
            new[run_id] = run
        elif place not in known:
            again[run.title] = f"the same run as {there.imported['file']}"
        elif there.run_id != run_id:
            what = f"was imported before with other labels (run {there.run_id})"
            how = f"import into another folder, or remove {folder} first"
            raise UsageError(f"{run.name}: {what}; {how}")
    in_time = sorted(new.items(), key=lambda item: _start(item[1]))
    return dict(in_time), again


def _start(run: LoggedRun) -> datetime:
    """Return when a run began; one that does not say it comes first."""
    return moment(run.get("started_utc")) or datetime.min.replace(tzinfo=UTC)


def _run_id(run: LoggedRun) -> str:
    """Name a run by its deployment, its round (0: unknown), its tool and a digest.

    It is that of its log, its labels and the name of its log.
    """
    labels = sorted((column, str(label)) for column, label in run.labels.items())
    text = f"{run.digest} {labels}{run.name}"
    digest = hashlib.blake2s(text.encode(), digest_size=6).hexdigest()
    what = f"{run.get('tool')}-{run.get('test') or 'unknown'}"
    what = re.sub(r"[^A-Za-z0-9._]+", "-", what)
    deployment, number = run.get("deployment") or 1, run.get("round") or 0
    return f"d{deployment:02d}-r{number:03d}-{what}-{digest}"


def _records(
    experiment: str, new: Mapping[str, LoggedRun], start: int, notice: str
) -> list[Record]:
    """Return the records of runs in order, which begins at `start`."""
    records = []
    for order, (run_id, run) in enumerate(new.items(), start):
        trial = {c: value for c, value in run.known.items() if c not in _NO_TRIAL}
        hosts: dict[str, dict[str, Any]] = {}
        for side in HOSTS:
            hosts[side] = {"name": run.get(side)}
            for fact in _HOST_FACTS:
                hosts[side][fact] = run.get(f"{side}_{fact}")
        parsed = run.parsed
        log: dict[str, Any] = {"status": parsed.status, "error": parsed.error}
        log["run"] = run.index
        imported = {"file": run.name, "log": run.digest}
        if run.part is not None:
            trial[LOG_NAME] = run.part
        if not run.is_alone:
            log["lines"] = [parsed.line, run.end]
        if run.identity:
            imported["identity"] = run.identity
        record = Record(
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
        records.append(record)
    return records


def _factors(
    before: Sequence[Record], new: Sequence[Record], earlier: Experiment | None
) -> tuple[str, ...]:
    """Return the factors of all runs; what a person added to or removed from them stays so."""
    now, _ = decide_factors([*before, *new])
    if earlier is None or earlier.factors is None:
        return tuple(now)
    then, _ = decide_factors(before)
    removed = set(then) - set(earlier.factors)
    kept = [name for name in now if name not in removed]
    return tuple(dict.fromkeys([*earlier.factors, *kept]))


def _store(
    folder: Path,
    new: Mapping[str, LoggedRun],
    records: Sequence[Record],
    progress: OnProgress,
) -> None:
    """Write runs into one folder: each log once, by its digest, and the records of all."""
    folder_id = hashlib.blake2s("".join(new).encode(), digest_size=6).hexdigest()
    frozen = freeze(folder)
    digests: dict[Path, dict[str, str]] = {}
    stored = []
    with new_run(folder, f"{IMPORT}{folder_id}") as staged:
        for done, (run, record) in enumerate(zip(new.values(), records, strict=True), 1):
            if run.path not in digests:
                digests[run.path] = _copy(run, staged)
            files = digests[run.path]
            stored.append(replace(record, files=files, declaration=frozen))
            progress(done, len(new))
        write_records(staged, stored)


def _copy(run: LoggedRun, staged: Path) -> dict[str, str]:
    """Copy the logs of a run; return the SHA-256 of each by its new name."""
    digests = {}
    # what arrived is in the log of the other end alone
    for side, path in (("client", run.path), ("server", run.server)):
        if path is not None:
            copy = staged / f"{side}-{run.digest}.out"
            shutil.copyfile(path, copy)
            digests[copy.name] = sha256_of(copy)
    return digests


# -- without an experiment -------------------------------------------------------------------------


def are_logs(location: Location) -> bool:
    """Return whether a location is a file, a folder or a pattern of logs.

    An experiment, or a folder of experiments, is none of these.
    """
    path = Path(location)
    if is_experiment(path):
        return False
    if logs.is_pattern(str(location)):
        return True
    return is_there(path) and not experiments(location)


def read_logs(files: Files, *, pattern: str | None = None) -> Measured:
    """Read logs into a table of runs like that of `netperf_lib.read`, without importing them.

    See `understand`.
    """
    found = understand(files, pattern=pattern)
    records = _records("logs", {run.key: run for run in found.runs}, 0, NOTICE)
    pairs = zip(records, found.runs, strict=True)
    rows = [run_row(record, [run.parsed], None) for record, run in pairs]
    factors, _ = decide_factors(records)
    origin = Origin(declared={"factors": factors}, notice=found.notice)
    return Measured(data_frame(runs_table(rows)), origin)


# -- for the command line --------------------------------------------------------------------------


def labels_template(files: Files) -> str:
    """Return a labels file (CSV) to fill in: a row for each run, with the facts in its log."""
    import pandas as pd

    rows = []
    for run in read_runs(files).runs:
        known = with_labels(run, {}).known
        row = {FILE: run.name, RUN: None if run.is_alone else run.index + 1}
        rows.append(row | {column: known.get(column) for column in _TEMPLATE})
    # whole numbers stay whole if some are missing
    table = pd.DataFrame(rows).convert_dtypes().astype(object)
    cells = table.map(lambda value: as_cell(value) if isinstance(value, str) else value)
    return cells.to_csv(index=False, lineterminator="\n")


def usable(runs: pd.DataFrame) -> str:
    """Return how many runs give values, and why others do not: ``90 runs, 88 usable; 2 not: …``."""
    ok = int(runs["status"].eq("ok").sum())
    if ok == len(runs):
        return f"{plural(ok, 'run')}, all usable"
    reasons = runs.loc[runs["status"] != "ok", "error"].value_counts()
    why = first([f"{count} not: {reason}" for reason, count in reasons.items()], "; ")
    return f"{plural(len(runs), 'run')}, {ok} usable; {why}"


def factors_in_words(exp: Results) -> str:
    """Return which columns of an import are factors, and which vary and are none."""
    declared = declaration(exp.own_folder).experiment.factors or ()
    _, others = decide_factors(runs(exp.own_folder))
    words = f"Factors: {', '.join(declared) or 'none'} (experiment.yaml)."
    none = [f"{name} ({why})" for name, why in others.items() if name not in declared]
    return f"{words} No factor: {', '.join(none)}." if none else words
