"""What sets the logs of iperf3 apart, and what it is asked to run."""

import json
from pathlib import Path

import pytest

from netperf_lib import tools
from netperf_lib.tools import iperf3

LOGS = Path(__file__).parents[1] / "logs" / "iperf3"


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.json")), ids=lambda p: p.name)
def test_large_documents_read_as_small_ones(log):
    """The quick way of large files and the careful one of all others agree, on every document
    that takes both."""
    data = log.read_bytes()
    quick = iperf3.read_whole(data)
    if quick is None:
        return
    (careful,) = tools.parse(data.decode())
    assert quick.metrics == careful.metrics
    assert (quick.status, quick.error, quick.warnings) == (
        careful.status,
        careful.error,
        careful.warnings,
    )
    assert quick.parameters == careful.parameters
    assert {k: list(v) for k, v in quick.intervals.items()} == {
        k: list(v) for k, v in careful.intervals.items()
    }


def test_large_documents_are_read_the_quick_way():
    taken = [p.name for p in LOGS.glob("*.json") if iperf3.read_whole(p.read_bytes())]
    expected = {
        "gen-3.12-bidir-P2.json",
        "gen-3.12-udp.json",
        "gen-3.21-tcp-P2.json",
    }
    assert expected <= set(taken)


def test_noise_around_a_document():
    text = (LOGS / "gen-3.12-tcp-R.json").read_text()
    (plain,) = tools.parse(text)
    noisy = (
        "\ufeff$ iperf3 -c x -J\r\nwarning: something\r\n"
        + text.replace("\n", "\r\n")
        + "^C\r\n\x1b[32m$ \x1b[0m"
    )
    (run,) = tools.parse(noisy)
    assert (run.line, run.metrics, run.status) == (3, plain.metrics, "ok")


def test_omitted_seconds_are_marked_and_not_averaged_in():
    doc = json.loads((LOGS / "gen-3.12-bidir-P2.json").read_text())
    for interval in doc["intervals"][:1]:
        for row in [*interval["streams"], interval["sum"], interval["sum_bidir_reverse"]]:
            row["omitted"] = True
    (run,) = tools.parse(json.dumps(doc))
    kept = [s["rtt"] for s in doc["intervals"][1]["streams"] if s["sender"]]
    assert run.metrics["rtt_loaded_us"] == sum(kept) / 2
    assert run.intervals["omitted"].count(True) == 6


@pytest.mark.parametrize("value", [-1, 4294967294])
def test_retransmits_that_were_never_counted_are_null(value):
    doc = json.loads((LOGS / "gen-3.10.1-tcp-P2.json").read_text())
    doc["end"]["sum_sent"]["retransmits"] = value
    doc["intervals"][0]["sum"]["retransmits"] = value
    (run,) = tools.parse(json.dumps(doc))
    assert run.status == "ok"
    assert "retransmits_count" not in run.metrics
    assert None in run.intervals["retransmits_count"]


def test_bytes_that_are_no_text_in_a_document_raise_nothing():
    data = (
        (LOGS / "gen-3.12-tcp-R.json")
        .read_bytes()
        .replace(b'"host_total"', b'"host_tota\xff"')
    )
    (run,) = tools.parse(data)
    assert (run.status, "'host_total'" in str(run.error)) == ("partial", True)


CONNECTED = """\
Connecting to host iperf3, port 5201
Reverse mode, remote host iperf3 is sending
[  5] local 10.0.0.8 port 50123 connected to 10.0.0.9 port 5201
"""
TITLES = "[ ID] Interval           Transfer     Bitrate         Retr\n"
SENT = "[  5]   0.00-8.00   sec  5.50 MBytes  5.77 Mbits/sec  208             sender\n"
ARRIVED = (
    "[  5]   0.00-8.02   sec  4.12 MBytes  4.31 Mbits/sec                  receiver\n"
)


def test_a_host_may_be_called_iperf3():
    (run,) = tools.parse(CONNECTED + TITLES + SENT + ARRIVED + "\niperf Done.\n")
    assert run.parameters["server"] == "iperf3"
    assert run.parameters["direction"] == "reverse"


@pytest.mark.parametrize("done", ["", "\niperf Done.\n"])
def test_the_last_rows_alone_are_a_result(done):
    (run,) = tools.parse(
        "$ iperf3 -c 10.0.0.9 -t 8 | tail -n 4\n" + SENT + ARRIVED + done
    )
    assert run.status == "ok"
    assert (run.metrics["throughput_bps"], run.metrics["retransmits_count"]) == (
        4.31e6,
        208,
    )
    (run,) = tools.parse((SENT + ARRIVED + done).replace("[  5]", "[SUM]"))
    assert (run.metrics["throughput_bps"], run.metrics["retransmits_count"]) == (
        4.31e6,
        208,
    )


def test_the_end_of_a_log_does_not_know_its_largest_window():
    row = "[  5]   {}.00-{}.00   sec   704 KBytes  5.77 Mbits/sec  {}   {}.0 KBytes\n"
    rows = [row.format(i, i + 1, 104 if i < 2 else 0, 90 - 10 * i) for i in range(8)]
    rule = "- - - - - - - - - - - - -\n"
    titles = TITLES.replace("\n", "  Cwnd\n")
    (whole,) = tools.parse(titles + "".join(rows) + rule + TITLES + SENT + ARRIVED)
    assert whole.metrics["cwnd_max_bytes"] == 90 * 1024
    (tail,) = tools.parse(titles + "".join(rows[5:]) + rule + TITLES + SENT + ARRIVED)
    assert not {"cwnd_bytes", "cwnd_max_bytes"} & {*tail.metrics}
    assert "without cwnd_bytes" in tail.warnings[-1]


def test_datagrams_out_of_order_are_told_in_a_line_of_their_own():
    titles = (
        "[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total "
        "Datagrams\n"
    )
    row = "[  5]   0.00-2.00   sec  43.2 MBytes   181 Mbits/sec  0.007 ms  56/348500 (0.016%)\n"
    told = "[  5] Sent 348500 datagrams\n[SUM]  0.0- 2.0 sec  24 datagrams received out-of-order\n"
    rule = "- - - - - - - - - - - - -\n"
    (run,) = tools.parse(
        CONNECTED + titles + row + rule + titles + row + told + "\niperf Done.\n"
    )
    assert run.status == "ok"
    assert run.metrics["out_of_order_count"] == 24


def test_a_rate_too_small_for_the_unit_that_was_asked_for():
    slow = (
        (SENT + ARRIVED)
        .replace("5.77 Mbits/sec", "0.00 GBytes/sec")
        .replace("4.31 Mbits/sec", "0.00 GBytes/sec")
    )
    (run,) = tools.parse(TITLES + slow)
    assert run.metrics["throughput_bps"] == pytest.approx(4.12 * 2**20 * 8 / 8.02)
    (run,) = tools.parse(TITLES + slow.replace("4.12 MBytes", "41.2 GBytes"))
    assert run.status == "partial"


def udp_document():
    """A test over UDP as iperf3 3.16 writes it: the sender's and the receiver's sums, and one
    stream."""
    sent, lost, block = 60_000, 400, 1448
    common = {
        "start": 0,
        "end": 10.0,
        "seconds": 10.0,
        "jitter_ms": 0.005,
        "lost_packets": lost,
        "sender": True,
    }
    common["lost_percent"] = 100 * lost / sent
    total = common | {
        "bytes": sent * block,
        "bits_per_second": sent * block * 0.8,
        "packets": sent,
    }
    size = (sent - lost) * block
    received = common | {
        "bytes": size,
        "bits_per_second": size * 0.8,
        "packets": sent,
        "sender": False,
    }
    test = {
        "protocol": "UDP",
        "num_streams": 1,
        "blksize": block,
        "omit": 0,
        "duration": 10,
        "reverse": 0,
    }
    start = {
        "version": "iperf 3.16",
        "connecting_to": {"host": "10.0.0.4", "port": 5201},
        "test_start": test,
    }
    end = {
        "streams": [{"udp": total | {"out_of_order": 0}}],
        "sum": total,
        "sum_sent": total | {"lost_packets": 0, "lost_percent": 0, "jitter_ms": 0},
        "sum_received": received,
    }
    return {"start": start, "intervals": [], "end": end}


def receiver_counts(document, packets):
    received = document["end"]["sum_received"]
    block = document["start"]["test_start"]["blksize"]
    size = (packets - received["lost_packets"]) * block
    received |= {"packets": packets, "bytes": size, "bits_per_second": size * 0.8}
    return document


@pytest.mark.parametrize(
    ("at_the_receiver", "unaccounted"), [(60_000, None), (60_204, None), (59_700, 300)]
)
def test_the_two_ends_of_udp_count_at_different_moments(at_the_receiver, unaccounted):
    """A few datagrams are under way when the omitted start is over, and a shaper holds many at
    the end."""
    [run] = tools.parse(json.dumps(receiver_counts(udp_document(), at_the_receiver)))
    assert (run.status, run.error) == ("ok", None)
    assert run.metrics["packets_count"] == 60_000
    assert run.metrics["lost_count"] == 400
    assert run.metrics.get("unaccounted_count") == unaccounted
    assert run.metrics["throughput_bps"] == pytest.approx(
        (at_the_receiver - 400) * 1448 * 0.8
    )


@pytest.mark.parametrize(
    "change", [{"packets": 60_204}, {"lost_packets": 401}, {"packets": 300}]
)
def test_counts_of_the_receiver_that_its_bytes_contradict_are_damage(
    change,
):
    document = udp_document()
    document["end"]["sum_received"] |= change
    [run] = tools.parse(json.dumps(document))
    assert run.status == "partial"
    assert "packets contradict" in str(run.error)


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"jitter_ms": None}, "partial", "a jitter of None ms"),
        (
            {"jitter_ms": 0.006},
            "partial",
            "a jitter of 0.006 ms is not that of the streams",
        ),
        ({"bytes": 0, "bits_per_second": 0}, "partial", "figures are missing"),
    ],
)
def test_figures_of_the_receiver_that_contradict_each_other(change, status, words):
    document = udp_document()
    document["end"]["sum_received"] |= change
    [run] = tools.parse(json.dumps(document))
    assert run.status == status
    assert words in (run.error or " ".join(run.warnings))
    assert ("jitter_us" in run.metrics) == (status == "ok" and "jitter_ms" not in change)


@pytest.mark.parametrize(("jitter_ms", "status"), [(10001.0, "partial"), (9999.0, "ok")])
def test_jitter_longer_than_the_test_is_refused(jitter_ms, status):
    text = json.dumps(udp_document()).replace(
        '"jitter_ms": 0.005', f'"jitter_ms": {jitter_ms}'
    )
    [run] = tools.parse(text)
    assert run.status == status


def test_a_server_before_3_10_has_one_sum_of_datagrams():
    document = udp_document()
    del (
        document["end"]["sum_sent"],
        document["end"]["sum_received"],
        document["start"]["connecting_to"],
    )
    document["start"]["accepted_connection"] = {"host": "10.0.0.3", "port": 40000}
    [run] = tools.parse(json.dumps(document))
    assert (run.status, run.metrics["lost_count"]) == ("ok", 400)
    assert run.metrics["throughput_bps"] == pytest.approx(60_000 * 1448 * 0.8)
    assert "throughput_sent_bps" not in run.metrics


def test_a_result_without_what_was_received_is_damaged():
    document = json.loads((LOGS / "gen-3.21-tcp-P2.json").read_text())
    document["end"]["sum"] = {}
    del document["end"]["sum_sent"], document["end"]["sum_received"]
    [run] = tools.parse(json.dumps(document))
    assert (run.status, "sum_received" in str(run.error)) == ("partial", True)


def test_intervals_that_lack_bytes_cost_no_run_where_both_ends_agree():
    """Threads of 3.16 and later count at the same time: seen at 90 Gbit/s, where the intervals
    lacked 5 %."""
    head = (
        "Connecting to host 10.0.0.2, port 5201\n[  5] local 10.0.0.1 port 4 connected to "
        "10.0.0.2 port 5201\n"
    )
    head += "[ ID] Interval           Transfer     Bitrate         Retr  Cwnd\n"
    rows = [
        f"[  5]  {i:2}.00-{i + 1}.00  sec  9.50 GBytes  81.6 Gbits/sec    0   1.00 MBytes\n"
        for i in range(10)
    ]
    result = "- - - - -\n[ ID] Interval           Transfer     Bitrate         Retr\n"
    result += (
        "[  5]   0.00-10.00  sec   107 GBytes  91.9 Gbits/sec    0             sender\n"
    )
    for received, status in (
        ("  107 GBytes  91.9", "ok"),
        ("95.0 GBytes  81.6", "partial"),
    ):
        end = (
            f"[  5]   0.00-10.00  sec  {received} Gbits/sec                  receiver\n\niperf "
            "Done.\n"
        )
        (run,) = tools.parse(head + "".join(rows) + result + end)
        assert run.status == status


@pytest.mark.parametrize(
    ("log", "figure", "status"),
    [
        ("gen-3.12-tcp-R.json", '"retransmits"', {"partial"}),
        ("gen-3.17.1-udp.json", '"out_of_order"', {"ok"}),
    ],
)
def test_document_that_lost_one_line_says_so(log, figure, status):
    """The sum or another row has the figure: its version prints it."""
    lines = (LOGS / log).read_text().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if figure in line]

    runs = [tools.parse("".join(lines[:i] + lines[i + 1 :]))[0] for i in places]

    assert {run.status for run in runs} == status
    assert all(run.error or "its line is missing" in run.warnings[-1] for run in runs)
