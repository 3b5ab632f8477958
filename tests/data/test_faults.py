"""Every read and every write can fail: nothing is lost, and a passing fault is no fact of a run."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import netperf_lib as npl
from netperf_lib.data import files, logs
from netperf_lib.errors import NetperfError, explain

RECORDED = Path(npl.recorded())
QPERF = "tcp_lat:\n    latency  =  {} us\n"
REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EIO: "try another disk",
    errno.EACCES: "get permission",
}
OPERATIONS = {"os.rename", "os.mkdir", "os.remove", "os.rmdir"}
"""Events that Python audits, besides opening."""


@dataclass
class Fault:
    """An operation below a folder that fails, once."""

    folder: str = "\0"
    number: int = 0
    code: int = 0
    count: int = 0

    def meet(self, path: Any) -> None:
        if not str(path).startswith(self.folder):
            return
        self.count += 1
        if self.count == self.number:
            raise OSError(self.code, os.strerror(self.code), str(path))


FAULT = [Fault()]


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" or event in OPERATIONS:
        FAULT[0].meet(
            os.fsdecode(arguments[0]) if isinstance(arguments[0], bytes) else arguments[0]
        )


sys.addaudithook(audit)


@contextmanager
def fault(folder: Path, number: int, code: int) -> Iterator[Fault]:
    """Let an operation below a folder fail; `number` 0 counts them only."""
    FAULT[0] = Fault(str(folder), number, code)
    try:
        yield FAULT[0]
    finally:
        FAULT[0] = Fault()


@pytest.fixture(autouse=True)
def writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes count too: they happen in C, where nothing is audited."""
    fsync, write = files._fsync, Path.write_bytes
    rows = pq.ParquetWriter.write_table

    def meet_fsync(path: Path) -> None:
        FAULT[0].meet(path)
        fsync(path)

    def meet_write(path: Path, data: bytes) -> int:
        FAULT[0].meet(path)
        return write(path, data)

    def meet_rows(writer: pq.ParquetWriter, *arguments: Any, **options: Any) -> None:
        FAULT[0].meet(writer.where)
        rows(writer, *arguments, **options)

    monkeypatch.setattr(files, "_fsync", meet_fsync)
    monkeypatch.setattr(Path, "write_bytes", meet_write)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", meet_rows)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Logs of four runs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in (1, 2):
        for placement in ("ppg", "zone"):
            name = folder / f"{placement}-r{number}.txt"
            name.write_text(QPERF.format(40 + number + 9 * (placement == "zone")))
    return folder


def import_few(few: Path, place: Path) -> None:
    npl.import_logs(few, pattern="{placement}-r{round}.txt", into=place)


def ingest_few(_few: Path, place: Path) -> None:
    npl.ingest(place)


def state(place: Path) -> tuple[set[str], list[tuple[Any, ...]]]:
    """The names of all files, also of drafts, and the runs."""
    runs = npl.load(place)[["run_id", "placement", "round", "latency_oneway_us", "status"]]
    names = {str(path.relative_to(place)) for path in place.rglob("*")}
    return names, sorted(runs.itertuples(index=False, name=None))


def outcome(command: Callable[[Path, Path], None], few: Path, place: Path) -> str:
    """What the command line prints of an error; nothing if there was none."""
    try:
        command(few, place)
    except NetperfError as error:
        return str(error)
    except (OSError, MemoryError) as error:
        return explain(error) or repr(error)
    return ""


@pytest.mark.parametrize("command", [import_few, ingest_few])
def test_each_operation_may_fail_once(
    few: Path, tmp_path: Path, command: Callable[[Path, Path], None]
) -> None:
    start = tmp_path / "start"
    start.mkdir()
    if command is ingest_few:
        import_few(few, start / "mine")
        shutil.rmtree(start / "mine" / "tables", ignore_errors=True)
    good = Path(shutil.copytree(start, tmp_path / "good")) / "mine"
    with fault(tmp_path, 0, 0) as counted:
        command(few, good)
    assert counted.count > 20
    for number in range(1, counted.count + 1):
        code = list(REMEDIES)[number % 3]
        place = Path(shutil.copytree(start, tmp_path / "try" / f"{number}")) / "mine"
        with fault(tmp_path, number, code):
            said = outcome(command, few, place)
        if said:
            assert REMEDIES[code] in said, (number, code)
            assert str(tmp_path) in said, (number, code)
        command(few, place)
        assert state(place) == state(good), (number, code)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = Path(shutil.copytree(RECORDED, tmp_path / "place"))
    shutil.rmtree(place / "tables", ignore_errors=True)
    return place


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "Input/output error"), MemoryError(), FileNotFoundError(2, "gone")]
)
def test_a_passing_read_error_is_no_row(
    place: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Callable[..., Any] = logs._unpacked
    calls: list[int] = []

    def once(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 100:
            raise error
        return read(*arguments)

    monkeypatch.setattr(logs, "_unpacked", once)
    with pytest.raises(NetperfError):
        npl.ingest(place)
    assert npl.ingest(place) == 264
    assert set(npl.load(place)["status"]) == {"ok"}


def test_a_log_that_was_restored_is_read_again(place: Path) -> None:
    log = next(place.glob("raw/*/client.out"))
    data = log.read_bytes()
    log.unlink()
    assert "failed" in set(npl.load(place)["status"])
    log.write_bytes(data)
    assert set(npl.load(place)["status"]) == {"ok"}


def test_an_old_draft_is_removed_and_a_new_one_stays(place: Path) -> None:
    folder = place / "tables" / "runs"
    folder.mkdir(parents=True)
    old, new = (folder / f".d01-r0001-0064.parquet.{n * 32}" for n in ("0", "1"))
    for draft in (old, new):
        draft.touch()
    os.utime(old, (0, 0))
    npl.ingest(place)
    assert [p.name for p in folder.glob(".*")] == [new.name]
