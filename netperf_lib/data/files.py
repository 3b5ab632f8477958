"""Files of a data root by their names: on a disk of this machine, or at a URL that fsspec opens.

Everything that is written appears whole, by one rename or upload. Below a folder that may come from others no link is
followed to write or remove. Permission problems are `PermissionError` everywhere, missing files `FileNotFoundError`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.fs

from ..errors import NetperfError, StoreError, explain, naming, pip_install

Location = str | os.PathLike[str]
"""A path, or the URL of an object store."""

_DRAFT = re.compile(r"\.(staging-|.+\.)[0-9a-f]{32}")
"""Name of a file or folder while it is being written."""
_DAY_S = 24 * 3600


def is_url(location: Location) -> bool:
    """Whether `location` is a URL rather than a path."""
    return isinstance(location, str) and "://" in location


def split(location: Location) -> tuple[str, str]:
    """Split a path or URL into its parent and its last name; links are followed."""
    if is_url(location):
        parent, _, name = str(location).rstrip("/").rpartition("/")
        return parent, name
    path = Path(os.path.realpath(location))  # Path.resolve raises RuntimeError for a link to itself
    return str(path.parent), path.name


def folder(location: Location) -> Folder:
    """Open a folder, which need not exist yet; StoreError if its URL cannot be used."""
    return RemoteFolder(str(location)) if is_url(location) else Folder(os.fspath(location))


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


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="netperf-") as temporary:
        yield Path(temporary)


def plain_file(folder_path: Path, name: str) -> Path:
    """Return the path of a file that stands in a folder itself.

    ValueError for a link, a device or a path to elsewhere: a folder of others may hold a link to a
    key, and a device may never end.
    """
    path = folder_path / name
    if (
        Path(name).name != name
        or folder_path.is_symlink()
        or not stat.S_ISREG(path.lstat().st_mode)
    ):
        raise ValueError(f"{name!r} is no plain file of this folder, but leads to elsewhere")
    return path


def own_path(folder_path: Path, name: str) -> Path:
    """Return a path below a folder to write to or to remove; StoreError for a link on the way.

    A folder of others may hold links to anything that its reader may write.
    """
    path = folder_path
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise StoreError(
                f"{path}: a link to elsewhere, and nothing is written or removed through links; "
                "remove it"
            )
    return path


def links(folder_path: Path) -> Iterator[Path]:
    """Every link below a folder."""
    for top, folders, files in os.walk(folder_path):
        yield from (p for name in sorted((*folders, *files)) if (p := Path(top, name)).is_symlink())


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def appearing(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """A path to write a file or folder to; it becomes `path` in one step when the block succeeds.

    `durable` waits until the data are on disk. OSError if there is a folder with files.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name[:150]}.{uuid4().hex}")
    try:
        with naming(path):
            yield draft
            if durable:
                for written in (*(draft.iterdir() if draft.is_dir() else ()), draft):
                    _fsync(written)
            draft.replace(path)
            if durable:
                _fsync(path.parent)
    finally:
        _discard(draft)


def _discard(draft: Path) -> None:
    with suppress(OSError):
        if draft.is_dir() and not draft.is_symlink():
            shutil.rmtree(draft)
        else:
            draft.unlink(missing_ok=True)


class Folder:
    """A folder on this machine, whose files are named by their path relative to it."""

    system: pyarrow.fs.FileSystem = pyarrow.fs.LocalFileSystem()
    """Its pyarrow file system."""

    def __init__(self, path: str) -> None:
        self.path: Path | None = Path(path)
        self.url = str(self.path)

    def at(self, name: str) -> str:
        """Return the path of a file in the file system."""
        return f"{self.url}/{name}".rstrip("/")

    def exists(self, name: str) -> bool:
        """Whether a file or folder has this name."""
        # Path.exists raises for a name that is too long
        return os.path.exists(self.at(name))  # noqa: PTH110

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return Path(self.at(name)).read_bytes()

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """Write a file whole."""
        with self.new_file(name, durable=durable) as draft:
            draft.write_bytes(data)

    def new_file(self, name: str, *, durable: bool = True) -> AbstractContextManager[Path]:
        """A path to write to; it becomes the file `name` in one step when the block succeeds."""
        return appearing(own_path(Path(self.url), name), durable=durable)

    def tidy(self, name: str, *, older_s: float = _DAY_S) -> None:
        """Remove what killed writers left in a folder this long ago."""
        path = own_path(Path(self.url), name)
        until = time.time() - older_s
        for left in path.iterdir() if path.is_dir() else ():
            with suppress(FileNotFoundError):  # another writer's, which is complete now
                if _DRAFT.fullmatch(left.name) and left.lstat().st_mtime <= until:
                    _discard(left)

    def names(self, name: str = "", *, complete_with: str = "") -> list[str]:
        """Names in a folder, sorted, without hidden ones; or only folders that hold a file."""
        try:
            names = [n for n in os.listdir(self.at(name)) if not n.startswith(".")]  # noqa: PTH208 - text, as there may be hundreds of thousands
        except (FileNotFoundError, NotADirectoryError):
            return []
        if complete_with:
            names = [n for n in names if self.exists(f"{name}/{n}/{complete_with}")]
        return sorted(names)

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """A local path for reading a folder, for the duration of the block."""
        yield Path(self.at(name))

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is no error."""
        own_path(Path(self.url), name).unlink(missing_ok=True)


class RemoteFolder(Folder):
    """A folder at a URL, for reading and for tables.

    Credentials come from where the store's own tools keep them, and are never stored or sent.
    """

    def __init__(self, url: str) -> None:
        if re.search(r"[?&](sig|sv|se)=", url) or re.match(r"\w+://[^/@]*:[^/@]*@", url):
            how = "remove it and log in with the store's own tools"
            raise StoreError(f"the URL contains a credential; {how}")
        import fsspec  # only here: a folder on this machine does not need it

        self.path = None
        self.url = url.rstrip("/")
        with _store_errors(self.url):
            self.fs, self._base = fsspec.core.url_to_fs(self.url, use_listings_cache=False)  # type: ignore[no-untyped-call]
        self.system = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(self.fs))

    def __reduce__(self) -> tuple[type[RemoteFolder], tuple[str]]:
        return RemoteFolder, (self.url,)  # no credentials travel

    def _call(self, operation: str, *arguments: Any, **options: Any) -> Any:
        """Call the store: everything that is read or written there goes through here."""
        with _store_errors(self.url):
            return getattr(self.fs, operation)(*arguments, **options)

    def at(self, name: str) -> str:
        return f"{self._base.rstrip('/')}/{name}".rstrip("/")

    def exists(self, name: str) -> bool:
        return bool(self._call("exists", self.at(name)))

    def read(self, name: str) -> bytes:
        return bytes(self._call("cat_file", self.at(name)))

    @contextmanager
    def new_file(self, name: str, *, durable: bool = True) -> Iterator[Path]:
        with scratch() as temporary:
            yield temporary / "new"
            self._call("put_file", str(temporary / "new"), self.at(name))

    def names(self, name: str = "", *, complete_with: str = "") -> list[str]:
        top = self.at(name)
        with suppress(FileNotFoundError):
            if complete_with:
                found = self._call("glob", f"{top}/*/{complete_with}")
                return sorted(path.split("/")[-2] for path in found)
            paths = self._call("ls", top, detail=False)
            names = (path.rstrip("/").rpartition("/")[2] for path in paths)
            return sorted(n for n in names if n and not n.startswith("."))
        return []

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        with scratch() as temporary:
            files = self.names(name)
            copies = [str(temporary / file) for file in files]
            self._call("get", [self.at(f"{name}/{file}") for file in files], copies)
            yield temporary

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._call("rm_file", self.at(name))

    def tidy(self, name: str, *, older_s: float = _DAY_S) -> None:
        pass


def _fsync(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _store_errors(url: str) -> Iterator[None]:
    """Turn errors of a store's client into one sentence; missing and denied keep their type.

    Their own text is left out, for it may hold a key.
    """
    try:
        yield
    except (StoreError, FileNotFoundError):
        raise
    except ImportError as error:
        missing = error.name or re.sub(r".*?\b[Ii]nstall (\S+).*", r"\1", str(error))
        command = pip_install(missing)
        raise StoreError(f"{url}: the Python package {missing} is missing; `{command}`") from None
    except Exception as error:
        if isinstance(error, PermissionError) or getattr(error, "status_code", 0) in (401, 403):
            raise PermissionError(13, "access denied", url) from None
        raise StoreError(
            f"{url}: the store cannot be used ({type(error).__name__}); check the URL, the login "
            "and the network"
        ) from error
