"""Each published study, measured again around its published values: the first page says what the
study concluded."""

import re

import pytest

import netperf_lib as npl
from netperf_lib.analysis.words import as_text
from netperf_lib.reporting import notebooks

from ..notebooks.cells import executed
from .published import STUDIES, measured

CONCLUSIONS = {
    # notebook, its parameters, what the first page says, what the report says in a sentence
    "study-placement": (
        "03-streams",
        {},
        [
            "39.5 µs on ppg",
            "32 % less latency and the same throughput",
            "7.56 Gbit/s",
            "718 Mbit/s",
            "2.56 Gbit/s",
        ],
        ["(cross-region)", "within 10 %"],
    ),
    "study-minute": (
        "time",
        {},
        ["1,320 of 1,320 runs are below 100 µs"],
        ["1320 runs from 2026-11-02"],
    ),
    "study-ladder": (
        "03-streams",
        {},
        [
            "16 of 16 runs on same-vnet, 32 streams reach 90 % of 12 Gbit/s",
            "10.9 to 11.2 Gbit/s",
            "1.4",
            "9.8",
            "(7 %)",
            "(93 % of the advertised 12 Gbit/s)",
        ],
        [],
    ),
    "study-domains": (
        "pairs",
        {"metric": "latency_oneway_us"},
        [
            "48 of 48 runs are below 1 ms",
            "113 µs for zone 3 → 1",
            "15.9 to 16.1 Gbit/s on all 3",
        ],
        [
            "Best is 3 → 1 with 113 µs, worst 1 → 2 with 400 µs",
            "Is AD1 to AD2 below 1 ms? zone 1 → 2: 400 µs −60 %",
        ],
    ),
    "study-paths": (
        "04-tcp-buffers",
        {"target_gbps": 4},
        [
            "Accelerated networking: 73 % less latency",
            "146",
            "(+13 µs)",
            "131 Mbit/s",
            "Its gateway is the bottleneck",
        ],
        ["The default buffer of these hosts is 4 MiB"],
    ),
}


def page(book, place, **parameters):
    """Return what a notebook says, in one line."""
    _, outputs = executed(notebooks()[book], {"experiment": str(place), **parameters})
    shown = [
        o._repr_markdown_() if hasattr(o, "_repr_markdown_") else str(o) for o in outputs
    ]
    return " ".join(re.sub(r"[|*]", " ", as_text("\n".join(shown))).split())


@pytest.mark.parametrize("name", STUDIES)
def test_the_first_page_answers_the_question_of_the_study(name, tmp_path):
    book, parameters, first, said = CONCLUSIONS[name]
    place = measured(name, tmp_path)
    summary = page("summary", place)
    assert [words for words in first if words not in summary] == []
    whole = summary + page(book, place, **parameters)
    assert [words for words in said if words not in whole] == []


def test_a_page_shows_the_level_of_its_contrasts(tmp_path):
    runs = npl.read(measured("study-ladder", tmp_path))
    for factor in ("gateway_sku", "placement"):
        answer = npl.ask(runs, factor, "throughput_bps", pool="pairs")
        assert set(answer.main.runs["streams"]) == {32}
        assert "32 streams" in answer.words.partition("Figures show ")[2]
        assert all("32 streams" in c.label for c in answer.verdicts)
        assert set(answer.levels["streams"]) > {32}, "the other streams are told too"
