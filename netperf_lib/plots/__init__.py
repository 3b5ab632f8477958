"""Figures: a tidy table in, a figure out.

Every figure names its units on the axes, tells n and method in its caption, is legible in print and to colour-blind
readers, and says in words what it shows to those who cannot see it.
"""

from .figure import Plot
from .places import levels, zone_pairs
from .ratios import forest, shift
from .rounds import drift, intervals, paired, rounds
from .tails import ecdf
from .throughput import roofline, share, streams

__all__ = [
    "Plot",
    "drift",
    "ecdf",
    "forest",
    "intervals",
    "levels",
    "paired",
    "roofline",
    "rounds",
    "share",
    "shift",
    "streams",
    "zone_pairs",
]
