"""The lead paragraph says what a study concluded: in figures, factor by factor, and with one recommendation a level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.contents import pages
from netperf_lib.analysis.families import by_rule, of_main_tool
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.runs import headline_metrics
from netperf_lib.experiment.model import Contrast
from tests.studies.published import STUDIES, measured

CONCLUSIONS = {
    "study-placement": [
        "ppg 39.5 µs",
        "cross-region 9.87 ms",
        "7.56 Gbit/s",
        "advertised 12.5 Gbit/s",
        "less latency and the same throughput within 10 %; use it where latency matters",
        "3.6 times the throughput",
        "on cross-region and the same throughput otherwise; use several connections for bulk transfers on cross-region",
    ],
    "study-ladder": [
        "16 of 16 runs on same-vnet, 32 streams reach 90 % of 12 Gbit/s",
        "(7 %)",
        "same-vnet and vnet-peering 10.9 to 11.2 Gbit/s (93 % of the advertised 12 Gbit/s)",
        "ErGw1AZ 1.4",
        "the gateway is the limit of this path",
        "64 streams carry",
        "less than 32",
    ],
    "study-paths": [
        "(+13 µs)",
        "its gateway is the bottleneck",
        "Accelerated networking: 73 % less latency",
        "keep it on",
        "16.2 times the throughput (131 Mbit/s",
    ],
    "study-domains": [
        "runs are below 1 ms",
        "113 µs for 3 → 1",
        "on all 3",
    ],
    "study-minute": [
        "1,320 of 1,320 runs are below 100 µs (largest",
        "round-trip time 4",
        "in 1,320 runs",
    ],
}


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], pd.DataFrame]:
    root = tmp_path_factory.mktemp("studies")
    return cache(lambda name: npl.load(measured(name, root)))


@pytest.mark.parametrize("name", STUDIES)
def test_the_paragraph_is_the_conclusion_of_the_study(
    name: str, study: Callable[[str], pd.DataFrame]
) -> None:
    found = lead_paragraph(study(name))
    for words in CONCLUSIONS[name]:
        assert words in str(found), (words, str(found))
    assert "No verdict" not in str(found)
    assert found.declared
    assert len(found.family) == len(found.contrasts) == len(found.recommendations)


def table(
    levels: dict[str, float], rounds: int = 12, metric: str = "latency_oneway_us"
) -> pd.DataFrame:
    """Runs of several placements, shared by all rounds, with little noise."""
    random = np.random.default_rng(3)
    rows = [
        {
            "experiment": "x",
            "deployment": 1,
            "round": r,
            "order": i,
            "attempt": 1,
            "status": "ok",
            "tool": "qperf",
        }
        | {
            "test": "tcp_lat",
            "run_id": f"{p}-{r}",
            "placement": p,
            metric: value * random.lognormal(0, 0.01),
        }
        for r in range(1, rounds + 1)
        for i, (p, value) in enumerate(levels.items())
    ]
    return pd.DataFrame(rows)


def test_without_a_declaration_the_family_is_made_by_rule_and_judged() -> None:
    found = lead_paragraph(table({"ppg": 40.0, "same-zone": 57.0, "cross-zone": 57.2}))
    assert not found.declared
    assert [(c.a, c.b) for c in found.contrasts] == [
        ({"placement": "ppg"}, {"placement": "same-zone"}),
        ({"placement": "cross-zone"}, {"placement": "same-zone"}),
    ]
    assert [str(c.verdict) for c in found.family] == ["better", "equivalent"]
    assert found.lines[-1] == "2 comparisons by rule: every level against its baseline."


def test_the_family_by_rule_reads_no_value() -> None:
    runs = table({"ppg": 40.0, "same-zone": 57.0, "far": 90.0})
    other = runs.assign(
        latency_oneway_us=np.random.default_rng(1).permutation(runs["latency_oneway_us"])
    )
    one, two = (
        [(p.a, p.b) for p in by_rule([of_main_tool(r, "latency_oneway_us")])] for r in (runs, other)
    )
    assert one == two


def test_what_is_set_on_hosts_is_compared_at_each_placement(
    study: Callable[[str], pd.DataFrame],
) -> None:
    runs = study("study-placement")
    rule = [
        p.as_contrast() for p in by_rule([of_main_tool(runs, m) for m in headline_metrics(runs)])
    ]
    streams = [c.a["placement"] for c in rule if c.a.get("streams") != (c.b or {}).get("streams")]
    assert streams == ["ppg", "same-zone", "cross-zone", "cross-region"]


def test_one_recommendation_a_level_from_all_its_metrics(
    study: Callable[[str], pd.DataFrame],
) -> None:
    found = lead_paragraph(study("study-placement"))
    by_level: dict[object, set[str]] = {}
    for contrast, advice in zip(found.contrasts, found.recommendations, strict=True):
        if (
            advice
            and contrast.a.get("streams") in (None, 1)
            and contrast.b
            and "placement" in contrast.b
        ):
            by_level.setdefault(contrast.a["placement"], set()).add(advice)
    assert by_level["ppg"] == {"Use it where latency matters"}
    assert all(len(advice) == 1 for advice in by_level.values())


def test_figures_of_too_few_rounds_come_first_and_say_what_would_do() -> None:
    found = lead_paragraph(table({"ppg": 40.0, "same-zone": 57.0}, rounds=1))
    assert str(found).startswith("Placement: latency ppg ")
    assert "1 run per condition: figures but no verdicts (" in str(found)


def test_a_declared_contrast_that_names_no_single_condition_is_left_to_its_page() -> None:
    contrast = Contrast(
        metric="latency_oneway_us", a={"placement": "nowhere"}, b={"placement": "ppg"}
    )
    found = lead_paragraph(table({"ppg": 40.0, "same-zone": 57.0}), family=[contrast])
    assert str(found).startswith("Placement: latency ppg ")
    assert found.recommendations == ("",)


@pytest.mark.parametrize("factor", [1.18, 1.0])
def test_a_stretch_of_slow_hours_is_told(factor: float) -> None:
    runs = table({"ppg": 46.0}, rounds=660)
    runs["started_utc"] = pd.Timestamp("2026-11-02T06:00Z") + pd.to_timedelta(
        2 * (runs["round"] - 1), unit="min"
    )
    slow = runs["started_utc"].dt.hour.between(15, 18)
    runs["latency_oneway_us"] *= np.where(slow, factor, 1.0)
    told = "from 02 November 2026, 15:00 to 19:00 UTC 18 % slower than before and after" in str(
        lead_paragraph(runs)
    )
    assert told == (factor > 1), str(lead_paragraph(runs))
    assert ("UTC" in str(lead_paragraph(runs))) == told


def test_a_condition_whose_runs_all_failed_is_no_level() -> None:
    runs = table({"ppg": 40.0, "same-zone": 57.0, "far": 90.0})
    runs.loc[runs["placement"] == "far", ["status", "latency_oneway_us"]] = ["failed", None]
    assert str(lead_paragraph(runs)).startswith("Placement: latency ppg ")
    assert "far" not in str(lead_paragraph(runs)).partition(". ")[0]


def test_an_experiment_without_a_sentence_for_any_factor_lists_its_levels() -> None:
    runs = (
        table({"a": 40.0, "b": 57.0}).rename(columns={"placement": "note"}).assign(placement=None)
    )
    assert "40" in str(lead_paragraph(runs))


def ladder(rates: dict[int, float], advertised: float | None = None) -> pd.DataFrame:
    """Runs of a ladder of streams at these rates, in Gbit/s, almost without noise."""
    random = np.random.default_rng(5)
    rows = [
        {
            "experiment": "x",
            "deployment": 1,
            "round": r,
            "order": i,
            "attempt": 1,
            "status": "ok",
            "tool": "iperf3",
        }
        | {
            "test": "tcp",
            "run_id": f"{n}-{r}",
            "placement": "same-vnet",
            "streams": n,
            "advertised_bps": advertised,
        }
        | {"throughput_bps": rate * 1e9 * random.lognormal(0, 0.002)}
        for r in range(1, 13)
        for i, (n, rate) in enumerate(rates.items())
    ]
    return pd.DataFrame(rows)


def against(base: int, *levels: int) -> list[Contrast]:
    return [
        Contrast(metric="throughput_bps", a={"streams": n}, b={"streams": base}) for n in levels
    ]


@pytest.mark.parametrize(
    ("rates", "contrasts", "words", "never"),
    [
        pytest.param(
            {1: 0.85, 8: 6.0, 32: 11.2, 64: 9.6},
            against(32, 8, 64),
            [
                "1 stream 8",
                "(7 % of the advertised 12 Gbit/s)",
                "32 streams 11.2 Gbit/s (93 %)",
                "64 streams 9.",
                "(80 %)",
                "8 and 64 streams carry 46 % and 14 % less than 32",
            ],
            [],
            id="a peak",
        ),
        pytest.param(
            {1: 0.85, 16: 6.0, 32: 11.2},
            against(32, 16),
            ["16 streams 6 Gbit/s, 32 streams 11.2 (93 % of", "16 streams carry 46 % less than 32"],
            [" and 32 streams carry"],
            id="not full",
        ),
        pytest.param(
            {1: 1.0, 4: 4.0, 16: 4.01},
            against(1, 16),
            [
                "1 stream 999 Mbit/s",
                "4 streams fill the path (at least 95 % of the best); 16 streams give no more",
            ],
            ["carry", "less"],
            id="no loss",
        ),
        pytest.param(
            {1: 1.0, 2: 1.0, 4: 1.0, 16: 1.0},
            against(1, 16),
            ["1 stream 999 Mbit/s (8 % of the advertised 12 Gbit/s), 16 streams 999 (8 %)"],
            ["carry", "times"],
            id="flat",
        ),
    ],
)
def test_a_ladder_says_what_fills_the_path_and_what_more_costs(
    rates: dict[int, float], contrasts: list[Contrast], words: list[str], never: list[str]
) -> None:
    said = str(lead_paragraph(ladder(rates, 12e9), family=contrasts))
    for each in words:
        assert each in said, (each, said)
    for each in never:
        assert each not in said, (each, said)


def test_a_thousand_levels_take_no_more_work_each_than_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()

    def counted(where: str, name: str) -> None:
        module = import_module(f"netperf_lib.analysis.{where}")
        function = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, **k: counts.update([name]) or function(*a, **k)
        )

    counted("judging", "Blocks")
    counted("observe", "condition_names")
    for size in (10, 300):
        counts.clear()
        found = lead_paragraph(table({f"level-{n}": 40.0 + n / 100 for n in range(size)}, rounds=1))
        assert len(found.family) == size - 1
        assert counts["Blocks"] == 1, "the observations are made into arrays once"
        assert counts["condition_names"] < 8, "and named once for each set of factors"
    assert found.lines[0].startswith(
        "Placement: latency 39 to 44 µs on 300 levels (lowest level-"
    ), found.lines[0]


def test_the_sentence_to_copy_names_the_fewest_streams_that_fill_the_path_and_what_more_cost() -> (
    None
):
    exp = npl.read("data/recorded/lab-full")
    filled = "4 streams fill the path (at least 95 % of the best); 16 streams give no more and cost 29,312 instead of 0"
    found = lead_paragraph(exp.runs)
    assert filled in str(found)
    assert "Use 4 connections for bulk transfers" in found.recommendations
    answer = npl.ask(exp, "streams", "throughput_bps")
    assert answer.headline.startswith(f"cross-region: {filled}")
    assert str(answer.parts()[-1]).startswith(f"- cross-region: {filled}")


def test_a_row_says_which_side_loses_datagrams() -> None:
    runs = table({"ppg": 1e9, "same-zone": 9e8}, metric="throughput_bps")
    runs["lost_ratio"] = np.where(runs["placement"] == "ppg", 0.73, 0.005)
    runs["throughput_sent_bps"] = runs["throughput_bps"] / (1 - runs["lost_ratio"])
    family, lead = npl.analysis.lead.conclude(runs)
    assert "Datagrams lost: 73 % on ppg (3.71 Gbit/s sent, 1 Gbit/s received)." in lead.lines
    assert "11 % more throughput; but 73 % of the datagrams are lost." in lead.lines[0]
    assert family[0].warnings[0] == "ppg lost 73 % of its datagrams"


def test_a_level_that_stands_for_runs_that_differ_widely_has_its_range() -> None:
    runs = table({"ppg": 40.0, "same-zone": 40.1})
    runs.loc[runs["placement"].eq("same-zone") & runs["round"].gt(6), "latency_oneway_us"] = 100.0
    assert "ppg 40.1 µs, same-zone 70.7 (39.1 to 100 µs in 12 runs)" in str(lead_paragraph(runs))


def test_sides_of_different_size_say_both() -> None:
    runs = table({"ppg": 40.0, "same-zone": 57.0}, rounds=5)
    runs = runs[runs["placement"].eq("ppg") ^ runs["round"].gt(4)]
    [c] = lead_paragraph(runs).family
    assert c.size == "4/1"
    assert c.reason.startswith("4 runs against 1, at least")


def test_what_holds_throughput_back_is_a_sentence_of_its_own_and_counts_what_limits_lists() -> None:
    exp = npl.read("data/recorded/lab-full")
    last = lead_paragraph(exp).lines[-1]
    assert last.startswith("Throughput is limited by: link on 5 of 13 conditions")
    assert len(npl.limits(exp)) == 13


def test_received_and_sent_throughput_have_two_nouns() -> None:
    rows = [
        {"tool": tool, "test": "tcp", "streams": streams, "status": "ok", metric: 1e9 * streams + n}
        for tool, metric in (("iperf3", "throughput_bps"), ("iperf2", "throughput_sent_bps"))
        for streams in (1, 16)
        for n in range(12)
    ]
    said = str(lead_paragraph(pd.DataFrame(rows)))
    assert "the throughput (1 to 16 Gbit/s) and 16.0 times the throughput at the sender" in said


def zones(count: int, rounds: bool = False, **more: object) -> pd.DataFrame:
    """One-way latencies of two zones, some runs of each."""
    rows = [
        {"placement": zone, "latency_oneway_us": level + n, "round": n + 1}
        for zone, level in (("zone1", 58.0), ("zone2", 95.0))
        for n in range(count)
    ]
    runs = pd.DataFrame(rows).assign(tool="qperf", test="tcp_lat", status="ok", **more)
    return runs if rounds else runs.drop(columns="round")


def test_too_few_runs_have_a_sentence_without_a_verdict() -> None:
    said = str(lead_paragraph(zones(3, rounds=True)))
    assert "zone2 against zone1: 63 % more latency (+37 µs) in these 3 and 3 runs" in said
    assert "figures but no verdicts" in said


def test_one_run_a_side_takes_no_share_of_the_family() -> None:
    single = pd.DataFrame(
        {"placement": zone, "streams": n, "tool": "iperf3", "status": "ok", "throughput_bps": 1e9}
        for zone in ("zone1", "zone2")
        for n in (1, 16)
    )
    lead = lead_paragraph(pd.concat([zones(5), single], ignore_index=True))
    assert [(c.metric, c.verdict) for c in lead.family] == [("latency_oneway_us", "worse")]
    assert "no verdicts" not in str(lead)


def test_names_of_zones_ask_the_question_of_zones() -> None:
    notebooks = {page.notebook for page in pages(zones(5))}
    assert "01-placement" in notebooks
    assert "05-paths" not in notebooks


def test_acceleration_is_what_switching_it_on_brings() -> None:
    rows = [
        {"accelerated": on, "latency_oneway_us": level + n, "round": n, "tool": "qperf"}
        for on, level in ((True, 60.0), (False, 160.0))
        for n in range(8)
    ]
    (one,) = lead_paragraph(pd.DataFrame(rows)).family
    assert one.ratio < 1
    assert one.verdict == "better"


def test_python_and_the_terminal_have_one_baseline() -> None:
    exp = npl.read(npl.recorded())
    where = {"tool": "qperf"}
    by_hand = npl.compare(exp, metric="latency_oneway_us", by="placement", where=where)
    assert {c.names[1] for c in by_hand} == {"same-zone"}
    asked = npl.ask(exp, "placement", "latency_oneway_us", where=where).verdicts
    declared = {c.names: c.verdict for c in asked}
    assert {c.names: c.verdict for c in by_hand}.items() >= declared.items()


def test_a_table_without_placements_has_pages() -> None:
    assert pages(zones(2).drop(columns="placement"))
