"""How ingest, load and storage grow: `make bench-scale`. Everything is written under a temporary folder and removed.

Times are those of the machine that it runs on, and of what else runs there: the medians and ratios are what counts.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import netperf_lib as npl

from ..synth import synth


def bytes_under(*places):
    return sum(
        file.stat().st_size for place in places for file in place.rglob("*") if file.is_file()
    )


def timed(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def without_tables(root):
    for place in root.glob("*/tables"):
        shutil.rmtree(place)


def ingest_alone(root):
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


def growth(base, largest):
    print(
        "\ningest in one process: growth with the number of runs (qperf, iperf3, sockperf with 50 packets)"
    )
    n = 1000
    while n <= largest:
        root = base / f"runs-{n}"
        wrote = timed(lambda n=n, root=root: synth(root, runs=n, samples=50, workers=2))
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
        nothing = [timed(lambda root=root: npl.ingest(root)) for _ in range(5)]
        print(f"          ingest with nothing new: {statistics.median(nothing):.2f} s", flush=True)
        if n == largest:
            print(
                f"          10^6 runs, extrapolated, not measured: {10**6 * seconds / n / 3600:.1f} h of one core"
            )
        shutil.rmtree(root)
        n *= 10


def storage(base):
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


def packets(base):
    print("\npeak memory of an ingest, one run (sockperf)")
    root = base / "packets"
    for n in (500_000, 2_000_000, 6_000_000):
        shutil.rmtree(root, ignore_errors=True)
        synth(root, runs=1, samples=n, tools=("sockperf",))
        seconds, peak = ingest_alone(root)
        log = bytes_under(root) >> 20
        print(f"  {n:>8} packets, {log:>4} MiB: peak {peak:4.0f} MiB, {seconds:.1f} s", flush=True)
    shutil.rmtree(root)


def one_of_many(base, experiments):
    print(f"\none experiment out of {experiments} (6 runs each)")
    root, alone = base / "many", base / "alone"
    synth(root, runs=6 * experiments, experiments=experiments, samples=20, workers=2)
    npl.ingest(root)
    shutil.copytree(root / "fleet-0001", alone / "fleet-0001")
    times = {"many": [], "alone": []}
    for _ in range(15):
        for name in times:
            times[name].append(timed(lambda name=name: npl.load(base / name / "fleet-0001")))
    many, one = (statistics.median(times[name]) for name in ("many", "alone"))
    print(
        f"  load: {1e3 * many:.1f} ms, alone {1e3 * one:.1f} ms: ratio {many / one:.2f}", flush=True
    )
    took = timed(lambda: npl.ingest(root))
    print(f"  check for new runs in {experiments} experiments: {took:.1f} s")
    shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=100_000, help="runs of the largest fleet")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--only", choices=["growth", "storage", "packets", "many"])
    given = parser.parse_args()
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    print(
        f"{cpu[1] if cpu else 'unknown CPU'}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory(prefix="netperf-scale-") as scratch:
        base = Path(scratch)
        parts = {
            "storage": lambda: storage(base),
            "packets": lambda: packets(base),
            "many": lambda: one_of_many(base, given.experiments),
            "growth": lambda: growth(base, given.largest),
        }
        for name, part in parts.items():
            if given.only in (None, name):
                part()


if __name__ == "__main__":
    main()
