"""A copy at a URL of fsspec is read."""

from pathlib import Path

import fsspec
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.data import files
from netperf_lib.data.layout import Store
from netperf_lib.data.shipped import report_folder
from netperf_lib.errors import StoreError

from ..synth import synth

RUNS = 12


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    root = tmp_path_factory.mktemp("synthetic")
    synth(root, runs=RUNS, samples=50)
    return root


@pytest.fixture
def root(local, tmp_path):
    url = f"memory://{tmp_path.name}"
    fsspec.filesystem("memory").put(
        str(local), url.removeprefix("memory:/"), recursive=True
    )
    return url


def test_a_url_gives_the_tables_of_the_folder(local, root):
    assert [Path(path).name for path in npl.experiments(root)] == ["fleet-0001"]
    for table in ("runs", "intervals", "percentiles"):
        here, there = (npl.load(f"{top}/fleet-0001", table) for top in (local, root))
        pd.testing.assert_frame_equal(here, there)
    assert npl.verify(root) == []


def test_nothing_is_written_into_the_copy_of_a_url(root, tmp_path, monkeypatch):
    store = Store.at(f"{root}/fleet-0001")
    for write in (
        lambda: store.exclude(store.run_ids()[0], "x"),
        lambda: store.lock().__enter__(),
    ):
        with pytest.raises(StoreError, match="only a folder of this machine is written"):
            write()
    monkeypatch.chdir(tmp_path)
    assert report_folder(store.location, "x") == tmp_path / "reports" / "x"
    (tmp_path / "x.tar.gz").write_bytes(b"")
    with pytest.raises(StoreError, match="unpack an archive with tar xf"):
        Store.at(tmp_path / "x.tar.gz")


def test_tables_of_a_url_are_written_to_it(root):
    bucket = fsspec.filesystem("memory")
    tables = f"{root.removeprefix('memory:/')}/fleet-0001/tables"
    bucket.rm(tables, recursive=True)
    bucket.pipe_file(f"{tables}/runs/d09-r0001-0064.parquet", b"a part without runs")
    assert npl.ingest(root) == RUNS
    copy = files.local(root) / "fleet-0001" / "tables"
    parts = {path.relative_to(copy).as_posix() for path in copy.rglob("*.parquet")}
    assert {name.partition("/tables/")[2] for name in bucket.find(tables)} == parts


def test_only_parts_that_changed_are_sent(root, monkeypatch):
    bucket, sent = fsspec.filesystem("memory"), list[str]()
    put_file = bucket.put_file

    def counted(here, there, **options):
        sent.append(there)
        put_file(here, there, **options)

    monkeypatch.setattr(bucket, "put_file", counted)
    npl.ingest(root)
    sent.clear()
    npl.ingest(root)
    assert sent == []
    [part] = (files.local(root) / "fleet-0001" / "tables" / "runs").glob("*.parquet")
    part.unlink()
    npl.ingest(root)
    assert part.name in {Path(name).name for name in sent}


def test_a_name_at_a_url_leads_nowhere_else(tmp_path):
    bucket = fsspec.filesystem("memory")
    bucket.pipe_file(f"/{tmp_path.name}/x/../../evil.txt", b"x")
    with pytest.raises(StoreError, match=r"cannot be used \(ValueError\)"):
        npl.read(f"memory://{tmp_path.name}")


def test_a_url_with_a_credential_is_refused():
    for url in ("abfs://c/x?sig=abc%3D", "s3://user:secret@c/x"):
        with pytest.raises(StoreError, match="contains a credential"):
            files.local(url)


def test_a_store_that_fails_is_one_sentence(root, monkeypatch):
    def broken(*_arguments, **_options):
        raise RuntimeError("AccountKey=c2VjcmV0;\nmany more lines")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "find", broken)
    with pytest.raises(StoreError, match=r"cannot be used \(RuntimeError\)") as caught:
        npl.load(f"{root}/fleet-0001")
    assert "c2VjcmV0" not in str(caught.value)


def test_a_missing_package_is_named():
    with pytest.raises(StoreError, match=r"gcsfs.*install the package with pip"):
        files.local("gs://c/x")
