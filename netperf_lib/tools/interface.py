"""What a tool offers: every tool reads what it printed, some are run as well.

A tool is a module (a file or a folder of this package) that has the members of `Reader`, and those of `Tool` where the
project runs it. `registry` lists them all; the type checker compares each module with its protocol there.
"""

# ruff: noqa: N802 - properties stand for the constants of modules, which may be narrower than what is said here

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from .options import Option
from .parsed import ParsedRun

if TYPE_CHECKING:
    from ..experiment.model import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Argument lists of one trial: nothing here ever passes through a shell unquoted."""

    client: tuple[str, ...]
    server: tuple[str, ...] | None
    listens: tuple[tuple[str, int], ...] = ()
    """What shows that the server is ready: (``"tcp"`` or ``"udp"``, port) that it listens on."""
    timeout_s: float
    """The client is hung when it takes longer than this."""
    server_ends: bool = False
    """The server ends by itself after its client: it is given the time to print its side."""


class Reader(Protocol):
    """Reads the logs of one tool."""

    @property
    def NAME(self) -> str:
        """The tool's name in every table."""

    @property
    def MARKS(self) -> tuple[str, ...]:
        """A text without any of these strings holds no run of this tool; they spare the search by pattern."""

    def sightings(self, text: str) -> Iterator[int]:
        """Offsets in `text` where a run of this tool starts (the first line that belongs to it)."""

    def read(self, text: str) -> list[ParsedRun]:
        """Read one run, or several that one program printed.

        `text` is cleaned and reaches from one sighting to the next one of any tool, so noise may follow the run.
        `ParsedRun.line` counts from the first line of `text`. The list is empty when this is no run of the tool after
        all. Damaged text never raises: the run says `partial` or `failed`, and the reason.
        """


class Tool(Reader, Protocol):
    """A tool that the project runs, too."""

    @property
    def PACKAGE(self) -> str:
        """The Debian package."""

    @property
    def VERSION(self) -> tuple[str, ...]:
        """The command that prints the version."""

    @property
    def TESTS(self) -> tuple[str, ...]:
        """Names of the tests."""

    @property
    def LOAD_TESTS(self) -> tuple[str, ...]:
        """Those that can be the load under which another test measures."""

    @property
    def OPTIONS(self) -> tuple[Option, ...]:
        """What `TestSpec.options` may hold."""

    def commands(self, trial: Trial, server_address: str, port: int) -> Commands:
        """Argument lists of both ends for one trial; UsageError where the tool does not offer what it asks for."""

    def rate_bps(self, trial: Trial) -> float:
        """Bits per second that a trial sends, both directions together, all streams; its `during` load not counted.

        `math.inf` where it sends as fast as the path allows, 0 where it waits for each answer (a latency test).
        """
