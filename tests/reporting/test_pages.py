"""What a reader meets: answers with their base, warnings beside verdicts, one way to tell a
number."""

import re
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib import terminal
from netperf_lib.analysis.lead import Lead
from netperf_lib.analysis.words import span
from netperf_lib.data.declaration import declaration, write_deployment
from netperf_lib.experiment.deployment import Deployment, Host, Proof
from netperf_lib.experiment.origin import Measured
from netperf_lib.plots.colours import colours
from netperf_lib.reporting import blocks
from netperf_lib.reporting.cover import cover
from netperf_lib.reporting.explorer import Explorer
from netperf_lib.reporting.summary import Summary

from ..conftest import REPO
from . import made

RECORDED = REPO / "data" / "recorded"
LAB = RECORDED / "lab-full"


@pytest.fixture(scope="module")
def doubted(tmp_path_factory):
    """An experiment in which one claim about one host is false."""
    folder = made.experiment(tmp_path_factory.mktemp("doubted"))
    declared = declaration(folder).experiment
    ppg = next(p.server for p in declared.pairs if p.placement == "ppg")
    false = Proof(claim="one way takes 40 µs", holds=False, evidence="median 59 µs")
    hosts = tuple(
        Host(
            name=n, address="::1", data_address="::1", proofs=(false,) if n == ppg else ()
        )
        for n in {h for p in declared.pairs for h in (p.client, p.server)}
    )
    write_deployment(folder, 1, Deployment(deployment_id="d1", source="lab", hosts=hosts))
    return npl.read(folder)


@pytest.fixture(scope="module")
def family(doubted):
    return npl.compare(doubted)


def rows_of(table):
    """The rows of a table in markdown, without its heads."""
    return [line for line in table.markdown.splitlines() if line.startswith("| ")][1:]


def test_a_verdict_stands_with_its_base_and_its_warnings(doubted):
    declared = npl.analysis.contrasts(doubted)
    family = npl.compare(doubted, contrasts=declared)
    table = blocks.verdicts(family, declared)
    touched = [("ppg" in (c.a.get("placement"), c.b.get("placement"))) for c in declared]
    assert len(set(touched)) == 2
    for c, row, rests in zip(family, rows_of(table), touched, strict=True):
        for name in c.names:
            assert re.search(rf"{re.escape(name)}: [\d.,]+ (µs|ms|[GMk]?bit/s)", row), row
        assert span(c.ratio, c.low, c.high) in c.words
        assert ("one way takes 40 µs (median 59 µs)" in "\n".join(c.warnings)) == rests, (
            c.names
        )
        assert ("Warning 1." in row) == rests, row
    for text in (table.text, table.markdown, repr(family)):
        assert text.count("one way takes 40 µs") == 1
    assert cover(doubted).facts["Placement"] == "0 of 1 claims checked; does NOT hold: 1"


@pytest.mark.parametrize("experiment", ["lab-full", "paths", "zones"])
@pytest.mark.parametrize("metric", ["latency_oneway_us", "throughput_bps"])
def test_a_condition_looks_the_same_alone_and_among_all(experiment, metric):
    names = [
        str(name) for name in npl.observe(RECORDED / experiment, metric).conditions.index
    ]
    looks = colours(names)
    assert len(set(looks.values())) == len(names)
    if experiment != "zones":  # the colours of names that are no placements are few
        assert {name: colours([name])[name] for name in names} == looks
    sites = colours([f"site {number}" for number in range(60)])
    assert len(set(sites.values())) == 60


@cache
def asked(name):
    """An experiment, its first answer and the levels of it."""
    exp = npl.read(RECORDED / name)
    answer = npl.ask(exp)
    return exp, answer, npl.levels(exp, answer.metric)


SHOWN = {
    "an experiment": lambda exp, *_: repr(exp),
    "an answer": lambda _, answer, __: repr(answer),
    "an answer in a notebook": lambda _, answer, __: answer._repr_markdown_(),
    "levels": lambda _, __, levels: repr(levels),
    "levels in a notebook": lambda _, __, levels: " ".join(
        re.sub(
            "<style.*</style>|<[^>]+>", " ", levels._repr_html_(), flags=re.DOTALL
        ).split()
    )[:20],
}


@pytest.mark.parametrize("form", SHOWN)
@pytest.mark.parametrize("name", ["lab-full", "paths"])
def test_what_is_no_measurement_says_so_first(name, form):
    first = SHOWN[form](*asked(name)).splitlines()[0]
    assert re.search("Emulated hosts|Synthetic data", first)


def test_a_report_keeps_warnings_that_page_two_does_not_have(doubted):
    declared = npl.ask(doubted, "placement", "latency_oneway_us")
    chosen = npl.ask(doubted, "placement", "latency_oneway_us", baseline="ppg")
    for answer, expected in ((declared, False), (chosen, True)):
        table = answer.parts(short=True)[-1].markdown
        assert ("one way takes 40" in table) == expected


def test_an_explorer_is_short_where_it_cannot_be_shown():
    assert len(repr(Explorer("<p>" * 1000))) < 100


def test_contrasts_that_were_added_later_are_counted(doubted, family):
    late = Measured(doubted.runs, replace(doubted.origin, added=2))
    lead = Lead((), family, declared=True)
    assert "2 comparisons added after the first run" in Summary(lead, late).caveats


def test_a_column_of_causes_that_are_not_known_is_left_out(family):
    unknown = replace(family[0], limited_by=("not known", ""))
    known = replace(family[0], limited_by=("not known", "link"))

    def shown(*comparisons):
        blocks = terminal.verdict_blocks(replace(family, comparisons=comparisons))
        return terminal.text(blocks, 120)

    assert "limited by" not in shown(unknown)
    assert "limited by" in shown(unknown, known)


def test_of_very_many_levels_a_page_shows_the_largest_differences():
    exp = npl.read(LAB)
    runs = exp.runs.query("tool == 'iperf3' and placement == 'ppg' and streams == 1")
    many = [
        runs.assign(
            cni=f"cni-{n:02d}",
            throughput_bps=runs["throughput_bps"] * (1 + n / 50),
            run_id=f"{n}-" + runs["run_id"],
        )
        for n in range(12)
    ]
    answer = npl.ask(Measured(pd.concat(many), exp.origin), "cni", "throughput_bps")
    _, _, table, words = answer.parts()
    assert (len(answer.verdicts), len(rows_of(table))) == (66, 12)
    assert "cni-11: " in rows_of(table)[0]
    assert "at most 5 %" not in table.markdown, "no verdict stands in it"
    assert (
        "the 12 largest of 66 differences; npl compare FOLDER --by cni prints all"
        in words
    )
    assert answer.plot().figure.get_figheight() < 9


@pytest.mark.parametrize(("tools", "pages"), [(["iperf3"], 1), (["iperf3", "iperf2"], 2)])
def test_what_was_sent_has_a_page_where_no_tool_says_what_arrived(tools, pages):
    runs = npl.load(LAB).query("tool == 'iperf3' and streams == 1").copy()
    runs["throughput_sent_bps"] = 1.1 * runs["throughput_bps"]
    other = runs.assign(tool="iperf2", throughput_bps=None, run_id="2-" + runs["run_id"])
    both = pd.concat([runs, other], ignore_index=True)
    found = npl.analysis.pages(both[both["tool"].isin(tools)])
    assert len([page for page in found if page.notebook == "01-placement"]) == pages


def test_runs_that_all_differ_have_no_page_of_their_own():
    runs = npl.load(LAB).query("tool == 'iperf3'").head(24)
    runs = runs.assign(rack=runs["run_id"])
    assert [p.key for p in npl.analysis.pages(runs) if "rack" in p.key] == []
    headline = npl.ask(runs, "rack", "throughput_bps").headline
    assert len(headline) < 100
    assert f"in {len(runs)} conditions" in headline
