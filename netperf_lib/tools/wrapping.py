"""What others put around the lines of a log: times, names, quote marks, indentation, escapes. Lines stay lines."""

from __future__ import annotations

import json
import re
import textwrap

_LEVEL = r"(?:\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR)\]?:?(?:[ \t]|$))?"
_HEADS = {  # what follows each is a blank, or the end of an empty line
    # kubectl logs --timestamps, GitHub Actions, journalctl -o short-iso, containerd, logging of Python
    "iso": r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?:[ \t]|$)"
    r"(?:std(?:out|err) [FP](?: |$))?" + _LEVEL,
    # ts of moreutils, syslog
    "month": r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?: |$)(?:\S+ [\w./-]+\[\d+\]:(?: |$))?",
    # iperf3 --timestamps
    "ctime": r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[A-Z]{3,4} )?\d{4}(?: |$)",
    "compose": r"[\w.-]+ *\|(?: |$)",
    "name": r"\[(?:pod/[^\]\s]+|std(?:out|err)|STD(?:OUT|ERR)|OUTPUT)\](?: |$)",
}
_HEAD = re.compile("|".join(_HEADS.values()))
_QUOTE = re.compile(r"^[ \t]*(?:>(?=[ \t>]|$)[ \t]?)+", re.MULTILINE)
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#34;": '"', "&#39;": "'", "&nbsp;": " ", "&amp;": "&"}
_MOST = 0.6
"""The share of the lines that must have a head for it to be one that was put there."""


def unwrapped(text: str) -> str:
    """Return the lines as the tool printed them."""
    if "\u00a0" in text:
        text = text.replace("\u00a0", " ")
    if "&lt;" in text or "&gt;" in text or "&quot;" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    for _ in range(2):  # docker compose logs --timestamps has two
        text = _without_heads(text)
    if "\n>" in text or "\n >" in text or text.startswith((">", " >")):
        text = _QUOTE.sub("", text)
    if text[:1] in (" ", "\t") and not re.search(r"^\S", text, re.MULTILINE):
        text = textwrap.dedent(text)
    return text


def from_docker(text: str) -> str:
    """Take the lines out of a file that docker keeps, a JSON object a line; any other text as it is."""
    if not text.startswith('{"log":"'):
        return text
    lines = []
    for line in text.splitlines():
        try:
            said = json.loads(line)["log"]
        except (ValueError, KeyError, TypeError):
            return text
        lines.append(str(said).rstrip("\n"))
    return "\n".join(lines) + "\n"


def _without_heads(text: str) -> str:
    second = text.find("\n") + 1
    third = text.find("\n", second) + 1
    if not any(_HEAD.match(text, at) for at in {0, second, third}):
        return text
    lines = sum(1 for line in text.split("\n") if line.strip())
    for pattern in _HEADS.values():
        found = re.compile(f"^(?:{pattern})", re.MULTILINE)
        stripped, count = found.subn("", text)
        if count >= _MOST * lines:
            return stripped
    return text
