"""The names of logs that no label describes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from ..experiment.placements import PLACEMENTS

_REPETITION = "r|run|round|rep|repeat|repetition|iter|iteration|test|no|i|"
_RUNNING = re.compile(rf"(?:(?:^|(?<=/)|[^\w/]+|_+)(?:{_REPETITION})\d+)+$", re.I)
"""The end of a name that is a running number, a date or a time of day."""
_PLACE = "|".join(sorted(map(re.escape, PLACEMENTS), key=len, reverse=True))
_WORD = re.compile(rf"{_PLACE}|[^\W_]+", re.IGNORECASE)
_COUNTED = re.compile(rf"({_REPETITION})\d+", re.I)
_DIGITS = re.compile(r"\d+$")


def condition_of(name: str) -> str:
    """Return the path of a log without its suffix and its running number.

    Examples
    --------
    >>> condition_of("monday/zone1-run07.txt")
    'monday/zone1'
    """
    return _RUNNING.sub("", PurePosixPath(name).with_suffix("").as_posix())


def proposed_pattern(names: Sequence[str]) -> str | None:
    """Return a pattern that labels the words in which names of one structure differ.

    None if their structures differ.

    Examples
    --------
    >>> proposed_pattern(["wmem=4M r1.json", "wmem=16M r1.json", "wmem=4M r2.json"])
    'wmem={wmem} r{round}.*'
    """
    stems = [PurePosixPath(name).with_suffix("").as_posix() for name in names]
    if len({tuple(_WORD.split(stem)) for stem in stems}) > 1:
        return None
    *gaps, pattern = _WORD.split(stems[0])
    columns = list(zip(*map(_WORD.findall, stems), strict=True))
    has_round = False
    # from the end: the last running number is the round
    for number in reversed(range(len(columns))):
        words, gap = columns[number], gaps[number]
        before = columns[number - 1][0] if number else ""
        if len(set(words)) == 1:
            part = words[0]
        elif all(map(_COUNTED.fullmatch, words)):
            prefixes = {_DIGITS.sub("", word) for word in words}
            part = "*"
            if len(prefixes) == 1 and not has_round:
                part = f"{prefixes.pop()}{{round}}"
            has_round = True
        elif gap == "=" and before.isidentifier():
            part = f"{{{before}}}"
        elif all(word.lower() in PLACEMENTS for word in words):
            part = "{placement}"
        else:
            part = f"{{part{number + 1}}}"
        pattern = gap + part + pattern
    return f"{pattern}.*" if "{" in pattern.replace("{round}", "") else None
