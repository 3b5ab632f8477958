"""Copies on object stores, and the verbs that read them: a real Azurite on loopback, and fsspec's memory store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib import cli
from netperf_lib.data import files, transfer
from netperf_lib.data.layout import Store
from netperf_lib.data.transfer import pull, push
from netperf_lib.errors import StoreError, UsageError
from netperf_lib.experiment.attached import attached
from netperf_lib.pipeline import collect

from ..azurite import azurite
from ..conftest import REPO
from ..synth import synth

RUNS = 12


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("synthetic")
    synth(root, runs=RUNS, samples=50)
    return root


@pytest.fixture
def local(synthetic: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(synthetic, tmp_path / "local"))


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


def pushed(local: Path, root: str) -> Store:
    assert push(local / "fleet-0001", root) == [f"{root}/fleet-0001"]
    return Store(root, "fleet-0001")


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_same_verbs_give_the_same_tables(local: Path, root: str) -> None:
    target = pushed(local, root)
    assert npl.experiments(root) == [f"{root}/fleet-0001"]
    assert len(target.run_ids()) == RUNS
    assert npl.ingest(root) == RUNS
    assert npl.ingest(root) == 0
    for table in ("runs", "intervals", "percentiles", "samples"):
        here, there = npl.load(local / "fleet-0001", table), npl.load(f"{root}/fleet-0001", table)
        assert attached(here).declared == attached(there).declared
        assert attached(there).path == f"{root}/fleet-0001"
        here.attrs = there.attrs = {}
        pd.testing.assert_frame_equal(here, there)
    assert npl.verify(root) == []
    rows = npl.scan(root, "samples").to_table(columns=["latency_us"])
    assert rows.num_rows == RUNS // 3 * 50
    target.exclude(target.run_ids()[0], "moved")
    assert npl.scan(root).count_rows() == RUNS - 1
    assert npl.scan(root, excluded=True).count_rows() == RUNS


def test_a_copy_pulled_elsewhere_is_the_same_byte_for_byte(
    local: Path, root: str, tmp_path: Path
) -> None:
    source = Path(shutil.copytree(local / "fleet-0001", tmp_path / "here" / "fleet-0001"))
    (source / "hosts").mkdir(exist_ok=True)
    (source / "hosts" / "id_ed25519").write_text("a private key")
    (source / "token").write_text("of this machine")
    expected = content(source)
    del expected["hosts/id_ed25519"], expected["token"]
    push(source, root)
    assert pull(f"{root}/fleet-0001", tmp_path / "there") == [
        str(tmp_path / "there" / "fleet-0001")
    ]
    assert content(tmp_path / "there" / "fleet-0001") == expected
    assert npl.verify(tmp_path / "there") == []


def test_an_interrupted_copy_holds_complete_runs_and_is_continued(
    local: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_AT_ONCE", 3)
    real, written = files.RemoteFolder.write, []

    def killed(self: files.RemoteFolder, name: str, data: bytes) -> None:
        written.append(name)
        if len(written) > 4:
            raise KeyboardInterrupt
        real(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(files.RemoteFolder, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            push(local / "fleet-0001", root)
    target = Store(root, "fleet-0001")
    assert {f"raw/{i}/run.json" for i in target.run_ids()} == set(written[:4])
    with pytest.warns(UserWarning, match="without run.json"):
        assert npl.ingest(target.url) == 4
    steps: list[tuple[int, int]] = []
    push(local / "fleet-0001", root, progress=lambda *step: steps.append(step))
    assert steps[-1] == (RUNS - 4, RUNS - 4)
    assert npl.ingest(target.url) == RUNS
    assert npl.verify(target.url) == []


def test_another_measurement_of_the_name_is_not_mixed_in(
    local: Path, root: str, tmp_path: Path
) -> None:
    target = pushed(local, root)
    synth(tmp_path, runs=RUNS, samples=20, seed=9)
    with pytest.raises(StoreError, match="another measurement"):
        push(tmp_path / "fleet-0001", root)
    [beside] = push(tmp_path / "fleet-0001", root, dated=True)
    assert beside.startswith(f"{target.url}-2026")
    assert npl.verify(root) == []
    with pytest.raises(UsageError, match="not the URL"):
        push(tmp_path / "fleet-0001", str(tmp_path))


def test_nothing_is_measured_into_an_object_store(root: str) -> None:
    with pytest.raises(StoreError, match="npl push"), Store(root, "demo").lock():
        pass


@pytest.mark.slow
def test_a_cluster_reads_what_was_pushed(local: Path, root: str) -> None:
    if root.startswith("memory"):
        pytest.skip("the memory of this process is not that of a worker")
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install distributed"
    )
    target = pushed(local, root)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        assert npl.ingest(target.url, workers=cluster.scheduler_address) == RUNS
    assert npl.load(target.url)["status"].eq("ok").all()


def test_a_reader_that_may_not_write_reads_what_is_not_in_the_tables(
    local: Path, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = pushed(local, root)

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
        "import fsspec, pickle, sys; from netperf_lib.data.transfer import push; import netperf_lib as npl\n"
        "fsspec.filesystem('abfs').mkdir('secret')\n"
        f"push({str(local)!r}, 'abfs://secret/r')\n"
        "npl.load('abfs://secret/r/fleet-0001')\n"
        "from netperf_lib.data.layout import Store\n"
        "store = Store('abfs://secret/r', 'fleet-0001'); print(repr(store), pickle.dumps(store))\n"
        "npl.load('abfs://nowhere/r/x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=360
    )
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

    monkeypatch.setattr(
        "azure.storage.blob._shared.policies_async.AsyncStorageRetryPolicy.sleep", at_once
    )
    with pytest.raises(StoreError, match="the store cannot be used") as caught:
        files.RemoteFolder("abfs://c/x").read("y")
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
    with pytest.raises(
        StoreError, match=r"the Python package gcsfs is not installed; .* install gcsfs` for other"
    ):
        files.folder("gs://c/x")


def test_the_verbs_copy_there_and_back_and_leave_a_run_out(local: Path, tmp_path: Path) -> None:
    url = f"memory://{tmp_path.name}-verbs"
    assert CliRunner().invoke(cli.npl, ["push", str(local), url]).output == f"{url}/fleet-0001\n"
    pulled = CliRunner().invoke(cli.npl, ["pull", url, str(tmp_path / "there")])
    assert pulled.output == f"{tmp_path / 'there' / 'fleet-0001'}\n"
    exp = tmp_path / "there" / "fleet-0001"
    [run_id, *_] = Store.at(exp).run_ids()
    done = CliRunner().invoke(
        cli.npl, ["exclude", str(exp), run_id, "--because", "a cable was pulled"]
    )
    assert (done.exit_code, done.output) == (0, "")
    assert Store.at(exp).exclusions() == {run_id: "a cable was pulled"}
    assert npl.scan(exp).count_rows() == RUNS - 1
    with pytest.raises(StoreError, match="no run 'x' to exclude"):
        CliRunner().invoke(
            cli.npl, ["exclude", str(exp), "x", "--because", "y"], catch_exceptions=False
        )
    with pytest.raises(StoreError, match="npl push"):  # before any host is touched
        collect(REPO / "data" / "experiments" / "lab.yaml", root=url)
