"""What the notebooks are executed on."""

import shutil
from pathlib import Path

import pytest

import netperf_lib as npl


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The recorded experiment, where reports may be left beside it."""
    return Path(
        shutil.copytree(npl.recorded(), tmp_path_factory.mktemp("recorded") / "lab-full")
    )
