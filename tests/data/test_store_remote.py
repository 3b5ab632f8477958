"""A copy at a URL of fsspec is read there, and its tables are written there."""

from __future__ import annotations

import pickle
from pathlib import Path

import fsspec
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.data import files
from netperf_lib.data.layout import Store
from netperf_lib.errors import StoreError

from ..synth import synth

RUNS = 12


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("synthetic")
    synth(root, runs=RUNS, samples=50)
    return root


@pytest.fixture
def root(local: Path, tmp_path: Path) -> str:
    url = f"memory://{tmp_path.name}"
    fsspec.filesystem("memory").put(str(local), url.removeprefix("memory:/"), recursive=True)
    return url


def test_a_url_gives_the_tables_of_the_folder(local: Path, root: str) -> None:
    assert npl.experiments(root) == [f"{root}/fleet-0001"]
    assert npl.ingest(root) == RUNS
    assert npl.ingest(root) == 0
    for table in ("runs", "intervals", "percentiles", "samples"):
        here, there = (npl.load(f"{top}/fleet-0001", table) for top in (local, root))  # type: ignore[arg-type]
        pd.testing.assert_frame_equal(here, there)
    assert npl.verify(root) == []


@pytest.mark.filterwarnings("ignore:.*cannot be written")
def test_a_reader_that_may_not_write_reads(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "AuthorizationPermissionMismatch")

    for name in ("put_file", "pipe_file", "rm_file"):
        monkeypatch.setattr(type(fsspec.filesystem("memory")), name, denied)
    assert len(npl.load(f"{root}/fleet-0001")) == RUNS


def test_nothing_is_written_but_into_a_folder(root: str, tmp_path: Path) -> None:
    store = Store(root, "fleet-0001")
    with pytest.raises(StoreError, match="only a folder of this machine is written"):
        store.exclude(store.run_ids()[0], "x")
    with pytest.raises(StoreError, match="only a folder"), store.lock():
        pass
    assert store.exclusions() == {}
    (tmp_path / "x.tar.gz").write_bytes(b"")
    with pytest.raises(StoreError, match="unpack an archive with tar xf"):
        Store.at(tmp_path / "x.tar.gz")


def test_a_url_with_a_credential_is_refused() -> None:
    for url in ("abfs://c/x?sig=abc%3D", "s3://user:secret@c/x"):
        with pytest.raises(StoreError, match="contains a credential"):
            files.folder(url)


def test_no_credential_travels_to_a_worker(root: str) -> None:
    store = Store(root, "fleet-0001")
    assert pickle.loads(pickle.dumps(store)).run_ids() == store.run_ids()
    assert b"fleet-0001" in pickle.dumps(store)
    assert len(pickle.dumps(store)) < 300


def test_a_store_that_fails_is_one_sentence(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> None:
        raise RuntimeError("AccountKey=c2VjcmV0;\nmany more lines")

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "exists", broken)
    with pytest.raises(StoreError, match=r"cannot be used \(RuntimeError\)") as caught:
        npl.load(f"{root}/fleet-0001")
    assert "c2VjcmV0" not in str(caught.value)


def test_a_missing_package_is_named() -> None:
    with pytest.raises(StoreError, match=r"the Python package gcsfs is missing; `.* gcsfs`"):
        files.folder("gs://c/x")
