"""Check that raw runs are unchanged since they were measured, and that the tables agree with the logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import Any

from ..errors import NetperfError, StoreError, UsageError
from ..experiment.model import Experiment
from ..experiment.schedule import RULE, schedule
from .files import Location, explained, scratch
from .ingest import DETAIL, OnProgress, Part, Tables, make_part
from .layout import IMPORT, RECORD, Declaration, RawFolder, Store, stores, trial_of
from .tables import SCHEMAS
from .workers import run_all

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
    executor: Executor | None = None,
) -> list[str]:
    """Check that raw runs are unchanged and that the tables equal a fresh ingest; changes nothing.

    The name of the folder does not matter: a renamed or copied experiment passes. Give the `root` digest of a report to
    also find what was changed everywhere at once (a log, its record and its digest) or is stored only once (the title).

    Parameters
    ----------
    path : path, URL or several
        An experiment, several, or a data root.
    progress : callable, optional
        Called with (runs checked, runs to check).
    root : str, optional
        The root digest that the experiment must have, or its first 8 or more digits; see `Store.root_digest`.
    executor
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

    Examples
    --------
    >>> npl.verify("data/recorded/lab-full")
    []
    """
    if root is not None and not re.fullmatch("[0-9a-f]{8,64}", root):
        raise UsageError(
            f"root {root!r}: write the 64 digits that a report prints, or at least the first 8"
        )
    return [
        wrong
        for store in stores(path)
        for wrong in (*_root(store, root), *_verify(store, progress, executor))
    ]


def _root(store: Store, root: str | None) -> Iterator[str]:
    chain = store.chain()
    names, actual = list(chain), list(chain.values())[-1]
    if root is None or actual.startswith(root):
        return
    earlier = [name for name, link in chain.items() if link.startswith(root)]
    since = names[names.index(earlier[0]) + 1 :] if earlier else []
    yield f"{store.url}: the root digest is {actual}, not {root}: " + (
        f"that report was made when {earlier[0]} was the last block; since then {', '.join(since[:3])} was added"
        if earlier
        else "the declaration, plan, deployments, exclusions or runs are not those of that report"
    )


def _verify(store: Store, progress: OnProgress | None, executor: Executor | None) -> list[str]:
    """Problems of an experiment."""
    problems: list[str] = []
    content: dict[str, Any] = {}
    parts: dict[str, Callable[[], Any]] = {"hosts": store.deployments, "raw": store.run_folders}
    for part, read in {
        **parts,
        "digests": store.digests,
        "exclusions.json": store.exclusions,
    }.items():
        with _collecting(problems), explained(f"{store.url}/{part}"):
            content[part] = read()
    plan, frozen = _documents(store, problems)
    if "raw" not in content:  # the records of an import
        return problems
    folders, digests, deployments = (
        content["raw"],
        content.get("digests", {}),
        content.get("hosts", {}),
    )
    problems += _folders(store, set(folders.values()), digests)
    damaged = set()
    for name in sorted({name for name in folders.values() if name.startswith(IMPORT)}):
        with store.raw(name, digests.get(name)) as raw:
            wrong = [f"{store.url}/raw/{name}: {problem}" for problem in _raw(raw)]
        damaged |= {name} if wrong else set()
        problems += wrong
    gone = sorted(set(content.get("exclusions.json", ())) - set(folders))
    problems += [f"{store.url}: the exclusion of {i} names a run that does not exist" for i in gone]
    tables = Tables(store, store)
    with _collecting(problems), explained(f"{store.url}/tables"):
        tables.look(DETAIL)
    trials = {
        t["run_id"]: t for t in plan.get("trials", ()) if isinstance(t, dict) and "run_id" in t
    }
    tasks = []
    for block, runs in tables.blocks.items():
        rows = {trial: trials[trial] for trial in map(trial_of, runs) if trial in trials}
        ingested = block not in tables.behind and damaged.isdisjoint(runs.values())
        tasks.append((store, block, runs, ingested, rows, frozen, deployments, plan.get("seed")))
    problems += _foreign(tables, digests)
    done = 0
    for (_, _, runs, *_), wrong in run_all(_verify_block, tasks, executor):
        problems += wrong
        done += len(runs)
        if progress:
            progress(done, len(folders))
    return problems


def _folders(store: Store, complete: set[str], digests: Mapping[str, set[str]]) -> Iterator[str]:
    """Folders that are missing or incomplete, and what is no folder of runs."""
    names = set(store.files.names("raw"))
    for name in sorted(digests.keys() - complete):
        what = f"has no {RECORD}" if name in names else "is missing"
        yield (
            f"{store.url}/raw/{name}: {what}, but its digest exists: it was removed, or the collector was "
            "killed while writing it (then collect again)"
        )
    for name in sorted(names - complete - set(digests)):
        yield f"{store.url}/raw/{name}: neither a run nor part of one (it has no {RECORD})"


@contextmanager
def _collecting(problems: list[str], where: str = "") -> Iterator[None]:
    """Add the text of an error to the problems and continue; also one of values that nobody here wrote."""
    try:
        yield
    except NetperfError as error:
        problems.append(str(error))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problems.append(f"{where}: the content is damaged ({error!r})")


def _documents(store: Store, problems: list[str]) -> tuple[Mapping[str, Any], str | None]:
    """The plan and the digest of the frozen contrasts, as far as they can be read; their problems are added."""
    plan: dict[str, Any] | None = None
    digest: str | None = None
    with _collecting(problems, f"{store.url}/plan.json"), explained(store.url):
        plan = store.read_plan()
        declared = store.declaration()
        digest = declared.digest
        if plan is not None:
            problems += _plan(store, plan, digest)
            problems += _declared(store, plan, declared)
        elif store.digests():
            problems.append(f"{store.url}/plan.json is missing")
        problems += (
            f"{store.url}/experiment.yaml: a contrast ({contrast.question or contrast.metric}) was written into it "
            "after the first run"
            for utc, contrast in declared.added
            if utc is None and digest is not None
        )
    return plan or {}, digest


def _declared(store: Store, plan: Mapping[str, Any], declared: Declaration) -> Iterator[str]:
    """What experiment.yaml says differently from what was frozen and planned, and an order that was not drawn."""
    lost = [c for c in declared.experiment.contrasts if c not in declared.written.contrasts]
    if declared.digest is not None and lost:
        yield f"{store.url}/experiment.yaml: {len(lost)} of the frozen contrasts are not in it"
    try:
        planned = Experiment.model_validate(plan["experiment"])
    except (KeyError, ValueError):  # logs that were imported; the plan of an older version
        return
    fields = set(Experiment.model_fields) - {"contrasts"}
    if differ := sorted(
        name for name in fields if getattr(planned, name) != getattr(declared.written, name)
    ):
        yield f"{store.url}: experiment.yaml and plan.json differ in {', '.join(differ)}"
    if (
        plan.get("rule") == RULE
    ):  # the rule by which older versions drew the order is not known here
        yield from _order(f"{store.url}/plan.json", planned, plan)


def _order(where: str, planned: Experiment, plan: Mapping[str, Any]) -> Iterator[str]:
    """Draw the order of all rounds again from the seed in the plan, and compare."""
    rounds: dict[tuple[int, int], list[str]] = {}
    for trial in sorted(plan["trials"], key=lambda t: int(t["order"])):
        rounds.setdefault((int(trial["deployment"]), int(trial["round"])), []).append(
            trial["run_id"]
        )
    most = max((number for _, number in rounds), default=planned.rounds)
    drawn: dict[tuple[int, int], list[str]] = {}
    for t in schedule(
        planned.model_copy(update={"rounds": max(most, planned.rounds)}), seed=int(plan["seed"])
    ).trials:
        drawn.setdefault((t.deployment, t.round), []).append(t.run_id)
    other = []
    for at in drawn | rounds:
        expected, actual = drawn.get(at, []), rounds.get(at, [])
        if (
            at[1] > planned.rounds
        ):  # a round no longer asked for, of which what was measured is left
            expected = [run_id for run_id in expected if run_id in actual]
        if actual != expected:
            other.append(at[1])
    if other:
        yield (
            f"{where}: the order of {len(other)} of {len(drawn)} rounds (from round {min(other)}) is not what the seed "
            f"{plan['seed']} gives; seed, order or trials were changed"
        )


def _plan(store: Store, plan: Mapping[str, Any], digest: str | None) -> Iterator[str]:
    where = f"{store.url}/plan.json"
    if (plan.get("frozen") or {}).get("sha256") != digest:
        yield f"{where}: the frozen contrasts were changed (their digest differs)"
    trials = {str(t.get("run_id")): t for t in plan.get("trials", ()) if isinstance(t, dict)}
    if "trials" in plan and trials:
        measured = {trial_of(i) for i in store.run_ids()}
        last = max((t.get("round", 0) for i, t in trials.items() if i in measured), default=0)
        open_rounds = plan.get("looked")  # the data decided when to stop
        missing = [
            i
            for i, t in trials.items()
            if i not in measured and not (open_rounds and t.get("round", 0) > last)
        ]
        if measured and missing:
            yield (
                f"{where}: {len(missing)} of {len(trials)} planned trials have no run ({', '.join(missing[:3])}); "
                "they were not measured yet (then collect again), or removed"
            )
        strangers = sorted(measured - set(trials))
        if strangers:
            yield f"{where}: {len(strangers)} measured trials are not in the plan ({', '.join(strangers[:3])})"


def _verify_block(
    store: Store,
    block: str,
    runs: Mapping[str, str],
    ingested: bool,
    trials: Mapping[str, Mapping[str, Any]],
    frozen: str | None,
    deployments: Mapping[int, Mapping[str, Any]],
    seed: Any,
) -> list[str]:
    """Problems of these runs, given with their folders, and, if they are in the tables, of the block's parts."""
    problems: list[str] = []
    for raw, run_ids in store.raw_folders(runs):
        wrong = [] if raw.name.startswith(IMPORT) else [*_raw(raw)]
        for run_id in run_ids:
            with _collecting([] if wrong else wrong, RECORD):
                wrong += _record(
                    run_id,
                    raw.records[run_id],
                    frozen,
                    trials.get(trial_of(run_id)),
                    deployments,
                    seed,
                )
            problems += [f"{store.url}/raw/{run_id}: {w}" for w in wrong]
            wrong = []
    return problems + ([] if problems or not ingested else _tables(store, block, runs))


def _raw(raw: RawFolder) -> Iterator[str]:
    """Problems of the record and the files in a folder of ``raw/``."""
    try:
        files = raw.record.get("files")
    except (OSError, ValueError) as error:
        yield f"{RECORD} cannot be read ({error})"
        return
    if raw.digests is None and raw.record.get("schema") != 1:  # version 0.1 kept no digests
        yield f"{RECORD} has no digest: the run was added, or its digest removed"
    if raw.change:
        yield raw.change
    if not isinstance(files, Mapping):
        yield f"{RECORD}: files are damaged"
        return
    for name in files:
        try:
            raw.file(name, raw.record)
        except OSError:
            yield f"{name} is missing"
        except ValueError as error:
            yield str(error)
    for file in sorted(raw.path.iterdir()):
        if file.name != RECORD and file.name not in files:
            yield f"{file.name} was added after it was measured; it is not read"


def _record(
    run_id: str,
    record: Mapping[str, Any],
    frozen: str | None,
    trial: Mapping[str, Any] | None,
    deployments: Mapping[int, Mapping[str, Any]],
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
    facts = {**record["trial"], **{k: record[k] for k in ("deployment", "round", "order")}}
    if differ := sorted(
        k for k in facts.keys() & (trial or {}).keys() if facts[k] != (trial or {})[k]
    ):
        yield f"{RECORD} and plan.json differ in {', '.join(differ)}"
    if None not in (seed, record.get("seed")) and record["seed"] != seed:
        yield f"{RECORD} and plan.json differ in the seed"
    deployment = deployments.get(record["deployment"])
    if deployment is None and record.get("deployment_id") is not None:
        yield f"the file of its deployment (hosts/deployment-{record['deployment']:02d}.json) is missing"
    if deployment is not None and record.get("notice") and not deployment.get("notice"):
        yield f"{RECORD} carries a notice, but the deployment's file does not"
    hosts = {h["name"]: h for h in (deployment or {}).get("hosts", ())}
    for side, host in record["hosts"].items():
        described = hosts.get(host.get("name")) if isinstance(host, Mapping) else None
        if described and (differ := [k for k in _PLACED if host.get(k) != described.get(k)]):
            yield f"{RECORD} and the deployment's file differ in {', '.join(differ)} of the {side}"


def _foreign(tables: Tables, digests: Mapping[str, set[str]]) -> Iterator[str]:
    """Parts out of date that no ingest of these runs leaves: they hold other runs, or lack the table of runs."""
    runs = tables.parts("runs")
    details = {block for table in DETAIL for block in tables.parts(table)}
    for block in tables.behind:
        rows: list[dict[str, str]] = []
        if block in runs:
            with suppress(StoreError):
                rows = runs[block].read(["run_id", "raw_sha256"]).to_pylist()
        sources, refused = (
            tables.blocks[block],
            runs[block].footer.get("refused", ()) if rows else (),
        )
        other = [
            row
            for row in rows
            if row["run_id"] not in refused
            and row.get("raw_sha256") not in digests.get(sources.get(row["run_id"], ""), ())
        ]
        wrong = f"has {len(other)} runs that are not in raw" if other else "is missing"
        if other or (block not in runs and block in details):
            yield f"{tables.store.url}: table runs, {block}: {wrong}; remove the tables; they are rebuilt"


def _tables(store: Store, block: str, runs: Mapping[str, str]) -> list[str]:
    """How the parts of a block differ from freshly built ones."""
    with scratch() as folder:
        again = Store(folder, store.experiment)
        make_part(store, again, block, runs, "")
        both = Tables(store, store), Tables(again, again)
        return [
            f"{store.url}: table {table}, {block}: {wrong}; remove the tables; they are rebuilt"
            for table in SCHEMAS
            if (wrong := _unequal(*(tables.parts(table).get(block) for tables in both)))
        ]


SHARES = 8
"""The table of packets has so few, each of them long; that of runs has many times as many, and short ones."""


def _unequal(part: Part | None, fresh: Part | None) -> str | None:
    """How a part differs from a freshly built one; compared some columns at a time to save memory."""
    if part is None or fresh is None:
        return (
            "rows are missing"
            if fresh is not None
            else "has rows that are in no log"
            if part is not None
            else None
        )
    names = fresh.schema.names
    if part.schema.names != names:
        return f"the columns {', '.join(sorted(set(part.schema.names) ^ set(names)))} differ"
    step = max(1, len(names) // SHARES)
    for at in range(0, len(names), step):
        try:
            one, other = (p.read(names[at : at + step]) for p in (part, fresh))
        except StoreError:
            return "it is damaged"
        if len(one) != len(other):
            return f"{len(one)} rows, but {len(other)} in the logs"
        if not one.equals(other):
            name = next(name for name in one.column_names if not one[name].equals(other[name]))
            return f"column {name} differs from the logs"
    return None
