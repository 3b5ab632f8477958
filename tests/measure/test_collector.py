"""Collection on emulated hosts: real sshd, real tools, and faults that really happen."""

import asyncio
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.analysis.limits import causes
from netperf_lib.data.declaration import declare, write_plan
from netperf_lib.data.layout import is_leading, trial_of
from netperf_lib.data.load import load
from netperf_lib.data.raw import run_ids
from netperf_lib.data.raw import runs as stored_runs
from netperf_lib.errors import CollectError, HostError, explain
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.hosts import lab
from netperf_lib.measure import collector, session
from netperf_lib.measure.collector import collect

from ..checksums import changed_files
from ..sshd import free_port, parent, processes, wait_until

pytestmark = pytest.mark.usefixtures("lab_runs")

KILLS = 10

HOSTS = {
    "source": "lab",
    "options": {
        # between packets that are milliseconds apart the lab sleeps; at its own rates it would keep
        # two processors busy
        "hosts": [
            {"name": n, "egress_bps": 4e7} for n in ("client", "near", "other", "narrow")
        ]
        + [{"name": "far", "zone": "2", "egress_bps": 4e7}],
        "links": {n: {"delay_us": 8000} for n in ("same-zone", "cross-zone")}
        | {"client/narrow": {"delay_us": 58, "rate_bps": 3e7}},
    },
}
NEAR = {"client": "client", "server": "near", "placement": "same-zone"}
FAR = {"client": "client", "server": "far", "placement": "cross-zone"}
APART = {"client": "other", "server": "far", "placement": "cross-zone"}
LATENCY = {"tool": "qperf", "test": "tcp_lat", "duration_s": 1}
THROUGHPUT = {"tool": "iperf3", "test": "tcp", "duration_s": 1}
QUICK = {"tool": "iperf2", "test": "udp", "duration_s": 0.2}
"""The only tool that counts parts of a second, where it does not matter what is measured."""


def experiment(**changed):
    given = {
        "name": "t",
        "hosts": HOSTS,
        "pairs": [NEAR, FAR],
        "tests": [QUICK],
        "rounds": 1,
        "attempts": 2,
    }
    return Experiment.model_validate(given | changed)


@pytest.fixture
def store(tmp_path):
    yield (store := Path(tmp_path, "t"))
    for record in records(store):  # shown where a test fails
        print(
            record["run_id"], record["status"], record["error"] or record["log"]["error"]
        )


def measure(declared, deployment, store, *, led=False, **options):
    declare(store, declared)
    plan = schedule(declared, seed=1)
    plan = replace(plan, trials=tuple(t for t in plan.trials if led or not t.leading))
    write_plan(store, plan.to_dict())
    return collect(
        plan,
        deployment,
        store,
        **{"say": lambda _: None, "patience_s": 0.0} | options,
    )


def altered(deployment, name=None, **fields):
    """A deployment in which one host, or each, is different."""
    hosts = []
    for host in deployment.hosts:
        is_meant = name in (None, host.name)
        hosts.append(replace(host, **fields) if is_meant else host)
    return replace(deployment, hosts=tuple(hosts))


def limit(monkeypatch, tool, seconds):
    """Lose patience with a tool sooner."""
    module = tools.tool(tool)
    monkeypatch.setattr(
        module,
        "commands",
        lambda *given, plain=module.commands: replace(plain(*given), timeout_s=seconds),
    )


def records(store):
    return sorted(
        map(asdict, stored_runs(store)), key=lambda r: r["started_utc"] or r["ended_utc"]
    )


def on_host(deployment, name, command):
    done = subprocess.run(
        lab.ssh_command(deployment.host(name), command),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.stdout


def buffers(deployment):
    """TCP buffers of each host, and what is kept there of those found."""
    look = "cat /proc/sys/net/ipv4/tcp_[rw]mem; ls /run | grep netperf_lib"
    names = ("client", "near", "far")
    return {name: on_host(deployment, name, look).split() for name in names}


def tools_running():
    """What runs of the tools on any host, seen from outside: it takes no login."""

    def is_tool(place):
        name = (place / "comm").read_text().strip()
        return re.fullmatch("(qperf|iperf.*|sockperf|timeout)", name) and descends(place)

    return processes(is_tool)


def descends(place):
    """Whether a process is of a lab that these tests started: another one on this machine is not
    theirs to disturb."""
    pid = int(place.name)
    while pid > 1 and pid != os.getpid():
        pid = parent(pid)
    return pid == os.getpid()


def marked(program, after_s=0.3, argument="-p"):
    """Process, seen from outside the hosts, of a tool that a collector has started; when it has
    run for a moment."""
    found = []

    def is_meant(place):
        named = (place / "comm").read_text().strip() == program
        # `--version` is asked at the start
        asked = argument.encode() in (place / "cmdline").read_bytes().split(b"\0")
        ours = b"NETPERF_LIB=" in (place / "environ").read_bytes()
        return named and asked and ours and descends(place)

    def look():
        found.extend(processes(is_meant))
        return found

    assert wait_until(look, 90), f"{program} was never started"
    time.sleep(after_s)
    return found[0]


@contextmanager
def meanwhile(work):
    """Do `work` in a thread beside the block; its failure fails the test."""
    failed = []

    def inside():
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (handed over)
            failed.append(error)

    thread = threading.Thread(target=inside)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


# -- what a run holds ------------------------------------------------------------------------------


def test_a_run_holds_all_that_is_needed_to_judge_it(deployment, store, monkeypatch):
    pauses, sleep = [], asyncio.sleep

    async def noted(seconds):
        pauses.append(seconds)
        await sleep(0 if seconds == 77 else seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)
    tally = measure(
        experiment(tests=[LATENCY, THROUGHPUT], pairs=[NEAR], pause_s=77),
        deployment,
        store,
    )
    assert pauses.count(77) == 1, "a pause stands between trials, not after the last one"
    assert (tally.ok, tally.failed, tally.attempts_failed) == (2, 0, 0), [
        r["error"] or r["log"]["error"] for r in records(store)
    ]
    for record in records(store):
        tool, commands = record["trial"]["tool"], record["commands"]
        assert record["status"] == record["log"]["status"] == "ok"
        assert record["tool_version"]
        assert record["hosts"]["client"]["name"] == "client"
        assert commands["client"][0] == commands["server"][0] == tool
        files = {"client.err", "client.out", "server.err", "server.out"}
        if tool == "iperf3":
            files |= {"client-connections.gz", "server-connections.gz"}
            printed = store / "raw" / record["run_id"] / "server.out"
            # a server that ends by itself had time to print
            assert "error" not in json.loads(printed.read_text())
        assert set(record["files"]) == files
        for side in ("client", "server"):
            facts = record["facts"][side]
            assert (facts["nic"], facts["mtu"]) == ("eth0", 1500)
            assert facts["sysctl"]["net.ipv4.tcp_rmem"].count(" ") == 2
            assert record["counters"][side]["delta"]["Tcp.OutSegs"] > 10
    ports = [word for r in records(store) for word in r["commands"]["server"]]
    ports = {word for word in ports if word.isdigit() and int(word) >= 20_000}
    assert len(ports) > 1, "not every trial has the port of the one before"
    runs = load(store)
    assert (runs["status"] == "ok").all()
    assert runs.loc[runs["tool"] == "qperf", "latency_oneway_us"].notna().all()
    assert not tools_running()


def test_the_connections_are_sampled_and_name_what_holds_the_transfer_back(
    deployment, store
):
    narrow = {"client": "client", "server": "narrow", "placement": "same-zone"}
    # of messages of 128 KiB, ten would be all, and a late last one would be a tenth of the rate
    slow = THROUGHPUT | {
        "duration_s": 2,
        "message_bytes": [16384],
        "options": {"bitrate": "5M"},
    }
    measure(
        experiment(pairs=[narrow], tests=[slow, THROUGHPUT | {"duration_s": 2}]),
        deployment,
        store,
    )
    runs = load(store).sort_values("throughput_bps")
    named = causes(runs)
    assert named["cause"].to_list() == ["rate asked for", "path"], named
    rows = runs.to_dict("records")
    for row in rows:
        assert row["limit_bps"] == pytest.approx(row["throughput_bps"], rel=0.1)
        assert 0 < row["limit_sender_on_ratio"] < 1
        assert 0 < row["limit_receiver_on_ratio"] < 1


def test_what_is_measured_is_not_measured_again(deployment, store):
    measure(experiment(), deployment, store)
    before = run_ids(store)
    tally = measure(experiment(), deployment, store)
    assert (tally.before, tally.ok) == (2, 0)
    assert run_ids(store) == before
    assert measure(experiment(rounds=2), deployment, store).ok == 2


def test_a_leading_run_is_kept_and_no_run_of_the_table(deployment, store):
    declared = experiment(rounds=2)
    tally = measure(declared, deployment, store, led=True)
    assert (tally.scheduled, tally.ok) == (4, 4)
    first, *others = records(store)
    assert (first["status"], first["run_id"][-8:]) == ("ok", "-lead-a1")
    assert first["trial"]["server"] == others[0]["trial"]["server"]
    assert not any(is_leading(record["run_id"]) for record in others)
    assert sorted(load(store)["run_id"]) == sorted(r["run_id"] for r in others)
    assert changed_files(store) == []
    again = measure(declared, deployment, store, led=True)
    assert (again.before, again.ok, len(records(store))) == (4, 0, 5)


def test_buffers_are_set_for_their_trials_and_put_back(deployment, store):
    before = buffers(deployment)
    ladder = experiment(
        pairs=[NEAR],
        tests=[THROUGHPUT | {"tcp_buffer_bytes": [None, 65536, 1 << 25]}],
    )
    tally = measure(ladder, deployment, store)
    assert (tally.ok, tally.attempts_failed) == (3, 0), [
        r["error"] for r in records(store)
    ]
    assert buffers(deployment) == before
    runs = load(store)
    small = runs["tcp_buffer_bytes"] == 65536
    assert (
        runs.loc[small, "throughput_bps"].max() < runs.loc[~small, "throughput_bps"].min()
    )
    # the tool was told nothing: the kernel's limit did it
    assert not any("-w" in r["commands"]["client"] for r in records(store))


def test_settings_of_hosts_that_are_not_ours_are_left_alone(deployment, store):
    theirs = altered(deployment, owned=False)
    before = buffers(deployment)
    measure(
        experiment(pairs=[NEAR], tests=[THROUGHPUT | {"tcp_buffer_bytes": [65536]}]),
        theirs,
        store,
    )
    (record,) = records(store)
    assert "-w" in record["commands"]["client"]
    assert any("left alone" in w for w in record["warnings"])
    assert buffers(deployment) == before


def test_latency_is_measured_while_a_load_runs(deployment, store):
    idle = {"tool": "sockperf", "test": "ping-pong", "duration_s": 1, "protocol": "tcp"}
    narrow = NEAR | {"server": "narrow"}
    tally = measure(
        experiment(pairs=[narrow], tests=[idle, idle | {"during": {"streams": 2}}]),
        deployment,
        store,
    )
    assert tally.ok == 2, [r["error"] or r["log"]["error"] for r in records(store)]
    runs = load(store).query("status == 'ok'").set_index("during")
    loaded = runs.loc["iperf3 tcp ×2"]
    assert 1e7 < loaded["throughput_bps"] < 3.1e7
    assert loaded["limit_connections"] == 2, "the load is what is sampled"
    # the load stands in the queue before the narrow link, for up to 30 ms each time a message goes
    # that way
    alone = runs.loc[runs.index.isna(), "latency_oneway_p50_us"].item()
    assert loaded["latency_oneway_p50_us"] > max(5_000, alone)
    assert not tools_running()


def test_measuring_stops_when_there_is_enough(deployment, store):
    def enough():
        rounds = {record["round"] for record in records(store)}
        return "three rounds are enough" if len(rounds) == 3 else None

    declared = experiment(pairs=[NEAR], rounds=40)
    tally = measure(declared, deployment, store, enough=enough)
    assert (tally.ok, tally.stopped_after_round) == (3, 3)


# -- faults ----------------------------------------------------------------------------------------


def test_a_cut_connection_fails_one_run_and_the_trial_is_measured_again(
    deployment, store
):
    def cut():
        pid = marked("iperf3")
        while Path(f"/proc/{pid}/comm").read_text().strip() not in (
            "sshd",
            "sshd-session",
        ):
            pid = parent(pid)
        os.kill(pid, signal.SIGKILL)

    with meanwhile(cut):
        tally = measure(
            experiment(tests=[THROUGHPUT | {"duration_s": 2}]), deployment, store
        )
    assert (tally.ok, tally.failed, tally.attempts_failed) == (2, 0, 1)
    (failed,) = (r for r in records(store) if r["status"] == "failed")
    assert "connection broke" in failed["error"]
    assert load(store)["status"].value_counts().to_dict() == {
        "ok": 2,
        "failed": 1,
    }
    assert wait_until(lambda: not tools_running())


@pytest.mark.parametrize(("host", "failed"), [("near", 1), ("client", 2)])
def test_a_missing_tool_fails_its_trials_and_no_others(deployment, store, host, failed):
    qperf = shutil.which("qperf")
    if os.geteuid():
        pytest.skip("needs root to hide a program on one host")
    on_host(deployment, host, f"touch /run/nothing && mount --bind /run/nothing {qperf}")
    try:
        tally = measure(experiment(tests=[LATENCY]), deployment, store)
        assert (tally.ok, tally.failed) == (2 - failed, failed)
        said = {r["error"] for r in records(store) if r["status"] == "failed"}
        assert len(said) == 1
        assert f"qperf is not installed on host {host}" in said.pop()
    finally:
        on_host(deployment, host, f"umount {qperf}; rm /run/nothing")
    # trials whose tool never ran have their attempts left
    assert measure(experiment(tests=[LATENCY]), deployment, store).ok == failed


def test_a_full_disk_ends_it_with_what_to_do_and_loses_nothing(deployment, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "none", str(small)],
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("needs root to make a small disk")
    try:
        store = Path(small, "t")
        declared = experiment(rounds=8, pairs=[NEAR])
        with pytest.raises(OSError) as caught:
            measure(declared, deployment, store)
        assert "the disk is full; free some space" in str(explain(caught.value))
        kept = run_ids(store)
        assert 0 < len(kept) < 8
        assert all(record.status == "ok" for record in stored_runs(store))
        subprocess.run(["mount", "-o", "remount,size=50m", str(small)], check=True)
        tally = measure(declared, deployment, store)
        assert (tally.before, tally.ok) == (len(kept), 8 - len(kept))
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)
    assert not tools_running()


def test_a_port_that_is_taken_is_not_used(deployment, store):
    command = (
        "for p in $(seq 20000 20011); do setsid iperf3 -s -p $p >>listener 2>&1 "
        "</dev/null & echo $!; done"
    )
    pids = on_host(deployment, "near", command).split()
    try:
        up = wait_until(
            lambda: ":4E2B " in on_host(deployment, "near", "cat /proc/net/tcp6"), 90
        )
        assert up, on_host(deployment, "near", "cat listener")
        tally = measure(experiment(pairs=[NEAR], tests=[LATENCY]), deployment, store)
        assert (tally.ok, tally.attempts_failed) == (1, 0)
        (record,) = records(store)
        assert int(record["commands"]["server"][-1]) >= 20_012
    finally:
        on_host(deployment, "near", f"kill {' '.join(pids)}")


def test_unreachable_hosts_are_told_and_cost_no_attempts(deployment, store):
    gone = altered(deployment, "near", port=1)
    tally = measure(experiment(), gone, store)
    assert (tally.ok, tally.failed) == (1, 1)
    assert measure(experiment(), deployment, store).ok == 1
    nobody = altered(deployment, port=1)
    with pytest.raises(CollectError, match="no pair of hosts of 't' can be reached"):
        measure(experiment(), nobody, Path(store.parent, "u"))
    with pytest.raises(HostError, match="no host 'client'"):
        measure(experiment(), replace(deployment, hosts=()), Path(store.parent, "v"))


def test_a_host_that_is_away_for_a_while_is_waited_for(
    deployment, store, tmp_path, monkeypatch
):
    """Its port answers only later: the trials of others come first, and none of its own is used
    up."""
    near, port = deployment.host("near"), free_port()
    known = tmp_path / "known_hosts"
    known.write_text(
        "* "
        + Path(near.known_hosts or "").read_text().splitlines()[1].split(" ", 1)[1]
        + "\n"
    )
    moved = {"port": port, "ssh_config": "/dev/null", "known_hosts": str(known)}
    away = altered(deployment, "near", **moved)

    def copy(source, sink):
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def answer():
        # the far server's trial was measured meanwhile
        wait_until(lambda: len(run_ids(store)) >= 1, 180)
        time.sleep(1)
        server = socket.create_server(("127.0.0.1", port))
        while True:
            here, _ = server.accept()
            there = socket.create_connection(("127.0.0.1", near.port))
            for ends in ((here, there), (there, here)):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    threading.Thread(target=answer, daemon=True).start()
    said = []
    monkeypatch.setattr(collector, "TELL_S", 0)
    monkeypatch.setattr(session, "AGAIN_S", 1.0)

    tally = measure(experiment(), away, store, patience_s=90, say=said.append)
    assert (tally.ok, tally.failed, tally.attempts_failed) == (2, 0, 0), said
    assert any("host near" in text and "retrying for" in text for text in said)
    assert said[0].startswith("2 trials; about ")
    assert "round 1: 2 of 2 trials, 0 s left" in said


def test_two_collectors_on_the_same_hosts_do_not_disturb_each_other(
    deployment,
    store,
    lab_folder,
    tmp_path,
    monkeypatch,
):
    """The second one is another experiment, or a copy of the same folder."""
    monkeypatch.setattr(session, "LEAVING_S", 0.0)
    declare(store, experiment(pairs=[NEAR], tests=[LATENCY | {"duration_s": 6}]))
    copy = tmp_path / "copied" / "t"
    shutil.copytree(store, copy)
    first = start(store, lab_folder)
    try:
        marked("qperf", argument="tcp_lat")
        for second in (Path(copy.parent, "t"), Path(tmp_path, "u")):
            with pytest.raises(
                HostError, match=r"another collector measures on it now \(experiment 't'"
            ):
                measure(experiment(name=second.name), deployment, second)
            assert not run_ids(second)
    finally:
        _, errors = first.communicate(timeout=180)
    assert first.returncode == 0, errors
    (run,) = stored_runs(store)
    assert run.status == "ok"


def test_measuring_ends_where_the_budget_is_spent(deployment, store):
    def spent():
        return "it is spent" if len(run_ids(store)) == 3 else None

    tally = measure(experiment(rounds=2), deployment, store, spent=spent)
    assert (tally.ok, tally.failed, tally.stopped, tally.stopped_after_round) == (
        3,
        0,
        "it is spent",
        2,
    )
    assert measure(experiment(rounds=2), deployment, store).ok == 1


# -- killed ----------------------------------------------------------------------------------------

COLLECTOR = """
    import signal, sys
    from pathlib import Path
    from netperf_lib.measure.collector import collect
    from netperf_lib.hosts import lab
    from netperf_lib.experiment.schedule import schedule
    from netperf_lib.data.declaration import declaration
    store, state = Path(sys.argv[1], "t"), Path(sys.argv[2])
    for number in (signal.SIGTERM, signal.SIGHUP):  # as the command line does
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    deployment = lab.status(state).deployment
    print("begin", flush=True)
    collect(schedule(declaration(store).experiment, seed=1), deployment, store)
"""


def start(store, state):
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(COLLECTOR),
            str(store.parent),
            str(state),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "begin\n", (
        process.stderr and process.stderr.read()
    )
    return process


@pytest.fixture
def lab_folder(deployment):
    place = deployment.host("client").identity
    assert place
    return Path(place).parents[1]


@pytest.mark.slow
@pytest.mark.timeout(900 + 20 * KILLS)
def test_killed_at_any_moment_it_goes_on_and_leaves_nothing(
    deployment, store, lab_folder
):
    before = buffers(deployment)
    tests = [LATENCY, THROUGHPUT | {"tcp_buffer_bytes": [None, 1 << 20]}]
    declared = experiment(tests=tests, rounds=max(2, KILLS // 5), attempts=3)
    declare(store, declared)
    wanted = {t.run_id for t in schedule(declared, seed=1).trials}
    rng = random.Random(1)
    for _ in range(KILLS):
        process = start(store, lab_folder)
        time.sleep(rng.uniform(0.2, 4))
        process.kill()
        process.communicate()
        for run in stored_runs(store):  # whatever is there is whole
            assert run.status == "ok"
            for name in ("client.out", "run.json"):
                assert (store / "raw" / run.run_id / name).stat().st_size, name
        assert wait_until(lambda: not tools_running(), 30), tools_running()
    process = start(store, lab_folder)
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    runs = run_ids(store)
    assert set(map(trial_of, runs)) == wanted
    assert len(runs) == len(wanted)
    assert not [p for p in (store / "raw").iterdir() if p.name not in runs]
    assert (load(store)["status"] == "ok").all()
    assert not tools_running()
    assert buffers(deployment) == before


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)]
)
def test_terminated_it_puts_settings_back_itself(deployment, store, lab_folder, number):
    before = buffers(deployment)
    declare(
        store,
        experiment(
            pairs=[NEAR],
            tests=[THROUGHPUT | {"tcp_buffer_bytes": [1 << 20], "duration_s": 30}],
        ),
    )
    process = start(store, lab_folder)
    marked("iperf3")
    assert buffers(deployment) != before
    process.send_signal(number)
    _, errors = process.communicate(timeout=90)
    assert process.returncode == 128 + number
    assert "interrupted; run the same command again to resume" in errors
    assert not run_ids(store)
    assert buffers(deployment) == before
    assert not tools_running()
