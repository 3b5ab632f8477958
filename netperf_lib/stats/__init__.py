"""Statistics: what the data support, and what they do not.

The run is the unit: seconds and packets within a run are autocorrelated, and are never the sample size. All functions
are pure: they take arrays and return frozen results, with words, an interval and its actual confidence.
"""

from typing import NoReturn

from ..errors import unknown
from ..metrics import rounds_required
from .changes import Changes, LevelChange, Trend, changes, trend
from .comparison import Comparison, Family, Verdict
from .median_ci import Level, level
from .power import InterimAnalysis, rounds_needed, until_decided
from .samples import Sample, compare_samples, judge_samples
from .scaling import Streams, streams
from .tcp_window import BufferAdvice, Buffers, buffer_needed, buffers

__all__ = [
    "BufferAdvice",
    "Buffers",
    "Changes",
    "Comparison",
    "Family",
    "InterimAnalysis",
    "Level",
    "LevelChange",
    "Sample",
    "Streams",
    "Trend",
    "Verdict",
    "buffer_needed",
    "buffers",
    "changes",
    "compare_samples",
    "judge_samples",
    "level",
    "rounds_needed",
    "rounds_required",
    "streams",
    "trend",
    "until_decided",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> NoReturn:
    raise unknown(__name__, name, [*__all__, "netperf_lib.questions.judge"])
