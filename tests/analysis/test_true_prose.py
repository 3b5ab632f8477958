"""Sentences and titles say only what is true of the data at hand."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.experiment.origin import Measured
from netperf_lib.reporting.cover import cover


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
