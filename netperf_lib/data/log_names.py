"""What the names of logs tell apart, where no label does."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ..experiment.placements import PLACEMENTS

_PLACE = "|".join(sorted(map(re.escape, PLACEMENTS), key=len, reverse=True))
_TOKEN = re.compile(rf"{_PLACE}|[^\W_]+", re.IGNORECASE)
_RUNNING = re.compile(
    r"(?:r|run|rep|repeat|repetition|iter|iteration|round|test|log|no|i)?\d+", re.I
)
"""A number of a repetition, a date or a time of day; after any other word a number is a level."""
_ROUND = re.compile(r"(?:r|round)?\d+", re.I)


@dataclass(frozen=True)
class LogName:
    """The name of a log, and what the log itself says.

    Attributes
    ----------
    path : str
        Path of the log relative to the given folder.
    tool : str
    stated : collection of str
        Words that say what the log states, too, such as ``p16`` of 16 streams.
    """

    path: str
    tool: str
    stated: Collection[str]

    @property
    def tokens(self) -> list[str]:
        """The words and numbers of the name, without its suffix."""
        path = PurePosixPath(self.path)
        return _TOKEN.findall(path.with_suffix("").as_posix())

    def is_stated(self, token: str) -> bool:
        """Whether a word says what the log states, too."""
        word = token.lower()
        return word in self.stated or (len(word) > 3 and self.tool.startswith(word))


def name_parts(names: Sequence[LogName]) -> list[str]:
    """Return what tells each name apart from others of its tool, besides a running number."""
    shared = dict[str, set[str]]()
    for name in names:
        tokens = {token.lower() for token in name.tokens}
        shared[name.tool] = shared.get(name.tool, tokens) & tokens
    rows = []
    for name in names:
        own = [t for t in name.tokens if t.lower() not in shared[name.tool]]
        rows.append([t for t in own if not _RUNNING.fullmatch(t) and not name.is_stated(t)])
    return [" ".join(row) for row in rows]


def proposed_pattern(names: Sequence[LogName]) -> str | None:
    """Return a pattern that labels what the names tell apart; None where they have no common form."""
    first = names[0].path
    rows = [_TOKEN.findall(name.path) for name in names]
    gaps = [_TOKEN.split(name.path) for name in names]
    if any(gap != gaps[0] for gap in gaps):
        return None
    parts = []
    labels = ["placement", *(f"factor{number}" for number in range(2, len(rows[0]) + 1))]
    for position, column in enumerate(zip(*rows, strict=True)):
        last = position == len(rows[0]) - 1 and first.endswith(column[0])
        if len(set(column)) == 1:
            parts.append(column[0])
        elif last or all(map(_RUNNING.fullmatch, column)):
            parts.append(_number(column) if not last else "*")
        elif all(token.lower() == name.tool for token, name in zip(column, names, strict=True)):
            parts.append("{tool}")
        elif all(name.is_stated(token) for token, name in zip(column, names, strict=True)):
            parts.append("*")
        else:
            parts.append(f"{{{labels.pop(0)}}}")
    pairs = zip(gaps[0], [*parts, ""], strict=True)
    return "".join(gap + part for gap, part in pairs)


def _number(column: Sequence[str]) -> str:
    """Return ``{round}`` for numbers that are said to be rounds, or come back; else ``*``."""
    prefix = re.match(r"[^\d]*", column[0])
    common = prefix[0] if prefix and all(t.startswith(prefix[0]) for t in column) else None
    returning = len(set(column)) < len(column)
    is_round = common is not None and returning and all(map(_ROUND.fullmatch, column))
    return f"{common}{{round}}" if is_round else "*"
