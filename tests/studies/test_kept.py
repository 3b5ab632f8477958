"""The five studies as logs of ones own, with names of hosts in the labels: the paragraph says what each concluded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.data.imports import import_logs

from .kept import kept

CONCLUSIONS: dict[str, tuple[int, list[dict[str, Any]], list[str]]] = {
    # rounds, declared contrasts, what the paragraph says
    "study-placement": (
        12,
        [],
        [
            "latency ppg 39.",
            "cross-region 9.8",
            "% of the advertised 12.5 Gbit/s)",
            "ppg against same-zone: 32 % less latency and the same throughput within 5 %; use it where latency matters",
            "on cross-region and the same throughput otherwise; use several connections for bulk transfers",
        ],
    ),
    "study-ladder": (
        14,
        [],
        [
            "same-vnet and vnet-peering 10.9 to 11.",
            "ErGw3AZ against ErGw1AZ: 7.0 times the throughput; the gateway is the limit of this path",
            "(7 %), 32 streams 11.",
            "64 streams 9.6",
        ],
    ),
    "study-paths": (
        12,
        [],
        [
            "Accelerated networking: 73 % less latency",
            "standard-lb against same-zone: 3",
            "(+13 µs)",
            "131 Mbit/s to 2.1",
            "(exploratory): its gateway is the bottleneck",
        ],
    ),
    "study-domains": (
        8,
        [
            {"metric": "latency_oneway_us", "a": {"server": s}, "below": "1 ms"}
            for s in ("ad1", "ad2", "ad3")
        ],
        [
            "24 of 24 runs are below 1 ms",
            "for ad3 → ad1",
            "on all 3 (98 % of the advertised 16.4 Gbit/s)",
        ],
    ),
    "study-minute": (
        300,
        [{"metric": "rtt_us", "a": {"placement": "ppg"}, "below": "100 us"}],
        ["300 of 300 runs are below 100 µs", "18 % slower than before and after"],
    ),
}


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_a_study_kept_as_logs_says_what_it_concluded(name: str, tmp_path: Path) -> None:
    rounds, contrasts, sentences = CONCLUSIONS[name]
    folder, labels = kept(name, tmp_path / "logs", rounds=rounds)
    results = import_logs(folder, labels=labels, into=tmp_path / name, contrasts=contrasts or None)
    assert set(results.runs["status"]) == {"ok"}
    paragraph = str(lead_paragraph(results.runs))
    for words in sentences:
        assert words in paragraph, paragraph
