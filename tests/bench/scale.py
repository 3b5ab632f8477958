"""How ingest, load and storage grow: `make bench-scale`. Everything is written under a temporary folder and removed.

Times are those of the machine that it runs on, and of what else runs there: the medians and ratios are what counts.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import netperf_lib as npl
from netperf_lib.data.layout import Store, stores

from ..synth import synth


def bytes_under(*places: Path) -> int:
    return sum(
        file.stat().st_size for place in places for file in place.rglob("*") if file.is_file()
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def without_tables(root: Path) -> None:
    for place in root.glob("*/tables"):
        shutil.rmtree(place)


def ingest_alone(root: Path) -> tuple[float, float]:
    """Seconds and peak MiB of an ingest in a process of its own."""
    code = (
        "import re, sys, time, netperf_lib as npl, netperf_lib.data.ingest\n"
        "from netperf_lib import tools\n"
        "start = time.perf_counter(); npl.ingest(sys.argv[1]); print(time.perf_counter() - start)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True
    )
    seconds, peak = done.stdout.split()
    return float(seconds), int(peak) / 1024


def growth(base: Path, largest: int) -> None:
    print(
        "\ningest in one process: growth with the number of runs (qperf, iperf3, sockperf with 50 packets)"
    )
    n = 1000
    while n <= largest:
        root = base / f"runs-{n}"
        wrote = timed(lambda n=n, root=root: synth(root, runs=n, samples=50, workers=2))  # type: ignore[misc]
        repeats = 3 if n <= 10_000 else 1
        measured = []
        for _ in range(repeats):
            without_tables(root)
            measured.append(ingest_alone(root))
        seconds = statistics.median(s for s, _ in measured)
        peak = statistics.median(p for _, p in measured)
        raw, tables = (bytes_under(*root.glob(f"*/{part}")) for part in ("raw", "tables"))
        print(
            f"  {n:>7} runs: {seconds:7.1f} s = {1e3 * seconds / n:.2f} ms a run, peak {peak:4.0f} MiB, "
            f"tables {tables / raw:.1%} of {raw / 2**20:.0f} MiB raw (written in {wrote:.0f} s)",
            flush=True,
        )
        nothing = [timed(lambda root=root: npl.ingest(root)) for _ in range(5)]  # type: ignore[misc]
        print(f"          ingest with nothing new: {statistics.median(nothing):.2f} s", flush=True)
        if n == largest:
            print(
                f"          10^6 runs, extrapolated, not measured: {10**6 * seconds / n / 3600:.1f} h of one core"
            )
        shutil.rmtree(root)
        n *= 10


def storage(base: Path) -> None:
    print("\ntables as a share of the raw logs (240 runs)")
    for tools, samples in (
        (("qperf",), 1),
        (("iperf3",), 1),
        (("sockperf",), 1000),
        (("sockperf",), 20_000),
        (("qperf", "iperf3", "sockperf"), 1000),
    ):
        root = base / "storage"
        synth(root, runs=240, samples=samples, tools=tools)
        npl.ingest(root)
        raw, tables = bytes_under(*root.glob("*/raw")), bytes_under(*root.glob("*/tables"))
        print(
            f"  {'+'.join(tools):<22} {samples:>6} packets: {tables / raw:.1%} of {raw / 2**20:.1f} MiB",
            flush=True,
        )
        shutil.rmtree(root)


def packets(base: Path) -> None:
    print("\npeak memory of an ingest, one run (sockperf)")
    root = base / "packets"
    for n in (500_000, 2_000_000, 6_000_000):
        shutil.rmtree(root, ignore_errors=True)
        synth(root, runs=1, samples=n, tools=("sockperf",))
        seconds, peak = ingest_alone(root)
        log = bytes_under(root) >> 20
        print(f"  {n:>8} packets, {log:>4} MiB: peak {peak:4.0f} MiB, {seconds:.1f} s", flush=True)
    shutil.rmtree(root)


def workers(base: Path, runs: int) -> None:
    """One Dask worker against two, in pairs; each worker is held on a core of its own."""
    from distributed import Client, LocalCluster

    logging.disable(logging.INFO)  # Dask tells much when a cluster ends
    cores = sorted(os.sched_getaffinity(0))
    print(
        f"\nworkers on {len(cores)} cores, {runs} runs (pairs, one after the other, for {PAIRS_S} s)"
    )
    root = base / "workers"
    synth(root, runs=runs, experiments=10, samples=300, workers=2)
    clusters = {
        n: LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0")  # type: ignore[no-untyped-call]
        for n in (1, 2)
    }
    clients = {n: Client(cluster, set_as_default=False) for n, cluster in clusters.items()}  # type: ignore[no-untyped-call]
    pids: list[int] = []
    for client in clients.values():
        for core, worker in zip(cores, client.scheduler_info()["workers"], strict=False):
            pids += client.run(warm, core, workers=[worker]).values()
    ratios, shares = [], []
    took: dict[int, list[float]] = {1: [], 2: []}
    until = time.monotonic() + PAIRS_S
    while time.monotonic() < until or len(ratios) < 3:
        free = sum(clients[2].run(spin).values())
        for n, client in list(clients.items())[:: -1 if len(ratios) % 2 else 1]:
            without_tables(root)
            inside, outside = sum(client.run(cpu_s).values()), cpu_s()
            took[n].append(timed(partial(npl.ingest, root, workers=clusters[n].scheduler_address)))
            inside, outside = sum(client.run(cpu_s).values()) - inside, cpu_s() - outside
            if n == 2:
                shares.append(outside / (inside + outside))
        ratios.append(took[1][-1] / took[2][-1])
        print(
            f"  Dask: 1 worker {took[1][-1]:.1f} s, 2 workers {took[2][-1]:.1f} s: {ratios[-1]:.2f}x "
            f"(CPU time outside the workers {shares[-1]:.1%}; two busy loops got {free:.2f} cores just before)",
            flush=True,
        )
    share = statistics.median(shares)
    print(
        f"  median of {len(ratios)} pairs: {statistics.median(ratios):.2f}x; outside the workers {share:.1%}"
    )
    expected = rows(root)
    without_tables(root)
    threading.Timer(statistics.median(took[2]) / 3, os.kill, (pids[-1], 9)).start()
    npl.ingest(root, workers=clusters[2].scheduler_address)
    print(
        f"  kill -9 of a worker in mid-ingest: runs, distinct runs, packets {rows(root)}, expected {expected}"
    )
    for n in clusters:
        clients[n].close()  # type: ignore[no-untyped-call]
        clusters[n].close()
    shutil.rmtree(root)


PAIRS_S = 60


def warm(core: int) -> int:
    """Pay for the imports before the clock runs, and stay on one core."""
    from netperf_lib.data import ingest

    assert ingest
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})
    return os.getpid()


def cpu_s() -> float:
    """CPU time of this process."""
    return sum(os.times()[:2])


def spin() -> float:
    """Share of a core that a busy loop gets here for half a second."""
    began, start = cpu_s(), time.perf_counter()
    while time.perf_counter() - start < 0.5:
        pass
    return (cpu_s() - began) / (time.perf_counter() - start)


def rows(root: Path) -> tuple[int, int, int]:
    runs = npl.scan(root).to_table(columns=["experiment", "run_id"])
    distinct = runs.group_by(["experiment", "run_id"]).aggregate([]).num_rows
    return runs.num_rows, distinct, npl.scan(root, "samples").count_rows()


def one_of_many(base: Path, experiments: int) -> None:
    print(f"\none experiment out of {experiments} (6 runs each)")
    root, alone = base / "many", base / "alone"
    synth(root, runs=6 * experiments, experiments=experiments, samples=20, workers=2)
    npl.ingest(root, workers=2)
    shutil.copytree(root / "fleet-0001", alone / "fleet-0001")
    times: dict[str, list[float]] = {"many": [], "alone": []}
    for _ in range(15):
        for name in times:
            times[name].append(timed(lambda name=name: npl.load(base / name / "fleet-0001")))  # type: ignore[misc]
    many, one = (statistics.median(times[name]) for name in ("many", "alone"))
    print(
        f"  load: {1e3 * many:.1f} ms, alone {1e3 * one:.1f} ms: ratio {many / one:.2f}", flush=True
    )
    found = stores(root)
    assert isinstance(found[0], Store)
    took = timed(lambda: npl.scan(root).count_rows())
    print(f"  scan over all {len(found)} experiments (with the check for new runs): {took:.1f} s")
    shutil.rmtree(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="runs of the largest fleet")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--workers-runs", type=int, default=3000)
    parser.add_argument("--only", choices=["growth", "storage", "packets", "workers", "many"])
    given = parser.parse_args()
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    print(
        f"{cpu[1] if cpu else 'unknown CPU'}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory(prefix="netperf-scale-") as scratch:
        base = Path(scratch)
        parts: dict[str, Callable[[], None]] = {
            "storage": lambda: storage(base),
            "packets": lambda: packets(base),
            "workers": lambda: workers(base, given.workers_runs),
            "many": lambda: one_of_many(base, given.experiments),
            "growth": lambda: growth(base, given.largest),
        }
        for name, part in parts.items():
            if given.only in (None, name):
                part()


if __name__ == "__main__":
    main()
