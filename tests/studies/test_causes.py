"""What the studies said holds them back: a gateway, a buffer over distance, the processor with 64 streams.

`causes` holds one run of each, a scale model planted in the lab: a link of 65 Mbit/s at 168 ms, a send buffer of 4 MiB
at 186 ms, and a sender held to a fifth of a core. They were measured as any experiment is.
"""

import shutil
from pathlib import Path

import pypdf
import pytest

import netperf_lib as npl


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("causes") / "studies"
    return Path(shutil.copytree(Path(__file__).parent / "causes", folder))


def test_the_causes_of_the_studies_are_named(experiment):
    held = {one.levels["placement"]: one for one in npl.limits(experiment)}
    assert {place: one.limit.cause for place, one in held.items()} == {
        "vpn": "link",
        "vnet-peering": "window",
        "same-vnet": "cpu",
    }
    assert held["vpn"].cause == "link (gateway)"
    assert held["vnet-peering"].short.endswith("4 MiB over 186 ms")
    assert held["same-vnet"].evidence.streams == 64
    assert held["same-vnet"].limit.causes[0] == "sender's CPU"
    assert all(one.sampled for one in held.values())
    assert "send buffer" in held["vnet-peering"].limit.causes


def test_the_report_says_so(experiment):
    lead = npl.analysis.opening(experiment)
    assert "The link (gateway) limits throughput on vpn" in str(lead)
    (pdf,) = npl.report(experiment, notebooks=["08-limits"])
    page = " ".join(" ".join(p.extract_text() for p in pypdf.PdfReader(pdf).pages).split())
    for words in (
        "link (gateway)",
        "sender's CPU",
        "4 MiB over 186 ms",
        "Share of the time after slow start",
    ):
        assert words in page, words
