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
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from ..errors import ParseError, StoreError, explain
from ..metrics import plural
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


@cache
def reader_version() -> str:
    """Return a digest of the source that makes rows of logs: the readers, and all that this package may import.

    Tables with another one are made anew, as the same logs may give other figures.
    """
    sources = [PACKAGE_FOLDER / "errors.py", PACKAGE_FOLDER / "metrics.py"]
    sources += [
        path
        for part in ("data", "experiment", "tools")
        for path in sorted((PACKAGE_FOLDER / part).rglob("*.py"))
    ]
    for reader in READERS.values():  # those of other packages
        module = sys.modules[getattr(reader, "__name__", type(reader).__module__)]
        sources += [Path(module.__file__)] if module.__file__ else []
    digests = "".join(
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in sources
    )
    return hashlib.sha256(digests.encode()).hexdigest()[:12]


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
                f"{self.path}: written by a newer netperf_lib (tables of version {version}, known up to "
                f"{SCHEMA_VERSION}); upgrade, or remove the folder `tables`; it is rebuilt from the raw logs"
            )
        return schema

    @property
    def footer(self) -> dict[str, Any]:
        """What `make_part` wrote beside the rows; empty for a part that is damaged, or of an older version."""
        try:
            content: dict[str, Any] = orjson.loads((self.schema.metadata or {})[b"netperf_part"])
        except (KeyError, ValueError):
            return {}
        return content

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Return these columns, or all; StoreError if the part is damaged."""
        try:
            return pq.read_table(
                self.path, columns=columns, filesystem=self.system, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, PermissionError | FileNotFoundError):
                raise
            why = " ".join(str(error).split())[:200]
            raise StoreError(
                f"{self.path}: this part of a table is damaged ({why}); remove the folder `tables`; it is rebuilt "
                "from the raw logs"
            ) from None


@dataclass
class Tables:
    """The parts of an experiment's tables, and what is missing in them."""

    store: Store
    at: Store
    """Where the tables are: in the experiment's own folder, or elsewhere."""
    behind: dict[str, str] = field(default_factory=dict)
    """Blocks whose parts must be built, with the generation that they will have."""
    blocks: dict[str, dict[str, str]] = field(default_factory=dict)
    """Every block with its runs, according to ``raw/``, each with its folder there."""
    outdated: int = 0
    """Number of parts that another version of the readers made."""

    def parts(self, table: TableName) -> dict[str, Part]:
        """Parts of a table by the name of their block."""
        files = self.at.files
        names = [n for n in files.names(f"tables/{table}") if n.endswith(_SUFFIX)]
        parts = {
            n.removesuffix(_SUFFIX): Part(files.at(f"tables/{table}/{n}"), files.system)
            for n in names
        }
        if self.blocks:
            parts = {n: part for n, part in parts.items() if n in self.blocks}
        return parts

    def look(self, details: Sequence[TableName]) -> Tables:
        """Find out which blocks are out of date; the parts of `details` are checked too."""
        self.blocks, self.behind = {}, {}
        for run_id, folder in self.store.run_folders(warn=True).items():
            self.blocks.setdefault(block_of(run_id), {})[run_id] = folder
        if not self.blocks:
            return self  # tables without raw runs are read as they are
        runs = self.parts("runs")
        self.outdated = sum(
            part.footer.get("reader", reader_version()) != reader_version()
            for part in runs.values()
        )
        digests = self.store.digests()
        others = {table: self.parts(table) for table in details}
        for block, folders in self.blocks.items():
            footer = runs[block].footer if block in runs else {}
            # digest of all that the parts of the block are made from
            source = [
                (run_id, folder, sorted(digests.get(folder, ())))
                for run_id, folder in sorted(folders.items())
            ]
            content = orjson.dumps(
                [reader_version(), SCHEMA_VERSION, self.store.experiment, source]
            )
            generation = hashlib.sha256(content).hexdigest()[:16]
            fresh = footer.get("generation") == generation
            for run_id, digest in footer.get("refused", {}).items() if fresh else ():
                with self.store.raw(folders[run_id]) as raw:  # it may have been repaired
                    fresh &= raw.state == digest
            if not fresh or any(
                block not in parts or parts[block].footer.get("generation") != generation
                for table, parts in others.items()
                if table in footer.get("tables", ())
            ):
                self.behind[block] = generation
        return self


def current(store: Store, table: TableName) -> Tables:
    """Return the tables of an experiment with all runs in them.

    Missing runs are read from the raw logs now. If the data root is read-only, the tables are built in a temporary
    folder that lasts as long as this process.
    """
    details = (table,) if table != "runs" else ()
    tables = Tables(store, _elsewhere.get(store.location, store)).look(details)
    try:
        if tables.behind:
            _ingest([tables])
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
    say: Callable[[str], None] = lambda _: None,
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
    say : callable, optional
        Called with a message about tables that another version of the readers made.

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
    where = chosen[0].url if len(chosen) == 1 else "the data root"
    with explained(where):
        several = [Tables(store, store).look(DETAIL) for store in chosen]
        if outdated := sum(tables.outdated for tables in several):
            say(
                f"{plural(outdated, 'part')} of tables made by another version of the readers: made anew from the logs"
            )
        return _ingest(several, progress, executor)


def _ingest(
    several: Sequence[Tables], progress: OnProgress | None = None, executor: Executor | None = None
) -> int:
    tasks = [
        (tables.store, tables.at, block, tables.blocks[block], generation)
        for tables in several
        for block, generation in tables.behind.items()
    ]
    total, done = sum(len(folders) for _, _, _, folders, _ in tasks), 0
    for tables in several:
        files = tables.at.files
        for table in SCHEMAS if tables.blocks else ():
            files.tidy(f"tables/{table}")
            for name in filter(_OWN.fullmatch, files.names(f"tables/{table}")):
                if name.removesuffix(_SUFFIX) not in tables.blocks:  # it has no raw runs
                    files.remove(f"tables/{table}/{name}")
    for (_, _, _, folders, _), _ in run_all(make_part, tasks, executor):
        done += len(folders)
        if progress:
            progress(done, total)
    for tables in several:
        tables.behind = {}
    return done


def make_part(
    store: Store, into: Store, block: str, folders: Mapping[str, str], generation: str
) -> None:
    """Read the runs of a block, given with their folders, and write its part of every table.

    Only files named in the record are read, and only if unchanged since they were measured. A run whose record or logs
    were damaged or changed gets a row that says so, without figures.
    """
    files, name = into.files, f"{block}{_SUFFIX}"
    rows: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    content: dict[str, Any] = {"generation": generation}
    with ExitStack() as stack:
        writers = {
            table: stack.enter_context(
                PartWriter(table, partial(files.new_file, f"tables/{table}/{name}"))
            )
            for table in DETAIL
        }
        for raw, run_ids in store.raw_folders(folders):
            data = b""
            with suppress(FileNotFoundError, ValueError), explained(raw.path):
                data = raw.data
            same = {
                "experiment": store.experiment,
                "reader_version": reader_version(),
                "raw_path": f"raw/{raw.name}",
            }
            same["raw_sha256"] = hashlib.sha256(data).hexdigest()
            for run_id in run_ids:
                if is_leading(run_id):
                    continue
                row, parsed = _read_run(raw, run_id)
                rows.append(row | same | {"run_id": run_id})
                if parsed is None:
                    refused[run_id] = raw.state
                for table, some in detail(store.experiment, run_id, parsed or ()):
                    writers[table].add(some)
        tables = [table for table, writer in writers.items() if writer.finish(content)]
    for table in DETAIL:
        if table not in tables:
            files.remove(f"tables/{table}/{name}")
    with PartWriter("runs", partial(files.new_file, f"tables/runs/{name}")) as writer:
        writer.add(runs_table(rows))
        writer.finish(content | {"reader": reader_version(), "tables": tables, "refused": refused})


def _read_run(raw: RawFolder, run_id: str) -> tuple[dict[str, Any], list[ParsedRun] | None]:
    """The row of a run, and what its logs say; None for a run that is refused."""
    parsed: list[ParsedRun] = []
    try:
        if raw.change:
            raise ValueError(raw.change)
        record = raw.records[run_id]
        files = record["files"]
        unread = None
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
                gone = f"{paths[0].parent}: a log vanished while it was read"
                raise StoreError(f"{gone}; run the command again") from None
            except ParseError as e:
                unread = str(e).replace(str(raw.path), f"raw/{raw.name}")
        row = run_row(record, parsed, unread)
        if any(row.get(name) is not None for name in RATES):
            row |= connections.of_record(raw, record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise StoreError(explain(error)) from None  # it may pass, so it is no fact of the run
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        # the facts in its name
        patterns = {
            "deployment": r"^d(\d+)-",
            "round": r"^[^-]*-r(\d+)(?:-|$)",
            "attempt": r"-a(\d+)$",
        }
        matches = {name: re.search(pattern, run_id) for name, pattern in patterns.items()}
        numbers = {name: int(match[1]) if match else None for name, match in matches.items()}
        text = f"raw/{raw.name}: the record or a log is damaged ({why})"
        return {"status": "failed", "error": text, "warnings": [], **numbers}, None
    return row, parsed


@lru_cache(maxsize=16)
def _imported(path: Path, _digest: str) -> list[ParsedRun]:
    """Read a log that several runs share once."""
    return logs.parse_ends(path)
