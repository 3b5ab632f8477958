"""A pattern of many alternatives, searched only for those that a text can hold.

A regular expression tries each of its alternatives at each character; to see that a literal is nowhere in a text takes
a hundredth of that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache


class Alternatives:
    """Alternatives, each a named group, in the order in which they are tried.

    Parameters
    ----------
    patterns : mapping
        Name to (pattern, literals): no text matches the pattern that holds none of the literals.
    """

    def __init__(self, patterns: Mapping[str, tuple[str, tuple[str, ...]]]) -> None:
        self._patterns = tuple(f"(?P<{name}>{pattern})" for name, (pattern, _) in patterns.items())
        self._literals = tuple(literals for _, literals in patterns.values())
        self._compiled = cache(self._compile)

    def _compile(self, present: tuple[bool, ...]) -> re.Pattern[str]:
        chosen = (p for p, there in zip(self._patterns, present, strict=True) if there)
        return re.compile("|".join(chosen) or r"(?!)", re.MULTILINE)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Matches in the order of the text, as `re.finditer` gives them."""
        has = text.__contains__
        return self._compiled(tuple([any(map(has, literals)) for literals in self._literals])).finditer(text)

    def whole(self) -> re.Pattern[str]:
        """Return the pattern of all alternatives."""
        return self._compiled((True,) * len(self._patterns))
