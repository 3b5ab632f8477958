"""Patterns of many alternatives that can be searched fast.

If each alternative begins with a literal character, the regex engine searches for these characters first, and tries
only the alternatives that begin with the one it found. An anchor before that character, or a group around it, hides it
from the engine. Here, the anchor is therefore checked after the character, with a lookbehind, and the group that names
an alternative is empty and at its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_ANCHORED = re.compile(r"^(\^|\\b)(\w)")
_BEHIND = r"\2(?<=\1\2)"


def alternatives(patterns: Mapping[str, str], prefix: str = "") -> re.Pattern[str]:
    r"""Compile alternatives, in the order in which they are tried; `re.Match.lastgroup` names the one that matched.

    A pattern has no groups, and begins with a literal character, optionally after one ``^`` or ``\b``. Patterns that
    begin with the literal `prefix` are tried first, and the prefix is searched only once for all of them.
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
