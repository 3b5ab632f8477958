"""What does the network between two VMs really give me?

``import netperf_lib as npl; runs = npl.load("results/lab")``
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import plots as plots
    from . import questions as questions
    from . import stats as stats
    from .data.histogram import Histogram as Histogram
    from .data.imports import import_logs as import_logs
    from .data.ingest import ingest as ingest
    from .data.layout import Store as Store
    from .data.layout import experiments as experiments
    from .data.load import load as load
    from .data.load import read as read
    from .data.load import scan as scan
    from .data.logs import load_published as load_published
    from .data.logs import parse as parse
    from .data.logs import parse_text as parse_text
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
    from .questions.before_after import compare as compare
    from .questions.conditions import counts as counts
    from .questions.conditions import end as end
    from .questions.conditions import label as label
    from .questions.conditions import levels as levels
    from .questions.conditions import metric_label as metric_label
    from .questions.conditions import require as require
    from .questions.conditions import select as select
    from .questions.conditions import shift as shift
    from .questions.conditions import shift_table as shift_table
    from .questions.details import ask_windows as ask_windows
    from .questions.export import export as export
    from .questions.fleet import change_points as change_points
    from .questions.fleet import latencies as latencies
    from .questions.fleet import series as series
    from .questions.fleet import trend as trend
    from .questions.fleet import zone_matrix as zone_matrix
    from .questions.history import ask_history as ask_history
    from .questions.pairs import ask_pairs as ask_pairs
    from .questions.question import ask as ask
    from .questions.question import headline_metrics as headline_metrics
    from .questions.words import contrasts as contrasts
    from .questions.words import headline as headline
    from .reporting import page as page
    from .reporting import report as report
    from .reporting import workshop as workshop
    from .reporting.panel import explore as explore
    from .stats import buffer_needed as buffer_needed
    from .stats import buffers as buffers
    from .stats import by_round as by_round
    from .stats import diagnose as diagnose
    from .stats import level as level
    from .stats import rounds_required as rounds_required
    from .stats import streams as streams
    from .stats import warmup as warmup

__version__ = "0.1.0"

# Where the names people type come from. They are imported when first used, so that the command line answers at once.
_HOME = {
    "Histogram": "data.histogram",
    "Store": "data.layout",
    "ask": "questions.question",
    "ask_history": "questions.history",
    "ask_pairs": "questions.pairs",
    "ask_windows": "questions.details",
    "buffer_needed": "stats",
    "buffers": "stats",
    "by_round": "stats",
    "change_points": "questions.fleet",
    "collect": "pipeline",
    "compare": "questions.before_after",
    "contrasts": "questions.words",
    "counts": "questions.conditions",
    "diagnose": "stats",
    "doctor": "hosts.prerequisites",
    "down": "pipeline",
    "end": "questions.conditions",
    "experiments": "data.layout",
    "export": "questions.export",
    "explore": "reporting.panel",
    "format_value": "metrics",
    "headline": "questions.words",
    "import_logs": "data.imports",
    "headline_metrics": "questions.question",
    "ingest": "data.ingest",
    "label": "questions.conditions",
    "latencies": "questions.fleet",
    "level": "stats",
    "levels": "questions.conditions",
    "load": "data.load",
    "load_published": "data.logs",
    "metric_label": "questions.conditions",
    "parse": "data.logs",
    "parse_text": "data.logs",
    "plan": "pipeline",
    "read": "data.load",
    "recorded": "pipeline",
    "report": "reporting",
    "require": "questions.conditions",
    "rounds_required": "stats",
    "run": "pipeline",
    "scan": "data.load",
    "select": "questions.conditions",
    "series": "questions.fleet",
    "shift": "questions.conditions",
    "shift_table": "questions.conditions",
    "streams": "stats",
    "synth": "data.synth",
    "trend": "questions.fleet",
    "up": "pipeline",
    "verify": "data.verify",
    "warmup": "stats",
    "zone_matrix": "questions.fleet",
}
_PARTS = {
    "page": "reporting.page",
    "plots": "plots",
    "questions": "questions",
    "stats": "stats",
}
__all__ = sorted([*_HOME, *_PARTS])


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(f".{_PARTS[name]}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} (it offers {', '.join(__all__)})")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
