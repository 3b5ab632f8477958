"""The same verbs on object stores: a real Azurite on loopback, and fsspec's own memory store."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.data import files
from netperf_lib.data.layout import Store
from netperf_lib.data.synth import synth
from netperf_lib.errors import StoreError

from ..azurite import azurite

RUNS = 24


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("local")
    synth(root, runs=RUNS, samples=50)
    return root


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("adlfs", reason="adlfs is not installed: pip install adlfs")
    with azurite(tmp_path_factory.mktemp("azurite")) as string:
        yield string


@pytest.fixture(params=["abfs", "memory"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", request.getfixturevalue("connection"))
    container = f"c{abs(hash(tmp_path)) % 10**12}"
    fsspec.filesystem("abfs").mkdir(container)
    return f"abfs://{container}/fleet"


def copied(local: Path, root: str) -> Store:
    """The local fleet measured into a store elsewhere, run by run."""
    source, target = Store(local, "fleet-0001"), Store(root, "fleet-0001")
    target.declare(source.declared())
    target.write_plan(source.read_plan() or {})
    for run_id in source.run_ids():
        with target.new_run(run_id) as place:
            for file in (source.path / "raw" / run_id).iterdir():
                (place / file.name).write_bytes(file.read_bytes())
    return target


def test_the_same_verbs_give_the_same_tables(local: Path, root: str) -> None:
    target = copied(local, root)
    assert npl.experiments(root) == [f"{root}/fleet-0001"]
    assert len(target.run_ids()) == RUNS
    assert npl.ingest(root) == RUNS
    assert npl.ingest(root) == 0
    for table in ("runs", "intervals", "percentiles", "samples"):
        here, there = npl.load(local / "fleet-0001", table), npl.load(f"{root}/fleet-0001", table)
        assert here.attrs["experiment"] == there.attrs["experiment"]
        assert there.attrs["path"] == f"{root}/fleet-0001"
        here.attrs = there.attrs = {}
        pd.testing.assert_frame_equal(here, there)
    assert npl.verify(root) == []
    rows = npl.scan(root, "samples").to_table(columns=["latency_us"])
    assert rows.num_rows == RUNS // 3 * 50
    target.exclude(target.run_ids()[0], "moved")
    assert npl.scan(root).count_rows() == RUNS - 1
    assert npl.scan(root, excluded=True).count_rows() == RUNS


def test_a_run_without_its_record_does_not_exist(root: str) -> None:
    store = Store(root, "demo")
    store._files.write("raw/d01-r001-x/client.out", b"half")
    assert store.run_ids() == []
    with store.new_run("d01-r001-x") as place:  # the interrupted one is written again
        (place / "client.out").write_text("whole")
        (place / "run.json").write_text("{}")
    assert store.run_ids() == ["d01-r001-x"]
    with pytest.raises(StoreError, match="never overwritten"), store.new_run("d01-r001-x"):
        pass


def test_the_record_is_the_last_to_come(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(root, "demo")
    order: list[str] = []
    fs = store._files._fs  # type: ignore[attr-defined]
    put, pipe = fs.put_file, fs.pipe_file
    monkeypatch.setattr(fs, "put_file", lambda a, b, **k: (order.append(b.rpartition("/")[2]), put(a, b, **k)))
    monkeypatch.setattr(fs, "pipe_file", lambda a, b, **k: (order.append(a.rpartition("/")[2]), pipe(a, b, **k)))
    with store.new_run("d01-r001-x") as place:
        for name in ("run.json", "client.out", "server.out"):
            (place / name).write_text("{}")
    assert order[-1] == "run.json"
    assert sorted(order) == ["client.out", "d01-r0001-0064.sha256", "run.json", "server.out"]


def test_one_holder_of_a_lock(root: str) -> None:
    one, other = Store(root, "demo"), Store(root, "demo")
    with one.lock(), pytest.raises(StoreError, match=rf"another collector is at work here \(process {os.getpid()} on "):
        other.lock().__enter__()
    with other.lock():
        pass


def test_a_dead_holders_claim_is_taken_over(root: str) -> None:
    store = Store(root, "demo")
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    claim = {"host": socket.gethostname(), "pid": dead.pid, "since_utc": "2026-01-01", "started": "1", "id": "x"}
    store._files.create("collector.json", json.dumps(claim).encode())
    with store.lock():
        pass
    store._files.create("collector.json", json.dumps(claim | {"host": "elsewhere"}).encode())
    with pytest.raises(StoreError, match=rf"process {dead.pid} on elsewhere, since 2026-01-01"), store.lock():
        pass


def test_nothing_is_published_without_the_claim(root: str) -> None:
    """A collector that slept while another took over."""
    one, other = Store(root, "demo"), Store(root, "demo")
    with one.lock():
        with one.new_run("d01-r001-x") as place:
            (place / "run.json").write_text("{}")
        other._files.remove("collector.json")
        with (
            other.lock(),
            pytest.raises(StoreError, match="was removed"),
            one.new_run("d01-r001-y") as place,
        ):
            (place / "run.json").write_text("{}")
    assert one.run_ids() == ["d01-r001-x"]


def test_a_record_is_written_only_if_absent(root: str) -> None:
    one, other = Store(root, "demo"), Store(root, "demo")

    def both() -> None:
        with one.new_run("d01-r001-x") as place:
            (place / "run.json").write_text('{"by": "one"}')
            with other.new_run("d01-r001-x") as place:
                (place / "run.json").write_text('{"by": "other"}')

    with pytest.raises(StoreError, match="never overwritten"):
        both()
    assert one.run("d01-r001-x") == {"by": "other"}


def test_a_reader_that_may_not_write_reads_what_is_not_in_the_tables(
    local: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = copied(local, root)

    def denied(*args: Any, **kwargs: Any) -> None:
        raise PermissionError(13, "AuthorizationPermissionMismatch")

    client = type(fsspec.core.url_to_fs(root)[0])
    for name in ("put_file", "pipe_file", "rm", "rm_file"):
        monkeypatch.setattr(client, name, denied)
    with pytest.warns(UserWarning, match="cannot be written"):
        assert len(npl.load(target.url)) == RUNS
    assert len(npl.load(target.url, "samples")) == RUNS // 3 * 50


def test_no_credential_is_kept_or_shown(connection: str, local: Path, tmp_path: Path) -> None:
    key = connection.partition("AccountKey=")[2].partition(";")[0]
    state = tmp_path / "state"
    env = {
        **os.environ,
        "AZURE_STORAGE_CONNECTION_STRING": connection,
    }
    env |= {"XDG_STATE_HOME": str(state), "HOME": str(tmp_path)}
    code = (
        "import fsspec, pickle, sys; from netperf_lib.data.synth import synth; import netperf_lib as npl\n"
        "fsspec.filesystem('abfs').mkdir('secret')\n"
        "synth('abfs://secret/r', runs=4, samples=5)\n"
        "npl.load('abfs://secret/r/fleet-0001')\n"
        "from netperf_lib.data.layout import Store\n"
        "store = Store('abfs://secret/r', 'fleet-0001'); print(repr(store), pickle.dumps(store))\n"
        "npl.load('abfs://nowhere/r/x')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=360)
    assert "no experiment here" in done.stderr
    assert "Store('abfs://secret/r/fleet-0001')" in done.stdout
    assert key not in done.stdout + done.stderr
    written = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert not [p for p in written if key.encode() in p.read_bytes()]
    with_key = "abfs://c/x?sig=abc%3D"
    with pytest.raises(StoreError, match="remove it"):
        files.folder(with_key)


def test_an_unreachable_store_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING",
        "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0a2V5;BlobEndpoint=http://127.0.0.1:1/a;",
    )

    async def at_once(*_: object) -> None:
        """Azure's client waits 80 s between its tries."""

    monkeypatch.setattr("azure.storage.blob._shared.policies_async.AsyncStorageRetryPolicy.sleep", at_once)
    with pytest.raises(StoreError, match="the store cannot be used") as caught:
        files.ObjectFolder("abfs://c/x").read("y")
    assert "c2VjcmV0a2V5" not in str(caught.value)
    with pytest.raises(StoreError, match=r"cannot be used|not installed"):
        files.folder("nosuch://c/x")


def test_nobody_is_logged_in(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AZURE_", "IDENTITY_", "MSI_"))}
    done = subprocess.run(  # in a network of its own, which ends nowhere
        [
            "unshare",
            "--map-root-user",
            "--net",
            sys.executable,
            "-m",
            "netperf_lib",
            "ingest",
            "abfs://x@none.dfs.core.windows.net/y",
        ],
        env=env | {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
    assert "nobody is logged in" in done.stderr


def test_a_missing_package_is_named() -> None:
    with pytest.raises(StoreError, match=r"the Python package gcsfs is not installed; .* install gcsfs` for other"):
        files.folder("gs://c/x")


def test_reports_come_to_where_the_data_are(root: str) -> None:
    store = Store(root, "demo")
    made = store.reports_dir / "levels.pdf"
    made.write_bytes(b"%PDF")
    assert store.publish([made]) == [f"{root}/demo/reports/levels.pdf"]
    assert store._files.read("reports/levels.pdf") == b"%PDF"


def test_a_measurement_is_set_aside(local: Path, root: str) -> None:
    target = copied(local, root)
    npl.ingest(target.url)
    aside = target.set_aside_unless_open(target.declared())
    assert str(aside).startswith(f"{root}/fleet-0001-2026")
    assert target.run_ids() == []
    moved = Store.at(str(aside))
    assert len(moved.run_ids()) == RUNS
    assert set(npl.load(moved.url)["experiment"]) == {moved.experiment}  # the folder's name tells experiments apart
    assert json.loads(moved._files.read("plan.json"))
