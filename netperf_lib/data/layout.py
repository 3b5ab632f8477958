"""The layout of an experiment: where its files are, and its documents.

Below the folder of an experiment::

    experiment.yaml, plan.json     as declared, as scheduled; the first run freezes the contrasts
    hosts/                         state of the source of the hosts
    raw/<run_id>/run.json, *.out   immutable; complete once run.json exists, written last
    raw/import-…/runs.json.gz, …   logs that were imported together, and records of their runs
    digests/d01-r0001-0064.sha256  SHA-256 of every file of the raw runs, and
    digests/experiment.sha256      of what was declared, as `sha256sum --check` reads it
    excluded/<run_id>.json         a run that is left out, and the reason
    tables/<table>/d01-r0001-0064.parquet   delete at will; see `netperf_lib.data.ingest`
    reports/                       delete at will
    collector.lock                 locked by the active collector, which it names
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from glob import glob
from pathlib import Path
from typing import Any

import orjson

from ..errors import StoreError, did_you_mean, visible
from .files import (
    Location,
    explained,
    fcntl,
    is_there,
    names,
    own_path,
    read_plain,
    tidy,
    write,
)

DECLARED, PLAN = "experiment.yaml", "plan.json"
IMPORT = "import-"
"""How the name of a folder of imported logs begins."""
BLOCK_ROUNDS = 64
"""Rounds in a part of a table and in a file of digests."""


def block_of(name: str) -> str:
    """Return what belongs into one part of a table: the rounds around a run, or a whole import.

    For example ``d01-r0001-0064``.
    """
    if name.startswith(IMPORT):
        return name
    match = re.match(r"d(\d+)-r(\d+)(?:-|$)", name)
    deployment, number = (int(match[1]), int(match[2])) if match else (0, 0)
    start = max(0, number - 1) // BLOCK_ROUNDS * BLOCK_ROUNDS
    return f"d{deployment:02d}-r{start + 1:04d}-{start + BLOCK_ROUNDS:04d}"


def trial_of(run_id: str) -> str:
    """Return the run id without the attempt: the trial's."""
    return re.sub(r"-a\d{1,6}$", "", run_id)


def is_leading(run_id: str) -> bool:
    """Return whether a run only led two rounds.

    It is kept in ``raw/``, and is no row of a table.
    """
    return re.search(r"-[0-9a-f]{8}-lead-a\d{1,6}$", run_id) is not None


# -- folders ---------------------------------------------------------------------------------------


def is_experiment(path: Location) -> bool:
    """Return whether a folder is that of one experiment."""
    with explained(path):
        return is_there(Path(path) / DECLARED)


def experiments(root: Location) -> list[str]:
    """Return the experiments in a folder: the path of each.

    Examples
    --------
    >>> [path.rpartition("/")[2] for path in npl.experiments("data/recorded")][:2]
    ['after', 'before']
    """
    with explained(root):
        folder = Path(root)
        return [str(folder / n) for n in names(folder) if is_there(folder / n / DECLARED)]


def experiment_folder(path: Location) -> Path:
    """Return the folder of an experiment, of a link its target; StoreError if there is none."""
    folder = Path(os.path.realpath(path))  # resolve raises for a link to itself
    if is_experiment(folder):
        return folder
    inside = [Path(p).name for p in experiments(folder)]
    beside = [Path(p).name for p in experiments(folder.parent)]
    hint = did_you_mean(folder.name, beside).rstrip()
    if inside:
        hint = f"it holds the experiments {', '.join(inside)}"
    elif folder.is_file():
        hint = "an experiment is a folder: unpack an archive with tar xf"
    elif folder.is_dir():
        hint = "raw logs become one by npl import LOGS --into results/NAME"
    where = f"{str(path)[:300]}: no experiment here (no {DECLARED})"
    raise StoreError(f"{where}; {hint}" if hint else where)


def matching_experiments(pattern: Location) -> list[str]:
    """Return the experiments that a pattern of folders matches, such as ``results/azure*``."""
    if is_experiment(pattern):
        return [os.fspath(pattern)]
    # that of pathlib takes no absolute pattern
    return sorted(filter(is_experiment, glob(os.fspath(pattern))))  # noqa: PTH207


def experiment_folders(path: Location | Iterable[Location]) -> list[Path]:
    """Return the folders that a call names: an experiment, those of a pattern, or of a list.

    StoreError if there is none.
    """
    if isinstance(path, str | os.PathLike):
        matching = matching_experiments(path) or [os.fspath(path)]
        return list(map(experiment_folder, matching))
    folders = []
    for one in path:
        folders += experiment_folders(one)
    if not folders:
        raise StoreError("no experiment was given")
    return folders


def hosts_dir(folder: Path) -> Path:
    """Return the folder for the state of the source of the hosts, which may contain keys."""
    hosts = own_path(folder, "hosts")
    folder.mkdir(parents=True, exist_ok=True)
    hosts.mkdir(mode=0o700, exist_ok=True)
    for inside in hosts.rglob("*"):
        own_path(hosts, str(inside.relative_to(hosts)))
    return hosts


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep other collectors out for the duration of the block; StoreError if one is active.

    The lock ends with the process that has it.
    """
    path = own_path(folder, "collector.lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            who = f"another collector is at work here ({visible(file.read(200))})"
            raise StoreError(f"{folder}: {who}; wait for it or stop it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}, since {now()}")
        file.flush()
        try:
            tidy(own_path(folder, "raw"), older_s=0)  # only who has the lock writes there
            tidy(folder)
            yield
        finally:
            file.truncate(0)


# -- documents -------------------------------------------------------------------------------------


def read_json(folder: Path, name: str) -> dict[str, Any] | None:
    """Return a document, or None if there is none; StoreError if it is damaged."""
    with explained(folder / name):
        try:
            document = without_controls(orjson.loads(read_plain(folder, name)))
        except FileNotFoundError:
            return None
    if not isinstance(document, dict):
        raise StoreError(f"{folder / name}: not a JSON object; restore it from a copy")
    return document


def write_json(folder: Path, name: str, value: Any) -> None:
    """Write a document whole."""
    write(own_path(folder, name), orjson.dumps(value, option=orjson.OPT_INDENT_2))


def without_controls(document: Any) -> Any:
    """Return a document without control characters.

    It may come from anybody, and what it says is shown.
    """
    if isinstance(document, dict):
        pairs = document.items()
        return {without_controls(key): without_controls(value) for key, value in pairs}
    if isinstance(document, list):
        return list(map(without_controls, document))
    return visible(document) if isinstance(document, str) else document


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
