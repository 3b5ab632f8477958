"""The synthetic recordings are made again to the value."""

import pandas as pd

import netperf_lib as npl

from .recordings import FOLDER, write


def test_they_are_made_again_to_the_value(tmp_path):
    for made in write(tmp_path):
        now, before = (
            npl.load(folder).dropna(axis="columns", how="all")
            for folder in (made, FOLDER / made.name)
        )
        pd.testing.assert_frame_equal(now, before)
