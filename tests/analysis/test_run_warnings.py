"""What a collector or a reader warned of in a run reaches who reads a verdict on it."""

from pathlib import Path

import pytest

import netperf_lib as npl

from ..notebooks.cells import executed

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
BUSY = "client: CPU 96 % busy: the number may be the machine's, not the network's"


@pytest.fixture(scope="module")
def exp():
    return npl.read(RECORDED / "lab-full")


def test_a_comparison_counts_the_warned_runs_of_both_sides(exp):
    told = exp.runs["warnings"].where(exp.runs["tool"] != "iperf3")
    planted = told.mask(exp.runs["placement"] == "ppg", BUSY)
    runs = exp.runs.assign(warnings=planted)
    [c] = npl.compare(
        runs, metric="latency_oneway_us", by="placement", baseline="same-zone",
        where={"placement": ["ppg", "same-zone"], "accelerated": True, "tool": "qperf"},
    )  # fmt: skip
    assert f"12 of 12 runs of ppg carry a warning, such as “{BUSY}”" in c.warnings


def test_a_comparison_without_warned_runs_says_nothing(exp):
    quiet = [c for c in npl.compare(exp) if c.metric.startswith("latency")]
    assert quiet
    assert not any("carry a warning" in w for c in quiet for w in c.warnings)


def test_what_is_uncertain_counts_the_warned_runs(exp):
    warned = exp.runs["warnings"].notna().sum()
    told = f"{warned} of {len(exp.runs)} runs carry a warning"
    assert told in str(npl.summary(exp).caveats)
    assert "carry a warning" not in str(npl.summary(RECORDED / "zones").caveats)


def test_the_page_on_quality_counts_each_warning(capsys):
    book = npl.reporting.notebooks()["07-quality"]
    _, outputs = executed(book, {"experiment": str(RECORDED / "lab-full")})
    assert "26 of 264 runs carry a warning" in capsys.readouterr().out
    tables = [getattr(o, "data", o) for o in outputs]  # styled for a page
    [table] = [t for t in tables if "warning" in getattr(t, "columns", ())]
    counts = table.set_index("warning")["runs"]
    assert counts["client: … % of the TCP segments were retransmitted"] == 11
