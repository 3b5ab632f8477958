"""Every read and every write can fail: nothing is lost, and a passing fault is no fact of a run."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netperf_lib as npl
from netperf_lib.data import logs
from netperf_lib.errors import NetperfError

RECORDED = Path(npl.recorded())


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
