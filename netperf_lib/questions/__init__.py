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
    from .details import interval_rows as interval_rows
    from .details import network_cards as network_cards
    from .details import overview as overview
    from .details import places as places
    from .details import saturation as saturation
    from .details import shift_table as shift_table
    from .details import spread_words as spread_words
    from .details import stability as stability
    from .details import stability_words as stability_words
    from .details import tail_metric as tail_metric
    from .details import tail_shift as tail_shift
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
    from .published_figures import published as published
    from .published_figures import published_beside as published_beside
    from .published_figures import published_levels as published_levels
    from .published_figures import published_metrics as published_metrics
    from .published_figures import published_table as published_table
    from .published_figures import published_words as published_words
    from .runs import headline_metrics as headline_metrics
    from .tables import Table as Table
    from .udp import datagrams as datagrams
    from .udp import datagrams_table as datagrams_table
    from .udp import datagrams_words as datagrams_words
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
    "interval_rows": ".details",
    "network_cards": ".details",
    "overview": ".details",
    "places": ".details",
    "saturation": ".details",
    "shift_table": ".details",
    "spread_words": ".details",
    "stability": ".details",
    "stability_words": ".details",
    "tail_metric": ".details",
    "tail_shift": ".details",
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
    "published": ".published_figures",
    "published_beside": ".published_figures",
    "published_levels": ".published_figures",
    "published_metrics": ".published_figures",
    "published_table": ".published_figures",
    "published_words": ".published_figures",
    "headline_metrics": ".runs",
    "Table": ".tables",
    "datagrams": ".udp",
    "datagrams_table": ".udp",
    "datagrams_words": ".udp",
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
