"""sockperf's log of every packet to parquet, against pyarrow reading the bare rows: time and memory.

Run as a script (``make bench``), with the number of rows in millions (default 10).
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import ReadOptions, read_csv

from netperf_lib import logs

SCHEMA = pa.schema([("t_s", pa.float64()), ("latency_us", pa.float32())])  # as the tables of the project have it
HEAD = """------------------------------
test was performed using the following parameters: --mps=max --burst=1 --reply-every=1 --msg-size=14 --time=600
------------------------------
sockperf: [Total Run] RunTime={seconds:.3f} sec; Warm up time=400 msec; SentMessages={n}; ReceivedMessages={n}
sockperf: ========= Printing statistics for Server No: 0
sockperf: [Valid Duration] RunTime={seconds:.3f} sec; SentMessages={n}; ReceivedMessages={n}
sockperf: ====> avg-latency={mean:.3f} (std-dev={deviation:.3f})
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Total {n} observations; each percentile contains {hundredth:.2f} observations
sockperf: ---> <MAX> observation = {most:8.3f}
sockperf: ---> percentile 50.000 = {median:8.3f}
sockperf: ---> <MIN> observation = {least:8.3f}
------------------------------
packet, txTime(sec), rxTime(sec), latency(usec)
"""


def write_log(path: Path, n: int) -> int:
    """Write a log of `n` packets; return the offset of its rows."""
    rng = np.random.default_rng(1)
    latency = np.round(20 + rng.gamma(2, 5, n), 3)
    tx = 2.4 + np.cumsum(2e-6 * latency + 5e-6)
    rx = tx + 2e-6 * latency
    head = HEAD.format(
        n=n,
        hundredth=n / 100,
        seconds=tx[-1] - tx[0],
        mean=latency.mean(),
        deviation=latency.std(),
        most=latency.max(),
        median=np.sort(latency)[int(0.5 + 0.5 * n) - 1],
        least=latency.min(),
    )
    with path.open("w") as f:
        f.write(head)
        for start in range(0, n, 100_000):
            part = slice(start, start + 100_000)
            rows = zip(range(start, n), tx[part].tolist(), rx[part].tolist(), latency[part].tolist(), strict=False)
            f.writelines(map("{0[0]}, {0[1]:.9f}, {0[2]:.9f}, {0[3]:.3f}\n".format, rows))
        f.write("------------------------------\n")
    return len(head)


def to_parquet(log: str, out: str) -> int:
    [run] = logs.parse(log)
    assert run.status == "ok", run.error
    writer = None
    for batch in run.samples():
        table = pa.table(dict(batch), schema=SCHEMA)
        writer = writer or pq.ParquetWriter(out, SCHEMA, compression="zstd", use_dictionary=["latency_us"])
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return run.samples_count


def bare(log: str, offset: int) -> int:
    """Read the rows alone, as fast as pyarrow can."""
    with pa.memory_map(log) as f:
        rows = f.read_buffer()[offset : -len("------------------------------\n")]
        return int(read_csv(pa.BufferReader(rows), ReadOptions(column_names=list("abcd"))).num_rows)


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main() -> None:
    if sys.argv[1:2] == ["peak"]:  # in a process of its own
        to_parquet(sys.argv[2], sys.argv[3])
        # not ru_maxrss: that outlives exec, and would be this script's own
        print(next(r.split()[1] for r in Path("/proc/self/status").read_text().splitlines() if r.startswith("VmHWM")))
        return
    n = int(float(sys.argv[1] if sys.argv[1:] else 10) * 1e6)
    with tempfile.TemporaryDirectory() as folder:
        log, out = str(Path(folder, "packets.csv")), str(Path(folder, "packets.parquet"))
        offset = write_log(Path(log), n)
        assert to_parquet(log, out) == bare(log, offset) == n == pq.read_metadata(out).num_rows
        pairs = [(timed(lambda: to_parquet(log, out)), timed(lambda: bare(log, offset))) for _ in range(5)]
        ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
        command = [sys.executable, __file__, "peak", log, out]
        peak = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1024
    print(f"{platform.platform()}, {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print(f"pyarrow {pa.__version__}; {n} packets, medians of 5")
    print(
        f"full log to parquet {ours:.2f} s, read_csv of the bare rows {theirs:.2f} s: {ours / theirs:.2f} x (limit 1.5)"
    )
    print(f"peak memory {peak:.0f} MB (limit 500)")


if __name__ == "__main__":
    main()
