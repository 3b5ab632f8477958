"""The lead paragraph of tables with planted truth; those of recordings and studies are in
``tests/answers``."""

import re
from collections import Counter
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.contents import pages
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.rule import of_main_tool, questions_by_rule
from netperf_lib.analysis.runs import headline_metrics, measurement
from netperf_lib.experiment.origin import Measured, Origin
from tests.studies.published import measured

LATENCY = "latency_oneway_us"


def table(levels, rounds=12, metric=LATENCY, factor="placement"):
    """Runs of several levels of a factor, shared by all rounds, with little noise."""
    random = np.random.default_rng(3)
    rows = [
        {"round": r, "order": i, factor: level, metric: value * random.lognormal(0, 0.01)}
        for r in range(1, rounds + 1)
        for i, (level, value) in enumerate(levels.items())
    ]
    runs = pd.DataFrame(rows).assign(
        experiment="x", status="ok", tool="qperf", test="tcp_lat"
    )
    return runs.assign(run_id=[f"run-{n}" for n in range(len(runs))])


def declared(runs, **contrast):
    """The runs of an experiment that declares a contrast."""
    return Measured(runs, Origin(declared={"contrasts": [contrast]}))


def said(runs):
    return str(lead_paragraph(runs))


def test_a_family_by_rule_is_judged():
    found = lead_paragraph(table({"ppg": 40.0, "same-zone": 57.0, "cross-zone": 57.2}))
    assert not found.declared
    assert [c.a["placement"] for c in found.contrasts] == ["ppg", "cross-zone"]
    assert {c.b["placement"] for c in found.contrasts if c.b} == {"same-zone"}
    assert [str(c.verdict) for c in found.family] == ["better", "equivalent"]
    assert "2 comparisons by rule" in found.lines[-1]


def test_the_family_by_rule_reads_no_value():
    runs = table({"ppg": 40.0, "same-zone": 57.0, "far": 90.0})
    other = runs.assign(**{LATENCY: np.random.default_rng(1).permutation(runs[LATENCY])})
    one, two = (
        [(p.a, p.b) for p in questions_by_rule([of_main_tool(measurement(r), LATENCY)])]
        for r in (runs, other)
    )
    assert one == two


def test_what_is_set_on_hosts_is_compared_everywhere(tmp_path):
    runs = npl.read(measured("study-placement", tmp_path))
    rule = questions_by_rule(
        [of_main_tool(measurement(runs), m) for m in headline_metrics(runs)]
    )
    sides = [p.as_contrast() for p in rule]
    streams = [
        c.a["placement"]
        for c in sides
        if c.a.get("streams") != (c.b or {}).get("streams")
    ]
    assert streams == ["ppg", "same-zone", "cross-zone", "cross-region"]


def test_too_few_rounds_have_figures_and_no_verdict():
    text = said(table({"ppg": 40.0, "same-zone": 57.0}, rounds=1))
    assert re.search(r"Placement: .* is .*µs \(ppg\), .*µs \(same-zone\)\.", text)
    assert "no verdicts (6 rounds would be enough)" in text
    unpaired = table({"ppg": 40.0, "same-zone": 57.0}, rounds=2).drop(columns="round")
    assert "(4 runs each would be enough)" in said(unpaired)


def test_a_side_that_names_no_condition_is_left_to_its_page():
    runs = table({"ppg": 40.0, "same-zone": 57.0})
    sides = {"a": {"placement": "nowhere"}, "b": {"placement": "ppg"}}
    found = lead_paragraph(declared(runs, metric=LATENCY, **sides))
    assert "(same-zone)" in found.lines[0]


@pytest.mark.parametrize(("factor", "every"), [(1.18, 2), (1.18, 10), (1.0, 2)])
def test_a_stretch_of_slow_hours_is_told(factor, every):
    """Of series of 660 runs, and of 132."""
    runs = table({"ppg": 46.0}, rounds=1320 // every)
    minutes = pd.to_timedelta(every * (runs["round"] - 1), unit="min")
    runs["started_utc"] = pd.Timestamp("2026-11-02T06:00Z") + minutes
    slow = runs["started_utc"].dt.hour.between(15, 18)
    runs[LATENCY] *= np.where(slow, factor, 1.0)
    told = "From 02 November 2026, 15:00 to 19:00 UTC 18 % slower than before and after"
    assert (told in said(runs)) == (factor > 1)
    assert ("UTC" in said(runs)) == (factor > 1)


def test_a_condition_whose_runs_all_failed_is_no_level():
    runs = table({"ppg": 40.0, "same-zone": 57.0, "far": 90.0})
    runs.loc[runs["placement"] == "far", ["status", LATENCY]] = ["failed", None]
    assert "far" not in said(runs).partition(".")[0]


@pytest.mark.parametrize(
    ("rates", "against", "words"),
    [
        ({1: 0.85, 16: 6.0, 32: 11.2}, (16, 32), "32 streams fill the path"),
        ({1: 0.85, 16: 6.0, 32: 11.2}, (16, 32), "against 32 streams: 47 % less"),
        ({1: 0.85, 16: 6.0, 32: 11.2}, (16, 32), "93 % of the advertised 12 Gbit/s"),
        ({1: 1.0, 4: 4.0, 16: 4.01}, (16, 1), "4 streams fill the path"),
    ],
)
def test_a_ladder_says_what_fills_the_path(rates, against, words):
    bps = {n: rate * 1e9 for n, rate in rates.items()}
    runs = table(bps, metric="throughput_bps", factor="streams")
    runs = runs.assign(
        tool="iperf3", test="tcp", placement="same-vnet", advertised_bps=12e9
    )
    one, two = ({"streams": n} for n in against)
    found = lead_paragraph(declared(runs, metric="throughput_bps", a=one, b=two))
    assert words in str(found)


def test_work_a_level_does_not_grow_with_levels(monkeypatch):
    counts = Counter()

    def counted(where, name):
        module = import_module(f"netperf_lib.analysis.{where}")
        function = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *a, **k: counts.update([name]) or function(*a, **k)
        )

    counted("observe", "condition_names")
    for size in (10, 300):
        counts.clear()
        found = lead_paragraph(
            table({f"level-{n}": 40.0 + n / 100 for n in range(size)}, rounds=1)
        )
        assert len(found.family) == size - 1
        assert counts["condition_names"] < 8, (
            "conditions are named once for each set of factors"
        )
    assert "on 300 levels" in found.lines[0]


def test_page_and_lead_name_the_streams_that_fill_a_path():
    exp = npl.read("data/recorded/lab-full")
    answer = npl.ask(exp, "streams", "throughput_bps")
    assert "4 streams fill the path" in answer.headline
    assert answer.headline in str(lead_paragraph(exp))


def test_a_gain_that_loses_datagrams_is_told_with_them():
    runs = table({"ppg": 1e9, "same-zone": 9e8}, metric="throughput_bps")
    runs["lost_ratio"] = np.where(runs["placement"] == "ppg", 0.73, 0.005)
    lead = lead_paragraph(runs)
    assert "more throughput with 73 % of the datagrams lost" in lead.lines[0]
    assert lead.family[0].warnings[0] == "ppg lost 73 % of its datagrams"


def test_a_gateway_is_named_where_it_limits():
    bps = {"cross-region": 2e9, "vpn": 5e8, "public-ip": 1e9}
    lead = lead_paragraph(table(bps, metric="throughput_bps"))
    assert re.findall(r"(\S+) against [^.]*\. The gateway", str(lead)) == ["vpn"]


def test_what_is_not_decided_is_told_with_its_interval():
    runs = table({"ppg": 40.0, "same-zone": 57.0, "cross-zone": 60.0})
    runs[LATENCY] *= np.random.default_rng(5).lognormal(0, 0.06, len(runs))
    assert re.search(r"Not decided: .* cross-zone / same-zone \([−0-9]+ to", said(runs))


def test_sides_of_different_size_say_both():
    runs = table({"ppg": 40.0, "same-zone": 57.0}, rounds=5)
    (c,) = lead_paragraph(runs[runs["placement"].eq("ppg") ^ runs["round"].gt(4)]).family
    assert c.runs == (4, 1)
    assert c.reason.startswith("1 run per side, at least")


def zones(count):
    """One-way latencies of two zones, some runs of each, whose rounds are not known."""
    return table({"zone1": 58.0, "zone2": 95.0}, rounds=count).drop(columns="round")


def test_one_run_a_side_takes_no_share_of_the_family():
    single = pd.DataFrame(
        {
            "placement": zone,
            "streams": n,
            "tool": "iperf3",
            "status": "ok",
            "throughput_bps": 1e9,
        }
        for zone in ("zone1", "zone2")
        for n in (1, 16)
    )
    lead = lead_paragraph(pd.concat([zones(5), single], ignore_index=True))
    assert [(c.metric, c.verdict) for c in lead.family] == [(LATENCY, "worse")]
    assert "no verdicts" not in str(lead)
    assert "throughput" in str(lead).lower()


def test_names_of_zones_ask_the_question_of_zones():
    notebooks = {page.notebook for page in pages(zones(5))}
    assert "01-placement" in notebooks
    assert "05-paths" not in notebooks
    assert pages(zones(2).drop(columns="placement"))


def test_acceleration_is_what_switching_it_on_brings():
    (one,) = lead_paragraph(
        table({True: 60.0, False: 160.0}, factor="accelerated")
    ).family
    assert one.ratio < 1
    assert one.verdict == "better"


def test_python_and_the_terminal_have_one_baseline():
    exp = npl.read(npl.recorded())
    where = {"tool": "qperf"}
    by_hand = npl.compare(exp, metric=LATENCY, by="placement", where=where)
    assert {c.names[1] for c in by_hand} == {"same-zone"}
    asked = npl.ask(exp, "placement", LATENCY, where=where).verdicts
    declared = {c.names: c.verdict for c in asked}
    assert {c.names: c.verdict for c in by_hand}.items() >= declared.items()
