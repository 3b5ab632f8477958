"""One file a tool: what to run, beside how to read what it prints.

A tool is a module in this folder (one whose name has no leading underscore); there is no list to keep. It offers

``NAME``
    The tool's name in every table.
``sightings(text) -> Iterator[int]``
    Offsets in `text` where a run of this tool starts (the first line that belongs to it). Cheap: called on every text.
``read(text) -> list[ParsedRun]``
    Read one run (rarely several: a JSON stream of a server): `text` is cleaned and reaches from one sighting to the
    next one of any tool. Never raises for damaged text: says `partial` or `failed` with the reason.

and, where the project can run it,

``PACKAGE``, ``VERSION``
    The Debian package, and the argument list that prints the version.
``TESTS``
    Names of the tests it offers, for error messages and for the schema.
``commands(trial, server_address, port) -> Commands``
    Argument lists of both ends for one trial.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from ..errors import UsageError

__all__ = ["Commands", "tool", "tools"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Argument lists of one trial: nothing here ever passes through a shell unquoted."""

    client: tuple[str, ...]
    server: tuple[str, ...] | None
    listens: tuple[tuple[str, int], ...] = ()
    """What shows that the server is ready: (``"tcp"`` or ``"udp"``, port) that it listens on."""
    timeout_s: float
    """The client is hung when it takes longer than this."""


@cache
def tools() -> dict[str, ModuleType]:
    """Every tool of this folder, by name."""
    found: dict[str, ModuleType] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{info.name}")
            found[module.NAME] = module
    return found


def tool(name: str) -> ModuleType:
    """Return the tool called `name`.

    Raises
    ------
    UsageError
        Unknown; the text names those known.
    """
    try:
        return tools()[name]
    except KeyError:
        raise UsageError(f"unknown tool {name!r} (known: {', '.join(tools())})") from None
