"""The file operations that a data root needs: all on a disk, those of reading and of tables on an object store.

A path is a folder on this machine; a URL (``abfs://container/folder``, ``s3://…``, ``memory://…``) is opened by fsspec.
Credentials come from where the store's own tools keep them (for Azure: ``az login``, a managed identity, or the
``AZURE_STORAGE_*`` variables). They are never part of a name here, are not stored, and are not sent to workers: a
folder is pickled as its URL alone.

Permission problems are `PermissionError` on both kinds, missing files `FileNotFoundError`.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import logging
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow.fs

from ..errors import NetperfError, StoreError, explain, naming, pip_install

Location = str | os.PathLike[str]
"""A path, or the URL of an object store."""

_TEMPORARY = re.compile(r"\.(?:staging-|.+\.)(?P<host>[^.]*)-(?P<pid>\d+)-[0-9a-z_]{8}")
"""Name of a file or folder while it is being written."""
_HOST = re.sub(r"[^A-Za-z0-9_]", "_", socket.gethostname())[:40]

T = TypeVar("T")


def is_url(location: Location) -> bool:
    """Whether `location` is the URL of an object store rather than a path."""
    return isinstance(location, str) and "://" in location


def state_folder() -> Path:
    """Folder of this user for what belongs to data elsewhere."""
    return Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "netperf_lib"


def split(location: Location) -> tuple[str, str]:
    """Split a path or URL into its parent and its last name; links are followed."""
    if is_url(location):
        parent, _, name = str(location).rstrip("/").rpartition("/")
        return parent, name
    path = Path(os.path.realpath(location))  # Path.resolve raises RuntimeError for a link to itself
    return str(path.parent), path.name


def folder(location: Location) -> Folder | RemoteFolder:
    """Open a folder, which need not exist yet; StoreError if its URL cannot be used."""
    return RemoteFolder(str(location)) if is_url(location) else Folder(os.fspath(location))


@contextmanager
def explained(name: object) -> Iterator[None]:
    """Turn errors of files and of their content (full, unreadable, damaged) into a StoreError that names the file."""
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
    """A temporary folder for the duration of the block; those that killed processes left are removed first."""
    Folder(tempfile.gettempdir()).tidy(pattern=".netperf.*")
    with tempfile.TemporaryDirectory(prefix=f".netperf.{_HOST}-{os.getpid()}-") as temporary:
        yield Path(temporary)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name[:150]}.{_HOST}-{os.getpid()}-{uuid4().hex[:8]}")


def is_alive(pid: int) -> bool:
    """Whether a process of this machine is running; True if that cannot be determined."""
    if sys.platform == "win32":  # signal 0 is Ctrl-C there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return status_of(pid, 0) != "Z"  # dead, but not yet collected by its parent


def status_of(pid: int, field: int) -> str | None:
    """A field of ``/proc/PID/stat`` of a process of this machine, counted from the one after its name."""
    try:
        return (
            Path(f"/proc/{pid}/stat")
            .read_text("ascii", "replace")
            .rpartition(")")[2]
            .split()[field]
        )
    except (OSError, IndexError):
        return None


def plain_file(folder_path: Path, name: str) -> Path:
    """Return the path of a file that stands in a folder itself; ValueError for a link, a device or a path to elsewhere.

    A folder of others may hold anything, such as a link to a key, and a device may never end.
    """
    path = folder_path / name
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain file name")
    if folder_path.is_symlink() or path.is_symlink():
        raise ValueError(
            f"{name if path.is_symlink() else folder_path.name} is a link to elsewhere"
        )
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{name} is not a file")
    return path


def own_path(folder_path: Path, name: str) -> Path:
    """Return a path below a folder to write to or to remove; StoreError if a link is on the way there.

    A folder of others may hold links to anything that its reader may write.
    """
    path = folder_path
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink():
            raise StoreError(
                f"{path}: a link to elsewhere, and nothing is written or removed through links; remove it"
            )
    return path


def sha256_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Folder:
    """A folder on this machine, whose files are named by their path relative to it; renames are atomic."""

    url: str
    """Its path or URL, as used by messages and workers."""
    path: Path
    """Where it is on this machine; None for a folder elsewhere."""
    system = pyarrow.fs.LocalFileSystem()
    """Its pyarrow file system."""
    each = staticmethod(map)
    """Results of a function for many items; concurrently if each waits for the store."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.url = str(self.path)

    def __repr__(self) -> str:
        return f"folder({self.url!r})"

    def at(self, name: str) -> str:
        """Return the path of a file in the file system."""
        return str(self.path / name)

    def exists(self, name: str) -> bool:
        """Whether a file or folder has this name."""
        return os.path.exists(self.path / name)  # noqa: PTH110 (Path.exists raises for a name that is too long)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.path / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole."""
        with self.new_file(name) as draft:
            draft.write_bytes(data)

    @contextmanager
    def _draft(self, name: str) -> Iterator[tuple[Path, Path]]:
        """The path of a file, and one beside it for the duration of the block, to be written first."""
        path = own_path(self.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = _temporary(path)
        try:
            with naming(path):
                yield path, draft
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        """A local path to write to; it becomes the file `name` in one step when the block succeeds."""
        with self._draft(name) as (path, draft):
            yield draft
            _fsync(draft)
            draft.replace(path)

    def create(self, name: str, data: bytes) -> None:
        """Write a new file whole; FileExistsError if it exists."""
        with self._draft(name) as (path, draft):
            draft.write_bytes(data)
            try:
                os.link(draft, path)  # whole from the start, and only if absent
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                with path.open("xb") as file:
                    file.write(data)

    def append(self, name: str, line: str, *, durable: bool = True) -> None:
        """Add a line to a text file."""
        path = own_path(self.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())
            if durable:
                os.fsync(file.fileno())

    @contextmanager
    def new_folder(self, name: str, last: str, *, durable: bool = True) -> Iterator[Path]:
        """A local folder to write into; it becomes the folder `name` in one step when the block succeeds.

        Its file `last` makes it complete; OSError if there is a complete one.
        """
        final = own_path(self.path, name)
        final.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=f".staging-{_HOST}-{os.getpid()}-", dir=final.parent))
        try:
            with naming(final):
                yield staged
                mask = os.umask(0)
                os.umask(mask)
                staged.chmod(0o777 & ~mask)
                if durable:
                    for file in (*staged.iterdir(), staged):
                        _fsync(file)
                try:
                    staged.rename(final)
                except OSError:
                    if not final.is_dir() or (final / last).exists():
                        raise
                    final.rename(_temporary(final))  # a partial copy of a run is in the way
                    staged.rename(final)
                if durable:
                    _fsync(final.parent)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def tidy(self, name: str = ".", pattern: str = ".*") -> None:
        """Remove leftovers of this machine's killed writers in a folder, except for those of other users."""
        for left in own_path(self.path, name).glob(pattern):
            match = _TEMPORARY.fullmatch(left.name)
            if match and match["host"] == _HOST and not is_alive(int(match["pid"])):
                with suppress(PermissionError):
                    self.remove(f"{name}/{left.name}")

    def names(self, name: str = "", *, complete_with: str | None = None) -> list[str]:
        """Names in a folder, sorted, without hidden ones; with `complete_with` only folders that contain that file."""
        top = f"{self.path}/{name}" if name else str(self.path)
        try:
            with os.scandir(top) as entries:
                names = [e.name for e in entries if not e.name.startswith(".")]
        except (FileNotFoundError, NotADirectoryError):
            return []
        if complete_with:  # hundreds of thousands of folders: text, not Path objects
            names = [n for n in names if os.path.exists(f"{top}/{n}/{complete_with}")]  # noqa: PTH110
        return sorted(names)

    def find(self) -> list[str]:
        """Return the names of all files below this folder."""
        return sorted(
            p.relative_to(self.path).as_posix() for p in self.path.rglob("*") if p.is_file()
        )

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        """A local path for reading a folder, for the duration of the block."""
        yield self.path / name

    def remove(self, name: str) -> None:
        """Remove a file or a whole folder; a missing one is no error."""
        path = own_path(self.path, name)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


class RemoteFolder:
    """A folder on an object store, for reading and for tables: a file appears whole when its upload is done."""

    path = None

    def __init__(self, url: str) -> None:
        if re.search(r"[?&](sig|sv|se)=", url) or re.match(r"\w+://[^/@]*:[^/@]*@", url):
            raise StoreError(
                "the data root's URL contains a credential; remove it and set AZURE_STORAGE_SAS_TOKEN, "
                "AZURE_STORAGE_CONNECTION_STRING or use `az login`"
            )
        import fsspec  # only here: a folder on this machine does not need it

        self.url = url.rstrip("/")
        with store_errors(self.url):
            filesystem, base = fsspec.core.url_to_fs(self.url, use_listings_cache=False)  # type: ignore[no-untyped-call]
        self.fs: Any = filesystem
        """Its fsspec file system."""
        self._base: str = base.rstrip("/")
        logging.getLogger("azure").addHandler(
            logging.NullHandler()
        )  # it prints a page for each attempt
        credential = getattr(self.fs, "credential", None)
        for name in ("get_token", "get_token_info"):
            if inspect.iscoroutinefunction(request := getattr(credential, name, None)):
                setattr(credential, name, _logged_in(self.url, request))

    def __repr__(self) -> str:
        return f"folder({self.url!r})"

    def __reduce__(self) -> tuple[type[RemoteFolder], tuple[str]]:
        return RemoteFolder, (self.url,)  # no credentials travel

    @property
    def system(self) -> pyarrow.fs.FileSystem:
        return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(self.fs))

    def at(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/")

    def _call(self, operation: str, name: str, *arguments: Any, **options: Any) -> Any:
        with store_errors(self.url):
            return getattr(self.fs, operation)(self.at(name), *arguments, **options)

    def exists(self, name: str) -> bool:
        return bool(self._call("exists", name))

    def read(self, name: str) -> bytes:
        return bytes(self._call("cat_file", name))

    def write(self, name: str, data: bytes) -> None:
        self._call("pipe_file", name, data)

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        with scratch() as temporary:
            new = temporary / "new"
            yield new
            with store_errors(self.url):
                self.fs.put_file(str(new), self.at(name))

    def names(self, name: str = "", *, complete_with: str | None = None) -> list[str]:
        if complete_with is not None:
            return sorted(
                f.split("/")[0]
                for f in self.find(name)
                if f.count("/") == 1 and f.endswith(f"/{complete_with}")
            )
        try:
            names = [
                path.rstrip("/").rpartition("/")[2] for path in self._call("ls", name, detail=False)
            ]
        except FileNotFoundError:
            return []
        return sorted(n for n in names if n and not n.startswith("."))

    def find(self, name: str = "") -> list[str]:
        """Every file below a folder, named relative to it."""
        start = self.at(name).lstrip("/")
        return [f.lstrip("/").removeprefix(start).lstrip("/") for f in self._call("find", name)]

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        with scratch() as temporary:
            copy = temporary / name.rpartition("/")[2]
            copy.mkdir()
            files = self.names(name)
            with store_errors(self.url):
                self.fs.get([self.at(f"{name}/{f}") for f in files], [str(copy / f) for f in files])
            yield copy

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._call("rm", name, recursive=True)

    def tidy(self, name: str) -> None:
        pass

    def each(self, function: Callable[[T], Any], items: Iterable[T]) -> Iterator[Any]:
        with ThreadPoolExecutor(16) as pool:
            yield from pool.map(function, items)


def _fsync(path: Path) -> None:
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _logged_in(url: str, request: Callable[..., Any]) -> Callable[..., Any]:
    """Make a failed login end the request: Azure's client would retry it for a minute and a half."""

    async def once(*scopes: str, **options: Any) -> Any:
        try:
            return await request(*scopes, **options)
        except Exception as error:  # noqa: BLE001 - whatever keeps one from a login
            reason = str(error).splitlines()[0]
            raise StoreError(
                f"{url}: nobody is logged in ({reason}); use `az login` or AZURE_STORAGE_*"
            ) from None

    return once


_SECRETS = re.compile(
    r"(AccountKey|SharedAccessSignature|sig|EncryptionKey|client_secret|Authorization)(\s*[=:]\s*)[^;&\s]+",
    re.I,
)


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """Turn errors of a store's client into one sentence without secrets; missing and denied keep their type."""
    try:
        yield
    except (StoreError, FileNotFoundError, FileExistsError):
        raise
    except ImportError as error:
        missing = error.name or re.sub(r".*?\b[Ii]nstall (\S+).*", r"\1", str(error))
        raise StoreError(
            f"{url}: the Python package {missing} is not installed; `{pip_install('adlfs')}` for abfs://, "
            f"`{pip_install(missing)}` for other stores"
        ) from None
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        text = _SECRETS.sub(r"\1\2…", str(error) or type(error).__name__).strip().splitlines()[0]
        for name, value in os.environ.items():
            if (
                value
                and name.startswith(("AZURE_", "AWS_", "GOOGLE_"))
                and re.search("KEY|SECRET|TOKEN|STRING", name)
            ):
                text = text.replace(value, "…")
        if isinstance(error, PermissionError) or getattr(error, "status_code", None) in (401, 403):
            raise PermissionError(errno.EACCES, f"access denied: {text}", url) from None
        raise StoreError(
            f"{url}: the store cannot be used ({text}); check the URL, `az login` or AZURE_STORAGE_*, and the network"
        ) from None
