"""What does the network between two VMs really give me?

``import netperf_lib as npl; runs = npl.load("results/lab")``
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import plots as plots
    from . import stats as stats
    from .doctor import doctor as doctor
    from .fleet import change_points as change_points
    from .fleet import latencies as latencies
    from .fleet import series as series
    from .fleet import trend as trend
    from .fleet import zone_matrix as zone_matrix
    from .histogram import Histogram as Histogram
    from .logs import load_published as load_published
    from .logs import parse as parse
    from .metrics import format_value as format_value
    from .pipeline import collect as collect
    from .pipeline import down as down
    from .pipeline import plan as plan
    from .pipeline import recorded as recorded
    from .pipeline import run as run
    from .pipeline import up as up
    from .report import report as report
    from .report.advice import contrasts as contrasts
    from .report.explore import explore as explore
    from .report.lessons import check as check
    from .report.lessons import workshop as workshop
    from .report.levels import label as label
    from .report.levels import levels as levels
    from .report.levels import measured as measured
    from .report.levels import metric_label as metric_label
    from .report.levels import select as select
    from .report.levels import shift as shift
    from .report.levels import shift_table as shift_table
    from .report.origin import counts as counts
    from .report.origin import cover as cover
    from .report.origin import end as end
    from .report.origin import proofs as proofs
    from .report.origin import provenance as provenance
    from .report.origin import require as require
    from .report.others import published_levels as published_levels
    from .report.show import answers as answers
    from .report.show import callout as callout
    from .report.show import cards as cards
    from .report.show import findings as findings
    from .report.show import headline as headline
    from .report.show import say as say
    from .report.show import table as table
    from .report.show import verdicts as verdicts
    from .stats import buffer_needed as buffer_needed
    from .stats import buffers as buffers
    from .stats import by_round as by_round
    from .stats import diagnose as diagnose
    from .stats import level as level
    from .stats import rounds_required as rounds_required
    from .stats import streams as streams
    from .stats import warmup as warmup
    from .stats.family import compare as compare
    from .store import Store as Store
    from .store import compact as compact
    from .store import experiments as experiments
    from .store import ingest as ingest
    from .store import load as load
    from .store import scan as scan
    from .synth import synth as synth
    from .verify import verify as verify

__version__ = "0.1.0"

# Where the names people type come from. They are imported when first used, so that the command line answers at once.
_HOME = {
    "Histogram": "histogram",
    "Store": "store",
    "answers": "report.show",
    "buffer_needed": "stats",
    "buffers": "stats",
    "by_round": "stats",
    "callout": "report.show",
    "cards": "report.show",
    "change_points": "fleet",
    "check": "report.lessons",
    "collect": "pipeline",
    "compact": "store",
    "compare": "stats.family",
    "contrasts": "report.advice",
    "counts": "report.origin",
    "cover": "report.origin",
    "diagnose": "stats",
    "doctor": "doctor",
    "down": "pipeline",
    "end": "report.origin",
    "experiments": "store",
    "explore": "report.explore",
    "findings": "report.show",
    "format_value": "metrics",
    "headline": "report.show",
    "ingest": "store",
    "label": "report.levels",
    "latencies": "fleet",
    "level": "stats",
    "levels": "report.levels",
    "load": "store",
    "load_published": "logs",
    "measured": "report.levels",
    "metric_label": "report.levels",
    "parse": "logs",
    "plan": "pipeline",
    "proofs": "report.origin",
    "provenance": "report.origin",
    "published_levels": "report.others",
    "recorded": "pipeline",
    "report": "report",
    "require": "report.origin",
    "rounds_required": "stats",
    "run": "pipeline",
    "say": "report.show",
    "scan": "store",
    "select": "report.levels",
    "series": "fleet",
    "shift": "report.levels",
    "shift_table": "report.levels",
    "streams": "stats",
    "synth": "synth",
    "table": "report.show",
    "trend": "fleet",
    "up": "pipeline",
    "verdicts": "report.show",
    "verify": "verify",
    "warmup": "stats",
    "workshop": "report.lessons",
    "zone_matrix": "fleet",
}
__all__ = sorted([*_HOME, "plots", "stats"])


def __getattr__(name: str) -> Any:
    if name in ("plots", "stats"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} (it offers {', '.join(__all__)})")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `npl.plan` the function when the module ``netperf_lib.plan`` is imported: they share their names."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
