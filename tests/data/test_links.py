"""A folder of others may hold links: nothing outside of it is written or removed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import netperf_lib as npl
from netperf_lib.data.layout import Store
from netperf_lib.data.shipped import report_folder
from netperf_lib.errors import NetperfError

RECORDED = Path(npl.recorded())


@pytest.fixture
def received(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "received"))


@pytest.fixture
def thesis(tmp_path: Path) -> Path:
    (tmp_path / "mydata" / "photos").mkdir(parents=True)
    (tmp_path / "mydata" / "photos" / "one.jpg").write_text("a photo")
    (tmp_path / "mydata" / "part-1.parquet").write_text("a table of mine")
    return tmp_path / "mydata"


def content(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", ["tables", "tables/runs", "tables/samples"])
def test_linked_tables_leave_the_target_as_it_is(received: Path, thesis: Path, name: str) -> None:
    before = content(thesis)
    shutil.rmtree(received / "tables", ignore_errors=True)
    (received / name).parent.mkdir(exist_ok=True)
    (received / name).symlink_to(thesis)
    with pytest.raises(NetperfError, match=f"{received / name}: a link to elsewhere"):
        npl.load(received)
    assert content(thesis) == before


def test_only_parts_are_removed_from_the_tables(received: Path) -> None:
    npl.ingest(received)
    (received / "tables" / "runs" / "notes.txt").write_text("mine")
    (received / "tables" / "runs" / "part-0.parquet").write_text("of an old version")
    shutil.copy(received / "digests" / "d01-r0001-0064.sha256", received / "tables" / "runs" / "a")
    next((received / "raw").iterdir()).rename(received / "raw" / "d01-r900-x-a1")
    npl.ingest(received)
    names = {p.name for p in (received / "tables" / "runs").iterdir()}
    assert {"notes.txt", "a"} < names
    assert "part-0.parquet" not in names


def test_a_linked_folder_of_reports_is_not_written(received: Path, thesis: Path) -> None:
    before = content(thesis)
    (received / "reports").symlink_to(thesis)
    with pytest.raises(NetperfError, match="reports: a link to elsewhere"):
        report_folder(str(received), "received")
    assert content(thesis) == before


@pytest.mark.parametrize("name", ["hosts", "hosts/host-keys"])
def test_a_linked_state_of_hosts_is_refused(received: Path, thesis: Path, name: str) -> None:
    shutil.rmtree(received / name, ignore_errors=True)
    (received / name).symlink_to(thesis)
    with pytest.raises(NetperfError, match="a link to elsewhere"):
        _ = Store.at(received).hosts_dir


def test_a_file_is_not_written_through_a_link(received: Path, thesis: Path) -> None:
    before = content(thesis)
    (received / "digests" / "x").symlink_to(thesis / "part-1.parquet")
    with pytest.raises(NetperfError, match="a link to elsewhere"):
        Store.at(received).files.write("digests/x", b"a line")
    assert content(thesis) == before
