"""Check that raw runs are unchanged since they were measured, and that the tables agree with the logs."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import NetperfError, StoreError, UsageError
from ..experiment.model import Experiment
from .bundle import ROOT
from .files import Location, explained, sha256_of
from .ingest import DETAIL, OnProgress, Part, Tables, make_part
from .layout import RECORD, Declaration, Store, read_record, stores, trial_of
from .tables import SCHEMAS
from .workers import Workers, run_all

_REQUIRED = (
    "schema run_id attempt experiment deployment round order status "
    "trial hosts commands exit started_utc ended_utc files"
).split()
_PLACED = ("region", "zone", "zone_physical", "ppg", "vm_size", "accelerated")
"""Fields in which a record and the file of its deployment must agree."""


def verify(
    path: Location | Iterable[Location],
    progress: OnProgress | None = None,
    *,
    root: str | None = None,
    workers: Workers = 1,
) -> list[str]:
    """Check that raw runs are unchanged and that the tables equal a fresh ingest; changes nothing.

    The name of the folder is not a measured value: a renamed or copied experiment passes. What was changed everywhere
    at once (a log, its record and its digest) or is fixed nowhere else (the title) is found by comparison with a `root`
    that was noted before; every report prints it.

    Parameters
    ----------
    path : path, URL or several
        An experiment, several, or a data root.
    progress : callable, optional
        Called with (runs checked, runs to check).
    root : str, optional
        The root digest that the experiment must have, or its first 8 or more digits; see `Store.root_digest`.
    workers
        As in `netperf_lib.ingest`.

    Returns
    -------
    list of str
        The problems, one sentence each: a record, log, plan or deployment that was changed, removed or added; a table
        that differs from the logs.

    Raises
    ------
    UsageError
        `root` is shorter than 8 digits.
    """
    if root is not None and not re.fullmatch("[0-9a-f]{8,64}", root):
        raise UsageError(f"root {root!r}: write the 64 digits that a report prints, or at least the first 8")
    return [wrong for store in stores(path) for wrong in (*_root(store, root), *_verify(store, progress, workers))]


def _root(store: Store, root: str | None) -> Iterator[str]:
    actual = store.root_digest()
    if store.files.exists(ROOT) and (inside := store.files.read(ROOT).decode("ascii", "replace").strip()) != actual:
        yield f"{store.url}: the root digest is {actual}, but the archive was made with {inside[:64]}"
    if root is not None and not actual.startswith(root):
        yield (
            f"{store.url}: the root digest is {actual}, not {root}: the declaration, plan, deployments, exclusions or "
            "runs are not those of that report"
        )


def _verify(store: Store, progress: OnProgress | None, workers: Workers) -> list[str]:
    """Problems of an experiment."""
    found = _documents(store)
    ids = store.run_ids()
    digests: dict[str, set[str]] = {}
    with _collecting(found), explained(f"{store.url}/digests"):
        digests = store.digests()
    there = set(store.files.names("raw"))
    for run_id in digests:
        if run_id not in ids:
            what = f"has no {RECORD}" if run_id in there else "is missing"
            found.append(
                f"{store.url}/raw/{run_id}: {what}, but its digest exists: it was removed, or the collector was "
                "killed while writing the run (then collect again)"
            )
    found += [
        f"{store.url}/raw/{n}: neither a run nor part of one (it has no {RECORD})"
        for n in sorted(there - set(ids) - set(digests))
    ]
    with _collecting(found), explained(f"{store.url}/exclusions.json"):
        gone = sorted(set(store.exclusions()) - set(ids))
        found += [f"{store.url}: the exclusion of {i} names a run that does not exist" for i in gone]
    tables = Tables(store)
    with _collecting(found), explained(f"{store.url}/tables"):
        tables.look(DETAIL)
    plan: dict[str, Any] = {}
    with _collecting([]):  # its problems were reported above
        plan = store.read_plan() or {}
    trials = {t["run_id"]: t for t in plan.get("trials", ()) if isinstance(t, dict) and "run_id" in t}
    seed = plan.get("seed")
    blocks = {block: {trial_of(i) for i in some} for block, some in tables.blocks.items()}
    tasks = [
        (store, block, some, block not in tables.behind, {i: trials[i] for i in blocks[block] if i in trials}, seed)
        for block, some in tables.blocks.items()
    ]
    found += _foreign(tables, digests)
    done = 0
    for (_, _, some, *_), wrong in run_all(_verify_block, tasks, workers):
        found += wrong
        done += len(some)
        if progress:
            progress(done, len(ids))
    return found


@contextmanager
def _collecting(found: list[str]) -> Iterator[None]:
    """Add the text of an error to the findings and continue."""
    try:
        yield
    except NetperfError as error:
        found.append(str(error))


def _documents(store: Store) -> list[str]:
    """Problems of the declaration, the plan and the deployments."""
    found: list[str] = []
    with _collecting(found), explained(store.url):
        declared = store.declaration()
        plan = store.read_plan()
        if plan is None:
            if store.digests():
                found.append(f"{store.url}/plan.json is missing")
        else:
            found += [*_plan(store, plan, declared.digest), *_declared(store, plan, declared)]
        for utc, contrast in declared.added:
            if utc is None and declared.digest is not None:
                found.append(
                    f"{store.url}/experiment.yaml: a contrast ({contrast.question or contrast.metric}) was written "
                    "into it after the first run"
                )
    with _collecting(found), explained(f"{store.url}/hosts"):
        store.deployments()
    return found


def _declared(store: Store, plan: Mapping[str, Any], declared: Declaration) -> Iterator[str]:
    """What experiment.yaml says differently from what was frozen and planned."""
    lost = [c for c in declared.experiment.contrasts if c not in declared.written.contrasts]
    if declared.digest is not None and lost:
        yield f"{store.url}/experiment.yaml: {len(lost)} of the frozen contrasts are not in it"
    try:
        planned = Experiment.model_validate(plan["experiment"])
    except (KeyError, ValueError):  # logs that were imported; the plan of an older version
        return
    fields = set(Experiment.model_fields) - {"contrasts"}
    if differ := sorted(name for name in fields if getattr(planned, name) != getattr(declared.written, name)):
        yield f"{store.url}: experiment.yaml and plan.json differ in {', '.join(differ)}"


def _plan(store: Store, plan: Mapping[str, Any], digest: str | None) -> Iterator[str]:
    where = f"{store.url}/plan.json"
    if (plan.get("frozen") or {}).get("sha256") != digest:
        yield f"{where}: the frozen contrasts were changed (their digest differs)"
    trials = {str(t.get("run_id")): t for t in plan.get("trials", ()) if isinstance(t, dict)}
    if "trials" in plan and trials:
        measured = {trial_of(i) for i in store.run_ids()}
        last = max((t.get("round", 0) for i, t in trials.items() if i in measured), default=0)
        open_rounds = plan.get("looked")  # the data decided when to stop
        missing = [i for i, t in trials.items() if i not in measured and not (open_rounds and t.get("round", 0) > last)]
        if measured and missing:
            yield (
                f"{where}: {len(missing)} of {len(trials)} planned trials have no run ({', '.join(missing[:3])}); "
                "they were not measured yet (then collect again), or removed"
            )
        strangers = sorted(measured - set(trials))
        if strangers:
            yield f"{where}: {len(strangers)} measured trials are not in the plan ({', '.join(strangers[:3])})"


def _verify_block(
    store: Store, block: str, run_ids: list[str], ingested: bool, trials: Mapping[str, Mapping[str, Any]], seed: Any
) -> list[str]:
    """Problems of these runs and, if they are in the tables, of the block's parts."""
    found: list[str] = []
    digests = store.digests(block)
    frozen: str | None = None
    placed: Mapping[int, Mapping[str, Any]] = {}
    with _collecting([]):
        frozen = store.declaration().digest
    with _collecting([]):
        placed = store.deployments()
    for run_id in run_ids:
        with store.raw(run_id) as place:
            try:
                record = read_record((place / RECORD).read_bytes())
            except (OSError, ValueError) as error:
                found.append(f"{store.url}/raw/{run_id}/{RECORD}: cannot be read ({error})")
                continue
            wrong = [
                *_digest(place, record, digests.get(run_id)),
                *_record(run_id, record, frozen, trials.get(trial_of(run_id)), placed, seed),
                *_files(place, record.get("files")),
            ]
            found += [f"{store.url}/raw/{run_id}: {w}" for w in wrong]
    return found + ([] if found or not ingested else _tables(store, block, run_ids))


def _digest(place: Path, record: Mapping[str, Any], digests: set[str] | None) -> Iterator[str]:
    if digests is None:
        if record.get("schema") != 1:  # version 0.1 kept no digests
            yield f"{RECORD} has no digest: the run was added, or its digest removed"
    elif hashlib.sha256((place / RECORD).read_bytes()).hexdigest() not in digests:
        yield f"{RECORD} was changed after it was measured (its digest differs)"


def _record(
    run_id: str,
    record: Mapping[str, Any],
    frozen: str | None,
    trial: Mapping[str, Any] | None,
    placed: Mapping[int, Mapping[str, Any]],
    seed: Any,
) -> Iterator[str]:
    """Problems of a record, compared with the plan and the deployment."""
    if missing := [key for key in _REQUIRED if key not in record]:
        yield f"{RECORD} lacks {', '.join(missing)}"
        return
    if record["run_id"] != run_id:
        yield f"{RECORD} belongs to run {record['run_id']}"
    declared = record.get("declaration")
    if isinstance(declared, Mapping) and declared.get("sha256") != frozen:
        yield "it was measured under other contrasts than those in plan.json"
    if not isinstance(record["trial"], Mapping) or not isinstance(record["hosts"], Mapping):
        yield f"{RECORD}: trial or hosts are damaged"
        return
    said = {**record["trial"], **{k: record[k] for k in ("deployment", "round", "order")}}
    if differ := sorted(k for k in said.keys() & (trial or {}).keys() if said[k] != (trial or {})[k]):
        yield f"{RECORD} and plan.json differ in {', '.join(differ)}"
    if None not in (seed, record.get("seed")) and record["seed"] != seed:
        yield f"{RECORD} and plan.json differ in the seed"
    deployment = placed.get(record["deployment"])
    if deployment is None and record.get("deployment_id") is not None:
        yield f"the file of its deployment (hosts/deployment-{record['deployment']:02d}.json) is missing"
    if deployment is not None and record.get("notice") and not deployment.get("notice"):
        yield f"{RECORD} carries a notice, but the deployment's file does not"
    hosts = {h["name"]: h for h in (deployment or {}).get("hosts", ())}
    for side, host in record["hosts"].items():
        known = hosts.get(host.get("name")) if isinstance(host, Mapping) else None
        if known and (differ := [k for k in _PLACED if host.get(k) != known.get(k)]):
            yield f"{RECORD} and the deployment's file differ in {', '.join(differ)} of the {side}"


def _files(place: Path, files: Any) -> Iterator[str]:
    """Problems of the files of a raw run."""
    if not isinstance(files, Mapping):
        yield f"{RECORD}: files are damaged"
        return
    for name, digest in files.items():
        if place.is_symlink() or (place / name).is_symlink():
            yield f"{name} is a link to elsewhere"
        try:
            actual = sha256_of(place / name)
        except OSError:
            yield f"{name} is missing"
            continue
        if actual != digest:
            yield f"{name} was changed after it was measured (SHA-256 {actual[:12]}…, was {str(digest)[:12]}…)"
    for file in sorted(place.iterdir()):
        if file.name != RECORD and file.name not in files:
            yield f"{file.name} was added after it was measured; it is not read"


def _foreign(tables: Tables, digests: Mapping[str, set[str]]) -> Iterator[str]:
    """Parts out of date that no ingest of these runs leaves: they hold other runs, or lack the table of runs."""
    runs = tables.parts("runs")
    details = {block for table in DETAIL for block in tables.parts(table)}
    for block in tables.behind:
        known = _runs_of(runs[block]) if block in runs else {}
        other = [
            i
            for i, d in known.items()
            if not d.startswith("!") and not any(x.startswith(d) for x in digests.get(i, ()))
        ]
        wrong = f"has {len(other)} runs that are not in raw" if other else "is missing"
        if other or (block not in runs and block in details):
            yield f"{tables.store.url}: table runs, {block}: {wrong}; remove the tables; they are rebuilt"


def _runs_of(part: Part) -> dict[str, str]:
    """Ids of the runs in a part of the table of runs, with the beginning of their digests as far as it has them."""
    known: dict[str, str] = part.footer().get("runs", {})
    try:
        return known or dict.fromkeys(part.read(["run_id"])["run_id"].to_pylist(), "")
    except StoreError:
        return {}


def _tables(store: Store, block: str, run_ids: list[str]) -> list[str]:
    """How the parts of a block differ from freshly built ones."""
    found = []
    with tempfile.TemporaryDirectory(prefix="netperf-") as scratch:
        again = Store(scratch, store.experiment)
        make_part(store, again, block, run_ids)
        here, fresh = Tables(store), Tables(again)
        found += [
            f"{store.url}: table {table}, {block}: {wrong}; remove the tables; they are rebuilt"
            for table in SCHEMAS
            if (wrong := _unequal(here.parts(table).get(block), fresh.parts(table).get(block)))
        ]
    return found


def _unequal(here: Part | None, fresh: Part | None) -> str | None:
    """How a part differs from a freshly built one; compared column by column to save memory."""
    if here is None or fresh is None:
        return "rows are missing" if fresh is not None else "has rows that are in no log" if here is not None else None
    if here.schema.names != fresh.schema.names:
        return f"the columns {', '.join(sorted(set(here.schema.names) ^ set(fresh.schema.names)))} differ"
    for name in fresh.schema.names:
        try:
            one, other = (part.read([name])[name] for part in (here, fresh))
        except StoreError:
            return "it is damaged"
        if len(one) != len(other):
            return f"{len(one)} rows, but {len(other)} in the logs"
        if not one.equals(other):
            return f"column {name} differs from the logs"
    return None
