"""What limits a transfer: judged by runs in which the cause had been planted, and where people
meet it.

`limits/planted.jsonl.gz` holds samples of real transfers between two namespaces: each with the
cause that was planted (the lowest of the limits, each measured alone), and some with what came when
that cause was raised.
"""

import gzip
import json
import math
from collections import Counter
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import netperf_lib as npl
from netperf_lib.analysis.limits import KIND_OF_CAUSE, Evidence, held_back, limits, of_run
from netperf_lib.cli import npl as command
from netperf_lib.data.connections import evidence, of_record, read_samples
from netperf_lib.data.layout import new_record
from netperf_lib.errors import UsageError
from netperf_lib.metrics import EVIDENCE
from netperf_lib.reporting.blocks import verdicts
from netperf_lib.reporting.explorer import explore
from netperf_lib.terminal import text, verdict_blocks

LAB = Path("data/recorded/lab-full")
PAYLOAD_OF_LINK = 0.962


# -- one transfer --------------------------------------------------------------------------------


@cache
def planted():
    with gzip.open(Path(__file__).parent / "limits" / "planted.jsonl.gz", "rt") as rows:
        return [json.loads(row) for row in rows]


def limit(run, *, cap_bps=None):
    columns = evidence(run["sender"], run["receiver"], duration_s=3)
    row = {
        **columns,
        "throughput_bps": columns.get("limit_bps"),
        "streams": run["streams"],
        "limit_receive_max_bytes": run["receive_max_bytes"],
        "limit_send_max_bytes": run["send_max_bytes"],
        "tcp_buffer_bytes": run["receive_max_bytes"] if run["buffer_set"] else None,
        "advertised_bps": cap_bps,
        "bitrate": run["asked_bps"] / run["streams"] or None,
    }
    return of_run(row)


def test_planted_causes_are_named():
    found = Counter()
    for run in planted():
        result = limit(run)
        right = result.causes[:1] and result.causes[0] in run["truth"]
        found["right" if right else "wrong" if result.causes else "not known"] += 1
    assert found["right"] >= 0.93 * found.total()
    assert found["wrong"] <= 1


def test_ceilings_come_true_when_the_cause_is_raised():
    errors = []
    for run in (run for run in planted() if "raised" in run):
        cap = None if "rate" in run["raised"] else PAYLOAD_OF_LINK * run["link_bps"]
        if ceiling := limit(run, cap_bps=cap).ceiling_bps:
            errors.append(abs(ceiling / run["raised_bps"] - 1))
    assert len(errors) >= 8
    assert sorted(errors)[math.ceil(0.85 * len(errors)) - 1] <= 0.1


def test_a_send_buffer_carries_at_least_what_was_in_flight():
    """A buffer of 128 KiB stands in the queue of a link of 40 Mbit/s: 118 kB are in flight.
    Alone it carried 100.7."""
    run = Evidence(
        bps=39.8e6,
        sampled=True,
        rtt_us=23_800,
        rtt_min_us=10_083,
        send_buffer_ratio=0.73,
        send_max_bytes=2**17,
        receive_max_bytes=2**25,
        application_ratio=1,
        unsent_none_ratio=0.8,
        delivery_bps=41.3e6,
        busy_ratio=1,
    )
    result = held_back(run)
    assert (result.causes[0], result.next) == ("link", "send buffer")
    assert result.ceiling_bps == pytest.approx(100.7e6, rel=0.1)


@pytest.mark.parametrize(
    ("cause", "run"),
    [
        # the lab's link of 8 Gbit/s, its queue standing; the kernel's rate of delivery is that of a
        # burst
        (
            "link",
            {
                "bps": 7.57e9,
                "delivery_bps": 8.84e9,
                "rtt_us": 2575,
                "rtt_min_us": 1114,
                "unsent_none_ratio": 0.5,
            },
        ),
        # 4 MiB of send buffer, of which the kernel uses 2.5, over 2.7 ms on a link of 8 Gbit/s
        (
            "send buffer",
            {
                "bps": 4.73e9,
                "delivery_bps": 6.63e9,
                "rtt_us": 3553,
                "rtt_min_us": 2753,
                "send_buffer_ratio": 0.4,
                "send_max_bytes": 2.5 * 2**20,
            },
        ),
        # the processor comes before the queue that it makes
        (
            "receiver's CPU",
            {
                "bps": 1e9,
                "receive_window_ratio": 0.9,
                "rtt_us": 30_000,
                "rtt_min_us": 10_000,
                "receiver_on_ratio": 0.5,
                "receiver_waiting_ratio": 0.5,
            },
        ),
    ],
)
def test_what_holds_a_fast_path_is_named(cause, run):
    fixed = {
        "sampled": True,
        "application_ratio": 1,
        "window_bytes": 3e6,
        "busy_ratio": 1,
    }
    assert held_back(Evidence(**fixed, **run)).causes[0] == cause


@pytest.mark.parametrize("cause", ["receiver's CPU", "sender's CPU"])
def test_a_processor_is_blamed_only_on_the_evidence_of_the_process(cause):
    run = next(r for r in planted() if r["truth"] == [cause])
    assert limit(run).cause == "cpu"
    sides = {side: run[side].splitlines() for side in ("sender", "receiver")}
    blind = {
        s: "\n".join(x for x in rows if not x.startswith("task"))
        for s, rows in sides.items()
    }
    assert limit(run | blind).cause != "cpu"


def test_damaged_samples_lose_only_themselves():
    run = planted()[0]
    whole = read_samples(run["sender"])
    cut = read_samples(run["sender"][: len(run["sender"]) // 2])
    assert cut[:-1] == whole[: len(cut) - 1]
    damaged = "@abc\nESTAB nonsense\n@1.0\n0 0\ntask 1 x y\ncpu0 a"
    assert read_samples(damaged) == read_samples("@1.0")
    assert evidence("", "") == {}
    assert evidence("", run["receiver"]) == {}
    assert set(evidence(run["sender"], run["receiver"])) < set(EVIDENCE)


KINDS = {
    st.floats(0, 1): "receive_window_ratio send_buffer_ratio sent_again_ratio busy_ratio "
    "sender_on_ratio receiver_on_ratio",
    st.floats(0, 1e9): "window_bytes receive_buffer_bytes unread_bytes receive_max_bytes "
    "send_max_bytes",
    st.floats(0, 1e11): "asked_bps cap_bps",
    st.floats(0, 1e6): "rtt_us rtt_min_us",
    st.booleans(): "sampled buffer_set",
    st.integers(1, 128): "streams",
    st.floats(1e5, 1e11): "bps",
}
FIELDS = {name: values for values, names in KINDS.items() for name in names.split()}


@given(st.builds(Evidence, **FIELDS))
def test_any_evidence_has_an_answer_and_no_ceiling_below_it(e):
    result = held_back(e)
    kinds = {KIND_OF_CAUSE.get(c, c) for c in result.causes}
    assert kinds <= {"link", "window", "loss", "cpu", "rate"}
    assert len(set(result.causes)) == len(result.causes)
    if result.ceiling_bps is not None:
        assert result.ceiling_bps >= e.bps
        assert result.next != result.causes[0]
    if not result.causes:
        assert result.ceiling_bps is None
    assert result.reason


# -- conditions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs():
    return npl.read(LAB).runs


def row(**changed):
    """A sampled run of one stream at 1 Gbit/s, held by its receive window."""
    return {
        "experiment": "e",
        "run_id": "r",
        "status": "ok",
        "round": 1,
        "deployment": 1,
        "placement": "cross-region",
        "client": "a",
        "server": "b",
        "tool": "iperf3",
        "test": "tcp",
        "streams": 1,
        "throughput_bps": 1e9,
        "limit_bps": 1e9,
        "limit_connections": 1,
        "limit_busy_ratio": 1.0,
        "limit_receive_window_ratio": 0.9,
        "limit_send_buffer_ratio": 0.0,
        "limit_rtt_us": 20_000.0,
        "limit_rtt_min_us": 20_000.0,
        "limit_window_bytes": 2.5e6,
        "limit_receive_max_bytes": 4e6,
        "limit_send_max_bytes": 8e6,
        "advertised_bps": 8e9,
        "started_utc": pd.Timestamp("2026-01-01", tz="UTC"),
    } | changed


def table(*rows):
    return pd.DataFrame(
        [r | {"run_id": f"r{i}", "round": i + 1} for i, r in enumerate(rows)]
    )


FAST = row(throughput_bps=7.9e9, limit_bps=7.9e9)


def test_a_log_alone_tells_of_the_link_and_no_window(runs):
    unsampled = runs.drop(columns=[c for c in runs if c.startswith("limit_")])
    held = limits(unsampled, where={"tcp_buffer_bytes": [1 << 20, 4 << 20]})
    assert {one.limit.cause for one in held} == {"not known"}
    assert "All judged by logs alone" in repr(held)
    (link,) = limits(
        unsampled.query("placement == 'ppg' and streams == 1").assign(
            advertised_bps=7.6e9
        )
    )
    assert link.limit.cause == "link"


def test_a_larger_buffer_is_recommended_only_where_a_window_holds():
    (window,) = limits(table(*[row()] * 6))
    assert (window.limit.name, window.evidence.sampled) == ("receive window", True)
    assert (
        window.recommendation
        == "use 3 streams, or raise the receiver's net.ipv4.tcp_rmem"
    )
    assert window.ceiling.startswith("at most 2.66 Gbit/s, then send buffer")
    (link,) = limits(table(*[FAST] * 6))
    assert (link.limit.cause, link.recommendation) == ("link", "another size of VM")
    assert link.short == "link, 99 % of the advertised 8 Gbit/s"
    (unknown,) = limits(table(*[row(limit_receive_window_ratio=0.0)] * 6))
    assert (unknown.limit.cause, unknown.recommendation, unknown.ceiling) == (
        "not known",
        "",
        "",
    )


def test_runs_that_do_not_agree_have_no_common_cause():
    (one,) = limits(table(*[row()] * 3, *[FAST] * 3))
    assert one.limit.cause == "not known"
    assert one.limit.reason == "its runs differ: receive window in 3 runs, link in 3 runs"


def test_without_throughput_it_says_so(runs):
    with pytest.raises(UsageError, match="throughput_bps"):
        limits(runs[runs["tool"] == "qperf"])


def test_page_one_compare_and_explorer_name_the_cause(runs):
    lead = npl.analysis.lead_paragraph(runs)
    throughput = [c.metric == "throughput_bps" for c in lead.family]
    assert [any(c.held_back) for c in lead.family] == throughput
    shown = verdicts(lead.family, lead.contrasts, lead.recommendations)
    assert "727 Mbit/s (send buffer)" in shown.markdown
    assert "link / send buffer" in text(verdict_blocks(lead.family), 120)
    assert "window, 1 MiB over 20" in explore(LAB).page


def test_levels_name_the_cause_however_they_are_compared(runs):
    """One measurement by a factor says what two measurements and page one say: the cause of each
    condition."""
    causes = {one.cause for one in limits(runs, "streams")}
    where = {"placement": "cross-region"}
    for family in (
        npl.ask(runs, "streams", "throughput_bps", where=where).verdicts,
        npl.compare(runs, metric="throughput_bps", by="streams", where=where),
    ):
        assert {cause for c in family for cause in c.held_back} <= causes
        assert "limited by" in text(verdict_blocks(family), 120)
    latency = npl.compare(runs, metric="latency_oneway_us", by="placement")
    assert {c.held_back for c in latency} == {("", "")}


def test_the_page_shows_the_roofs():
    (held,) = limits(table(*[row()] * 6))
    assert held.roofs["link"] == 8e9
    drawn = repr(npl.plots.limits([held]))
    assert "link 8 Gbit/s" in drawn
    assert "08-limits" in {
        page.notebook for page in npl.analysis.pages(table(*[row()] * 3))
    }


def test_the_roofs_over_a_load_are_those_of_its_streams():
    """Its throughput is that of four streams, while sockperf, which measures, has one."""
    held = {one.condition: one for one in limits(LAB)}
    load, four = (
        held[f"cross-region, {name}"] for name in ("load iperf3 tcp ×4", "4 streams")
    )
    assert load.evidence.streams == 4
    assert load.roofs["receive window"] == pytest.approx(
        four.roofs["receive window"], rel=0.01
    )
    assert load.bps < load.roofs["receive window"]


def test_the_command_prints_lines():
    shown = CliRunner().invoke(command, ["limits", str(LAB)]).output
    assert "limited by: receive window, 1 MiB over 20 ms" in shown
    assert "sampled while they ran." in shown


def test_a_table_made_by_hand_and_a_senders_throughput_are_judged_too():
    runs = pd.DataFrame({"placement": ["a"] * 8 + ["b"] * 8, "round": list(range(8)) * 2})
    runs["throughput_bps"] = [1e9] * 8 + [2e9] * 8
    assert npl.compare(runs, metric="throughput_bps", by="placement")[0].medians == (
        2e9,
        1e9,
    )
    sent = runs.rename(columns={"throughput_bps": "throughput_sent_bps"})
    reasons = [one.limit.reason for one in npl.limits(runs)]
    assert [one.limit.reason for one in npl.limits(sent)] == reasons


@pytest.mark.parametrize("nothing", [{}, None, {"client": None}])
def test_settings_that_a_record_lacks_are_left_out(nothing, tmp_path):
    record = new_record(trial={}, files={}, facts=nothing, counters=nothing)
    assert of_record(tmp_path, record | {"commands": {"client": ["iperf3"]}}) == {}
