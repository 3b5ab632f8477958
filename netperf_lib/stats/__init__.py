"""What the data support, and what they do not: levels, contrasts, families of contrasts."""

from .contrast import Comparison, compare, rounds_required
from .family import Family
from .levels import Level, level

__all__ = ["Comparison", "Family", "Level", "compare", "level", "rounds_required"]
