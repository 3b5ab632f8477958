"""Processors are kept awake by what gives way to everything, and only while that is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a Linux interface")

CODE = """
import sys
from pathlib import Path
from netperf_lib.hosts.lab import cpu_idle
cpu_idle._LATENCY = Path("/nonexistent")  # as for an ordinary user
made = cpu_idle.KeepAwake()
for word in sys.stdin:
    {"hold": made.hold, "release": made.release, "close": made.close}[word.strip()]()
    print(*made._spinners, flush=True)
"""


@pytest.fixture
def holder():
    process = subprocess.Popen(
        [sys.executable, "-c", CODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    yield process
    process.kill()
    process.communicate()


def ask(process, word):
    process.stdin.write(word + "\n")
    return [int(pid) for pid in process.stdout.readline().split()]


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except FileNotFoundError:
        return None


def becomes(pids, states):
    end = time.monotonic() + 60  # the lowest class waits for a processor even to end
    while not all(state(pid) in states for pid in pids):
        if time.monotonic() > end:
            return [state(pid) for pid in pids]
        time.sleep(0.01)
    return True


def test_loops_of_the_lowest_class_run_while_it_is_held(holder):
    pids = ask(holder, "release")
    assert len(pids) == len(os.sched_getaffinity(0))
    assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_IDLE}
    assert becomes(pids, "T") is True
    ask(holder, "hold")
    assert becomes(pids, "RS") is True  # S: resting, because others need the processor
    ask(holder, "release")
    assert becomes(pids, "T") is True
    ask(holder, "close")
    assert becomes(pids, [None]) is True


def test_they_end_with_what_asked_for_them(holder):
    pids = ask(holder, "hold")
    holder.kill()
    assert becomes(pids, [None]) is True
