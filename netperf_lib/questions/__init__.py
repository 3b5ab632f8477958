"""Questions about the table of runs and the words of their answers, shared by notebooks and the command line.

`netperf_lib.ask` takes a factor and a metric; `ask_history` and `ask_windows` answer questions that need more than
that; `pages` lists the questions that an experiment can answer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import unknown

if TYPE_CHECKING:
    from .claims import proofs as proofs
    from .compare import compared_table as compared_table
    from .contents import Page as Page
    from .contents import pages as pages
    from .details import Counts as Counts
    from .details import Windows as Windows
    from .details import advertised_bps as advertised_bps
    from .details import ask_windows as ask_windows
    from .details import counts as counts
    from .details import network_cards as network_cards
    from .details import overview as overview
    from .details import places as places
    from .details import saturation as saturation
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
    from .pairs import ends_of as ends_of
    from .pairs import pairs_words as pairs_words
    from .runs import headline_metrics as headline_metrics
    from .tables import Table as Table
    from .words import Headline as Headline
    from .words import Words as Words
    from .words import contrasts as contrasts
    from .words import end as end
    from .words import metric_label as metric_label

# Imported when first used: the command line needs none of them to answer.
_HOMES = {
    "proofs": ".claims",
    "compared_table": ".compare",
    "Page": ".contents",
    "pages": ".contents",
    "Counts": ".details",
    "Windows": ".details",
    "advertised_bps": ".details",
    "ask_windows": ".details",
    "counts": ".details",
    "network_cards": ".details",
    "overview": ".details",
    "places": ".details",
    "saturation": ".details",
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
