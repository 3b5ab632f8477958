"""Registry of all tools: those that the project runs, and the readers that this and other packages declare.

A reader is an entry point in the group ``netperf_lib.readers``: a name, and the module that has the members of
`Reader`.
"""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

from ..errors import UsageError
from . import figures, iperf2, iperf3, ntttcp, qperf, sockperf
from .interface import Reader, Tool

TOOLS: dict[str, Tool] = {"iperf2": iperf2, "iperf3": iperf3, "qperf": qperf, "sockperf": sockperf}
"""Tools that the project runs and whose logs it reads."""
READERS: dict[str, Reader] = {**TOOLS, "ntttcp": ntttcp, "figures": figures}
"""All tools whose logs are read."""
_OWN = "netperf_lib"


def _declared() -> dict[str, Reader]:
    """Return the readers that are entry points; one that cannot be used is left out with a warning."""
    readers: dict[str, Reader] = {}
    for point in entry_points(group="netperf_lib.readers"):
        if point.dist and point.dist.name == _OWN:
            continue  # an editable installation keeps what earlier releases declared
        try:
            reader: Reader = point.load()
            lacking = [
                name for name in ("NAME", "MARKS", "sightings", "read") if not hasattr(reader, name)
            ]
            error = f"it lacks {', '.join(lacking)}" if lacking else ""
            if not error and reader.NAME in READERS.keys() | readers.keys():
                error = f"there is another reader called {reader.NAME}"
        except Exception as e:  # noqa: BLE001 - whatever the module of another package raises
            error = f"{type(e).__name__}: {e}"
        if error:
            package = point.dist.name if point.dist else "of an unknown package"
            warnings.warn(
                f"the reader {point.value} ({package}) is left out: {error}",
                UserWarning,
                stacklevel=2,
            )
        else:
            readers[reader.NAME] = reader
    return readers


READERS |= _declared()


def tool(name: str) -> Tool:
    """Return the tool called `name`, which the project runs; the UsageError lists the known ones."""
    if name not in TOOLS:
        raise UsageError(f"unknown tool {name!r} (known: {', '.join(TOOLS)})")
    return TOOLS[name]
