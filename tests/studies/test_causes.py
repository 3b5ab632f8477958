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
    """Over 186 ms the kernel counts little of the time in which the send buffer is full."""
    named = {"vpn": "path", "vnet-peering": "not known", "same-vnet": "sender's CPU"}
    assert npl.limits(causes).set_index("placement")["cause"].to_dict() == named


def test_the_page_on_limits_says_so(causes):
    lead = npl.analysis.opening(causes)
    assert "The path limits throughput on vpn" in str(lead)
    assert "sender's CPU" in page("08-limits", causes)
