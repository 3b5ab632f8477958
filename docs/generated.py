"""Sphinx extension that writes the reference pages from the code before each build."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterable
from contextlib import chdir
from itertools import pairwise
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

__all__ = ["setup"]


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(list(head))]
    lines += [
        "| "
        + " | ".join(str(c).replace("|", "\\|").replace("\n", " ") for c in row)
        + " |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def metrics() -> str:
    """Return the page of all metrics with their units, directions and bases."""
    from netperf_lib.metrics import METRICS

    rows = [
        (f"`{m.name}`", m.label, m.unit, m.better or "–", m.basis or "–")
        for m in METRICS.values()
    ]
    head = ("name", "meaning", "unit", "better", "basis")
    return (
        "# Metrics\n\nColumns of the tables are named `<quantity>[_<statistic>]_<unit>`. A "
        "missing value is null, "
        "never zero. Latencies of different bases are different metrics and are never merged.\n\n"
        + _table(head, rows)
    )


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(s) for s in schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "enum" in schema:
        return ", ".join(f"`{v}`" for v in schema["enum"])
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {_type(schema['items'])}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _written(name: str) -> dict[str, str]:
    """Return the texts below the fields of a class of the declaration, by field."""
    from netperf_lib.experiment import model

    tree = ast.parse(Path(str(model.__file__)).read_text("utf-8"))
    (body,) = (
        n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name
    )
    texts = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            texts[ast.unparse(field.target)] = inspect.cleandoc(
                ast.literal_eval(text.value)
            )
    return texts


def _told(field: dict[str, Any], parts: dict[str, Any]) -> str:
    """Return the description of the schema part that a field refers to."""
    name = field.get("$ref", "").rsplit("/", 1)[-1]
    return str(parts.get(name, {}).get("description", "")).split("\n\n")[0]


def _fields(title: str, schema: dict[str, Any], parts: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = []
    for name, field in schema.get("properties", {}).items():
        default = (
            "required"
            if name in required
            else f"`{json.dumps(field['default'])}`"
            if "default" in field
            else "–"
        )
        rows.append(
            (
                f"`{name}`",
                _type(field),
                default,
                field.get("description") or _told(field, parts),
            )
        )
    text = schema.get("description", "")
    return f"## {title}\n\n{text}\n\n" + _table(
        ("field", "type", "default", "meaning"), rows
    )


def experiment() -> str:
    """Return the page of all fields of an experiment file."""
    from netperf_lib.experiment.model import Experiment

    schema = Experiment.model_json_schema()
    schema["required"] += ["pairs", "tests"]  # unless logs were imported
    known = schema.get("$defs", {})
    for name, part in {"Experiment": schema, **known}.items():
        for field, text in _written(name).items():
            part["properties"][field]["description"] = text
    parts = [_fields("Experiment", schema, known)]
    parts += [
        _fields(name, part, known) for name, part in known.items() if "properties" in part
    ]
    return "# Experiment files\n\n" + "\n".join(parts)


def _legal(kind: Any) -> str:
    return (
        ", ".join(f"`{v}`" for v in kind)
        if isinstance(kind, tuple)
        else getattr(kind, "__name__", str(kind))
    )


def options() -> str:
    """Return the page of the options of every tool and every source of hosts."""
    from netperf_lib import hosts
    from netperf_lib.tools import TOOLS

    parts = ["# Options", "", "## Tests", "", "`options:` of a test, by tool.", ""]
    for name, tool in TOOLS.items():
        tests = ", ".join(f"`{t}`" for t in tool.TESTS)
        rows = [
            (
                f"`{o.name}`",
                _legal(o.type),
                "–" if o.default is None else o.default,
                o.help,
            )
            for o in tool.OPTIONS
        ]
        table = (
            _table(("option", "type", "default", "meaning"), rows)
            if rows
            else "It has no options.\n"
        )
        parts += [f"### {name}", "", f"Tests: {tests}.", "", table]
    parts += ["## Hosts", "", "`hosts.options` of an experiment, by source.", ""]
    for name in hosts.SOURCES:
        schema = hosts.source(name).Options.model_json_schema()
        known = schema.get("$defs", {})
        parts.append(_fields(name, schema, known).replace("## ", "### ", 1))
        parts += [
            _fields(f"{name}: {part}", fields, known).replace("## ", "#### ", 1)
            for part, fields in known.items()
            if "properties" in fields
        ]
    return "\n".join(parts)


def factors() -> str:
    """Return the page of the known factors."""
    from netperf_lib.experiment.factors import FACTORS

    rows = [
        (
            f"`{f.name}`",
            f.label or f.name,
            f.kind,
            f.role,
            ", ".join(map(str, f.order)) or "–",
        )
        for f in FACTORS.values()
    ]
    return (
        "# Factors\n\nEvery factor, option and label of a run is a column of the table of runs. "
        "These factors also "
        "have a kind, a role or an order; a label of your own needs no entry.\n\n"
        + _table(("name", "called", "kind", "role", "order of levels"), rows)
    )


def _members(module: Any, names: Iterable[str]) -> list[str]:
    parts = []
    for name in names:
        value = getattr(module, name)
        kind = (
            "function"
            if inspect.isfunction(value)
            else "class"
            if inspect.isclass(value)
            else None
        )
        if kind:
            parts += [f".. auto{kind}:: {module.__name__}.{name}", ""]
    return parts


def api() -> str:
    """Return the page of the public names: those at the top level and those of each part."""
    import importlib

    import netperf_lib as npl

    parts = [
        "Python",
        "======",
        "",
        "``import netperf_lib as npl``",
        "",
        *_members(npl, npl.__all__),
    ]
    for name, home in {
        "plots": "plots",
        "analysis": "analysis",
        "workshop": "reporting.workshop",
    }.items():
        module = importlib.import_module(f"netperf_lib.{home}")
        title = f"npl.{name}"
        parts += [
            title,
            "-" * len(title),
            "",
            (module.__doc__ or "").strip(),
            "",
            *_members(module, module.__all__),
        ]
    return "\n".join(parts)


GALLERY = """# Gallery

Every figure that `npl.plots` draws, with the code that makes it. Each function takes an
experiment, its runs or what `npl.observe` returns, and returns a figure; with `ax=` it draws on
your own axes. The data come from the recorded experiment, whose hosts are emulated.
<a href="../report.html">The report</a> and <a href="../explorer.html">the explorer</a> show the
same data.

::::{{grid}} 2 2 3 3
:gutter: 3
{cards}
::::

```{{toctree}}
:hidden:

{names}
```
"""
CARD = """
:::{{grid-item-card}} {title}
:link: {name}
:link-type: doc
:img-top: {name}.svg
:img-alt: {title}
{text}
:::"""


def gallery(source: Path, folder: Path) -> None:
    """Run the sections of the gallery, and write a page with its figure for each.

    A page of thumbnails.
    """
    from netperf_lib.plots import Chart

    names: dict[str, Any] = {}
    cards = {}
    folder.mkdir(exist_ok=True)
    opening, *sections = re.split(r"(?m)^## .*\n", source.read_text("utf-8"))
    start = "".join(_python(opening))
    exec(start, names)  # noqa: S102  # our own page
    for section in sections:
        text = section.strip().split("\n\n")[0]
        for code in _python(section):
            names["shown"] = None
            with chdir(source.parent):
                exec(_with_result(code), names)  # noqa: S102
            if not isinstance(axes := names["shown"], Chart):
                continue
            plot = re.findall(r"npl\.plots\.(\w+)\(", code)[-1]
            head = plot.replace("_", " ").capitalize()
            (folder / f"{plot}.svg").write_text(axes.drawn.svg(), "utf-8")
            parts = [
                f"# {head}\n\n{text}\n",
                f"```{{figure}} {plot}.svg\n:alt: {head}\n\n{axes.drawn.caption}\n```\n",
                f"```python\n{start}\n{''.join(_python(section))}```\n",
                (
                    f"```{{eval-rst}}\n.. autofunction:: netperf_lib.plots.{plot}\n"
                    "   :no-index:\n```\n"
                ),
            ]
            _keep(folder / f"{plot}.md", "\n".join(parts))
            cards[plot] = CARD.format(title=head, name=plot, text=text)
    _keep(
        folder / "index.md",
        GALLERY.format(cards="".join(cards.values()), names="\n".join(cards)),
    )


def _python(text: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```", text)


def _with_result(code: str) -> Any:
    """Code that keeps its last expression as `shown`."""
    tree = ast.parse(code)
    if isinstance(tree.body[-1], ast.Expr):
        tree.body[-1] = ast.Assign(
            [ast.Name("shown", ast.Store())], tree.body[-1].value, lineno=1
        )
    return compile(ast.fix_missing_locations(tree), "figures.md", "exec")


def answers(place: Path) -> None:
    """Write the picture of the answers of the recorded experiment, for the home page."""
    import netperf_lib as npl

    figure: Any = npl.plots.forest(npl.compare(npl.read(npl.recorded()))).figure
    figure.savefig(place, dpi=150, metadata={"Software": None})


def azure_failures() -> str:
    """Return the page of what Azure refuses, and what is done about it."""
    from netperf_lib.hosts.azure.failures import KINDS

    refused = Path(__file__).parent.parent / "tests" / "hosts" / "azure" / "refusals.tsv"
    refusals = [line.split("\t") for line in refused.read_text("utf-8").splitlines()[1:]]
    shown = sorted({(code, kind, page) for code, kind, _, page in refusals})
    kinds = [(f"`{name}`", kind.meaning, kind.advice) for name, kind in KINDS.items()]
    codes = [(f"`{c}`", f"`{k}`", f"<{page}>") for c, k, page in shown if c != "az"]
    return (
        "# What Azure refuses\n\nEvery failure of `az` and of a deployment has a kind, which is "
        "read from Azure's error code or, if the code is not specific, from its message. What is "
        "not known is `passing`.\n\n"
        + _table(("kind", "what is done", "what you are told to do"), kinds)
        + "\n## Refusals on public pages\n\nA test reads each of these as az prints it.\n\n"
        + _table(("code", "kind", "source"), codes)
    )


VERBS = """# Command line

To complete commands, options and files with the tab key, add this line to `~/.bashrc`. For zsh and
fish, write `zsh_source` or `fish_source` instead:

```console
$ eval "$(_NPL_COMPLETE=bash_source npl)"
```

```{eval-rst}
.. click:: netperf_lib.cli:npl
   :prog: npl
   :nested: full
```
"""

PAGES = {
    "verbs.md": lambda: VERBS,
    "azure-failures.md": azure_failures,
    "metrics.md": metrics,
    "experiment.md": experiment,
    "options.md": options,
    "factors.md": factors,
    "api.rst": api,
}


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "reference" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        _keep(folder / name, page())
    gallery(Path(app.srcdir) / "figures.md", Path(app.srcdir) / "gallery")
    answers(folder / "answers.png")


def _keep(place: Path, text: str) -> None:
    """Write a page that has changed."""
    if not place.exists() or place.read_text("utf-8") != text:
        place.write_text(text, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
