"""When to stop measuring: every contrast settled or futile."""

import pytest

import netperf_lib as npl
from netperf_lib.data.declaration import declaration
from netperf_lib.errors import UsageError
from netperf_lib.pipeline import decided

RECORDED = npl.recorded()


def asked(place, rounds, **changes):
    """The recorded experiment, with its contrasts that are about a placement alone."""
    declared = declaration(RECORDED).experiment
    kept = [c for c in declared.contrasts if place in str(c.a)]
    assert kept
    contrasts = tuple(c.model_copy(update=changes) for c in kept)
    return declared.model_copy(update={"contrasts": contrasts, "rounds": rounds})


def test_an_open_contrast_is_measured_on():
    """A margin of 0.5 % is much narrower than what twelve rounds on the lab tell, but within reach
    of 10,000."""
    near = asked("cross-zone", 10_000, margin=0.005)
    assert decided(RECORDED, near)() is None


def test_what_is_settled_is_measured_no_more():
    far = asked("cross-region", 12)
    settled = far.model_copy(update={"contrasts": far.contrasts[:1]})
    assert decided(RECORDED, settled)() is not None
    none = far.model_copy(update={"contrasts": ()})
    with pytest.raises(UsageError, match="no contrasts"):
        decided(RECORDED, none)
