"""Azure's own classes of what the template makes (`models.json`): which properties there are, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLASSES: dict[str, Any] = json.loads(Path(__file__).with_name("models.json").read_text("utf-8"))
KINDS = {"str": str, "bool": bool, "int": int, "float": (int, float), "object": object}
STALE = "properties.hardwareProfile.vmSize"
"""Its list of values ends with sizes of years ago."""


def wrong(resource: dict[str, Any]) -> list[str]:
    """What Azure's classes do not know of a resource in a template, with its expressions evaluated."""
    root = CLASSES.get(f"{resource['type']}@{resource['apiVersion']}")
    if root is None:
        return [f"{resource['type']} has no class of version {resource['apiVersion']}"]
    return list(
        _object(
            {k: v for k, v in resource.items() if k not in ("type", "apiVersion", "name")}, root, ""
        )
    )


def _object(node: Any, name: str, where: str) -> Iterator[str]:
    if not isinstance(node, dict):
        yield f"{where}: {node!r} is no {name}"
        return
    known = {key.replace("\\.", "\0"): how for key, how in CLASSES[name].items()}
    left = [(key, key, value) for key, value in node.items()]
    seen = set()
    while left:
        key, shown, value = left.pop()
        if how := known.get(key):
            seen.add(key)
            yield from _value(value, how[0], how[1:], name, f"{where}.{shown}".lstrip("."))
        elif isinstance(value, dict) and any(k.startswith(f"{key}.") for k in known):
            left += [(f"{key}.{inner}", f"{shown}.{inner}", v) for inner, v in value.items()]
        else:
            yield f"{where}.{shown}: {name} has no such property"
    for key, how in known.items():
        if "required" in how[1:2] and key not in seen and key != "location":
            yield f"{where}.{key} is missing"


def _value(value: Any, kind: str, rules: list[str], owner: str, where: str) -> Iterator[str]:
    if kind[0] == "[":
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
        else:
            for i, entry in enumerate(value):
                yield from _value(entry, kind[1:-1], [], owner, f"{where}[{i}]")
    elif kind[0] == "{":
        for key, entry in value.items():
            yield from _value(entry, kind[1:-1], [], owner, f"{where}.{key}")
    elif kind[:1].isupper():
        yield from _object(value, f"{owner.rsplit(' ', 1)[0]} {kind}", where)
    else:
        values = [v for v in rules if v != "required"]
        if not isinstance(value, KINDS.get(kind, str)) or (
            kind == "int" and isinstance(value, bool)
        ):
            yield f"{where}: {value!r} is no {kind}"
        elif values and where != STALE and str(value).lower() not in [v.lower() for v in values]:
            yield f"{where}: {value!r} is none of {', '.join(values)}"
