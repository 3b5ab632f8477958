"""Options that each tool declares once, and the rate at which a trial sends."""

from __future__ import annotations

import math
import socket
import subprocess
import time
from typing import Any

import jsonschema
import pytest

from netperf_lib.experiment.model import Load, Pair, TestSpec, Trial
from netperf_lib.tools import TOOLS, parse
from netperf_lib.tools.options import Option, bits_per_second, json_schema

PAIR = Pair(client="a", server="b", placement="ppg")


def trial(tool: str, test: str, streams: int = 1, **options: Any) -> Trial:
    spec = TestSpec(tool=tool, test=test, options=options, during=Load(streams=8))
    return Trial(deployment=1, round=1, order=0, pair=PAIR, test=spec, streams=streams)


@pytest.mark.parametrize(
    ("asked", "rate"),
    [
        (trial("iperf3", "tcp"), math.inf),
        (trial("iperf3", "tcp", bitrate=0), math.inf),
        (trial("iperf3", "udp"), math.inf),
        (trial("iperf3", "tcp", 2, bitrate="1.5M"), 3e6),
        (trial("iperf3", "udp", bitrate="1G", bidir=True), 2e9),
        (trial("iperf2", "udp"), 1e6),
        (trial("iperf2", "udp", 4), 4e6),
        (trial("iperf2", "tcp"), math.inf),
        (trial("iperf2", "tcp", bitrate="10M"), 1e7),
        (trial("qperf", "tcp_lat"), 0),
        (trial("qperf", "tcp_bw"), math.inf),
        (trial("sockperf", "ping-pong"), 0),
        (trial("sockperf", "throughput"), math.inf),
        (trial("sockperf", "throughput", mps=1000), 1000 * 14 * 8),
        (trial("sockperf", "under-load"), 10_000 * 14 * 8 * 1.01),
    ],
    ids=str,
)
def test_rate_that_a_trial_sends(asked: Trial, rate: float) -> None:
    assert TOOLS[asked.test.tool].rate_bps(asked) == pytest.approx(rate)


def test_a_rate_of_iperf_2_is_decimal() -> None:
    """Its own M is 2^20."""
    client = TOOLS["iperf2"].commands(trial("iperf2", "tcp", bitrate="10M"), "10.0.0.2", 5001).client
    assert client[client.index("-b") + 1] == "10000000"


@pytest.mark.parametrize("tool", TOOLS)
def test_the_schema_and_the_check_agree(tool: str) -> None:
    options = TOOLS[tool].OPTIONS
    schema = json_schema(options)
    jsonschema.Draft202012Validator.check_schema(schema)
    for option in options:
        assert option.help
        assert option.default is None or option.problem(option.default) is None
        for value in (True, False, 1, 2.5, -1, "1M", "udp", "cubic", "a b", "-Z", None, [1]):
            valid = jsonschema.Draft202012Validator(schema).is_valid({option.name: value})
            assert valid == (option.problem(value) is None), (option, value)


def test_rates() -> None:
    assert [bits_per_second(r) for r in (1000, "1000", "1k", "2.5G", "10M/32")] == [1000, 1000, 1000, 2.5e9, 1e7]
    assert Option("x", "rate", "").problem("fast") is not None


@pytest.mark.parametrize("program", ["iperf2", "iperf3", "qperf"])
def test_the_commands_of_a_trial_use_ipv6(program: str) -> None:
    test = "tcp_lat" if program == "qperf" else "tcp"
    spec = TestSpec(tool=program, test=test, duration_s=1)
    with socket.socket(socket.AF_INET6) as free:
        try:
            free.bind(("::1", 0))
        except OSError as e:
            pytest.skip(f"no IPv6 here: {e}")
        port = free.getsockname()[1]
    one = Trial(deployment=1, round=1, order=0, pair=PAIR, test=spec, streams=1)
    commands = TOOLS[program].commands(one, "::1", port)
    assert commands.server is not None
    with subprocess.Popen(commands.server, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        try:
            for _ in range(50):
                log = subprocess.run(commands.client, capture_output=True, check=False)
                if log.returncode == 0 and b"refused" not in log.stdout + log.stderr:
                    break
                time.sleep(0.1)
        finally:
            server.terminate()
    (run,) = parse(log.stdout + log.stderr)
    assert run.status == "ok", run.error
