"""Logs inside JSON from other programs: lists of results, results by host, output of a command as a string."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from .iperf3.document import as_dict, keep_doubles

_OTHERS = re.compile(
    r'\s*(?:\[\s*[{\["]|\{\s*"(?!(?:start|intervals|streams|end|error|event|latencies|ntttcp[sr])"\s*:))'
)
"""The start of what may be such JSON, and is not a document of a tool itself."""
_DECODER = json.JSONDecoder(object_pairs_hook=keep_doubles)


def embedded(text: str) -> list[tuple[int, str]]:
    """Find logs in JSON: the line where the JSON begins, and the text of each log; empty for anything else."""
    if not _OTHERS.match(text):
        return []
    try:
        return [(1, log) for log in _logs(_DECODER.decode(text))]
    except (ValueError, RecursionError):
        pass
    logs: list[tuple[int, str]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            logs += ((number, log) for log in _logs(_DECODER.decode(line)))
        except (ValueError, RecursionError):
            return []  # not one value per line either
    return logs


def _logs(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if as_dict(value.get("start")) or as_dict(value.get("end")):
            # it begins with a key of its own: a document that begins with another one is searched for logs
            yield json.dumps({"start": None} | value)
            return
        for key, inner in value.items():
            if not key.endswith(
                "_lines"
            ):  # Ansible keeps the output of a command as a string, and again as lines
                yield from _logs(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _logs(inner)
    elif isinstance(value, str):
        yield value
