"""What the notebooks are executed on: measured data wherever those hold the factors, made-up data
where they do not."""

import shutil
from pathlib import Path

import pytest

import netperf_lib as npl
from tests.reporting import made

PATHS = {"ppg": "standard-lb", "cross-zone": "vpn"}
"""The lab has no gateways: some of its placements are called paths."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The recorded experiment, where reports may be left beside it."""
    return Path(
        shutil.copytree(npl.recorded(), tmp_path_factory.mktemp("recorded") / "lab-full")
    )


@pytest.fixture(scope="session")
def paths(tmp_path_factory):
    """The recorded experiment with paths instead of places."""
    return made.experiment(tmp_path_factory.mktemp("paths"), rename=PATHS)
