"""A small measured experiment."""

import re
import shutil
from pathlib import Path

import pytest

import netperf_lib as npl


@pytest.fixture(scope="session")
def first_round(tmp_path_factory):
    """The first round of the recorded experiment, without tables."""

    def others(folder, names):
        return [name for name in names if re.match(r"tables|d01-r(?!001)", name)]

    place = tmp_path_factory.mktemp("first") / "mine"
    return Path(shutil.copytree(npl.recorded(), place, ignore=others))
