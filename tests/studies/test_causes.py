"""What the studies said holds them back: a gateway, a buffer over distance, a busy processor.

`causes` holds one run of each, a scale model planted in the lab: a link of 65 Mbit/s at 168 ms, a
send buffer of 4 MiB at 186 ms, and a sender held to a fifth of a core.
"""

import shutil
from pathlib import Path

import pytest

import netperf_lib as npl

from .test_reported import page


@pytest.fixture(scope="module")
def causes(tmp_path_factory):
    """Where tables may be left beside the runs."""
    folder = tmp_path_factory.mktemp("causes") / "studies"
    return shutil.copytree(Path(__file__).parent / "causes", folder)


def test_the_causes_of_the_studies_are_named(causes):
    held = {one.levels["placement"]: one for one in npl.limits(causes)}
    named = {"vpn": "link", "vnet-peering": "window", "same-vnet": "cpu"}
    assert {place: one.limit.cause for place, one in held.items()} == named
    assert held["vpn"].cause == "link (gateway)"
    assert held["vnet-peering"].short.endswith("4 MiB over 186 ms")
    assert held["same-vnet"].evidence.streams == 64
    assert held["same-vnet"].limit.causes[0] == "sender's CPU"
    assert all(one.evidence.sampled for one in held.values())
    assert "send buffer" in held["vnet-peering"].limit.causes


def test_the_page_on_limits_says_so(causes):
    lead = npl.analysis.opening(causes)
    assert "The link (gateway) limits throughput on vpn" in str(lead)
    shown = page("08-limits", causes)
    for words in ("link (gateway)", "sender's CPU", "4 MiB over 186 ms"):
        assert words in shown, words
