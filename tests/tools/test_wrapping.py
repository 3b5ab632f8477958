"""Logs as others keep them: with the time before each line, quoted, indented, escaped."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.data import logs
from netperf_lib.tools.parsed import ParsedRun

LOGS = Path(__file__).parents[1] / "logs"
SAMPLES = [
    "iperf3/gen-3.12-udp.json",
    "iperf3/gen-3.12-title.txt",
    "iperf2/gen-dual-client.txt",
    "iperf2/gen-csv.csv",
    "ntttcp/linux-gen-recv.xml",
    "ntttcp/linux-gen-tcp-send.txt",
    "qperf/gen-v.txt",
    "sockperf/gen-pp-burst.txt",
]


def head(mark: str) -> Callable[[str], str]:
    def wrap(text: str) -> str:
        return "".join((mark + line).rstrip(" ") + "\n" for line in text.splitlines())

    return wrap


def tail(mark: str) -> Callable[[str], str]:
    return lambda text: "".join(line + mark + "\n" for line in text.splitlines())


def items(text: str) -> str:
    return "".join(
        f'        "{line}", \n'.replace(" \n", "\n")
        for line in text.replace('"', '\\"').splitlines()
    )


TIMES: dict[str, tuple[Callable[[str], str], dict[str, str]]] = {
    "kubectl": (head("2024-05-01T12:00:00.123456789Z "), {"started_utc": "2024-05-01T12:00:00Z"}),
    "containerd": (
        head("2024-05-01T12:00:00.123456789+02:00 stdout F "),
        {"started_utc": "2024-05-01T10:00:00Z"},
    ),
    "python": (head("2024-05-01 12:00:00,123 INFO "), {"started_local": "2024-05-01T12:00:00"}),
    "awk": (head("[2024-05-01 12:00:00] "), {"started_local": "2024-05-01T12:00:00"}),
    "journal": (
        head("2024-05-01T12:00:00+0000 vm-1 bench[4711]: "),
        {"started_utc": "2024-05-01T12:00:00Z"},
    ),
    "epoch": (head("1714564800.123456 "), {"started_utc": "2024-05-01T12:00:00Z"}),
    "date": (head("Wed May  1 12:00:00 UTC 2024 "), {"started_utc": "2024-05-01T12:00:00Z"}),
    "strftime at the end": (
        tail(" --- Wed May  1 12:00:00 2024"),
        {"started_local": "2024-05-01T12:00:00"},
    ),
    "compose with times": (
        head("client-1  | 2024-05-01T12:00:00.123456789Z "),
        {"started_utc": "2024-05-01T12:00:00Z"},
    ),
    "docker": (
        lambda t: "".join(
            json.dumps({"log": x + "\n", "time": "2024-05-01T12:00:00.1Z"}, separators=(",", ":"))
            + "\n"
            for x in t.splitlines()
        ),
        {"started_utc": "2024-05-01T12:00:00Z"},
    ),
}
"""What adds the time to each line, and what is known of the run by it."""
WRAPPED: dict[str, Callable[[str], str]] = {
    "ts": head("May  1 12:00:00 "),
    "syslog": head("May  1 12:00:00 vm-1 bench[4711]: "),
    "compose": head("client-1  | "),
    "pod": head("[pod/client-x7f2/bench] "),
    "quoted": head("> > "),
    "indented": head("    "),
    "klog": head("I0501 12:00:00.123456   12345 bench.go:12] "),
    "ts -s": head("00:00:01 "),
    "journal, short and precise": head("May 01 12:00:00.123456 vm-1 bench[4711]: "),
    "role": head("[client] "),
    "host": head("vm-1.example.com: "),
    "list of Ansible": items,
    "html": lambda t: t.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    "web page": lambda t: t.replace(" ", "\u00a0"),
}


@pytest.mark.parametrize("way", WRAPPED)
@pytest.mark.parametrize("log", SAMPLES)
def test_a_log_reads_the_same_in_its_wrapping(log: str, way: str) -> None:
    text = tools.decode((LOGS / log).read_bytes())
    assert tools.parse(WRAPPED[way](text)) == tools.parse(text)


def without_times(runs: list[ParsedRun]) -> list[ParsedRun]:
    kept = [{k: v for k, v in r.parameters.items() if not k.startswith("started")} for r in runs]
    return [replace(r, parameters=p) for r, p in zip(runs, kept, strict=True)]


@pytest.mark.parametrize("way", TIMES)
@pytest.mark.parametrize("log", SAMPLES)
def test_the_time_before_each_line_is_that_of_the_run(log: str, way: str) -> None:
    text = tools.decode((LOGS / log).read_bytes())
    wrap, times = TIMES[way]
    found, plain = tools.parse(wrap(text)), tools.parse(text)
    assert without_times(found) == without_times(plain)
    for run, intact in zip(found, plain, strict=True):
        own = {k: v for k, v in intact.parameters.items() if k.startswith("started")}
        assert {k: v for k, v in run.parameters.items() if k.startswith("started")} == (
            own or times
        )


def test_logs_of_several_hosts_in_one_file_are_told_apart() -> None:
    """Lines of two processes alternate, each with the name of its host, and so they are read as two logs."""
    one, two = ((LOGS / name).read_text().splitlines() for name in (SAMPLES[1], SAMPLES[7]))
    lines = [line for pair in itertools.zip_longest(one, two) for line in pair]
    for mark in ("{} | ", "[{}] ", "{}: "):
        marked = [
            mark.format("ab"[i % 2]) + line for i, line in enumerate(lines) if line is not None
        ]
        found = tools.parse("\n".join(marked) + "\n")
        expected = [*tools.parse("\n".join(one) + "\n"), *tools.parse("\n".join(two) + "\n")]
        assert sorted(str(r.metrics) for r in found) == sorted(str(r.metrics) for r in expected)
        assert all(r.tool in marked[r.line - 1] or r.line < 12 for r in found)


@pytest.mark.parametrize(
    ("names", "removed"), [("aaaaaaa", True), ("aaaaa", False), ("aaaabbbb", False)]
)
def test_names_of_most_lines_are_removed(names: str, removed: bool) -> None:
    """One name may lack before four lines of ten; several are names of hosts only before nearly all lines."""
    lines = [f"{name} | line {i}" for i, name in enumerate(names)] + ["another line"] * (
        10 - len(names)
    )
    assert (
        tools.clean("\n".join(lines))
        == "\n".join(line[line.find("| ") + 1 :].strip() for line in lines)
    ) == removed


def test_an_arrow_behind_a_figure_is_no_part_of_the_row() -> None:
    text = (LOGS / SAMPLES[1]).read_text()
    lines = [line + "   <--* look" if "receiver" in line else line for line in text.splitlines()]
    assert tools.parse("\n".join(lines) + "\n") == tools.parse(text)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
@pytest.mark.parametrize("log", SAMPLES)
def test_what_powershell_writes(log: str, encoding: str) -> None:
    text = tools.decode((LOGS / log).read_bytes())
    assert tools.parse(text.replace("\n", "\r\n").encode(encoding)) == tools.parse(text)


def test_a_few_times_in_a_log_are_left() -> None:
    text = "2024-05-01 12:00:00 begin\n" + (LOGS / SAMPLES[1]).read_text()
    assert tools.clean(text).startswith("2024-05-01 12:00:00 begin\n")


@pytest.mark.parametrize(
    "log",
    ["iperf3/aks-retr-5digits.txt", "iperf2/pkb-tcp-intervals-enhanced.txt", "qperf/gen-v.txt"],
)
def test_decimal_commas(log: str) -> None:
    text = (LOGS / log).read_text()
    commas = re.sub(r"(?<![\d.])(\d+)\.(\d+)(?![\d.])", r"\1,\2", text)
    assert commas != text
    assert [r.metrics for r in tools.parse(commas)] == [r.metrics for r in tools.parse(text)]
    assert any("comma" in w for r in tools.parse(commas) for w in r.warnings)


@pytest.mark.parametrize(
    "log", ["iperf3/aks-retr-5digits.txt", "iperf2/pkb-tcp-intervals-enhanced.txt"]
)
def test_a_terminal_wrapped_the_lines(log: str) -> None:
    text = (LOGS / log).read_text()
    wrapped = re.sub(r"([^\n]{80})(?=[^\n])", r"\1\n", text)
    assert wrapped != text
    assert [r.metrics for r in tools.parse(wrapped)] == [r.metrics for r in tools.parse(text)]


def test_own_logs_are_read_as_they_are() -> None:
    """The same as with the search for mail, Docker and Ansible around them, and without it."""
    raw = Path(__file__).parents[2] / "data/recorded/lab-full/raw"
    for log in sorted(raw.glob("d01-r001-*/client.out")):
        data = log.read_bytes()
        tool = json.loads(log.with_name("run.json").read_bytes())["trial"]["tool"]
        assert list(map(logs.to_json, tools.parse(data, tool=tool))) == list(
            map(logs.to_json, tools.parse(data))
        ), log
    docker = "".join(
        json.dumps({"log": line, "stream": "stdout"}, separators=(",", ":")) + "\n"
        for line in (LOGS / "qperf/gen-v.txt").read_text().splitlines(keepends=True)
    )
    assert {r.status for r in (*tools.parse(docker), *tools.parse(docker, tool="qperf"))} == {"ok"}
