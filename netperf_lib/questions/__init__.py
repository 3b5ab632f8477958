"""Questions about the table of runs and the words of their answers, shared by notebooks and the command line.

`netperf_lib.ask` takes a factor and a metric; `ask_history` and `ask_windows` answer questions that need more than
that; `pages` lists the questions that an experiment can answer.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..errors import unknown

if TYPE_CHECKING:
    from .claims import *  # noqa: F403
    from .contents import *  # noqa: F403
    from .details import *  # noqa: F403
    from .history import *  # noqa: F403
    from .judging import judge as judge
    from .lead import Lead as Lead
    from .lead import lead_paragraph as lead_paragraph
    from .lead import opening as opening
    from .limits import limits_table as limits_table
    from .limits import limits_words as limits_words
    from .limits import note as note
    from .pairs import *  # noqa: F403
    from .published_figures import *  # noqa: F403
    from .runs import *  # noqa: F403
    from .tables import Table as Table
    from .udp import *  # noqa: F403
    from .words import *  # noqa: F403

_MODULES = (
    "judging",
    "lead",
    "contents",
    "pairs",
    "history",
    "udp",
    "details",
    "runs",
    "limits",
    "claims",
    "published_figures",
    "words",
    "tables",
)


def __getattr__(name: str) -> Any:
    # imported when first used: the command line needs none of them to answer
    if not name.startswith("_"):
        for module in _MODULES:
            part = importlib.import_module(f".{module}", __name__)
            if name in _public(part):
                return getattr(part, name)
    raise unknown(__name__, name, [*__dir__(), "netperf_lib.ask", "netperf_lib.levels", "netperf_lib.compare"])


def __dir__() -> list[str]:
    return sorted({n for module in _MODULES for n in _public(importlib.import_module(f".{module}", __name__))})


def _public(part: Any) -> list[str]:
    """The names that a module offers: by default its own, not what it imports."""
    own = [n for n, v in vars(part).items() if n[0] != "_" and getattr(v, "__module__", "") == part.__name__]
    return list(getattr(part, "__all__", own))
