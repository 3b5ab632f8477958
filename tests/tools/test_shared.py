"""Printed figures with their rounding."""

import pytest

from netperf_lib.tools.shared import Figure, rate_fits


@pytest.mark.parametrize(("text", "half"), [("12", 4), ("12.3", 0.4), ("12.34", 0.04)])
def test_a_printed_figure_is_right_to_half_a_unit_of_its_last_digit(text, half):
    figure = Figure.printed(text, 8)
    assert (figure.value, figure.half) == pytest.approx((8 * float(text), half))


def test_figures_agree_within_their_rounding():
    assert Figure.printed("10").agrees(Figure.printed("11"))
    assert not Figure.printed("10").agrees(Figure.printed("11.1"))
    assert Figure.printed("10").agrees(Figure.printed("11.1"), 0.05)


@pytest.mark.parametrize(
    ("seconds", "rate", "fits"),
    [("2.0", "40", True), ("2.0", "45", False), ("0.00", "7", True)],
)
def test_rate_that_bytes_within_seconds_can_give(seconds, rate, fits):
    assert (
        rate_fits(Figure.printed("10"), Figure.printed(seconds), Figure.printed(rate))
        == fits
    )
