"""The synthetic recordings: made again to the value, small, labelled, and each answers its
notebook's question."""

import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.lead import opening

from .recordings import FOLDER, NOTICE, write

ANSWERS = {
    "paths": "standard-lb against same-zone: 33 % more latency (+13 µs)",
    "zones": "114 to 115 µs for zone 1 → 3 and zone 3 → 1",
    "day": "15:00 to 19:00 UTC 18 % slower than before and after",
    "before": "ppg against same-zone: 32 % less latency",
    "after": "ppg against same-zone: 32 % less latency",
}


def test_they_are_made_again_to_the_value(tmp_path):
    for made in write(tmp_path):
        now, before = (
            npl.load(folder).dropna(axis="columns", how="all")
            for folder in (made, FOLDER / made.name)
        )
        pd.testing.assert_frame_equal(now, before)


@pytest.mark.parametrize("name", ANSWERS)
def test_each_is_small_labelled_and_has_its_answer(name):
    folder = FOLDER / name
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 300_000
    assert npl.read(folder).notice == NOTICE
    assert ANSWERS[name] in str(opening(folder))


def test_before_and_after_differ_in_what_was_planted():
    changed = npl.compare(FOLDER / "before", FOLDER / "after")
    worse = [
        (c.context.partition(",")[0], c.metric) for c in changed if c.verdict == "worse"
    ]
    assert worse == [("cross-zone", "latency_oneway_us")]
