"""Do the raw runs stand as they were measured, and do the tables say what the logs say?"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

import pyarrow as pa

from .files import Location
from .store import BATCH_RUNS, RECORD, Part, Progress, Store, read_record, stores
from .tables import SCHEMAS
from .workers import Engine

__all__ = ["verify"]


def verify(
    path: Location | Iterable[Location],
    progress: Progress | None = None,
    *,
    workers: int = 1,
    scheduler: str | None = None,
    executor: Executor | None = None,
) -> list[str]:
    """Check that raw runs are as they were measured and that the tables equal a fresh ingest; change nothing.

    Returns
    -------
    list of str
        What is wrong, a sentence each: a hash or record that does not hold, a run that is in no table or in two, a
        table that says other than the logs.
    """
    with Engine(workers=workers, scheduler=scheduler, executor=executor) as engine:
        return [wrong for store in stores(path) for wrong in _verify(store, progress, engine)]


def _verify(store: Store, progress: Progress | None, engine: Engine) -> list[str]:
    run_ids = store.run_ids()
    found: list[str] = []
    seen: dict[str, str] = {}
    tasks: list[tuple[Store, str, list[str]]] = []
    for batch, part in store._parts("runs").items() if store._batches() else ():
        ids = part.read(["run_id"])["run_id"].to_pylist()
        found += [f"{store.url}: run {i} is in the tables twice ({seen[i]}, {batch})" for i in ids if i in seen]
        seen.update(dict.fromkeys(ids, batch))
        tasks.append((store, batch, ids))
    raw = set(run_ids)
    found += [f"{store.url}: run {i} is in the tables but not in raw" for i in seen if i not in raw]
    tasks = [(s, b, ids) for s, b, ids in tasks if raw.issuperset(ids)]
    waiting = [i for i in run_ids if i not in seen]
    tasks += [(store, "", waiting[s : s + BATCH_RUNS]) for s in range(0, len(waiting), BATCH_RUNS)]
    found += [f"{store.url}: exclusions.json names a run that is not there: {i}" for i in set(store.exclusions()) - raw]
    done = 0
    for (_, _, ids), wrong in engine.each(_verify_batch, tasks):
        found += wrong
        done += len(ids)
        if progress:
            progress(done, len(run_ids))
    return found


def _verify_batch(store: Store, batch: str, run_ids: Sequence[str]) -> list[str]:
    """What is wrong with these runs and, where they are a batch of the tables, with its parts."""
    found = []
    for run_id in run_ids:
        with store.raw(run_id) as place:
            found += [f"{store.url}/raw/{run_id}: {wrong}" for wrong in _verify_run(run_id, place)]
    if not batch or found:
        return found
    with tempfile.TemporaryDirectory(prefix="netperf-") as scratch:
        again = Store(scratch, store.experiment)
        again._commit(batch, store._read_batch(batch, run_ids, again))
        for table in SCHEMAS:
            wrong = _unequal(store._parts(table).get(batch), again._parts(table).get(batch), SCHEMAS[table])
            if wrong:
                found.append(f"{store.url}: table {table}, {batch}: {wrong}; remove the tables, they are made anew")
    return found


_REQUIRED = (
    "schema run_id attempt experiment deployment round order status "
    "trial hosts commands exit started_utc ended_utc files"
).split()


def _verify_run(run_id: str, place: Path) -> Iterator[str]:
    """What is wrong with a raw run: its record, its files, their hashes."""
    try:
        record = read_record((place / RECORD).read_bytes())
    except (OSError, ValueError) as error:
        yield f"run.json cannot be read ({error})"
        return
    if missing := [key for key in _REQUIRED if key not in record]:
        yield f"run.json lacks {', '.join(missing)}"
    if record.get("run_id") != run_id:
        yield f"run.json is that of run {record.get('run_id')}"
    for name, digest in record.get("files", {}).items():
        try:
            with (place / name).open("rb") as file:
                actual = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            yield f"{name} is missing"
            continue
        if actual != digest:
            yield f"{name} was changed after it was measured (SHA-256 {actual[:12]}…, was {digest[:12]}…)"


def _unequal(here: Part | None, fresh: Part | None, schema: pa.Schema) -> str | None:
    """How a part differs from the same made anew; a column at a time, so that one fits in memory."""
    if here is None or fresh is None:
        return "rows are missing" if fresh is not None else "rows that no log holds" if here is not None else None
    with here.open() as a, fresh.open() as b:
        if a.metadata.num_rows != b.metadata.num_rows:
            return f"{a.metadata.num_rows} rows, {b.metadata.num_rows} in the logs"
        for field_ in schema:
            if field_.name not in a.schema_arrow.names:
                return f"column {field_.name} is missing: an older version wrote this table"
            if a.schema_arrow.field(field_.name).type != field_.type:
                return f"column {field_.name} is {a.schema_arrow.field(field_.name).type}, not {field_.type}"
            one, other = (f.read(columns=[field_.name])[field_.name] for f in (a, b))
            if not one.equals(other):
                return f"column {field_.name} differs from what the logs say"
    return None
