"""Options that each tool declares once; `test_commands` has all commands and rates."""

import socket
import subprocess
import time

import pytest

from netperf_lib.errors import UsageError
from netperf_lib.tools import TOOLS, Request, parse


def request(tool, test, streams=1, **options):
    return Request(tool=tool, test=test, duration_s=10, streams=streams, options=options)


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_says_what_it_is_and_takes_its_own_default(tool):
    for option in TOOLS[tool].OPTIONS:
        assert option.help
        assert option.default is None or option.problem(option.default) is None
        assert option.problem("a b") is not None
        assert option.problem([1]) is not None


@pytest.mark.parametrize("program", ["iperf2", "iperf3", "qperf"])
def test_the_commands_of_a_trial_use_ipv6(program):
    test = "tcp_lat" if program == "qperf" else "tcp"
    with socket.socket(socket.AF_INET6) as free:
        try:
            free.bind(("::1", 0))
        except OSError as e:
            pytest.skip(f"no IPv6 here: {e}")
        port = free.getsockname()[1]
    commands = TOOLS[program].commands(
        Request(tool=program, test=test, duration_s=1), "::1", port
    )
    assert commands.server is not None
    with subprocess.Popen(
        commands.server, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        try:
            for _ in range(50):
                log = subprocess.run(commands.client, capture_output=True, check=False)
                output = log.stdout + log.stderr
                # as in a measurement, a test without a result is run again: the port after this one
                # may be in use
                if (
                    log.returncode == 0
                    and b"refused" not in output
                    and parse(output)[0].status == "ok"
                ):
                    break
                time.sleep(0.1)
        finally:
            server.terminate()
    (run,) = parse(log.stdout + log.stderr)
    assert run.status == "ok", run.error


@pytest.mark.parametrize("mps", ["fast", "1K", "0", "1e3", 2.5])
def test_a_rate_of_messages_that_sockperf_does_not_know_is_refused(mps):
    """It was taken, and ended the estimate of the experiment with a traceback."""
    with pytest.raises(
        UsageError, match="must be a whole number of messages a second, or max"
    ):
        TOOLS["sockperf"].commands(
            request("sockperf", "under-load", mps=mps), "10.0.0.5", 5001
        )
