"""When to stop measuring: every contrast settled or futile."""

import shutil

import pytest

from netperf_lib.data.declaration import declaration
from netperf_lib.errors import UsageError
from netperf_lib.pipeline import decided

from .conftest import REPO


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("root") / "lab-full"
    shutil.copytree(REPO / "data" / "recorded" / "lab-full", place)
    return place


def test_an_open_contrast_is_measured_on(store):
    """A margin of 0.5 % is much narrower than what twelve rounds on the lab tell, but within reach
    of 10,000."""
    declared = declaration(store).experiment
    near = tuple(
        c.model_copy(update={"margin": 0.005})
        for c in declared.contrasts
        if "cross-zone" in str(c.a) and c.metric == "throughput_bps"
    )
    assert near
    assert (
        decided(
            store, declared.model_copy(update={"contrasts": near, "rounds": 10_000})
        )()
        is None
    )


def test_what_is_settled_is_measured_no_more(store):
    declared = declaration(store).experiment
    far = [c for c in declared.contrasts if "cross-region" in str(c.a)]
    assert far
    settled = declared.model_copy(update={"contrasts": (far[0],)})
    assert decided(store, settled)() is not None
    none = declared.model_copy(update={"contrasts": ()})
    with pytest.raises(UsageError, match="no contrasts"):
        decided(store, none)
