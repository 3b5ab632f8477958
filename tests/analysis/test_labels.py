"""Labels of the user's own: the baseline, the one recommendation, their pages, what they cost."""

import pandas as pd
import pytest

import netperf_lib as npl

from .test_planted import runs


def labelled(label, rates, rounds=10):
    """A run of each level of a label in each round."""
    return runs(rates, rounds, by=label, placement="ppg", client="a", server="b")


def later(table, label, level):
    """Measure a level after all others."""
    shift = pd.to_timedelta(3 * (table[label] == level), unit="D")
    return table.assign(started_utc=table["started_utc"] + shift)


@pytest.mark.parametrize(
    "name", ["default", "Off", "none", "before", "vorher", "baseline"]
)
def test_a_level_with_the_name_of_a_baseline_is_one(name):
    family = npl.compare(labelled("setting", {"1M": 2e9, name: 1e9, "64M": 3e9}))
    assert {c.names[1] for c in family} == {f"setting {name}"}


def test_of_levels_measured_one_after_the_other_the_first_is_the_baseline():
    table = later(labelled("side", {"neu": 2e9, "zuvor": 1e9}), "side", "neu")
    assert {c.names for c in npl.compare(table)} == {("side neu", "side zuvor")}
