"""The disk layout, and the way from raw logs to tables.

::

    <root>/<experiment>/experiment.yaml, plan.json      as declared, as scheduled
    <root>/<experiment>/hosts/                          what the source of the hosts keeps
    <root>/<experiment>/raw/<run_id>/run.json, *.out    appears whole or not at all, never changed after
    <root>/<experiment>/exclusions.json                 runs left out, each with its cause
    <root>/<experiment>/tables/<table>/part-*.parquet   delete at will
    <root>/<experiment>/reports/                        delete at will

The root is a folder or the URL of an object store; see `netperf_lib.data.files`. Only this module builds these paths.

How the tables stay true: a batch of runs is one part of the same name in every table. Workers write the large parts;
the part of ``runs`` comes last, from the one process that holds the lock, and is what makes the batch count. A part
without its part of ``runs`` is not read, and is removed by the next ingest. A name is used once, so a part never
changes. Merging parts (`compact`) switches from many to one by the same act.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
import yaml

from ..errors import ParseError, StoreError, UsageError
from ..experiment.model import Deployment, Experiment
from ..metrics import METRICS
from ..tools.parsed import ParsedRun
from . import logs
from .files import LocalFolder, Location, folder, is_url, split
from .shipped import located
from .tables import SCHEMAS, PartWriter, TableName, detail, evolve, run_row, runs_table
from .workers import Engine

__all__ = [
    "RECORD",
    "Part",
    "Progress",
    "RunState",
    "Store",
    "compact",
    "experiments",
    "ingest",
    "load",
    "read_record",
    "scan",
    "stores",
]

PARSER_VERSION = 2
"""Raised when the same log would give other numbers, so that tables made before are made anew."""

Progress = Callable[[int, int], None]

RECORD = "run.json"
"""The file that makes a run complete."""
BATCH_RUNS = 1000
BATCH_BYTES = 256 << 20
"""A batch is closed at so many runs or so many bytes of raw logs: what a dead worker's successor must do again."""
PART_BYTES = 128 << 20
PART_RUNS = 100_000
"""`compact` merges parts until they have so many bytes, or runs."""
WAIT_S = 600
"""How long one who needs the tables waits for another to finish them."""
LITTLE_S = 30
"""The same, where the other writes one small file."""

_DETAIL: tuple[TableName, ...] = ("samples", "percentiles", "intervals")


@dataclass(frozen=True, slots=True)
class RunState:
    """What the store knows of a run without reading its logs."""

    run_id: str
    attempt: int
    status: str
    trial: str
    """Run id of the trial, without the attempt."""
    record: Mapping[str, Any]
    """Its run.json."""


@dataclass(frozen=True, slots=True)
class Part:
    """A parquet file of a table; StoreError where it is damaged."""

    place: str
    system: pyarrow.fs.FileSystem

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Return these columns, or all."""
        with self._telling():
            return pq.read_table(self.place, columns=columns, filesystem=self.system)

    def open(self) -> pq.ParquetFile:
        """Open it, to read it bit by bit."""
        with self._telling():
            return pq.ParquetFile(self.place, filesystem=self.system)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowInvalid as error:
            raise StoreError(
                f"{self.place}: this part of a table is damaged ({error}); remove the folder `tables`, it is made anew "
                "from the raw logs"
            ) from None


class Store:
    """One experiment under a data root.

    Parameters
    ----------
    root : path or URL
        The data root: a folder, or the URL of an object store (``abfs://container/folder``).
    experiment : str
        Name of the experiment: a folder under the root.
    """

    def __init__(self, root: Location, experiment: str) -> None:
        self.experiment = experiment
        self._locked = False
        url = f"{str(root).rstrip('/')}/{experiment}" if is_url(root) else str(Path(root) / experiment)
        self._files = folder(url)
        self.url = self._files.url
        """Where the data are."""
        self.path = self._files.path if isinstance(self._files, LocalFolder) else _work_folder(url)
        """The experiment's folder on this machine; of a store elsewhere, the folder for what must be local."""

    @classmethod
    def at(cls, path: Location) -> Store:
        """The store whose experiment folder is `path`.

        Raises
        ------
        StoreError
            There is no experiment in that folder.
        """
        parent, name = split(path)
        store = cls(parent, name)
        if not store._files.exists("experiment.yaml"):
            inside = experiments(path)
            hint = f"; it holds the experiments {', '.join(split(e)[1] for e in inside)}" if inside else ""
            raise StoreError(f"{path}: no experiment here (no experiment.yaml){hint}")
        return store

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def __reduce__(self) -> tuple[type[Store], tuple[str, str]]:
        return Store, split(self.location)  # workers may stand in another folder

    @property
    def location(self) -> str:
        """Where the data are, named so that any process can open it: an absolute path, or the URL."""
        return str(self.path.resolve()) if isinstance(self._files, LocalFolder) else self.url

    # -- places --------------------------------------------------------------------------------------------------

    @property
    def hosts_dir(self) -> Path:
        """Folder for what the source of the hosts keeps; always on this machine: it may hold keys."""
        return self._made(self.path / "hosts")

    @property
    def reports_dir(self) -> Path:
        """Folder on this machine for executed notebooks and PDFs; see `publish`."""
        return self._made(self.path / "reports")

    @property
    def log_file(self) -> Path:
        """Where the collector writes what it did."""
        return self._made(self.path) / "collect.log"

    @property
    def token(self) -> str:
        """What tells this experiment from every other: drawn once, and kept on this machine for the next collector."""
        place = self._made(self.path) / "token"
        if not place.exists():
            draft = place.with_suffix(f".{os.getpid()}")
            draft.write_text(secrets.token_hex(8))
            draft.replace(place)
        return place.read_text()

    def raw_dir(self, run_id: str) -> Path:
        """Folder of a run that is complete, where the data root is on this machine."""
        return self.path / "raw" / run_id

    @staticmethod
    def _made(place: Path) -> Path:
        place.mkdir(parents=True, exist_ok=True)
        return place

    def publish(self, made: Iterable[Path]) -> list[str]:
        """Bring files of `reports_dir` to where the data are; return their paths or URLs there."""
        if isinstance(self._files, LocalFolder):
            return [str(file) for file in made]
        places = []
        for file in made:
            self._files.write(f"reports/{file.name}", file.read_bytes())
            places.append(f"{self.url}/reports/{file.name}")
        return places

    # -- what was declared and scheduled ---------------------------------------------------------------------------

    def declare(self, experiment: Experiment) -> None:
        """Keep the experiment as declared; a changed declaration of a measured experiment is refused.

        Raises
        ------
        StoreError
            Runs exist that were measured under another declaration.
        """
        text = yaml.safe_dump(
            experiment.model_dump(mode="json", exclude_unset=True), sort_keys=False, allow_unicode=True
        )
        if self._files.exists("experiment.yaml") and (known := self.declared()) != experiment:
            free = {"rounds": 0, "contrasts": (), "title": "", "attempts": 1, "seed": None}
            if known.model_copy(update=free) != experiment.model_copy(update=free) and self.run_ids():
                raise StoreError(
                    f"{self.url}: runs were measured here under another declaration of {experiment.name!r}; "
                    "give the changed experiment a name of its own, or another data root"
                )
        self._files.write("experiment.yaml", text.encode())

    def declared(self) -> Experiment:
        """Return the experiment as declared."""
        return Experiment.model_validate(yaml.safe_load(self._files.read("experiment.yaml")))

    def set_aside_unless_open(self, experiment: Experiment) -> Path | str | None:
        """Make room for measuring `experiment` anew; a half-done measurement of the same declaration is kept open.

        Returns
        -------
        path, URL or None
            Where the measurement made before lies now.
        """
        if not self._files.exists("experiment.yaml") or not self.run_ids():
            return None
        plan = self.read_plan() or {"trials": []}
        measured = {s.trial for s in self.runs()}
        if self.declared() == experiment and len(measured) < len(plan["trials"]):
            return None
        with self.lock():
            first = min(str(self.run(i).get("started_utc")) for i in self.run_ids())
            stamp = "".join(c for c in first[:19] if c.isalnum())
            parent = folder(split(self.url)[0])
            aside = f"{self.experiment}-{stamp}"
            parent.move(self.experiment, aside)
        return self.path.with_name(aside) if isinstance(self._files, LocalFolder) else f"{parent.url}/{aside}"

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the schedule (a JSON document)."""
        self._files.write("plan.json", orjson.dumps(plan, option=orjson.OPT_INDENT_2))

    def read_plan(self) -> dict[str, Any] | None:
        """Return the schedule, or None where none was made."""
        plan: dict[str, Any] | None = self._read_json("plan.json")
        return plan

    def write_deployment(self, number: int, deployment: Deployment) -> None:
        """Keep where the hosts of deployment `number` were placed, and what proves it."""
        self._files.write(f"hosts/deployment-{number:02d}.json", _json(asdict(deployment)))

    def deployments(self) -> list[dict[str, Any]]:
        """Return every deployment kept, in order."""
        names = [n for n in self._files.names("hosts") if n.startswith("deployment-") and n.endswith(".json")]
        return [json.loads(self._files.read(f"hosts/{n}")) for n in names]

    def failed_claims(self) -> list[dict[str, str | None]]:
        """Claims about the hosts that turned out false: ``host`` (None: of all hosts), ``claim``, ``evidence``."""
        return [
            {"host": host, "claim": proof["claim"], "evidence": proof.get("evidence")}
            for kept in self.deployments()
            for host, proofs in [(None, kept.get("proofs")), *((h["name"], h.get("proofs")) for h in kept["hosts"])]
            for proof in proofs or ()
            if proof["holds"] is False
        ]

    def _read_json(self, name: str) -> Any:
        try:
            return orjson.loads(self._files.read(name))
        except FileNotFoundError:
            return None

    # -- raw runs --------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep every other collector out for as long as the block runs; who has the lock may take it again.

        Raises
        ------
        StoreError
            Another collector is at work on this experiment.
        """
        if self._locked:
            yield
            return
        with self._files.lock(".lock", "another collector"):
            self._locked = True
            try:
                self._files.tidy("raw")  # what a killed collector left; never a complete run
                yield
            finally:
                self._locked = False

    @contextmanager
    def new_run(self, run_id: str, *, durable: bool = True) -> Iterator[Path]:
        """A folder to write a run into; it becomes ``raw/<run_id>`` whole when the block ends well.

        Parameters
        ----------
        run_id : str
            Name of the run.
        durable : bool
            Wait until the disk has it; what can be made again needs not.

        Raises
        ------
        StoreError
            The run exists already, or the block wrote no run.json.
        """
        if self._files.exists(f"raw/{run_id}/run.json"):
            raise StoreError(f"{self.url}/raw/{run_id}: this run exists already; raw runs are never overwritten")
        with self._files.new_folder(f"raw/{run_id}", last="run.json", durable=durable) as staging:
            yield staging
            if not (staging / "run.json").is_file():
                raise StoreError(f"run {run_id}: no run.json was written")

    @staticmethod
    def write_record(folder: Path, record: Mapping[str, Any]) -> None:
        """Write the record of a run into its folder, with the hash of every file that is there."""
        files = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.iterdir()) if f.is_file()}
        (folder / "run.json").write_bytes(orjson.dumps({**record, "files": files}))

    def raw(self, run_id: str) -> AbstractContextManager[Path]:
        """The folder of a run as a local one to read, for as long as the block runs."""
        return self._files.local(f"raw/{run_id}")

    def run_ids(self) -> list[str]:
        """Ids of the complete runs, sorted."""
        return self._files.names("raw", complete_with="run.json")

    def run(self, run_id: str) -> dict[str, Any]:
        """Return the run.json of a run.

        Raises
        ------
        StoreError
            It is missing or damaged.
        """
        try:
            return read_record(self._files.read(f"raw/{run_id}/run.json"))
        except (OSError, ValueError) as error:
            raise self._damaged(run_id, error) from None

    def _damaged(self, run_id: str, error: Exception) -> StoreError:
        return StoreError(
            f"{self.url}/raw/{run_id}/run.json: cannot be read ({error}); restore the run folder from a copy"
        )

    def runs(self) -> Iterator[RunState]:
        """Every complete run, without reading its logs."""
        run_ids = self.run_ids()
        for start in range(0, len(run_ids), BATCH_RUNS):
            some = run_ids[start : start + BATCH_RUNS]
            for run_id, record in zip(some, self._files.each(self.run, some), strict=True):
                trial = run_id.rsplit("-a", 1)[0]
                yield RunState(run_id, int(record["attempt"]), str(record["status"]), trial, record)

    def exclude(self, run_id: str, cause: str) -> None:
        """Leave a run out of every comparison, for a cause that reports will print.

        Raises
        ------
        StoreError
            No such run.
        """
        if not self._files.exists(f"raw/{run_id}/run.json"):
            raise StoreError(f"{self.url}: no run {run_id!r} to exclude")
        with self._files.lock(".exclusions.lock", "another exclusion", wait_s=LITTLE_S) as check:
            causes = {**self.exclusions(), run_id: cause}
            check()
            self._files.write("exclusions.json", _json(causes))

    def exclusions(self) -> dict[str, str]:
        """Runs left out: id to cause."""
        return self._read_json("exclusions.json") or {}

    # -- tables: reading -------------------------------------------------------------------------------------------

    def table(self, name: TableName) -> pa.Table:
        """Return a table, ingesting first what is new.

        Raises
        ------
        StoreError
            There is nothing to read.
        """
        schema = _schema(name)
        _freshen([self])
        for attempt in range(3):
            try:
                parts = self._files.each(lambda p: evolve(p.read(), schema, p.place), list(self._parts(name).values()))
                break
            except FileNotFoundError:  # merged while it was read
                if attempt == 2:
                    raise
        return pa.concat_tables([schema.empty_table(), *parts], promote_options="default")

    def _parts(self, name: TableName) -> dict[str, Part]:
        """Every part of a table that counts, by the name of its batch."""
        while True:
            batches = self._batches()
            if not batches:
                raise StoreError(f"{self.url}: nothing was measured here yet; `npl collect` first")
            sizes = self._files.sizes(f"tables/{name}")
            if batches == self._batches():  # else they were merged between the two lists
                break
        system, base = self._files.arrow(f"tables/{name}", sizes)
        return {batch: Part(f"{base}/{batch}", system) for batch in batches if batch in sizes}

    def _batches(self) -> list[str]:
        """Names of the parts that count."""
        found = self._files.sizes("tables/runs")
        merging = self._read_json("tables/merging.json")
        if merging and merging["into"] in found:
            found = {n: s for n, s in found.items() if n not in merging["parts"]}
        return sorted(found)

    def load(self, table: TableName = "runs") -> pd.DataFrame:
        """Return a table as a data frame; see `load`."""
        data = self.table(table)
        if table == "runs":
            causes = self.exclusions()
            data = data.append_column(
                "excluded", pa.array([causes.get(i) for i in data["run_id"].to_pylist()], pa.string())
            )
        frame: pd.DataFrame = data.to_pandas(
            types_mapper={pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}.get
        )
        if table == "runs":
            frame = frame.sort_values(["deployment", "round", "order", "attempt"], ignore_index=True)
            notices = sorted(frame["notice"].dropna().unique())
            frame.attrs["notice"] = " ".join(notices) or None
            frame.attrs["looked"] = bool((self.read_plan() or {}).get("looked"))
            frame.attrs["failed_claims"] = self.failed_claims()
        frame.attrs["experiment"] = self.declared().model_dump(mode="json")
        frame.attrs["path"] = self.url
        return frame

    # -- tables: writing -------------------------------------------------------------------------------------------

    def ingest(self, progress: Progress | None = None, *, engine: Engine | None = None) -> int:
        """Read the raw runs that are not in the tables yet; return how many. See `ingest`."""
        return _ingest([self], engine or Engine(), progress)

    def _standing(self) -> tuple[set[str], list[str]]:
        """Runs in the tables, and the parts that must be made anew."""
        known: set[str] = set()
        stale: list[str] = []
        parts = self._parts("runs") if self._batches() else {}
        read = self._files.each(lambda p: p.read(["run_id", "parser_version", "experiment"]), list(parts.values()))
        for batch, part in zip(parts, read, strict=True):
            versions = set(part["parser_version"].unique().to_pylist())
            if max(versions) > PARSER_VERSION:
                raise StoreError(f"{self.url}: a newer netperf_lib made these tables; upgrade, or remove the tables")
            # made by an older reader of the same logs, or before the folder was renamed
            if versions == {PARSER_VERSION} and part["experiment"].unique().to_pylist() == [self.experiment]:
                known.update(part["run_id"].to_pylist())
            else:
                stale.append(batch)
        return known, stale

    def _behind(self) -> tuple[list[str], list[str]]:
        """Runs that are not in the tables, and the parts that must be made anew."""
        known, stale = self._standing()
        return [i for i in self.run_ids() if i not in known], stale

    def _tidy(self, stale: Sequence[str]) -> None:
        """Finish or undo what a killed process left, and take away parts that do not count. Needs the lock."""
        merging = self._read_json("tables/merging.json")
        if merging:
            if self._files.exists(f"tables/runs/{merging['into']}"):
                for part in merging["parts"]:
                    self._files.remove(f"tables/runs/{part}")
            self._files.remove("tables/merging.json")
        for batch in stale:
            self._files.remove(f"tables/runs/{batch}")
        counting = set(self._batches())
        for table in SCHEMAS:
            self._files.tidy(f"tables/{table}")
            for part in self._files.sizes(f"tables/{table}"):
                if part not in counting:
                    self._files.remove(f"tables/{table}/{part}")

    def _plan_batches(self, new: Sequence[str]) -> Iterator[tuple[Store, str, list[str]]]:
        for start in range(0, len(new), BATCH_RUNS):
            ids = list(new[start : start + BATCH_RUNS])
            batch: list[str] = []
            filled = 0
            for run_id, size in zip(ids, self._files.weights("raw", ids), strict=True):
                if batch and filled + size > BATCH_BYTES:
                    yield self, _part_name(), batch
                    batch, filled = [], 0
                batch.append(run_id)
                filled += size
            yield self, _part_name(), batch

    def _read_batch(self, name: str, run_ids: Sequence[str], into: Store | None = None) -> bytes:
        """Write the parts of a batch but that of ``runs``, and return that one: small, and all that travels."""
        written = (into or self)._files
        rows: list[dict[str, Any]] = []
        part_of_runs = io.BytesIO()
        with ExitStack() as stack:
            runs = stack.enter_context(PartWriter("runs", lambda: nullcontext(part_of_runs)))
            writers = {
                table: stack.enter_context(PartWriter(table, partial(written.new_file, f"tables/{table}/{name}")))
                for table in _DETAIL
            }
            for run_id in run_ids:
                with self.raw(run_id) as place:
                    row, parsed = self._read_run(run_id, place)
                    rows.append(row)
                    try:
                        for table, some in detail(self.experiment, run_id, parsed):
                            writers[table].add(some)
                    except ParseError as e:  # a damaged packet is found only while the packets are read
                        row |= {
                            "status": "partial",
                            "error": str(e).replace(str(place), f"raw/{run_id}"),
                        } | dict.fromkeys(METRICS)
                if len(rows) == BATCH_RUNS or run_id == run_ids[-1]:
                    runs.add(runs_table(rows))
                    rows.clear()
        return part_of_runs.getvalue()

    def _read_run(self, run_id: str, place: Path) -> tuple[dict[str, Any], list[ParsedRun]]:
        try:
            record = read_record((place / "run.json").read_bytes())
        except (OSError, ValueError) as error:
            raise self._damaged(run_id, error) from None
        digest = hashlib.sha256()
        parsed: list[ParsedRun] = []
        error_text: str | None = None
        for file in sorted(place.glob("client*.out")):
            server = file.with_name(file.name.replace("client", "server", 1))
            for read in filter(Path.exists, (file, server)):
                with read.open("rb") as opened:
                    while chunk := opened.read(1 << 20):
                        digest.update(chunk)
            try:
                parsed += logs.parse_ends(file, server)
            except ParseError as e:
                error_text = str(e).replace(str(place), f"raw/{run_id}")
        try:
            row = run_row(record, parsed, error_text)
        except KeyError as error:
            raise self._damaged(run_id, ValueError(f"it lacks {error}")) from None
        row |= {"experiment": self.experiment, "run_id": run_id, "parser_version": PARSER_VERSION}
        row |= {"raw_path": f"raw/{run_id}", "raw_sha256": digest.hexdigest()}
        return row, parsed

    def _commit(self, name: str, part_of_runs: bytes) -> None:
        """Write the part of ``runs``: from here on the batch counts."""
        self._files.write(f"tables/runs/{name}", part_of_runs)

    @contextmanager
    def _alone(self) -> Iterator[Callable[[], None]]:
        with self._files.lock("tables/.lock", "another ingest", wait_s=WAIT_S) as check:
            yield check

    # -- tables: care ------------------------------------------------------------------------------------------------

    def compact(self, progress: Progress | None = None) -> int:
        """Merge small parts; return how many parts became fewer. See `compact`."""
        self.ingest()
        if len(self._batches()) < 2 and not self._read_json("tables/merging.json"):
            return 0
        with self._alone() as check:
            self._tidy([])
            before = len(self._batches())
            groups = [g for g in self._groups() if len(g) > 1]
            for done, group in enumerate(groups, 1):
                name = _part_name()
                for table in _DETAIL:
                    self._merge(table, group, name)
                self._files.write("tables/merging.json", _json({"into": name, "parts": group}))
                check()
                self._merge("runs", group, name)  # from here on the new part counts, and the old ones do not
                self._tidy([])
                if progress:
                    progress(done, len(groups))
            return before - len(self._batches())

    def _groups(self) -> list[list[str]]:
        """Parts to merge, in order, each group up to the size of a part."""
        sizes = [self._files.sizes(f"tables/{table}") for table in SCHEMAS]
        groups: list[list[str]] = []
        weight = rows = 0
        for batch, part in self._parts("runs").items():
            size = sum(s.get(batch, 0) for s in sizes)
            with part.open() as file:
                n = file.metadata.num_rows
            if not groups or weight + size > PART_BYTES or rows + n > PART_RUNS:
                groups.append([])
                weight = rows = 0
            groups[-1].append(batch)
            weight, rows = weight + size, rows + n
        return groups

    def _merge(self, table: TableName, group: Sequence[str], name: str) -> None:
        parts = self._parts(table)
        with PartWriter(table, partial(self._files.new_file, f"tables/{table}/{name}")) as writer:
            for part in (parts[b] for b in group if b in parts):
                with part.open() as file:
                    metadata = file.schema_arrow.metadata
                    for rows in file.iter_batches():
                        whole = pa.Table.from_batches([rows]).replace_schema_metadata(metadata)
                        writer.add(evolve(whole, SCHEMAS[table], part.place))


def _read_batch(store: Store, name: str, run_ids: list[str]) -> bytes:
    return store._read_batch(name, run_ids)


def _ingest(stores: Sequence[Store], engine: Engine, progress: Progress | None) -> int:
    """Bring the tables of several stores up to date; batches of many small stores keep all workers busy."""
    stores = sorted(
        stores, key=lambda s: s.url
    )  # all take their locks in one order, so that no two wait for each other
    open_: dict[str, _Open] = {}
    total = done = 0

    def tasks() -> Iterator[tuple[Store, str, list[str]]]:
        nonlocal total
        for store in stores:
            if not any(store._behind()):
                continue
            stack = ExitStack()
            mine = open_[store.url] = _Open(stack, stack.enter_context(store._alone()))
            new, stale = store._behind()  # another may have done it while this one waited
            store._tidy(stale)
            total += len(new)
            for task in store._plan_batches(new):
                mine.left += 1
                yield task
            mine.planned = True
            close(store)

    def close(store: Store) -> None:
        mine = open_[store.url]
        if mine.planned and not mine.left:
            mine.stack.close()
            del open_[store.url]

    try:
        for (store, name, ids), part_of_runs in engine.each(_read_batch, tasks()):
            mine = open_[store.url]
            mine.check()
            store._commit(name, part_of_runs)
            mine.left -= 1
            close(store)
            done += len(ids)
            if progress:
                progress(done, total)
    finally:
        for mine in open_.values():
            mine.stack.close()
    return done


@dataclass(slots=True)
class _Open:
    """An ingest under way: its lock, and how much is left."""

    stack: ExitStack
    check: Callable[[], None]
    left: int = 0
    planned: bool = False


def _freshen(stores: Sequence[Store]) -> None:
    """Ingest what is new, where that can be written."""
    try:
        _ingest(stores, Engine(), None)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        warnings.warn(
            f"{error.filename or 'the data root'} cannot be written: tables are read as they are", stacklevel=3
        )


def _schema(name: str) -> pa.Schema:
    if name not in SCHEMAS:
        raise UsageError(f"no table {name!r} (known: {', '.join(SCHEMAS)})")
    return SCHEMAS[name]


def _part_name() -> str:
    return f"part-{uuid4().hex[:16]}.parquet"


def read_record(data: bytes) -> dict[str, Any]:
    """Read a run.json; ValueError where it is none."""
    record = orjson.loads(data)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 (a damaged file, like one that is no JSON)
    return record


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _work_folder(url: str) -> Path:
    """Where on this machine lies what belongs to a data root elsewhere and must be local: keys, logs, reports."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    readable = "".join(c if c.isalnum() or c in ".-" else "_" for c in url.partition("://")[2])
    place = (
        Path(state).expanduser()
        / "netperf_lib"
        / f"{readable}-{hashlib.blake2s(url.encode(), digest_size=4).hexdigest()}"
    )
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place


def experiments(root: Location) -> list[str]:
    """Experiments under a data root: the path or URL of each."""
    files = folder(root)
    names = files.names()
    there = files.each(lambda n: files.exists(f"{n}/experiment.yaml"), names)
    return [f"{files.url}/{n}" for n, is_one in zip(names, there, strict=True) if is_one]


def stores(path: Location | Iterable[Location]) -> list[Store]:
    """The stores that a call names: one experiment, several, or all under a data root.

    Raises
    ------
    StoreError
        There is none.
    """
    if not isinstance(path, str | os.PathLike):
        found = [Store.at(p) for p in path]
        if not found:
            raise StoreError("no experiment was given")
        return found
    if not folder(path).exists("experiment.yaml") and (inside := experiments(path)):
        return [Store.at(p) for p in inside]
    return [Store.at(path)]


def ingest(
    path: Location | Iterable[Location],
    progress: Progress | None = None,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    executor: Executor | None = None,
) -> int:
    """Read the raw runs that are not in the tables yet; return how many.

    Stopped at any point, also by the death of a worker or of this process, it loses and doubles nothing; the same call
    goes on.

    Parameters
    ----------
    path : path, URL or several
        An experiment, several, or a data root: all its experiments.
    progress : callable, optional
        Called with (runs read, runs to read so far).
    workers, scheduler, executor
        Who does it: see `netperf_lib.data.workers.Engine`.

    Raises
    ------
    StoreError
        There is no experiment; a run's record is damaged; another ingest is at work and does not end.
    """
    with Engine(workers=workers, scheduler=scheduler, executor=executor) as engine:
        return _ingest(stores(path), engine, progress)


def compact(path: Location | Iterable[Location], progress: Progress | None = None) -> int:
    """Merge small parts of the tables into few; return how many parts became fewer.

    Readers of this library never see a row twice or not at all meanwhile. Engines that list the files themselves see
    both the old and the new part of ``runs`` for the moment between the writing of one and the removal of the other.
    """
    return sum(store.compact(progress) for store in stores(path))


def scan(path: Location | Iterable[Location], table: TableName = "runs", *, excluded: bool = False) -> ds.Dataset:
    """A table as a lazy one, of which a query reads only the parts, columns and row groups that it needs.

    Parameters
    ----------
    path : path, URL or several
        An experiment, several, or a data root: all its experiments.
    table : {"runs", "intervals", "percentiles", "samples"}
        `experiment` and `run_id` together join them.
    excluded : bool
        Also the runs that were left out for a cause (`Store.exclude`).

    Returns
    -------
    pyarrow.dataset.Dataset
        Filters on `experiment` leave out whole files. DuckDB queries it by its variable's name,
        ``polars.scan_pyarrow_dataset`` makes a LazyFrame of it.

    Raises
    ------
    StoreError
        There is no experiment, or nothing was measured.
    """
    schema = _schema(table)
    chosen = stores(path)
    _freshen(chosen)
    layout = ds.ParquetFileFormat()
    fragments = []
    left_out: ds.Expression | None = None
    for store in chosen:
        here = ds.field("experiment") == store.experiment
        if store._batches() or len(chosen) == 1:
            fragments += [
                layout.make_fragment(p.place, filesystem=p.system, partition_expression=here)
                for p in store._parts(table).values()
            ]
        if not excluded and (causes := store.exclusions()):
            these = here & ds.field("run_id").isin(list(causes))
            left_out = these if left_out is None else left_out | these
    dataset = ds.FileSystemDataset(fragments, schema, layout)
    return dataset if left_out is None else dataset.filter(~left_out)


def load(path: Location | Iterable[Location], table: TableName = "runs") -> pd.DataFrame:
    """Load a tidy table of one experiment, or of several as one.

    Parameters
    ----------
    path : path, URL or iterable of them
        Experiment folders, for example ``results/lab``; `experiments` names those of a data root.
    table : {"runs", "intervals", "percentiles", "samples"}
        ``runs`` has a row a run: identity, factors, context, metrics (missing is null), provenance.

    Returns
    -------
    pandas.DataFrame
        ``.attrs`` holds the declared ``experiment``, the ``path`` and the ``notice`` that must go with the data. Of
        several experiments: ``experiment`` is the first one's, ``path`` a list, ``notice`` all that there are.

    Raises
    ------
    StoreError
        There is no experiment, or nothing was measured.
    """
    if isinstance(path, str | os.PathLike):
        place, notice = located(path)
        frame = Store.at(place).load(table)
        if notice:
            frame.attrs["notice"] = " ".join(filter(None, (notice, frame.attrs.get("notice"))))
        return frame
    frames = [store.load(table) for store in stores(path)]
    attrs = [frame.attrs for frame in frames]
    for frame in frames:
        frame.attrs = {}
    whole = pd.concat(frames, ignore_index=True)
    whole.attrs = dict(attrs[0])
    if len(attrs) > 1:
        notices = dict.fromkeys(a["notice"] for a in attrs if a.get("notice"))
        whole.attrs["looked"] = any(a.get("looked") for a in attrs)
        whole.attrs |= {"path": [a["path"] for a in attrs], "notice": " ".join(notices) or None}
    return whole
