"""From runs to verdicts: what the data support, what they do not, and the words for it.

`netperf_lib.ask` takes a factor and a metric; `ask_history` follows one over time; `pages` lists
the questions that an experiment can answer. The run is the unit: seconds and
packets within a run resemble each other, and are never the sample size.
"""

from ..metrics import rounds_required
from .compare import compared_table, contrasts
from .contents import pages, places, proofs, tail_metric
from .intervals import level
from .judging import until_decided
from .lead import lead_paragraph, opening
from .limits import limits_words
from .runs import headline_metrics
from .series import ask_history, changes, measurements
from .streams import saturation
from .verdicts import Comparison, Family, Verdict
from .words import Headline, Words, end, metric_label

__all__ = [
    "Comparison",
    "Family",
    "Headline",
    "Verdict",
    "Words",
    "ask_history",
    "changes",
    "compared_table",
    "contrasts",
    "end",
    "headline_metrics",
    "lead_paragraph",
    "level",
    "limits_words",
    "measurements",
    "metric_label",
    "opening",
    "pages",
    "places",
    "proofs",
    "rounds_required",
    "saturation",
    "tail_metric",
    "until_decided",
]


def __dir__() -> list[str]:
    return __all__
