"""Registry of all tools. A new tool is a file or a folder of this package, and an entry here."""

from __future__ import annotations

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


def tool(name: str) -> Tool:
    """Return the tool called `name`, which the project runs; the UsageError lists the known ones."""
    if name not in TOOLS:
        raise UsageError(f"unknown tool {name!r} (known: {', '.join(TOOLS)})")
    return TOOLS[name]
