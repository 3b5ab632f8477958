"""Runs appear whole or not at all; tables are rebuildable, incremental and never lose a run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import netperf_lib as npl
from netperf_lib.data import ingest as ingest_module
from netperf_lib.data.declaration import declaration, declare, freeze
from netperf_lib.data.layout import lock
from netperf_lib.data.raw import Record, exclude, new_run, run_ids, write_record
from netperf_lib.errors import StoreError
from netperf_lib.experiment.model import Experiment, HostsSpec

EXPERIMENT = Experiment.model_validate(
    {
        "name": "demo",
        "hosts": {"source": "lab"},
        "pairs": [{"client": "a", "server": "b", "placement": "ppg"}],
        "tests": [{"tool": "qperf", "test": "tcp_lat"}],
    }
)

QPERF = """\
tcp_lat:
    latency   =   {ns} ns
    msg_rate  =  25361 /sec
    time      =  1 sec
"""


def record(round_, **changes):
    trial = {"client": "a", "server": "b", "placement": "ppg", "accelerated": True}
    trial |= {"tool": "qperf", "test": "tcp_lat", "duration_s": 1}
    facts = {
        "run_id": f"d01-r{round_:03d}-qperf-tcp_lat-ppg-0",
        "experiment": "demo",
        "deployment": 1,
        "round": round_,
        "order": round_,
        "trial": trial,
        "hosts": {"client": {"name": "a"}, "server": {"name": "b"}},
        "started_utc": "2026-01-02T03:04:05+00:00",
        "facts": {"client": {"kernel": "6.1"}, "server": {}},
    }
    return asdict(Record(run_id="", trial={})) | facts | changes


def add(store, round_, text=None, **changes):
    run = record(round_, **changes)
    with new_run(store, run["run_id"]) as folder:
        (folder / "client.out").write_text(
            QPERF.format(ns=39000 + round_) if text is None else text
        )
        write_record(folder, run, freeze(store))
    return str(run["run_id"])


@pytest.fixture
def store(tmp_path):
    store = Path(tmp_path, "demo")
    declare(store, EXPERIMENT)
    return store


def test_a_run_becomes_a_row_in_the_librarys_units(store):
    add(store, 1)
    runs = npl.load(store)
    assert runs.loc[0, "latency_oneway_us"] == pytest.approx(39.001)
    assert runs.loc[0, "placement"] == "ppg"
    assert runs.loc[0, "kernel"] == "6.1"
    assert bool(runs.loc[0, "accelerated"]) is True
    assert pd.isna(runs.loc[0, "throughput_bps"])  # missing is null, never zero
    assert runs.loc[0, "started_utc"] == pd.Timestamp("2026-01-02T03:04:05Z")
    assert npl.read(store).origin.declared["name"] == "demo"


def test_a_failed_run_keeps_its_place_and_reason_but_has_no_numbers(store):
    add(store, 1, status="failed", error="connection refused")
    add(store, 2, text="")
    runs = npl.load(store)
    assert list(runs["status"]) == ["failed", "failed"]
    assert runs.loc[0, "error"] == "connection refused"
    assert runs["error"].notna().all()
    assert runs["latency_oneway_us"].isna().all()


def test_ingest_is_incremental_idempotent_and_rebuildable(store, monkeypatch):
    for r in (1, 2):
        add(store, r)
    assert [npl.ingest(store), npl.ingest(store)] == [2, 0]
    add(store, 3)
    assert npl.ingest(store) == 3  # a block of rounds is read whole
    first = npl.load(store)
    assert list(first["round"]) == [1, 2, 3]
    shutil.rmtree(store / "tables")
    pd.testing.assert_frame_equal(first, npl.load(store))
    monkeypatch.setattr(ingest_module, "reader_version", lambda: "another")
    assert [npl.ingest(store), npl.ingest(store)] == [3, 0]
    assert set(npl.load(store)["reader_version"]) == {"another"}


def test_a_table_of_an_older_version_loads_with_null_columns(store):
    add(store, 1)
    npl.ingest(store)
    part = next((store / "tables" / "runs").glob("*.parquet"))
    pq.write_table(pq.read_table(part).drop_columns(["jitter_us"]), part)
    runs = npl.load(store)
    assert runs["jitter_us"].isna().all()
    assert runs.loc[0, "latency_oneway_us"] == pytest.approx(39.001)


@pytest.mark.parametrize(
    "name",
    [
        "tools/qperf",
        "tools/ntttcp",
        "metrics",
        "quantities",
        "tools/ss",
        "experiment/factors",
    ],
)
def test_the_version_of_the_readers_follows_their_source(name, monkeypatch, tmp_path):
    before = ingest_module.reader_version()
    copy = Path(shutil.copytree(ingest_module.PACKAGE_FOLDER, tmp_path / "copy"))
    monkeypatch.setattr(ingest_module, "PACKAGE_FOLDER", copy)
    assert ingest_module.reader_version.__wrapped__() == before
    [source] = [
        path for path in (copy / f"{name}.py", copy / name / "reader.py") if path.exists()
    ]
    source.write_text(f"{source.read_text()}\n# one line more\n")
    assert ingest_module.reader_version.__wrapped__() != before
    assert ingest_module.reader_version() == before


def test_a_run_appears_whole_or_not_at_all(store):
    def killed():
        with new_run(store, "d01-r001-x") as folder:
            (folder / "client.out").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        killed()
    assert run_ids(store) == []
    with (
        pytest.raises(StoreError, match=r"no run\.json"),
        new_run(store, "d01-r001-x") as folder,
    ):
        (folder / "client.out").touch()
    assert list((store / "raw").iterdir()) == []
    add(store, 1)
    with pytest.raises(StoreError, match="never overwritten"):
        add(store, 1)


def test_killed_while_writing_leaves_nothing_that_is_read(store):
    code = textwrap.dedent(
        f"""
        import os, time
        import pathlib
        from netperf_lib.data.raw import new_run
        with new_run(pathlib.Path({str(store)!r}), "d01-r001-x") as folder:
            (folder / "run.json").write_text("{{}}")
            print("writing", flush=True)
            time.sleep(60)
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(signal.SIGKILL)
    assert run_ids(store) == []
    with lock(store):
        assert list((store / "raw").iterdir()) == []


def test_a_second_collector_is_refused_with_the_first_ones_process(store):
    who = f"process {os.getpid()}, since"
    with lock(store), pytest.raises(StoreError, match=who), lock(store):
        pytest.fail("two collectors at once")
    with lock(store):
        pass


def test_another_declaration_of_a_measured_experiment_is_refused(store):
    changed = EXPERIMENT.model_copy(update={"pause_s": 5.0})
    declare(store, changed)  # nothing measured yet
    add(store, 1)
    with pytest.raises(StoreError, match=r"another declaration .* measure with --anew"):
        declare(store, EXPERIMENT)
    declare(
        store, changed.model_copy(update={"rounds": 20})
    )  # more rounds are the same experiment
    assert declaration(store).experiment.rounds == 20


def test_how_ssh_reaches_a_host_may_change_and_what_the_tests_use_may_not(store):
    def declared(**near):
        machines = {
            "client": {"address": "c.example"},
            "near": {"address": "n.example", **near},
        }
        hosts = HostsSpec(source="inventory", options={"hosts": machines})
        declare(store, EXPERIMENT.model_copy(update={"hosts": hosts}))

    declared(address="n.exmaple")
    add(store, 1, status="failed", started_utc=None)
    declared()  # the address was mistyped, and nothing was measured
    add(store, 2)
    declared(data_address="n.example", port=2222, user="me", identity="~/.ssh/mine")
    declared(
        address="192.0.2.7", data_address="n.example"
    )  # as after a restart in a cloud
    with pytest.raises(StoreError, match="another declaration"):
        declared(address="192.0.2.7")
    with pytest.raises(StoreError, match="another declaration"):
        declared(vm_size="D16")


def test_a_time_with_a_zone_is_kept_in_utc(store):
    for number, text in enumerate(
        ["2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05"], 1
    ):
        add(store, number, started_utc=text)
    add(store, 4, started_utc=None)
    started = npl.load(store)["started_utc"]
    assert set(started[:3]) == {pd.Timestamp("2026-01-02T03:04:05Z")}
    assert pd.isna(started[3])


@pytest.mark.parametrize(
    "damage", [{"trial": None}, {"hosts": [1]}, {"commands": None}, {"facts": 3}], ids=str
)
def test_a_damaged_record_is_a_failed_run_that_says_so(store, damage):
    run_id = add(store, 1)
    add(store, 2)
    file = store / "raw" / run_id / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | damage))
    shutil.rmtree(store / "digests")
    runs = npl.load(store)
    assert list(runs["status"]) == ["failed", "ok"]
    assert "damaged" in runs.loc[0, "error"]
    assert list(runs["round"]) == [1, 2]
    file.write_bytes(b"{")
    assert list(npl.load(store)["status"]) == ["failed", "ok"]


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_a_cut_part_of_a_table_is_made_anew(store, kept):
    add(store, 1)
    npl.ingest(store)
    os.truncate(next((store / "tables" / "runs").glob("*.parquet")), kept)
    assert npl.load(store).loc[0, "status"] == "ok"


def test_exclusions_at_once_all_count_with_their_cause(store):
    ids = [add(store, number) for number in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: exclude(store, i, "moved"), ids[1:]))
    excluded = npl.load(store).set_index("run_id")["excluded"]
    assert excluded[ids].isna().tolist() == [True] + [False] * 7
    assert set(excluded[ids[1:]]) == {"moved"}
    with pytest.raises(StoreError, match="no run 'x'"):
        exclude(store, "x", "typo")


@pytest.mark.parametrize("read", [npl.load, npl.read, npl.ingest, npl.report])
def test_a_folder_of_experiments_where_one_is_expected_names_them(store, read):
    with pytest.raises(StoreError, match="it holds the experiments demo"):
        read(store.parent)
