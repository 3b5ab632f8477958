"""Reads a JSON document of iperf3 from a text: whole, with known damage repaired, in pieces, or as events.

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
    return next(
        (value for name in names if isinstance(value := as_dict(stream).get(name), dict)), {}
    )


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
    return (
        int(figure)
        if figure is not None and 0 <= figure < WRAPPED and figure == int(figure)
        else None
    )


def whole_document(data: str | bytes) -> dict[str, Any] | None:
    """Return the document that a text is as a whole; None for any other text."""
    try:
        doc = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(doc, dict):
        return None
    return json.loads(data, object_pairs_hook=keep_doubles) if _has_doubles(doc) else doc


def decode_documents(text: str) -> tuple[dict[str, Any] | None, str]:
    """Return the document at the start of `text`, and the text after it; None if there is no whole one."""
    if (whole := whole_document(text)) is not None:
        return whole, ""
    text = _mended(text)
    doc, end = _decoded(text, 0)
    return (doc, text[end:]) if isinstance(doc, dict) else (None, "")


_NAN = re.compile(r'(:\s*)[-+]?(?:nan|inf)(?:inity)?(?=\s*[,}\]])', re.IGNORECASE)  # fmt: skip
_EXPONENT = re.compile(r"(:\s*-?\d+(?:\.\d+)?[eE]) (\d+)(?=\s*[,}\]])")
"""A number that lost the plus sign of its exponent, as in an address of the web."""


def _mended(text: str) -> str:
    return _EXPONENT.sub(r"\1+\2", _NAN.sub(r"\1null", text))


def _has_doubles(doc: dict[str, Any]) -> bool:
    """Return whether this is a --bidir document of a version that repeats keys; a plain reader keeps only the last."""
    end = as_dict(doc.get("end"))
    streams = as_list(end.get("streams"))
    if goes_both_ways(end):
        return False
    return {record(s, "sender", "udp").get("sender") for s in streams if isinstance(s, dict)} == {
        True,
        False,
    }


def goes_both_ways(end: dict[str, Any]) -> bool:
    """Return whether the result has sums of both directions, under different names."""
    return any(key.endswith("_bidir_reverse") for key in end)


def keep_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Name the second ``sum*`` of an object as the later versions do."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        seen = set()
        for key, value in pairs:
            if key in seen and key.startswith("sum"):
                unique[f"{key}_bidir_reverse"] = value
            elif key not in seen:
                unique[key] = value
            seen.add(key)
    return unique


_KEY = {
    k: re.compile(rf'"{k}"\s*:\s*(?=[{{"])')
    for k in ("start", "end", "error", "test_start", "timestamp", "version")
}
_INTERVAL = re.compile(r'\{\s*"streams"\s*:\s*\[')
_ROW = re.compile(r'\{\s*"socket"\s*:\s*\d+\s*,\s*"start"')
_EVENTS = ("start", "interval", "end", "error", "server_output_text", "server_output_json")
_DECODER = json.JSONDecoder(object_pairs_hook=keep_doubles, parse_constant=lambda _: None)


def _decoded(text: str, at: int) -> tuple[Any, int]:
    """Return the value at an offset, and its end; None if there is no whole value."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at


def _rows(text: str) -> list[dict[str, Any]]:
    """Return the whole rows of an interval whose rest is lost."""
    rows = (_decoded(text, m.start())[0] for m in _ROW.finditer(text))
    return [
        {"streams": [row]} for row in rows if isinstance(row, dict) and "bits_per_second" in row
    ]


def salvage(text: str) -> tuple[dict[str, Any], str]:
    """Return the whole parts of a document that is cut short or damaged, and a message about the rest."""
    text = _mended(text)

    def value(key: str, at: int = 0) -> Any:
        m = _KEY[key].search(text, at)
        return _decoded(text, m.end())[0] if m else None

    begun = re.search(r'"intervals"\s*:\s*\[', text)
    start = value("start")
    if not isinstance(start, dict):
        start = {
            k: v for k in ("version", "timestamp", "test_start") if (v := value(k)) is not None
        }
    at = begun.end() if begun else 0
    *_, stop = (
        len(text),
        *(m.start() for m in _KEY["end"].finditer(text, at)),
    )  # the result has streams and sums, too
    decoded = (_decoded(text, m.start())[0] for m in _INTERVAL.finditer(text, at, stop))
    intervals = [i for i in decoded if isinstance(i, dict) and "sum" in i]
    # without a whole interval: its rows, if an excerpt has some
    doc: dict[str, Any] = {"start": start, "intervals": intervals or _rows(text[at:stop])}
    if isinstance(message := value("error", at), str):
        doc["error"] = message
    where = "its end" if begun and stop < len(text) else "its intervals" if begun else "its start"
    complete = text.rstrip().endswith("}") and begun and not _INTERVAL.search(text[-200:])
    cut = (
        f"the document is damaged in {where}"
        if complete
        else f"the document is cut short in {where}"
    )
    return doc, cut


def from_events(text: str) -> tuple[dict[str, Any], str]:
    """Return the document made from the events of ``--json-stream``, one per line, and what is wrong with it."""
    doc: dict[str, Any] = {"intervals": []}
    cut = ""
    kinds: set[str] = set()
    for line in text.splitlines():
        line = line[line.find("{") :] if "{" in line else ""
        if not re.match(r'\{\s*"event"', line):
            continue
        event, _ = decode_documents(line)
        if event is None:
            cut = "the stream is cut short or damaged in an event"
            doc["intervals"] += _rows(line)
            continue
        kind, data = event.get("event"), event.get("data")
        kinds.add(str(kind))
        if event.keys() != {"event", "data"} or kind not in _EVENTS:
            cut = f"the stream is damaged in an event: {line[:40]!r}"
        if kind in ("start", "end"):
            doc[kind] = data
        elif kind == "interval":
            doc["intervals"].append(data)
        elif kind == "error":
            doc["error"] = data if isinstance(data, str) else json.dumps(data)
    if "end" not in doc and not cut and "error" not in doc:
        cut = "the stream has no event `end`: it was cut short"
    elif "end" in kinds and "start" not in kinds and "error" not in doc:
        cut = "the stream has no event `start`: its head is missing"
    return doc, cut
