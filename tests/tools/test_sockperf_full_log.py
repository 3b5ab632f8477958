"""sockperf's log of every packet: complete, cut, and damaged anywhere."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netperf_lib import tools
from netperf_lib.data import logs
from netperf_lib.errors import ParseError

LOGS = Path(__file__).parents[1] / "logs" / "sockperf"
PING_PONG, UNDER_LOAD = (
    (LOGS / name).read_bytes()
    for name in ("gen-pp-fulllog.csv", "gen-ul-fulllog-rtt.csv")
)
FIRST = PING_PONG.index(b"usec)\n") + 6


def samples(run):
    batches = list(run.samples())
    return (
        {k: np.concatenate([b[k] for b in batches]) for k in ("t_s", "latency_us")}
        if batches
        else {}
    )


def test_a_large_file_is_read_and_travels_between_processes(tmp_path):
    n = 120_000
    rows = b"".join(
        b"%d, %d.%09d, %d.%09d, 10.000\n" % (i, 2, i * 1000, 2, i * 1000 + 20000)
        for i in range(n)
    )
    head = b"""------------------------------
test was performed using the following parameters: --mps=max --burst=1 --reply-every=1 --msg-size=14 --time=1
------------------------------
sockperf: [Valid Duration] RunTime=0.120 sec; SentMessages=120000; ReceivedMessages=120000
sockperf: ====> avg-latency=10.000 (std-dev=0.000)
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: Total 120000 observations; each percentile contains 1200.00 observations
sockperf: ---> <MAX> observation =   10.000
sockperf: ---> percentile 99.999 =   10.000
sockperf: ---> percentile 99.990 =   10.000
sockperf: ---> percentile 99.900 =   10.000
sockperf: ---> percentile 99.000 =   10.000
sockperf: ---> percentile 90.000 =   10.000
sockperf: ---> percentile 75.000 =   10.000
sockperf: ---> percentile 50.000 =   10.000
sockperf: ---> percentile 25.000 =   10.000
sockperf: ---> <MIN> observation =   10.000
------------------------------
packet, txTime(sec), rxTime(sec), latency(usec)
"""  # noqa: E501  (as it is run or printed)
    file = tmp_path / "packets.csv"
    file.write_bytes(head + rows + b"-" * 30 + b"\n")
    [run] = pickle.loads(pickle.dumps(logs.parse(file)))
    assert (run.status, run.samples_count, run.file) == ("ok", n, str(file))
    found = samples(run)
    assert len(found["t_s"]) == n
    assert found["t_s"][-1] == pytest.approx((n - 1) * 1e-6)
    assert set(found["latency_us"]) == {10.0}

    file.write_bytes(head + rows[:-7])  # cut in the last row
    [run] = logs.parse(file)
    assert (run.status, run.samples_count, dict(run.metrics)) == ("partial", n - 1, {})
    assert len(samples(run)["t_s"]) == n - 1

    text = file.read_bytes()
    file.write_bytes(text.replace(b"\n60000, 2.060000000", b"\n60000, 2.060900000"))
    [run] = logs.parse(file)
    assert (run.status, run.samples_count) == ("partial", 60000)
    assert "line 60020" in str(run.error)


def test_a_row_with_digits_of_another_script_is_no_row():
    at = PING_PONG.index(b"\n2, ", FIRST)
    [run] = tools.parse(
        PING_PONG[:at] + PING_PONG[at:].replace(b"\n2, ", "\n\u0662, ".encode(), 1)
    )
    assert (run.status, run.samples_count) == ("partial", 2)


@pytest.mark.parametrize(("off_ns", "status"), [(2, "ok"), (4, "failed")])
def test_a_statistic_may_be_rounded_apart_from_its_packet_and_no_more(off_ns, status):
    line = re.search(rb"<MAX> observation = +([0-9.]+)", PING_PONG)
    assert line
    told = line[0].replace(line[1], b"%.3f" % (float(line[1]) + off_ns / 1000))
    assert tools.parse(PING_PONG.replace(line[0], told))[0].status == status


@pytest.mark.parametrize(("off_ms", "status"), [(0, "ok"), (2, "failed")])
def test_the_duration_is_that_of_the_packets_to_the_millisecond(off_ms, status):
    line = re.search(rb"Valid Duration\] RunTime=([0-9.]+)", PING_PONG)
    assert line
    told = line[0].replace(line[1], b"%.3f" % (float(line[1]) + off_ms / 1000))
    assert tools.parse(PING_PONG.replace(line[0], told))[0].status == status


@given(st.integers(0, len(PING_PONG)))
def test_a_cut_log_is_never_complete(length):
    intact = tools.parse(PING_PONG)[0]
    try:
        found = tools.parse(PING_PONG[:length])
    except ParseError:
        return
    for run in found:
        if run.status == "ok":
            assert run.metrics.items() <= intact.metrics.items()
            assert run.samples_count in (
                0,
                164,
            )  # without its title there is no list of packets
        else:
            assert not run.metrics
            kept = samples(run)
            whole = samples(intact)
            assert all(np.array_equal(kept[k], whole[k][: len(kept[k])]) for k in kept)


@given(st.integers(FIRST, len(PING_PONG) - 33), st.binary(min_size=1, max_size=1))
def test_a_damaged_packet_is_never_read_as_another(place, byte):
    damaged = PING_PONG[:place] + byte + PING_PONG[place + 1 :]
    whole = samples(tools.parse(PING_PONG)[0])
    [run] = [r for r in tools.parse(damaged) if r.samples_count] or tools.parse(damaged)[
        :1
    ]
    kept = samples(run)
    for k in kept:
        # the last digit of a time is below what the latency shows
        np.testing.assert_allclose(
            kept[k],
            whole[k][: len(kept[k])],
            rtol=0,
            atol=0.0032 if k == "latency_us" else 5e-9,
        )
    if len(kept.get("t_s", ())) < 164:
        assert run.status == "partial"
        assert not run.metrics
