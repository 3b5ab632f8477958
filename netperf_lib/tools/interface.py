"""The interface of a tool: every tool has a reader of its output, and some can be run as well.

A tool is a module (a file or a folder of this package) that has the members of `Reader`, and those
of `Tool` if the project runs it. `registry` lists all tools; there, the type checker compares each
module with its protocol.
"""

# ruff: noqa: N802 - properties stand for constants of a module, whose types may be narrower

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from .options import Option
from .parsed import ParsedRun
from .request import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Argument lists of one request; they never pass through a shell unquoted."""

    client: tuple[str, ...]
    server: tuple[str, ...] | None
    listens: tuple[tuple[str, int], ...] = ()
    """The server is ready when it listens on these: (``"tcp"`` or ``"udp"``, port)."""
    timeout_s: float
    """A client that takes longer than this hangs."""
    server_ends: bool = False
    """The server ends by itself after its client, and is given time to print its results."""


class Reader(Protocol):
    """Reads the logs of one tool."""

    NAME: str
    """The tool's name in every table."""

    @property
    def MARKS(self) -> tuple[str, ...]:
        """A text without any of these strings contains no run of this tool.

        This saves the search by pattern.
        """

    # A reader may also have `STATES_CONDITIONS = True`: the parameters of its runs are then
    # conditions that somebody chose, which an import keeps as labels.

    def find_runs(self, text: str) -> Iterable[int]:
        """Yield the offsets in `text` of the first line of each run of this tool."""

    def read(self, text: str) -> list[ParsedRun]:
        """Read one run, or several that one program printed.

        `text` is cleaned and reaches to where the next run of any tool begins, so noise may
        follow the run. `ParsedRun.line` counts from the first line of `text`. The list is empty if
        this turns out not to be a run of the tool. Damaged text never raises an exception: the run
        is `partial` or `failed`, with the reason.
        """


class Tool(Reader, Protocol):
    """A tool that the project also runs."""

    PACKAGE: str
    """The Debian package."""

    VERSION: tuple[str, str]
    """The command that prints the version."""

    @property
    def TESTS(self) -> tuple[str, ...]:
        """Names of the tests."""

    @property
    def LOAD_TESTS(self) -> tuple[str, ...]:
        """Names of the tests that can be the load for another test."""

    @property
    def OPTIONS(self) -> tuple[Option, ...]:
        """The options that `Request.options` may contain."""

    def commands(self, request: Request, server_address: str, port: int) -> Commands:
        """Return the argument lists of both ends.

        UsageError if the tool does not support the request.
        """

    def rate_bps(self, request: Request) -> float:
        """Return the bits per second that a request sends, in both directions and all streams.

        `math.inf` if it sends as fast as the path allows, 0 if it waits for each answer (a latency
        test).
        """
