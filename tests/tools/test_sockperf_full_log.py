"""sockperf's log of every packet, read in pieces: the same as read whole, wherever the pieces and the damage fall."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netperf_lib import tools
from netperf_lib.data import logs
from netperf_lib.errors import ParseError
from netperf_lib.tools import sockperf
from netperf_lib.tools.parsed import ParsedRun
from netperf_lib.tools.sockperf import packets

LOGS = Path(__file__).parents[1] / "logs" / "sockperf"
PING_PONG, UNDER_LOAD = ((LOGS / name).read_bytes() for name in ("gen-pp-fulllog.csv", "gen-ul-fulllog-rtt.csv"))
FIRST = PING_PONG.index(b"usec)\n") + 6


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[i : i + size] for i in range(0, len(data), size))


def chunks(data: bytes, size: int) -> Callable[[], Iterator[bytes]]:
    return partial(pieces, data, size)


def samples(run: ParsedRun) -> dict[str, Any]:
    batches = list(run.samples())
    return {k: np.concatenate([b[k] for b in batches]) for k in ("t_s", "latency_us")} if batches else {}


def same(a: ParsedRun, b: ParsedRun) -> bool:
    def plain(run: ParsedRun) -> dict[str, Any]:
        return logs.to_json(run) | {"percentiles": run.percentiles, "parameters": run.parameters, "file": None}

    x, y = samples(a), samples(b)
    return plain(a) == plain(b) and x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)


@pytest.mark.parametrize("data", [PING_PONG, UNDER_LOAD], ids=["ping-pong", "under load, round trips"])
@pytest.mark.parametrize("size", [1500, 1501, 2048, 4096, 10**6])
@pytest.mark.parametrize("block", [64, 1 << 20])
def test_pieces_make_no_difference(data: bytes, size: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packets, "_BLOCK", block)
    [whole] = tools.parse(data)
    found = sockperf.read_stream(chunks(data, size))
    assert found is not None
    assert same(found[0], whole)


def test_a_large_file_is_streamed_and_travels_between_processes(tmp_path: Path) -> None:
    n = 120_000
    rows = b"".join(b"%d, %d.%09d, %d.%09d, 10.000\n" % (i, 2, i * 1000, 2, i * 1000 + 20000) for i in range(n))
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
"""
    file = tmp_path / "packets.csv"
    file.write_bytes(head + rows + b"-" * 30 + b"\n")
    assert file.stat().st_size > tools.LARGE
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
    kept: list[int] = []
    with pytest.raises(ParseError, match=f"line {19 + 60001}: "):
        kept.extend(len(batch["t_s"]) for batch in run.samples())
    assert sum(kept) == 60000


@pytest.mark.parametrize(("off_ns", "status"), [(2, "ok"), (4, "failed")])
def test_a_statistic_may_be_rounded_apart_from_its_packet_and_no_more(off_ns: int, status: str) -> None:
    line = re.search(rb"<MAX> observation = +([0-9.]+)", PING_PONG)
    assert line
    told = line[0].replace(line[1], b"%.3f" % (float(line[1]) + off_ns / 1000))
    assert tools.parse(PING_PONG.replace(line[0], told))[0].status == status


@pytest.mark.parametrize(
    "log", [b"", b"\n", PING_PONG.replace(b"(usec)", b""), PING_PONG[: FIRST - 2], b"iperf Done.\n"]
)
def test_what_is_no_full_log_is_left_to_the_general_way(log: bytes) -> None:
    assert sockperf.read_stream(chunks(log, 4096)) is None


@pytest.mark.parametrize("more", [b"sockperf: == version #3.7-no.git ==\n", PING_PONG, b"iperf Done.\n"])
def test_more_than_one_run_is_left_to_the_general_way(more: bytes) -> None:
    assert sockperf.read_stream(chunks(PING_PONG + more, 4096)) is None


@given(st.integers(0, len(PING_PONG)), st.integers(1500, 5000))
def test_a_cut_log_is_never_whole(length: int, size: int) -> None:
    intact = tools.parse(PING_PONG)[0]
    found = sockperf.read_stream(chunks(PING_PONG[:length], size))
    for run in found or []:
        if run.status == "ok":
            assert dict(run.metrics) == dict(intact.metrics)
            assert len(samples(run)["t_s"]) == 164
        else:
            assert not run.metrics
            kept = samples(run)
            whole = samples(intact)
            assert all(np.array_equal(kept[k], whole[k][: len(kept[k])]) for k in kept)


@given(st.integers(FIRST, len(PING_PONG) - 33), st.binary(min_size=1, max_size=1))
def test_a_damaged_packet_is_never_read_as_another(place: int, byte: bytes) -> None:
    damaged = PING_PONG[:place] + byte + PING_PONG[place + 1 :]
    whole = samples(tools.parse(PING_PONG)[0])
    [run] = [r for r in tools.parse(damaged) if r.samples_count] or tools.parse(damaged)[:1]
    kept = samples(run)
    for k in kept:
        # the last digit of a time is below what the latency shows
        np.testing.assert_allclose(
            kept[k], whole[k][: len(kept[k])], rtol=0, atol=0.0032 if k == "latency_us" else 5e-9
        )
    if len(kept.get("t_s", ())) < 164:
        assert run.status == "partial"
        assert not run.metrics
