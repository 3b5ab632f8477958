"""Figures of observations, or of whatever `netperf_lib.observe` takes.

What seaborn draws is drawn with seaborn.

Every figure has a title, units on its axes, n and method in its caption, and an alternative text;
it is legible in print and to colour-blind readers. Each function draws on `ax`, or on a figure of
its own, and returns the axes.
"""

from .answers import forest
from .conditions import levels, rounds
from .figure import Chart, Plot, in_units, label_axis
from .history import over_time

__all__ = [
    "Chart",
    "Plot",
    "forest",
    "in_units",
    "label_axis",
    "levels",
    "over_time",
    "rounds",
]


def __dir__() -> list[str]:
    return sorted(__all__)
