"""The layout of an experiment. Only this module builds these paths.

Raw runs are written on a disk of this machine. A copy on an object store is read there, and its tables are written.

::

    <root>/<experiment>/experiment.yaml, plan.json      as declared, as scheduled; frozen by the first run
    <root>/<experiment>/hosts/                          state of the source of the hosts
    <root>/<experiment>/raw/<run_id>/run.json, *.out    immutable; complete once run.json exists, which is written last
    <root>/<experiment>/raw/import-…/runs.json.gz, …    logs that were imported together, and the records of their runs
    <root>/<experiment>/digests/d01-r0001-0064.sha256   SHA-256 of every run.json, as `sha256sum --check` reads it
    <root>/<experiment>/excluded/<run_id>.json          a run left out, and the reason
    <root>/<experiment>/tables/<table>/d01-r0001-0064.parquet   delete at will; see `netperf_lib.data.ingest`
    <root>/<experiment>/reports/                        delete at will
    <root>/<experiment>/collector.lock                  locked by the active collector, which it names
"""

from __future__ import annotations

import getpass
import gzip
import hashlib
import json
import os
import re
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import BaseModel, TypeAdapter

from ..errors import StoreError, did_you_mean, visible
from ..experiment.model import Contrast, Deployment, Experiment
from .files import (
    Location,
    appearing,
    explained,
    folder,
    is_url,
    own_path,
    plain_file,
    sha256_of,
    split,
)

try:
    import fcntl
except ImportError:  # Windows, where logs are imported by one process at a time
    fcntl = None  # type: ignore[assignment]

RECORD = "run.json"
"""The file that makes a run complete."""
IMPORT, RECORDS = "import-", "runs.json.gz"
"""How the name of a folder of imported logs begins, and its file with the records of all runs in these logs."""
RECORD_SCHEMA = 2
"""Version of run.json. From version 2 on, its digest is stored next to the plan."""
BLOCK_ROUNDS = 64
"""Rounds in a part of a table and in a file of digests."""
FREE = ("rounds", "contrasts", "title", "attempts", "seed", "report", "budget")
"""Fields that may change after the first run, since they change no condition. (Contrasts are frozen separately.)"""
REACH = frozenset("address port user identity known_hosts ssh_config host_keys management".split())
"""Options of an inventory that may change too: how SSH reaches a host does not matter to what is measured on it."""

_LOCK = "collector.lock"
_RUN_ID = re.compile(r"[\w+=@,-][\w.+=@,-]{0,250}")
_MOST_RECORDS = 1 << 28
"""Unpacked bytes of the records of an import: some 200,000 runs."""
_DEPLOYMENTS = TypeAdapter(Deployment)
_DEPLOYMENT = re.compile(r"deployment-(\d+)\.json")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The declaration made before the data, and later additions."""

    experiment: Experiment
    """The experiment with the contrasts declared before the first run; only these get verdicts."""
    frozen_utc: str | None = None
    """Time of the first run; None before it, and for data of version 0.1, which did not record it."""
    digest: str | None = None
    """SHA-256 of the frozen contrasts; every run.json carries it."""
    added: tuple[Contrast, ...] = ()
    """Contrasts declared after the first run."""


@dataclass
class RawFolder:
    """A folder of ``raw/``: that of a run, or of logs that were imported together.

    Anybody may have written it: only plain files are read, and only as its record describes them.
    """

    name: str
    path: Path
    """Where it is on this machine."""
    digests: set[str] | None = None
    """What the SHA-256 of its record may be; None if that is not known."""
    _files: dict[str, Path] = field(default_factory=dict)

    @cached_property
    def data(self) -> bytes:
        """Its run.json; FileNotFoundError, or ValueError for a link."""
        return plain_file(self.path, RECORD).read_bytes()

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its run.json as a document; ValueError if it is none."""
        return read_record(self.data)

    @cached_property
    def records(self) -> Mapping[str, dict[str, Any]]:
        """Records of its runs by their ids; an import keeps those of all its runs in one file."""
        if RECORDS not in self.record["files"]:
            return {self.name: self.record}
        return imported_records(self.file(RECORDS, self.record).read_bytes())

    @property
    def sha256(self) -> str:
        """Digest of its record; that of nothing if there is none."""
        data = b""
        with suppress(FileNotFoundError, ValueError):
            data = self.data
        return hashlib.sha256(data).hexdigest()

    @property
    def change(self) -> str | None:
        """What is wrong with its record: it is not the one that was written when the folder appeared."""
        if self.digests is None or self.sha256 in self.digests:
            return None
        return f"{RECORD} was changed after it was measured (its digest differs)"

    @property
    def state(self) -> str:
        """A digest of all files in the folder; it changes when one is repaired."""
        state = hashlib.sha256()
        for path in sorted(self.path.iterdir()):
            if path.is_file() and not path.is_symlink():
                state.update(f"{sha256_of(path)}  {path.name}\n".encode())
        return state.hexdigest()

    def file(self, name: str, record: Mapping[str, Any]) -> Path:
        """Return a file that is as a record describes it; ValueError if not, FileNotFoundError if there is none."""
        expected = record["files"][name]
        if name not in self._files:  # many runs share a log
            path = plain_file(self.path, name)
            if sha256_of(path) != expected:
                raise ValueError(f"{name} was changed after it was measured (its digest differs)")
            self._files[name] = path
        return self._files[name]


class _Frozen(BaseModel):
    """The contrasts that the first run froze."""

    utc: str | None
    alpha: float
    contrasts: tuple[Contrast, ...]
    sha256: str


class _Added(BaseModel):
    """A contrast that was declared later."""

    utc: str | None
    contrast: Contrast


class _Plan(BaseModel):
    """What is read of plan.json."""

    trials: tuple[dict[str, Any], ...] = ()
    frozen: _Frozen | None = None
    added: tuple[_Added, ...] = ()


def block_of(run_id: str) -> str:
    """Return the block of rounds of one deployment that a run belongs to, for example ``d01-r0001-0064``."""
    match = re.match(r"d(\d+)-r(\d+)(?:-|$)", run_id)
    deployment, number = (int(match[1]), int(match[2])) if match else (0, 0)
    start = max(0, number - 1) // BLOCK_ROUNDS * BLOCK_ROUNDS
    return f"d{deployment:02d}-r{start + 1:04d}-{start + BLOCK_ROUNDS:04d}"


def trial_of(run_id: str) -> str:
    """Return the run id without the attempt: the trial's."""
    return re.sub(r"-a\d{1,6}$", "", run_id)


def is_leading(run_id: str) -> bool:
    """Return whether a run only led two rounds: it is kept in ``raw/``, and is no row of a table."""
    return re.search(r"-[0-9a-f]{8}-lead-a\d{1,6}$", run_id) is not None


class Store:
    """One experiment under a data root.

    The root is a folder, or the URL of an object store (``abfs://container/folder``); the experiment is the name of a
    folder under it. For a link, the name of its target counts.
    """

    def __init__(self, root: Location, experiment: str) -> None:
        root = str(root).rstrip("/") if is_url(root) else Path(root)
        self.files = folder(f"{root}/{experiment}")
        """The files of the experiment, by their names relative to its folder."""
        self.url = self.files.url
        """Where the data are."""
        if self.files.path is not None and self.files.path.is_symlink():
            with explained(self.url):
                experiment = split(self.files.path)[1]
        self.experiment = experiment
        self._locked = False
        self.frozen: dict[str, Any] | None = None
        """Entry of run records about the frozen contrasts; see `freeze`."""

    @classmethod
    def at(cls, path: Location) -> Store:
        """Return the store whose experiment folder is `path`; StoreError if there is no experiment."""
        if not is_experiment(path):
            parent, name = split(path)
            inside, beside = ([split(e)[1] for e in experiments(one)] for one in (path, parent))
            hint = did_you_mean(name, beside).rstrip()
            if inside:
                hint = f"it holds the experiments {', '.join(inside)}"
            elif os.path.isfile(path):  # noqa: PTH113 - a URL, too
                hint = "an experiment is a folder: unpack an archive with tar xf"
            elif os.path.isdir(path):  # noqa: PTH112
                hint = "raw logs become one by npl import LOGS --into results/NAME"
            where = f"{str(path)[:300]}: no experiment here (no experiment.yaml)"
            raise StoreError(f"{where}; {hint}" if hint else where)
        return cls(*split(path))

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def __reduce__(self) -> tuple[type[Store], tuple[str, str]]:
        return Store, split(self.location)  # workers may have another working directory

    @property
    def location(self) -> str:
        """Location of the data, valid in any process: an absolute path, or the URL."""
        return str(self.path.resolve()) if self.files.path is not None else self.url

    @property
    def path(self) -> Path:
        """The experiment's folder on this machine; StoreError if it is elsewhere."""
        if self.files.path is None:
            how = "only a folder of this machine is written; copy it there afterwards"
            raise StoreError(f"{self.url}: {how}")
        return self.files.path

    @property
    def hosts_dir(self) -> Path:
        """Folder for the state of the source of the hosts; always on this machine, since it may contain keys."""
        folder = own_path(self.path, "hosts")
        self.path.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for inside in folder.rglob("*"):
            own_path(folder, str(inside.relative_to(folder)))
        return folder

    # -- what was declared and scheduled ---------------------------------------------------------------------------

    def declare(self, experiment: Experiment) -> None:
        """Store the experiment as declared; StoreError if runs were measured under another declaration.

        Once runs exist, the contrasts are frozen: others are stored as added, with the time, and get no verdict.
        """
        if not (self.files.exists("experiment.yaml") and self.run_ids()):
            self._write_declared(experiment)
            plan = self.read_plan()
            if plan and (plan.pop("frozen", None), plan.pop("added", None)) != (None, None):
                self._write_json("plan.json", plan)
            self.frozen = None
            return
        declaration = self.declaration()
        fixed = declaration.experiment
        if not self._continues(fixed, experiment):
            raise StoreError(
                f"{self.url}: runs were measured here under another declaration of "
                f"{experiment.name!r}; give the changed experiment another name, or another data root"
            )
        plan = self.read_plan() or {}
        plan.setdefault("frozen", _freeze(fixed, declaration.frozen_utc))
        seen = {_same(c) for c in (*fixed.contrasts, *declaration.added)}
        new = [c for c in experiment.contrasts if _same(c) not in seen]
        if new:
            added = [{"utc": _now(), "contrast": _dump(c)} for c in new]
            plan["added"] = [*plan.get("added", ()), *added]
        declared = experiment.model_copy(update={"contrasts": fixed.contrasts})
        if declared != fixed:
            self._write_declared(declared)
        self._write_json("plan.json", plan)

    def _write_declared(self, experiment: Experiment) -> None:
        document = experiment.model_dump(mode="json", exclude_unset=True)
        self.files.write(
            "experiment.yaml",
            yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode(),
        )

    def declared(self) -> Experiment:
        """Return the experiment as declared; once there are runs, with the contrasts frozen by the first one."""
        return self.declaration().experiment

    def declaration(self) -> Declaration:
        """Return what was declared before the first run and what was added later."""
        with explained(f"{self.url}/experiment.yaml"):
            text = self.files.read("experiment.yaml")
            written = Experiment.model_validate(_without_controls(yaml.load(text, _LOADER)))  # noqa: S506 (a safe one)
        document = self.read_plan() or {}
        plan = _Plan.model_validate(document)
        added = [one.contrast for one in plan.added]
        if (frozen := plan.frozen) is None:
            return Declaration(experiment=written, added=tuple(added))
        known = {_same(c) for c in (*frozen.contrasts, *added)}
        # written into experiment.yaml by hand
        added += [c for c in written.contrasts if _same(c) not in known]
        fixed = {"contrasts": frozen.contrasts, "alpha": frozen.alpha}
        return Declaration(
            experiment=written.model_copy(update=fixed),
            frozen_utc=frozen.utc,
            digest=digest_of(document["frozen"]),
            added=tuple(added),
        )

    def freeze(self, utc: str | None = None) -> dict[str, Any] | None:
        """Freeze the contrasts, unless an earlier run did; return the entry for every run.json."""
        if self.frozen is None:
            if not self.files.exists("experiment.yaml"):
                return None
            plan = self.read_plan()
            frozen = (plan or {}).get("frozen")
            if frozen is None:
                frozen = _freeze(self.declared(), None if self.run_ids() else utc or _now())
                if plan is not None:
                    self._write_json("plan.json", plan | {"frozen": frozen})
            self.frozen = {"utc": frozen["utc"], "sha256": frozen["sha256"]}
        return self.frozen

    def set_aside_unless_open(self, experiment: Experiment) -> Path | None:
        """Make room for measuring `experiment` again; return the new location of the previous measurement.

        An incomplete measurement of the same declaration stays in place: then, as if nothing was measured, None.
        """
        if not self.files.exists("experiment.yaml") or not self.run_ids():
            return None
        trials = (self.read_plan() or {}).get("trials", ())
        measured = {trial_of(run_id) for run_id in self.run_ids()}
        declared = self.declaration().experiment
        same = self._continues(declared, experiment) and declared.rounds == experiment.rounds
        if same and len(measured) < len(trials):
            return None
        # it ends with the time of its start
        started = [str(at) for _, record in self.runs() if (at := record.get("started_utc"))]
        stamp = re.sub(r"\W", "", min(started, default=_now())[:19])
        names = [
            f"{self.experiment}-{stamp}{more}" for more in ("", *(f"-{n}" for n in range(2, 99)))
        ]
        aside = next(path for path in map(self.path.with_name, names) if not path.exists())
        with self.lock():
            self.path.rename(aside)
            self.frozen = None
        return aside

    def _continues(self, declared: Experiment, changed: Experiment) -> bool:
        """Whether runs of the changed experiment belong to those that exist."""
        measured = any(record.get("started_utc") for _, record in self.runs())
        return _fixed(declared, measured) == _fixed(changed, measured)

    def last_set_aside(self) -> str | None:
        """Return path or URL of the last measurement of this name that was set aside; None if there is none."""
        aside = re.compile(re.escape(self.experiment) + r"-\d{8}T\d{6}(-\d+)?")
        beside = experiments(split(self.url)[0])
        return max((one for one in beside if aside.fullmatch(split(one)[1])), default=None)

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Store the schedule (a JSON document); frozen parts stay."""
        before = self.read_plan() or {}
        kept = {k: before[k] for k in ("frozen", "added") if k in before}
        self._write_json("plan.json", {**plan, **kept})

    def read_plan(self) -> dict[str, Any] | None:
        """Return the schedule, or None if there is none."""
        plan = self._read_json("plan.json")
        with explained(f"{self.url}/plan.json"):
            _Plan.model_validate(plan or {})
        return plan

    def write_deployment(self, number: int, deployment: Deployment) -> None:
        """Store where the hosts of deployment `number` were placed, and the proofs."""
        self._write_json(f"hosts/deployment-{number:02d}.json", asdict(deployment))

    def deployments(self) -> dict[int, dict[str, Any]]:
        """Return every stored deployment by its number, in order."""
        deployments = {}
        for name in filter(_DEPLOYMENT.fullmatch, self.files.names("hosts")):
            deployments[int(_DEPLOYMENT.sub(r"\1", name))] = document = (
                self._read_json(f"hosts/{name}") or {}
            )
            with explained(f"{self.url}/hosts/{name}"):
                _DEPLOYMENTS.validate_python(document)
        return deployments

    def claims(self) -> list[dict[str, Any]]:
        """Claims about the hosts: each a `Proof` with ``deployment`` and ``host`` (empty: of all)."""
        return [
            asdict(proof) | {"host": host, "deployment": deployment.deployment_id}
            for deployment in map(_DEPLOYMENTS.validate_python, self.deployments().values())
            for host, proof in sorted(deployment.claims(), key=lambda claim: claim[0] != "")
        ]

    def _read_json(self, name: str) -> dict[str, Any] | None:
        """Return a document, or None if there is none; StoreError if it is damaged."""
        with explained(f"{self.url}/{name}"):
            try:
                document = orjson.loads(self.files.read(name))
            except FileNotFoundError:
                return None
        document = _without_controls(document)
        if not isinstance(document, dict):
            raise StoreError(f"{self.url}/{name}: not a JSON object; restore it from a copy")
        return document

    def _write_json(self, name: str, value: Any) -> None:
        self.files.write(name, orjson.dumps(value, option=orjson.OPT_INDENT_2))

    def root_digest(self) -> str:
        """Return a digest of all that was declared, planned, placed, measured and excluded, whatever the folder's name.

        It is a chain: the SHA-256 of the digest so far and of the line that ``sha256sum`` prints for the next file. The
        files in ``digests`` fix every record, and a record every log.
        """
        blocks = {f"digests/{n}": n for n in self.files.names("digests")}
        for name in self.files.names("hosts"):
            if match := _DEPLOYMENT.fullmatch(name):
                blocks[f"hosts/{name}"] = f"d{match[1]}"
        names = ["experiment.yaml", "plan.json", *sorted(blocks, key=lambda name: blocks[name])]
        if not self.files.names("digests"):  # as version 0.1 kept them
            names += [f"raw/{name}/{RECORD}" for name in self.folders()]
        names += ["exclusions.json", *(f"excluded/{n}" for n in self.files.names("excluded"))]
        link = ""
        for name in filter(self.files.exists, names):
            digest = hashlib.sha256(self.files.read(name)).hexdigest()
            link = hashlib.sha256(f"{link}{digest}  {name}\n".encode()).hexdigest()
        return link

    # -- the collector's claim ---------------------------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other collectors out for the duration of the block; StoreError if one is active.

        The lock is reentrant, and ends with the process that holds it.
        """
        if self._locked:
            yield
            return
        path = own_path(self.path, _LOCK)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = visible(file.read(200)) or "a process"
                who = f"another collector is at work here ({holder})"
                raise StoreError(f"{self.url}: {who}; wait for it or stop it") from None
            file.truncate(0)
            file.write(f"process {os.getpid()} of {_user()}, since {_now()}")
            file.flush()
            self._locked = True
            try:
                self.files.tidy("raw", older_s=0)  # only who holds the lock writes there
                self.files.tidy(".")
                yield
            finally:
                self._locked = False
                file.truncate(0)

    # -- raw runs --------------------------------------------------------------------------------------------------

    @contextmanager
    def new_run(self, run_id: str, *, durable: bool = True) -> Iterator[Path]:
        """A folder to write a run into; it becomes ``raw/<run_id>`` in one step when the block succeeds.

        `durable` waits until the data are on disk; reproducible data need not. StoreError if the run already exists
        or the block wrote no run.json.
        """
        path = own_path(self.path, f"raw/{run_id}")
        if path.exists():
            partial = "" if (path / RECORD).exists() else "a partial copy of "
            raise StoreError(
                f"{path}: {partial}a run is there already; raw runs are never overwritten"
            )
        self.freeze()
        with appearing(path, durable=durable) as staged:
            staged.mkdir()
            yield staged
            if not (staged / RECORD).is_file():
                raise StoreError(f"run {run_id}: no {RECORD} was written")
            name = f"digests/{block_of(run_id)}.sha256"
            before = self.files.read(name) if self.files.exists(name) else b""
            line = f"{sha256_of(staged / RECORD)}  raw/{run_id}/{RECORD}\n".encode()
            self.files.write(name, before + line, durable=durable)

    def write_record(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Write the record of a run into its folder, with the hash of every file in it."""
        files = {f.name: sha256_of(f) for f in sorted(folder.iterdir()) if f.is_file()}
        added = {"schema": RECORD_SCHEMA, "declaration": self.freeze(), "files": files}
        (folder / RECORD).write_bytes(orjson.dumps({**record, **added}))

    def digests(self, *blocks: str) -> dict[str, set[str]]:
        """Return the digests of the record in each folder of ``raw/``, as stored when it appeared.

        All, or those of some blocks and of imports, which may have runs in any. A collector that was killed at that
        moment leaves a digest that belongs to no folder.
        """
        digests: dict[str, set[str]] = {}
        files = [f"{block}.sha256" for block in (*blocks, block_of(IMPORT))]
        names = [f"digests/{n}" for n in self.files.names("digests") if not blocks or n in files]
        for data in map(self.files.read, names):
            for line in data.decode("utf-8", "replace").splitlines():
                digest, _, name = line.partition("  raw/")
                digests.setdefault(name.partition("/")[0], set()).add(digest)
        return digests

    @contextmanager
    def raw(self, name: str, digests: set[str] | None = None) -> Iterator[RawFolder]:
        """A folder of ``raw/`` for reading, on this machine for the duration of the block."""
        with self.files.local(f"raw/{name}") as path:
            yield RawFolder(name, path, digests)

    def raw_folders(self, folders: Mapping[str, str]) -> Iterator[tuple[RawFolder, list[str]]]:
        """Open one after another the folders of these runs, given as `run_folders` returns them; each with its runs."""
        digests = self.digests(*{block_of(run_id) for run_id in folders})
        inside: dict[str, list[str]] = {}
        for run_id in sorted(folders):
            inside.setdefault(folders[run_id], []).append(run_id)
        for name in sorted(inside):
            with self.raw(name, digests.get(name)) as raw:
                yield raw, inside[name]

    def folders(self, *, warn: bool = False) -> list[str]:
        """Names of the complete folders in ``raw/``, one for a run or an import; `warn` about anything else there."""
        complete = self.files.names("raw", complete_with=RECORD)
        others = sorted(set(self.files.names("raw")).difference(complete)) if warn else []
        if others:
            some = visible(", ".join(others[:3])) + (" …" if len(others) > 3 else "")
            what = f"{len(others)} without {RECORD} ignored ({some})"
            warnings.warn(f"{self.url}/raw: {what}: stray files or half-copied runs", stacklevel=2)
        return complete

    def run_folders(self, *, warn: bool = False) -> dict[str, str]:
        """Ids of the complete runs, sorted, each with the name of its folder in ``raw/``."""
        folders = {
            run_id: name
            for name in self.folders(warn=warn)
            for run_id in (self.records(name) if name.startswith(IMPORT) else [name])
        }
        return dict(sorted(folders.items()))

    def run_ids(self) -> list[str]:
        """Ids of the complete runs, sorted."""
        return list(self.run_folders())

    def records(self, name: str) -> Mapping[str, dict[str, Any]]:
        """Return the records of the runs in a folder of ``raw/``, by their ids; StoreError if they are damaged."""
        file = f"raw/{name}/{RECORDS if name.startswith(IMPORT) else RECORD}"
        with explained(file):
            data = self.files.read(file)
        try:
            packed = file.endswith(RECORDS)
            records = imported_records(data) if packed else {name: read_record(data)}
            for record in records.values():
                _ = int(record["attempt"]), record["status"]
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            why = f"it lacks {error}" if isinstance(error, KeyError) else error
            how = f"cannot be read ({why}); restore the folder from a copy"
            raise StoreError(f"{self.url}/{file}: {how}") from None
        return records

    def runs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every complete run with its record, without reading its logs."""
        for records in map(self.records, self.folders()):
            yield from records.items()

    def exclude(self, run_id: str, cause: str) -> None:
        """Leave a run out of every comparison, for a reason that reports will print."""
        if run_id not in self.run_folders():
            raise StoreError(f"{self.url}: no run {run_id!r} to exclude")
        _ = self.path
        self._write_json(f"excluded/{run_id}.json", {"cause": cause, "utc": _now()})

    def exclusions(self) -> dict[str, str]:
        """Runs left out: id to reason."""
        causes = dict(self._read_json("exclusions.json") or {})  # as version 0.1 kept them
        for name in self.files.names("excluded"):
            if name.endswith(".json"):
                causes[name.removesuffix(".json")] = str(
                    (self._read_json(f"excluded/{name}") or {}).get("cause")
                )
        return causes


def _without_controls(document: Any) -> Any:
    """A document without control characters: it may come from anybody, and what it says is shown."""
    if isinstance(document, dict):
        return {_without_controls(key): _without_controls(value) for key, value in document.items()}
    if isinstance(document, list):
        return [_without_controls(value) for value in document]
    return visible(document) if isinstance(document, str) else document


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return f"user {os.getuid()}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _fixed(experiment: Experiment, measured: bool) -> dict[str, Any]:
    """What may not change any more; while nothing was measured, all that is said of the hosts of an inventory may."""
    fixed = {k: v for k, v in experiment.model_dump(mode="json").items() if k not in FREE}
    if experiment.hosts.source == "inventory":
        options = fixed["hosts"]["options"] if measured else {}
        machines = {name: machine or {} for name, machine in (options.get("hosts") or {}).items()}
        hosts = {
            name: {"data_address": machine.get("address", name)}
            | {k: v for k, v in machine.items() if k not in REACH}
            for name, machine in machines.items()
        }
        fixed["hosts"] = {k: v for k, v in options.items() if k not in REACH} | {"hosts": hosts}
    return fixed


def _dump(contrast: Contrast) -> dict[str, Any]:
    document: dict[str, Any] = contrast.model_dump(mode="json", exclude_defaults=True)
    return document | {"margin": contrast.margin}


def _same(contrast: Contrast) -> str:
    """Key under which two contrasts are the same: everything but the wording of the question."""
    return json.dumps(contrast.model_dump(mode="json", exclude={"question"}), sort_keys=True)


def _freeze(experiment: Experiment, utc: str | None) -> dict[str, Any]:
    frozen = {
        "utc": utc,
        "alpha": experiment.alpha,
        "contrasts": [_dump(c) for c in experiment.contrasts],
    }
    return frozen | {"sha256": digest_of(frozen)}


def digest_of(frozen: Mapping[str, Any]) -> str:
    """Digest of frozen contrasts."""
    content = {k: frozen[k] for k in ("alpha", "contrasts")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def new_record(**facts: Any) -> dict[str, Any]:
    """Return a run.json with these facts of a run; the rest is null or empty."""
    unknown = dict.fromkeys(("deployment_id", "error", "started_utc", "ended_utc", "tool_version"))
    empty: dict[str, Any] = {name: {"client": {}, "server": {}} for name in ("facts", "counters")}
    empty |= {
        "commands": {"client": [], "server": []},
        "exit": {"client": None, "server": None},
        "warnings": [],
    }
    return (
        {"attempt": 1, "status": "ok", "log": {"status": None, "error": None}}
        | unknown
        | empty
        | facts
    )


def read_record(data: bytes) -> dict[str, Any]:
    """Read a run.json; ValueError if it is invalid."""
    record = orjson.loads(data)
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 (a damaged file, like one that is not JSON)
    return record


def packed_records(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the file `RECORDS` of an import."""
    return gzip.compress(orjson.dumps(list(records)), 6, mtime=0)


@lru_cache(maxsize=4)
def imported_records(data: bytes) -> dict[str, dict[str, Any]]:
    """Records of an import by run id; ValueError if they are not such a list, or unpack to more than is sensible."""
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(data, _MOST_RECORDS)
    if not unpacking.eof:
        raise ValueError("it is cut off, or unpacks to too much")
    records = {record["run_id"]: record for record in orjson.loads(text)}
    if wrong := [run_id for run_id in records if not _RUN_ID.fullmatch(run_id)]:
        raise ValueError(f"{wrong[0]!r} is no run")
    return records


def is_experiment(path: Location) -> bool:
    """Whether a folder or URL is that of one experiment."""
    with explained(path):
        return folder(path).exists("experiment.yaml")


def experiments(root: Location) -> list[str]:
    """Experiments under a data root: the path or URL of each.

    Examples
    --------
    >>> [path.rpartition("/")[2] for path in npl.experiments("data/recorded")][:2]
    ['after', 'before']
    """
    with explained(root):
        files = folder(root)
        names = files.names()
        return [f"{files.url}/{n}" for n in names if files.exists(f"{n}/experiment.yaml")]


def stores(path: Location | Iterable[Location] | Sequence[Store]) -> list[Store]:
    """The stores that a call names: one experiment, several, or all under a data root; StoreError if there is none."""
    if not isinstance(path, str | os.PathLike):
        chosen = [p if isinstance(p, Store) else Store.at(p) for p in path]
        if not chosen:
            raise StoreError("no experiment was given")
        return chosen
    inside = [] if is_experiment(path) else experiments(path)
    return [Store.at(p) for p in inside] or [Store.at(path)]
