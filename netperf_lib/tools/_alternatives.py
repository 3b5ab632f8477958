"""A pattern of many alternatives, searched only for those that a text can hold.

A regular expression tries each of its alternatives at each character; to see that a literal is nowhere in a text takes
a hundredth of that. What is left is fast where each alternative begins with a literal character: then the engine looks
for these characters first, and tries only the alternatives that begin with the one it found. For the same reason the
group that tells an alternative stands empty behind it, not around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

_ANCHORED = re.compile(r"^(\^|\\b)(\w)")
_BEHIND = r"\2(?<=\1\2)"
"""An anchor, looked for behind the literal that follows it."""


class Alternatives:
    r"""Alternatives in the order in which they are tried; `re.Match.lastgroup` is the name of the one that matched.

    Parameters
    ----------
    patterns : mapping
        Name to (pattern, literals): no text matches the pattern that holds none of the literals; without literals it
        is always searched for. A pattern has no groups of its own and begins with a literal character, save for one
        ``^`` or ``\b`` before it.
    prefix : str, optional
        Literal with which many patterns begin: it is looked for once, not once for each of them.
    """

    def __init__(self, patterns: Mapping[str, tuple[str, tuple[str, ...]]], prefix: str = "") -> None:
        self._prefix = prefix
        self._patterns = tuple((_ANCHORED.sub(_BEHIND, pattern), name) for name, (pattern, _) in patterns.items())
        self._literals = tuple(literals for _, literals in patterns.values() if literals)
        self._always = tuple(not literals for _, literals in patterns.values())
        self._compiled = cache(self._compile)

    def _compile(self, present: tuple[bool, ...]) -> re.Pattern[str]:
        there = iter(present)
        chosen = [p for p, always in zip(self._patterns, self._always, strict=True) if always or next(there)]
        alike, others = [], []
        for pattern, name in chosen:
            if self._prefix and pattern.startswith(self._prefix):
                alike.append(f"(?:{pattern.removeprefix(self._prefix)})(?P<{name}>)")
            else:
                others.append(f"(?:{pattern})(?P<{name}>)")
        if alike:
            others.insert(0, f"{self._prefix}(?:{'|'.join(alike)})")
        return re.compile("|".join(others) or r"(?!)", re.MULTILINE)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Matches in the order of the text, as `re.finditer` gives them."""
        has = text.__contains__
        return self._compiled(tuple([any(map(has, literals)) for literals in self._literals])).finditer(text)

    def whole(self) -> re.Pattern[str]:
        """Return the pattern of all alternatives."""
        return self._compiled((True,) * len(self._literals))
