"""The template language, as far as this project's template uses it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_network
from itertools import islice
from typing import Any

TOKEN = re.compile(r"('[^']*')|\.(\w+)|(\w+)\(")


class TemplateError(Exception):
    """The template cannot be evaluated; the text is what Azure would put into InvalidTemplate."""


class NotYet(Exception):  # noqa: N818 - no error: the resource comes later
    """A reference to a resource that is not there yet."""


class Nothing(dict[str, Any]):
    """What is read of a resource that is not there yet."""

    def __missing__(self, key):
        return self


@dataclass
class Scope:
    """What the functions of one deployment can see."""

    subscription: str
    group: str
    location: str
    parameters: dict[str, Any]
    reference: Callable[[str], dict[str, Any] | None]
    loops: dict[str, int] = field(default_factory=dict)
    zones: dict[str, int] = field(default_factory=dict)
    """Region to its number of zones."""

    def __post_init__(self):
        own = {name: getattr(self, name) for name in dir(self) if name.startswith("f_")}
        self.functions = {**PURE, **own}

    def value(self, node):
        """Evaluate every expression in a JSON value."""
        if isinstance(node, str) and node[:1] + node[-1:] == "[]":
            return self._read(node[1:-1])
        if isinstance(node, list):
            return [self.value(x) for x in node]
        if isinstance(node, dict):
            return {key: self.value(entry) for key, entry in node.items()}
        return node

    def loop(self, loop, body):
        """Evaluate `body` for every index of a copy loop."""
        name = loop.get("name", "")
        for i in range(self.value(loop["count"])):
            self.loops[name] = i
            try:
                yield body()
            finally:
                self.loops.pop(name, None)

    def _read(self, text):
        """Evaluate an expression, which becomes one of Python; both branches of an `if` are."""
        try:
            found = eval(_python(text), self.functions)
        except (LookupError, NameError, SyntaxError, TypeError, ValueError) as error:
            raise TemplateError(f"Unable to evaluate '{text}': {error!r}") from None
        if isinstance(found, Nothing):
            raise NotYet(text)
        return found

    def f_parameters(self, name):
        return self.parameters[name]

    def f_copyindex(self):
        return list(self.loops.values())[-1]

    def f_resourceid(self, kind, *names):
        namespace, *types = kind.split("/")
        tail = "".join(f"/{t}/{n}" for t, n in zip(types, names, strict=True))
        group = f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
        return f"{group}/providers/{namespace}{tail}"

    def f_subscriptionresourceid(self, kind, name):
        return f"/subscriptions/{self.subscription}/providers/{kind}/{name}"

    def f_pickzones(self, namespace, kind, location, count):
        return [str(i + 1) for i in range(self.zones.get(location, 0))][:count]

    def f_reference(self, target, version=""):
        found = self.reference(target)
        return Nothing() if found is None else found["properties"]


@cache
def _python(text):
    """An expression in Python: names of functions begin with `f_`, properties are subscripts."""

    def word(m):
        if m[1]:
            return m[1]
        return f"[{m[2]!r}]" if m[2] else f"f_{m[3].lower()}("

    return compile(TOKEN.sub(word, text), "template", "eval")


def _same(a, b):
    return (
        a.lower() == b.lower()
        if isinstance(a, str) and isinstance(b, str)
        else bool(a == b)
    )


def _subnet(prefix, size, index):
    return str(next(islice(ip_network(prefix).subnets(new_prefix=size), index, None)))


PURE = {
    "f_add": lambda a, b: a + b,
    "f_cidrsubnet": _subnet,
    "f_createarray": lambda *a: list(a),
    "f_createobject": lambda *a: dict(zip(a[::2], a[1::2], strict=True)),
    "f_empty": lambda a: not a,
    "f_equals": _same,
    "f_first": lambda a: a[0],
    "f_format": lambda form, *a: form.format(*a),
    "f_if": lambda a, b, c: b if a else c,
    "f_length": len,
    "f_not": lambda a: not a,
    "f_null": lambda: None,
    "f_true": lambda: True,
}


def outputs(template, scope):
    """Outputs of a template, all of which are lists."""
    out = {}
    for name, output in (template.get("outputs") or {}).items():
        each = output["copy"]
        value = list(scope.loop(each, lambda each=each: scope.value(each["input"])))
        out[name] = {"type": output["type"], "value": value}
    return out


@dataclass
class Item:
    """One resource of a template, ready to be evaluated when its turn comes."""

    id: str
    type: str
    name: str
    depends: set[str]
    evaluate: Callable[[], dict[str, Any]]


ASIDE = {"copy", "condition", "dependsOn", "comments"}
"""What belongs to a resource in a template, and not to the resource."""


def expand(template, scope):
    """Resources of a template: loops and conditions resolved, dependencies as lower-case ids."""
    items = []
    absent = set()

    def one(source, loops):
        kind, name = source["type"], scope.value(source["name"])
        where = scope.f_resourceid(kind, *name.split("/"))
        if not scope.value(source.get("condition", True)):
            absent.add(where.lower())
            return
        depends = {d.lower() for d in scope.value(source.get("dependsOn", []))}
        body = {k: v for k, v in source.items() if k not in ASIDE}

        def evaluate():
            scope.loops.update(loops)
            try:
                return without_nulls(scope.value(body))
            finally:
                for used in loops:
                    scope.loops.pop(used, None)

        items.append(Item(where, kind, name, depends, evaluate))

    for source in template["resources"]:
        each = lambda source=source: one(source, dict(scope.loops))  # noqa: E731
        list(scope.loop(source["copy"], each))
    ids = {i.id.lower() for i in items}
    if len(ids) < len(items):
        raise TemplateError("A resource is defined multiple times in the template.")
    for item in items:
        if unknown := item.depends - ids - absent:
            raise TemplateError(
                f"The resource '{unknown}' is not defined in the template."
            )
        item.depends &= ids
    return items


def without_nulls(node):
    """A null in a template is an absent property."""
    if isinstance(node, dict):
        return {k: without_nulls(v) for k, v in node.items() if v is not None}
    return [without_nulls(v) for v in node] if isinstance(node, list) else node
