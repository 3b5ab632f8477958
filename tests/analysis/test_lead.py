"""The lead paragraph of tables with planted truth; those of recordings and studies are in
``tests/answers``."""

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis import observe
from netperf_lib.analysis.compare import of_main_tool, questions_by_rule
from netperf_lib.analysis.contents import pages
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.runs import headline_metrics, measurement
from netperf_lib.experiment.origin import Measured, Origin
from tests.studies.published import measured

from . import planted

LATENCY = "latency_oneway_us"


def table(levels, rounds=12, metric=LATENCY, factor="placement", **columns):
    """Runs of several levels of a factor, with little noise, and without the time of day."""
    runs = planted.runs(levels, rounds, by=factor, metric=metric, noise=0.01, **columns)
    return runs.drop(columns="started_utc")


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


def by_rule(runs, *metrics):
    return questions_by_rule([of_main_tool(measurement(runs), m) for m in metrics])


def test_the_family_by_rule_reads_no_value():
    runs = table({"ppg": 40.0, "same-zone": 57.0, "far": 90.0})
    other = runs.assign(**{LATENCY: np.random.default_rng(1).permutation(runs[LATENCY])})
    one, two = ([(p.a, p.b) for p in by_rule(r, LATENCY)] for r in (runs, other))
    assert one == two


def test_what_is_set_on_hosts_is_compared_everywhere(tmp_path):
    runs = npl.read(measured("study-placement", tmp_path))
    sides = [p.as_contrast() for p in by_rule(runs, *headline_metrics(runs))]
    places = [
        c.a["placement"]
        for c in sides
        if c.a.get("streams") != (c.b or {}).get("streams")
    ]
    assert places == ["ppg", "same-zone", "cross-zone", "cross-region"]


def test_too_few_rounds_have_figures_and_no_verdict():
    text = said(table({"ppg": 40.0, "same-zone": 57.0}, rounds=1))
    assert re.search(r"Placement: .* is .*µs \(ppg\), .*µs \(same-zone\)\.", text)
    assert "no verdicts (6 rounds would be enough)" in text
    unpaired = table({"ppg": 40.0, "same-zone": 57.0}, rounds=2).drop(columns="round")
    assert "(4 runs each would be enough)" in said(unpaired)


def test_a_side_that_names_no_condition_is_left_to_its_page():
    runs = table({"ppg": 40.0, "same-zone": 57.0})
    a, b = ({"placement": place} for place in ("nowhere", "ppg"))
    found = lead_paragraph(declared(runs, metric=LATENCY, a=a, b=b))
    assert "(same-zone)" in found.lines[0]


@pytest.mark.parametrize(("factor", "every"), [(1.18, 2), (1.18, 10), (1.0, 2)])
def test_a_stretch_of_slow_hours_is_told(factor, every):
    """Of series of 660 runs, and of 132."""
    count = 1320 // every
    at = pd.date_range("2026-11-02T06:00Z", periods=count, freq=f"{every}min")
    values = 46.0 * np.where((at.hour >= 15) & (at.hour < 19), factor, 1.0)
    text = said(table({"ppg": values}, rounds=count).assign(started_utc=at))
    told = "From 02 November 2026, 15:00 to 19:00 UTC 18 % slower than before and after"
    assert (told in text) == ("UTC" in text) == (factor > 1)


def test_a_condition_whose_runs_all_failed_is_no_level():
    runs = table({"ppg": 40.0, "same-zone": 57.0, "far": 90.0})
    runs.loc[runs["placement"] == "far", ["status", LATENCY]] = ["failed", None]
    assert "far" not in said(runs).partition(".")[0]


NOT_FULL = {1: 0.85e9, 16: 6e9, 32: 11.2e9}, (16, 32)


@pytest.mark.parametrize(
    ("rates", "against", "words"),
    [
        (*NOT_FULL, "32 streams fill the path"),
        (*NOT_FULL, "against 32 streams: 47 % less"),
        (*NOT_FULL, "93 % of the advertised 12 Gbit/s"),
        ({1: 1e9, 4: 4e9, 16: 4.01e9}, (16, 1), "4 streams fill the path"),
    ],
)
def test_a_ladder_says_what_fills_the_path(rates, against, words):
    known = {"placement": "same-vnet", "advertised_bps": 12e9}
    runs = table(rates, metric="throughput_bps", factor="streams", **known)
    a, b = ({"streams": n} for n in against)
    found = lead_paragraph(declared(runs, metric="throughput_bps", a=a, b=b))
    assert words in str(found)


def test_conditions_are_named_once_for_each_set_of_factors(monkeypatch):
    calls, name = [], observe.condition_names

    def counted(*arguments, **options):
        calls.append(1)
        return name(*arguments, **options)

    monkeypatch.setattr(observe, "condition_names", counted)
    levels = {f"level-{n}": 40.0 + n / 100 for n in range(60)}
    found = lead_paragraph(table(levels, rounds=1))
    assert len(found.family) == 59
    assert len(calls) < 8
    assert "on 60 levels" in found.lines[0]


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
    cells = dict.fromkeys(product(("zone1", "zone2"), (1, 16)), 1e9)
    single = table(cells, 1, metric="throughput_bps", factor=["placement", "streams"])
    single = single.drop(columns="round").assign(run_id=[*"abcd"])
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
    runs = table({True: 60.0, False: 160.0}, factor="accelerated")
    (one,) = lead_paragraph(runs).family
    assert (one.ratio < 1, one.verdict) == (True, "better")
