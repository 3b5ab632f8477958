"""Check that raw runs are unchanged since they were measured, and that the tables agree with the logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

from ..errors import NetperfError, StoreError, UsageError
from .files import Location, explained, links, scratch
from .ingest import OnProgress, Part, Tables, make_part
from .layout import RECORD, RawFolder, Store, stores, trial_of
from .tables import SCHEMAS
from .workers import run_all


def verify(
    path: Location | Iterable[Location],
    progress: OnProgress | None = None,
    *,
    root: str | None = None,
    executor: Executor | None = None,
) -> list[str]:
    """Check that raw runs are unchanged and that the tables equal a fresh ingest; changes nothing.

    The name of the folder does not matter: a renamed or copied experiment passes. Give the `root` digest of a report to
    also find what was changed everywhere at once (a log, its record and its digest), or in what was declared, planned,
    placed or excluded.

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
        The problems, one sentence each: a record or log that was changed, removed or added; a document that cannot be
        read; a link; a table that differs from the logs.

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
        how = "write the 64 digits that a report prints, or at least the first 8"
        raise UsageError(f"root {root!r}: {how}")
    problems: dict[str, None] = {}  # several blocks share an import
    for store in stores(path):
        try:
            with explained(store.url):
                for problem in _problems(store, root, progress, executor):
                    problems[problem] = None
        except NetperfError as error:
            problems[str(error)] = None
    return [*problems]


def _problems(
    store: Store, root: str | None, progress: OnProgress | None, executor: Executor | None
) -> Iterator[str]:
    if store.files.path is not None:
        for link in links(store.files.path):
            yield f"{link}: a link, which no experiment holds"
    content: dict[str, Any] = {}
    parts: dict[str, Callable[[], Any]] = {
        "experiment.yaml": store.declaration,
        "plan.json": store.read_plan,
        "hosts": store.deployments,
        "excluded": store.exclusions,
        "digests": store.digests,
        "raw": store.run_folders,
        "tables": lambda: Tables(store, store),
    }
    for part, read in parts.items():
        try:
            with explained(f"{store.url}/{part}"):
                content[part] = read()
        except NetperfError as error:
            yield str(error)
    if "raw" not in content:  # the records of an import
        return
    if root is not None and not (actual := store.root_digest()).startswith(root):
        yield (
            f"{store.url}: the root digest is {actual}, not {root}: what was declared, planned, "
            "placed, measured or excluded is not that of the report"
        )
    yield from _missing(store, content)
    if "tables" not in content:
        return
    tables: Tables = content["tables"]
    tasks = [
        (store, block, runs, block not in tables.behind) for block, runs in tables.blocks.items()
    ]
    done = 0
    for (_, _, runs, _), found in run_all(_verify_block, tasks, executor):
        yield from found
        done += len(runs)
        if progress:
            progress(done, len(content["raw"]))


def _missing(store: Store, content: Mapping[str, Any]) -> Iterator[str]:
    """Runs that are missing or incomplete, those that were not planned, and what is no run."""
    digests, runs = content.get("digests", {}), content["raw"]
    for name in sorted((digests.keys() | store.files.names("raw")) - set(runs.values())):
        why = "it is no run"
        if name in digests:
            why = "its digest exists: it was removed, or the collector killed (then collect again)"
        yield f"{store.url}/raw/{name}: there is no {RECORD}; {why}"
    plan, where = content.get("plan.json", {}), f"{store.url}/plan.json"
    if plan is None and digests:  # version 0.1 kept neither
        yield f"{where} is missing"
    rounds = {str(t.get("run_id")): t.get("round", 0) for t in (plan or {}).get("trials", ())}
    measured = {trial_of(run_id) for run_id in runs}
    if not rounds or not measured:  # logs that were imported
        return
    last = max((rounds.get(trial, 0) for trial in measured), default=0)
    if not (plan or {}).get("looked"):  # else the data decided when to stop
        last = max(rounds.values())
    due = {trial for trial, number in rounds.items() if number <= last}
    for what, some in (
        ("have no run: not measured yet (then collect again), or removed", due - measured),
        ("have a run that is not in the plan", measured - rounds.keys()),
    ):
        if some:
            which = ", ".join(sorted(some)[:3])
            yield f"{where}: {len(some)} of {len(rounds)} planned trials {what} ({which})"


def _verify_block(store: Store, block: str, runs: Mapping[str, str], ingested: bool) -> list[str]:
    """Problems of the folders of these runs or, if there are none, of the tables made from them."""
    problems = [
        f"{store.url}/raw/{raw.name}: {wrong}"
        for raw, _ in store.raw_folders(runs)
        for wrong in _raw(raw)
    ]
    return problems or (_tables(store, block, runs) if ingested else [])


def _raw(raw: RawFolder) -> Iterator[str]:
    """Problems of the record and the files in a folder of ``raw/``."""
    try:
        files = dict(raw.record["files"])
    except (OSError, LookupError, TypeError, ValueError) as error:
        yield f"{RECORD} cannot be read ({error})"
        return
    if raw.digests is None and raw.record.get("schema") != 1:  # version 0.1 kept no digests
        yield f"{RECORD} has no digest: the run was added, or its digest removed"
    if raw.change:
        yield raw.change
    for name in files:
        try:
            raw.file(name, raw.record)
        except (OSError, ValueError) as error:
            yield f"{name}: {error}"
    for file in sorted(raw.path.iterdir()):
        if file.name not in (RECORD, *files):
            yield f"{file.name} was added after it was measured; it is not read"


def _tables(store: Store, block: str, runs: Mapping[str, str]) -> list[str]:
    """How the parts of a block differ from freshly built ones."""
    with scratch() as folder:
        again = Store(folder, store.experiment)
        make_part(store, again, block, runs, "")
        both = Tables(store, store), Tables(again, again)
        return [
            f"{store.url}: table {table}, {block}: {wrong}; remove the tables; they are rebuilt"
            for table in SCHEMAS
            if (wrong := _difference(*(tables.parts(table).get(block) for tables in both)))
        ]


def _difference(part: Part | None, fresh: Part | None) -> str | None:
    """How a part differs from a freshly built one; compared by column to save memory."""
    if part is None or fresh is None:
        return None if part is fresh else "it has other rows than the logs"
    if part.schema.names != fresh.schema.names:
        return "it has other columns"
    for name in fresh.schema.names:
        try:
            if not part.read([name]).equals(fresh.read([name])):
                return f"column {name} differs from the logs"
        except StoreError as error:
            return str(error)
    return None
