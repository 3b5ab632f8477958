"""Printed figures with their rounding."""

from __future__ import annotations

import pytest

from netperf_lib.tools.draft import Figure


@pytest.mark.parametrize(("text", "half"), [("12", 4), ("12.3", 0.4), ("12.34", 0.04)])
def test_a_printed_figure_is_right_to_half_a_unit_of_its_last_digit(text: str, half: float) -> None:
    figure = Figure.printed(text, 8)
    assert (figure.value, figure.half) == pytest.approx((8 * float(text), half))


def test_rounding_of_products_and_shares() -> None:
    """The error is that of the farthest figures that are printed alike."""
    one, other = Figure.printed("10"), Figure.printed("2.0")
    assert (one * other).half == pytest.approx(10.5 * 2.05 - 20)
    assert (one / other).half == pytest.approx(10.5 / 1.95 - 5)
    assert Figure.printed("10").agrees(Figure.printed("11"), 0)
    assert not Figure.printed("10").agrees(Figure.printed("11.1"), 0)
    assert Figure.printed("10").agrees(Figure.printed("11.1"), 0.05)
    assert (one / Figure.printed("0")).agrees(Figure.printed("7"), 0), (
        "divided by what may be nothing"
    )
