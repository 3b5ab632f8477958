"""One lab for all tests of measuring: hosts near and far, and one behind a narrow link."""

import pytest

from netperf_lib.hosts import lab


@pytest.fixture(scope="session")
def deployment(lab_runs, tmp_path_factory):
    from .test_collector import experiment

    state = tmp_path_factory.mktemp("lab")
    try:
        yield lab.up(experiment(), state=state)
    finally:
        lab.stop(state)
