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
    gaps = {tuple(_WORD.split(stem)) for stem in stems}
    if len(gaps) > 1:
        return None
    [between] = gaps
    columns = list(zip(*map(_WORD.findall, stems), strict=True))
    differing = [n for n, words in enumerate(columns) if len(set(words)) > 1]
    numbers = [n for n in differing if all(map(_COUNTED.fullmatch, columns[n]))]
    pattern = between[0]
    for number, words in enumerate(columns):
        before = columns[number - 1][0] if number else ""
        if number not in differing:
            part = words[0]
        elif number in numbers[-1:]:
            prefixes = {match[1] for match in map(_COUNTED.match, words) if match}
            part = f"{prefixes.pop()}{{round}}" if len(prefixes) == 1 else "*"
        elif number in numbers:
            part = "*"
        elif between[number] == "=" and before.isidentifier():
            part = f"{{{before}}}"
        elif all(word.lower() in PLACEMENTS for word in words):
            part = "{placement}"
        else:
            part = f"{{part{number + 1}}}"
        pattern += part + between[number + 1]
    return f"{pattern}.*" if "{" in pattern.replace("{round}", "") else None
