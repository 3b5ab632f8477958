"""Killed at any step, politely or not: `down` finds what there is, and `up` goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netperf_lib.hosts import azure
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure import checks

from ...sshd import alive, wait_until
from .cloud import Answer, Cloud
from .conftest import GUEST, World, canned, experiment
from .direct import Clock, DirectAz

DECLARED = experiment("a b ppg", "a c cross-region")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}


def forked(work: Callable[[], Any]) -> int:
    """Do something in another process, which takes signals as a program in a terminal does."""
    if child := os.fork():
        return child
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        work()
        code = 0
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def killed(
    cloud: Cloud, clock: Clock, az: DirectAz, work: Callable[[], Any], *, at: int, after: bool
) -> bool:
    """Run `work` in a process that is killed at a command of az; True when it came so far.

    The cloud stays here: the other process asks it over a pipe, and tells it the time.
    """
    ours, theirs = multiprocessing.Pipe()

    def asking() -> None:
        def ask(*request: Any) -> Answer:
            theirs.send((clock.time, request))
            answer: Answer = theirs.recv()
            return answer

        run, count = az._run, iter(range(10_000))

        def command(*words: str) -> Any:
            due = next(count) == at
            if due and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return run(*words)
            finally:
                if due:
                    os.kill(os.getpid(), signal.SIGKILL)

        ours.close()
        cloud.request = ask  # type: ignore[method-assign,assignment]
        az._run = command  # type: ignore[method-assign]
        azure.guests = lambda hosts, **_: {h.name: GUEST for h in hosts}  # type: ignore[assignment,attr-defined]
        work()

    child = forked(asking)
    theirs.close()
    while True:
        try:
            clock.time, request = ours.recv()
            ours.send(cloud.request(*request))
        except (EOFError, ConnectionError):
            break
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"ended with {code}"
    return code != 0


BEFORE_AND_AFTER = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
"""Killed just before and just after a command of az; signals that raise something are in `test_place`."""


def nothing_is_left(cloud: Cloud, state: Path) -> None:
    cloud.settle()
    assert not cloud.groups
    assert not cloud.resources
    assert not list(state.rglob("id_*"))


@BEFORE_AND_AFTER
def test_killed_at_every_step_of_up(
    az: DirectAz, cloud: Cloud, clock: Clock, tmp_path: Path, after: bool
) -> None:
    cloud.step_s = 0.8  # asked some times only while it is made: each is killed twice
    at = 0
    while True:
        state = tmp_path / f"{at}"
        if not killed(
            cloud,
            clock,
            az,
            lambda state=state: azure.up(DECLARED, number=1, state=state),
            at=at,
            after=after,
        ):
            break
        if at % 2:  # every second time: first go on, then take it down
            made = azure.up(DECLARED, number=1, state=state)
            assert [h.name for h in made.hosts] == ["a", "b", "c"]
            assert len(cloud.groups) == 1
        azure.down(DECLARED, state=state)
        nothing_is_left(cloud, state)
        at += 1
    assert at > 10
    azure.down(DECLARED, state=state)


@BEFORE_AND_AFTER
def test_killed_at_every_step_of_down(
    az: DirectAz, cloud: Cloud, clock: Clock, tmp_path: Path, after: bool
) -> None:
    at = 0
    while True:
        azure.up(DECLARED, number=1, state=tmp_path)
        cut = killed(
            cloud, clock, az, lambda: azure.down(DECLARED, state=tmp_path), at=at, after=after
        )
        azure.down(DECLARED, state=tmp_path)
        nothing_is_left(cloud, tmp_path)
        if not cut:
            break
        at += 1
    assert at >= 3


STEPS = {
    "it is told what would be made": 1,
    "the group is made": 2,
    "the deployment is started": 4,
    "the deployment is waited for": 5,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "by"),
    [
        *((step, signal.SIGKILL) for step in STEPS),
        *(("the deployment is started", by) for by in SIGNALS[:2]),
    ],
)
def test_killed_while_az_runs(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, by: signal.Signals
) -> None:
    world.machines.silent |= {"a", "b", "c"}
    monkeypatch.setattr(checks, "examine", canned)

    def work() -> None:
        run, count = az_module.Az.__call__, iter(range(1000))

        def watched(self: az_module.Az, *words: str) -> Any:
            if next(count) == STEPS[step]:
                threading.Timer(0.35, os.kill, (os.getpid(), by)).start()
            return run(self, *words)

        az_module.Az.__call__ = watched  # type: ignore[method-assign]
        azure.up(DECLARED, number=1, state=tmp_path)

    _, status = os.waitpid(forked(work), 0)
    assert os.waitstatus_to_exitcode(status) == ENDS[by]
    assert wait_until(lambda: not running(world)), "az goes on after its caller is gone"
    azure.down(DECLARED, state=tmp_path)
    nothing_is_left(world.cloud, tmp_path)


def running(world: World) -> list[str]:
    """Processes of az: those with its configuration in their environment, and the children of its warm server."""
    configuration = os.environ["AZURE_CONFIG_DIR"].encode()
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_az = any(word.endswith(b"/az") or word == b"azure.cli" for word in words)
            mine = is_az and configuration in (process / "environ").read_bytes()
        except OSError:
            continue
        if parent == world.warm.pid or (
            mine and process.name not in (str(os.getpid()), str(world.warm.pid))
        ):
            left.append(process.name)
    return left


def test_a_signal_is_not_lost_while_az_is_started(tmp_path: Path) -> None:
    """What a signal raises in a hook of fork is dropped by Python."""
    program = tmp_path / "az"
    program.write_text("#!/bin/sh\nkill -TERM $PPID\nsleep 60\n", "utf-8")
    program.chmod(0o755)
    driver = """
import os, signal, sys
from netperf_lib.hosts.azure.az import Az
seen = []
def leave(*_):
    seen.append(1)
    raise SystemExit(143 if len(seen) == 1 else "the first signal was dropped")
signal.signal(signal.SIGTERM, leave)
os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGTERM))
Az()("group", "list")
"""
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    assert (
        subprocess.run([sys.executable, "-c", driver], env=environment, timeout=300).returncode
        == 143
    )


def test_az_that_is_a_shell_script_dies_with_its_caller(tmp_path: Path) -> None:
    """As the packages of Debian and Red Hat install it: bash that starts Python without exec."""
    sign, program = f"30{os.getpid()}", tmp_path / "az"
    program.write_text(f"#!/bin/bash\nsleep {sign}\ntrue\n", "utf-8")
    program.chmod(0o755)
    driver = "from netperf_lib.hosts.azure.az import Az; Az()('group', 'list')"
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", driver], env=environment) as caller:
        assert wait_until(lambda: alive(f"sleep {sign}"), 90)
        caller.kill()
    assert wait_until(lambda: not alive(f"sleep {sign}"), 30), "az goes on after its caller is gone"
