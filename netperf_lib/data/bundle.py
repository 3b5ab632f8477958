"""An experiment as one file that can be sent: a tar archive, which is read like the folder that it was made of.

What it may hold is listed here; anything else in an archive, and more than it can sensibly unpack to, is refused before
it is written.
"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from ..errors import StoreError
from .files import Folder, Location, sha256_of, state_folder

SUFFIX = ".npl.tar.gz"
ROOT = "root.txt"
"""File of an archive that holds the root digest of the experiment."""
_NAME = r"[\w+=@,-][\w.+=@,-]{0,250}"
_MEMBER = re.compile(
    rf"experiment\.yaml|plan\.json|exclusions\.json|{re.escape(ROOT)}|hosts/deployment-\d+\.json|"
    rf"excluded/{_NAME}\.json|digests/{_NAME}\.sha256|raw/{_NAME}/{_NAME}|tables/\w+/{_NAME}\.parquet|"
    r"reports/[\w.-]+\.(?:pdf|html)"
)
_RATIO, _SMALL, _BLOCK = 200, 1 << 28, 4096
"""An archive unpacks to at most this many times its size, and a small one to this; a file takes a block at least."""
_AT_ONCE = 1 << 26


def is_bundle(location: Location) -> bool:
    """Whether a path is that of an archive of one experiment."""
    return str(location).endswith(SUFFIX) and Path(location).is_file()


def pack(folder: Path, name: str, root: str, target: Path, reports: Iterable[Path] = ()) -> Path:
    """Write the archive of an experiment's folder; the same folder gives the same bytes."""
    with (
        Folder(str(target.parent)).new_file(target.name) as draft,
        draft.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        _add(archive, f"{name}/{ROOT}", f"{root}\n".encode())
        for path in _members(folder, reports):
            _add(archive, f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return target


def _members(folder: Path, reports: Iterable[Path]) -> Iterator[Path]:
    chosen = set(reports)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() and name.startswith("raw/"):
            raise StoreError(
                f"{path} is a link to elsewhere, which cannot be sent; put a copy in its place"
            )
        included = path in chosen if name.startswith("reports/") else _MEMBER.fullmatch(name)
        if included and path.is_file() and not path.is_symlink():
            yield path


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.mode, member.size = 0o644, len(data)
    archive.addfile(member, io.BytesIO(data))


class _Careful(gzip.GzipFile):
    """Compressed data of others: the header of a member cannot ask for any amount of memory."""

    def read(self, size: int | None = -1) -> bytes:
        """Read at most 64 MiB at a time."""
        if size is None or size < 0 or size > _AT_ONCE:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return super().read(size)


def opened(location: Location) -> Location:
    """The folder of an experiment: for an archive, the one that it was unpacked to; anything else as it is.

    StoreError if the archive is damaged, or holds what no experiment has.
    """
    if not is_bundle(location):
        return location
    path = Path(location).resolve()
    at = path.stat()
    return _unpacked(path, at.st_size, at.st_mtime_ns)


@lru_cache(maxsize=64)
def _unpacked(path: Path, size: int, _changed: int) -> Path:
    parent = state_folder() / "bundles" / sha256_of(path)[:32]
    if parent.is_dir() and (inside := [p for p in parent.iterdir() if p.is_dir()]):
        return inside[0]
    parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".", dir=parent.parent) as scratch:
        unpacked = Path(scratch, "whole")
        unpacked.mkdir(mode=0o700)
        try:
            with _Careful(path) as packed, tarfile.open(fileobj=packed, mode="r:") as archive:
                name = _extract(archive, unpacked, max(_SMALL, _RATIO * size))
        except (
            tarfile.TarError,
            EOFError,
            gzip.BadGzipFile,
            zlib.error,
            ValueError,
            FileExistsError,
        ) as error:
            raise StoreError(
                f"{path}: not the archive of an experiment, or damaged ({error})"
            ) from None
        if not (unpacked / name / "experiment.yaml").is_file():
            raise StoreError(f"{path}: no experiment in it (no experiment.yaml)")
        shutil.rmtree(parent, ignore_errors=True)
        unpacked.rename(parent)
    return parent / name


def _extract(archive: tarfile.TarFile, into: Path, most: int) -> str:
    """Write the members of an archive that an experiment may have; return the name of the experiment."""
    name, total = "", 0
    for member in archive:
        top, _, inside = member.name.partition("/")
        name = name or top
        if top != name or not re.fullmatch(_NAME, top) or not _MEMBER.fullmatch(inside):
            raise ValueError(f"{member.name[:100]!r} is no file of an experiment")
        total += max(member.size, _BLOCK)
        if total > most:
            raise ValueError(f"it would unpack to more than {most:,} bytes")
        target = into / top / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        data = archive.extractfile(member) if member.isreg() else None
        if data is None:
            raise ValueError(f"{member.name[:100]!r} is no plain file")
        with data, target.open("xb") as file:
            shutil.copyfileobj(data, file, 1 << 20)
    return name
