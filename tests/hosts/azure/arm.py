"""The template language, as far as this project's template uses it."""

import re
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_network
from typing import Any

TOKEN = re.compile(r"('[^']*')|\.(\w+)|(\w+)\(")
ASIDE = {"copy", "condition", "dependsOn", "comments"}
"""What belongs to a resource in a template, and not to the resource."""


class ArmError(Exception):
    """An answer that is an error; `body` is answered instead of a document, if it is not None."""

    def __init__(self, status, code, message="", details=(), body=None):
        super().__init__(f"{code}: {message}")
        self.status, self.body = status, body
        self.error = {"code": code, "message": message, "details": list(details)}


def refuse(wrong, code, about="", status=400):
    """Answer with an error if something is wrong."""
    if wrong:
        raise ArmError(status, code, f"It cannot be: {about}")


class Nothing(dict[str, Any]):
    """What is read of a resource that is not there yet."""

    def __missing__(self, key):
        return self


@dataclass
class Item:
    """One resource of a template, to be evaluated when its turn comes."""

    id: str
    index: int
    source: dict[str, Any]
    depends: set[str]


class Scope:
    """What the expressions of one deployment can see: `read` returns a resource by its id."""

    def __init__(self, group_id, parameters, read, zones):
        self.group_id, self.parameters, self.read = group_id, parameters, read
        self.index = 0
        own = {
            "f_parameters": lambda name: self.parameters[name],
            "f_copyindex": lambda: self.index,
            "f_resourceid": self.resource_id,
            "f_reference": self.reference,
            "f_pickzones": lambda _, kind, region, n: list(
                "123"[: min(n, zones[region])]
            ),
        }
        self.functions = FUNCTIONS | own

    def resource_id(self, kind, *names):
        space, *types = kind.split("/")
        parts = [f"/{t}/{n}" for t, n in zip(types, names, strict=True)]
        return f"{self.group_id}/providers/{space}{''.join(parts)}"

    def reference(self, target, version=""):
        found = self.read(target)
        return Nothing() if found is None else found["properties"]

    def value(self, node):
        """Evaluate every expression in a JSON value; a null is an absent property."""
        if isinstance(node, str) and node[:1] + node[-1:] == "[]":
            return self._evaluate(node[1:-1])
        if isinstance(node, list):
            return [self.value(entry) for entry in node]
        if isinstance(node, dict):
            values = {key: self.value(entry) for key, entry in node.items()}
            return {key: value for key, value in values.items() if value is not None}
        return node

    def _evaluate(self, text):
        """Evaluate an expression, which becomes one of Python; both branches of an `if` are."""
        try:
            found = eval(_python(text), self.functions)
        except (LookupError, NameError, SyntaxError, TypeError, ValueError) as error:
            raise ArmError(400, "InvalidTemplate", f"{text}: {error!r}") from None
        refuse(isinstance(found, Nothing), "InvalidTemplate", f"{text} is not there yet")
        return found

    def expand(self, template):
        """Resources of a template by lower-case id, with those that each waits for."""
        items, absent = {}, set()
        for source in template["resources"]:
            for index in range(self.value(source["copy"]["count"])):
                self.index = index
                name = self.value(source["name"])
                where = self.resource_id(source["type"], *name.split("/"))
                refuse(
                    where.lower() in items, "InvalidTemplate", f"{where} is there twice"
                )
                depends = {d.lower() for d in self.value(source.get("dependsOn", []))}
                if self.value(source.get("condition", True)):
                    items[where.lower()] = Item(where, index, source, depends)
                else:
                    absent.add(where.lower())
        for item in items.values():
            unknown = item.depends - items.keys() - absent
            refuse(unknown, "InvalidTemplate", f"{unknown} is not defined")
            item.depends &= items.keys()
        return items

    def evaluate(self, item):
        """The resource, as it is created."""
        self.index = item.index
        return self.value({k: v for k, v in item.source.items() if k not in ASIDE})

    def outputs(self, template):
        """Outputs of a template, all of which are lists."""
        out = {}
        for name, output in template["outputs"].items():
            found = []
            for index in range(self.value(output["copy"]["count"])):
                self.index = index
                found.append(self.value(output["copy"]["input"]))
            out[name] = {"type": output["type"], "value": found}
        return out


@cache
def _python(text):
    """An expression in Python: names of functions begin with `f_`, properties are subscripts."""

    def word(m):
        if m[1]:
            return m[1]
        return f"[{m[2]!r}]" if m[2] else f"f_{m[3].lower()}("

    return compile(TOKEN.sub(word, text), "template", "eval")


FUNCTIONS = {
    "f_add": lambda a, b: a + b,
    "f_cidrsubnet": lambda net, n, i: str([*ip_network(net).subnets(new_prefix=n)][i]),
    "f_createarray": lambda *a: list(a),
    "f_createobject": lambda *a: dict(zip(a[::2], a[1::2], strict=True)),
    "f_empty": lambda a: not a,
    "f_equals": lambda a, b: a == b,
    "f_first": lambda a: a[0],
    "f_format": lambda form, *a: form.format(*a),
    "f_if": lambda a, b, c: b if a else c,
    "f_length": len,
    "f_not": lambda a: not a,
    "f_null": lambda: None,
    "f_true": lambda: True,
}
