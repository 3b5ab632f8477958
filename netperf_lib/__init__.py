"""Measure the network between two VMs, and judge what makes a difference.

``import netperf_lib as npl; exp = npl.read("results/lab")``

Most work needs only the names listed here. Others are in `npl.stats` (arrays), `npl.plots`, `npl.questions`,
`npl.hosts` and `npl.workshop`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import lazy_loader

from .errors import typed, unknown

__version__ = "0.1.0"

# `__init__.pyi` says where each name is. It is imported when first used, so that the command line answers at once.
_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "workshop":  # it lies inside of another part
        return import_module(".reporting.workshop", __name__)
    if name in __all__:
        value = globals()[name] = typed(_attribute(name))
        return value
    raise unknown(__name__, name, __all__)
