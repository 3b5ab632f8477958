"""Options of tests. A tool declares each once, for checks, command line and documentation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..errors import UsageError
from ..quantities import read_quantity

if TYPE_CHECKING:
    from .request import Request

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTkmgt]?)(?:/[0-9]+)?")
_FORMS = {
    "rate": (_RATE, "a rate in bits per second, such as 1000000, 2.5G or 900 Mbit/s"),
    "messages": (re.compile("max|[1-9][0-9]*"), "a whole number of messages a second, or max"),
    "word": (re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"), "a word without spaces"),
}
"""What the values of a type look like, and how an error says that."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a tool's tests."""

    name: str
    type: type[bool | int | float] | Literal["rate", "messages", "word"] | tuple[str, ...]
    """A type; ``"rate"``: bits per second, as a number or with K, M, G, T; ``"messages"``: a number a second, or max;
    ``"word"``: any; or the allowed words."""
    help: str
    flag: str | None = None
    """The tool's own flag, if the value is passed on unchanged."""
    default: str | int | float | bool | None = None
    """The value if the option is not given; None: the tool chooses."""
    unit: str | None = None
    tests: tuple[str, ...] = ()
    """The tests that take it; empty: all."""

    def problem(self, value: object) -> str | None:
        """Say what a value must be; None if the value is allowed."""
        if isinstance(self.type, tuple):
            return None if value in self.type else f"one of {', '.join(self.type)}"
        if isinstance(self.type, str):
            pattern, legal = _FORMS[self.type]
            plain = isinstance(value, int | float | str) and not isinstance(value, bool)
            if self.type == "rate" and isinstance(value, str):
                with suppress(UsageError):
                    bits_per_second(value)
                    return None
                return legal
            return None if plain and pattern.fullmatch(str(value)) else legal
        if self.type is bool:
            return None if isinstance(value, bool) else "true or false"
        if isinstance(value, bool) or not isinstance(
            value, int if self.type is int else int | float
        ):
            return "a whole number" if self.type is int else "a number"
        return None if value >= 0 else "zero or above"


def checked(request: Request, tests: Sequence[str], declared: Iterable[Option]) -> dict[str, Any]:
    """Return the options of a test; UsageError if its tool does not have the test or does not take them."""
    if request.test not in tests:
        raise UsageError(f"{request.tool} has no test {request.test!r} (known: {', '.join(tests)})")
    options = {o.name: o for o in declared if not o.tests or request.test in o.tests}
    for name, value in request.options.items():
        if name not in options:
            raise UsageError(
                f"{request.tool} {request.test} has no option {name!r} (known: {', '.join(options) or 'none'})"
            )
        if legal := options[name].problem(value):
            raise UsageError(f"option {name!r} of {request.tool} is {value!r}; it must be {legal}")
    return dict(request.options)


def check_unloaded(request: Request, remedy: str) -> None:
    """Refuse a load beside a test that waits for the answer to each datagram.

    Such a test waits until its end for the answer to one that is lost, and a load that fills a path loses some.
    """
    if request.loaded:
        raise UsageError(
            f"{request.tool} {request.test} over UDP stops at the first datagram that is lost, "
            f"and a load loses some: {remedy}"
        )


def arguments(declared: Iterable[Option], values: Mapping[str, Any]) -> list[str]:
    """Return the tool's own flags for the options that have `values`, in the order of their declaration."""
    words: list[str] = []
    for option in declared:
        if option.flag and (value := values.get(option.name)) is not None and value is not False:
            if option.type == "rate" and not _RATE.fullmatch(str(value)):
                value = f"{bits_per_second(value):.0f}"
            words += [option.flag] if value is True else [option.flag, str(value)]
    return words


def levels(
    request: Request, *, streams: str = "", buffer: str = "", message: str = ""
) -> list[str]:
    """Return the tool's arguments for the levels of a request, with the given flags."""
    given = {
        streams: request.streams if request.streams > 1 else None,
        buffer: request.tcp_buffer_bytes,
        message: request.message_bytes,
    }
    pairs = [(flag, str(level)) for flag, level in given.items() if flag and level is not None]
    return [word for pair in pairs for word in pair]


def bits_per_second(rate: str | float) -> float:
    """Read a rate as the tools do: ``2.5G`` is 2 500 000 000 bit/s; what follows a slash is the size of a burst."""
    try:
        return read_quantity(re.sub(r"/[0-9]+$", "", str(rate)), "bps")
    except ValueError:
        raise UsageError(f"{rate!r} is not {_FORMS['rate'][1]}") from None
