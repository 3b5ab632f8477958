"""The layout of an experiment. Only this module builds these paths.

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

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import orjson
import yaml
from pydantic import BaseModel, TypeAdapter

from ..errors import StoreError, did_you_mean, visible
from ..experiment.deployment import Deployment
from ..experiment.model import Contrast, Experiment
from .files import (
    Location,
    appearing,
    explained,
    fcntl,
    is_there,
    names,
    own_path,
    plain_file,
    read_plain,
    sha256_of,
    tidy,
    write,
)

RECORD = "run.json"
"""The file that makes a run complete."""
IMPORT, RECORDS = "import-", "runs.json.gz"
"""How the name of a folder of imported logs begins, and its file with the records of all runs in
these logs."""
RECORD_SCHEMA = 2
"""Version of run.json."""
BLOCK_ROUNDS = 64
"""Rounds in a part of a table and in a file of digests."""
FREE = ("rounds", "contrasts", "title", "attempts", "seed", "budget", "factors")
"""Fields that may change after the first run, since they change no condition. (Contrasts are
frozen separately.)"""
REACH = frozenset(
    "address port user identity known_hosts ssh_config host_keys management".split()
)
"""Options of an inventory that may change too: how SSH reaches a host does not matter to what is
measured on it."""

_DECLARED = "experiment.yaml"
_DECLARED_DIGESTS = "experiment.sha256"
_RUN_ID = re.compile(r"[\w+=@,-][\w.+=@,-]{0,250}")
_MOST_RECORDS = 1 << 28
"""Unpacked bytes of the records of an import: some 200,000 runs."""
_MOST_LOG = 1 << 30
_DEPLOYMENTS = TypeAdapter(Deployment)
_DEPLOYMENT = re.compile(r"deployment-(\d+)\.json")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The declaration made before the data, and later additions."""

    experiment: Experiment
    """The experiment with the contrasts declared before the first run; only these get verdicts."""
    frozen_utc: str | None = None
    """Time of the first run; None before it."""
    digest: str | None = None
    """SHA-256 of the frozen contrasts; every run.json carries it."""
    added: tuple[Contrast, ...] = ()
    """Contrasts declared after the first run."""


class _Frozen(BaseModel):
    """The contrasts that the first run froze."""

    utc: str | None
    alpha: float
    contrasts: tuple[Contrast, ...]
    sha256: str


class _Plan(BaseModel):
    """What is read of plan.json."""

    trials: tuple[dict[str, Any], ...] = ()
    frozen: _Frozen | None = None


class RawFolder:
    """A folder of ``raw/``: that of a run, or of logs that were imported together.

    Anybody may have written it: only plain files are read, and only as its record describes them.
    `digests` are what the SHA-256 of its record may be; None if that is not known.
    """

    def __init__(self, path: Path, digests: set[str] | None = None) -> None:
        self.path, self.digests = path, digests
        self._checked: set[str] = set()

        self.name = path.name
        self.holds = RECORDS if self.name.startswith(IMPORT) else RECORD
        """The file with the records of its runs."""

    def _read(self, name: str) -> bytes:
        return read_plain(self.path.parent, f"{self.name}/{name}", _MOST_RECORDS)

    @cached_property
    def data(self) -> bytes:
        """Its run.json; FileNotFoundError, or ValueError for a link."""
        return self._read(RECORD)

    @cached_property
    def record(self) -> dict[str, Any]:
        """Its run.json as a document; ValueError if it is none."""
        record = orjson.loads(self.data)
        if not isinstance(record, dict):
            # a damaged file, like one that is not JSON
            raise ValueError("not a JSON object")  # noqa: TRY004
        return record

    @cached_property
    def records(self) -> Mapping[str, dict[str, Any]]:
        """Records of its runs by their ids; an import keeps those of all its runs in one file."""
        if self.holds == RECORD:
            return {self.name: self.record}
        if self.digests is not None:
            self.file(RECORDS, self.record)
        return imported_records(self._read(RECORDS))

    @property
    def change(self) -> str | None:
        """What is wrong with its record.

        It is not the one that was written when the folder appeared.
        """
        if self.digests is None or hashlib.sha256(self.data).hexdigest() in self.digests:
            return None
        return f"{RECORD} was changed after it was measured (its digest differs)"

    def file(self, name: str, record: Mapping[str, Any]) -> Path:
        """Return a file that is as a record describes it.

        ValueError if not, FileNotFoundError if there is none.
        """
        expected = record["files"][name]
        path = self.path / name
        if Path(name).name != name:
            raise ValueError(f"{name!r} is no file of this folder")
        if name not in self._checked:  # many runs share a log
            plain_file(self.path.parent, f"{self.name}/{name}", _MOST_LOG)
            if sha256_of(path) != expected:
                raise ValueError(
                    f"{name} was changed after it was measured (its digest differs)"
                )
            self._checked.add(name)
        return path


def block_of(run_id: str) -> str:
    """Return the block of rounds of a run's deployment, for example ``d01-r0001-0064``."""
    deployment, number = _place(run_id)
    start = max(0, number - 1) // BLOCK_ROUNDS * BLOCK_ROUNDS
    return f"d{deployment:02d}-r{start + 1:04d}-{start + BLOCK_ROUNDS:04d}"


def is_of_block(run_id: str, block: str) -> bool:
    """Return whether a run belongs to a block of rounds."""
    deployment, first, last = map(int, re.findall(r"\d+", block))
    own, number = _place(run_id)
    return own == deployment and first <= max(1, number) <= last


def _place(run_id: str) -> tuple[int, int]:
    """The deployment and the round of a run."""
    match = re.match(r"d(\d+)-r(\d+)(?:-|$)", run_id)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def trial_of(run_id: str) -> str:
    """Return the run id without the attempt: the trial's."""
    return re.sub(r"-a\d{1,6}$", "", run_id)


def is_leading(run_id: str) -> bool:
    """Return whether a run only led two rounds.

    It is kept in ``raw/``, and is no row of a table.
    """
    return re.search(r"-[0-9a-f]{8}-lead-a\d{1,6}$", run_id) is not None


class Store:
    """One experiment under a data root: the folder `experiment` in it; of a link, its target."""

    def __init__(self, root: Location, experiment: str) -> None:
        self.path = Path(root) / experiment
        """The folder of the experiment."""
        with explained(self.path):
            if self.path.is_symlink():
                experiment = Path(os.path.realpath(self.path)).name
        self.experiment = experiment
        self.url = str(self.path)
        self._locked = False
        self.frozen: dict[str, Any] | None = None
        """Entry of run records about the frozen contrasts; see `freeze`."""

    @classmethod
    def at(cls, path: Location) -> Store:
        """Return the store whose experiment folder is `path`.

        StoreError if there is no experiment.
        """
        place = Path(os.path.realpath(path))  # resolve raises for a link to itself
        if not is_experiment(place):
            inside, beside = (
                [Path(p).name for p in experiments(p)] for p in (place, place.parent)
            )
            hint = did_you_mean(place.name, beside).rstrip()
            if inside:
                hint = f"it holds the experiments {', '.join(inside)}"
            elif place.is_file():
                hint = "an experiment is a folder: unpack an archive with tar xf"
            elif place.is_dir():
                hint = "raw logs become one by npl import LOGS --into results/NAME"
            where = f"{str(path)[:300]}: no experiment here (no {_DECLARED})"
            raise StoreError(f"{where}; {hint}" if hint else where)
        return cls(place.parent, place.name)

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    @property
    def location(self) -> str:
        """Location of the data, valid in any process: an absolute path."""
        return str(self.path.resolve())

    def own(self, name: str) -> Path:
        """Return a path in the experiment's folder to write to; StoreError for a link."""
        return own_path(self.path, name)

    @property
    def hosts_dir(self) -> Path:
        """Folder for the state of the source of the hosts, which may contain keys."""
        folder = self.own("hosts")
        self.path.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        for inside in folder.rglob("*"):
            own_path(folder, str(inside.relative_to(folder)))
        return folder

    # -- what was declared and scheduled -----------------------------------------------------------

    def declare(self, experiment: Experiment) -> None:
        """Store the experiment as declared.

        StoreError if runs were measured under another declaration.

        Once runs exist, the contrasts are frozen: others are stored as added, with the time, and
        get no verdict.
        """
        plan = self.read_plan() or {}
        if not self.is_measured():
            self._write_declared(experiment)
            if "frozen" in plan:  # by a run that did not appear
                self._write_plan(_without(plan, "frozen"))
            self.frozen = None
            return
        before = self.declaration()
        if not self._continues(before.experiment, experiment):
            raise StoreError(
                f"{self.url}: runs were measured here under another declaration of "
                f"{experiment.name!r}; measure with --anew, which renames the earlier measurement, "
                "or give the changed experiment another name"
            )
        plan.setdefault("frozen", _freeze(before.experiment, before.frozen_utc))
        known = (*before.experiment.contrasts, *before.added)
        seen = set(map(_same, known))
        contrasts = (*known, *(c for c in experiment.contrasts if _same(c) not in seen))
        declared = experiment.model_copy(update={"contrasts": contrasts})
        if declared != before.experiment.model_copy(update={"contrasts": known}):
            self._write_declared(declared)
        self._write_plan(plan)

    def _write_declared(self, experiment: Experiment) -> None:
        document = experiment.model_dump(mode="json", exclude_unset=True)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        write(self.own(_DECLARED), text.encode())
        self._list_again()

    def _write_plan(self, plan: Mapping[str, Any]) -> None:
        self._write_json("plan.json", plan)
        self._list_again()

    def _list_again(self) -> None:
        """List what was declared and scheduled, if an earlier state of it is listed."""
        if is_there(self.path / "digests" / _DECLARED_DIGESTS):
            self._write_digests()

    def is_measured(self) -> bool:
        """Return whether there is a declaration, and a run."""
        return is_experiment(self.path) and bool(self.folders())

    def declared(self) -> Experiment:
        """Return the experiment as declared.

        Once there are runs, with the contrasts frozen by the first one.
        """
        return self.declaration().experiment

    def declaration(self) -> Declaration:
        """Return what was declared before the first run and what was added later."""
        with explained(self.path / _DECLARED):
            found = _without_controls(self._read_declared())
            written = Experiment.model_validate(found)
        document = self.read_plan() or {}
        if (frozen := _Plan.model_validate(document).frozen) is None:
            return Declaration(experiment=written)
        known = set(map(_same, frozen.contrasts))
        fixed = {"contrasts": frozen.contrasts, "alpha": frozen.alpha}
        return Declaration(
            experiment=written.model_copy(update=fixed),
            frozen_utc=frozen.utc,
            digest=_digest_of(document["frozen"]),
            added=tuple(c for c in written.contrasts if _same(c) not in known),
        )

    def _read_declared(self) -> Any:
        """Return the content of experiment.yaml.

        It was written without aliases: a few lines of them may unfold to gigabytes.
        """
        text = read_plain(self.path, _DECLARED)
        for event in yaml.parse(text, _LOADER):
            if isinstance(event, yaml.AliasEvent):
                how = "write what it stands for"
                mark = event.start_mark
                where = f"line {mark.line + 1 if mark else 1}: an alias of yaml"
                raise StoreError(f"{self.path / _DECLARED}: {where}; {how}")
        return yaml.load(text, _LOADER)  # noqa: S506

    def freeze(self, utc: str | None = None) -> dict[str, Any] | None:
        """Freeze the contrasts, unless an earlier run did; return the entry for every run.json."""
        if self.frozen is None and is_experiment(self.path):
            plan = self.read_plan()
            frozen = (plan or {}).get("frozen")
            if frozen is None:
                frozen = _freeze(
                    self.declared(), None if self.folders() else utc or _now()
                )
                if plan is not None:
                    self._write_plan(plan | {"frozen": frozen})
            self.frozen = {key: frozen[key] for key in ("utc", "sha256")}
        return self.frozen

    def set_aside_unless_open(self, experiment: Experiment) -> Path | None:
        """Make room for measuring `experiment` again.

        Return the new location of the previous measurement.

        An incomplete measurement of the same declaration stays in place: then, as if nothing was
        measured, None.
        """
        if not self.is_measured():
            return None
        trials = (self.read_plan() or {}).get("trials", ())
        measured = {trial_of(run_id) for run_id in self.run_ids()}
        declared = self.declared()
        same = (
            self._continues(declared, experiment) and declared.rounds == experiment.rounds
        )
        if same and len(measured) < len(trials):
            return None
        aside = self.path.with_name(
            f"{self.experiment}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
        )
        with self.lock():
            self.path.rename(aside)
            self.frozen = None
        return aside

    def _continues(self, declared: Experiment, changed: Experiment) -> bool:
        """Whether runs of the changed experiment belong to those that exist."""
        measured = any(record.get("started_utc") for _, record in self.runs())
        return _fixed(declared, measured) == _fixed(changed, measured)

    def last_set_aside(self) -> str | None:
        """Return the path of the last measurement of this name that was set aside.

        None if there is none.
        """
        aside = re.compile(re.escape(self.experiment) + r"-\d{8}T\d{6}(-\d+)?")
        beside = experiments(self.path.parent)
        return max(
            (one for one in beside if aside.fullmatch(Path(one).name)), default=None
        )

    def write_plan(self, plan: Mapping[str, Any]) -> None:
        """Store the schedule (a JSON document); the frozen contrasts stay."""
        before = self.read_plan() or {}
        kept = {"frozen": before["frozen"]} if "frozen" in before else {}
        self._write_plan({**plan, **kept})

    def read_plan(self) -> dict[str, Any] | None:
        """Return the schedule, or None if there is none."""
        plan = self._read_json("plan.json")
        with explained(self.path / "plan.json"):
            _Plan.model_validate(plan or {})
        return plan

    def write_deployment(self, number: int, deployment: Deployment) -> None:
        """Store where the hosts of deployment `number` were placed, and the proofs."""
        self._write_json(f"hosts/deployment-{number:02d}.json", asdict(deployment))

    def deployments(self) -> dict[int, Deployment]:
        """Return every stored deployment by its number, in order."""
        deployments = {}
        for name in names(self.path / "hosts"):
            if match := _DEPLOYMENT.fullmatch(name):
                with explained(self.path / "hosts" / name):
                    document = self._read_json(f"hosts/{name}")
                    deployments[int(match[1])] = _DEPLOYMENTS.validate_python(document)
        return deployments

    def claims(self) -> list[dict[str, Any]]:
        """Return the claims about the hosts.

        Each a `Proof` with ``deployment`` and ``host`` (empty: of all).
        """
        return [
            asdict(proof) | {"host": host, "deployment": deployment.deployment_id}
            for deployment in self.deployments().values()
            for host, proof in sorted(
                deployment.claims(), key=lambda claim: claim[0] != ""
            )
        ]

    def _read_json(self, name: str) -> dict[str, Any] | None:
        """Return a document, or None if there is none; StoreError if it is damaged."""
        file = self.path / name
        with explained(file):
            try:
                document = _without_controls(orjson.loads(read_plain(self.path, name)))
            except FileNotFoundError:
                return None
        if not isinstance(document, dict):
            raise StoreError(f"{file}: not a JSON object; restore it from a copy")
        return document

    def _write_json(self, name: str, value: Any) -> None:
        write(self.own(name), orjson.dumps(value, option=orjson.OPT_INDENT_2))

    def digest(self) -> str:
        """Return the SHA-256 of the files in ``digests``, one after another.

        It identifies all that was declared, scheduled and measured: ``cat digests/*.sha256 |
        sha256sum`` prints it.
        """
        whole = hashlib.sha256()
        for name in names(self.path / "digests"):
            if name.endswith(".sha256"):
                whole.update(read_plain(self.path, f"digests/{name}"))
        return whole.hexdigest()

    def _write_digests(self) -> None:
        """List what was declared and scheduled."""
        files = [name for name in (_DECLARED, "plan.json") if is_there(self.path / name)]
        lines = [f"{sha256_of(self.path / name)}  {name}\n" for name in files]
        write(self.own(f"digests/{_DECLARED_DIGESTS}"), "".join(lines).encode())

    # -- the collector's claim ---------------------------------------------------------------------

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other collectors out for the duration of the block; StoreError if one is active.

        The lock is reentrant, and ends with the process that holds it.
        """
        if self._locked:
            yield
            return
        path = self.own("collector.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                who = f"another collector is at work here ({visible(file.read(200))})"
                raise StoreError(f"{self.url}: {who}; wait for it or stop it") from None
            file.truncate(0)
            file.write(f"process {os.getpid()}, since {_now()}")
            file.flush()
            self._locked = True
            try:
                tidy(self.own("raw"), older_s=0)  # only who holds the lock writes there
                tidy(self.path)
                yield
            finally:
                self._locked = False
                file.truncate(0)

    # -- raw runs ----------------------------------------------------------------------------------

    @contextmanager
    def new_run(self, run_id: str, *, durable: bool = True) -> Iterator[Path]:
        """Yield a folder to write a run into.

        It becomes ``raw/<run_id>`` in one step when the block succeeds.

        `durable` waits until the data are on disk; reproducible data need not. StoreError if there
        is something already, or the block wrote no run.json.
        """
        path = self.own(f"raw/{run_id}")
        if is_there(path):
            raise StoreError(f"{path}: is there already; raw runs are never overwritten")
        self.freeze()
        with appearing(path, durable=durable) as staged:
            staged.mkdir()
            yield staged
            if not (staged / RECORD).is_file():
                raise StoreError(f"run {run_id}: no {RECORD} was written")
            digests = self.own(f"digests/{block_of(run_id)}.sha256")
            before = digests.read_text() if is_there(digests) else ""
            # of a collector that was killed at this point
            mine = f"  raw/{run_id}/"
            lines = [line for line in before.splitlines(True) if mine not in line]
            files = [file for file in sorted(staged.iterdir()) if file.is_file()]
            lines += [f"{sha256_of(file)}{mine}{file.name}\n" for file in files]
            if not is_there(self.path / "digests" / _DECLARED_DIGESTS):
                self._write_digests()
            write(digests, "".join(lines).encode(), durable=durable)

    def write_record(self, folder: Path, record: Mapping[str, Any]) -> None:
        """Write the record of a run into its folder, with the hash of every file in it."""
        files = {f.name: sha256_of(f) for f in sorted(folder.iterdir()) if f.is_file()}
        added = {"schema": RECORD_SCHEMA, "declaration": self.freeze(), "files": files}
        (folder / RECORD).write_bytes(orjson.dumps({**record, **added}))

    def digests(self, *blocks: str) -> dict[str, set[str]]:
        """Return the digests of the record in each folder of ``raw/``, as stored when it appeared.

        All, or those of some blocks and of imports, which may have runs in any.
        A collector that was killed at that moment leaves a digest that belongs to no folder.
        """
        digests: dict[str, set[str]] = {}
        stored = names(self.path / "digests")
        wanted = {f"{block}.sha256" for block in (*blocks, block_of(IMPORT))}
        for file in wanted.intersection(stored) if blocks else stored:
            text = read_plain(self.path, f"digests/{file}").decode("utf-8", "replace")
            for line in text.splitlines():
                digest, _, name = line.partition("  raw/")
                folder, _, document = name.partition("/")
                if document == RECORD:
                    digests.setdefault(folder, set()).add(digest)
        return digests

    def raw(self, name: str, digests: set[str] | None = None) -> RawFolder:
        """Return a folder of ``raw/`` for reading."""
        return RawFolder(self.path / "raw" / name, digests)

    def raw_folders(
        self, folders: Mapping[str, str]
    ) -> Iterator[tuple[RawFolder, list[str]]]:
        """Open one after another the folders of these runs, given as `run_folders` returns them.

        Each with its runs.
        """
        digests = self.digests(*{block_of(run_id) for run_id in folders})
        inside: dict[str, list[str]] = {}
        for run_id in sorted(folders):
            inside.setdefault(folders[run_id], []).append(run_id)
        for name in sorted(inside):
            yield self.raw(name, digests.get(name)), inside[name]

    def folders(self, block: str | None = None) -> list[str]:
        """Return the names of the complete folders in ``raw/``, one for a run or an import.

        With a block, only those that may have runs in it.
        """
        raw = self.path / "raw"
        found = names(raw)
        if block is not None:
            found = [n for n in found if is_of_block(n, block) or n.startswith(IMPORT)]
        return [name for name in found if is_there(f"{raw}/{name}/{RECORD}")]

    def run_folders(self, block: str | None = None) -> dict[str, str]:
        """Return the ids of the complete runs, sorted, each with its folder in ``raw/``.

        All, or those of one block of rounds.
        """
        folders: dict[str, str] = {}
        for name in self.folders(block):
            ids = self.records(name) if name.startswith(IMPORT) else [name]
            folders |= dict.fromkeys(ids, name)
        wanted = [i for i in sorted(folders) if block is None or is_of_block(i, block)]
        return {run_id: folders[run_id] for run_id in wanted}

    def run_ids(self) -> list[str]:
        """Return the ids of the complete runs, sorted."""
        return list(self.run_folders())

    def records(self, name: str) -> Mapping[str, dict[str, Any]]:
        """Return the records of the runs in a folder of ``raw/``, by their ids.

        StoreError if they are damaged.
        """
        raw = self.raw(name)
        with explained(raw.path):
            try:
                for record in raw.records.values():
                    _ = int(record["attempt"]), record["status"]
            except (ValueError, LookupError, TypeError, zlib.error) as error:
                how = f"cannot be read ({error}); restore the folder from a copy"
                raise StoreError(f"{raw.path / raw.holds}: {how}") from None
        return raw.records

    def runs(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Return every complete run with its record, without reading its logs."""
        for records in map(self.records, self.folders()):
            yield from records.items()

    def exclude(self, run_id: str, cause: str) -> None:
        """Leave a run out of every comparison, for a reason that reports will print."""
        if run_id not in self.run_folders():
            raise StoreError(f"{self.url}: no run {run_id!r} to exclude")
        self._write_json(f"excluded/{run_id}.json", {"cause": cause, "utc": _now()})

    def exclusions(self) -> dict[str, str]:
        """Return the runs left out: id to reason."""
        causes = {}
        for name in names(self.path / "excluded"):
            excluded = self._read_json(f"excluded/{name}") or {}
            causes[name.removesuffix(".json")] = str(excluded.get("cause"))
        return causes


def _without_controls(document: Any) -> Any:
    """A document without control characters.

    It may come from anybody, and what it says is shown.
    """
    if isinstance(document, dict):
        return {
            _without_controls(key): _without_controls(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [_without_controls(value) for value in document]
    return visible(document) if isinstance(document, str) else document


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _without(document: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {k: v for k, v in document.items() if k not in keys}


def _fixed(experiment: Experiment, measured: bool) -> dict[str, Any]:
    """What may not change any more.

    While nothing was measured, all that is said of the hosts of an inventory may.
    """
    fixed = _without(experiment.model_dump(mode="json"), *FREE)
    if experiment.hosts.source == "inventory":
        options = fixed["hosts"]["options"] if measured else {}
        hosts = {
            name: {"data_address": (machine or {}).get("address", name)}
            | _without(machine or {}, *REACH)
            for name, machine in (options.get("hosts") or {}).items()
        }
        fixed["hosts"] = _without(options, *REACH) | {"hosts": hosts}
    return fixed


def _dump(contrast: Contrast) -> dict[str, Any]:
    document: dict[str, Any] = contrast.model_dump(mode="json", exclude_defaults=True)
    return document | {"margin": contrast.margin}


def _same(contrast: Contrast) -> str:
    """Key under which two contrasts are the same: everything but the wording of the question."""
    return json.dumps(
        contrast.model_dump(mode="json", exclude={"question"}), sort_keys=True
    )


def _freeze(experiment: Experiment, utc: str | None) -> dict[str, Any]:
    contrasts = [_dump(c) for c in experiment.contrasts]
    frozen = {"utc": utc, "alpha": experiment.alpha, "contrasts": contrasts}
    return frozen | {"sha256": _digest_of(frozen)}


def _digest_of(frozen: Mapping[str, Any]) -> str:
    """Digest of frozen contrasts."""
    content = {k: frozen[k] for k in ("alpha", "contrasts")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


_EMPTY = b"""{
    "attempt": 1, "status": "ok", "log": {"status": null, "error": null}, "warnings": [],
    "deployment_id": null, "error": null, "started_utc": null, "ended_utc": null,
    "tool_version": null, "facts": {"client": {}, "server": {}},
    "counters": {"client": {}, "server": {}}, "commands": {"client": [], "server": []},
    "exit": {"client": null, "server": null}
}"""


def new_record(**facts: Any) -> dict[str, Any]:
    """Return a run.json with these facts of a run; the rest is null or empty."""
    return {**orjson.loads(_EMPTY), **facts}


def packed_records(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the file `RECORDS` of an import."""
    return gzip.compress(orjson.dumps(list(records)), 6, mtime=0)


@lru_cache(maxsize=4)
def imported_records(data: bytes) -> dict[str, dict[str, Any]]:
    """Return the records of an import by run id.

    ValueError if they are not such a list, or unpack to more than is sensible.
    """
    unpacking = zlib.decompressobj(wbits=31)
    text = unpacking.decompress(data, _MOST_RECORDS)
    if not unpacking.eof:
        raise ValueError("it is cut off, or unpacks to too much")
    records = {record["run_id"]: record for record in orjson.loads(text)}
    if wrong := [run_id for run_id in records if not _RUN_ID.fullmatch(run_id)]:
        raise ValueError(f"{wrong[0]!r} is no run")
    return records


def is_experiment(path: Location) -> bool:
    """Return whether a folder is that of one experiment."""
    with explained(path):
        return is_there(Path(path) / _DECLARED)


def experiments(root: Location) -> list[str]:
    """Return the experiments under a data root: the path of each.

    Examples
    --------
    >>> [path.rpartition("/")[2] for path in npl.experiments("data/recorded")][:2]
    ['after', 'before']
    """
    with explained(root):
        folder = Path(root)
        return [
            str(folder / n) for n in names(folder) if is_there(folder / n / _DECLARED)
        ]


def stores(path: Location | Iterable[Location]) -> list[Store]:
    """Return the stores that a call names: one experiment, several, or all under a data root.

    StoreError if there is none.
    """
    if not isinstance(path, str | os.PathLike):
        chosen = [Store.at(p) for p in path]
        if not chosen:
            raise StoreError("no experiment was given")
        return chosen
    inside = [] if is_experiment(path) else experiments(path)
    return [Store.at(p) for p in inside] or [Store.at(path)]
