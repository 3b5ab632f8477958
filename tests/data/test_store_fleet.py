"""Ingest by many, some of whom die; merging; verifying; what a query reads."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import fsspec
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

import netperf_lib as npl
from netperf_lib.data import files
from netperf_lib.data import store as store_module
from netperf_lib.data.files import LocalFolder
from netperf_lib.data.store import Store
from netperf_lib.data.synth import synth
from netperf_lib.data.tables import GROUP_ROWS, PartWriter, detail
from netperf_lib.data.workers import Engine
from netperf_lib.errors import StoreError, UsageError
from netperf_lib.experiment.model import ParsedRun

RUNS = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("fleet")
    synth(root, runs=RUNS, experiments=3, samples=200)
    npl.ingest(root)
    return root


@pytest.fixture
def fresh(made: Path, tmp_path: Path) -> Path:
    """The fleet without its tables."""
    root = tmp_path / "fleet"
    shutil.copytree(made, root, ignore=shutil.ignore_patterns("tables"))
    return root


def whole(root: Path, table: str = "runs") -> pd.DataFrame:
    columns = ["experiment", "run_id", *(["t_s"] if table == "samples" else [])]
    frame: pd.DataFrame = npl.scan(root, table).to_table().to_pandas()
    return frame.sort_values(columns, ignore_index=True)


def same(one: Path, other: Path) -> None:
    for table in ("runs", "samples", "intervals", "percentiles"):
        a, b = whole(one, table), whole(other, table)
        assert len(a) > 0
        pd.testing.assert_frame_equal(a, b)


def test_what_was_planted_is_what_is_read(made: Path) -> None:
    truth = json.loads((made / "truth.json").read_text())
    runs = npl.load(npl.experiments(made))
    assert len(runs) == RUNS
    assert set(runs["status"]) == {"ok"}
    assert "Synthetic" in runs.attrs["notice"]
    latency = runs[runs["tool"] == "qperf"].groupby("placement")["latency_oneway_us"].median()
    for placement in ("ppg", "cross-region"):
        assert latency[placement] == pytest.approx(truth["latency_us"][placement], rel=0.3)
    samples = npl.load(npl.experiments(made), "samples")
    assert len(samples) == (runs["tool"] == "sockperf").sum() * 200
    one = samples[samples["experiment"] == "fleet-0001"].groupby("run_id")["latency_us"].mean()
    told = runs[(runs["experiment"] == "fleet-0001") & (runs["tool"] == "sockperf")].set_index("run_id")
    pd.testing.assert_series_equal(
        one.astype(float), told["latency_oneway_us"].sort_index(), check_names=False, rtol=1e-3
    )


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        synth(tmp_path / name, runs=12, samples=20, seed=4)
    listed = [sorted(p.relative_to(tmp_path / n) for p in (tmp_path / n).rglob("*.*")) for n in ("a", "b")]
    assert listed[0] == listed[1]
    for file in listed[0]:
        if (tmp_path / "a" / file).is_file() and file.name != "plan.json":
            assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_any_executor_makes_the_same_tables(made: Path, fresh: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        assert npl.ingest(fresh, executor=pool) == RUNS
    same(made, fresh)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "BATCH_RUNS", 5)


def test_a_killed_worker_process_loses_and_doubles_nothing(
    made: Path, fresh: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    with Engine(workers=2) as engine:
        submit = engine._executor().submit

        def watched(function: Any, *args: Any) -> Future[Any]:
            future = submit(function, *args)
            processes = list(engine._pool._processes)  # type: ignore[union-attr]
            if len(processes) == 2 and not killed:
                killed.append(processes[0])
                threading.Timer(0.3, os.kill, (processes[0], signal.SIGKILL)).start()
            return future

        monkeypatch.setattr(engine._pool, "submit", watched)
        assert store_module._ingest(store_module.stores(fresh), engine, None) == RUNS
    assert killed
    same(made, fresh)


def test_workers_that_always_die_are_given_up(fresh: Path) -> None:
    with (
        Engine(workers=2) as engine,
        pytest.raises(StoreError, match="run the command again"),
    ):
        list(engine.each(os._exit, [(1,), (1,)]))


def whoever(alive: int, died: Path, _: int) -> int:
    if os.getpid() != alive and not died.exists():
        died.touch()
        os._exit(1)
    time.sleep(0.1)
    return os.getpid()


def test_who_helps_works_too_and_goes_on_when_a_worker_dies(tmp_path: Path) -> None:
    tasks = [(os.getpid(), tmp_path / "died", i) for i in range(40)]
    with Engine(workers=2, helps=True) as engine:
        done = dict(engine.each(whoever, tasks))
    assert sorted(done) == tasks
    assert (tmp_path / "died").exists()
    assert os.getpid() in done.values()


def test_a_killed_ingest_is_gone_on_with(made: Path, fresh: Path) -> None:
    code = (
        "import netperf_lib.data.store as s, time, os\n"
        "s.BATCH_RUNS = 5\n"
        "read = s.Store._read_batch\n"
        "count = []\n"
        "def slow(self, *a):\n"
        "    done = read(self, *a)\n"
        "    count.append(1)\n"
        "    if len(count) == 3:\n"  # its packets are written, its runs are not
        "        print('now', flush=True); time.sleep(60)\n"
        "    return done\n"
        "s.Store._read_batch = slow\n"
        f"s.ingest({str(fresh)!r})\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.kill()
    names = {t: {p.name for p in fresh.glob(f"*/tables/{t}/part-*")} for t in ("runs", "samples")}
    assert len(names["runs"]) == 2
    assert names["samples"] - names["runs"]  # what the killed one left
    assert npl.ingest(fresh) == RUNS - 10
    assert {p.name for p in fresh.glob("*/tables/samples/part-*")} <= {
        p.name for p in fresh.glob("*/tables/runs/part-*")
    }
    same(made, fresh)


def test_two_ingests_at_once_double_nothing(made: Path, fresh: Path, small_batches: None) -> None:
    code = f"import netperf_lib.data.store as s; s.BATCH_RUNS = 5; print(s.ingest({str(fresh)!r}))"
    processes = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
    read = [int(p.communicate(timeout=120)[0]) for p in processes]
    assert sum(read) == RUNS
    same(made, fresh)


@pytest.mark.slow
def test_a_dask_cluster_of_which_a_worker_is_killed(made: Path, fresh: Path, small_batches: None) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'netperf_lib[dask]'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())
        first: list[int] = []

        def kill(done: int, total: int) -> None:
            if not first:
                first.append(done)
                os.kill(pids[0], signal.SIGKILL)

        assert npl.ingest(fresh, kill, scheduler=cluster.scheduler_address) == RUNS
    assert first
    same(made, fresh)


@pytest.mark.slow
def test_a_scheduler_that_dies(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install 'netperf_lib[dask]'")
    dask, quiet = [sys.executable, "-m", "dask"], {"stderr": subprocess.DEVNULL, "cwd": tmp_path}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    options = ["--host", address, "--no-dashboard"]
    scheduler = subprocess.Popen([*dask, "scheduler", *options], **quiet)  # type: ignore[call-overload]
    worker = subprocess.Popen([*dask, "worker", address, "--no-dashboard", "--no-nanny"], **quiet)  # type: ignore[call-overload]
    try:
        for _ in range(60):
            with suppress(UsageError), Engine(scheduler=address) as engine:
                work = engine.each(time.sleep, [(0.2,)] * 300)
                next(work)
                scheduler.kill()
                with pytest.raises(StoreError, match="did the scheduler end"):
                    list(work)
                return
            time.sleep(1)
        pytest.fail("Dask did not start")
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait()


def test_a_scheduler_that_is_not_there() -> None:
    with (
        pytest.raises(UsageError, match="no Dask scheduler answers at tcp://127"),
        Engine(scheduler="tcp://127.0.0.1:1"),
    ):
        pass
    with pytest.raises(UsageError, match="workers must be"):
        Engine(workers=0)


# -- merging ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def scattered(fresh: Path, small_batches: None) -> Path:
    npl.ingest(fresh)
    return fresh


def test_small_parts_are_merged_and_rows_stay(made: Path, scattered: Path) -> None:
    assert npl.compact(scattered) == RUNS // 5 - 3
    same(made, scattered)
    assert len(list(scattered.glob("*/tables/*/*.parquet"))) == 3 * 4
    assert npl.compact(scattered) == 0
    assert npl.verify(scattered) == []


@pytest.mark.parametrize("stop", ["_merge", "_tidy"])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_merging_stopped_at_any_point_loses_and_doubles_nothing(
    made: Path, scattered: Path, monkeypatch: pytest.MonkeyPatch, stop: str, after: int
) -> None:
    class Killed(BaseException):
        pass

    original = getattr(Store, stop)
    calls: list[int] = []

    def dies(self: Store, *args: Any) -> Any:
        calls.append(1)
        if len(calls) > after:
            raise Killed
        return original(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Store, stop, dies)
        with pytest.raises(Killed):
            npl.compact(scattered)
    same(made, scattered)
    npl.compact(scattered)
    same(made, scattered)
    assert len(list(scattered.glob("*/tables/runs/*.parquet"))) == 3
    assert not list(scattered.glob("*/tables/merging.json"))


@pytest.mark.parametrize("table", ["runs", "samples"])
def test_a_reader_is_overtaken_by_a_merge(
    made: Path, scattered: Path, monkeypatch: pytest.MonkeyPatch, table: Any
) -> None:
    """Between listing what counts and listing the parts of a table, all of them are merged."""
    reader = Store(scattered, "fleet-0002")
    sizes = reader._files.sizes

    def overtaken(name: str) -> dict[str, int]:
        if name == "tables/samples" or (name == "tables/runs" and table == "runs"):
            monkeypatch.undo()
            found = sizes(name) if table == "runs" else {}
            assert Store(scattered, "fleet-0002").compact() > 0
            return found or sizes(name)
        return sizes(name)

    monkeypatch.setattr(reader._files, "sizes", overtaken)
    rows = reader.table(table)
    assert rows.num_rows == Store(made, "fleet-0002").table(table).num_rows


def test_locks_are_taken_in_one_order(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    alone = Store._alone
    monkeypatch.setattr(Store, "_alone", lambda self: (taken.append(self.experiment), alone(self))[1])
    npl.ingest([fresh / "fleet-0003", fresh / "fleet-0001", fresh / "fleet-0002"])
    assert taken == ["fleet-0001", "fleet-0002", "fleet-0003"]


def test_tables_removed_while_they_are_made(made: Path, fresh: Path, small_batches: None) -> None:
    def remove(done: int, total: int) -> None:
        shutil.rmtree(fresh / "fleet-0001" / "tables", ignore_errors=True)
        Store(fresh, "fleet-0001").ingest()  # another, that takes the lock of the new folder

    with pytest.raises(StoreError, match="this lock was removed"):
        npl.ingest(fresh / "fleet-0001", remove)
    npl.ingest(fresh)
    same(made, fresh)


# -- verifying -------------------------------------------------------------------------------------------------------


def test_verify_finds_what_is_wrong(fresh: Path) -> None:
    npl.ingest(fresh)
    assert npl.verify(fresh) == []
    one, two, three = (Store(fresh, f"fleet-000{i}") for i in (1, 2, 3))
    ids = one.run_ids()
    (one.raw_dir(ids[0]) / "client.out").write_text("changed")
    (one.raw_dir(ids[1]) / "run.json").write_text("{")
    (one.raw_dir(ids[2]) / "client.err").unlink()
    part = next((fresh / "fleet-0002/tables/samples").glob("part-*"))
    table = pq.read_table(part)
    table = table.set_column(2, "latency_us", pc.add(table["latency_us"], 1.0).cast("float32"))
    pq.write_table(table, part)
    shutil.rmtree(three.raw_dir(three.run_ids()[0]))
    two._files.write("exclusions.json", b'{"nosuch": "typo"}')
    found = npl.verify(fresh)
    for text in (
        f"{ids[0]}: client.out was changed after it was measured",
        f"{ids[1]}: run.json cannot be read",
        f"{ids[2]}: client.err is missing",
        "table samples",
        "column latency_us differs",
        "is in the tables but not in raw",
        "exclusions.json names a run that is not there: nosuch",
    ):
        assert [f for f in found if text in f], text
    assert len(found) == 6


def test_verify_checks_runs_that_are_not_in_the_tables_yet(fresh: Path) -> None:
    store = Store(fresh, "fleet-0001")
    (store.raw_dir(store.run_ids()[0]) / "client.out").write_text("changed")
    assert len(npl.verify(store.path)) == 1
    assert not (store.path / "tables").exists()  # it changes nothing


# -- reading ---------------------------------------------------------------------------------------------------------


def dask_too(parts: str, chosen: list[tuple[str, str, str]]) -> list[Any]:
    """What Dask reads, where its data frames are installed."""
    try:
        import dask.dataframe
    except ImportError:
        return []
    return [dask.dataframe.read_parquet(parts, filters=chosen)["latency_oneway_us"].compute(scheduler="sync")]


def test_engines_read_the_same(made: Path) -> None:
    runs = npl.scan(made)
    wanted = runs.to_table(
        columns=["latency_oneway_us"],
        filter=(ds.field("experiment") == "fleet-0002") & (ds.field("placement") == "ppg"),
    )["latency_oneway_us"].to_pandas()
    said = duckdb.sql(
        "select latency_oneway_us from runs where experiment = 'fleet-0002' and placement = 'ppg'"
    ).fetchnumpy()["latency_oneway_us"]
    lazy = pl.scan_pyarrow_dataset(runs).filter((pl.col("experiment") == "fleet-0002") & (pl.col("placement") == "ppg"))
    parts = str(made / "*" / "tables" / "runs" / "*.parquet")
    direct = pl.scan_parquet(parts).filter((pl.col("experiment") == "fleet-0002") & (pl.col("placement") == "ppg"))
    chosen = [("experiment", "==", "fleet-0002"), ("placement", "==", "ppg")]
    for other in (
        pd.Series(said.filled(float("nan")) if hasattr(said, "filled") else said),
        lazy.select("latency_oneway_us").collect()["latency_oneway_us"].to_pandas(),
        direct.select("latency_oneway_us").collect()["latency_oneway_us"].to_pandas(),
        pd.read_parquet(sorted(made.glob("*/tables/runs/*.parquet")), filters=chosen)["latency_oneway_us"],
        *dask_too(parts, chosen),
        duckdb.sql(
            f"select latency_oneway_us from '{parts}' where experiment = 'fleet-0002' and placement = 'ppg'"
        ).df()["latency_oneway_us"],
    ):
        pd.testing.assert_series_equal(
            wanted.sort_values(ignore_index=True), other.sort_values(ignore_index=True), check_names=False
        )
    samples = duckdb.sql(f"select count(*) from '{made}/*/tables/samples/*.parquet'").fetchall()
    assert samples == [(npl.scan(made, "samples").count_rows(),)]


def test_left_out_runs_are_left_out_by_every_engine(fresh: Path) -> None:
    store = Store(fresh, "fleet-0001")
    left = store.run_ids()[0]
    store.exclude(left, "the VM was resized")
    runs = npl.scan(fresh)
    assert runs.count_rows() == RUNS - 1
    assert duckdb.sql("select count(*) from runs").fetchall() == [(RUNS - 1,)]
    assert pl.scan_pyarrow_dataset(runs).collect().height == RUNS - 1
    assert npl.scan(fresh, excluded=True).count_rows() == RUNS


@pytest.mark.parametrize("tool", ["qperf", "iperf3", "sockperf"])
def test_tables_are_a_tenth_of_the_raw_logs(tmp_path: Path, tool: str) -> None:
    synth(tmp_path, runs=120, samples=2000, tools=(tool,))
    npl.compact(tmp_path)
    raw, tables = (
        sum(p.stat().st_size for p in (tmp_path / "fleet-0001" / part).rglob("*") if p.is_file())
        for part in ("raw", "tables")
    )
    assert tables <= 0.1 * raw


class Counted(LocalFileSystem):  # type: ignore[misc]
    """The local disk as a store elsewhere, counting what is read of it."""

    protocol = "counted"
    cachable = False
    read = 0
    files: ClassVar[set[str]] = set()

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        file = super()._open(path, mode, **kwargs)
        got = file.read

        def counting(n: int = -1) -> bytes:
            data: bytes = got(n)
            type(self).read += len(data)
            type(self).files.add(path)
            return data

        file.read = counting
        return file


fsspec.register_implementation("counted", Counted, clobber=True)


def test_a_query_reads_only_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CACHED", 0)  # as if all were large: read by ranges
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    root = tmp_path / "fleet"
    synth(root, runs=4, experiments=4, samples=110_000, tools=("sockperf",))
    npl.ingest(root)
    everything = sum(p.stat().st_size for p in root.glob("*/tables/samples/*.parquet"))
    samples, runs = (npl.scan(f"counted://{root}", table) for table in ("samples", "runs"))
    mine = ds.field("experiment") == "fleet-0003"
    for table, column, rows, share in (
        (samples, "latency_us", 110_000, 0.8 * everything / 4),
        (runs, "rtt_us", 1, 1e9),
    ):
        Counted.read = 0
        Counted.files = set()
        assert table.to_table(columns=[column], filter=mine).num_rows == rows
        assert len(Counted.files) == 1  # of 4
        assert 0 < Counted.read < share  # of the one file the column, and its footer


def test_small_parts_are_fetched_only_when_a_query_needs_them(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NETPERF_CACHE", str(tmp_path / "cache"))
    fetched: list[str] = []
    real = files.ObjectFolder.fetched
    monkeypatch.setattr(
        files.ObjectFolder, "fetched", lambda self, name: (fetched.append(f"{self.url}/{name}"), real(self, name))[1]
    )
    samples = npl.scan(f"counted://{made}", "samples")
    fetched.clear()
    mine = samples.to_table(columns=["latency_us"], filter=ds.field("experiment") == "fleet-0003")
    assert mine.num_rows == npl.scan(made / "fleet-0003", "samples").count_rows()
    assert len(set(fetched)) == 1  # of 3
    assert "fleet-0003/tables/samples" in fetched[0]


def test_one_of_many_experiments_is_loaded_without_the_others(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = pq.read_table
    monkeypatch.setattr(pq, "read_table", lambda place, **k: (opened.append(str(place)), real(place, **k))[1])
    npl.load(made / "fleet-0002")
    assert opened
    assert all("fleet-0002" in place for place in opened)


def test_tables_of_a_newer_library_are_left_alone(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "PARSER_VERSION", 99)
        npl.ingest(fresh)
    parts = sorted(fresh.glob("*/tables/*/*.parquet"))
    with pytest.raises(StoreError, match="newer netperf_lib"):
        npl.load(fresh / "fleet-0001")
    assert sorted(fresh.glob("*/tables/*/*.parquet")) == parts


def test_packets_are_never_in_memory_whole(tmp_path: Path) -> None:
    part = tmp_path / "part.parquet"
    rng = np.random.default_rng(1)
    most = 0
    with PartWriter("samples", partial(LocalFolder(str(tmp_path)).new_file, part.name)) as writer:
        for _ in range(40):
            batch = {"t_s": np.arange(100_000.0), "latency_us": rng.random(100_000)}
            run = ParsedRun(tool="x", status="ok", samples_count=100_000, samples=partial(iter, [batch]))
            for table, rows in detail("e", "a-run-of-some-length", [run]):
                assert table == "samples"
                writer.add(rows)
            most = max(most, pa.total_allocated_bytes())
    file = pq.ParquetFile(part)
    assert file.metadata.num_rows == 4_000_000
    assert file.metadata.row_group(0).num_rows == GROUP_ROWS
    assert most < 0.2 * 4_000_000 * 40  # a row takes some 40 bytes in memory


def test_latencies_keep_their_precision(tmp_path: Path) -> None:
    synth(tmp_path, runs=4, samples=3000, tools=("sockperf",))
    store = Store(tmp_path, "fleet-0001")
    for run_id in store.run_ids():
        [read] = npl.parse(store.raw_dir(run_id) / "client.out")
        columns = list(read.samples())
        for name, rtol, atol in (("latency_us", 2**-16, 0), ("t_s", 0, 2**-17)):
            logged = np.concatenate([np.asarray(c[name]) for c in columns])
            kept = store.load("samples").query("run_id == @run_id")[name].to_numpy()
            np.testing.assert_allclose(kept, logged, rtol=rtol, atol=atol)
