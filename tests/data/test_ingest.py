"""Ingest by many, some of whom die; what a query reads."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest

import netperf_lib as npl
from netperf_lib.data.workers import processes
from netperf_lib.errors import StoreError

from ..copies import copies
from ..sshd import wait_until

RUNS = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("fleet")
    copies(root, runs=RUNS // 3, experiments=3)
    npl.ingest(npl.experiments(root))
    return root


@pytest.fixture
def fresh(made, tmp_path):
    """The fleet without its tables."""
    root = tmp_path / "fleet"
    shutil.copytree(made, root, ignore=shutil.ignore_patterns("tables"))
    return root


def whole(root, table="runs"):
    frame = npl.load(npl.experiments(root), table)
    return frame.sort_values(["experiment", "run_id"], ignore_index=True, kind="stable")


@pytest.fixture(scope="module")
def expected(made):
    """The tables of the fleet, read before a test changes how tables are laid out, which would
    write those anew."""
    return {table: whole(made, table) for table in ("runs", "intervals", "percentiles")}


def same(expected, root):
    for table, frame in expected.items():
        assert len(frame) > 0
        pd.testing.assert_frame_equal(frame, whole(root, table))


class InTurn(Executor):
    """Gives another executor a task when the one before it is done and was heard of."""

    def __init__(self, executor):
        self.executor = executor

    def map(self, function, *columns):
        for task in zip(*columns, strict=True):
            yield self.executor.submit(function, *task).result()


@pytest.mark.slow
def test_after_a_killed_worker_the_same_call_goes_on(expected, fresh):
    def kill(done, total):
        for child in multiprocessing.active_children():
            child.kill()

    with (
        processes(2) as executor,
        pytest.raises(StoreError, match="run the command again"),
    ):
        npl.ingest(f"{fresh}/*", kill, executor=InTurn(executor))
    with ThreadPoolExecutor(2) as pool:  # any executor
        assert npl.ingest(f"{fresh}/*", executor=pool) < RUNS
    same(expected, fresh)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [0, 1])
def test_a_worker_killed_at_the_end_stops_nobody(number):
    """One of two that wait for work holds the lock for which the other waits."""
    with processes(2) as executor:
        assert [*executor.map(time.sleep, [0.2] * 4)] == [None] * 4
        children = sorted(multiprocessing.active_children(), key=lambda child: child.pid)
        children[number].kill()
    assert not any(child.is_alive() for child in children)


@pytest.mark.slow
def test_workers_end_with_their_parent(fresh):
    code = (
        "import multiprocessing, os, netperf_lib as npl\n"
        "from netperf_lib.data.workers import processes\n"
        "def say(done, total):\n"
        "    print(*(p.pid for p in multiprocessing.active_children()), flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "if __name__ == '__main__':\n"
        f"    with processes(2) as pool: npl.ingest({str(fresh / '*')!r}, say, executor=pool)\n"
    )
    script = fresh / "ingest.py"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, script], stdout=subprocess.PIPE, check=False
    )  # waits for the end of the pipe
    pids = [int(p) for p in done.stdout.split()]
    assert pids
    assert wait_until(
        lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids)
    )


def test_a_killed_ingest_is_gone_on_with(expected, fresh):
    code = (
        "import netperf_lib.data.ingest as s, netperf_lib.data.layout as l, time\n"
        "l.BLOCK_ROUNDS = 1\n"
        "rows, count = s.runs_table, []\n"
        "def slow(*a):\n"
        "    count.append(1)\n"
        "    if len(count) == 3:\n"  # details of the block are written, its runs are not
        "        print('now', flush=True); time.sleep(60)\n"
        "    return rows(*a)\n"
        "s.runs_table = slow\n"
        f"s.ingest({str(fresh / '*')!r})\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"now\n"
        process.kill()
    names = {
        t: {p.relative_to(fresh).parts[0::3] for p in fresh.glob(f"*/tables/{t}/*")}
        for t in ("runs", "percentiles")
    }
    assert len(names["runs"]) == 2
    assert names["percentiles"] - names["runs"]  # what the killed one left
    assert npl.ingest(f"{fresh}/*") == RUNS
    same(expected, fresh)


def test_two_ingests_at_once_write_the_same_bytes(fresh, tmp_path, python):
    alone = Path(shutil.copytree(fresh, tmp_path / "alone"))
    npl.ingest(f"{alone}/*")
    code = f"import netperf_lib as npl; print(npl.ingest({str(fresh / '*')!r}))"
    command = [python, "-c", code]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    read = [int(p.communicate(timeout=360)[0]) for p in processes]
    assert RUNS <= sum(read) <= 2 * RUNS  # the later one finds parts already written
    parts, others = (
        {p.relative_to(root): p.read_bytes() for p in root.glob("*/tables/*/*")}
        for root in (alone, fresh)
    )
    assert parts == others


@pytest.mark.slow
def test_a_dask_cluster_of_which_a_worker_is_killed(expected, fresh):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = list(client.run(os.getpid).values())
        first = []

        def kill(done, total):
            if not first:
                first.append(done)
                os.kill(pids[0], signal.SIGKILL)

        executor = client.get_executor(pure=False)
        assert npl.ingest(f"{fresh}/*", kill, executor=executor) == RUNS
    assert first
    same(expected, fresh)


# -- reading ---------------------------------------------------------------------------------------


def test_engines_read_the_files_of_all_experiments(made):
    parts = str(made / "*" / "tables" / "runs" / "*.parquet")
    column = "latency_oneway_us"
    ours = whole(made).query("placement == 'ppg'")[column]
    answers = [
        pl.scan_parquet(parts)
        .filter(pl.col("placement") == "ppg")
        .collect()[column]
        .to_pandas(),
        duckdb.sql(f"select {column} from '{parts}' where placement = 'ppg'").df()[
            column
        ],
    ]
    assert len(ours)
    for answer in answers:
        theirs = answer.sort_values(ignore_index=True)
        pd.testing.assert_series_equal(ours.sort_values(ignore_index=True), theirs)
