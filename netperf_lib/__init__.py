"""Measure the network between two VMs, and judge what makes a difference.

``import netperf_lib as npl; exp = npl.read("results/lab")``

Most work needs only the names listed here. Others are in `npl.analysis`, `npl.plots`,
`npl.hosts` and `npl.workshop`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import did_you_mean

if TYPE_CHECKING:
    from . import analysis as analysis
    from . import hosts as hosts
    from . import plots as plots
    from .analysis.compare import compare as compare
    from .analysis.judging import judge as judge
    from .analysis.limits import limits as limits
    from .analysis.observe import levels as levels
    from .analysis.observe import observe as observe
    from .data.door import read as read
    from .data.imports import import_logs as import_logs
    from .data.ingest import ingest as ingest
    from .data.layout import experiments as experiments
    from .data.load import load as load
    from .data.logs import parse as parse
    from .data.logs import parse_text as parse_text
    from .data.shipped import recorded as recorded
    from .hosts.prerequisites import doctor as doctor
    from .pipeline import collect as collect
    from .pipeline import down as down
    from .pipeline import plan as plan
    from .pipeline import run as run
    from .pipeline import up as up
    from .reporting import report as report
    from .reporting import workshop as workshop
    from .reporting.answer import ask as ask
    from .reporting.explorer import explore as explore
    from .reporting.summary import summary as summary

__version__ = "0.1.0"

# Imported when first used, so that the command line answers at once.
_PARTS = {
    "hosts": ".hosts",
    "plots": ".plots",
    "analysis": ".analysis",
    "workshop": ".reporting.workshop",
}
_HOMES = {
    "import_logs": ".data.imports",
    "ingest": ".data.ingest",
    "experiments": ".data.layout",
    "load": ".data.load",
    "read": ".data.door",
    "parse": ".data.logs",
    "parse_text": ".data.logs",
    "recorded": ".data.shipped",
    "doctor": ".hosts.prerequisites",
    "collect": ".pipeline",
    "down": ".pipeline",
    "plan": ".pipeline",
    "run": ".pipeline",
    "up": ".pipeline",
    "compare": ".analysis.compare",
    "limits": ".analysis.limits",
    "levels": ".analysis.observe",
    "observe": ".analysis.observe",
    "report": ".reporting",
    "ask": ".reporting.answer",
    "explore": ".reporting.explorer",
    "summary": ".reporting.summary",
    "judge": ".analysis.judging",
}
__all__ = sorted([*_PARTS, *_HOMES])


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    value: Any
    if name in _PARTS:
        value = import_module(_PARTS[name], __name__)
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name], __name__), name)
    else:
        hint = did_you_mean(name, __all__, count=3, cutoff=0.5).rstrip()
        hint = hint or f"it offers {', '.join(__all__)}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {hint}")
    globals()[name] = value
    return value
