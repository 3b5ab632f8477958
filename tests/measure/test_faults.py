"""What people will meet while measuring: each is one line with a remedy, and the other
conditions complete."""

import errno
import os
import re
import shlex
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.data.raw import run_ids
from netperf_lib.data.raw import runs as stored_runs
from netperf_lib.experiment.schedule import schedule
from netperf_lib.measure import collector, ssh, trial
from netperf_lib.measure.collector import failures

from .test_collector import (
    FAR,
    LATENCY,
    NEAR,
    QUICK,
    THROUGHPUT,
    altered,
    buffers,
    experiment,
    limit,
    marked,
    meanwhile,
    measure,
    on_host,
    records,
    store,
    tools_running,
)

__all__ = ["store"]  # a fixture

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root to change what a host is made of"
)
SOCKPERF = {"tool": "sockperf", "test": "ping-pong", "duration_s": 1}


@contextmanager
def changed(deployment, host, *commands, undo):
    """Change a host in its own mounts and network, for as long as the block runs."""
    try:
        for command in commands:
            said = on_host(deployment, host, f"{{ {command}\n}} >/dev/null 2>&1; echo $?")
            assert said.split()[-1] == "0", (command, said)
        yield
    finally:
        on_host(deployment, host, undo)


def why(store):
    """Server and reason of each failed run."""
    said = [
        (r["trial"]["server"], r["error"] or r["log"]["error"]) for r in records(store)
    ]
    assert all("\n" not in reason for _, reason in said if reason)
    return {(server, reason) for server, reason in said if reason}


def one(reasons):
    """The reason, where all that failed did so on the near server and for the same."""
    ((server, reason),) = reasons
    assert server == "near"
    return reason


@as_root
@pytest.mark.parametrize("host", ["near", pytest.param("other", marks=pytest.mark.slow)])
def test_a_full_disk_on_a_host(deployment, store, host):
    fill = "mount -t tmpfs -o size=64k none /tmp"
    with changed(
        deployment, host, fill, "! cat /dev/zero >/tmp/fill", undo="umount /tmp"
    ):
        other = {"client": "other", "server": "near", "placement": "same-zone"}
        tally = measure(
            experiment(pairs=[other, FAR], tests=[QUICK, THROUGHPUT], attempts=1),
            deployment,
            store,
        )
    assert (tally.ok, tally.failed) == (3, 1)
    assert "free some disk space on both hosts" in one(why(store))


@pytest.mark.parametrize("name", ["server.err", "client.out"])
def test_a_full_disk_here_in_a_leading_run(deployment, store, monkeypatch, name):
    usual = trial.TrialRun.file

    def file(run, asked):
        if asked != name or not run.trial.leading:
            return usual(run, asked)
        if name == "server.err":
            raise OSError(errno.ENOSPC, "No space left on device", asked)
        return run.files.enter_context(Path("/dev/full").open("wb", buffering=0))

    monkeypatch.setattr(trial.TrialRun, "file", file)
    with pytest.raises(OSError, match="No space left"):
        measure(experiment(), deployment, store, led=True)


@pytest.mark.slow
@as_root
def test_ports_that_a_firewall_blocks(deployment, store, monkeypatch):
    # packets from a source that no route leads back to are dropped without a word, as a security
    # group does
    client = deployment.host("client").data_address
    limit(monkeypatch, "qperf", 4)
    route, strict = f"blackhole {client}/32", "/proc/sys/net/ipv4/conf/eth0/rp_filter"
    drop = f"/sbin/ip route add {route} && echo 1 >{strict}"
    with changed(
        deployment, "near", drop, undo=f"/sbin/ip route del {route}; echo 0 >{strict}"
    ):
        tally = measure(
            experiment(tests=[LATENCY, THROUGHPUT, SOCKPERF], attempts=1),
            deployment,
            store,
        )
    assert (tally.ok, tally.failed) == (3, 3)
    for server, reason in why(store):
        assert server == "near"
        near = deployment.host("near").data_address
        assert f"ports 20000 to 20999 from {client} to {near}?" in reason, reason
    plan = schedule(experiment(tests=[LATENCY, THROUGHPUT, SOCKPERF], attempts=1), seed=1)
    assert "; once that is mended, raise attempts (now 1) in the experiment" in (
        failures(plan, store) or ""
    )


@pytest.mark.parametrize(
    "test", [LATENCY | {"test": "tcp_bw"}, THROUGHPUT], ids=lambda t: str(t["tool"])
)
def test_a_buffer_that_the_kernel_would_cut_is_no_condition(deployment, store, test):
    theirs = altered(deployment, owned=False)
    measure(
        experiment(pairs=[NEAR], tests=[test | {"tcp_buffer_bytes": [1 << 30]}]),
        theirs,
        store,
    )
    assert f"a TCP buffer of {1 << 30} bytes cannot be set" in one(why(store))
    assert (
        f"sudo sysctl -w net.core.rmem_max={1 << 30} net.core.wmem_max={1 << 30}"
        in one(why(store))
    )
    assert all(r["started_utc"] is None for r in records(store))  # its attempts are left


HANGS = r"iperf3 on host client .*: it hung and was ended after 8 s"
DIES = r"the load \(iperf3 tcp ×2\) from host client .* ended before .* \(exit code 137"
LOADED = SOCKPERF | {"duration_s": 3, "protocol": "tcp", "during": {"streams": 2}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "program", "argument", "number", "words"),
    [
        (THROUGHPUT | {"duration_s": 4}, "iperf3", "-c", signal.SIGSTOP, HANGS),
        (LOADED, "iperf3", "-c", signal.SIGKILL, DIES),
        (LOADED | {"during": None}, "sockperf", "server", signal.SIGKILL, "sockperf"),
    ],
    ids=["a tool hangs", "a load dies", "a server dies"],
)
def test_what_ends_a_run_is_told_and_the_trial_is_repeated(
    deployment, store, monkeypatch, test, program, argument, number, words
):
    limit(monkeypatch, "iperf3", 8)
    with meanwhile(lambda: os.kill(marked(program, 1.5, argument), number)):
        tally = measure(experiment(tests=[test], pairs=[NEAR]), deployment, store)
    assert (tally.ok, tally.attempts_failed) == (1, 1)
    assert re.search(words, one(why(store)))
    assert not tools_running()


LADDER = THROUGHPUT | {"tcp_buffer_bytes": [None, 65536]}


@as_root
def test_a_setting_that_was_changed_in_part_is_put_back_before_anything_is_measured(
    deployment, store
):
    before = buffers(deployment)
    place = "/proc/sys/net/ipv4/tcp_wmem"
    fixed = f"mount --bind {place} {place} && mount -o remount,bind,ro {place}"
    with changed(deployment, "near", fixed, undo=f"umount {place}"):
        tally = measure(
            experiment(tests=[LADDER], pairs=[NEAR], rounds=2, attempts=1),
            deployment,
            store,
        )
        assert buffers(deployment) == before
    assert (tally.ok, tally.failed) == (2, 2)
    reason = one(why(store))
    assert "TCP buffers of 65536 bytes cannot be set" in reason
    assert "Read-only file system" in reason
    assert "remove tcp_buffer_bytes" in reason
    # those at the hosts' own settings ran at them, though others had just failed to change them
    good = [r for r in records(store) if r["status"] == "ok"]
    assert [r["counters"]["server"]["state"]["tcp_rmem"].split() for r in good] == 2 * [
        before["near"][:3]
    ]


@as_root
def test_an_ordinary_user_measures_all_but_what_needs_root(deployment, store):
    ordinary = "(cat /etc/passwd; echo ordinary:*:4711:4711::/tmp:/bin/sh) >/run/passwd"
    open_keys = (
        "mount --bind /run/passwd /etc/passwd && chmod 711 /run/netperf-lab && chmod 644 "
        "/run/netperf-lab/au*"
    )
    theirs = altered(deployment, "near", user="ordinary")
    before = buffers(deployment)
    with changed(
        deployment,
        "near",
        ordinary,
        open_keys,
        undo="umount /etc/passwd; rm /run/passwd; chmod 700 /run/netperf-lab",
    ):
        tally = measure(experiment(tests=[LADDER]), theirs, store)
    assert (tally.ok, tally.failed) == (3, 1)
    assert "log in as root, or as a user with passwordless sudo" in one(why(store))
    assert all(r["facts"]["server"]["kernel"] for r in records(store))
    assert buffers(deployment) == before


PACKAGES = """#!/bin/sh
case "$1" in update) exit 0 ;; esac
for word; do package=$word; done
[ -e "/run/packages/$package" ] || { echo "E: Unable to locate package $package" >&2; exit 100; }
ln -s "/run/packages/$package" "/usr/local/bin/$package"
"""
"""A package manager that really brings a program to where it is found, out of a folder instead
of the internet."""


@pytest.mark.slow
@as_root
def test_a_missing_tool_is_installed_where_that_is_asked_for(deployment, store):
    qperf, sockperf, apt = (
        shutil.which(name) for name in ("qperf", "sockperf", "apt-get")
    )
    assert qperf
    assert sockperf
    if not apt:
        pytest.skip("no package manager to stand in for")
    commands = (
        (
            "mkdir /run/packages && touch /run/nothing /run/packages/qperf && mount -t tmpfs none "
            "/usr/local/bin"
        ),
        f"mount --bind {qperf} /run/packages/qperf",
        f"mount --bind /run/nothing {qperf} && mount --bind /run/nothing {sockperf}",
        (
            f"printf %s {shlex.quote(PACKAGES)} >/run/apt && chmod 755 /run/apt && mount --bind "
            f"/run/apt {apt}"
        ),
    )
    undo = (
        f"umount {apt}; umount {sockperf}; umount {qperf}; umount /run/packages/qperf; umount "
        "/usr/local/bin; "
        "rm -r /run/packages /run/nothing /run/apt"
    )
    declared = experiment(tests=[LATENCY, SOCKPERF])
    with changed(deployment, "near", *commands, undo=undo):
        plain = measure(declared, deployment, Path(store.parent, "plain"))
        assert (plain.ok, plain.failed) == (2, 2)
        tally = measure(declared, deployment, store, install=True)
    assert (tally.ok, tally.failed) == (3, 1)
    reason = one(why(store))
    assert "sockperf is not installed" in reason
    assert "Unable to locate package sockperf" in reason
    assert reason.endswith("install it there by hand")
    assert (
        subprocess.run(["qperf", "--version"], capture_output=True).returncode == 0
    )  # only that host was changed


def test_a_tool_that_prints_without_end(deployment, store, monkeypatch):
    module = tools.tool("iperf3")
    endless = ("sh", "-c", "exec yes iperf3")
    plain = module.commands
    monkeypatch.setattr(
        module, "commands", lambda *given: replace(plain(*given), client=endless)
    )
    monkeypatch.setattr(ssh, "MAX_OUTPUT_BYTES", 5_000_000)
    tally = measure(
        experiment(tests=[THROUGHPUT], pairs=[NEAR], attempts=1), deployment, store
    )
    assert (tally.ok, tally.attempts_failed) == (0, 1)
    assert "printed more than 256 MiB and was ended" in one(why(store))
    (run_id,) = run_ids(store)
    assert (store / "raw" / run_id / "client.out").stat().st_size == 5_000_000
    assert not tools_running()


def test_a_long_log_of_a_tool_that_succeeded_is_read_whole(
    deployment, store, monkeypatch
):
    monkeypatch.setattr(trial, "WHOLE_BYTES", 16)
    monkeypatch.setattr(trial, "END_BYTES", 8)
    tally = measure(experiment(pairs=[NEAR]), deployment, store)
    assert (tally.ok, tally.attempts_failed) == (tally.scheduled, 0)


def test_a_clock_that_is_set_is_a_warning_on_the_run(deployment, store, monkeypatch):
    steps = iter([0.0, 0.3, -10_800.0, -10_800.0])
    monkeypatch.setattr(collector, "_clock_offset_s", lambda: next(steps))
    measure(experiment(pairs=[NEAR], rounds=3), deployment, store)
    warned = [
        [w for w in record.warnings if "clock" in w]
        for record in sorted(stored_runs(store), key=lambda record: record.round)
    ]
    assert [len(w) for w in warned] == [0, 1, 0]
    assert "set back by 10800 s" in warned[1][0]
