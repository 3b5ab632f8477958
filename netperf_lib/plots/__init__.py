"""Figures of observations, or of whatever `netperf_lib.observe` takes.

Every figure has units on its axes, n and method in its caption, and an alternative text; it is legible in print and to
colour-blind readers.
"""

from typing import NoReturn

from ..errors import unknown
from ._tails import ecdf
from ._throughput import roofline, roofs, share, streams, waits
from ._time import by_clock, over_time
from .answers import forest
from .drawing import Panels
from .figure import Chart, Plot
from .places import levels, matrix
from .rounds import drift, intervals, paired, rounds, under_load

__all__ = [
    "Chart",
    "Panels",
    "Plot",
    "by_clock",
    "drift",
    "ecdf",
    "forest",
    "intervals",
    "levels",
    "matrix",
    "over_time",
    "paired",
    "roofline",
    "roofs",
    "rounds",
    "share",
    "streams",
    "under_load",
    "waits",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> NoReturn:
    raise unknown("netperf_lib.plots", name, __all__)
