"""What does the network between two VMs really give me?

``import netperf_lib as npl; runs = npl.load("results/lab")``
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import plots as plots
    from . import stats as stats
    from .data.histogram import Histogram as Histogram
    from .data.logs import load_published as load_published
    from .data.logs import parse as parse
    from .data.store import Store as Store
    from .data.store import compact as compact
    from .data.store import experiments as experiments
    from .data.store import ingest as ingest
    from .data.store import load as load
    from .data.store import scan as scan
    from .data.synth import synth as synth
    from .data.verify import verify as verify
    from .hosts.prerequisites import doctor as doctor
    from .metrics import format_value as format_value
    from .pipeline import collect as collect
    from .pipeline import down as down
    from .pipeline import plan as plan
    from .pipeline import recorded as recorded
    from .pipeline import run as run
    from .pipeline import up as up
    from .questions.fleet import change_points as change_points
    from .questions.fleet import latencies as latencies
    from .questions.fleet import series as series
    from .questions.fleet import trend as trend
    from .questions.fleet import zone_matrix as zone_matrix
    from .reporting import report as report
    from .reporting.advice import contrasts as contrasts
    from .reporting.explore import explore as explore
    from .reporting.lessons import check as check
    from .reporting.lessons import workshop as workshop
    from .reporting.levels import label as label
    from .reporting.levels import levels as levels
    from .reporting.levels import measured as measured
    from .reporting.levels import metric_label as metric_label
    from .reporting.levels import select as select
    from .reporting.levels import shift as shift
    from .reporting.levels import shift_table as shift_table
    from .reporting.origin import counts as counts
    from .reporting.origin import cover as cover
    from .reporting.origin import end as end
    from .reporting.origin import proofs as proofs
    from .reporting.origin import provenance as provenance
    from .reporting.origin import require as require
    from .reporting.others import published_levels as published_levels
    from .reporting.show import answers as answers
    from .reporting.show import callout as callout
    from .reporting.show import cards as cards
    from .reporting.show import findings as findings
    from .reporting.show import headline as headline
    from .reporting.show import say as say
    from .reporting.show import table as table
    from .reporting.show import verdicts as verdicts
    from .stats import buffer_needed as buffer_needed
    from .stats import buffers as buffers
    from .stats import by_round as by_round
    from .stats import diagnose as diagnose
    from .stats import level as level
    from .stats import rounds_required as rounds_required
    from .stats import streams as streams
    from .stats import warmup as warmup
    from .stats.family import compare as compare

__version__ = "0.1.0"

# Where the names people type come from. They are imported when first used, so that the command line answers at once.
_HOME = {
    "Histogram": "data.histogram",
    "Store": "data.store",
    "answers": "reporting.show",
    "buffer_needed": "stats",
    "buffers": "stats",
    "by_round": "stats",
    "callout": "reporting.show",
    "cards": "reporting.show",
    "change_points": "questions.fleet",
    "check": "reporting.lessons",
    "collect": "pipeline",
    "compact": "data.store",
    "compare": "stats.family",
    "contrasts": "reporting.advice",
    "counts": "reporting.origin",
    "cover": "reporting.origin",
    "diagnose": "stats",
    "doctor": "hosts.prerequisites",
    "down": "pipeline",
    "end": "reporting.origin",
    "experiments": "data.store",
    "explore": "reporting.explore",
    "findings": "reporting.show",
    "format_value": "metrics",
    "headline": "reporting.show",
    "ingest": "data.store",
    "label": "reporting.levels",
    "latencies": "questions.fleet",
    "level": "stats",
    "levels": "reporting.levels",
    "load": "data.store",
    "load_published": "data.logs",
    "measured": "reporting.levels",
    "metric_label": "reporting.levels",
    "parse": "data.logs",
    "plan": "pipeline",
    "proofs": "reporting.origin",
    "provenance": "reporting.origin",
    "published_levels": "reporting.others",
    "recorded": "pipeline",
    "report": "reporting",
    "require": "reporting.origin",
    "rounds_required": "stats",
    "run": "pipeline",
    "say": "reporting.show",
    "scan": "data.store",
    "select": "reporting.levels",
    "series": "questions.fleet",
    "shift": "reporting.levels",
    "shift_table": "reporting.levels",
    "streams": "stats",
    "synth": "data.synth",
    "table": "reporting.show",
    "trend": "questions.fleet",
    "up": "pipeline",
    "verdicts": "reporting.show",
    "verify": "data.verify",
    "warmup": "stats",
    "workshop": "reporting.lessons",
    "zone_matrix": "questions.fleet",
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
