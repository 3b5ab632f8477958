"""Runs appear whole or not at all; tables are rebuildable, incremental and never lose a run."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import netperf_lib as npl
from netperf_lib.data import ingest as ingest_module
from netperf_lib.data.layout import Store, new_record
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
    return new_record(**facts | changes)


def add(store, round_, text=None, **changes):
    run = record(round_, **changes)
    with store.new_run(run["run_id"]) as folder:
        (folder / "client.out").write_text(
            QPERF.format(ns=39000 + round_) if text is None else text
        )
        store.write_record(folder, run)
    return str(run["run_id"])


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path, "demo")
    store.declare(EXPERIMENT)
    return store


def test_a_run_becomes_a_row_in_the_librarys_units(store):
    add(store, 1)
    runs = npl.load(store.path)
    assert runs.loc[0, "latency_oneway_us"] == pytest.approx(39.001)
    assert runs.loc[0, "placement"] == "ppg"
    assert runs.loc[0, "kernel"] == "6.1"
    assert bool(runs.loc[0, "accelerated"]) is True
    assert pd.isna(runs.loc[0, "throughput_bps"])  # missing is null, never zero
    assert runs.loc[0, "started_utc"] == pd.Timestamp("2026-01-02T03:04:05Z")
    assert npl.read(store.path).origin.declared["name"] == "demo"


def test_a_failed_run_keeps_its_place_and_reason_but_has_no_numbers(store):
    add(store, 1, status="failed", error="connection refused")
    add(store, 2, text="")
    runs = npl.load(store.path)
    assert list(runs["status"]) == ["failed", "failed"]
    assert runs.loc[0, "error"] == "connection refused"
    assert runs["error"].notna().all()
    assert runs["latency_oneway_us"].isna().all()


def test_ingest_is_incremental_idempotent_and_rebuildable(store, monkeypatch):
    for r in (1, 2):
        add(store, r)
    assert [npl.ingest(store.path), npl.ingest(store.path)] == [2, 0]
    add(store, 3)
    assert npl.ingest(store.path) == 3  # a block of rounds is read whole
    first = npl.load(store.path)
    assert list(first["round"]) == [1, 2, 3]
    shutil.rmtree(store.path / "tables")
    pd.testing.assert_frame_equal(first, npl.load(store.path))
    monkeypatch.setattr(ingest_module, "reader_version", lambda: "another")
    assert [npl.ingest(store.path), npl.ingest(store.path)] == [3, 0]
    assert set(npl.load(store.path)["reader_version"]) == {"another"}


def test_a_table_of_an_older_version_loads_with_null_columns(store):
    add(store, 1)
    npl.ingest(store.path)
    part = next((store.path / "tables" / "runs").glob("*.parquet"))
    pq.write_table(pq.read_table(part).drop_columns(["jitter_us"]), part)
    runs = npl.load(store.path)
    assert runs["jitter_us"].isna().all()
    assert runs.loc[0, "latency_oneway_us"] == pytest.approx(39.001)


@pytest.mark.parametrize(
    "name",
    ["tools/qperf", "tools/ntttcp", "metrics", "tools/ss", "experiment/factors"],
)
def test_the_version_of_the_readers_follows_their_source(name, monkeypatch, tmp_path):
    before = ingest_module.reader_version.__wrapped__()
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
        with store.new_run("d01-r001-x") as folder:
            (folder / "client.out").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        killed()
    assert store.run_ids() == []
    with (
        pytest.raises(StoreError, match=r"no run\.json"),
        store.new_run("d01-r001-x") as folder,
    ):
        (folder / "client.out").touch()
    assert list((store.path / "raw").iterdir()) == []
    add(store, 1)
    with pytest.raises(StoreError, match="never overwritten"):
        add(store, 1)


def test_killed_while_writing_leaves_nothing_that_is_read(store):
    code = textwrap.dedent(
        f"""
        import os, time
        from netperf_lib.data.layout import Store, new_record
        with Store({str(store.path.parent)!r}, "demo").new_run("d01-r001-x") as folder:
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
    assert store.run_ids() == []
    with store.lock():
        assert list((store.path / "raw").iterdir()) == []


def test_a_second_collector_is_refused_with_the_first_ones_process(store):
    other = Store(store.path.parent, "demo")
    who = f"process {os.getpid()}, since"
    with store.lock(), pytest.raises(StoreError, match=who), other.lock():
        pytest.fail("two collectors at once")
    with other.lock():
        pass


def test_another_declaration_of_a_measured_experiment_is_refused(store):
    changed = EXPERIMENT.model_copy(update={"pause_s": 5.0})
    store.declare(changed)  # nothing measured yet
    add(store, 1)
    with pytest.raises(StoreError, match="another declaration"):
        store.declare(EXPERIMENT)
    store.declare(
        changed.model_copy(update={"rounds": 20})
    )  # more rounds are the same experiment
    assert store.declared().rounds == 20


def test_how_ssh_reaches_a_host_may_change_and_what_the_tests_use_may_not(store):
    def declare(**near):
        machines = {
            "client": {"address": "c.example"},
            "near": {"address": "n.example", **near},
        }
        hosts = HostsSpec(source="inventory", options={"hosts": machines})
        store.declare(EXPERIMENT.model_copy(update={"hosts": hosts}))

    declare(address="n.exmaple")
    add(store, 1, status="failed", started_utc=None)
    declare()  # the address was mistyped, and nothing was measured
    add(store, 2)
    declare(data_address="n.example", port=2222, user="me", identity="~/.ssh/mine")
    declare(
        address="192.0.2.7", data_address="n.example"
    )  # as after a restart in a cloud
    with pytest.raises(StoreError, match="another declaration"):
        declare(address="192.0.2.7")
    with pytest.raises(StoreError, match="another declaration"):
        declare(vm_size="D16")


def test_a_time_with_a_zone_is_kept_in_utc(store):
    for number, text in enumerate(
        ["2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05"], 1
    ):
        add(store, number, started_utc=text)
    add(store, 4, started_utc=None)
    started = npl.load(store.path)["started_utc"]
    assert set(started[:3]) == {pd.Timestamp("2026-01-02T03:04:05Z")}
    assert pd.isna(started[3])


@pytest.mark.parametrize(
    "damage", [{"trial": None}, {"hosts": [1]}, {"commands": None}, {"facts": 3}], ids=str
)
def test_a_damaged_record_is_a_failed_run_that_says_so(store, damage):
    run_id = add(store, 1, **damage)
    add(store, 2)
    runs = npl.load(store.path)
    assert list(runs["status"]) == ["failed", "ok"]
    assert "damaged" in runs.loc[0, "error"]
    assert list(runs["round"]) == [1, 2]
    (store.path / "raw" / run_id / "run.json").write_bytes(b"{")
    assert list(npl.load(store.path)["status"]) == ["failed", "ok"]


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_a_cut_part_of_a_table_is_made_anew(store, kept):
    add(store, 1)
    npl.ingest(store.path)
    os.truncate(next((store.path / "tables" / "runs").glob("*.parquet")), kept)
    assert npl.load(store.path).loc[0, "status"] == "ok"


def test_exclusions_at_once_all_count_with_their_cause(store):
    ids = [add(store, number) for number in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda i: Store(store.path.parent, "demo").exclude(i, "moved"), ids[1:]
            )
        )
    excluded = npl.load(store.path).set_index("run_id")["excluded"]
    assert excluded[ids].isna().tolist() == [True] + [False] * 7
    assert set(excluded[ids[1:]]) == {"moved"}
    with pytest.raises(StoreError, match="no run 'x'"):
        store.exclude("x", "typo")


def test_a_data_root_where_an_experiment_is_expected(store, tmp_path):
    add(store, 1)
    with pytest.raises(StoreError, match="it holds the experiments demo"):
        npl.load(tmp_path)
