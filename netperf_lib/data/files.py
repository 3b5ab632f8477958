"""A folder of files, on a disk or on an object store: the few acts that a data root needs, each whole or not at all.

A path is a folder on this machine; a URL (``abfs://container/folder``, ``s3://…``, ``memory://…``) is opened by fsspec.
Credentials come from where the store's own tools keep them (for Azure: ``az login``, a managed identity, or the
``AZURE_STORAGE_*`` variables). They are never part of a name here, are not kept, and do not travel to workers: a folder
is pickled as its URL alone.

What holds on both kinds: a file appears whole under its name; a new folder appears whole, because the file that makes
it complete is the last to come; a lock has one holder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import socket
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import fsspec
import fsspec.asyn
import pyarrow as pa
import pyarrow.fs

from ..errors import StoreError

__all__ = ["Folder", "LocalFolder", "Location", "ObjectFolder", "folder", "is_url", "split"]

Location = str | os.PathLike[str]
"""A path, or the URL of an object store."""

CACHED = 8 << 20
"""Files of up to this many bytes are fetched whole and kept; of larger ones only what is asked for is read."""
CACHE_BYTES = 4 << 30
"""The cache is cut back to this size."""
LEASE_S = 60
"""A holder that died gives up its lock on Azure after this many seconds."""

_LEFT = re.compile(r"\.(staging-.+|.+\.\d+-[0-9a-f]{8})")
"""What a file or folder is called while it is written."""

T = TypeVar("T")


def is_url(place: Location) -> bool:
    """Whether `place` is the URL of an object store rather than a path."""
    return isinstance(place, str) and "://" in place and not place.startswith(("file://", "local://"))


def split(place: Location) -> tuple[str, str]:
    """Split a path or URL into its parent and its last name."""
    if is_url(place):
        parent, _, name = str(place).rstrip("/").rpartition("/")
        return parent, name
    path = Path(str(place).removeprefix("file://").removeprefix("local://")).resolve()
    return str(path.parent), path.name


def folder(place: Location) -> Folder:
    """Open a folder; it need not exist yet.

    Raises
    ------
    StoreError
        The URL cannot be used: unknown scheme, missing package, no credentials.
    """
    if is_url(place):
        return ObjectFolder(str(place))
    return LocalFolder(str(place).removeprefix("file://").removeprefix("local://"))


class Folder(ABC):
    """A folder whose files are named by their path relative to it, with ``/`` between the parts."""

    url: str
    """Its path or URL, as messages and workers name it."""

    def __repr__(self) -> str:
        return f"folder({self.url!r})"

    def __reduce__(self) -> tuple[Callable[[str], Folder], tuple[str]]:
        return folder, (self.url,)  # no credentials travel

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file or folder has this name."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file; FileNotFoundError where there is none."""

    @abstractmethod
    def new_file(self, name: str) -> AbstractContextManager[Path]:
        """A local place to write to; it becomes the file `name` whole when the block ends well."""

    @abstractmethod
    def new_folder(self, name: str, last: str, *, durable: bool = True) -> AbstractContextManager[Path]:
        """A local folder to write into; it becomes the folder `name` when the block ends well, its file `last` last."""

    def tidy(self, name: str) -> None:  # noqa: B027 (most stores have nothing to tidy)
        """Take away what a killed writer left in a folder."""

    @abstractmethod
    def names(self, name: str = "", *, complete_with: str | None = None) -> list[str]:
        """Names of what lies in a folder, sorted, hidden ones left out; only folders that hold a file, where asked."""

    @abstractmethod
    def sizes(self, name: str) -> dict[str, int]:
        """Names of the files in a folder and their sizes in bytes; empty where there is no such folder."""

    @abstractmethod
    def weights(self, name: str, names: list[str]) -> list[int]:
        """Bytes in each of the folders `names` of the folder `name`."""

    @abstractmethod
    def local(self, name: str) -> AbstractContextManager[Path]:
        """A folder as a local one to read, for as long as the block runs."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file or a whole folder; what is not there is removed already."""

    @abstractmethod
    def move(self, name: str, target: str) -> None:
        """Rename a folder."""

    @abstractmethod
    def lock(self, name: str, doing: str, wait_s: float = 0) -> AbstractContextManager[Callable[[], None]]:
        """Be alone for as long as the block runs.

        Parameters
        ----------
        name : str
            The lock: a file of this name.
        doing : str
            Who is at work, for the message to the one who must wait: "another collector".
        wait_s : float
            How long to wait for the holder.

        Yields
        ------
        callable
            Raises StoreError when the lock was lost meanwhile; to be called before what must not happen twice.

        Raises
        ------
        StoreError
            Someone else holds it.
        """

    @abstractmethod
    def arrow(self, name: str, sizes: Mapping[str, int]) -> tuple[pyarrow.fs.FileSystem, str]:
        """A pyarrow file system to read files that never change under their names, and the folder's path in it.

        Parameters
        ----------
        name : str
            The folder that they lie in.
        sizes : dict
            Their names and sizes in bytes.
        """

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole."""
        with self.new_file(name) as place:
            place.write_bytes(data)

    def each(self, function: Callable[[T], Any], items: list[T]) -> list[Any]:
        """Apply a function that waits for the store to many items: side by side where waiting is what takes long."""
        return [function(item) for item in items]


class LocalFolder(Folder):
    """A folder on this machine: renames are atomic, locks are those of the kernel and end with their holder."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.url = str(self.path)

    def exists(self, name: str) -> bool:
        return (self.path / name).exists()

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f".{place.name}.{os.getpid()}-{uuid4().hex[:8]}")
        try:
            yield aside
            _fsync(aside)
            aside.replace(place)
        finally:
            aside.unlink(missing_ok=True)

    @contextmanager
    def new_folder(self, name: str, last: str, *, durable: bool = True) -> Iterator[Path]:
        final = self.path / name
        final.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".staging-", dir=final.parent))
        try:
            yield staging
            staging.chmod(0o755)
            if durable:
                for file in staging.iterdir():
                    _fsync(file)
                _fsync(staging)
            staging.rename(final)
            if durable:
                _fsync(final.parent)
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise

    def tidy(self, name: str) -> None:
        for left in (self.path / name).glob(".*"):
            if _LEFT.fullmatch(left.name):
                self.remove(f"{name}/{left.name}")

    def names(self, name: str = "", *, complete_with: str | None = None) -> list[str]:
        try:
            with os.scandir(self.path / name) as entries:  # a folder appears whole: no need to look into each
                return sorted(e.name for e in entries if not e.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sizes(self, name: str) -> dict[str, int]:
        try:
            with os.scandir(self.path / name) as entries:
                return {e.name: e.stat().st_size for e in entries if e.is_file() and not e.name.startswith(".")}
        except FileNotFoundError:
            return {}

    def weights(self, name: str, names: list[str]) -> list[int]:
        weights = []
        for n in names:  # hundreds of thousands of folders: text, not Path objects
            with os.scandir(f"{self.path}/{name}/{n}") as entries:
                weights.append(sum(e.stat().st_size for e in entries))
        return weights

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        yield self.path / name

    def remove(self, name: str) -> None:
        place = self.path / name
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def move(self, name: str, target: str) -> None:
        (self.path / name).rename(self.path / target)

    @contextmanager
    def lock(self, name: str, doing: str, wait_s: float = 0) -> Iterator[Callable[[], None]]:
        place = self.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + wait_s
        with place.open("a+") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() < until:
                        time.sleep(0.05)
                        continue
                    file.seek(0)
                    raise StoreError(
                        f"{place.parent}: {doing} is at work here (process {file.read().strip() or 'unknown'}); "
                        "wait for it or stop it"
                    ) from None
            file.truncate(0)
            file.write(str(os.getpid()))
            file.flush()

            def check() -> None:  # the kernel never takes a lock away, but its file can be removed, and made anew
                if not (place.exists() and place.samefile(f"/proc/self/fd/{file.fileno()}")):
                    raise StoreError(f"{place}: this lock was removed by someone else; run the command again")

            yield check

    def arrow(self, name: str, sizes: Mapping[str, int]) -> tuple[pyarrow.fs.FileSystem, str]:
        return pyarrow.fs.LocalFileSystem(), str(self.path / name)


class ObjectFolder(Folder):
    """A folder on an object store: a file appears whole when its upload is done; there is no rename.

    Locks: on Azure a lease of the service, renewed while the holder lives, so a dead holder's lock ends by itself. On
    other stores the lock is an object that only one can create; that of a killed holder must be removed by hand, and
    the message says which.
    """

    def __init__(self, url: str) -> None:
        if re.search(r"[?&](sig|sv|se)=", url) or re.match(r"\w+://[^/@]*:[^/@]*@", url):
            raise StoreError(
                "the data root's URL holds a credential; leave it out and set AZURE_STORAGE_SAS_TOKEN, "
                "AZURE_STORAGE_CONNECTION_STRING or use `az login`"
            )
        self.url = url.rstrip("/")
        with _told(self.url):
            opened = fsspec.core.url_to_fs(self.url, use_listings_cache=False)  # type: ignore[no-untyped-call]
            self._fs: Any = opened[0]
            self._base: str = opened[1]
            self._base = self._base.rstrip("/")

    def _at(self, name: str) -> str:
        return f"{self._base}/{name}".rstrip("/")

    def exists(self, name: str) -> bool:
        with _told(self.url):
            return bool(self._fs.exists(self._at(name)))

    def read(self, name: str) -> bytes:
        with _told(self.url):
            data: bytes = self._fs.cat_file(self._at(name))
            return data

    @contextmanager
    def new_file(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="netperf-") as scratch:
            place = Path(scratch) / "new"
            yield place
            with _told(self.url):
                self._fs.put_file(str(place), self._at(name))

    @contextmanager
    def new_folder(self, name: str, last: str, *, durable: bool = True) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="netperf-") as scratch:
            yield Path(scratch)
            files = sorted(Path(scratch).iterdir(), key=lambda f: f.name == last)
            with _told(self.url):
                for file in files:
                    self._fs.put_file(str(file), self._at(f"{name}/{file.name}"))

    def _ls(self, name: str) -> list[dict[str, Any]]:
        with _told(self.url):
            try:
                found: list[dict[str, Any]] = self._fs.ls(self._at(name), detail=True)
            except FileNotFoundError:
                return []
        return found

    def names(self, name: str = "", *, complete_with: str | None = None) -> list[str]:
        if complete_with is not None:
            return sorted(
                {f.split("/")[0] for f in self._find(name) if f.count("/") == 1 and f.endswith(complete_with)}
            )
        found = {str(e["name"]).rstrip("/").rpartition("/")[2] for e in self._ls(name)}
        return sorted(n for n in found if n and not n.startswith("."))

    def _find(self, name: str) -> dict[str, int]:
        """Every file below a folder, named relative to it, with its size."""
        start = self._at(name).lstrip("/")
        with _told(self.url):
            found = self._fs.find(self._at(name), detail=True)
        return {f.lstrip("/").removeprefix(start).lstrip("/"): int(i["size"] or 0) for f, i in found.items()}

    def sizes(self, name: str) -> dict[str, int]:
        files = (e for e in self._ls(name) if e["type"] == "file")
        sizes = {str(e["name"]).rpartition("/")[2]: int(e["size"] or 0) for e in files}
        return {n: size for n, size in sizes.items() if not n.startswith(".")}

    def weights(self, name: str, names: list[str]) -> list[int]:
        total = dict.fromkeys(names, 0)
        for file, size in self._find(name).items():
            inside = file.split("/")[0]
            if inside in total:
                total[inside] += size
        return list(total.values())

    @contextmanager
    def local(self, name: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="netperf-") as scratch:
            copy = Path(scratch) / name.rpartition("/")[2]
            copy.mkdir()
            files = list(self.sizes(name))
            with _told(self.url):
                self._fs.get([self._at(f"{name}/{f}") for f in files], [str(copy / f) for f in files])
            yield copy

    def fetched(self, name: str) -> Path:
        """A local copy of a file that never changes under its name; it may go as soon as it is opened."""
        key = hashlib.blake2s(f"{self.url}/{name}".encode(), digest_size=16).hexdigest()
        place = _cache() / key
        if place.exists():
            os.utime(place)
            return place
        aside = place.with_name(f".{key}.{uuid4().hex[:8]}")
        with _told(self.url):
            self._fs.get_file(self._at(name), str(aside))
        aside.replace(place)
        _cut_back(place.parent)
        return place

    def remove(self, name: str) -> None:
        with _told(self.url), suppress(FileNotFoundError):
            self._fs.rm(self._at(name), recursive=True)

    def move(self, name: str, target: str) -> None:
        with _told(self.url):
            files = [f for f in sorted(self._find(name)) if not any(p.startswith(".") for p in f.split("/"))]
            for file in files:  # copied whole before anything is taken away; locks stay where they are held
                self._fs.cp_file(self._at(f"{name}/{file}"), self._at(f"{target}/{file}"))
            for file in files:
                self._fs.rm_file(self._at(f"{name}/{file}"))

    def each(self, function: Callable[[T], Any], items: list[T]) -> list[Any]:
        with ThreadPoolExecutor(min(16, max(1, len(items)))) as pool:
            return list(pool.map(function, items))

    def arrow(self, name: str, sizes: Mapping[str, int]) -> tuple[pyarrow.fs.FileSystem, str]:
        return pyarrow.fs.PyFileSystem(_Parts(self, name, sizes)), self._at(name)

    # -- locks ---------------------------------------------------------------------------------------------------------

    @cached_property
    def _me(self) -> str:
        return f"process {os.getpid()} on {socket.gethostname()}"

    @contextmanager
    def lock(self, name: str, doing: str, wait_s: float = 0) -> Iterator[Callable[[], None]]:
        take = self._lease if hasattr(self._fs, "service_client") else self._mark
        began = time.monotonic()
        while True:
            held = take(name)
            if not isinstance(held, str):
                break
            patience = wait_s
            if take == self._lease and _died_here(held):  # after a kill the same command goes on: its lease must end
                patience = max(wait_s, LEASE_S + 5)
            if time.monotonic() >= began + patience:
                raise StoreError(f"{self.url}: {doing} is at work here ({held}); wait for it or stop it")
            time.sleep(min(1.0, patience / 10))
        check, release = held
        try:
            yield check
        finally:
            release()

    def _mark(self, name: str) -> tuple[Callable[[], None], Callable[[], None]] | str:
        """A lock that is an object only one can create."""
        place, mine = self._at(name), f"{self._me}, {uuid4().hex}".encode()
        with _told(self.url):
            try:
                self._fs.pipe_file(place, mine, mode="create")
            except FileExistsError:
                try:
                    holder = self._fs.cat_file(place).decode().rpartition(", ")[0]
                except FileNotFoundError:
                    return "it is ending now"
                return f"{holder}; if that one is dead, remove {self.url}/{name}"

        def check() -> None:
            with _told(self.url):
                if self._fs.cat_file(place) != mine:
                    raise StoreError(f"{self.url}: the lock {name} was taken away; run the command again")

        def release() -> None:
            with suppress(StoreError):
                check()
                self.remove(name)

        return check, release

    def _lease(self, name: str) -> tuple[Callable[[], None], Callable[[], None]] | str:
        """A lock that is a lease of Azure on a blob, renewed by a thread."""
        from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError

        place = self._at(name)
        with suppress(FileExistsError), _told(self.url):
            self._fs.pipe_file(place, b"", mode="create")
        container, blob_name, _ = self._fs.split_path(place)
        blob = self._fs.service_client.get_blob_client(container, blob_name)

        def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            return fsspec.asyn.sync(self._fs.loop, function, *args, **kwargs)  # type: ignore[no-untyped-call]

        with _told(self.url):
            try:
                lease = call(blob.acquire_lease, lease_duration=LEASE_S)
            except ResourceNotFoundError:
                return "it is ending now"
            except HttpResponseError as error:
                if error.status_code != 409:
                    raise
                metadata: Mapping[str, str] = call(blob.get_blob_properties).metadata or {}
                return metadata.get("holder", "unknown") + f"; a dead one's lock ends after {LEASE_S} s"
            call(blob.set_blob_metadata, {"holder": self._me}, lease=lease)
        done, lost = threading.Event(), threading.Event()

        def renew() -> None:
            good_until = time.monotonic() + LEASE_S
            while not done.wait(LEASE_S / 4):
                asked = time.monotonic()
                try:
                    call(lease.renew)
                    good_until = asked + LEASE_S
                except HttpResponseError:
                    lost.set()
                    return
                except AzureError:  # the network: the lease still runs
                    if time.monotonic() > good_until:
                        lost.set()
                        return

        def check() -> None:
            try:
                if not lost.is_set():
                    call(lease.renew)
                    return
            except AzureError:
                pass
            raise StoreError(f"{self.url}: the lock {name} was lost (this process stood still); run the command again")

        def release() -> None:
            done.set()
            keeper.join()
            with suppress(AzureError):
                call(lease.release)

        keeper = threading.Thread(target=renew, name=f"lease {name}", daemon=True)
        keeper.start()
        return check, release


class _Parts(pyarrow.fs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """How pyarrow reads files of a folder whose sizes are known: fetched when they are opened, and kept, if small."""

    def __init__(self, folder: ObjectFolder, name: str, sizes: Mapping[str, int]) -> None:
        super().__init__(folder._fs)
        self._folder, self._name, self._sizes = folder, name, sizes

    def get_file_info(self, paths: list[str]) -> list[pyarrow.fs.FileInfo]:
        kind = pyarrow.fs.FileType.File
        return [pyarrow.fs.FileInfo(p, kind, size=self._sizes[p.rpartition("/")[2]]) for p in paths]

    def open_input_file(self, path: str) -> pa.NativeFile:
        file = path.rpartition("/")[2]
        for _ in range(3):
            if self._sizes[file] > CACHED:
                break
            with suppress(FileNotFoundError):  # cut back by another process before it was opened, or merged meanwhile
                return pa.OSFile(str(self._folder.fetched(f"{self._name}/{file}")))
        with _told(self._folder.url):
            return super().open_input_file(path)


def _died_here(holder: str) -> bool:
    """Whether the holder of a lock was a process of this machine that is no more."""
    named = re.match(r"process (\d+) on (\S+);", holder)
    return bool(named and named[2] == socket.gethostname() and not Path(f"/proc/{named[1]}").exists())


def _fsync(place: Path) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cache() -> Path:
    base = os.environ.get("NETPERF_CACHE") or (Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "netperf_lib")
    place = Path(base).expanduser() / "parts"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _cut_back(cache: Path) -> None:
    """Remove what was not read for longest until the cache has its size again."""
    files = sorted(((s := p.stat()).st_mtime, s.st_size, p) for p in cache.iterdir() if not p.name.startswith("."))
    excess = sum(size for _, size, _ in files) - CACHE_BYTES
    for _, size, place in files:
        if excess <= 0:
            break
        place.unlink(missing_ok=True)
        excess -= size


_SECRETS = re.compile(
    r"(AccountKey|SharedAccessSignature|sig|EncryptionKey|client_secret|Authorization)(\s*[=:]\s*)[^;&\s]+", re.I
)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Turn what a store's client raises into one sentence, without anything secret in it."""
    try:
        yield
    except (StoreError, FileNotFoundError, FileExistsError):
        raise
    except ImportError as error:
        raise StoreError(
            f"{url}: {error.name or error} is not installed; `pip install 'netperf_lib[azure]'` for abfs:// "
            "(or the fsspec package of another store)"
        ) from None
    except Exception as error:  # noqa: BLE001 (each store's client has its own tree of exceptions)
        text = _SECRETS.sub(r"\1\2…", str(error) or type(error).__name__).strip().splitlines()[0]
        for name, value in os.environ.items():
            if value and name.startswith(("AZURE_", "AWS_", "GOOGLE_")) and re.search("KEY|SECRET|TOKEN|STRING", name):
                text = text.replace(value, "…")
        raise StoreError(
            f"{url}: the store cannot be used ({text}); check the URL, `az login` or AZURE_STORAGE_*, and the network"
        ) from None
