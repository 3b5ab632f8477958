"""Each published study, measured again around its published values: the first page says what the study concluded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pypdf
import pytest

import netperf_lib as npl

from .published import STUDIES, measured

CONCLUSIONS: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    # notebook, its parameters, what the first page says, what the report says in a sentence
    "study-placement": (
        "03-streams",
        {},
        ["ppg: 32 % lower one-way latency than same-zone", "39.4 µs", "7.57 Gbit/s", "720 Mbit/s", "2.57 Gbit/s"],
        ["16 streams: 3.5 times the throughput of 1 stream", "(cross-region)", "within 10 %"],
    ),
    "study-minute": (
        "time",
        {},
        ["ppg: round-trip time below 100 µs", "1320 runs from 2026-11-02"],
        ["no trend beyond chance", "No change of level was found"],
    ),
    "study-ladder": (
        "03-streams",
        {},
        ["same-vnet, 32 streams: throughput at least 10.8 Gbit/s", "11.1 Gbit/s", "10.9 Gbit/s", "1.4 Gbit/s", "9.8"],
        ["64 streams: 13 % lower throughput than 32 streams", "92.9 % of the advertised bandwidth"],
    ),
    "study-domains": (
        "pairs",
        {"metric": "latency_oneway_us"},
        [
            "No verdict yet: 3 rounds, at least 7 are needed",
            "Best is 3 → 1 with 113 µs, worst 1 → 2 with 400 µs",
            "All pairs have 15.9 Gbit/s to 16 Gbit/s, within 0.28 % of each other",
            "The 3 runs of a pair differ by up to 1.9 %: their range covers the median with 75 % confidence",
            "with its interval at 75 % (the range of the rounds: too few for a higher confidence)",
        ],
        [
            "server ad2: one-way latency below 1 ms? no verdict (",
            "Not decided: server ad2 (one-way latency below 1 ms);",
            "the range of the runs, which covers the median with 75 % confidence",
        ],
    ),
    "study-paths": (
        "04-tcp-buffers",
        {"target_gbps": 4},
        ["accelerated networking: 73 % lower one-way latency", "146 µs", "53.3 µs", "552 Mbit/s", "131 Mbit/s"],
        [
            "125 MiB TCP buffer: 16.2 times the throughput of default TCP buffer",
            "The default buffer of these hosts is 4 MiB",
        ],
    ),
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_the_first_page_answers_the_question_of_the_study(name: str, root: Path) -> None:
    book, parameters, first, said = CONCLUSIONS[name]
    pdf = npl.report(measured(name, root), notebooks=["summary", book], parameters=parameters)[-1]
    pages = [" ".join(page.extract_text().split()) for page in pypdf.PdfReader(pdf).pages]
    for words in first:
        assert words in pages[0], words
    for words in said:
        assert words in " ".join(pages), words


def test_a_page_shows_the_level_at_which_its_contrasts_were_declared(tmp_path: Path) -> None:
    runs = npl.load(measured("study-ladder", tmp_path))
    for factor in ("gateway_sku", "placement"):
        q = npl.questions.ask(runs, factor, "throughput_bps")
        assert set(q.runs["streams"]) == {32}
        assert "Held at: " in q.words
        assert "32 streams" in q.words
        assert all("32 streams" in c.label for c in q.family)
        assert not q.elsewhere.empty, "the other streams are told too"
