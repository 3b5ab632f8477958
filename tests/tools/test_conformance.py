"""Documents of real tools, against what the interfaces, ``ss`` and the exit status said at the
time."""

import hashlib
import json
import re
from functools import cache
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.data.raw import Record
from netperf_lib.data.tables import run_row
from netperf_lib.errors import ParseError
from netperf_lib.tools.parsed import ParsedRun
from tests.tools import golden

DOCUMENTS = golden.documents()
DIGESTS = Path(__file__).with_name("conformance.digests")
TCP_HEADERS, UDP_HEADERS = 66, 42
"""Bytes of Ethernet, IP and transport in each packet that an interface counts."""
SMALL = 10_000
"""The connections that control a test, in bytes."""
UNSENT = 300_000
"""Bytes that wait in the sender's buffers at most when a test of TCP ends: written, and carried
after it."""
NOT_READ = re.compile(
    r"iperf -c .*(?: -d | -r |--full-duplex|--connect-only|-y C)"
    r"|sockperf throughput .*--(?:giga-size|increase_output_precision)"
)
"""Forms that are refused by name; the page on logs says so."""
NOTHING = re.compile(
    r" failed: |Can`t (?:connect|bind)|No valid observations found|No messages were received"
)
"""What a tool says that measured nothing."""
UNSEEN = re.compile(r"iperf -c \{server\} -t 4 (?:-R )?clock")
"""One row says nothing of a clock that was stepped; a trial does, which knows how long it was to
take."""


@cache
def _parse(text):
    try:
        return tools.parse(text)
    except ParseError:
        return []


def parse(document):
    return _parse(document["text"])


def payload(document, way):
    truth = document["truth"]
    headers = UDP_HEADERS if document["udp"] else TCP_HEADERS
    return float(truth[f"{way}_bytes"] - headers * truth[f"{way}_packets"])


def _rounded(figure):
    return f"{float(figure):.12g}"


def digest(document):
    """A digest of all that is read of a document; 12 digits of each figure, for from Python 3.12
    on sums are exact."""
    runs = json.dumps([golden.complete(run) for run in parse(document)])
    rounded = json.loads(runs, parse_float=_rounded, parse_int=_rounded)
    return hashlib.sha256(golden.dump(rounded).encode()).hexdigest()[:8]


def near(read, true, relative, absolute=0.0):
    return abs(read - true) <= relative * abs(true) + absolute


def wrong(document, run):  # noqa: C901
    """What a run says that the interfaces contradict."""
    m, truth, command = run.metrics, document["truth"], document["command"]
    udp, event, qperf = document["udp"], document["event"], document["tool"] == "qperf"
    found = []
    reverse = run.parameters.get("direction") == "reverse"
    for word in ("", "_reverse"):
        way = "reverse" if reverse != bool(word) else "forward"
        passed = payload(document, way)
        tried = (
            passed * (1 + truth[f"{way}_dropped"] / max(truth[f"{way}_packets"], 1))
            if udp
            else passed
        )
        length, lost = m.get("duration_measured_s"), m.get(f"lost{word}_count")
        for name, end, size in (("", "transferred", passed), ("_sent", "sent", tried)):
            count, rate = (
                m.get(f"{end}{word}_bytes"),
                m.get(f"throughput{word}{name}_bps"),
            )
            if count is not None and "-O 1" not in command:
                # written to a socket and never sent, or on its way when the receiver stopped to
                # count
                more, fewer = (UNSENT, 0.0) if end == "sent" else (0.0, UNSENT)
                if udp:
                    more = fewer = 0.0
                elif (
                    end == "transferred" and f"sent{word}_bytes" in m
                ):  # which is at least what passed
                    fewer = float("inf")
                # more passes after a signal, after qperf has stopped its clock, and than a program
                # can read of a flood
                flood = udp and truth[f"{way}_dropped"] > 0.2 * truth[f"{way}_packets"]
                if event or qperf or flood or (udp and lost):
                    fewer = float("inf")
                if end == "sent" and (
                    qperf or flood or event
                ):  # what is sent to a link that is down
                    more = float("inf")
                if not 0.98 * size - fewer - SMALL <= count <= 1.02 * size + more + SMALL:
                    found.append(f"{end}{word}_bytes {count:.0f}, and {size:.0f} passed")
            clock = 0.1 if qperf else 0.02
            clock += (
                0.05 if udp and document["tool"] == "iperf2" else 0.0
            )  # the rate is of the other end's time
            clock += 0.011 / length if length and "-J" not in command else 0.0
            own_length = not word and (
                not name or "throughput_bps" not in m
            )  # the length is that of the first way
            own_length &= not (
                udp and document["tool"] == "iperf2" and document["end"] == "client"
            )  # a server's report
            if (
                rate
                and length
                and count
                and own_length
                and not near(rate * length / 8, count, clock)
            ):
                found.append(
                    f"throughput{word}{name}_bps {rate:.0f} in {length} s are not {count} bytes"
                )
            seconds = asked_seconds(command)
            alone = (
                rate and count is None and seconds and not event and not (qperf and udp)
            )
            if alone and not near(rate, 8 * size / seconds, 0.14, 8 * SMALL / seconds):
                found.append(
                    f"throughput{word}{name}_bps {rate:.0f}, and {8 * size / seconds:.0f} passed"
                )
        # sockperf counts lost answers, and under load only some messages are answered
        if (
            lost is not None
            and udp
            and not event
            and "-O 1" not in command
            and document["tool"] != "sockperf"
        ):
            packets, dropped = truth[f"{way}_packets"], truth[f"{way}_dropped"]
            size = m.get(f"transferred{word}_bytes")
            unread = packets * (1 - size / passed) if size and passed else 0.0
            # what is lost last is not missed by a receiver
            if not 0.98 * dropped - 30 <= lost <= 1.02 * dropped + 1.02 * unread + 30:
                found.append(
                    f"lost{word}_count {lost}, and {dropped} of {packets} were dropped"
                )
    length = m.get("duration_measured_s")
    told = any("the clock was stepped" in w for w in run.warnings)
    if length and length > 2 * truth["elapsed_s"] + 1 and not told:
        found.append(f"duration_measured_s {length}, and it took {truth['elapsed_s']} s")
    both = re.search(r"--bidir|-d |-r |--full-duplex", command)
    if (
        (rtt := m.get("rtt_loaded_us"))
        and "rtt_us" in truth
        and "-t 2" in command
        and not both
    ):
        low, high = truth["rtt_us"]
        if not 0.9 * low <= rtt <= 1.8 * high:
            found.append(f"rtt_loaded_us {rtt}, and ss says {low} to {high}")
    one_by_one = (
        ("ping-pong" in command or "_lat" in command)
        and "burst" not in command
        and "K " not in command
    )
    for name, trips in (("latency_oneway_us", 2), ("rtt_us", 1)):
        if name in m and one_by_one and not event and "--mps" not in command:
            # sockperf warms up first, and a busy client waits between an answer and its next
            # message
            seconds = asked_seconds(command) or 0.0
            true = 1e6 * seconds / truth["forward_packets"] / trips
            if not 0.7 * true <= m[name] <= 1.02 * true * truth["elapsed_s"] / seconds:
                found.append(
                    f"{name} {m[name]}, and {truth['forward_packets']} messages are {true:.1f}"
                )
    return found


def asked_seconds(command):
    found = re.search(r" -t (\d+)", command)
    return float(found[1]) if found else None


def findings(documents):
    """Return wrong figures, needless refusals, and the number of whole documents."""
    bad, refused, whole = [], [], 0
    for document in documents:
        runs = parse(document)
        label = f"{document['tool']} {document['end']}: {document['command']}"
        silent = "connect-only" in document["command"] and document["end"] == "server"
        finished = not document["event"] and document["truth"]["exit"] == 0 and not silent
        finished &= not NOTHING.search(document["text"])
        finished &= not NOT_READ.search(document["command"])
        whole += finished
        if finished and (not runs or any(r.status != "ok" for r in runs)):
            refused.append(f"{label}: {[r.error for r in runs]}")
        good = [r for r in runs if r.status == "ok"]
        several = (
            len(good) > 1
        )  # both directions one after the other, or several tests of a call
        if UNSEEN.search(document["command"]):
            continue
        several |= NOT_READ.search(document["command"]) is not None
        bad += [
            f"{label}: {'; '.join(said)}"
            for run in good
            if not several and (said := wrong(document, run))
        ]
    return bad, refused, whole


def summary(documents):
    """Return the table of the documentation."""
    heads = (
        "tool",
        "transport",
        "whole",
        "read",
        "refused",
        "wrong",
        "ended",
        "with figures",
        "wrong",
    )
    lines = [" | ".join(heads), " | ".join(["---"] * len(heads))]
    kinds = sorted({(d["tool"], "UDP" if d["udp"] else "TCP") for d in documents})
    for tool, transport in kinds:
        mine = [
            d
            for d in documents
            if (d["tool"], "UDP" if d["udp"] else "TCP") == (tool, transport)
        ]
        ended = [d for d in mine if d["event"]]
        bad, refused, whole = findings([d for d in mine if not d["event"]])
        figures = sum(any(r.status == "ok" for r in parse(d)) for d in ended)
        cells = (
            tool,
            transport,
            whole,
            whole - len(refused) - len(bad),
            len(refused),
            len(bad),
            len(ended),
            figures,
        )
        lines.append(" | ".join(map(str, (*cells, len(findings(ended)[0])))))
    return "".join(f"| {line} |\n" for line in lines)


def test_the_documentation_has_the_table():
    page = (Path(__file__).parents[2] / "docs/reference/logs.md").read_text("utf-8")
    shown = page.partition("<!-- conformance -->\n\n")[2].partition("\n<!-- end -->")[0]
    assert shown == summary(DOCUMENTS), "`make golden` writes it"


def test_nothing_is_wrong_and_nothing_whole_is_refused():
    bad, refused, whole = findings(DOCUMENTS)
    assert len(DOCUMENTS) >= 500
    assert not bad, "\n".join(bad)
    assert len(refused) <= 0.005 * whole, "\n".join(refused)


def test_the_documents_are_of_every_tool_that_is_run():
    assert {document["tool"] for document in DOCUMENTS} == set(tools.TOOLS)


def test_a_trial_refuses_what_took_much_longer_than_it_asked_for():
    """The clock was stepped by an hour: the log alone may be that of a long test, so the figures
    agree in it."""
    stepped, others = [], []
    for document in DOCUMENTS:
        seconds = asked_seconds(document["command"])
        good = [
            run
            for run in parse(document)
            if run.status == "ok" and "duration_measured_s" in run.metrics
        ]
        if not good or not seconds:
            continue
        trial = {
            "tool": good[0].tool,
            "duration_s": seconds,
            "omit_s": 1 if "-O 1" in document["command"] else None,
        }
        row = run_row(Record(run_id="x", trial=trial), good[:1], None)
        if good[0].metrics["duration_measured_s"] > 1000:
            stepped.append(row)
        elif not document["event"]:
            others.append(row)
    # the reader itself refuses the others: nothing passed in most of their intervals
    assert len(stepped) >= 2
    assert {row["status"] for row in stepped} == {"partial"}
    assert all(
        "its clock was stepped" in row["error"] and "throughput_sent_bps" not in row
        for row in stepped
    )
    assert len(others) > 500
    assert {row["status"] for row in others} == {"ok"}


@pytest.mark.parametrize(("seconds", "status"), [(25.0, "ok"), (25.1, "partial")])
def test_a_trial_may_take_half_as_long_again_and_five_seconds(seconds, status):
    run = ParsedRun(tool="iperf2", status="ok", metrics={"duration_measured_s": seconds})
    trial = {"tool": "iperf2", "duration_s": 10.0, "omit_s": 10.0 / 3}
    row = run_row(Record(run_id="x", trial=trial), [run], None)
    assert (row["status"], row.get("duration_measured_s")) == (
        status,
        seconds if status == "ok" else None,
    )
    imported = Record(run_id="x", trial=trial, imported={"file": "a.txt"})
    assert run_row(imported, [run], None)["status"] == "ok"


def test_all_that_is_read_of_them_is_as_before():
    changed = [
        d["command"]
        for d, a, b in zip(
            DOCUMENTS, map(digest, DOCUMENTS), DIGESTS.read_text().split(), strict=True
        )
        if a != b
    ]
    assert not changed, "`make golden` takes what is read now, once you have looked at it"
