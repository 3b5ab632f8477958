"""One lab for all tests of measuring: hosts near and far, and one behind a narrow link."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from netperf_lib.experiment.model import Deployment
from netperf_lib.hosts import lab


@pytest.fixture(scope="session")
def deployment(lab_runs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    from .test_collector import experiment

    state = tmp_path_factory.mktemp("lab")
    try:
        yield lab.up(experiment(), state=state)
    finally:
        lab.stop(state)
