"""What sets the logs of netperf apart."""

from __future__ import annotations

import pytest

from netperf_lib import tools

RR = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.9 () port 0 AF_INET : demo\n"
STREAM = (
    "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.9 () port 0 AF_INET\n"
)
CRR = "MIGRATED TCP Connect/Request/Response TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.9 () port 0 AF_INET\n"
CSV = "Minimum Latency Microseconds,Mean Latency Microseconds,Maximum Latency Microseconds\n"


def test_selectors_come_in_any_order_and_without_a_throughput() -> None:
    (run,) = tools.parse(RR + CSV + "41,52.75,903\n")
    assert run.metrics == {"rtt_us": 52.75, "rtt_min_us": 41, "rtt_max_us": 903}
    (run,) = tools.parse(RR + CSV[:-1] + ",Transaction Rate Tran/s\n41,52.75,903,18951.250\n")
    assert run.metrics["transaction_rate_per_s"] == 18951.25
    (run,) = tools.parse(
        STREAM
        + CSV[:-1]
        + ",Transaction Rate Tran/s,Throughput,Throughput Units\n0,2,7,1.000,941.25,10^6bits/s\n"
    )
    assert run.metrics == {"throughput_bps": 941250000}
    (run,) = tools.parse(CRR + CSV[:-1] + ",Transaction Rate Tran/s\n41,52.75,903,18951.250\n")
    assert run.metrics == {"transaction_rate_per_s": 18951.25}
    assert "time to connect" in run.warnings[0]


def test_columns_for_people_begin_with_any_title() -> None:
    table = """\
Minimum      Mean         99th         Transaction
Latency      Latency      Percentile   Rate
Microseconds Microseconds Latency      Tran/s
                          Microseconds

41           52.75        384          18951.250
"""
    (run,) = tools.parse(RR + table)
    assert run.metrics == {
        "rtt_us": 52.75, "rtt_min_us": 41, "rtt_p99_us": 384, "transaction_rate_per_s": 18951.25,
    }  # fmt: skip


def test_the_table_of_omni_itself() -> None:
    table = """\
Local       Remote      Local  Elapsed Throughput Throughput  Local  Local
Send Socket Recv Socket Send   Time               Units       CPU    CPU
Size        Size        Size   (sec)                          Util   Util
Final       Final                                             %      Method

2507776     2507776     65536  10.00   9413.25    10^6bits/s  -1.00  -1
"""
    (run,) = tools.parse(STREAM.replace("MIGRATED TCP STREAM", "OMNI") + table)
    assert run.metrics == {"throughput_bps": 9413250000, "duration_measured_s": 10}


def test_omni_names_its_direction() -> None:
    (run,) = tools.parse(
        STREAM.replace("MIGRATED TCP STREAM", "OMNI Send")
        + "Throughput,Throughput Units\n941.25,10^6bits/s\n"
    )
    assert run.metrics == {"throughput_bps": 941250000}


def test_a_service_demand_is_no_throughput() -> None:
    """With ``-f M -c -C`` the unit of the throughput has blanks inside, and the last column is in µs per KB."""
    table = """\
Recv   Send    Send                          Utilization       Service Demand
Socket Socket  Message  Elapsed              Send     Recv     Send    Recv
Size   Size    Size     Time     Throughput  local    remote   local   remote
bytes  bytes   bytes    secs.    MBytes  /s  % S      % S      us/KB   us/KB

131072  16384  16384    1.00      5460.93   51.50    51.50    0.184   0.184
"""
    (run,) = tools.parse(STREAM + table)
    assert run.metrics["throughput_bps"] == pytest.approx(5460.93 * 2**20 * 8)
    assert run.metrics["cpu_client_ratio"] == pytest.approx(0.515)


def test_names_that_come_again_are_another_run() -> None:
    one = "MEAN_LATENCY={}\nTHROUGHPUT={}\nTHROUGHPUT_UNITS=Trans/s\n"
    runs = tools.parse(one.format("20.50", "48700.10") + one.format("31.25", "31900.20"))
    assert [(r.line, r.metrics["rtt_us"], r.metrics["transaction_rate_per_s"]) for r in runs] == [
        (1, 20.5, 48700.1),
        (4, 31.25, 31900.2),
    ]


def test_a_throughput_without_its_unit_is_left_out() -> None:
    (run,) = tools.parse(RR + "MEAN_LATENCY=20.50\nTHROUGHPUT=75.78\n")
    assert run.metrics == {"rtt_us": 20.5}
    assert "without its unit" in run.warnings[0]
    (run,) = tools.parse(STREAM + "THROUGHPUT=941.25\n")
    assert run.status == "failed"
    assert run.error is not None
    assert "THROUGHPUT_UNITS" in run.error


def test_latencies_of_no_told_test_are_left_out() -> None:
    (run,) = tools.parse("MIN_LATENCY=4\nMEAN_LATENCY=5.50\n")
    assert (run.status, dict(run.metrics)) == ("failed", {})


def test_the_old_name_of_udp_streams() -> None:
    (run,) = tools.parse(
        STREAM.replace("MIGRATED TCP STREAM", "UDP UNIDIRECTIONAL SEND")
        + """\
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992    1000   10.00      125000      0     100.00
212992           10.00      100000             80.00
"""
    )
    assert run.metrics["throughput_sent_bps"] == 100e6
    assert run.metrics["throughput_bps"] == 80e6
    assert run.metrics["lost_count"] == 25000


@pytest.mark.parametrize(("row", "last"), [("41,52.75,903", False), ("41,903,52.75", True)])
def test_the_last_line_counts_without_its_end_where_its_figure_is_whole(
    row: str, last: bool
) -> None:
    titles = (
        CSV
        if not last
        else "Minimum Latency Microseconds,Maximum Latency Microseconds,Mean Latency Microseconds\n"
    )
    (run,) = tools.parse(RR + titles + row)
    assert run.metrics["rtt_us"] == 52.75
    assert ("rtt_max_us" in run.metrics) == last, "903 may be the head of 9031"
    table = "Recv   Send    Send\nSocket Socket  Message  Elapsed\nSize   Size    Size     Time     Throughput\n"
    (run,) = tools.parse(
        STREAM
        + table
        + "bytes  bytes   bytes    secs.    10^6bits/sec\n\n131072  16384  16384    10.00    941.25"
    )
    assert run.metrics["throughput_bps"] == 941250000
    (run,) = tools.parse(STREAM + "Throughput,Throughput Units\n941.25,10^6bits/s")
    assert run.metrics["throughput_bps"] == 941250000


def test_a_banner_may_be_wrapped() -> None:
    (run,) = tools.parse(
        RR.replace(" port 0 AF_INET to", " port 0\nAF_INET to") + CSV + "41,52.75,903\n"
    )
    assert run.metrics["rtt_us"] == 52.75


@pytest.mark.parametrize(
    ("burst", "status"), [("first burst 3", "ok"), ("first burst 9", "failed"), ("demo", "failed")]
)
def test_a_burst_has_several_requests_in_flight(burst: str, status: str) -> None:
    (run,) = tools.parse(
        RR.replace("demo", burst) + CSV[:-1] + ",Transaction Rate Tran/s\n41,50.00,903,78000.000\n"
    )
    assert run.status == status
