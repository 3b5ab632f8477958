"""What the tools are told to run really runs here, and what it prints is read."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.errors import UsageError
from netperf_lib.experiment.model import Pair, TestSpec, Trial

PAIR = Pair(client="a", server="b", placement="same-zone")


def trial(tool, test, *, pair=PAIR, **levels):
    options = levels.pop("options", {})
    spec = TestSpec.model_validate({"tool": tool, "test": test, "duration_s": 1})
    return Trial(
        deployment=1, round=1, order=0, pair=pair, test=spec, options=options, **levels
    )


@pytest.fixture
def port():
    """Yield a port that is free, with a free one after it, for TCP and for UDP."""
    for first in range(40000 + time.time_ns() % 9000, 60000, 2):
        sockets = []
        try:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                for p in (first, first + 1):
                    sockets.append(socket.socket(socket.AF_INET, kind))
                    sockets[-1].bind(("127.0.0.1", p))
        except OSError:
            continue
        finally:
            for s in sockets:
                s.close()
        yield first
        return


def listening(protocol, port):
    rows = [
        r.split()
        for f in (protocol, f"{protocol}6")
        for r in Path("/proc/net", f).read_text().splitlines()[1:]
    ]
    state = "0A" if protocol == "tcp" else "07"
    return any(int(r[1].rpartition(":")[2], 16) == port and r[3] == state for r in rows)


def run(trial, port, address="127.0.0.1"):
    todo = tools.tool(trial.test.tool).commands(trial.request, address, port)
    if not shutil.which(todo.client[0]):
        pytest.skip(f"{trial.test.tool} is not installed")
    with subprocess.Popen(
        todo.server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            deadline = time.monotonic() + 20
            while not all(listening(*end) for end in todo.listens):
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, f"nothing listens on {todo.listens}"
                time.sleep(0.05)
            done = subprocess.run(
                todo.client, capture_output=True, text=True, timeout=todo.timeout_s
            )
        finally:
            server.kill()
    assert done.returncode == 0, done.stderr
    [found] = tools.parse(done.stdout)
    assert found.status == "ok", found.error
    return found


@pytest.mark.parametrize(
    ("test", "metric"),
    [
        ("tcp_lat", "latency_oneway_us"),
        pytest.param("udp_lat", "latency_oneway_us", marks=pytest.mark.slow),
        ("tcp_bw", "throughput_bps"),
        pytest.param("udp_bw", "throughput_sent_bps", marks=pytest.mark.slow),
    ],
)
def test_qperf_runs_and_is_read(test, metric, port):
    found = run(trial("qperf", test, message_bytes=1400), port)
    assert found.test == test
    assert found.metrics[metric] > 0
    assert found.parameters["message_bytes"] == 1400
    assert 0.9 < found.metrics["duration_measured_s"] < 2
    assert {
        "cpu_client_ratio",
        "cpu_server_ratio",
        "message_rate_per_s",
        "messages_count",
    } <= set(found.metrics)


@pytest.mark.parametrize(
    ("test", "protocol"),
    [
        ("ping-pong", "udp"),
        ("under-load", "tcp"),
        pytest.param("ping-pong", "tcp", marks=pytest.mark.slow),
        pytest.param("under-load", "udp", marks=pytest.mark.slow),
    ],
)
def test_sockperf_latency_runs_and_is_read(test, protocol, port):
    options = (
        {"protocol": protocol, "mps": 2000, "reply_every": 10}
        if test == "under-load"
        else {"protocol": protocol}
    )
    found = run(trial("sockperf", test, message_bytes=64, options=options), port)
    assert (found.test, found.parameters["protocol"]) == (test, protocol)
    m = found.metrics
    assert (
        m["latency_oneway_min_us"]
        <= m["latency_oneway_p50_us"]
        <= m["latency_oneway_p99_us"]
    )
    assert found.percentile_basis == "latency_oneway"
    assert all(
        p.beyond is not None and 0 <= p.beyond < m["messages_count"]
        for p in found.percentiles
    )


def test_sockperf_full_round_trips_are_another_metric(port):
    found = run(trial("sockperf", "ping-pong", options={"full_rtt": True}), port)
    assert found.percentile_basis == "rtt"
    assert found.metrics["rtt_us"] > 0
    assert not any(name.startswith("latency_oneway") for name in found.metrics)


def test_sockperf_throughput_is_the_senders(port):
    found = run(trial("sockperf", "throughput", message_bytes=1000), port)
    assert found.metrics["throughput_sent_bps"] == pytest.approx(
        found.metrics["message_rate_per_s"] * 8000, rel=1e-4
    )
    assert "throughput_bps" not in found.metrics


@pytest.mark.parametrize(
    ("tool", "test"),
    [
        pytest.param("iperf2", "tcp", marks=pytest.mark.slow),
        ("iperf3", "tcp"),
        pytest.param("qperf", "tcp_lat", marks=pytest.mark.slow),
    ],
)
def test_the_commands_of_a_trial_use_ipv6(tool, test, port):
    with socket.socket(socket.AF_INET6) as free:
        try:
            free.bind(("::1", 0))
        except OSError as e:
            pytest.skip(f"no IPv6 here: {e}")
    run(trial(tool, test), port, "::1")


def test_the_buffer_is_set_only_where_it_is_no_property_of_the_hosts():
    tuned = PAIR.model_copy(update={"tcp_buffer_bytes": 65536})
    for tool, test, flag in (
        ("qperf", "tcp_bw", "-sb"),
        ("sockperf", "ping-pong", "--buffer-size"),
    ):
        commands = tools.tool(tool).commands
        assert (
            flag
            in commands(
                trial(tool, test, tcp_buffer_bytes=65536).request, "h", 5000
            ).client
        )
        assert (
            flag
            not in commands(
                trial(tool, test, tcp_buffer_bytes=65536, pair=tuned).request, "h", 5000
            ).client
        )


@pytest.mark.parametrize(
    ("tool", "test", "remedy"),
    [
        ("sockperf", "ping-pong", "{protocol: tcp}, or test: under-load"),
        ("qperf", "udp_lat", "test: tcp_lat"),
    ],
)
def test_datagrams_beside_a_load_are_refused(tool, test, remedy):
    spec = TestSpec.model_validate(
        {"tool": tool, "test": test, "during": {"tool": "iperf3"}}
    )
    loaded = Trial(deployment=1, round=1, order=0, pair=PAIR, test=spec)
    with pytest.raises(UsageError, match="first datagram that is lost") as refusal:
        tools.tool(tool).commands(loaded.request, "h", 5000)
    assert remedy in str(refusal.value)


@pytest.mark.parametrize(
    ("test", "options", "words"),
    [
        ("round-trip", {}, "no test 'round-trip' (known: ping-pong"),
        ("ping-pong", {"full_rtt": 1}, "true or false"),
        *(
            ("under-load", {"mps": mps}, "a whole number of messages a second, or max")
            for mps in ("fast", "1K", "0", "1e3", 2.5)
        ),
    ],
    ids=str,
)
def test_what_a_tool_does_not_offer_is_refused(test, options, words):
    with pytest.raises(UsageError) as refusal:
        tools.tool("sockperf").commands(
            trial("sockperf", test, options=options).request, "h", 5000
        )
    assert words in str(refusal.value)
