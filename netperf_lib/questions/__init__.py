"""Questions about the table of runs and the words of their answers, shared by notebooks and the command line.

`netperf_lib.ask` takes a factor and a metric; `ask_history` and `ask_windows` answer questions that need more than
that; `pages` lists the questions that an experiment can answer.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

from ..errors import typed, unknown

# `__init__.pyi` says where each name is. It is imported when first used: the command line needs none of them to answer.
_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__:
        value = globals()[name] = typed(_attribute(name))
        return value
    raise unknown(
        __name__, name, [*__all__, "netperf_lib.ask", "netperf_lib.levels", "netperf_lib.compare"]
    )
