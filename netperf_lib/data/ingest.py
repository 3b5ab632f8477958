"""Raw runs to parquet tables.

Idempotent: a part is a function of the raw runs of one block of rounds.

How the tables stay up to date: every part of a block carries the same generation, a digest of what
it is made from (the readers, and the runs with the digests of their records). Ingest compares it
with that of ``raw/`` and rebuilds parts that differ, each whole and by one rename: first the parts
of the detail tables, then that of ``runs``. Two concurrent ingests write the same bytes; one that
was killed is simply repeated. Nothing here needs a lock.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import ParseError, StoreError, explain
from ..tools import readers
from ..tools.parsed import ParsedRun
from . import connections, logs
from .files import (
    Location,
    explained,
    last_name,
    names,
    own_path,
    plain_file,
    temporary,
    tidy,
)
from .layout import IMPORT, block_of, experiment_folders, is_leading
from .raw import (
    DAMAGED,
    RawFolder,
    Record,
    open_raw,
    raw_folders,
    records_digests,
    why,
)
from .shipped import PACKAGE_FOLDER
from .tables import SCHEMAS, TableName, detail, part_writer, run_row, runs_table
from .workers import run_all

OnProgress = Callable[[int, int], None]

RATES = ("throughput_bps", "throughput_sent_bps")
"""Metrics of runs that something holds back."""
DETAIL: tuple[TableName, ...] = ("percentiles", "intervals")
_PART = re.compile(r"(d\d+-r\d+-\d+|import-\w+)\.parquet")
"""Name of a part."""
_ALWAYS = "run_id experiment status order round deployment attempt".split()
"""Columns that each part has whose table has them."""
_MOST_ROWS = 1 << 24
"""Rows of a part whose raw runs are not there."""
_ROWS_PER_BYTE = 4
"""Rows of details that a byte of a log can give at most; logs may be packed."""
_SOURCES = (
    "errors.py metrics.py quantities.py data/**/*.py experiment/**/*.py tools/**/*.py"
).split()


@cache
def reader_version() -> str:
    """Return a digest of the source that makes rows of logs.

    The readers, and all that this package may import.

    Tables with another one are made anew, as the same logs may give other figures.
    """
    sources = []
    for part in _SOURCES:
        sources += sorted(PACKAGE_FOLDER.glob(part))
    for reader in readers().values():  # those of other packages
        module = sys.modules[getattr(reader, "__name__", type(reader).__module__)]
        sources += [Path(module.__file__)] if module.__file__ else []
    digest = hashlib.sha256()
    for path in sources:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Tables:
    """The tables of an experiment, and what is missing in them."""

    source: Path
    """The folder of the experiment."""
    folder: Path
    """Where ``tables`` is: in the experiment's own folder, or elsewhere."""
    blocks: dict[str, list[str]]
    """Every block with its folders in ``raw/``."""
    behind: dict[str, str]
    """Blocks whose parts must be built, with the generation that they will have."""

    def parts(self, table: TableName) -> dict[str, Path]:
        """Return the parts of a table by the name of their block."""
        found = {}
        for name in names(self.folder / "tables" / table):
            block = name.removesuffix(".parquet")
            # there may be no raw runs
            if block != name and (not self.blocks or block in self.blocks):
                found[block] = _part(self.folder, table, block)
        return found

    def most_rows(self, table: TableName, block: str) -> int:
        """Return how many rows a part can have at most."""
        folders = self.blocks.get(block)
        if folders is None:
            return _MOST_ROWS
        if table == "runs" and not block.startswith(IMPORT):
            return len(folders)
        size = 0
        for name in folders:
            with os.scandir(self.source / "raw" / name) as files:
                size += sum(file.stat(follow_symlinks=False).st_size for file in files)
        return size * _ROWS_PER_BYTE


def _part(folder: Path, table: TableName, block: str) -> Path:
    return folder / "tables" / table / f"{block}.parquet"


def tables_of(
    source: Path, folder: Path, details: Sequence[TableName] = DETAIL
) -> Tables:
    """Return the tables in a folder; of the details these are looked at."""
    blocks: dict[str, list[str]] = {}
    for name in raw_folders(source):
        blocks.setdefault(block_of(name), []).append(name)
    behind, listed = {}, records_digests(source)
    for block, folders in blocks.items():
        # all that the parts of the block are made from
        records = [(name, listed.get(name)) for name in folders]
        made = orjson.dumps([reader_version(), last_name(source), records])
        generation = hashlib.sha256(made).hexdigest()[:16]
        # a run that was refused may have been repaired
        whole = {"generation": generation, "refused": False}
        for table in ("runs", *details):
            if _footer(_part(folder, table, block)) != whole:
                behind[block] = generation
    return Tables(source, folder, blocks, behind)


def _footer(part: Path) -> dict[str, Any]:
    """Return what `make_part` wrote beside the rows.

    Nothing of a part that is missing or damaged.
    """
    with suppress(pa.ArrowException, OSError, KeyError, TypeError, ValueError):
        content: dict[str, Any] = orjson.loads(
            pq.read_metadata(part).metadata[b"netperf_part"]
        )
        return content
    return {}


def read_part(part: Path, table: TableName, most: int = _MOST_ROWS) -> pa.Table:
    """Return a part of a table.

    StoreError if it is damaged, or is no part of this table: a column that every run has is
    missing, one has another type, or there are more than `most` rows.
    """
    try:
        plain = plain_file(part.parent, part.name)
        with pq.ParquetFile(plain, page_checksum_verification=True) as file:
            wrong = _wrong_part(file, SCHEMAS[table], most)
            if wrong is None:
                return file.read()
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None):
            raise
        wrong = f"damaged ({' '.join(str(error).split())[:200]})"
    how = "remove the folder `tables`; it is rebuilt from the raw logs"
    raise StoreError(f"{part}: {wrong}; {how}")


def _wrong_part(file: pq.ParquetFile, schema: pa.Schema, most: int) -> str | None:
    """Return why a file is no part of a table with this schema."""
    rows, found = file.metadata.num_rows, file.schema_arrow
    for column in schema:
        count = found.names.count(column.name)
        if count > 1 or (count == 0 and column.name in _ALWAYS):
            return f"the column {column.name} is missing, or there twice"
        if count and not found.field(column.name).type.equals(column.type):
            kind = found.field(column.name).type
            return f"the column {column.name} is {kind}, not {column.type}"
    if rows > most:
        return f"{rows:,} rows, which are more than these runs can give"
    return None


def current(source: Path, table: TableName) -> Tables:
    """Return the tables of an experiment with all runs in them.

    Missing runs are read from the raw logs now. If the folder is read-only, the tables are built
    in a temporary folder that lasts as long as this process.
    """
    elsewhere = _elsewhere.get(source)
    folder = Path(elsewhere.name) if elsewhere else source
    tables = tables_of(source, folder, () if table == "runs" else (table,))
    try:
        _ingest([tables] if tables.behind else [])
    except OSError as error:
        readonly = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if elsewhere or not readonly:
            raise
    else:
        return tables
    warnings.warn(
        f"{source} cannot be written: its tables are rebuilt in a temporary folder each time; "
        "a user with write access can build them for everyone with `npl ingest`",
        stacklevel=5,
    )
    _elsewhere[source] = temporary()
    return current(source, table)


_elsewhere: dict[Path, TemporaryDirectory[str]] = {}
"""Where the tables of experiments that cannot be written are."""


def ingest(
    path: Location | Iterable[Location],
    progress: OnProgress | None = None,
    *,
    executor: Executor | None = None,
) -> int:
    """Bring the tables of experiments up to date with their raw runs.

    Return how many runs were read.

    It can be interrupted at any point: nothing is lost or duplicated, even if a worker or this
    process is killed, and the same call resumes. A block of rounds with a new run is read again as
    a whole.

    Parameters
    ----------
    path : path or several
        The folder of an experiment, a pattern such as ``"results/*"``, or several.
    progress : callable, optional
        Called with (runs read, runs to read).
    executor : concurrent.futures.Executor, optional
        Where parts of tables are made, for example in a ``ProcessPoolExecutor`` or on a Dask
        cluster with ``client.get_executor()``; its workers must be able to open the folder. By
        default in this process.

    Raises
    ------
    StoreError
        There is no experiment, the disk is full, a folder cannot be written, or a worker died.

    Examples
    --------
    >>> _ = npl.ingest("data/recorded/zones")
    >>> npl.ingest("data/recorded/zones")  # nothing new
    0
    """
    chosen = experiment_folders(path)
    with explained(chosen[0] if len(chosen) == 1 else "these folders"):
        for folder in chosen:
            own_path(folder, "tables")  # no link
        tables = [tables_of(folder, folder) for folder in chosen]
        return _ingest(tables, progress, executor)


def _ingest(
    several: Sequence[Tables],
    progress: OnProgress | None = None,
    executor: Executor | None = None,
) -> int:
    tasks, sizes = [], []
    for tables in several:
        _remove_stray(tables)
        for block, generation in tables.behind.items():
            tasks.append((tables.source, tables.folder, block, generation))
            sizes.append(len(tables.blocks[block]))
    read = done = 0
    for size, (_, count) in zip(sizes, run_all(make_part, tasks, executor), strict=True):
        read, done = read + count, done + size
        if progress:
            progress(done, sum(sizes))
    return read


def _remove_stray(tables: Tables) -> None:
    """Remove drafts of killed writers, and parts whose raw runs are gone."""
    for table in SCHEMAS if tables.blocks else ():
        folder = own_path(tables.folder, f"tables/{table}")
        tidy(folder)
        for name in filter(_PART.fullmatch, names(folder)):
            if name.removesuffix(".parquet") not in tables.blocks:
                own_path(folder, name).unlink()


def make_part(source: Path, into: Path, block: str, generation: str) -> int:
    """Read the runs of a block, write its part of every table; return how many runs were read.

    The runs are looked up here, since a task must be small: a pipe that is full when a worker dies
    would make others wait for ever.

    Only files named in the record are read, and only if unchanged since they were measured. A run
    whose record or logs were damaged or changed gets a row that says so, without figures.
    """
    experiment, count = last_name(source), 0
    rows: list[dict[str, Any]] = []
    footer: dict[str, Any] = {"generation": generation, "refused": False}
    parts = {table: own_path(into, str(_part(Path(), table, block))) for table in SCHEMAS}
    with ExitStack() as stack:
        add = {}
        for table in DETAIL:
            writer = part_writer(parts[table], SCHEMAS[table], footer)
            add[table] = stack.enter_context(writer)
        for raw in open_raw(source, block):
            for row, parsed in _read_folder(raw):
                count += 1
                if is_leading(row["run_id"]):
                    continue
                rows.append(row | {"experiment": experiment})
                footer["refused"] |= parsed is None
                for table, some in detail(experiment, row["run_id"], parsed or ()):
                    add[table](some)
    runs = runs_table(rows)
    with part_writer(parts["runs"], runs.schema, footer) as add_runs:
        add_runs(runs)
    return count


Row = tuple[dict[str, Any], list[ParsedRun] | None]
"""The row of a run, and what its logs say; None for a run that is refused."""


def _read_folder(raw: RawFolder) -> Iterator[Row]:
    """Yield the row of each run in a folder of ``raw/``."""
    made: dict[str, Any] = {"reader_version": reader_version()}
    made |= {"raw_path": f"raw/{raw.name}", "run_id": raw.name}
    try:
        made["raw_sha256"], records = raw.records()
    except DAMAGED as error:
        if raw.name.startswith(IMPORT):
            raise raw.unreadable(error) from None
        yield _refused(made, error), None
        return
    # the runs of one log one after another
    for record in sorted(records, key=lambda record: [*record.files]):
        yield _read_run(raw, record, made | {"run_id": record.run_id})


def _read_run(raw: RawFolder, record: Record, made: dict[str, Any]) -> Row:
    try:
        parsed, unread = _read_logs(raw, record)
        row = run_row(record, parsed, unread)
        if any(row.get(name) is not None for name in RATES):
            row |= connections.of_record(raw, record)
    except DAMAGED as error:
        return _refused(made, error), None
    except OSError as error:  # it may pass, so it is no fact of the run
        raise StoreError(explain(error)) from None
    return row | made, parsed


def _refused(made: dict[str, Any], error: Exception) -> dict[str, Any]:
    """Return the row of a run that is not as it was measured."""
    text = f"{made['raw_path']}: the record or a log is damaged ({why(error)})"
    row = made | {"status": "failed", "error": text}
    if number := re.match(r"d(\d+)-r(\d+)-", made["run_id"]):
        row |= {"deployment": int(number[1]), "round": int(number[2])}
    return row


def _read_logs(raw: RawFolder, record: Record) -> tuple[list[ParsedRun], str | None]:
    """What the logs of a run say, and why one could not be read."""
    parsed, unread = list[ParsedRun](), None
    for name in sorted(record.files):
        if not (name.startswith("client") and name.endswith(".out")):
            continue
        ends = (name, name.replace("client", "server", 1))
        paths = [raw.file(end, record) for end in ends if end in record.files]
        try:
            if record.imported is None:
                parsed += logs.parse_ends(*paths, tool=record.trial["tool"])
            else:  # a log may hold several runs
                number = record.log["run"]
                one = _imported(tuple(paths), record.files[name])[number : number + 1]
                parsed += one
        except FileNotFoundError:
            gone = f"{raw.path}: a log vanished while it was read"
            raise StoreError(f"{gone}; run the command again") from None
        except ParseError as error:
            unread = f"raw/{raw.name}/{name}: {error.message}"
    return parsed, unread


@lru_cache(maxsize=16)
def _imported(ends: tuple[Path, ...], _digest: str) -> list[ParsedRun]:
    """Read a log that several runs share once."""
    return logs.parse_ends(*ends)
