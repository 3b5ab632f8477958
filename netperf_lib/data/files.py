"""Files of experiments.

Everything that is written appears whole, by one rename. Below a folder that may come from others
no link is followed to write or remove.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from ..errors import NetperfError, StoreError, explain, naming

try:
    import fcntl as fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

Location = str | os.PathLike[str]
"""A path."""

_DRAFT = re.compile(r"\.(staging-|.+\.)[0-9a-f]{32}")
"""Name of a file or folder while it is being written."""
_DAY_S = 24 * 3600
DOCUMENT_BYTES = 1 << 26
"""Largest document of an experiment that is read."""


def last_name(location: Location) -> str:
    """Name of a folder; of a link that of its target."""
    return Path(os.path.realpath(location)).name


def temporary() -> tempfile.TemporaryDirectory[str]:
    """Return a new folder that lasts as long as this object."""
    return tempfile.TemporaryDirectory(prefix="netperf-", ignore_cleanup_errors=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a new folder that lasts as long as the block."""
    with temporary() as name:
        yield Path(os.path.realpath(name))


@contextmanager
def explained(name: object) -> Iterator[None]:
    """Turn errors of the machine and of a file's content into a StoreError that names the file."""
    try:
        yield
    except NetperfError:
        raise
    except Exception as error:
        if (reason := explain(error)) is None:
            raise
        has_name = isinstance(error, OSError) and error.filename is not None
        raise StoreError(reason if has_name else f"{name}: {reason}") from None


def names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted, without hidden ones; none if there is no folder."""
    try:
        # text, as there may be hundreds of thousands
        found = os.listdir(folder)  # noqa: PTH208
        return sorted(name for name in found if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


class UnusableFileError(StoreError, ValueError):
    """Something else than a plain file of sensible size stands where a file is expected."""


def is_there(path: str | Path) -> bool:
    """Return whether there is a file, a folder or a link.

    Only "no such file" means that there is none: any other failure is an error of now.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        # below a link to itself there is something, which is refused when it is read
        if error.errno != errno.ELOOP:
            raise
    return True


def plain_file(folder: Path, name: str, most: int = 1 << 40) -> Path:
    """Return the path of a plain file below a folder that anybody may have written.

    UnusableFileError for a link on the way, a path to elsewhere, a folder, a device, a pipe, and
    a file of more than `most` bytes: a link may lead to a key, and a device may never end.
    FileNotFoundError if there is nothing.
    """
    path, parts = folder, Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        raise UnusableFileError(
            f"{name!r} is no file of this folder, but leads to elsewhere"
        )
    status = None
    for part in parts:
        path = path / part
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            raise UnusableFileError(
                f"{path}: a link to elsewhere, which is not read; remove it"
            )
    if status is None or not stat.S_ISREG(status.st_mode):
        raise UnusableFileError(
            f"{path}: no plain file; remove it, or restore it from a copy"
        )
    if status.st_size > most:
        raise UnusableFileError(
            f"{path}: larger than {most:,} bytes; restore it from a copy"
        )
    return path


def read_plain(folder: Path, name: str, most: int = DOCUMENT_BYTES) -> bytes:
    """Return the bytes of a plain file below a folder that anybody may have written.

    Everything below the folder of an experiment is read by this function, but logs and parquet,
    whose readers take the path that `plain_file` returns. UnusableFileError as there, and
    FileNotFoundError if there is nothing.
    """
    path = plain_file(folder, name, most)
    # it may have been replaced since: neither a link is followed, nor a pipe waited for
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        return file.read(most)


def own_path(folder: Path, name: str) -> Path:
    """Return a path below a folder to write to or to remove; StoreError for a link on the way.

    A folder of others may hold links to anything that its reader may write.
    """
    path = folder
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise StoreError(
                f"{path}: a link to elsewhere, and nothing is written or removed through links; "
                "remove it"
            )
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def appearing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield where to write a file or folder; it becomes `path` in one step when the block succeeds.

    `durable` waits until the data are on disk. OSError if there is a folder with files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:150]}.{uuid4().hex}")
    try:
        with naming(path):
            yield draft
            written = [*(draft.iterdir() if draft.is_dir() else ()), draft]
            for one in written if durable else ():
                _fsync(one)
            draft.replace(path)
            if durable:
                _fsync(path.parent)
    finally:
        _discard(draft)


def write(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Write a file whole."""
    with appearing(path, durable=durable) as draft:
        draft.write_bytes(data)


def tidy(folder: Path, *, older_s: float = _DAY_S) -> None:
    """Remove what killed writers left in a folder this long ago."""
    until = time.time() - older_s
    for left in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # another writer's, which is complete now
            if _DRAFT.fullmatch(left.name) and left.lstat().st_mtime <= until:
                _discard(left)


def _discard(draft: Path) -> None:
    with suppress(OSError):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)


def _fsync(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
