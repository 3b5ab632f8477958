"""What does the network between two VMs really give me?"""

from typing import Any

from .errors import NetperfError
from .model import Contrast, Deployment, Experiment, Host, ParsedRun
from .report import report
from .report.advice import contrasts
from .report.levels import levels, measured, select
from .report.origin import cover, provenance, require
from .report.show import callout, cards, findings, headline, say, table, verdicts
from .stats.family import Family, compare
from .store import Store, ingest, load

__all__ = [
    "Contrast",
    "Deployment",
    "Experiment",
    "Family",
    "Host",
    "NetperfError",
    "ParsedRun",
    "Store",
    "callout",
    "cards",
    "compare",
    "contrasts",
    "cover",
    "findings",
    "headline",
    "ingest",
    "levels",
    "load",
    "measured",
    "plots",
    "provenance",
    "report",
    "require",
    "say",
    "select",
    "table",
    "verdicts",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "plots":  # matplotlib takes a second to import: only where something is drawn
        import importlib

        return importlib.import_module(".plots", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
