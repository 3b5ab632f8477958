"""Copies of experiments on object stores: measured on this machine, pushed for others, pulled by them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import StoreError, UsageError
from .files import Location, RemoteFolder, explained, is_url, store_errors
from .layout import RECORD, Store, stores

_COPIED = re.compile(
    r"(experiment\.yaml|plan\.json|exclusions\.json|hosts/deployment-\d+\.json|(digests|excluded|raw|tables|reports)/.+)"
)
"""Everything but keys, logs of the collector and what identifies this machine."""
_AT_ONCE = 200
"""Runs copied at a time."""


def push(
    path: Location,
    url: str,
    *,
    dated: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[str]:
    """Copy an experiment, or all of a data root, to an object store; return the URL of each copy.

    Only what is missing there is copied, and the record of a run last: a copy that was interrupted holds whole runs,
    and the same call continues it.

    Parameters
    ----------
    path : path
        An experiment or a data root on this machine.
    url : str
        The data root to copy to, for example ``abfs://container/folder``.
    dated : bool
        Name the copy after the start of the measurement, so that measurements of one name lie side by side.
    progress : callable, optional
        Called with (runs copied, runs to copy).

    Raises
    ------
    StoreError
        Another measurement has this name there, or the store cannot be used.
    UsageError
        `url` is not that of an object store.
    """
    _check(url)
    copies = [
        (source, Store(url, source.dated().name if dated else source.experiment))
        for source in stores(path)
    ]
    return _copy_all(copies, progress)


def pull(
    url: str, root: Location = "results", *, progress: Callable[[int, int], None] | None = None
) -> list[str]:
    """Copy an experiment, or all under a URL, into a data root on this machine; return the path of each. See `push`."""
    _check(url)
    return _copy_all([(source, Store(root, source.experiment)) for source in stores(url)], progress)


def _check(url: str) -> None:
    if not is_url(url) or url.startswith("file:"):
        raise UsageError(
            f"{url}: not the URL of an object store, such as abfs://container/folder; use cp for a folder"
        )


def _copy_all(
    copies: Sequence[tuple[Store, Store]], progress: Callable[[int, int], None] | None
) -> list[str]:
    missing = [_missing(source, target) for source, target in copies]
    done, total = 0, sum(map(len, missing))
    for (source, target), folders in zip(copies, missing, strict=True):
        with explained(target.url):
            names = [
                n
                for n in source.files.find()
                if _COPIED.fullmatch(n) and not re.search(r"(^|/)\.", n)
            ]
            files: dict[str, list[str]] = {}
            for name in names:
                if name.startswith("raw/"):
                    files.setdefault(name.split("/")[1], []).append(name)
            derived = [n for n in names if n.startswith(("tables/", "reports/"))]
            _transfer(
                source,
                target,
                [n for n in names if not n.startswith(("raw/", "tables/", "reports/"))],
            )
            for start in range(0, len(folders), _AT_ONCE):
                some = folders[start : start + _AT_ONCE]
                records = [f"raw/{folder}/{RECORD}" for folder in some]
                _transfer(
                    source,
                    target,
                    [n for folder in some for n in files[folder] if n not in records],
                )
                for name, data in zip(
                    records, source.files.each(source.files.read, records), strict=True
                ):
                    target.files.write(name, data)
                done += len(some)
                if progress:
                    progress(done, total)
            _transfer(source, target, derived)
    return [target.url for _, target in copies]


def _missing(source: Store, target: Store) -> list[str]:
    """Folders of runs that the target lacks; StoreError if it holds others."""
    ids, present = source.folders(), target.folders()
    digests, copied = source.digests(), target.digests()
    others = [
        i
        for i in present
        if i not in ids or (i in copied and copied[i].isdisjoint(digests.get(i, copied[i])))
    ]
    if others:
        raise StoreError(
            f"{target.url}: holds another measurement (run {others[0]} is not in {source.url}); choose another data "
            "root, or push with --dated"
        )
    return sorted(set(ids) - set(present))


def _transfer(source: Store, target: Store, names: Sequence[str]) -> None:
    """Copy files between this machine and a store, many at a time."""
    upload = isinstance(target.files, RemoteFolder)
    remote: Any = target.files if upload else source.files
    with store_errors(remote.url):
        if names:
            copy = remote.fs.put if upload else remote.fs.get
            copy([source.files.at(n) for n in names], [target.files.at(n) for n in names])
