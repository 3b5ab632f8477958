"""Published studies, measured again around their published values: a page says what the study
concluded."""

import re

import pytest

import netperf_lib as npl
from netperf_lib.analysis.words import as_text
from netperf_lib.reporting import notebooks

from ..notebooks.cells import executed
from .published import measured

CONCLUSIONS = {
    # notebook, its parameters, what it says; the lead is in tests/answers
    "study-placement": ("03-streams", {}, ["(cross-region)", "within 10 %"]),
    "study-minute": ("time", {}, ["1320 runs from 2026-11-02"]),
    "study-domains": (
        "pairs",
        {"metric": "latency_oneway_us"},
        [
            "Best is zone 3 → 1 with 113 µs, worst zone 1 → 2 with 400 µs",
            "Is AD1 to AD2 below 1 ms? zone 1 → 2: 400 µs −60 %",
        ],
    ),
    "study-paths": (
        "04-tcp-buffers",
        {"target_gbps": 4},
        [],
    ),
}


def page(book, place, **parameters):
    """Return what a notebook says, in one line."""
    _, outputs = executed(notebooks()[book], {"experiment": str(place), **parameters})
    shown = [
        o._repr_markdown_() if hasattr(o, "_repr_markdown_") else str(o) for o in outputs
    ]
    return " ".join(re.sub(r"[|*]", " ", as_text("\n".join(shown))).split())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "study-minute" else name
        for name in CONCLUSIONS
    ],
)
def test_a_page_says_what_the_study_concluded(name, tmp_path):
    book, parameters, said = CONCLUSIONS[name]
    shown = page(book, measured(name, tmp_path), **parameters)
    assert [words for words in said if words not in shown] == []


def test_a_page_shows_the_level_of_its_contrasts(tmp_path):
    runs = npl.read(measured("study-ladder", tmp_path))
    for factor in ("gateway_sku", "placement"):
        answer = npl.ask(runs, factor, "throughput_bps", pool="pairs")
        assert set(answer.main.runs["streams"]) == {32}
        assert "32 streams" in answer.words.partition("Figures show ")[2]
        assert all("32 streams" in c.label for c in answer.verdicts)
        assert set(answer.levels["streams"]) > {32}, "the other streams are told too"
