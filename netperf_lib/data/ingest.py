"""Raw runs to parquet tables. Idempotent: a part is a function of the raw runs of one block of rounds.

How the tables stay up to date: every part of a block carries the same generation, a digest of what it is made from
(the readers, and the runs with the digests of their records). Ingest compares it with that of ``raw/`` and rebuilds
parts that differ, each whole and by one rename or upload: first the parts of the detail tables, then that of ``runs``.
Two concurrent ingests write the same bytes; one that was killed is simply repeated. Nothing here needs a lock.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ..errors import ParseError, StoreError, explain
from ..tools import READERS
from ..tools.parsed import ParsedRun
from . import connections, logs
from .files import Location, explained, scratch
from .layout import RawFolder, Store, block_of, is_leading, stores
from .shipped import PACKAGE_FOLDER
from .tables import SCHEMA_VERSION, SCHEMAS, PartWriter, TableName, detail, run_row, runs_table
from .workers import run_all

OnProgress = Callable[[int, int], None]

RATES = ("throughput_bps", "throughput_sent_bps")
"""Metrics of runs that something holds back."""
DETAIL: tuple[TableName, ...] = ("samples", "percentiles", "intervals")
_SUFFIX = ".parquet"
_OWN = re.compile(r"(d\d+-r\d+-\d+|part-\w+)\.parquet")
"""Name of a part; the second form is that of older versions."""
_SOURCES = "errors.py metrics.py data/**/*.py experiment/**/*.py tools/**/*.py".split()
_REBUILT = "remove the folder `tables`; it is rebuilt from the raw logs"


@cache
def reader_version() -> str:
    """Return a digest of the source that makes rows of logs: the readers, and all that this package may import.

    Tables with another one are made anew, as the same logs may give other figures.
    """
    sources = [path for part in _SOURCES for path in sorted(PACKAGE_FOLDER.glob(part))]
    for reader in READERS.values():  # those of other packages
        module = sys.modules[getattr(reader, "__name__", type(reader).__module__)]
        sources += [Path(module.__file__)] if module.__file__ else []
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Part:
    """A parquet file of a table."""

    path: str
    system: pyarrow.fs.FileSystem

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns and footer; an empty schema if the footer is damaged. StoreError for one of a newer library."""
        try:
            schema = pq.read_schema(self.path, filesystem=self.system)
        except (pa.ArrowException, OSError, ValueError):
            return pa.schema([])
        version = int((schema.metadata or {}).get(b"netperf_schema", b"1"))
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: written by a newer netperf_lib (version {version} of the tables, "
                f"known up to {SCHEMA_VERSION}); upgrade, or {_REBUILT}"
            )
        return schema

    @property
    def footer(self) -> dict[str, Any]:
        """What `make_part` wrote beside the rows; empty for a part that is damaged, or of an older version."""
        with suppress(KeyError, ValueError):
            content: dict[str, Any] = orjson.loads((self.schema.metadata or {})[b"netperf_part"])
            return content
        return {}

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Return these columns, or all; StoreError if the part is damaged."""
        try:
            return pq.read_table(
                self.path, columns=columns, filesystem=self.system, page_checksum_verification=True
            )
        except (PermissionError, FileNotFoundError):
            raise
        except (pa.ArrowException, OSError) as error:
            why = " ".join(str(error).split())[:200]
            what = "this part of a table is damaged"
            raise StoreError(f"{self.path}: {what} ({why}); {_REBUILT}") from None


class Tables:
    """The parts of an experiment's tables, and what is missing in them.

    Parameters
    ----------
    store : Store
        The raw runs.
    at : Store
        Where the tables are: in the experiment's own folder, or elsewhere.
    details : sequence of str
        Tables that are checked besides ``runs``.

    Attributes
    ----------
    blocks : dict
        Every block with its runs, according to ``raw/``, each with its folder there.
    behind : dict
        Blocks whose parts must be built, with the generation that they will have.
    """

    def __init__(self, store: Store, at: Store, details: Sequence[TableName] = DETAIL) -> None:
        self.store, self.at = store, at
        self.blocks: dict[str, dict[str, str]] = {}
        for run_id, folder in store.run_folders(warn=True).items():
            self.blocks.setdefault(block_of(run_id), {})[run_id] = folder
        self.behind: dict[str, str] = {}
        parts = {table: self.parts(table) for table in ("runs", *details)}
        digests = store.digests() if self.blocks else {}
        for block, folders in self.blocks.items():
            # all that the parts of the block are made from
            source = [(i, name, sorted(digests.get(name, ()))) for i, name in folders.items()]
            made = orjson.dumps([reader_version(), SCHEMA_VERSION, store.experiment, source])
            generation = hashlib.sha256(made).hexdigest()[:16]
            footers = {
                table: parts[table][block].footer for table in parts if block in parts[table]
            }
            runs = footers.get("runs", {})
            needed = {"runs", *runs.get("tables", ())} & parts.keys()
            fresh = all(footers.get(t, {}).get("generation") == generation for t in needed)
            for run_id, state in runs.get("refused", {}).items() if fresh else ():
                with store.raw(folders[run_id]) as raw:  # it may have been repaired
                    fresh &= raw.state == state
            if not fresh:
                self.behind[block] = generation

    def parts(self, table: TableName) -> dict[str, Part]:
        """Parts of a table by the name of their block; without raw runs all that there are."""
        files, folder = self.at.files, f"tables/{table}"
        blocks = [n.removesuffix(_SUFFIX) for n in files.names(folder) if n.endswith(_SUFFIX)]
        return {
            block: Part(files.at(f"{folder}/{block}{_SUFFIX}"), files.system)
            for block in blocks
            if block in self.blocks or not self.blocks
        }


def current(store: Store, table: TableName) -> Tables:
    """Return the tables of an experiment with all runs in them.

    Missing runs are read from the raw logs now. If the data root is read-only, the tables are built in a temporary
    folder that lasts as long as this process.
    """
    details = (table,) if table != "runs" else ()
    tables = Tables(store, _elsewhere.get(store.location, store), details)
    try:
        _ingest([tables] if tables.behind else [])
    except OSError as error:
        if tables.at is not store or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
    else:
        return tables
    warnings.warn(
        f"{store.url} cannot be written: its tables are rebuilt in a temporary folder each time; a user with write "
        "access can build them for everyone with `npl ingest`",
        stacklevel=5,
    )
    _elsewhere[store.location] = Store(_until_exit.enter_context(scratch()), store.experiment)
    return current(store, table)


_elsewhere: dict[str, Store] = {}
"""Where the tables of data roots that cannot be written are, by location."""
_until_exit = ExitStack()
atexit.register(_until_exit.close)


def ingest(
    path: Location | Iterable[Location] | Sequence[Store],
    progress: OnProgress | None = None,
    *,
    executor: Executor | None = None,
) -> int:
    """Bring the tables of experiments up to date with their raw runs; return how many runs were read.

    It can be interrupted at any point: nothing is lost or duplicated, even if a worker or this process is killed, and
    the same call resumes. A block of rounds with a new run is read again as a whole.

    Parameters
    ----------
    path : path, URL or several
        An experiment, several, or a data root: all its experiments.
    progress : callable, optional
        Called with (runs read, runs to read).
    executor : concurrent.futures.Executor, optional
        Where parts of tables are made, for example in a ``ProcessPoolExecutor`` or on a Dask cluster with
        ``client.get_executor()``; its workers must be able to open the data root. By default in this process.

    Raises
    ------
    StoreError
        There is no experiment, the disk is full, the data root cannot be written, or a worker died.

    Examples
    --------
    >>> _ = npl.ingest("data/recorded/zones")
    >>> npl.ingest("data/recorded/zones")  # nothing new
    0
    """
    chosen = stores(path)
    with explained(chosen[0].url if len(chosen) == 1 else "the data root"):
        return _ingest([Tables(store, store) for store in chosen], progress, executor)


def _ingest(
    several: Sequence[Tables], progress: OnProgress | None = None, executor: Executor | None = None
) -> int:
    for tables in several:
        files = tables.at.files
        for folder in [f"tables/{table}" for table in SCHEMAS] if tables.blocks else ():
            files.tidy(folder)
            for name in filter(_OWN.fullmatch, files.names(folder)):
                if name.removesuffix(_SUFFIX) not in tables.blocks:  # it has no raw runs
                    files.remove(f"{folder}/{name}")
    tasks = [
        (tables.store, tables.at, block, tables.blocks[block], generation)
        for tables in several
        for block, generation in tables.behind.items()
    ]
    total, done = sum(len(folders) for _, _, _, folders, _ in tasks), 0
    for (_, _, _, folders, _), _ in run_all(make_part, tasks, executor):
        done += len(folders)
        if progress:
            progress(done, total)
    return done


def make_part(
    store: Store, into: Store, block: str, folders: Mapping[str, str], generation: str
) -> None:
    """Read the runs of a block, given with their folders, and write its part of every table.

    Only files named in the record are read, and only if unchanged since they were measured. A run whose record or logs
    were damaged or changed gets a row that says so, without figures.
    """
    files = into.files
    rows: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    content: dict[str, Any] = {"generation": generation}
    names = {table: f"tables/{table}/{block}{_SUFFIX}" for table in SCHEMAS}
    with ExitStack() as stack:
        writers = {
            table: stack.enter_context(PartWriter(table, partial(files.new_file, names[table])))
            for table in DETAIL
        }
        for raw, run_ids in store.raw_folders(folders):
            same = {
                "experiment": store.experiment,
                "reader_version": reader_version(),
                "raw_path": f"raw/{raw.name}",
                "raw_sha256": raw.sha256,
            }
            for run_id in run_ids:
                if is_leading(run_id):
                    continue
                row, parsed = _read_run(raw, run_id)
                rows.append(row | same | {"run_id": run_id})
                if parsed is None:
                    refused[run_id] = raw.state
                for table, some in detail(store.experiment, run_id, parsed or ()):
                    writers[table].add(some)
        written = [table for table, writer in writers.items() if writer.finish(content)]
    for table in set(DETAIL).difference(written):
        files.remove(names[table])
    with PartWriter("runs", partial(files.new_file, names["runs"])) as writer:
        writer.add(runs_table(rows))
        writer.finish(content | {"tables": written, "refused": refused})


_FACTS = re.compile(
    r"(?:d(?P<deployment>\d+)-)?.*?(?:-?r(?P<round>\d+)-.*?)?(?:-a(?P<attempt>\d+))?"
)
"""The facts in the name of a run."""


def _read_run(raw: RawFolder, run_id: str) -> tuple[dict[str, Any], list[ParsedRun] | None]:
    """The row of a run, and what its logs say; None for a run that is refused."""
    try:
        if raw.change:
            raise ValueError(raw.change)
        record = raw.records[run_id]
        parsed, unread = _read_logs(raw, record)
        row = run_row(record, parsed, unread)
        if any(row.get(name) is not None for name in RATES):
            row |= connections.of_record(raw, record)
    except (ValueError, LookupError, TypeError, AttributeError, FileNotFoundError) as error:
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        facts = _FACTS.fullmatch(run_id)
        numbers = {name: n and int(n) for name, n in facts.groupdict().items()} if facts else {}
        text = f"raw/{raw.name}: the record or a log is damaged ({why})"
        return {"status": "failed", "error": text, **numbers}, None
    except OSError as error:  # it may pass, so it is no fact of the run
        raise StoreError(explain(error)) from None
    return row, parsed


def _read_logs(raw: RawFolder, record: Mapping[str, Any]) -> tuple[list[ParsedRun], str | None]:
    """What the logs of a run say, and why one could not be read."""
    files, parsed, unread = record["files"], list[ParsedRun](), None
    number = (record.get("log") or {}).get("run")  # an imported log may hold several runs
    for name in sorted(n for n in files if n.startswith("client") and n.endswith(".out")):
        server = name.replace("client", "server", 1)
        paths = [raw.file(end, record) for end in (name, server) if end in files]
        try:
            if number is None:
                parsed += logs.parse_ends(*paths, tool=record["trial"]["tool"])
            else:
                parsed += _imported(paths[0], files[name])[number : number + 1]
        except FileNotFoundError:
            gone = f"{raw.path}: a log vanished while it was read"
            raise StoreError(f"{gone}; run the command again") from None
        except ParseError as error:
            unread = f"raw/{raw.name}/{name}: {error.message}"
    return parsed, unread


@lru_cache(maxsize=16)
def _imported(path: Path, _digest: str) -> list[ParsedRun]:
    """Read a log that several runs share once."""
    return logs.parse_ends(path)
