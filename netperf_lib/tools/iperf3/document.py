"""Decodes a JSON document of iperf3, or the events of ``--json-stream``.

Versions 3.7 to 3.10.1 print ``sum``, ``sum_sent`` and ``sum_received`` twice with ``--bidir``; later ones call the
second ones ``…_bidir_reverse``. That name is used here for all versions.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson

WRAPPED = 2**31
"""32-bit counters that went below zero, and -1, mean "unknown"."""


def record(stream: Any, *names: str) -> dict[str, Any]:
    """Return the first dictionary under one of these names, or an empty one."""
    inner = (as_dict(stream).get(name) for name in names)
    return next((value for value in inner if isinstance(value, dict)), {})


def as_dict(value: Any) -> dict[str, Any]:
    """Return a dictionary as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list as it is, anything else as an empty one."""
    return value if isinstance(value, list) else []


def number(value: Any) -> float | None:
    """Return a finite number, or None."""
    kind = type(value)  # JSON has only built-in types
    return value if kind is int or (kind is float and math.isfinite(value)) else None


def count(value: Any) -> int | None:
    """Return a counter, or None if it wrapped around or was never set."""
    figure = number(value)
    whole = figure is not None and 0 <= figure < WRAPPED and figure == int(figure)
    return int(figure) if whole and figure is not None else None


def goes_both_ways(end: dict[str, Any]) -> bool:
    """Return whether the result has sums of both directions, under different names."""
    return any(key.endswith("_bidir_reverse") for key in end)


def whole_document(data: str | bytes) -> dict[str, Any] | None:
    """Return the document that a text is as a whole; None for any other text."""
    try:
        doc = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(doc, dict):
        return None
    return json.loads(data, object_pairs_hook=_keep_doubles) if _has_doubles(doc) else doc


def _has_doubles(doc: dict[str, Any]) -> bool:
    """Return whether this is a --bidir document of a version that repeats keys; a plain reader keeps only the last."""
    end = as_dict(doc.get("end"))
    streams = [record(s, "sender", "udp").get("sender") for s in as_list(end.get("streams"))]
    return not goes_both_ways(end) and {True, False} <= {s for s in streams if type(s) is bool}


def _keep_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Name the second ``sum*`` of an object as the later versions do."""
    unique: dict[str, Any] = {}
    for key, value in pairs:
        second = key in unique and key.startswith("sum")
        unique[f"{key}_bidir_reverse" if second else key] = value
    return unique


_NAN = re.compile(r"(:\s*)[-+]?(?:nan|inf)(?:inity)?(?=\s*[,}\]])", re.IGNORECASE)
"""What some versions print for a share of no datagrams, which is no JSON."""
_DECODER = json.JSONDecoder(object_pairs_hook=_keep_doubles)


def first_document(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the document at the start of `text`, and the text after it; None if there is no whole one."""
    if (whole := whole_document(text)) is not None:
        return whole, ""
    text = _NAN.sub(r"\1null", text)
    try:
        doc, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None, text
    return (doc, text[end:]) if isinstance(doc, dict) else (None, text)


def from_events(text: str) -> tuple[dict[str, Any], str]:
    """Return the document made from the events of ``--json-stream``, one per line, and what is wrong with it."""
    doc: dict[str, Any] = {"intervals": []}
    wrong = ""
    for line in text.splitlines():
        if not re.match(r'\s*\{\s*"event"', line):
            continue
        event = whole_document(line)
        if event is None or event.keys() != {"event", "data"}:
            wrong = "the stream is cut short or damaged in an event"
            continue
        kind, data = event["event"], event["data"]
        if kind == "interval":
            doc["intervals"].append(data)
        elif kind in ("start", "end"):
            doc[kind] = data
        elif kind == "error":
            doc["error"] = data if isinstance(data, str) else json.dumps(data)
        elif not str(kind).startswith("server_output"):
            wrong = f"the stream is damaged in an event: {line[:40]!r}"
    lacking = next((kind for kind in ("start", "end") if kind not in doc), None)
    if lacking and not wrong and "error" not in doc:
        wrong = f"the stream has no event `{lacking}`: it was cut short"
    return doc, wrong
