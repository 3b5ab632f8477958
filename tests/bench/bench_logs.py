"""How fast logs are read, in units of bare decoding: medians of five; run by ``make bench``."""

import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime

import numpy as np
import orjson
import pytest

from netperf_lib import tools

from .. import printed

MIB = 1 << 20


def times(work, unit):
    """Return how many units of processor time the work takes."""

    def seconds(action):
        begun = time.process_time()
        action()
        return time.process_time() - begun

    unit(), work()
    return statistics.median(seconds(work) / seconds(unit) for _ in range(5))


def peak_mib(code, *arguments):
    """Return the largest memory of a fresh Python that runs the code."""
    # not getrusage: its peak is inherited from the process that starts this one
    status = (
        "[line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line][0]"
    )
    command = [sys.executable, "-c", f"{code}\nprint({status})", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) / 1024


def document(streams, rows):
    """Return what iperf3 prints of so many intervals."""
    random, shape = np.random.default_rng(1), (rows, streams)
    whole = printed.iperf3(
        random.integers(10**6, 10**8, shape),
        random.integers(20, 200, shape),
        lost=random.integers(0, 3, shape),
        window=1448 * random.integers(10, 2000, shape),
        step_s=0.1,
        at=datetime(2026, 11, 2, tzinfo=UTC),
    )
    ends = [
        f"{end}_{part}"
        for end in ("host", "remote")
        for part in ("total", "user", "system")
    ]
    whole["end"]["cpu_utilization_percent"] = dict.fromkeys(ends, 0.0)
    return json.dumps(whole, indent="\t").encode()


@pytest.mark.parametrize("streams", [1, 16])
def test_large_document_of_iperf3(tmp_path, streams):
    size = len(document(streams, 20)) - len(document(streams, 10))
    path = tmp_path / "iperf3.json"
    path.write_bytes(data := document(streams, 640 * MIB // size))
    [run] = tools.parse(data)
    assert (run.status, list(run.warnings)) == ("ok", [])
    ratio = times(lambda: tools.parse(data), lambda: orjson.loads(data))
    imports = "import sys, orjson, pathlib; from netperf_lib import tools\n"
    read = imports + "{}(pathlib.Path(sys.argv[1]).read_bytes())"
    ours, bare = (peak_mib(read.format(f), path) for f in ("tools.parse", "orjson.loads"))
    print(
        f"\n64 MiB of iperf3, {streams} streams: {ratio:.1f} times orjson.loads (at most 3),"
    )
    print(f"{ours / bare:.2f} times its memory (at most 1.2)")
    assert ratio <= 3
    assert ours <= 1.2 * bare
