"""Sentences and titles say only what is true of the data at hand."""

import json
from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.experiment.origin import Measured
from netperf_lib.reporting.cover import cover

from ..conftest import REPO


def by_hand(**columns):
    """Return six runs of two placements, of which nobody knows the rounds."""
    places = ["ppg", "same-zone"] * 3
    return pd.DataFrame(
        {"placement": places, "rtt_us": [40.0, 60, 41, 61, 42, 62], **columns}
    )


@pytest.mark.parametrize(
    ("rounds", "words"), [(None, "run"), ([1, 1, 2, 2, 3, 3], "round")]
)
def test_runs_are_drawn_by_round_where_rounds_are_known(rounds, words):
    runs = by_hand() if rounds is None else by_hand(round=rounds)
    ax = npl.plots.rounds(runs, "rtt_us")
    titles = f"{ax.get_title(loc='left')} {ax.get_title()}"
    assert f"by {words}" in titles
    assert ax.get_xlabel() == words.capitalize()
    plt.close("all")


def test_no_order_by_chance_is_claimed_of_logs():
    exp = npl.read("data/recorded/before")
    claim = "in an order drawn at random"
    assert claim in cover(exp).provenance
    declared = {**exp.origin.declared, "hosts": {"source": "imported"}}
    logs = Measured(exp.runs, replace(exp.origin, declared=declared))
    assert claim not in cover(logs).provenance


NOTEBOOKS = sorted((REPO / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_page_claims_only_with_its_condition(page):
    cells = json.loads(page.read_text("utf-8"))["cells"]
    text = " ".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    sentences = text.replace("\n", " ").split(". ")
    claims = ["declared in advance", "very run records", "very run therefore"]
    assert [s for s in sentences if any(claim in s for claim in claims)] == []
    assert [s for s in sentences if "round by round" in s and "Where" not in s] == []
