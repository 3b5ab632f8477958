"""The template language, as far as the resource manager's own documentation describes what this project and az use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
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
    variables: dict[str, Any]
    reference: Callable[[str], dict[str, Any] | None]
    loops: dict[str, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Name of a resource of the template to its id: `reference` takes both."""
    zones: dict[str, int] = field(default_factory=dict)
    """Region to its number of zones."""

    # expressions

    def value(self, node: Any) -> Any:
        """Evaluate every expression in a JSON value."""
        if isinstance(node, str):
            if node.startswith("[["):
                return node[1:]
            return (
                self._expression(node[1:-1])
                if node.startswith("[") and node.endswith("]")
                else node
            )
        if isinstance(node, list):
            return [self.value(x) for x in node]
        if not isinstance(node, dict):
            return node
        out: dict[str, Any] = {}
        for key, entry in node.items():
            if key == "copy" and isinstance(entry, list):
                for loop in entry:
                    out[loop["name"]] = list(
                        self.loop(loop, lambda loop=loop: self.value(loop["input"]))
                    )
            else:
                out[key] = self.value(entry)
        return out

    def loop(self, loop: dict[str, Any], body: Callable[[], Any]) -> Iterator[Any]:
        """Evaluate `body` for every index of a copy loop."""
        name = loop.get("name", "")
        for i in range(self.value(loop["count"])):
            self.loops[name] = i
            try:
                yield body()
            finally:
                self.loops.pop(name, None)

    def _expression(self, text: str) -> Any:
        return read(text)(self)

    def _call(self, name: str, arguments: list[Node]) -> Any:
        function = name.lower()
        if function == "if":
            return arguments[1](self) if arguments[0](self) else arguments[2](self)
        a = [x(self) for x in arguments]
        method = getattr(self, f"_f_{function}", None)
        if method:
            return method(*a)
        if function not in PURE:
            raise TemplateError(f"The template function '{name}' is not valid.")
        return PURE[function](*a)

    # functions that need the deployment

    def _f_parameters(self, name: str) -> Any:
        if name not in self.parameters:
            raise TemplateError(f"The template parameter '{name}' is not found.")
        return self.parameters[name]

    def _f_copyindex(self, *a: Any) -> int:
        if not self.loops:
            raise TemplateError(
                "The template function 'copyIndex' is not expected at this location."
            )
        name = next((x for x in a if isinstance(x, str)), list(self.loops)[-1])
        return self.loops[name] + next((x for x in a if isinstance(x, int)), 0)

    def _f_resourceid(self, *a: str) -> str:
        words = list(a)
        at = next(i for i, w in enumerate(words) if "/" in w)
        group = words[at - 1] if at else self.group
        namespace, *types = words[at].split("/")
        names = words[at + 1 :]
        if len(types) != len(names):
            raise TemplateError(
                f"Unable to evaluate template language function 'resourceId': the type '{words[at]}' requires "
                f"'{len(types)}' resource name argument(s), got '{len(names)}'."
            )
        tail = "".join(f"/{t}/{n}" for t, n in zip(types, names, strict=True))
        return (
            f"/subscriptions/{self.subscription}/resourceGroups/{group}/providers/{namespace}{tail}"
        )

    def _f_subscriptionresourceid(self, kind: str, *names: str) -> str:
        namespace, *types = kind.split("/")
        tail = "".join(f"/{t}/{n}" for t, n in zip(types, names, strict=True))
        return f"/subscriptions/{self.subscription}/providers/{namespace}{tail}"

    def _f_pickzones(
        self, namespace: str, kind: str, location: str, count: int = 1, offset: int = 0
    ) -> list[str]:
        every = [str(i + 1) for i in range(self.zones.get(location, 0))]
        if every and count + offset > len(every):
            raise TemplateError(
                f"'pickZones': {location} has {len(every)} zones, not {count + offset}."
            )
        return every[offset : offset + count]

    def _f_reference(self, target: str, version: str = "", full: str = "") -> Any:
        target = target if target.startswith("/") else self.names.get(target.lower(), target)
        found = self.reference(target)
        if found is None:
            raise NotYet(target)
        return found if full.lower() == "full" else found.get("properties", {})


Node = Callable[[Scope], Any]


@cache
def read(text: str) -> Node:
    """An expression, ready to be evaluated."""
    words = TOKEN.findall(text)
    if "".join(words).replace(" ", "") != re.sub(r"\s+", "", text).replace(" ", ""):
        strict = re.sub(r"'(?:[^']|'')*'", "''", text)
        if re.search(r"[^\w\s()\[\].,'-]", strict):
            raise TemplateError(f"Unable to parse language expression '{text}'")
    value, rest = _parse(words, text)
    if rest:
        raise TemplateError(
            f"Unable to parse language expression '{text}': expected end, found '{rest[0]}'"
        )
    return value


def _parse(words: list[str], text: str) -> tuple[Node, list[str]]:
    """Recursive descent to closures, so that `if` evaluates one branch only."""
    if not words:
        raise TemplateError(f"Unable to parse language expression '{text}': it ends too early")
    word, rest = words[0], words[1:]
    node: Node
    if word.startswith("'"):
        literal: Any = word[1:-1].replace("''", "'")
        node = lambda _: literal  # noqa: E731
    elif re.fullmatch(r"-?\d+", word):
        number = int(word)
        node = lambda _: number  # noqa: E731
    elif rest[:1] == ["("]:
        rest, arguments = rest[1:], []
        while rest[:1] != [")"]:
            argument, rest = _parse(rest, text)
            arguments.append(argument)
            if rest[:1] == [","]:
                rest = rest[1:]
            elif rest[:1] != [")"]:
                raise TemplateError(f"Unable to parse language expression '{text}': expected ')'")
        rest = rest[1:]
        node = lambda scope: scope._call(word, arguments)  # noqa: E731
    else:
        raise TemplateError(f"Unable to parse language expression '{text}': unexpected '{word}'")
    while rest[:1] in (["."], ["["]):
        key: Node
        if rest[0] == ".":
            key, rest = (lambda _, key=rest[1]: key), rest[2:]
        else:
            key, rest = _parse(rest[1:], text)
            if rest[:1] != ["]"]:
                raise TemplateError(f"Unable to parse language expression '{text}': expected ']'")
            rest = rest[1:]
        node = lambda scope, node=node, key=key: _item(node(scope), key(scope))  # noqa: E731
    return node, rest


def _item(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except (KeyError, IndexError, TypeError):
        known = ", ".join(holder) if isinstance(holder, dict) else type(holder).__name__
        raise TemplateError(
            f"The language expression property '{key}' doesn't exist, available properties are '{known}'."
        ) from None


def _text(x: Any) -> str:
    return (
        {True: "True", False: "False", None: ""}[x] if x is None or isinstance(x, bool) else str(x)
    )


def _same(a: Any, b: Any) -> bool:
    return a.lower() == b.lower() if isinstance(a, str) and isinstance(b, str) else bool(a == b)


PURE: dict[str, Callable[..., Any]] = {
    "createarray": lambda *a: list(a),
    "createobject": lambda *a: dict(zip(a[::2], a[1::2], strict=True)),
    "empty": lambda a: not a,
    "equals": _same,
    "first": lambda a: a[0],
    "format": lambda form, *a: re.sub(r"\{(\d+)\}", lambda m: _text(a[int(m[1])]), form),
    "length": len,
    "not": lambda a: not a,
    "null": lambda: None,
}


@dataclass
class Item:
    """One resource of a template, ready to be evaluated when its turn comes."""

    id: str
    type: str
    name: str
    loop: str
    depends: set[str]
    evaluate: Callable[[], dict[str, Any]]


def _id(scope: Scope, kind: str, name: str) -> str:
    return scope._f_resourceid(kind, *name.split("/"))


def expand(template: dict[str, Any], scope: Scope) -> list[Item]:
    """Concrete resources of a template: conditions and loops resolved, dependencies as lower-case ids."""
    items: list[Item] = []
    absent: set[str] = set()

    def one(source: dict[str, Any], loop: str, loops: dict[str, int]) -> None:
        kind, name = source["type"], scope.value(source["name"])
        if len(kind.split("/")) - 1 != len(name.split("/")):
            raise TemplateError(
                f"The template resource '{name}' for type '{kind}' has incorrect segment lengths."
            )
        for key in ("apiVersion", "type", "name"):
            if not source.get(key):
                raise TemplateError(f"The template resource '{name}' lacks '{key}'.")
        where = _id(scope, kind, name)
        if not scope.value(source.get("condition", True)):
            absent.add(where.lower())
            return
        depends = {d.lower() for d in scope.value(source.get("dependsOn", []))}
        body = {
            k: v
            for k, v in source.items()
            if k not in ("copy", "condition", "dependsOn", "comments", "resources")
        }

        def evaluate() -> dict[str, Any]:
            scope.loops.update(loops)
            try:
                out: dict[str, Any] = without_nulls(scope.value(body))
                return out
            finally:
                for used in loops:
                    scope.loops.pop(used, None)

        items.append(Item(where, kind, name, loop, depends, evaluate))

    sources = template.get("resources", [])
    for source in list(sources.values()) if isinstance(sources, dict) else sources:
        if "copy" in source:
            loop = source["copy"]["name"]
            for _ in scope.loop(
                source["copy"],
                lambda source=source, loop=loop: one(source, loop, dict(scope.loops)),
            ):
                pass
        else:
            one(source, "", {})

    scope.names |= {i.name.lower(): i.id for i in items}
    ids = {i.id.lower() for i in items}
    if len(ids) < len(items):
        twice = [i.id for i in items if sum(j.id.lower() == i.id.lower() for j in items) > 1]
        raise TemplateError(f"The resource '{twice[0]}' is defined multiple times in the template.")
    for item in items:
        resolved: set[str] = set()
        for wanted in item.depends:
            same_loop = {i.id.lower() for i in items if i.loop and i.loop.lower() == wanted}
            same_name = {i.id.lower() for i in items if i.name.lower() == wanted}
            if wanted in ids or wanted in absent:
                resolved |= {wanted} & ids
            elif same_loop or same_name:
                resolved |= same_loop or same_name
            elif wanted.startswith("/"):
                raise TemplateError(f"The resource '{wanted}' is not defined in the template.")
            else:
                raise TemplateError(
                    f"The resource '{wanted}' (dependsOn of '{item.name}') is not defined in the template."
                )
        item.depends = resolved
    return items


def without_nulls(node: Any) -> Any:
    """A null in a template is an absent property."""
    if isinstance(node, dict):
        return {k: without_nulls(v) for k, v in node.items() if v is not None}
    return [without_nulls(v) for v in node] if isinstance(node, list) else node
