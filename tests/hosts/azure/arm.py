"""The template language, as far as this project's template uses it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_network
from itertools import islice
from typing import Any

TOKEN = re.compile(r"\s*('(?:[^']|'')*'|-?\d+|\w+|[()\[\].,])")


class TemplateError(Exception):
    """The template cannot be evaluated; the text is what Azure would put into InvalidTemplate."""


class NotYet(Exception):  # noqa: N818 - no error: the resource comes later
    """A reference to a resource that is not there yet."""


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

    # expressions

    def value(self, node: Any) -> Any:
        """Evaluate every expression in a JSON value."""
        if isinstance(node, str):
            return read(node[1:-1])(self) if node[:1] + node[-1:] == "[]" else node
        if isinstance(node, list):
            return [self.value(x) for x in node]
        if isinstance(node, dict):
            return {key: self.value(entry) for key, entry in node.items()}
        return node

    def loop(self, loop: dict[str, Any], body: Callable[[], Any]) -> Iterator[Any]:
        """Evaluate `body` for every index of a copy loop."""
        name = loop.get("name", "")
        for i in range(self.value(loop["count"])):
            self.loops[name] = i
            try:
                yield body()
            finally:
                self.loops.pop(name, None)

    def call(self, name: str, arguments: list[Node]) -> Any:
        """Call a function; `if` evaluates one branch only."""
        function = name.lower()
        if function == "if":
            return arguments[1](self) if arguments[0](self) else arguments[2](self)
        given = [x(self) for x in arguments]
        own = getattr(self, f"_f_{function}", None)
        if own is None and function not in PURE:
            raise TemplateError(f"The template function '{name}' is not valid.")
        return own(*given) if own else PURE[function](*given)

    # functions that need the deployment

    def _f_parameters(self, name: str) -> Any:
        if name not in self.parameters:
            raise TemplateError(f"The template parameter '{name}' is not found.")
        return self.parameters[name]

    def _f_copyindex(self) -> int:
        return list(self.loops.values())[-1]

    def _f_resourceid(self, kind: str, *names: str) -> str:
        namespace, *types = kind.split("/")
        if len(types) != len(names):
            raise TemplateError(f"'resourceId': the type '{kind}' requires {len(types)} names.")
        tail = "".join(f"/{t}/{n}" for t, n in zip(types, names, strict=True))
        group = f"/subscriptions/{self.subscription}/resourceGroups/{self.group}"
        return f"{group}/providers/{namespace}{tail}"

    def _f_subscriptionresourceid(self, kind: str, name: str) -> str:
        return f"/subscriptions/{self.subscription}/providers/{kind}/{name}"

    def _f_pickzones(self, namespace: str, kind: str, location: str, count: int) -> list[str]:
        every = [str(i + 1) for i in range(self.zones.get(location, 0))]
        if every and count > len(every):
            raise TemplateError(f"'pickZones': {location} has {len(every)} zones, not {count}.")
        return every[:count]

    def _f_reference(self, target: str, version: str = "") -> Any:
        found = self.reference(target)
        if found is None:
            raise NotYet(target)
        return found.get("properties", {})


Node = Callable[[Scope], Any]


@cache
def read(text: str) -> Node:
    """An expression, ready to be evaluated."""
    words = TOKEN.findall(text)
    value, rest = _parse(words, text)
    if rest or "".join(words).replace(" ", "") != text.replace(" ", ""):
        raise TemplateError(f"Unable to parse language expression '{text}'")
    return value


def _parse(words: list[str], text: str) -> tuple[Node, list[str]]:
    """Recursive descent to closures."""
    word, rest = words[0], words[1:]
    node: Node
    if word.startswith("'"):
        literal: Any = word[1:-1].replace("''", "'")
        node = lambda _: literal  # noqa: E731
    elif word.lstrip("-").isdecimal():
        node = lambda _: int(word)  # noqa: E731
    elif rest[:1] == ["("]:
        rest, arguments = rest[1:], []
        while rest[:1] != [")"]:
            argument, rest = _parse(rest, text)
            arguments.append(argument)
            rest = rest[1:] if rest[:1] == [","] else rest
        rest = rest[1:]
        node = lambda scope: scope.call(word, arguments)  # noqa: E731
    else:
        raise TemplateError(f"Unable to parse language expression '{text}': unexpected '{word}'")
    while rest[:1] in (["."], ["["]):
        key: Node
        if rest[0] == ".":
            key, rest = (lambda _, key=rest[1]: key), rest[2:]
        else:
            key, rest = _parse(rest[1:], text)
            rest = rest[1:]
        node = lambda scope, node=node, key=key: _item(node(scope), key(scope))  # noqa: E731
    return node, rest


def _item(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (KeyError, IndexError, TypeError):
        raise TemplateError(f"The language expression property '{key}' doesn't exist.") from None


def _same(a: Any, b: Any) -> bool:
    return a.lower() == b.lower() if isinstance(a, str) and isinstance(b, str) else bool(a == b)


def _subnet(prefix: str, size: int, index: int) -> str:
    return str(next(islice(ip_network(prefix).subnets(new_prefix=size), index, None)))


PURE: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "cidrsubnet": _subnet,
    "createarray": lambda *a: list(a),
    "createobject": lambda *a: dict(zip(a[::2], a[1::2], strict=True)),
    "empty": lambda a: not a,
    "equals": _same,
    "first": lambda a: a[0],
    "format": lambda form, *a: re.sub(r"\{(\d+)\}", lambda m: str(a[int(m[1])]), form),
    "length": len,
    "not": lambda a: not a,
    "null": lambda: None,
    "true": lambda: True,
}


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


def expand(template: dict[str, Any], scope: Scope) -> list[Item]:
    """Resources of a template: loops and conditions resolved, dependencies as lower-case ids."""
    items: list[Item] = []
    absent: set[str] = set()

    def one(source: dict[str, Any], loops: dict[str, int]) -> None:
        kind, name = source["type"], scope.value(source["name"])
        where = scope._f_resourceid(kind, *name.split("/"))
        if not scope.value(source.get("condition", True)):
            absent.add(where.lower())
            return
        depends = {d.lower() for d in scope.value(source.get("dependsOn", []))}
        body = {k: v for k, v in source.items() if k not in ASIDE}

        def evaluate() -> dict[str, Any]:
            scope.loops.update(loops)
            try:
                out: dict[str, Any] = without_nulls(scope.value(body))
                return out
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
            raise TemplateError(f"The resource '{unknown}' is not defined in the template.")
        item.depends &= ids
    return items


def without_nulls(node: Any) -> Any:
    """A null in a template is an absent property."""
    if isinstance(node, dict):
        return {k: without_nulls(v) for k, v in node.items() if v is not None}
    return [without_nulls(v) for v in node] if isinstance(node, list) else node
