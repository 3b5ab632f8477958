"""A pattern of many alternatives that is searched for fast.

An engine that finds a literal character at the head of each alternative looks for these characters first, and then
tries only the alternatives that begin with the one it found. Two things hide that character from it: an anchor before
it, and a group around it. So the anchor is looked for behind the character, and the group that tells an alternative
stands empty at its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ANCHORED = re.compile(r"^(\^|\\b)(\w)")
_BEHIND = r"\2(?<=\1\2)"


def alternatives(patterns: Mapping[str, str], prefix: str = "") -> re.Pattern[str]:
    r"""Compile alternatives, in the order in which they are tried; `re.Match.lastgroup` names the one that matched.

    A pattern is without groups of its own, and begins with a literal character, save for one ``^`` or ``\b``. Those
    that begin with the literal `prefix` are tried first: it is looked for once, not once for each of them.
    """
    alike, others = [], []
    for name, pattern in patterns.items():
        if prefix and pattern.startswith(prefix):
            alike.append(f"(?:{pattern.removeprefix(prefix)})(?P<{name}>)")
        else:
            others.append(f"(?:{_ANCHORED.sub(_BEHIND, pattern)})(?P<{name}>)")
    if alike:
        others.insert(0, f"{prefix}(?:{'|'.join(alike)})")
    return re.compile("|".join(others), re.MULTILINE)
