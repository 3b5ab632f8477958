"""From runs to verdicts: what the data support, what they do not, and the words for it.

`netperf_lib.ask` takes a factor and a metric; `ask_history` and `ask_windows` answer questions
that need more than that; `pages` lists the questions that an experiment can answer. The run is
the unit: seconds and packets within a run resemble each other, and are never the sample size.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import unknown

if TYPE_CHECKING:
    from ..metrics import rounds_required as rounds_required
    from .claims import proofs as proofs
    from .compare import compared_table as compared_table
    from .comparison import Comparison as Comparison
    from .comparison import Family as Family
    from .comparison import Verdict as Verdict
    from .contents import Page as Page
    from .contents import pages as pages
    from .details import Counts as Counts
    from .details import counts as counts
    from .details import network_cards as network_cards
    from .details import overview as overview
    from .details import places as places
    from .details import tail_metric as tail_metric
    from .history import ChangePoint as ChangePoint
    from .history import History as History
    from .history import ask_history as ask_history
    from .history import measurements as measurements
    from .judging import judge as judge
    from .lead import Lead as Lead
    from .lead import lead_paragraph as lead_paragraph
    from .lead import opening as opening
    from .limits import Held as Held
    from .limits import limits_table as limits_table
    from .limits import limits_words as limits_words
    from .limits import note as note
    from .median_ci import Level as Level
    from .median_ci import level as level
    from .pairs import ends_of as ends_of
    from .pairs import pairs_words as pairs_words
    from .power import InterimAnalysis as InterimAnalysis
    from .power import rounds_needed as rounds_needed
    from .power import until_decided as until_decided
    from .runs import headline_metrics as headline_metrics
    from .samples import Sample as Sample
    from .samples import compare_samples as compare_samples
    from .samples import judge_samples as judge_samples
    from .series import Changes as Changes
    from .series import LevelChange as LevelChange
    from .series import Trend as Trend
    from .series import changes as changes
    from .series import trend as trend
    from .streams import Windows as Windows
    from .streams import advertised_bps as advertised_bps
    from .streams import ask_windows as ask_windows
    from .streams import buffer_needed as buffer_needed
    from .streams import saturation as saturation
    from .tables import Table as Table
    from .words import Headline as Headline
    from .words import Words as Words
    from .words import contrasts as contrasts
    from .words import end as end
    from .words import metric_label as metric_label

# Imported when first used: the command line needs none of them to answer.
_HOMES = {
    "rounds_required": "..metrics",
    "Changes": ".series",
    "LevelChange": ".series",
    "Trend": ".series",
    "changes": ".series",
    "trend": ".series",
    "Comparison": ".comparison",
    "Family": ".comparison",
    "Verdict": ".comparison",
    "Level": ".median_ci",
    "level": ".median_ci",
    "InterimAnalysis": ".power",
    "rounds_needed": ".power",
    "until_decided": ".power",
    "Sample": ".samples",
    "compare_samples": ".samples",
    "judge_samples": ".samples",
    "buffer_needed": ".streams",
    "proofs": ".claims",
    "compared_table": ".compare",
    "Page": ".contents",
    "pages": ".contents",
    "Counts": ".details",
    "Windows": ".streams",
    "advertised_bps": ".streams",
    "ask_windows": ".streams",
    "counts": ".details",
    "network_cards": ".details",
    "overview": ".details",
    "places": ".details",
    "saturation": ".streams",
    "tail_metric": ".details",
    "ChangePoint": ".history",
    "History": ".history",
    "ask_history": ".history",
    "measurements": ".history",
    "judge": ".judging",
    "Lead": ".lead",
    "lead_paragraph": ".lead",
    "opening": ".lead",
    "Held": ".limits",
    "limits_table": ".limits",
    "limits_words": ".limits",
    "note": ".limits",
    "ends_of": ".pairs",
    "pairs_words": ".pairs",
    "headline_metrics": ".runs",
    "Table": ".tables",
    "Headline": ".words",
    "Words": ".words",
    "contrasts": ".words",
    "end": ".words",
    "metric_label": ".words",
}
__all__ = sorted(_HOMES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        others = ("netperf_lib.ask", "netperf_lib.levels", "netperf_lib.compare")
        raise unknown(__name__, name, [*__all__, *others])
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
