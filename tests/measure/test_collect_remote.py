"""Measuring straight into an object store: real hosts of the lab, real tools, a real Azurite; and kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

import netperf_lib as npl
from netperf_lib.data.layout import Store

from ..azurite import azurite
from ..test_end_to_end import SERVERS, _no_lab, _within, command, declare

pytestmark = [
    pytest.mark.skipif(bool(_no_lab()), reason=f"no lab can run here: {_no_lab()}"),
    pytest.mark.slow,
    pytest.mark.timeout(2700),  # a killed collector's lease, a lab made twice, and a report
]
ROUNDS = 2
ROOT = "abfs://measured/2026 #1"
"""With characters that mean something in a URL."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    pytest.importorskip("adlfs", reason="adlfs is not installed: pip install adlfs")
    (tmp_path / "azurite").mkdir()
    monkeypatch.setenv("NETPERF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with azurite(tmp_path / "azurite") as connection:
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
        kind = fsspec.get_filesystem_class("abfs")
        kind.clear_instance_cache()  # of the store of another test, which is gone
        fsspec.filesystem("abfs").mkdir("measured")
        yield tmp_path
        kind.clear_instance_cache()


def test_measured_killed_gone_on_with_and_reported_from_there(folder: Path) -> None:
    file = declare(folder, ROUNDS)
    words = command("collect", file, "--root", ROOT, "--seed", "1")
    store = Store(ROOT, "small")
    with (folder / "killed.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, cwd=folder)
        try:
            assert _within(360, lambda: process.poll() is not None or len(store.run_ids()) >= 2)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    complete = {run_id: store.run(run_id) for run_id in store.run_ids()}
    assert len(complete) >= 2, (folder / "killed.log").read_text()

    done = subprocess.run(words, capture_output=True, text=True, timeout=750, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == f"{ROOT}/small"
    assert {run_id: store.run(run_id) for run_id in complete} == complete  # what was there stayed
    assert npl.verify(ROOT) == []

    ingested = subprocess.run(command("ingest", ROOT, "--workers", "2"), capture_output=True, text=True, timeout=360)
    assert int(ingested.stdout.split()[0]) == len(store.run_ids()), ingested.stderr
    runs = npl.load(f"{ROOT}/small")
    good = runs[runs["status"] == "ok"]
    assert good.groupby("placement")["round"].nunique().to_dict() == dict.fromkeys([p for _, p, _ in SERVERS], ROUNDS)
    compared = subprocess.run(
        command("compare", f"{ROOT}/small", "--json"), capture_output=True, text=True, timeout=360
    )
    assert json.loads(compared.stdout), compared.stderr

    made = subprocess.run(
        command("report", f"{ROOT}/small", "--notebook", "01-placement"), capture_output=True, text=True, timeout=750
    )
    assert made.returncode == 0, made.stderr
    assert store._files.read("reports/01-placement.pdf").startswith(b"%PDF")
    notebook = json.loads(store._files.read("reports/01-placement.ipynb"))
    assert notebook["metadata"]["papermill"]["parameters"]["experiment"] == f"{ROOT}/small"

    key = os.environ["AZURE_STORAGE_CONNECTION_STRING"].partition("AccountKey=")[2].partition(";")[0]
    said = done.stderr + done.stdout + ingested.stderr + compared.stdout + made.stdout + made.stderr
    assert key not in said
    assert not (folder / "abfs:").exists()  # the URL was nowhere taken for a path
    assert not [p for p in (folder / "state").rglob("*") if p.is_file() and key.encode() in p.read_bytes()]
