"""Options of tests. A tool declares each once, for checks, command line and documentation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import UsageError
from ..quantities import read_quantity

if TYPE_CHECKING:
    from .request import Request


def bits_per_second(rate: str | float) -> float:
    """Read a rate: ``2.5G`` is 2 500 000 000 bit/s."""
    try:
        return read_quantity(rate, "bps")
    except ValueError as error:
        raise UsageError(str(error)) from None


def _is_rate(value: Any) -> bool:
    with suppress(ValueError, TypeError):
        return type(value) is not bool and 0 <= read_quantity(value, "bps") < math.inf
    return False


_LEGAL = {
    "rate": "a rate in bits per second, such as 1000000, 2.5G or 900 Mbit/s",
    "messages": "a whole number of messages a second, or max",
    "word": "a word without spaces",
    bool: "true or false",
    int: "a whole number, zero or above",
    float: "a number, zero or above",
}
_WORDS = {"messages": r"max|[1-9][0-9]*", "word": r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a tool's tests."""

    name: str
    type: type[bool | int | float] | Literal["rate", "messages", "word"] | tuple[str, ...]
    """A type; ``"rate"``: bits per second, as a number or with K, M, G, T; ``"messages"``: a number
    a second, or max; ``"word"``: any; or the allowed words."""
    help: str
    flag: str | None = None
    """The tool's own flag, if the value is passed on."""
    default: str | int | float | bool | None = None
    """The value if the option is not given; None: the tool chooses."""
    unit: str | None = None
    tests: tuple[str, ...] = ()
    """The tests that take it; empty: all."""

    def problem(self, value: Any) -> str | None:
        """Say what a value must be; None if the value is allowed."""
        kind = self.type
        if isinstance(kind, tuple):
            if value in kind:
                return None
            return f"one of {', '.join(kind)}"
        if kind == "rate":
            right = _is_rate(value)
        elif isinstance(kind, str):
            right = value is not True and bool(re.fullmatch(_WORDS[kind], str(value)))
        else:
            right = type(value) in (kind, int if kind is float else kind) and value >= 0
        return None if right else _LEGAL[kind]


def checked(
    request: Request, tests: Sequence[str], declared: Iterable[Option]
) -> dict[str, Any]:
    """Return the options of a test; UsageError if its tool has no such test or option."""
    if request.test not in tests:
        raise UsageError(
            f"{request.tool} has no test {request.test!r} (known: {', '.join(tests)})"
        )
    options = {o.name: o for o in declared if not o.tests or request.test in o.tests}
    for name, value in request.options.items():
        if name not in options:
            raise UsageError(
                f"{request.tool} {request.test} has no option {name!r} "
                f"(known: {', '.join(options) or 'none'})"
            )
        if legal := options[name].problem(value):
            raise UsageError(
                f"option {name!r} of {request.tool} is {value!r}; it must be {legal}"
            )
    return dict(request.options)


def check_unloaded(request: Request, remedy: str) -> None:
    """Refuse a load beside a test that waits for the answer to each datagram.

    Such a test waits until its end for the answer to one that is lost, and a load that fills a path
    loses some.
    """
    if request.loaded:
        raise UsageError(
            f"{request.tool} {request.test} over UDP stops at the first datagram that is lost, "
            f"and a load loses some: {remedy}"
        )


def arguments(declared: Iterable[Option], values: Mapping[str, Any]) -> list[str]:
    """Return the tool's own flags for the options that have `values`, in the order declared."""
    words: list[str] = []
    for option in declared:
        value = values.get(option.name)
        if option.flag is None or value is None or value is False:
            continue
        if option.type == "rate":
            value = f"{bits_per_second(value):.0f}"
        words += [option.flag] if value is True else [option.flag, str(value)]
    return words


def levels(
    request: Request, *, streams: str = "", buffer: str = "", message: str = ""
) -> list[str]:
    """Return the tool's arguments for the levels of a request, with the given flags."""
    given: dict[str, int | None] = {}
    if request.streams > 1:
        given[streams] = request.streams
    given |= {buffer: request.tcp_buffer_bytes, message: request.message_bytes}
    words: list[str] = []
    for flag, level in given.items():
        if flag and level is not None:
            words += [flag, str(level)]
    return words
