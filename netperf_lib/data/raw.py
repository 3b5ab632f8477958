"""Raw runs: immutable, written once and whole, each with the record of what was measured.

A folder of ``raw/`` has the logs of a run with its record, or logs that were imported together
with the records of their runs, which are in the same form. Anybody may have written it: only plain
files are read, and only as their records describe them.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from ..errors import StoreError
from .files import (
    appearing,
    is_there,
    names,
    own_path,
    plain_file,
    read_plain,
    sha256_of,
    write,
)
from .layout import DECLARED, IMPORT, PLAN, block_of, now, read_json, write_json

RECORD, RECORDS = "run.json", "runs.json.gz"
"""The record of a measured run, and those of all runs of an import. It makes a folder complete."""
RECORD_SCHEMA = 2
"""Version of the records."""
DECLARED_DIGESTS = "digests/experiment.sha256"
_RUN_ID = re.compile(r"[\w+=@,-][\w.+=@,-]{0,250}")
_MOST_RECORDS = 1 << 28
"""Unpacked bytes of the records of an import: some 200,000 runs."""
_MOST_LOG = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a run besides its logs, as its run.json says.

    Attributes
    ----------
    trial : dict
        The factors that were scheduled, or that a log and its labels state.
    log : dict
        What was read of the log when it was written; of an imported run its number in the log, and
        its lines.
    facts, counters : dict
        Of each host.
    files : dict
        SHA-256 of each of its files.
    imported : dict or None
        The log that it was imported from; None for a measured run.
    """

    run_id: str
    trial: dict[str, Any]
    experiment: str | None = None
    deployment: int | None = None
    round: int | None = None
    order: int | None = None
    attempt: int = 1
    status: str = "ok"
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    notice: str | None = None
    deployment_id: str | None = None
    started_utc: str | None = None
    ended_utc: str | None = None
    tool_version: str | None = None
    sampled: str = "client"
    log: dict[str, Any] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    counters: dict[str, dict[str, Any]] = field(default_factory=dict)
    commands: dict[str, list[Any]] = field(default_factory=dict)
    exit: dict[str, Any] = field(default_factory=dict)
    declaration: dict[str, Any] | None = None
    files: dict[str, str] = field(default_factory=dict)
    imported: dict[str, Any] | None = None
    schema: int = RECORD_SCHEMA

    @property
    def failure(self) -> str | None:
        """Why a run does not complete its trial; None if its log confirms that it succeeded."""
        if self.status == self.log.get("status", "ok") == "ok":
            return None
        return self.error or self.log.get("error") or "the log is incomplete"


_RECORDS = TypeAdapter(list[Record])


DAMAGED = (ValueError, LookupError, TypeError, FileNotFoundError, zlib.error)
"""What reading a record, or a log as it describes it, raises if one is not what was written."""
_CHANGED = " was changed after it was measured (its digest differs)"


@dataclass(frozen=True, slots=True)
class RawFolder:
    """A folder of ``raw/``: that of a run, or of logs that were imported together."""

    path: Path
    listed: str | None = None
    """SHA-256 of its records when it appeared; None if that is not known."""
    _checked: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The id of its run, or the name of an import."""
        return self.path.name

    def records(self) -> tuple[str, list[Record]]:
        """Return the SHA-256 of its records, and the records.

        One of `DAMAGED` if they are not those that were written when it appeared.
        """
        name = _records_file(self.name)
        data = read_plain(self.path.parent, f"{self.name}/{name}", _MOST_RECORDS)
        digest = hashlib.sha256(data).hexdigest()
        if self.listed not in (None, digest):
            raise ValueError(f"{name}{_CHANGED}")
        return digest, _read_records(data, packed=name == RECORDS)

    def unreadable(self, error: Exception) -> StoreError:
        """Return the error that its records cannot be read."""
        how = f"cannot be read ({why(error)}); restore the folder from a copy"
        return StoreError(f"{self.path / _records_file(self.name)}: {how}")

    def file(self, name: str, record: Record) -> Path:
        """Return a file that is as a record describes it.

        ValueError if not, FileNotFoundError if there is none.
        """
        if Path(name).name != name:
            raise ValueError(f"{name!r} is no file of this folder")
        path = self.path / name
        if name not in self._checked:  # many runs share a log
            plain_file(self.path.parent, f"{self.name}/{name}", _MOST_LOG)
            if sha256_of(path) != record.files[name]:
                raise ValueError(f"{name}{_CHANGED}")
            self._checked.add(name)
        return path


def why(error: Exception) -> str:
    """Return what is wrong with a record or a log, in a line."""
    text = " ".join(str(error).split())[:200]
    return f"it lacks {text}" if isinstance(error, KeyError) else text


def _records_file(name: str) -> str:
    """The file of records in a folder of ``raw/``."""
    return RECORDS if name.startswith(IMPORT) else RECORD


@lru_cache(maxsize=4)
def _read_records(data: bytes, packed: bool) -> list[Record]:
    """Return the records in a file of records.

    ValueError if they are none, or unpack to more than is sensible.
    """
    if not packed:
        return _RECORDS.validate_python([orjson.loads(data)])
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(data, _MOST_RECORDS)
    if not unpacking.eof:
        raise ValueError("it is cut off, or unpacks to too much")
    records = _RECORDS.validate_python(orjson.loads(text))
    for record in records:
        if not _RUN_ID.fullmatch(record.run_id):
            raise ValueError(f"{record.run_id!r} is no run")
    return records


# -- to read ---------------------------------------------------------------------------------------


def raw_folders(folder: Path, block: str | None = None) -> list[str]:
    """Return the names of the complete folders in ``raw/``, of all blocks or one."""
    raw = folder / "raw"
    chosen = [name for name in names(raw) if block in (None, block_of(name))]
    return [name for name in chosen if is_there(f"{raw}/{name}/{_records_file(name)}")]


def open_raw(folder: Path, block: str | None = None) -> Iterator[RawFolder]:
    """Open one after another the complete folders in ``raw/``."""
    listed = records_digests(folder, block)
    for name in raw_folders(folder, block):
        yield RawFolder(folder / "raw" / name, listed.get(name))


def records_digests(folder: Path, block: str | None = None) -> dict[str, str]:
    """Return the SHA-256 of the records in each folder of ``raw/``, as listed when it appeared.

    A collector that was killed at that moment leaves a digest that belongs to no folder.
    """
    stored = names(folder / "digests")
    if block is not None:
        # earlier releases listed all imports in one file
        own = {f"{block}.sha256", f"{block_of('')}.sha256"}
        stored = [name for name in stored if name in own]
    listed = {}
    for file in stored:
        text = read_plain(folder, f"digests/{file}").decode("utf-8", "replace")
        for line in text.splitlines():
            digest, _, path = line.partition("  raw/")
            name, _, document = path.partition("/")
            if document == _records_file(name):
                listed[name] = digest
    return listed


def runs(folder: Path) -> Iterator[Record]:
    """Return the record of every complete run, without reading its logs.

    StoreError if one is damaged.
    """
    for name in raw_folders(folder):
        raw = RawFolder(folder / "raw" / name)
        try:
            yield from raw.records()[1]
        except DAMAGED as error:
            raise raw.unreadable(error) from None


def run_ids(folder: Path) -> list[str]:
    """Return the ids of the complete runs, sorted."""
    found = raw_folders(folder)
    if any(name.startswith(IMPORT) for name in found):
        found = [record.run_id for record in runs(folder)]
    return sorted(found)


def exclude(folder: Path, run_id: str, cause: str) -> None:
    """Leave a run out of every comparison, for a reason that reports will print."""
    if run_id not in run_ids(folder):
        raise StoreError(f"{folder}: no run {run_id!r} to exclude")
    write_json(folder, f"excluded/{run_id}.json", {"cause": cause, "utc": now()})


def exclusions(folder: Path) -> dict[str, str]:
    """Return the runs left out: id to reason."""
    causes = {}
    for name in names(folder / "excluded"):
        excluded = read_json(folder, f"excluded/{name}") or {}
        causes[name.removesuffix(".json")] = str(excluded.get("cause"))
    return causes


# -- to write --------------------------------------------------------------------------------------


@contextmanager
def new_run(folder: Path, name: str, *, durable: bool = True) -> Iterator[Path]:
    """Yield a folder to write a run into, or an import.

    It becomes ``raw/<name>`` in one step when the block succeeds.

    `durable` waits until the data are on disk; reproducible data need not. StoreError if there
    is something already, or the block wrote no records.
    """
    path = own_path(folder, f"raw/{name}")
    if is_there(path):
        raise StoreError(f"{path}: is there already; raw runs are never overwritten")
    with appearing(path, durable=durable) as staged:
        staged.mkdir()
        yield staged
        document = staged / _records_file(name)
        if not document.is_file():
            raise StoreError(f"run {name}: no {document.name} was written")
        data = document.read_bytes()
        digests = {document.name: hashlib.sha256(data).hexdigest()}
        for record in _read_records(data, packed=document.name == RECORDS):
            digests |= record.files
        _list_run(folder, name, digests, durable)


def _list_run(folder: Path, name: str, files: Mapping[str, str], durable: bool) -> None:
    """List the SHA-256 of the files of a run, beside those of its block."""
    listed = own_path(folder, f"digests/{block_of(name)}.sha256")
    before = listed.read_text() if is_there(listed) else ""
    mine = f"  raw/{name}/"
    # a collector that was killed at this point may have listed them
    lines = [line for line in before.splitlines(True) if mine not in line]
    lines += [f"{files[file]}{mine}{file}\n" for file in sorted(files)]
    if not is_there(folder / DECLARED_DIGESTS):
        list_declared(folder)
    write(listed, "".join(lines).encode(), durable=durable)


def write_record(
    staged: Path, record: Mapping[str, Any], declaration: Mapping[str, Any] | None
) -> Record:
    """Write the record of a run into its folder, with the SHA-256 of every file in it."""
    files = {file.name: sha256_of(file) for file in sorted(staged.iterdir())}
    document = {**record, "declaration": declaration, "files": files}
    (staged / RECORD).write_bytes(orjson.dumps(document))
    return _RECORDS.validate_python([document])[0]


def write_records(staged: Path, records: Iterable[Record]) -> None:
    """Write the records of an import into its folder."""
    packed = gzip.compress(orjson.dumps(list(records)), 6, mtime=0)
    (staged / RECORDS).write_bytes(packed)


def list_declared(folder: Path) -> None:
    """List the SHA-256 of what was declared and scheduled."""
    files = [name for name in (DECLARED, PLAN) if is_there(folder / name)]
    lines = [f"{sha256_of(folder / name)}  {name}\n" for name in files]
    write(own_path(folder, DECLARED_DIGESTS), "".join(lines).encode())


def digest_of(folder: Path) -> str:
    """Return the SHA-256 of the files in ``digests``, one after another.

    It identifies all that was declared, scheduled and measured: ``cat digests/*.sha256 |
    sha256sum`` prints it.
    """
    whole = hashlib.sha256()
    for name in names(folder / "digests"):
        if name.endswith(".sha256"):
            whole.update(read_plain(folder, f"digests/{name}"))
    return whole.hexdigest()
