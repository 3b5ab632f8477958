"""What others published stands beside what was measured, condition by condition."""

from __future__ import annotations

from pathlib import Path

import pytest

import netperf_lib as npl
from netperf_lib.metrics import format_value
from netperf_lib.questions.published_figures import published_beside
from tests.studies.published import measured


@pytest.mark.parametrize(
    ("study", "sources", "rows"),
    [
        ("study-placement", {"azure-westeurope-d16v3"}, 9),
        ("study-domains", {"oci-phoenix-vmstandard2.16"}, 6),
    ],
)
def test_each_figure_stands_beside_ours(
    study: str, sources: set[str], rows: int, tmp_path: Path
) -> None:
    found = published_beside(npl.load(measured(study, tmp_path)))
    assert set(found["source"]) == sources  # those of another region are other figures
    assert len(found) == rows
    assert found["here / published"].astype(float).between(0.95, 1.05).all()
    assert found["here"].str.contains(" to ").all()


def test_the_page_of_a_factor_has_them(tmp_path: Path) -> None:
    answer = npl.ask(
        npl.load(measured("study-placement", tmp_path)), "placement", "latency_oneway_us"
    )
    shown = answer.published().content()
    assert shown["columns"] == ["Condition", "Source", "Published", "Here", "Here / published"]
    rows = {row[0]: row for row in shown["rows"]}
    assert list(rows) == ["ppg", "same-zone", "cross-zone", "cross-region"]
    for name, row in rows.items():
        level = answer.levels.loc[name]
        assert row[3].startswith(format_value(level["median"], "us") + " ("), row
    assert rows["ppg"][2] == "39.4 µs"
    rates = npl.ask(answer.runs, "placement", "throughput_bps").published().content()
    assert {row[1] for row in rates["rows"]} == {"throughput at the sender"}
    assert {row[0]: row[3] for row in rates["rows"]}["ppg, 1 stream"] == "7.55 Gbit/s"
    assert (
        not npl.ask(npl.recorded(), "placement", "latency_oneway_us").published().html
    )  # emulated


def test_buffers_and_acceleration_tell_figures_apart(tmp_path: Path) -> None:
    found = published_beside(npl.load(measured("study-paths", tmp_path)))
    beside = dict(zip(found["condition"] + ": " + found["metric"], found["published"], strict=True))
    assert beside["same-zone, no accelerated networking: one-way latency"] == "146 µs"
    assert beside["same-zone: one-way latency"] == "40 µs"
    assert beside["public-ip: throughput at the receiver"] == "131 Mbit/s"
    assert beside["vpn, 125 MiB TCP buffer: throughput at the receiver"] == "549 Mbit/s"


def test_a_figure_says_its_acceleration_where_ours_is_not_known(tmp_path: Path) -> None:
    runs = npl.load(measured("study-paths", tmp_path))
    runs = runs[runs["placement"].eq("same-zone") & ~runs["accelerated"].eq(False)].assign(
        accelerated=None
    )
    found = published_beside(runs, "latency_oneway_us")
    assert dict(zip(found["source"], found["published"], strict=True)) == {
        "azure-eastasia-d8sv3, no accelerated networking": "146 µs",
        "azure-eastasia-d8sv3, accelerated networking": "40 µs",
    }
