"""What the names of logs tell apart, where no label does."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..experiment.placements import PLACEMENTS

_PLACE = "|".join(sorted(map(re.escape, PLACEMENTS), key=len, reverse=True))
_WORD = re.compile(rf"{_PLACE}|[^\W_]+", re.IGNORECASE)
_RUNNING = re.compile(
    r"(r|round|)(\d+)|(?:run|rep|repeat|repetition|iter|iteration|test|log|no|i)\d+", re.I
)
"""A number of a repetition, a date or a time of day; after any other word a number is a level."""


_ROUNDS = ({"r"}, {"round"})
"""What stands before the number of a round."""
PLAIN = "no further word"
"""The part of a name that has none of its own."""


class LogName(NamedTuple):
    """The path of a log without its suffix, its tool, and words that say what the log states."""

    path: str
    tool: str
    stated: Collection[str]


def name_parts(names: Sequence[LogName]) -> list[str]:
    """Return what tells each name apart from others of its tool, besides a running number."""
    shared: dict[str, set[str]] = {}
    for name in names:
        words = set(_WORD.findall(name.path.lower()))
        shared[name.tool] = shared.get(name.tool, words) & words
    parts = []
    for name in names:
        known = shared[name.tool].union(name.stated)
        own = [word for word in _WORD.findall(name.path) if word.lower() not in known]
        telling = [word for word in own if not _RUNNING.fullmatch(word)]
        parts.append(" ".join(telling) or PLAIN)
    return parts


def proposed_pattern(names: Sequence[LogName]) -> str | None:
    """Return a pattern that labels the one word in which names differ; None if there are more."""
    gaps = {tuple(_WORD.split(name.path)) for name in names}
    if len(gaps) > 1:
        return None
    parts = []
    for words in zip(*(_WORD.findall(name.path) for name in names), strict=True):
        numbers = [number[1] for number in map(_RUNNING.fullmatch, words) if number]
        if len(set(words)) == 1:
            parts.append(words[0])
        elif len(numbers) < len(words):
            parts.append("{placement}")
        else:
            parts.append(f"{numbers[0]}{{round}}" if set(numbers) in _ROUNDS else "*")
    if parts.count("{placement}") != 1:
        return None
    return "".join(gap + part for gap, part in zip(*gaps, [*parts, ".*"], strict=True))
