"""Azure's own JSON schemas of what the template makes, where a checkout of them is at hand.

No package ships them. `GET` gets them, into the checkout, or anywhere with ``AZURE_SCHEMAS`` naming the folder; every
template that the tests deploy is then held against them as well.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

GET = "git clone --depth 1 https://github.com/Azure/azure-resource-manager-schemas"
FOLDER = Path(
    os.environ.get("AZURE_SCHEMAS") or Path(__file__).parents[2] / "azure-resource-manager-schemas", "schemas"
)
ANYWHERE = "comments condition copy dependsOn extendedLocation identity kind location plan scope sku tags zones".split()
"""Properties that the schema of the template itself gives to every resource."""
STALE = "properties/hardwareProfile/vmSize"
"""Its list of values ends with sizes of years ago."""


def wrong(resource: dict[str, Any]) -> list[str]:
    """What the schema of a resource says against it, its expressions evaluated; nothing where there is no folder."""
    if not FOLDER.is_dir():
        return []
    kind, version = resource["type"], resource["apiVersion"]
    validator = _validators(version).get(kind.lower())
    if validator is None:
        return [f"{kind} has no schema of version {version}"]
    plain = json.loads(json.dumps({k: v for k, v in resource.items() if v is not None}))
    found = map(_innermost, validator.iter_errors({"name": "x", **plain}))
    told = {"/".join(map(str, e.absolute_path)): e.message for e in found}
    return [f"{place}: {message[:200]}" for place, message in told.items() if place != STALE]


def _innermost(error: Any) -> Any:
    while error.context:
        error = max(error.context, key=lambda e: len(e.absolute_path))
    return error


@cache
def _validators(version: str) -> dict[str, Any]:
    """Of one API version: type of a resource in small letters to its validator."""
    found = {}
    for provider in ("Compute", "Network", "DevTestLab"):
        for path in sorted((FOLDER / version).glob(f"Microsoft.{provider}*.json")):
            document = _strict(json.loads(path.read_text("utf-8")))
            for schema in document.get("resourceDefinitions", {}).values():
                (kind,) = schema["properties"]["type"]["enum"]
                schema["properties"] = {key: {} for key in ANYWHERE} | schema["properties"]
                schema["definitions"] = document.get("definitions", {})
                found[kind.lower()] = jsonschema.Draft4Validator(schema)
    return found


def _strict(node: Any) -> Any:
    """Allow no unknown property, and none of the expressions of the template's language: they are evaluated here."""
    if isinstance(node, list):
        return [_strict(n) for n in node]
    if not isinstance(node, dict):
        return node
    if str(node.get("$ref", "")).startswith("http"):
        return {"not": {}}
    node = {key: _strict(value) for key, value in node.items()}
    if node.get("type") == "object" and "properties" in node:
        node.setdefault("additionalProperties", False)
    return node
