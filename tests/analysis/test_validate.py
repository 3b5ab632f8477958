"""Some of `make validate`: false reports and power on simulations, and proof that it sees them."""

import math

import pytest

from .validate import OTHERS, SCENARIOS, holds, is_false, is_right, simulate, this_library


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_statistics_keep_their_word(name):
    assert holds(name, *simulate(name, this_library, 15), 15)


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("4 deployments, 5 % apart, equal", "Welch's t"),
        pytest.param(
            "slow runs fail, equal, 20 rounds", "Mann-Whitney", marks=pytest.mark.slow
        ),
        pytest.param(
            "6 equal or at the margin, 20 rounds",
            "tolerance 10 %",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_method_that_breaks_the_promise_is_seen(name, method):
    assert not holds(name, *simulate(name, OTHERS[method], 20), 20)
    assert holds(name, *simulate(name, this_library, 5), 5)


def test_what_is_false_and_what_is_right():
    edge, paired = math.log(1.1), {"b": {}}
    assert is_false("equivalent", edge)
    assert is_false("worse", 0.0)
    assert not is_false("worse", 0.02)
    assert not is_false("no verdict", edge)
    assert is_right("worse", 0.2, paired) is True
    assert is_right("equivalent", edge, paired) is None
