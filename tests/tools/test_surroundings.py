"""A file is what a tool printed; anything else around it is one refusal that names it."""

import json
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError

LOGS = Path(__file__).parents[1] / "logs"
SAMPLES = [
    "iperf3/gen-3.12-udp.json",
    "iperf3/gen-3.12-title.txt",
    "iperf2/gen-tcp.txt",
    "ntttcp/linux-gen-recv.xml",
    "ntttcp/linux-gen-tcp-send.txt",
    "qperf/gen-v.txt",
    "sockperf/gen-pp-burst.txt",
]
TEXTS = [
    "iperf3/moler-basic-client.txt",
    *(log for log in SAMPLES[2:] if log.endswith(".txt")),
]


def text_of(log):
    return tools.decode((LOGS / log).read_bytes())


def before_each_line(mark):
    return lambda text: "".join(f"{mark}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(before_each_line("> "), id="quoted"),
        pytest.param(before_each_line("    "), id="indented"),
        pytest.param(lambda text: f"```\n{text}```\n", id="code fence"),
        pytest.param(lambda text: f"vm:~$ date; ./measure\n{text}vm:~$ \n", id="prompt"),
        pytest.param(lambda text: f"Wed May  1 12:00:00 UTC 2024\n{text}", id="date"),
    ],
)
@pytest.mark.parametrize("log", SAMPLES)
def test_log_reads_the_same_in_a_terminal(log, wrap):
    found = tools.parse(wrap(text_of(log)))

    assert [run.metrics for run in found] == [
        run.metrics for run in tools.parse(text_of(log))
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
@pytest.mark.parametrize("log", SAMPLES)
def test_log_reads_the_same_as_powershell_writes_it(log, encoding):
    data = text_of(log).replace("\n", "\r\n").encode(encoding)

    assert tools.parse(data) == tools.parse(text_of(log))


@pytest.mark.parametrize(
    ("mark", "named"),
    [
        ("2024-05-01T12:00:00.1Z stdout F ", "'stdout F"),
        ("client-1  | ", "'client-1  |"),
        ("log.txt:", "'log.txt:"),
        ("+", "'+"),
    ],
)
@pytest.mark.parametrize("log", TEXTS)
def test_prefix_of_another_program_is_named(log, mark, named):
    with pytest.raises(ParseError, match="another program began its lines") as refusal:
        tools.parse(before_each_line(mark)(text_of(log)))

    assert named in str(refusal.value)
    assert "save what the tool prints to a file" in str(refusal.value)


@pytest.mark.parametrize(
    "mark",
    [
        "May 01 12:00:00 ",
        "00:00:01.123456 ",
        "[2024-05-01 12:00:00] ",
        "2024-05-01T12:00:00.1Z ",
        "1714564800.123456 ",
        "May  1 12:00:00 vm-1 bench[4711]: ",
    ],
)
@pytest.mark.parametrize("log", SAMPLES)
def test_time_before_every_line_is_taken_off_and_said(log, mark):
    found = tools.parse(before_each_line(mark)(text_of(log)))

    assert [run.metrics for run in found] == [
        run.metrics for run in tools.parse(text_of(log))
    ]
    assert all("the time at the beginning" in run.warnings[-1] for run in found)


def test_time_before_some_lines_stays():
    text = before_each_line("12:00:00 ")(text_of(TEXTS[0]))

    with pytest.raises(ParseError, match="began its lines, such as with '12:00:00 '"):
        tools.parse(f"{text}a remark\n")


@pytest.mark.parametrize(
    ("wrap", "named"),
    [
        (lambda text: json.dumps({"stdout": text}), "JSON that iperf3 did not print"),
        (lambda text: json.dumps([text]), "JSON that iperf3 did not print"),
        (lambda text: json.dumps({"cells": [text], "nbformat": 4}), "a Jupyter notebook"),
        (
            lambda text: (
                '$ az vm run-command invoke\n{\n "message": ' + json.dumps(text) + "}"
            ),
            "",
        ),
    ],
)
@pytest.mark.parametrize("log", TEXTS)
def test_log_within_json_is_refused(log, wrap, named):
    with pytest.raises(ParseError, match="not as a tool prints it") as refusal:
        tools.parse(wrap(text_of(log)))

    assert named in str(refusal.value)


def test_encoded_mail_is_named():
    with pytest.raises(ParseError, match="an encoded mail"):
        tools.parse(text_of("qperf/gen-v.txt").replace("=", "=3D=\n"))


def test_own_logs_are_read_as_they_are():
    raw = Path(__file__).parents[2] / "data/recorded/lab-full/raw"
    for log in sorted(raw.glob("d01-r001-*/client.out")):
        tool = json.loads(log.with_name("run.json").read_bytes())["trial"]["tool"]
        told, found = (
            tools.parse(log.read_bytes(), tool=tool),
            tools.parse(log.read_bytes()),
        )

        assert [run.metrics for run in told] == [run.metrics for run in found], log
