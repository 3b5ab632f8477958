"""Check that raw runs are unchanged since they were measured.

And that the tables agree with the logs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from ..errors import NetperfError, UsageError
from .files import Location, explained, names, scratch
from .ingest import OnProgress, Tables, make_part, read_part, tables_of
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

    The name of the folder does not matter: a renamed or copied experiment passes. Give the `root`
    digest of a report to also find what was changed everywhere at once (a log, its record and its
    digest), or in what was declared, planned, placed or excluded.

    Parameters
    ----------
    path : path or several
        An experiment, several, or a data root.
    progress : callable, optional
        Called with (runs checked, runs to check).
    root : str, optional
        The root digest that the experiment must have, or its first 8 or more digits; see
        `Store.root_digest`.
    executor
        As in `netperf_lib.ingest`.

    Returns
    -------
    list of str
        The problems, one sentence each: a record or log that was changed, removed or added; a
        document that cannot be read; a link; a table that differs from the logs.

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
    problems: list[str] = []
    for store in stores(path):
        problems += _links(store)
        try:
            with explained(store.url):
                problems += _documents(store)
                problems += _problems(store, root, progress, executor)
        except NetperfError as error:
            problems.append(str(error))
    return [*dict.fromkeys(problems)]  # several blocks share an import


def _links(store: Store) -> Iterator[str]:
    for top, folders, files in os.walk(store.path):
        for link in filter(
            Path.is_symlink, (Path(top, name) for name in sorted(folders + files))
        ):
            yield f"{link}: a link, which no experiment holds"


def _documents(store: Store) -> Iterator[str]:
    """Documents that cannot be read."""
    for read in (store.declaration, store.deployments, store.exclusions):
        try:
            read()
        except NetperfError as error:
            yield str(error)


def _problems(
    store: Store, root: str | None, progress: OnProgress | None, executor: Executor | None
) -> Iterator[str]:
    tables = tables_of(store, store.path)
    if root is not None and not (actual := store.root_digest()).startswith(root):
        yield (
            f"{store.url}: the root digest is {actual}, not {root}: what was declared, planned, "
            "placed, measured or excluded is not that of the report"
        )
    runs = {
        run_id: name for block in tables.blocks.values() for run_id, name in block.items()
    }
    yield from _missing(store, runs)
    tasks = [(replace(tables, blocks={b: some}), b) for b, some in tables.blocks.items()]
    done = 0
    for (_, block), found in run_all(_verify_block, tasks, executor):
        yield from found
        done += len(tables.blocks[block])
        if progress:
            progress(done, len(runs))


def _missing(store: Store, runs: Mapping[str, str]) -> Iterator[str]:
    """Runs that are missing or incomplete, those that were not planned, and what is no run."""
    digests = store.digests()
    for name in sorted((digests.keys() | names(store.path / "raw")) - set(runs.values())):
        why = "it is no run"
        if name in digests:
            why = "its digest exists: it was removed, or the collector killed (then collect again)"
        yield f"{store.path / 'raw' / name}: there is no {RECORD}; {why}"
    plan, where = store.read_plan(), store.path / "plan.json"
    if plan is None and digests:  # version 0.1 kept neither
        yield f"{where} is missing"
    rounds = {
        str(t.get("run_id")): t.get("round", 0) for t in (plan or {}).get("trials", ())
    }
    measured = {trial_of(run_id) for run_id in runs}
    if not rounds or not measured:  # logs that were imported
        return
    last = max(rounds.values())
    if (plan or {}).get("looked"):  # the data decided when to stop
        last = max((rounds.get(trial, 0) for trial in measured), default=0)
    due = {trial for trial, number in rounds.items() if number <= last}
    for what, some in (
        (
            "have no run: not measured yet (then collect again), or removed",
            due - measured,
        ),
        ("have a run that is not in the plan", measured - rounds.keys()),
    ):
        if some:
            which = ", ".join(sorted(some)[:3])
            yield f"{where}: {len(some)} of {len(rounds)} planned trials {what} ({which})"


def _verify_block(tables: Tables, block: str) -> list[str]:
    """Problems of the folders of these runs or, if there are none, of the tables made from them."""
    store, runs = tables.store, tables.blocks[block]
    problems = [
        f"{raw.path}: {wrong}"
        for raw, _ in store.raw_folders(runs)
        for wrong in _raw(raw)
    ]
    if problems or block in tables.behind:
        return problems
    with scratch() as folder:
        make_part(store, folder, block, runs, "")
        fresh = Tables(store, folder, tables.blocks, {})
        return [
            f"{store.url}: table {table}, {block}: {wrong}; remove the tables; they are rebuilt"
            for table in SCHEMAS
            if (
                wrong := _difference(
                    *(some.parts(table).get(block) for some in (tables, fresh))
                )
            )
        ]


def _raw(raw: RawFolder) -> Iterator[str]:
    """Problems of the record and the files in a folder of ``raw/``."""
    try:
        files = dict(raw.record["files"])
    except (OSError, LookupError, TypeError, ValueError) as error:
        yield f"{RECORD} cannot be read ({error})"
        return
    if (
        raw.digests is None and raw.record.get("schema") != 1
    ):  # version 0.1 kept no digests
        yield f"{RECORD} has no digest: the run was added, or its digest removed"
    if raw.change:
        yield raw.change
    for name in files:
        try:
            raw.file(name, raw.record)
        except (OSError, ValueError) as error:
            yield f"{name}: {error}"
    for name in sorted({*os.listdir(raw.path)} - {RECORD, *files}):  # noqa: PTH208
        yield f"{name} was added after it was measured; it is not read"


def _difference(part: Path | None, fresh: Path | None) -> str | None:
    """How a part differs from a freshly built one."""
    if part is None or fresh is None:
        return None if part is fresh else "it has other rows than the logs"
    try:
        found, expected = read_part(part), read_part(fresh)
    except NetperfError as error:
        return str(error)
    if found.schema.names != expected.schema.names:
        return "it has other columns"
    for name in expected.schema.names:
        if found[name] != expected[name]:
            return f"column {name} differs from the logs"
    return None
