"""What limits a transfer: runs in which the cause had been planted, and where people meet it.

`limits/planted.jsonl.gz` holds samples of real transfers between two namespaces, a dozen, each
with the one cause that was planted.
"""

import gzip
import json
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import netperf_lib as npl
from netperf_lib.analysis.limits import TO_DO, UNKNOWN, causes, limits
from netperf_lib.cli import npl as command
from netperf_lib.data.connections import of_record
from netperf_lib.data.raw import RawFolder, Record
from netperf_lib.errors import UsageError
from netperf_lib.metrics import EVIDENCE
from netperf_lib.tools.ss import evidence, read_samples

from .planted import runs

LAB = Path("data/recorded/lab-full")


# -- one transfer --------------------------------------------------------------------------------


@cache
def planted():
    with gzip.open(Path(__file__).parent / "limits" / "planted.jsonl.gz", "rt") as rows:
        return [json.loads(row) for row in rows]


def cause_of(run):
    columns = evidence(run["sender"], run["receiver"], duration_s=3)
    rate = run["asked_bps"] / run["streams"] or None
    known = {"throughput_bps": columns.get("limit_bps"), "streams": run["streams"]}
    table = pd.DataFrame([{**columns, **known, "bitrate": rate}])
    return causes(table)["cause"].iloc[0]


@pytest.mark.parametrize("number", range(12))
def test_a_planted_cause_is_named(number):
    run = planted()[number]
    assert cause_of(run) == run["truth"]


@pytest.mark.parametrize("cause", ["receiver's CPU", "sender's CPU"])
def test_a_processor_is_blamed_only_on_the_evidence_of_its_thread(cause):
    run = dict(next(r for r in planted() if r["truth"] == cause))
    for side in ("sender", "receiver"):
        rows = run[side].splitlines()
        run[side] = "\n".join(row for row in rows if not row.startswith("task"))
    assert "CPU" not in cause_of(run)


def test_damaged_samples_lose_only_themselves():
    run = planted()[0]
    whole = read_samples(run["sender"])
    cut = read_samples(run["sender"][: len(run["sender"]) // 2])
    assert cut[:-1] == whole[: len(cut) - 1]
    damaged = "@abc\nESTAB nonsense\n@1.0\n0 0\ntask 1 x y\ncpu0 a"
    assert read_samples(damaged) == read_samples("@1.0")
    assert evidence("", "") == {}
    assert set(evidence(run["sender"], run["receiver"])) == set(EVIDENCE)


SHARES = st.one_of(st.none(), st.floats(0, 1))
COLUMNS = {
    "throughput_bps": st.one_of(st.none(), st.floats(0, 1e11)),
    "advertised_bps": st.one_of(st.none(), st.floats(1e5, 1e11)),
    "bitrate": st.one_of(st.none(), st.floats(1e5, 1e11), st.just("4G")),
    "streams": st.one_of(st.none(), st.integers(1, 128)),
}
SAMPLED = (
    "receive_window send_buffer busy application sender_on sender_waiting receiver_on "
    "receiver_waiting"
).split()
COLUMNS |= {f"limit_{name}_ratio": SHARES for name in SAMPLED}


@settings(max_examples=6)
@given(st.lists(st.fixed_dictionaries(COLUMNS), min_size=1, max_size=5))
def test_any_evidence_has_an_answer(rows):
    found = causes(pd.DataFrame(rows))
    assert {*found["cause"]} <= {*TO_DO, UNKNOWN, "rate asked for"}


# -- conditions ----------------------------------------------------------------------------------


def table(rounds=6, **changed):
    """Sampled runs of one stream at 1 Gbit/s, held by the receive window."""
    sampled = {
        "streams": 1,
        "limit_bps": 1e9,
        "limit_busy_ratio": 1.0,
        "limit_receive_window_ratio": 0.9,
        "limit_send_buffer_ratio": 0.0,
        "advertised_bps": 8e9,
    }
    rates = {"cross-region": 1e9}
    return runs(rates, rounds, metric="throughput_bps", **sampled | changed)


def by_log(**changed):
    """The same without samples."""
    known = table(**changed)
    return known.drop(columns=[c for c in known if c.startswith("limit_")])


def full(rate):
    return {"throughput_bps": rate, "limit_bps": rate}


def test_a_log_alone_tells_of_no_window_and_no_processor():
    found = limits(by_log(cpu_client_ratio=1.0, cpu_server_ratio=1.0))
    assert found["cause"].to_list() == [UNKNOWN]
    assert "Connections were not sampled" in npl.analysis.limits_words(found)


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"throughput_bps": 7.7e9}, "advertised bandwidth"),
        ({"bitrate": "1G"}, "rate asked for"),
    ],
)
def test_a_log_alone_tells_what_was_asked_for_and_advertised(changed, cause):
    assert limits(by_log(**changed))["cause"].to_list() == [cause]


def test_a_cause_has_its_evidence_and_what_to_do():
    [(_, window)] = limits(table()).iterrows()
    assert window["cause"] == "receive window"
    assert (window["receive_window"], window["path"]) == (0.9, pytest.approx(0.1))
    assert "tcp_rmem" in window["what_to_do"]
    link = limits(table(**full(7.9e9)))
    assert link["of_advertised"].iloc[0] == pytest.approx(7.9 / 8)


def test_runs_that_do_not_agree_have_no_common_cause():
    found = limits(table(**full([1e9] * 3 + [7.9e9] * 3)))
    assert found["cause"].to_list() == [UNKNOWN]


def test_the_frame_has_the_shares_of_the_kernel():
    frame = npl.limits(LAB)
    shares = frame[["receive_window", "send_buffer", "path"]]
    assert len(shares) == 13
    assert shares.sum(axis=1).between(0.9, 1.1).all()
    assert frame.loc["cross-region, 1 stream", "cause"] == "send buffer"


def test_without_throughput_it_says_so(exp):
    with pytest.raises(UsageError, match="throughput_bps"):
        limits(exp.runs.query("tool == 'qperf'"))


def test_the_page_on_limits_is_made_where_connections_were_sampled():
    pages = npl.analysis.pages(table(3))
    assert "08-limits" in {page.notebook for page in pages}


def test_the_command_prints_lines():
    shown = CliRunner().invoke(command, ["limits", str(LAB)]).output
    assert "limited by: receive window" in shown
    assert "The send buffer limits throughput on 5 of 13 conditions." in shown


def test_a_senders_throughput_is_judged_too():
    sent = table().rename(columns={"throughput_bps": "throughput_sent_bps"})
    assert npl.limits(sent)["cause"].to_list() == ["receive window"]


def test_settings_that_a_record_lacks_are_left_out(tmp_path):
    record = Record(run_id="x", trial={}, commands={"client": ["iperf3"]})
    assert of_record(RawFolder(tmp_path), record) == {}
