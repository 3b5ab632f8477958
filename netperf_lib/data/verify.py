"""Check that raw runs are unchanged since they were measured, and that the tables agree with the logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from ..errors import NetperfError, StoreError, UsageError
from .files import Location, explained, links, scratch
from .ingest import DETAIL, OnProgress, Part, Tables, make_part
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
        raise UsageError(
            f"root {root!r}: write the 64 digits that a report prints, or at least the first 8"
        )
    problems: list[str] = []
    for store in stores(path):
        with _collecting(problems), explained(store.url):
            problems += _links(store)
            problems += _root(store, root)
            problems += _problems(store, progress, executor)
    return problems


def _links(store: Store) -> Iterator[str]:
    if store.files.path is not None:
        yield from (f"{link}: a link, which no experiment holds" for link in links(store.path))


def _root(store: Store, root: str | None) -> Iterator[str]:
    if root is not None and not (actual := store.root_digest()).startswith(root):
        yield (
            f"{store.url}: the root digest is {actual}, not {root}: what was declared, planned, "
            "placed, measured or excluded is not that of the report"
        )


def _problems(
    store: Store, progress: OnProgress | None, executor: Executor | None
) -> Iterator[str]:
    content: dict[str, Any] = {}
    problems: list[str] = []
    parts: dict[str, Callable[[], Any]] = {
        "experiment.yaml": store.declaration,
        "plan.json": store.read_plan,
        "hosts": store.deployments,
        "excluded": store.exclusions,
        "digests": store.digests,
        "raw": store.run_folders,
    }
    for part, read in parts.items():
        with _collecting(problems), explained(f"{store.url}/{part}"):
            content[part] = read()
    yield from problems
    if "raw" not in content:  # the records of an import
        return
    folders, digests = content["raw"], content.get("digests", {})
    yield from _missing(store, set(folders.values()), digests)
    if content.get("plan.json") is None:
        if "plan.json" in content and digests:  # version 0.1 kept neither
            yield f"{store.url}/plan.json is missing"
    else:
        yield from _unplanned(store, set(folders), content["plan.json"])
    tables = Tables(store, store)
    problems = []
    with _collecting(problems), explained(f"{store.url}/tables"):
        tables.look(DETAIL)
    yield from problems
    tasks = [
        (store, block, runs, block not in tables.behind) for block, runs in tables.blocks.items()
    ]
    done = 0
    found: dict[str, None] = {}  # several blocks share an import
    for (_, _, runs, _), wrong in run_all(_verify_block, tasks, executor):
        found |= dict.fromkeys(wrong)
        done += len(runs)
        if progress:
            progress(done, len(folders))
    yield from found


@contextmanager
def _collecting(problems: list[str]) -> Iterator[None]:
    """Add the text of an error to the problems and continue."""
    try:
        yield
    except NetperfError as error:
        problems.append(str(error))


def _missing(store: Store, complete: set[str], digests: Mapping[str, set[str]]) -> Iterator[str]:
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


def _unplanned(store: Store, runs: set[str], plan: Mapping[str, Any]) -> Iterator[str]:
    """Planned trials without a run, and runs without a planned trial."""
    where = f"{store.url}/plan.json"
    rounds = {str(trial.get("run_id")): trial.get("round", 0) for trial in plan.get("trials", ())}
    if not rounds:  # logs that were imported
        return
    measured = {trial_of(run_id) for run_id in runs}
    last = max((rounds.get(trial, 0) for trial in measured), default=0)
    if not plan.get("looked"):  # else the data decided when to stop
        last = max(rounds.values())
    missing = [i for i, number in rounds.items() if i not in measured and number <= last]
    if measured and missing:
        yield (
            f"{where}: {len(missing)} of {len(rounds)} planned trials have no run ({', '.join(missing[:3])}); "
            "they were not measured yet (then collect again), or removed"
        )
    strangers = sorted(measured - set(rounds))
    if strangers:
        yield f"{where}: {len(strangers)} measured trials are not in the plan ({', '.join(strangers[:3])})"


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
        files = raw.record.get("files")
    except (FileNotFoundError, ValueError) as error:
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
        except FileNotFoundError:
            yield f"{name} is missing"
        except ValueError as error:
            yield str(error)
    for file in sorted(raw.path.iterdir()):
        if file.name != RECORD and file.name not in files:
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
            if (wrong := _unequal(*(tables.parts(table).get(block) for tables in both)))
        ]


def _unequal(part: Part | None, fresh: Part | None) -> str | None:
    """How a part differs from a freshly built one; compared by column to save memory."""
    if part is None and fresh is None:
        return None
    if part is None:
        return "rows are missing"
    if fresh is None:
        return "has rows that are in no log"
    if part.schema.names != fresh.schema.names:
        return "has other columns"
    for name in fresh.schema.names:
        try:
            one, other = part.read([name]), fresh.read([name])
        except StoreError:
            return "it is damaged"
        if len(one) != len(other):
            return f"{len(one)} rows, but {len(other)} in the logs"
        if not one.equals(other):
            return f"column {name} differs from the logs"
    return None
