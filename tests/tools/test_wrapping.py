"""Logs as others keep them: with the time before each line, quoted, indented, escaped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from netperf_lib import tools

LOGS = Path(__file__).parents[1] / "logs"
SAMPLES = [
    "iperf3/gen-3.12-udp.json",
    "iperf3/gen-3.12-title.txt",
    "iperf2/gen-dual-client.txt",
    "iperf2/gen-csv.csv",
    "netperf/gen-udp-stream.txt",
    "ntttcp/linux-gen-recv.xml",
    "ntttcp/linux-gen-tcp-send.txt",
    "lagscope/gen-hist.txt",
    "qperf/gen-v.txt",
    "sockperf/gen-pp-burst.txt",
    "uperf/made-tcp-stream.txt",
]


def head(mark: str) -> Callable[[str], str]:
    def wrap(text: str) -> str:
        return "".join((mark + line).rstrip(" ") + "\n" for line in text.splitlines())

    return wrap


WRAPPED: dict[str, Callable[[str], str]] = {
    "kubectl": head("2024-05-01T12:00:00.123456789Z "),
    "containerd": head("2024-05-01T12:00:00.123456789+02:00 stdout F "),
    "python": head("2024-05-01 12:00:00,123 INFO "),
    "ts": head("May  1 12:00:00 "),
    "syslog": head("May  1 12:00:00 vm-1 bench[4711]: "),
    "compose": head("client-1  | "),
    "compose with times": head("client-1  | 2024-05-01T12:00:00.123456789Z "),
    "pod": head("[pod/client-x7f2/bench] "),
    "quoted": head("> > "),
    "indented": head("    "),
    "docker": lambda t: "".join(
        json.dumps({"log": x + "\n", "stream": "stdout"}, separators=(",", ":")) + "\n" for x in t.splitlines()
    ),
    "html": lambda t: t.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    "web page": lambda t: t.replace(" ", "\u00a0"),
}


@pytest.mark.parametrize("way", WRAPPED)
@pytest.mark.parametrize("log", SAMPLES)
def test_a_log_reads_the_same_in_its_wrapping(log: str, way: str) -> None:
    text = tools.decode((LOGS / log).read_bytes())
    assert tools.parse(WRAPPED[way](text)) == tools.parse(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("log", SAMPLES)
def test_what_powershell_writes(log: str, encoding: str) -> None:
    text = tools.decode((LOGS / log).read_bytes())
    assert tools.parse(text.replace("\n", "\r\n").encode(encoding)) == tools.parse(text)


def test_a_few_times_in_a_log_are_left() -> None:
    text = "2024-05-01 12:00:00 begin\n" + (LOGS / SAMPLES[1]).read_text()
    assert tools.clean(text).startswith("2024-05-01 12:00:00 begin\n")
