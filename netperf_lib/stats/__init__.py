"""What the data support, and what they do not.

The run is the unit: seconds and packets within a run are autocorrelated, and are never the sample size. Everything
here is pure: arrays or tables in, frozen results out, each with its words, interval and the confidence it really has.
"""

from .contrast import Comparison, compare
from .deployments import placement
from .diagnostics import Diagnosis, diagnose
from .family import Family
from .judge import rounds_required
from .levels import Level, level
from .planning import RoundsNeeded, StopDecision, rounds_needed, stop_rule
from .quantiles import Quantiles, percentiles, shift, tails
from .scaling import Streams, streams
from .sizing import BufferAdvice, Ceiling, buffer_needed, mathis
from .steady import Warmup, steady, warmup
from .table import by_round
from .windows import Buffers, buffers

__all__ = [
    "BufferAdvice",
    "Buffers",
    "Ceiling",
    "Comparison",
    "Diagnosis",
    "Family",
    "Level",
    "Quantiles",
    "RoundsNeeded",
    "StopDecision",
    "Streams",
    "Warmup",
    "buffer_needed",
    "buffers",
    "by_round",
    "compare",
    "diagnose",
    "level",
    "mathis",
    "percentiles",
    "placement",
    "rounds_needed",
    "rounds_required",
    "shift",
    "steady",
    "stop_rule",
    "streams",
    "tails",
    "warmup",
]
