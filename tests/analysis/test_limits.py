"""What holds the conditions of an experiment back, and where people meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.limits import limits
from netperf_lib.analysis.lines import lines, markdown, text
from netperf_lib.cli import npl as command
from netperf_lib.errors import UsageError
from netperf_lib.reporting.blocks import verdicts
from netperf_lib.reporting.explorer import explore

LAB = Path("data/recorded/lab-full")
BUFFERS = {1 << 20: "window", 4 << 20: "window"}


@pytest.fixture(scope="module")
def runs() -> pd.DataFrame:
    found: pd.DataFrame = npl.read(LAB).runs
    return found


def row(**changed: object) -> dict[str, object]:
    """A sampled run of one stream at 1 Gbit/s, held by its receive window."""
    return {
        "experiment": "e", "run_id": "r", "status": "ok", "round": 1, "deployment": 1, "placement": "cross-region",
        "client": "a", "server": "b", "tool": "iperf3", "test": "tcp", "streams": 1, "throughput_bps": 1e9,
        "limit_bps": 1e9, "limit_connections": 1, "limit_busy_ratio": 1.0, "limit_receive_window_ratio": 0.9,
        "limit_send_buffer_ratio": 0.0, "limit_rtt_us": 20_000.0, "limit_rtt_min_us": 20_000.0,
        "limit_window_bytes": 2.5e6, "limit_receive_max_bytes": 4e6, "limit_send_max_bytes": 8e6,
        "advertised_bps": 8e9, "started_utc": pd.Timestamp("2026-01-01", tz="UTC"),
    } | changed  # fmt: skip


def table(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.DataFrame([r | {"run_id": f"r{i}", "round": i + 1} for i, r in enumerate(rows)])


def test_small_buffers_over_distance_are_named_from_logs_and_settings(runs: pd.DataFrame) -> None:
    unsampled = runs.drop(columns=[c for c in runs if c.startswith("limit_") and "_max_" not in c])
    held = {
        h.levels["tcp_buffer_bytes"]: h
        for h in limits(unsampled, where={"tcp_buffer_bytes": list(BUFFERS)})
    }
    assert {size: h.limit.cause for size, h in held.items()} == BUFFERS
    assert not any(h.sampled for h in held.values())
    assert "TCP buffers" in held[1 << 20].recommendation


def test_a_larger_buffer_is_recommended_only_where_a_window_holds() -> None:
    (window,) = limits(table(*[row()] * 6))
    assert (window.limit.name, window.sampled) == ("receive window", True)
    assert window.recommendation == "use 3 streams, or raise the receiver's net.ipv4.tcp_rmem"
    assert window.ceiling.startswith("at most 2.66 Gbit/s, then send buffer")
    (link,) = limits(table(*[row(throughput_bps=7.9e9, limit_bps=7.9e9)] * 6))
    assert (link.limit.cause, link.recommendation) == ("link", "another size of VM")
    assert link.short == "link, 99 % of the advertised 8 Gbit/s"
    (unknown,) = limits(table(*[row(limit_receive_window_ratio=0.0)] * 6))
    assert (unknown.limit.cause, unknown.recommendation, unknown.ceiling) == ("not known", "", "")


def test_runs_that_do_not_agree_have_no_common_cause() -> None:
    (one,) = limits(table(*[row()] * 3, *[row(throughput_bps=7.9e9, limit_bps=7.9e9)] * 3))
    assert one.limit.cause == "not known"
    assert one.limit.reason == "its runs differ: receive window in 3 runs, link in 3 runs"


def test_without_throughput_it_says_so(runs: pd.DataFrame) -> None:
    with pytest.raises(UsageError, match="throughput_bps"):
        limits(runs[runs["tool"] == "qperf"])


def test_page_one_compare_and_explorer_name_the_cause(runs: pd.DataFrame) -> None:
    lead = npl.analysis.lead_paragraph(runs)
    throughput = [c.metric == "throughput_bps" for c in lead.family]
    assert [any(c.held_back) for c in lead.family] == throughput
    shown = verdicts(lead.family, lead.contrasts, lead.recommendations)
    assert "727 Mbit/s (send buffer)" in shown.markdown
    assert "send buffer / link" in text(lines(lead.family))
    assert "| send buffer / link |" in markdown(lines(lead.family))
    assert "window, 1 MiB over 20" in explore(LAB).page


def test_levels_name_the_cause_however_they_are_compared(runs: pd.DataFrame) -> None:
    """One measurement by a factor says what two measurements and page one say: the cause of each condition."""
    causes = {one.cause for one in limits(runs, "streams")}
    where = {"placement": "cross-region"}
    for family in (
        npl.ask(runs, "streams", "throughput_bps", where=where).verdicts,
        npl.compare(runs, metric="throughput_bps", by="streams", where=where),
    ):
        assert {cause for c in family for cause in c.held_back} <= causes
        assert "limited by" in text(lines(family))
    latency = npl.compare(runs, metric="latency_oneway_us", by="placement")
    assert {c.held_back for c in latency} == {("", "")}


def test_the_page_shows_what_the_sender_waited_for_and_the_roofs() -> None:
    slow = row(limit_busy_ratio=0.1, limit_receive_window_ratio=0.0, bitrate="1G", streams=1)
    (held, paced) = limits(table(*[row()] * 6, *[slow] * 6))
    assert held.times == pytest.approx(
        {"receive window": 0.9, "send buffer": 0.0, "program": 0.0, "path": 0.1}
    )
    assert (paced.limit.cause, paced.times["program"]) == ("rate", pytest.approx(0.9))
    assert held.roofs["link"] == 8e9
    assert "receive window 90 %" in repr(npl.plots.limits([held, paced]))
    assert "link 8 Gbit/s" in repr(npl.plots.limits([held, paced]))
    assert [
        page.key for page in npl.analysis.pages(table(*[row()] * 3)) if page.notebook == "08-limits"
    ]


def test_the_roofs_over_a_load_are_those_of_its_streams() -> None:
    """Its throughput is that of four streams, while sockperf, which measures, has one."""
    held = {one.condition: one for one in limits(LAB)}
    load, four = (held[f"cross-region, {name}"] for name in ("load iperf3 tcp ×4", "4 streams"))
    assert load.streams == 4
    assert load.roofs["receive window"] == pytest.approx(four.roofs["receive window"], rel=0.01)
    assert load.bps < load.roofs["receive window"]


def test_more_streams_are_not_advised_against_a_link() -> None:
    few = row(throughput_bps=7.9e9, limit_bps=7.9e9, limit_receive_window_ratio=0.0)
    more = few | {
        "streams": 4,
        "advertised_bps": 16e9,
        "throughput_bps": 15.9e9,
        "limit_bps": 15.9e9,
    }
    rows = [
        r | {"round": i + 1, "run_id": f"{i}-{r['streams']}"}
        for i in range(12)
        for r in (few, more)
    ]
    for i, r in enumerate(rows):
        r["throughput_bps"] *= 1 + 0.001 * (i % 5)  # type: ignore[operator]
    lead = " ".join(npl.analysis.lead_paragraph(pd.DataFrame(rows)).lines)
    assert "several connections" not in lead
    window = {"limit_receive_window_ratio": 0.9, "advertised_bps": 16e9}
    lead = " ".join(npl.analysis.lead_paragraph(pd.DataFrame([r | window for r in rows])).lines)
    assert "several connections" in lead


def test_the_command_prints_objects_and_lines() -> None:
    result = CliRunner().invoke(command, ["limits", str(LAB), "--json"])
    one = next(one for one in json.loads(result.output) if one["condition"]["streams"] == 2)
    assert one["condition"]["placement"] == "cross-region"
    assert {"cause", "share", "evidence", "ceiling_bps", "next"} <= set(one)
    assert one["cause"] == "window"
    shown = CliRunner().invoke(command, ["limits", str(LAB)]).output
    assert "limited by: receive window, 1 MiB over 20 ms" in shown
    assert shown.endswith("sampled on both hosts while they ran.\n")


def test_a_table_made_by_hand_and_a_senders_throughput_are_judged_too() -> None:
    rounds = list(range(8)) * 2
    runs = pd.DataFrame(
        {
            "placement": ["a"] * 8 + ["b"] * 8,
            "round": rounds,
            "throughput_bps": [1e9] * 8 + [2e9] * 8,
        }
    )
    assert npl.compare(runs, metric="throughput_bps", by="placement")[0].medians == (2e9, 1e9)
    sent = runs.rename(columns={"throughput_bps": "throughput_sent_bps"})
    assert [one.limit.reason for one in npl.limits(sent)] == [
        one.limit.reason for one in npl.limits(runs)
    ]
