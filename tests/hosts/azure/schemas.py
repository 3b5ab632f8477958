"""Azure's own schemas of what the template makes (`schemas.json`), each object closed.

An excerpt of Azure/azure-resource-manager-schemas (MIT), commit a1454431, without descriptions,
without template expressions, which are evaluated here, and without the list of VM sizes, which
ends years ago.
"""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft4Validator

_TEXT = Path(__file__).with_name("schemas.json").read_text("utf-8")
_EXCERPT = json.loads(_TEXT)


@cache
def _validator(kind):
    schema = _EXCERPT["resources"][kind]
    return Draft4Validator({"definitions": _EXCERPT["definitions"], **schema})


def wrong(resource):
    """Return what the schema of a resource's type does not allow; its expressions are evaluated."""
    errors = _validator(f"{resource['type']}@{resource['apiVersion']}").iter_errors(
        resource
    )
    return [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in errors]
