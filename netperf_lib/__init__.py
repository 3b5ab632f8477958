"""What does the network between two VMs really give me?

``import netperf_lib as npl; runs = npl.load("results/lab")``
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .doctor import doctor as doctor
    from .logs import parse as parse
    from .pipeline import collect as collect
    from .pipeline import down as down
    from .pipeline import plan as plan
    from .pipeline import run as run
    from .pipeline import up as up
    from .report import report as report
    from .stats import compare as compare
    from .store import Store as Store
    from .store import ingest as ingest
    from .store import load as load

__version__ = "0.1.0"

# Where the names people type come from. They are imported when first used, so that the command line answers at once.
_HOME = {
    "Store": "store",
    "collect": "pipeline",
    "compare": "stats",
    "doctor": "doctor",
    "down": "pipeline",
    "ingest": "store",
    "load": "store",
    "parse": "logs",
    "plan": "pipeline",
    "report": "report",
    "run": "pipeline",
    "up": "pipeline",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
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
