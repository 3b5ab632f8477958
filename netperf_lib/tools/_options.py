"""What a test may be told beside the factors: each tool declares it, and one place holds an experiment to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import UsageError

if TYPE_CHECKING:
    from ..experiment.model import TestSpec

__all__ = ["Known", "checked"]

Known: TypeAlias = Mapping[str, type | tuple[str, ...]]
"""Name of an option: its type, or the words that it may be."""


def checked(spec: TestSpec, tests: tuple[str, ...], known: Known) -> dict[str, Any]:
    """Return the options of a test, once it is sure that its tool has the test and takes them.

    Raises
    ------
    UsageError
        The tool has no such test or option, or the value is of another kind.
    """
    if spec.test not in tests:
        raise UsageError(f"{spec.tool} has no test {spec.test!r} (known: {', '.join(tests)})")
    for name, value in spec.options.items():
        if name not in known:
            raise UsageError(f"{spec.tool} has no option {name!r} (known: {', '.join(known) or 'none'})")
        legal = known[name]
        if isinstance(legal, tuple):
            if value not in legal:
                raise UsageError(f"option {name!r} of {spec.tool} is {value!r}; it must be {' or '.join(legal)}")
        elif not _is(value, legal):
            raise UsageError(f"option {name!r} of {spec.tool} is {value!r}; it must be of type {legal.__name__}")
    return dict(spec.options)


def _is(value: object, kind: type) -> bool:
    if isinstance(value, bool):  # which Python takes for an int
        return kind is bool
    # a rate is said as 1000000 or as 1M
    return isinstance(value, kind) or (kind in (float, str) and isinstance(value, int | float))
