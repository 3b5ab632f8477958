"""The verbs as functions: in a script, beside another collector, and in a notebook's own event
loop."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from jupyter_client.manager import KernelManager

import netperf_lib as npl
from netperf_lib import tools
from netperf_lib.data.declaration import deployments, read_plan
from netperf_lib.data.layout import hosts_dir, lock
from netperf_lib.data.raw import run_ids
from netperf_lib.errors import CollectError, StoreError, explain
from netperf_lib.hosts import lab

from .kernels import own_sockets
from .sshd import Sshd, alive, wait_until

SMALL = {
    "name": "small",
    # the lab sleeps between packets that are milliseconds apart
    "hosts": {
        "source": "lab",
        "options": {
            "hosts": [{"name": "a"}, {"name": "b"}],
            "links": {"same-zone": {"delay_us": 3000}},
        },
    },
    "pairs": [{"client": "a", "server": "b", "placement": "same-zone"}],
    # the tool that counts parts of a second
    "tests": [{"tool": "iperf2", "test": "udp", "duration_s": 0.2}],
    "rounds": 1,
}


def declare(folder, **changed):
    place = folder / "small.yaml"
    place.write_text(yaml.safe_dump(SMALL | changed))
    return place


@pytest.fixture
def small(lab_runs, tmp_path):
    return declare(tmp_path)


def test_a_second_collector_touches_neither_hosts_nor_plan(small, tmp_path):
    first = Path(tmp_path, "small")
    with lock(first), pytest.raises(StoreError, match="another collector"):
        npl.collect(small, root=tmp_path)
    assert not deployments(first)
    assert read_plan(first) is None
    assert lab.status(hosts_dir(first)) is None


def test_hosts_are_not_placed_where_nothing_is_left_to_measure(small, tmp_path):
    said = []
    store = npl.collect(small, root=tmp_path, say=said.append)
    (placed,) = deployments(store).values()
    assert "1 of 1 trials measured." in said
    npl.collect(small, root=tmp_path, say=said.append)
    assert said[-1] == "Deployment 1: nothing is left to measure."
    assert deployments(store) == {1: placed}  # with the keys and ports of the first time
    npl.collect(small, root=tmp_path, rounds="+1", say=said.append)
    assert said[-1] == "1 of 2 trials measured, 1 measured before."


def test_trials_without_a_good_run_are_an_error_with_the_reason(
    small, tmp_path, monkeypatch
):
    plain = tools.TOOLS["iperf2"].commands
    failing = [True]

    def commands(*given):
        made = plain(*given)
        return replace(made, client=("ls", "/no-such-place")) if failing[0] else made

    monkeypatch.setattr(tools.TOOLS["iperf2"], "commands", commands)
    file = declare(small.parent, rounds=2)
    for _ in range(2):  # the second time nothing is left to measure
        with pytest.raises(
            CollectError,
            match=r"2 of 2 trials have no good run .* reason: .*no-such-place",
        ) as error:
            npl.collect(file, root=tmp_path)
        assert error.value.exit_code == 1
    failing[0] = False
    file = declare(small.parent, rounds=2, attempts=3)
    assert len(run_ids(npl.collect(file, root=tmp_path))) == 6


def test_a_disk_that_is_full_before_anything_is_measured_is_told(small, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "none", disk], capture_output=True
    ).returncode:
        pytest.skip("needs root to make a small disk")
    try:
        (disk / "fill").write_bytes(bytes(16 * 1024))
        with pytest.raises(OSError) as caught:
            npl.collect(small, root=disk)
        assert "the disk is full; free some space" in str(explain(caught.value))
        (disk / "fill").unlink()
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        assert len(run_ids(npl.collect(small, root=disk))) == 1
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_plan_is_shown_without_loading_what_measures_and_reads():
    """These take most of the time of a start; without them a plan is shown in half a second."""
    code = (
        "import sys; from netperf_lib.pipeline import plan; print(plan(sys.argv[1]))\n"
        "slow = {'numpy', 'pandas', 'pyarrow', 'asyncssh', 'scipy', 'matplotlib'}\n"
        "sys.exit(', '.join(slow & set(sys.modules)) or 0)"
    )
    file = Path(__file__).parents[1] / "data" / "experiments" / "lab.yaml"
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# -- in a notebook ---------------------------------------------------------------------------------


@pytest.fixture
def kernel():
    """A real kernel, whose event loop runs while a cell does, and its client."""
    with own_sockets() as sockets:
        manager = KernelManager(kernel_name="python3", **sockets)
        manager.start_kernel(extra_arguments=["--quiet"])
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            yield manager, client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def test_a_cell_measures_on_hosts_that_exist(kernel, tmp_path):
    _, client = kernel
    servers = {name: Sshd(tmp_path / name) for name in ("a", "b")}
    fields = ("address", "port", "user", "identity", "known_hosts")
    try:
        hosts = {n: {f: getattr(s.host(), f) for f in fields} for n, s in servers.items()}
        file = declare(
            tmp_path, hosts={"source": "inventory", "options": {"hosts": hosts}}
        )
        code = [
            "import asyncio, netperf_lib as npl",
            "assert asyncio.get_running_loop().is_running()",
            # both are this machine
            f"store = npl.collect({str(file)!r}, root={str(tmp_path)!r}, anyway=True)",
            "assert (npl.load(store)['status'] == 'ok').all()",
        ]
        done = client.execute("\n".join(code), reply=True, timeout=120)["content"]
        assert done["status"] == "ok", done
    finally:
        for server in servers.values():
            server.close()


def test_interrupting_a_cell_ends_what_it_started(kernel, small, tmp_path):
    manager, client = kernel
    file = declare(small.parent, tests=[SMALL["tests"][0] | {"duration_s": 311}])
    measure = f"npl.collect({str(file)!r}, root={str(tmp_path)!r})"
    asked = client.execute(f"import netperf_lib as npl; {measure}")
    assert wait_until(lambda: alive(" -t 311 "), 180)
    manager.interrupt_kernel()
    replies = iter(lambda: client.get_shell_msg(timeout=60), None)
    done = next(r for r in replies if r["parent_header"]["msg_id"] == asked)["content"]
    assert (done["status"], done["ename"]) == ("error", "KeyboardInterrupt")
    assert wait_until(lambda: not alive(" -t 311 "))
    with lock(Path(tmp_path, "small")):
        assert not run_ids(Path(tmp_path, "small"))
    assert lab.status(hosts_dir(Path(tmp_path, "small"))) is None
