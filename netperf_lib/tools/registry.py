"""All tools: those that the project runs, and readers that other packages declare.

A reader is an entry point in the group ``netperf_lib.readers``: a name, and the module that has the
members of `Reader`.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import entry_points
from operator import attrgetter

from ..errors import UsageError
from . import figures, iperf2, iperf3, ntttcp, qperf, sockperf
from .interface import Reader, Tool

TOOLS: dict[str, Tool] = {
    "iperf2": iperf2,
    "iperf3": iperf3,
    "qperf": qperf,
    "sockperf": sockperf,
}
"""Tools that the project runs and whose logs it reads."""


@cache
def readers() -> dict[str, Reader]:
    """Return all tools whose logs are read; what cannot be used is left out with a warning.

    Other packages' readers are imported here and not with this module, which they import.
    """
    found: dict[str, Reader] = {**TOOLS, "ntttcp": ntttcp, "figures": figures}
    for point in entry_points(group="netperf_lib.readers"):
        try:
            reader: Reader = point.load()
            attrgetter("MARKS", "find_runs", "read")(reader)
            if reader.NAME in found:
                raise ValueError(f"there is another reader called {reader.NAME}")
            found[reader.NAME] = reader
        except Exception as error:  # noqa: BLE001 - whatever the module of another package raises
            why = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"the reader {point.value} is left out: {why}", UserWarning, stacklevel=2
            )
    return found


def tool(name: str) -> Tool:
    """Return the tool called `name`, which the project runs.

    The UsageError lists the known ones.
    """
    if name not in TOOLS:
        raise UsageError(f"unknown tool {name!r} (known: {', '.join(TOOLS)})")
    return TOOLS[name]
