"""The disk layout, and the way from raw logs to tables.

::

    <root>/<experiment>/experiment.yaml, plan.json      as declared, as scheduled
    <root>/<experiment>/hosts/                          what the source of the hosts keeps
    <root>/<experiment>/raw/<run_id>/run.json, *.out    appears whole or not at all, never changed after
    <root>/<experiment>/exclusions.json                 runs left out, each with its cause
    <root>/<experiment>/tables/<table>/part-*.parquet   delete at will
    <root>/<experiment>/reports/                        delete at will

Only this module builds these paths.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from . import logs
from .errors import ParseError, StoreError
from .metrics import METRICS
from .model import Deployment, Experiment, ParsedRun

__all__ = ["SCHEMAS", "SCHEMA_VERSION", "RunState", "Store", "ingest", "load"]

SCHEMA_VERSION = 1
"""Version of the tables; a table of an older version still loads."""
PARSER_VERSION = 1
"""Raised when the same log would give other numbers, so that tables made before are made anew."""

TableName = Literal["runs", "intervals", "percentiles", "samples"]

_TEXT = (
    "experiment run_id status error placement client server protocol direction client_vm_size server_vm_size "
    "client_region server_region client_zone server_zone client_zone_physical server_zone_physical tool test "
    "tool_version command kernel congestion_control nic_driver notice raw_path raw_sha256"
).split()
_INTEGER = "round order deployment attempt streams tcp_buffer_bytes message_bytes parser_version".split()
_FLAG = "accelerated vf_up".split()
_REAL = "duration_s omit_s".split()

SCHEMAS: dict[TableName, pa.Schema] = {
    "runs": pa.schema(
        [(c, pa.string()) for c in _TEXT]
        + [(c, pa.int64()) for c in _INTEGER]
        + [(c, pa.bool_()) for c in _FLAG]
        + [(c, pa.float64()) for c in _REAL]
        + [("started_utc", pa.timestamp("us", "UTC")), ("warnings", pa.list_(pa.string()))]
        + [(name, pa.float64()) for name in METRICS]
    ),
    "intervals": pa.schema(
        [
            ("run_id", pa.string()),
            ("stream", pa.int32()),
            ("direction", pa.string()),
            ("start_s", pa.float64()),
            ("end_s", pa.float64()),
            ("omitted", pa.bool_()),
            ("throughput_bps", pa.float64()),
            ("retransmits_count", pa.float64()),
            ("rtt_loaded_us", pa.float64()),
            ("cwnd_bytes", pa.float64()),
        ]
    ),
    "percentiles": pa.schema(
        [
            ("run_id", pa.string()),
            ("basis", pa.string()),
            ("percentile", pa.float64()),
            ("latency_us", pa.float64()),
            ("beyond", pa.int64()),
        ]
    ),
    "samples": pa.schema([("run_id", pa.string()), ("t_s", pa.float64()), ("latency_us", pa.float32())]),
}


@dataclass(frozen=True, slots=True)
class RunState:
    """What the store knows of a run without reading its logs."""

    run_id: str
    attempt: int
    status: str
    trial: str
    """Run id of the trial, without the attempt."""


class Store:
    """One experiment under a data root.

    Parameters
    ----------
    root : path
        The data root.
    experiment : str
        Name of the experiment: a folder under the root.
    """

    def __init__(self, root: str | os.PathLike[str], experiment: str) -> None:
        self.experiment = experiment
        self.path = Path(root) / experiment

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Store:
        """The store whose experiment folder is `path`.

        Raises
        ------
        StoreError
            There is no experiment in that folder.
        """
        folder = Path(path).resolve()
        if not (folder / "experiment.yaml").is_file():
            inside = sorted(p.parent.name for p in folder.glob("*/experiment.yaml")) if folder.is_dir() else []
            hint = f"; it holds the experiments {', '.join(inside)}" if inside else ""
            raise StoreError(f"{path}: no experiment here (no experiment.yaml){hint}")
        return cls(folder.parent, folder.name)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # -- places --------------------------------------------------------------------------------------------------

    @property
    def hosts_dir(self) -> Path:
        """Folder for what the source of the hosts keeps."""
        return self._made(self.path / "hosts")

    @property
    def reports_dir(self) -> Path:
        """Folder for executed notebooks and PDFs."""
        return self._made(self.path / "reports")

    @property
    def log_file(self) -> Path:
        """Where the collector writes what it did."""
        return self._made(self.path) / "collect.log"

    def raw_dir(self, run_id: str) -> Path:
        """Folder of a run that is complete."""
        return self.path / "raw" / run_id

    @staticmethod
    def _made(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _table_dir(self, table: TableName) -> Path:
        return self.path / "tables" / table

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
        place = self.path / "experiment.yaml"
        if place.exists() and self.declared() != experiment:
            free = {"rounds": 0, "contrasts": (), "title": "", "attempts": 1, "seed": None}
            if self.declared().model_copy(update=free) != experiment.model_copy(update=free) and any(self.runs()):
                raise StoreError(
                    f"{self.path}: runs were measured here under another declaration of {experiment.name!r}; "
                    "give the changed experiment a name of its own, or another data root"
                )
        self._write(place, text.encode())

    def declared(self) -> Experiment:
        """Return the experiment as declared."""
        return Experiment.model_validate(yaml.safe_load((self.path / "experiment.yaml").read_text("utf-8")))

    def set_aside_unless_open(self, experiment: Experiment) -> Path | None:
        """Make room for measuring `experiment` anew; a half-done measurement of the same declaration is kept open.

        Returns
        -------
        Path or None
            Where the measurement made before lies now.
        """
        if not (self.path / "experiment.yaml").exists() or not self.run_ids():
            return None
        plan = self.read_plan() or {"trials": []}
        measured = {s.trial for s in self.runs()}
        if self.declared() == experiment and len(measured) < len(plan["trials"]):
            return None
        with self.lock():
            first = min(str(self.run(i).get("started_utc")) for i in self.run_ids())
            stamp = "".join(c for c in first[:19] if c.isalnum())
            aside = self.path.with_name(f"{self.experiment}-{stamp}")
            self.path.rename(aside)
        return aside

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Keep the schedule (a JSON document)."""
        self._write(self.path / "plan.json", orjson.dumps(plan, option=orjson.OPT_INDENT_2))

    def read_plan(self) -> dict[str, Any] | None:
        """Return the schedule, or None where none was made."""
        place = self.path / "plan.json"
        return orjson.loads(place.read_bytes()) if place.exists() else None

    def write_deployment(self, number: int, deployment: Deployment) -> None:
        """Keep where the hosts of deployment `number` were placed, and what proves it."""
        self._write(self.hosts_dir / f"deployment-{number:02d}.json", _json(asdict(deployment)))

    def deployments(self) -> list[dict[str, Any]]:
        """Return every deployment kept, in order."""
        return [json.loads(p.read_text("utf-8")) for p in sorted((self.path / "hosts").glob("deployment-*.json"))]

    @staticmethod
    def _write(place: Path, data: bytes) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f".{place.name}.{os.getpid()}")
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(place)

    # -- raw runs --------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep every other collector out for as long as the block runs.

        Raises
        ------
        StoreError
            Another collector is at work on this experiment.
        """
        self._made(self.path)
        with (self.path / ".lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise StoreError(
                    f"{self.path}: another collector is at work here (process {file.read().strip() or 'unknown'}); "
                    "wait for it or stop it"
                ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()
            for left in self._made(self.path / "raw").glob(".staging-*"):
                shutil.rmtree(left, ignore_errors=True)  # what a killed collector left; never a complete run
            yield

    @contextmanager
    def new_run(self, run_id: str) -> Iterator[Path]:
        """A folder to write a run into; it becomes ``raw/<run_id>`` whole when the block ends well.

        Raises
        ------
        StoreError
            The run exists already, or the block wrote no run.json.
        """
        final = self.raw_dir(run_id)
        if final.exists():
            raise StoreError(f"{final}: this run exists already; raw runs are never overwritten")
        raw = self._made(final.parent)
        staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=raw))
        try:
            yield staging
            if not (staging / "run.json").is_file():
                raise StoreError(f"run {run_id}: no run.json was written")
            for file in staging.iterdir():
                _fsync(file)
            staging.chmod(0o755)
            _fsync(staging)
            staging.rename(final)
            _fsync(raw)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    @staticmethod
    def write_record(folder: Path, record: Mapping[str, Any]) -> None:
        """Write the record of a run into its folder, with the hash of every file that is there."""
        files = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(folder.iterdir()) if f.is_file()}
        (folder / "run.json").write_bytes(_json({**record, "files": files}))

    def run_ids(self) -> list[str]:
        """Ids of the complete runs, sorted."""
        try:
            with os.scandir(self.path / "raw") as entries:
                return sorted(e.name for e in entries if not e.name.startswith("."))
        except FileNotFoundError:
            return []

    def run(self, run_id: str) -> dict[str, Any]:
        """Return the run.json of a run.

        Raises
        ------
        StoreError
            It is missing or damaged.
        """
        place = self.raw_dir(run_id) / "run.json"
        try:
            record: dict[str, Any] = orjson.loads(place.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise StoreError(f"{place}: cannot be read ({error}); restore the run folder from a copy") from None
        return record

    def runs(self) -> Iterator[RunState]:
        """Every complete run, without reading its logs."""
        for run_id in self.run_ids():
            record = self.run(run_id)
            trial = run_id.rsplit("-a", 1)[0]
            yield RunState(run_id, int(record["attempt"]), str(record["status"]), trial)

    def exclude(self, run_id: str, cause: str) -> None:
        """Leave a run out of every comparison, for a cause that reports will print.

        Raises
        ------
        StoreError
            No such run.
        """
        if not self.raw_dir(run_id).is_dir():
            raise StoreError(f"{self.path}: no run {run_id!r} to exclude")
        self._write(self.path / "exclusions.json", _json({**self.exclusions(), run_id: cause}))

    def exclusions(self) -> dict[str, str]:
        """Runs left out: id to cause."""
        place = self.path / "exclusions.json"
        return json.loads(place.read_text("utf-8")) if place.exists() else {}

    # -- tables ----------------------------------------------------------------------------------------------------

    def ingest(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Read the raw runs that are not in the tables yet; return how many.

        A batch's rows appear in every table or in none: the ``runs`` part is written last, and the other tables are
        read only for batches that have one.

        Parameters
        ----------
        progress : callable, optional
            Called with (runs read, runs to read).
        """
        new = sorted(set(self.run_ids()) - self._ingested())
        for start in range(0, len(new), 1000):
            batch = new[start : start + 1000]
            name = hashlib.blake2s("\n".join(batch).encode(), digest_size=8).hexdigest()
            rows: dict[TableName, list[pa.Table]] = {t: [] for t in SCHEMAS}
            for done, run_id in enumerate(batch, start + 1):
                for table, part in self._read_run(run_id).items():
                    rows[table].append(part)
                if progress:
                    progress(done, len(new))
            for table in ("samples", "percentiles", "intervals", "runs"):
                if rows[table]:
                    self._write_part(table, name, pa.concat_tables(rows[table]))
        return len(new)

    def _ingested(self) -> set[str]:
        known: set[str] = set()
        for part in self._table_dir("runs").glob("part-*.parquet"):
            table = pq.read_table(part, columns=["run_id", "parser_version"])
            if any(v != PARSER_VERSION for v in table["parser_version"].to_pylist()):
                part.unlink()  # made by an older reader of the same logs: read them anew
            else:
                known.update(table["run_id"].to_pylist())
        return known

    def _write_part(self, table: TableName, name: str, data: pa.Table) -> None:
        folder = self._made(self._table_dir(table))
        aside = folder / f".part-{name}.{os.getpid()}"
        data = data.replace_schema_metadata({"netperf_schema": str(SCHEMA_VERSION)})
        pq.write_table(data, aside, compression="zstd")
        _fsync(aside)
        aside.replace(folder / f"part-{name}.parquet")

    def _read_run(self, run_id: str) -> dict[TableName, pa.Table]:
        record = self.run(run_id)
        digest = hashlib.sha256()
        parsed: list[ParsedRun] = []
        error: str | None = None
        folder = self.raw_dir(run_id)
        for file in sorted(folder.glob("client*.out")):
            with file.open("rb") as opened:
                while chunk := opened.read(1 << 20):
                    digest.update(chunk)
            try:
                parsed += logs.parse(file)
            except ParseError as e:
                error = str(e)
        row = _row(record, parsed, error)
        row |= {"raw_path": f"raw/{run_id}", "raw_sha256": digest.hexdigest()}
        found: dict[TableName, pa.Table] = {"runs": pa.Table.from_pylist([row], schema=SCHEMAS["runs"])}
        intervals = [_columns("intervals", run_id, p.intervals) for p in parsed if p.intervals]
        if intervals:
            found["intervals"] = pa.concat_tables(intervals)
        points = [{"run_id": run_id, "basis": p.percentile_basis, **asdict(q)} for p in parsed for q in p.percentiles]
        if points:
            found["percentiles"] = pa.Table.from_pylist(points, schema=SCHEMAS["percentiles"])
        samples = [_columns("samples", run_id, batch) for p in parsed if p.samples_count for batch in p.samples()]
        if samples:
            found["samples"] = pa.concat_tables(samples)
        return found

    def table(self, name: TableName) -> pa.Table:
        """Return a table, ingesting first what is new.

        Raises
        ------
        StoreError
            There is nothing to read.
        """
        self.ingest()
        batches = {p.name for p in self._table_dir("runs").glob("part-*.parquet")}
        if not batches:
            raise StoreError(f"{self.path}: nothing was measured here yet; `npl collect` first")
        schema = SCHEMAS[name]
        parts = [p for p in sorted(self._table_dir(name).glob("part-*.parquet")) if p.name in batches]
        return pa.concat_tables([schema.empty_table(), *(_evolve(pq.read_table(p), schema) for p in parts)])

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
        frame.attrs["experiment"] = self.declared().model_dump(mode="json")
        frame.attrs["path"] = str(self.path)
        return frame


def _fsync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode()


def _columns(table: TableName, run_id: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    schema = SCHEMAS[table]
    length = len(next(iter(columns.values())))
    arrays = [
        pa.repeat(run_id, length)
        if f.name == "run_id"
        else pa.array(columns[f.name], f.type, from_pandas=True)
        if f.name in columns
        else pa.nulls(length, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _evolve(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table of an older version the columns of today; those it did not know are null."""
    columns = [
        table[f.name].cast(f.type) if f.name in table.column_names else pa.nulls(table.num_rows, f.type) for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _row(record: Mapping[str, Any], parsed: Sequence[ParsedRun], unread: str | None) -> dict[str, Any]:
    """One row of ``runs``: what was planned, where it ran, what the log says."""
    trial = record["trial"]
    client, server = record["hosts"]["client"], record["hosts"]["server"]
    facts = record.get("facts", {}).get("client") or {}
    main = next((p for p in parsed if p.tool == trial["tool"]), parsed[0] if parsed else None)
    row: dict[str, Any] = {name: record.get(name) for name in ("experiment", "run_id", "round", "order", "deployment")}
    row |= {name: record.get(name) for name in ("attempt", "notice")}
    row |= {name: trial.get(name) for name in ("placement", "client", "server", "tool", "test", "duration_s", "omit_s")}
    row |= {name: trial.get(name) for name in ("streams", "tcp_buffer_bytes", "message_bytes", "accelerated")}
    for side, host in (("client", client), ("server", server)):
        row |= {f"{side}_{name}": host.get(name) for name in ("vm_size", "region", "zone", "zone_physical")}
    row |= {name: facts.get(name) for name in ("kernel", "congestion_control", "nic_driver", "vf_up")}
    row["command"] = " ".join(record["commands"]["client"])
    row["started_utc"] = pd.Timestamp(record["started_utc"]) if record.get("started_utc") else None
    row["tool_version"] = (main and main.tool_version) or record.get("tool_version")
    row["parser_version"] = PARSER_VERSION
    row["protocol"] = main.parameters.get("protocol") if main else None
    row["direction"] = main.parameters.get("direction") if main else None
    if row["message_bytes"] is None and main:
        row["message_bytes"] = main.parameters.get("message_bytes")
    row["warnings"] = [*record.get("warnings", ()), *(w for p in parsed for w in p.warnings)]
    if record["status"] != "ok":
        row["status"], row["error"] = record["status"], record.get("error")
    elif main is None:
        row["status"], row["error"] = "failed", unread or "the tool printed nothing"
    else:
        row["status"], row["error"] = main.status, main.error
    if row["status"] == "ok":
        for run in reversed(parsed):  # the test's own tool has the last word
            row |= {name: value for name, value in run.metrics.items() if name in METRICS}
        if main:
            row |= {name: value for name, value in main.metrics.items() if name in METRICS}
    return row


def ingest(path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> int:
    """Read the raw runs of the experiment at `path` that are not in its tables yet; return how many."""
    return Store.at(path).ingest(progress)


def load(path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], table: TableName = "runs") -> pd.DataFrame:
    """Load a tidy table of one experiment, or of several as one.

    Parameters
    ----------
    path : path or iterable of paths
        Experiment folders, for example ``results/lab``.
    table : {"runs", "intervals", "percentiles", "samples"}
        ``runs`` has a row a run: identity, factors, context, metrics (missing is null), provenance.

    Returns
    -------
    pandas.DataFrame
        ``.attrs`` holds the declared ``experiment``, the ``path`` and the ``notice`` that must go with the data.

    Raises
    ------
    StoreError
        There is no experiment, or nothing was measured.
    """
    if isinstance(path, str | os.PathLike):
        return Store.at(path).load(table)
    frames = [Store.at(p).load(table) for p in path]
    if not frames:
        raise StoreError("load: no experiment was given")
    attrs = frames[0].attrs
    for frame in frames:
        frame.attrs = {}
    whole = pd.concat(frames, ignore_index=True)
    whole.attrs = attrs
    return whole
