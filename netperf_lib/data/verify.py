"""Check that raw runs, and what was declared, are unchanged since they were measured."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import NetperfError, UsageError
from .files import Location, explained, names
from .layout import RECORD, RawFolder, Store, stores


def verify(path: Location | Iterable[Location], *, root: str | None = None) -> list[str]:
    """Check that raw runs are unchanged, by their digests; changes nothing.

    The name of the folder does not matter: a renamed or copied experiment passes. Give the `root`
    digest of a report to also find what was changed everywhere at once (a log, its record and its
    digest), or in what was declared, planned, placed or excluded. Tables are not looked at: those
    of a folder from somebody else can be removed, and are rebuilt from the logs.

    Parameters
    ----------
    path : path or several
        An experiment, several, or a data root.
    root : str, optional
        The root digest that the experiment must have, or its first 8 or more digits; see
        `Store.root_digest`.

    Returns
    -------
    list of str
        The problems, one sentence each: a record or log that was changed, removed or added; a
        document that cannot be read; a link.

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
        for check in (_documents, _folders, _missing):
            try:
                with explained(store.url):
                    problems += check(store)
            except NetperfError as error:
                problems.append(str(error))
        if root is not None and not (actual := store.root_digest()).startswith(root):
            problems.append(
                f"{store.url}: the root digest is {actual}, not {root}: what was declared, "
                "planned, placed, measured or excluded is not that of the report"
            )
    return [*dict.fromkeys(problems)]


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


def _folders(store: Store) -> Iterator[str]:
    """Problems of the folders of runs, and records that cannot be read."""
    for raw, _ in store.raw_folders(store.run_folders()):
        for wrong in _raw(raw):
            yield f"{raw.path}: {wrong}"


def _missing(store: Store) -> Iterator[str]:
    """Runs that are missing or incomplete, and what is no run."""
    digests, complete = store.digests(), store.folders()
    for name in sorted((digests.keys() | names(store.path / "raw")) - set(complete)):
        why = "it is no run"
        if name in digests:
            why = "its digest exists: it was removed, or the collector killed (then collect again)"
        yield f"{store.path / 'raw' / name}: there is no {RECORD}; {why}"
    if store.read_plan() is None and digests:  # version 0.1 kept neither
        yield f"{store.path / 'plan.json'} is missing"


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
