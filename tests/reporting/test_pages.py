"""What a reader meets: answers with their base, warnings beside verdicts, and no number told in two ways."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pypdf
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import netperf_lib as npl
from netperf_lib.analysis import lines
from netperf_lib.analysis.colours import colours, document_colours
from netperf_lib.analysis.lead import Lead
from netperf_lib.analysis.result import difference_words, spread
from netperf_lib.analysis.words import effect, span
from netperf_lib.data.layout import Store
from netperf_lib.experiment.attached import attach
from netperf_lib.experiment.model import Deployment, Host, Proof
from netperf_lib.reporting import blocks
from netperf_lib.reporting.cover import cover
from netperf_lib.reporting.summary import Summary

from ..conftest import REPO
from . import made

RECORDED = REPO / "data" / "recorded"


@pytest.fixture(scope="module")
def doubted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An experiment in which one claim about one host is false."""
    folder = made.experiment(tmp_path_factory.mktemp("doubted"))
    declared = Store.at(folder).declared()
    ppg = next(p for p in declared.pairs if p.placement == "ppg")
    false = Proof(claim="one way takes 40 µs", holds=False, evidence="median 59 µs")
    hosts = tuple(
        Host(
            name=n,
            address="192.0.2.1",
            data_address="10.0.0.1",
            proofs=(false,) if n == ppg.server else (),
        )
        for n in {h for p in declared.pairs for h in (p.client, p.server)}
    )
    Store.at(folder).write_deployment(1, Deployment(deployment_id="d1", source="lab", hosts=hosts))
    return npl.load(folder)


def test_a_claim_that_does_not_hold_warns_beside_each_verdict_that_rests_on_it(
    doubted: Any,
) -> None:
    declared = npl.analysis.contrasts(doubted)
    family = npl.compare(doubted, contrasts=declared)
    table = blocks.verdicts(family, declared)
    lines = table.text.splitlines()
    claims = [line for line in lines if line.startswith("Warning") and "takes 40 µs" in line]
    assert len(claims) == 1, "a warning is told once, below the table"
    mark = claims[0].split(":")[0].removeprefix("Warning ")
    touched = [("ppg" in (c.a.get("placement"), c.b.get("placement"))) for c in declared]
    assert any(touched)
    assert not all(touched)
    for c, row, rests in zip(family, rows_of(table), touched, strict=True):
        assert ("one way takes 40 µs (median 59 µs)" in "\n".join(c.warnings)) == rests, c.names
        assert (mark in re.findall(r"\d+", row.partition(" Warning")[2])) == rests, row
    for text in (table.text, table.markdown, str(blocks.findings(family)), repr(family)):
        assert text.count("one way takes 40 µs") == 1


def rows_of(table: blocks.Shown) -> list[str]:
    """The rows of a table in markdown, without its heads."""
    return [line for line in table.markdown.splitlines() if line.startswith("| ")][1:]


def test_the_bound_in_the_sentence_is_an_end_of_the_interval_in_the_table(doubted: Any) -> None:
    for c in npl.compare(doubted):
        if c.verdict in ("better", "worse"):
            least = re.search(r"at least ([\d.,]+)", c.words)
            assert least
            assert least[1] in re.findall(r"[\d.,]+", span(c.ratio, c.low, c.high)), c.words


def test_an_effect_and_its_bound_are_written_in_one_way() -> None:
    assert "151" not in difference_words(3.3, 2.51, "16 streams", "1 stream", "throughput")
    assert difference_words(3.3, 2.51, "16 streams", "1 stream", "throughput").endswith(
        "at least 2.5 times"
    )
    assert difference_words(2.9, 2.51, "16 streams", "1 stream", "throughput").endswith(
        "at least 151 %"
    )
    assert effect(2.51, -1, times=True) == "×2.5"


def test_an_interval_is_rounded_outwards() -> None:
    assert effect(1 - 0.256, 1) == "−25 %"
    assert effect(1 - 0.402, -1) == "−41 %"
    assert effect(0.895, -1) == "−11 %"
    assert effect(1.001, 1) == "+0.1 %"
    assert effect(0.9998) == effect(1.0002) == "0.0 %"  # zero has no sign
    assert effect(3.14, -1) == "×3.1"
    assert effect(3.11, 1) == "×3.2"
    assert effect(1 / 158.4, 1) == "−99.3 %"  # as a sentence says it


@given(st.floats(1e-3, 200), st.floats(1e-3, 200), st.floats(1e-3, 200))
@example(4.0, 1.0, 1.0)
@example(1.2, 1.0, 1.0)
def test_an_effect_its_interval_and_its_sentence_are_written_in_one_way(
    ratio: float, low: float, high: float
) -> None:
    words = spread(ratio, low, high).replace("the same", "1.0 times" if ratio >= 3 else "0.0 %")
    cells = f"{effect(ratio)} {span(ratio, low, high)}"
    assert re.findall(r"\d[\d.,]*", words) == re.findall(r"\d[\d.,]*", span(ratio, low, high))
    assert (
        cells.count("×")
        == words.count("times") + ("×" in effect(ratio))
        == (3 if ratio >= 3 else 0)
    )
    assert span(ratio, low, high, short=True).count("×") == (2 if ratio >= 3 else 0)


def test_answers_stand_with_their_base(doubted: Any) -> None:
    declared = npl.analysis.contrasts(doubted)
    family = npl.compare(doubted, contrasts=declared)
    for c, row in zip(family, rows_of(blocks.verdicts(family, declared)), strict=True):
        for name in c.names:
            assert re.search(rf"{re.escape(name)}: [\d.,]+ (µs|ms|[GMk]?bit/s)", row), row


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pypdf.PdfReader:
    folder = made.experiment(tmp_path_factory.mktemp("whole"))
    return pypdf.PdfReader(
        npl.report(folder, notebooks=["summary", "01-placement", "02-accelerated"])[-1]
    )


def test_page_one_holds_the_answers(whole: pypdf.PdfReader) -> None:
    first = " ".join(whole.pages[0].extract_text().split())
    assert "ppg against same-zone" in first
    assert re.search(r"One-way latency: 4\d(\.\d)? µs and 5\d(\.\d)? µs", first)
    assert "less latency" in first  # the lead paragraph
    assert "keep it on" in first.lower()


def test_the_page_in_html_has_a_title_contents_and_one_cover(tmp_path: Path) -> None:
    folder = made.experiment(tmp_path)
    body = npl.report(folder, notebooks=["summary", "01-placement", "05-paths"], to="html")[
        -1
    ].read_text("utf-8")
    assert body.count("<h1") == 1
    assert "<title>What the network gives" in body
    anchors = re.findall(r'href="#([^"]+)"', body)
    assert len(anchors) >= 4
    assert all(f'id="{a}"' in body for a in anchors)
    assert "Traceback" not in body
    assert "prefers-color-scheme: dark" in body
    # a phone shows the picture first, then the answers in short, then the facts
    picture, lead = body.index("<img"), body.index("<strong>Placement:</strong>")
    assert picture < lead < body.index("<dl>") < body.index("<nav") < body.index('id="part-1"')


def test_a_condition_has_one_colour_in_every_figure() -> None:
    few, many = (
        colours(["cross-region"]),
        colours(["ppg", "same-zone", "cross-region", "cross-region, 16 streams"]),
    )
    assert few["cross-region"] == many["cross-region"]
    assert len(set(many.values())) == len(many)
    assert not {c for c, _ in many.values()} & {
        c for c, _ in colours(["1 stream", "16 streams"]).values()
    }


@pytest.mark.parametrize("experiment", ["lab-full", "paths", "zones"])
@pytest.mark.parametrize("metric", ["latency_oneway_us", "throughput_bps"])
def test_a_condition_looks_the_same_alone_and_among_all(experiment: str, metric: str) -> None:
    names = [str(name) for name in npl.observe(RECORDED / experiment, metric).conditions.index]
    looks = colours(names)
    assert len(set(looks.values())) == len(names)
    if (
        experiment != "zones"
    ):  # placements; the colours of other names are few, and one that is taken is not repeated
        assert {name: colours([name])[name] for name in names} == looks


def test_a_condition_looks_the_same_in_every_figure_whatever_it_is_called_there() -> None:
    """The same transfers of one buffer, alone on their path and among all others; streams and latency likewise."""
    exp = npl.read(RECORDED / "lab-full")
    alone = npl.observe(
        exp, "throughput_bps", by="tcp_buffer_bytes", where={"placement": "cross-region"}
    ).main()
    among = npl.observe(exp, "throughput_bps")
    with document_colours(alone):
        small = colours(list(map(str, alone.conditions.index)))
    with document_colours(among):
        large = colours(list(map(str, among.conditions.index)))
    assert len(small) > 3
    assert len(set(large.values())) == len(large)
    for name in alone.conditions.index:
        same = among.matching(
            {f: alone.conditions.loc[name, f] for f in alone.by} | {"placement": "cross-region"}
        )
        assert small[str(name)] == large[same[0]], name
    latency = npl.observe(exp, "latency_oneway_us", where={"tool": "qperf"})
    with document_colours(latency):
        assert colours(["cross-region"])["cross-region"] == large["cross-region, 1 stream"]


def test_levels_of_a_label_have_different_colours() -> None:
    names = [f"site {number}" for number in range(20)]
    assert len({colour for colour, _ in colours(names).values()}) == 20
    assert len(set(colours([f"site {number}" for number in range(60)]).values())) == 60


def test_a_figure_carries_the_notice_of_its_data(doubted: Any) -> None:
    noticed = doubted.copy()
    attach(noticed, notice="Emulated hosts: network namespaces; nothing of a real cloud.")
    drawn = npl.plots.rounds(noticed, "latency_oneway_us")
    forest = npl.plots.forest(npl.compare(noticed))
    figure: Any
    for figure in (drawn.figure, forest.figure):
        assert "Emulated hosts: network namespaces<" in figure.svg()
        assert figure.get_supxlabel().endswith("Emulated hosts: network namespaces")


@pytest.mark.parametrize(
    ("experiment", "draw"),
    [
        ("lab-full", lambda path: npl.plots.roofs(npl.limits(path))),
        ("lab-full", lambda path: npl.plots.levels(path, "throughput_bps")),
        ("paths", lambda path: npl.plots.share(path, "throughput_bps", advertised_bps=8e9)),
        ("zones", lambda path: npl.plots.matrix(path, "latency_oneway_us")),
    ],
    ids=["roofs", "levels", "share", "matrix"],
)
def test_a_figure_of_a_folder_or_of_an_answer_carries_the_notice(
    experiment: str, draw: Callable[[Path], Any]
) -> None:
    drawn = draw(RECORDED / experiment)
    assert not drawn.drawn.empty
    assert re.search(r"\n(Emulated hosts|Synthetic data)", drawn.figure.get_supxlabel())


def test_the_cover_counts_contrasts_that_were_added_later(doubted: Any) -> None:
    assert "added later" not in str(cover(doubted))
    late = doubted.copy()
    attach(late, added=2)
    assert "2 added later" in str(cover(late))
    lead = Lead((), npl.compare(doubted), (), declared=True)
    assert "2 contrasts added after the first run" in Summary(lead, late).caveats


def test_what_a_sender_waited_for_carries_the_notice() -> None:
    times = {"path": 0.2, "receive window": 0.7, "send buffer": 0.1, "program": 0.0}
    drawn = npl.plots.waits([replace(one, times=times) for one in npl.limits(RECORDED / "paths")])
    assert "\nSynthetic data" in drawn.figure.get_supxlabel()


def test_metrics_that_few_conditions_have_are_named_below_the_levels() -> None:
    data = npl.load(RECORDED / "lab-full")
    data.loc[data["placement"] != "ppg", "cpu_client_ratio"] = None
    shown = str(npl.ask(data, "placement", "latency_oneway_us").table()._repr_markdown_())
    assert (
        "; without CPU used at the client, retransmitted segments, congestion window and round-trip time"
        in shown
    )
    assert "which fewer than half of them have" in shown


def test_a_column_of_causes_that_are_not_known_is_left_out() -> None:
    figures = "7.5 Gbit/s", "7.6 Gbit/s", "+1 %", ""
    unknown = lines.Line(
        "1 stream", "ppg", "throughput_bps", *figures[:3], "equivalent", "16", "", "not known"
    )
    for write in (lines.text, lines.markdown):
        assert "limited by" not in write([unknown])
        assert "limited by" in write([unknown, replace(unknown, held="link")])


def test_a_page_with_very_many_levels_shows_the_largest_differences_and_says_how_many_it_leaves_out() -> (
    None
):
    runs = npl.load(RECORDED / "lab-full").query(
        "tool == 'iperf3' and placement == 'ppg' and streams == 1"
    )
    many = [
        runs.assign(
            cni=f"cni-{n:02d}",
            throughput_bps=runs["throughput_bps"] * (1 + n / 50),
            run_id=f"{n}-" + runs["run_id"],
        )
        for n in range(20)
    ]
    answer = npl.ask(pd.concat(many), "cni", "throughput_bps")
    assert len(answer.verdicts) == 190
    table, words, findings = (part for part in answer.parts()[1:])
    assert len(rows_of(table)) == findings.count("- ") == 12
    assert "cni-19: " in rows_of(table)[0]
    assert (
        str(words)
        == "Shown are the 12 largest of 190 differences; npl compare FOLDER --by cni prints all."
    )
    forest, levels = answer.plot_ratios().figure, answer.plot().figure
    assert forest.caption.endswith(str(words))
    assert levels.caption.startswith("Throughput at the receiver: median of the runs")
    assert levels.get_figheight() < 9 > npl.plots.forest(answer.verdicts).figure.get_figheight()
