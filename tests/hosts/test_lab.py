"""The local lab, for real: namespaces, sshd, TUN devices, and the tools that people measure
with."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from pydantic import ValidationError

from netperf_lib.errors import LabError, UsageError
from netperf_lib.experiment.model import Experiment, HostsSpec, Pair, TestSpec
from netperf_lib.hosts import lab

from ..sshd import processes, wait_until

pytestmark = pytest.mark.usefixtures("lab_runs")

BUFFERS = {
    "net.ipv4.tcp_rmem": "4096 131072 67108864",
    "net.ipv4.tcp_wmem": "4096 16384 67108864",
}
TUNED = [
    {"name": "tuned", "sysctls": BUFFERS},
    {"name": "tuned-far", "region": "region-2", "sysctls": BUFFERS},
]
FILES = "ls ~"
"""Lists the files in the home of a host."""
SMALL = {"hosts": [{"name": "client"}, {"name": "ppg"}]}


def experiment(**options):
    return Experiment(
        name="t",
        hosts=HostsSpec(source="lab", options=options),
        pairs=(Pair(client="client", server="ppg", placement="lan"),),
        tests=(TestSpec(tool="qperf", test="tcp_lat"),),
    )


@contextlib.contextmanager
def laid_out(state, **options):
    """A lab in `state`, for as long as the block runs."""
    try:
        yield lab.up(experiment(**options), state=state)
    finally:
        lab.down(experiment(), state=state)


def run(deployment, host, command):
    done = subprocess.run(
        lab.ssh_command(deployment.host(host), command),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def deployment(tmp_path_factory):
    """The default lab and two hosts with settings of their own, with the servers of the tools
    running."""
    state = tmp_path_factory.mktemp("lab")
    hosts = [host.model_dump() for host in lab.Options().hosts] + TUNED
    made = lab.up(experiment(hosts=hosts), state=state)
    try:
        for host in made.hosts[1:]:
            run(
                made,
                host.name,
                "for s in qperf 'iperf3 -s'; do setsid $s >/dev/null 2>&1 </dev/null & done; "
                "sleep 0.3",
            )
        yield made
    finally:
        lab.down(experiment(), state=state)
    assert lab.status(state) is None
    assert list(state.iterdir()) == []


def test_hosts_are_separate_machines(deployment):
    names = [h.name for h in deployment.hosts]
    assert names == [
        "client",
        "ppg",
        "zone",
        "xzone",
        "region",
        "plain",
        "tuned",
        "tuned-far",
    ]
    assert all(h.owned for h in deployment.hosts)
    assert run(deployment, "region", "hostname").split() == ["region"]
    assert run(deployment, "region", "cd; pwd; touch notes; ls -A").split() == [
        "/run/home",
        "notes",
    ]
    assert run(deployment, "ppg", "ls -A ~") == "", (
        "nothing of the real home, whose shell would read it at every command"
    )
    assert run(
        deployment, "client", FILES + "; getent hosts region | cut -d' ' -f1"
    ).split() == ["10.10.0.8"]
    assert "67108864" in run(deployment, "tuned", "cat /proc/sys/net/ipv4/tcp_wmem")
    assert "67108864" not in run(deployment, "zone", "cat /proc/sys/net/ipv4/tcp_wmem")
    # only its own processes: the first one, sshd's, and those of the command
    assert int(run(deployment, "client", "ls -d /proc/[0-9]* | wc -l")) < 12


def test_it_says_what_it_is(deployment):
    assert deployment.notice.startswith("Emulated hosts")
    assert deployment.notice.count(".") == 1, "one sentence"
    assert "10 times those of a real one" in deployment.notice


def at_last(look, holds, best, tries=8):
    """The best that was seen of several figures, as soon as they are as they should be: a busy
    machine can only slow things down, for seconds at times."""
    seen = look()
    for _ in range(tries - 1):
        if holds(seen):
            break
        again = look()
        seen = {name: best(value, again[name]) for name, value in seen.items()}
    return seen


def test_delays_are_those_asked_for(deployment):
    def one_way_us():
        """Half of the shortest of many round trips."""
        least = {}
        for server in ("ppg", "zone", "plain", "region"):
            said = run(deployment, "client", f"ping -q -c 50 -i 0.005 {server}")
            shortest = re.search(r"rtt min/avg/max/mdev = ([\d.]+)/", said)[1]
            least[server] = float(shortest) * 1000 / 2
        return least

    def as_asked(us):
        near = 330 < us["ppg"] < us["zone"] < 900
        slow = 600 < us["plain"] - us["zone"] < 1500
        return near and slow and 9_900 < us["region"] < 11_000

    us = at_last(one_way_us, as_asked, min)
    assert as_asked(us), us


def bps(deployment, client, server, arguments):
    address = deployment.host(server).data_address
    said = json.loads(run(deployment, client, f"iperf3 -J -c {address} -t 1 {arguments}"))
    return said["end"]["sum_received"]["bits_per_second"]


def test_a_stream_over_distance_is_limited_by_its_window(deployment):
    """The window is small, so that a machine with other work to do still fills it."""
    window = "-w 128K"
    asked = {"own": "", "one": window, "many": f"{window} -P 4"}

    def rates():
        return {n: bps(deployment, "client", "region", a) for n, a in asked.items()}

    def as_the_window_says(rate):
        # 128 to 256 KiB in 20 ms
        expected = 2e7 < rate["one"] < 1.1e8
        return expected and min(rate["own"], rate["many"]) > 2 * rate["one"]

    rate = at_last(rates, as_the_window_says, max, tries=4)
    assert as_the_window_says(rate), rate


def test_no_stream_is_faster_than_its_link(deployment):
    rate = bps(deployment, "tuned", "tuned-far", "-P 4")
    assert rate < 2.6e9 + 8 * 64 * 2**20, "and what waited in the buffers"


def test_udp_is_paced_and_not_lost_on_the_way(deployment):
    """What a receiver whose turn on the processor comes late does not take is counted by its
    kernel: no other loss."""
    address = deployment.host("ppg").data_address

    def not_taken():
        names, values = (
            line.split()
            for line in run(deployment, "ppg", "grep ^Udp: /proc/net/snmp").splitlines()
        )
        return int(values[names.index("RcvbufErrors")])

    for rate in ("50M", "0"):  # 0: as fast as it goes
        before = not_taken()
        said = json.loads(
            run(deployment, "client", f"iperf3 -J -u -c {address} -t 1 -b {rate}")
        )["end"]["sum"]
        assert said["packets"] > 300
        assert said["bits_per_second"] < 1.05e8, (
            "the sender is held back, whatever it was asked for"
        )
        assert said["lost_packets"] <= not_taken() - before


ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 7007))
while True:
    message, sender = s.recvfrom(2000)
    s.sendto(message, sender)
"""
PING = """
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
s.connect((sys.argv[1], 7007))
for _ in range(50):
    for _ in range(10):
        s.send(bytes(400))
    time.sleep(0.001)  # no burst that the echo, on a busy machine, would lose
count = 0
try:
    while True:
        s.recv(2000)
        count += 1
except TimeoutError:
    print(count)
"""


def test_loss_and_pair_links_and_queue(tmp_path):
    options = SMALL | {
        "hosts": [{"name": "client"}, {"name": "ppg"}, {"name": "slow"}],
        "links": {
            "client/ppg": {"delay_us": 5000, "loss": 0.3},
            "client/slow": {"delay_us": 0, "rate_bps": 1e6},
        },
        "queue_us": 20_000,
    }
    with laid_out(tmp_path, **options) as made:
        for name, content in (("echo", ECHO), ("ping", PING)):
            for host in made.hosts:
                run(made, host.name, f"cat > ~/{name}.py <<'END'\n{content}END\n")
        back = {}
        for name in ("ppg", "slow"):
            echo = "setsid python3 ~/echo.py >/dev/null 2>&1 </dev/null & sleep 0.3"
            run(made, name, echo)
            ping = f"python3 ~/ping.py {made.host(name).data_address}"
            back[name] = int(run(made, "client", ping))
    assert 100 < back["ppg"] < 350, "about half survives 30 % loss each way"
    # 20 ms at 1 Mbit/s are 2500 bytes, some six datagrams of 428 bytes
    assert 3 <= back["slow"] < 100


def test_two_labs_do_not_meet(deployment, tmp_path):
    one = deployment
    folder = Path(one.hosts[0].ssh_config).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    run(one, "ppg", "touch ~/one")
    with laid_out(tmp_path, **SMALL) as two:
        assert one.host("ppg").data_address == two.host("ppg").data_address
        assert run(two, "ppg", FILES) == ""
        port = str(two.host("ppg").port)
        stranger = ["ssh", "-F", one.hosts[0].ssh_config, "-p", port, "ppg", "true"]
        refused = subprocess.run(stranger, capture_output=True, check=False)
        assert refused.returncode == 255, "host keys are pinned"
    assert run(one, "ppg", f"{FILES}; rm ~/one") == "one\n"


def test_hosts_go_before_other_programs_where_that_is_allowed(deployment):
    assert ("SCHED_RR" in run(deployment, "client", "chrt -p $$")) == (os.geteuid() == 0)


def test_up_again_is_the_same_lab_and_other_options_another(tmp_path):
    first = lab.up(experiment(**SMALL), state=tmp_path)
    try:
        assert lab.up(experiment(**SMALL), state=tmp_path) == first
        other = lab.up(experiment(**SMALL, mtu=1400), state=tmp_path)
        assert other.hosts[0].port != first.hosts[0].port
        assert run(other, "client", "cat /sys/class/net/eth0/mtu") == "1400\n"
        second = lab.up(experiment(**SMALL, mtu=1400), number=2, state=tmp_path)
        assert second.deployment_id == "lab-2"
    finally:
        lab.down(experiment(), state=tmp_path)
    lab.down(experiment(), state=tmp_path)  # safe to repeat


# --- whatever ends, nothing stays -----------------------------------------------------------------

CALLER = """
import json, sys, time
from pathlib import Path
from netperf_lib.hosts import lab
lab.run_foreground(lab.Options.model_validate(json.loads(sys.argv[2])), Path(sys.argv[1]))
"""


def namespace(pid="self"):
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def family(mark):
    """Processes that carry `mark` in their environment or command line, with their network
    namespaces."""
    found = {}

    def look(place):
        held = (place / "environ").read_bytes() + (place / "cmdline").read_bytes()
        if mark.encode() in held:
            found[int(place.name)] = namespace(place.name)

    processes(look)
    return found


def gone(mark, namespaces, folder):
    """Whether at last no process is left, also not in the namespaces, and no lab."""

    def inhabits(place):
        return namespace(place.name) in namespaces

    return wait_until(
        lambda: not (family(mark) or processes(inhabits) or lab.status(folder))
    )


def start(folder):
    """Start another process that runs a lab; its family carries a mark."""
    mark = f"lab-test-{uuid.uuid4()}"
    process = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(folder), json.dumps(SMALL)],
        env=os.environ | {"LAB_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, mark


@pytest.fixture
def caller(tmp_path):
    """Another process that runs a lab, in which a detached program runs."""
    process, mark = start(tmp_path)
    try:
        assert any(line.startswith("ready") for line in process.stdout), (
            process.stderr.read()
        )
        running = lab.status(tmp_path)
        run(
            running.deployment,
            "ppg",
            f"setsid sh -c ': {mark}; sleep 1000' >/dev/null 2>&1 </dev/null &",
        )
        namespaces = {*family(mark).values()} - {namespace()}
        assert len(namespaces) == 2
        yield process, running.pid, mark, namespaces
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_killing_the_caller_while_the_lab_starts_takes_everything_along(tmp_path):
    process, mark = start(tmp_path)
    try:
        end = time.monotonic() + 30
        # process 1 of a host, which made this folder, dies with the others; stopped before that,
        # nothing could end it
        made = "netperf-lab-*/hosts/client/hosts"
        while not list(tmp_path.glob(made)) and time.monotonic() < end:
            time.sleep(0.001)
        hosts = {p: n for p, n in family(mark).items() if n != namespace()}
        assert hosts
        for (
            host
        ) in hosts:  # what answers nothing any more is what the supervisor waits for
            with contextlib.suppress(ProcessLookupError):  # a step of setting it up
                os.kill(host, signal.SIGSTOP)
        namespaces = set(hosts.values())
    finally:
        process.kill()
        process.communicate()
    assert gone(mark, namespaces, tmp_path)


@pytest.mark.parametrize("name", ['a "quote', "${HOME}", "100 % új"])
def test_a_folder_of_any_name_works_or_is_refused(tmp_path, name):
    try:
        with laid_out(tmp_path / name, **SMALL) as made:
            assert run(made, "ppg", "hostname") == "ppg\n"
    except LabError as error:
        assert "which ssh cannot read: choose another folder" in str(error)  # noqa: PT017
        assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    "key", ["vm.swappiness", "kernel.core_pattern", "net", "net.../vm/swappiness"]
)
def test_only_settings_of_a_network_namespace_are_accepted(key):
    with pytest.raises(ValidationError):
        lab.Options(sysctls={key: "1"})
    with pytest.raises(ValidationError):
        lab.LabHost(name="a", sysctls={key: "1"})


@pytest.mark.slow
def test_killing_the_supervisor_takes_everything_along(caller, tmp_path):
    process, supervisor, mark, namespaces = caller
    os.kill(supervisor, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"see {tmp_path}/netperf-lab-" in said
    assert gone(mark, namespaces, tmp_path)
    # what it left is no obstacle
    with laid_out(tmp_path, **SMALL) as made:
        assert run(made, "client", "hostname") == "client\n"


@pytest.mark.slow
def test_a_killed_host_ends_the_lab(caller, tmp_path):
    process, _, mark, namespaces = caller
    # not sshd, nor what runs under it: numbers of processes start over at times, so the first may
    # be that
    host = next(
        pid
        for pid, space in family(mark).items()
        if space in namespaces
        and b"netperf_lib.hosts.lab" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(host, signal.SIGKILL)
    _, said = process.communicate(timeout=60)
    log = re.search(r"the lab failed \(exit code \d+\); see (.*)", said)[1]
    assert re.search(
        "host (client|ppg) of the lab ended unexpectedly", Path(log).read_text()
    )
    assert gone(mark, namespaces, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_the_foreground_lab_takes_everything_along(caller, tmp_path, number):
    process, _, mark, namespaces = caller
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert gone(mark, namespaces, tmp_path)
    if number != signal.SIGKILL:
        assert (process.returncode, said) == (0, "")
        assert list(tmp_path.iterdir()) == []


def test_a_lab_of_another_process_is_used_and_left_alone(caller, tmp_path):
    process, _, mark, namespaces = caller
    made = lab.status(tmp_path).deployment
    assert run(made, "client", "hostname") == "client\n"
    assert lab.shell("ppg", tmp_path, ("exit 3",)) == 3
    assert lab.shell("ppg", tmp_path, ("sh", "-c", "exit 7")) == 7
    assert lab.shell("ppg", tmp_path, ("touch", "/run/home/a b")) == 0
    assert run(made, "ppg", FILES) == "a b\n"
    with pytest.raises(UsageError, match="no host 'moon'"):
        lab.shell("moon", tmp_path)
    assert lab.stop(tmp_path) is False
    assert lab.status(tmp_path) is not None, "it is not ours"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert gone(mark, namespaces, tmp_path)
    assert (process.returncode, said) == (0, "")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(LabError, match="npl lab up"):
        lab.shell("ppg", tmp_path)
