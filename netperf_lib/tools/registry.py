"""Registry of all tools: those of this package, and readers that other packages install.

A new tool is a file or a folder of this package and an entry here, or an entry point of any package in the group
``netperf_lib.readers``: a name, and the module that has the members of `Reader`.
"""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

from ..errors import UsageError
from . import iperf2, iperf3, lagscope, latte, netperf, ntttcp, qperf, sockperf, uperf
from .interface import Reader, Tool
from .peers import PEERS

TOOLS: dict[str, Tool] = {"iperf2": iperf2, "iperf3": iperf3, "qperf": qperf, "sockperf": sockperf}
"""Tools that the project runs and whose logs it reads."""
READERS: dict[str, Reader] = {
    **TOOLS,
    "lagscope": lagscope,
    "latte": latte,
    "netperf": netperf,
    "ntttcp": ntttcp,
    "uperf": uperf,
    **PEERS,
}
"""All tools whose logs are read."""


def _installed() -> dict[str, Reader]:
    """Return the readers of other packages; one that cannot be used is left out with a warning."""
    readers: dict[str, Reader] = {}
    for point in entry_points(group="netperf_lib.readers"):
        try:
            reader: Reader = point.load()
            lacking = [name for name in ("NAME", "MARKS", "sightings", "read") if not hasattr(reader, name)]
            error = f"it lacks {', '.join(lacking)}" if lacking else ""
            if not error and reader.NAME in READERS.keys() | readers.keys():
                error = f"there is another reader called {reader.NAME}"
        except Exception as e:  # noqa: BLE001 - whatever the module of another package raises
            error = f"{type(e).__name__}: {e}"
        if error:
            package = point.dist.name if point.dist else "of an unknown package"
            warnings.warn(f"the reader {point.value} ({package}) is left out: {error}", UserWarning, stacklevel=2)
        else:
            readers[reader.NAME] = reader
    return readers


READERS |= _installed()


def tool(name: str) -> Tool:
    """Return the tool called `name`, which the project runs; the UsageError lists the known ones."""
    if name not in TOOLS:
        raise UsageError(f"unknown tool {name!r} (known: {', '.join(TOOLS)})")
    return TOOLS[name]
