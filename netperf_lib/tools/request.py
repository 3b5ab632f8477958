"""What a tool is asked to run: the one thing that it knows of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One test of one tool, at one level of every factor."""

    tool: str
    test: str
    duration_s: float
    omit_s: float = 0
    """Seconds at the start that the tool itself leaves out."""
    streams: int = 1
    tcp_buffer_bytes: int | None = None
    """Size of the TCP buffers to ask for; None: those of the hosts."""
    message_bytes: int | None = None
    """Size of a message; None: chosen by the tool."""
    loaded: bool = False
    """Another tool fills the path meanwhile."""
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Further options, as the tool declares them."""
