"""The layout as one table, held against the imports in the code."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

import netperf_lib

PACKAGE = Path(netperf_lib.__file__).parent


def dotted(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def parsed(module):
    return ast.parse(MODULES[module].read_text("utf-8"))


@cache
def imports(module):
    """Every name that a module imports, with where it comes from."""
    found, package = set(), dotted(MODULES[module].parent)
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            found |= {f"{source}.{alias.name}" for alias in node.names}
    return found


LAYERS = {
    # a part of the package: the parts that it may import
    "errors": "",
    "metrics": "errors",
    "quantities": "metrics",
    "tools": "errors metrics quantities",
    "experiment": "errors metrics quantities tools",
    "measure": "errors metrics experiment tools data",
    "hosts": "errors metrics experiment tools data measure",
    "data": "errors metrics quantities experiment tools",
    "analysis": "errors metrics experiment tools data",
    "plots": "errors metrics experiment analysis",
    "reporting": "errors metrics quantities experiment data analysis plots hosts",
    "pipeline": "errors metrics experiment hosts measure data analysis reporting",
    "terminal": "errors metrics analysis",
    "cli": "errors metrics quantities experiment hosts measure data analysis plots reporting "
    "pipeline terminal",
}


def test_no_module_imports_itself_through_others():
    graph = {}
    for module in MODULES:
        homes = {i if i in MODULES else i.rpartition(".")[0] for i in imports(module)}
        graph[module] = (homes & MODULES.keys()) - {module}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


@pytest.mark.parametrize("part", LAYERS)
def test_a_part_imports_only_what_its_layer_may(part):
    for module in MODULES:
        if f"{module}.".startswith(f"netperf_lib.{part}."):
            own = {
                i.split(".")[1] for i in imports(module) if i.startswith("netperf_lib.")
            }
            assert own <= {part, "__version__", *LAYERS[part].split()}, module


DOING = "hosts measure data analysis plots reporting pipeline terminal cli __main__"


@pytest.mark.parametrize(
    ("libraries", "parts"),
    [
        # `workers` starts processes of its own kind, no other program
        (
            "asyncssh multiprocessing pty subprocess",
            "measure hosts reporting data.workers",
        ),
        ("matplotlib seaborn", "plots reporting"),
        # what is declared is read from one file
        ("os pathlib", f"{DOING} experiment.yaml"),
        ("asyncio httpx requests shutil socket tempfile urllib", DOING),
    ],
)
def test_only_some_parts_draw_read_and_start_processes(libraries, parts):
    may = tuple(f"netperf_lib.{part}." for part in parts.split())
    for module in [m for m in MODULES if m != "netperf_lib"]:
        if not f"{module}.".startswith(may):
            used = {name.split(".")[0] for name in imports(module)}
            assert not used & {*libraries.split()}, module


def test_only_data_knows_the_data_folder():
    names = r"raw|tables|run\.json|experiment\.yaml"
    folders = rf"[\"'](?:raw|tables)(?:/|[\"']\s*/)|/\s*[\"'](?:{names})[\"']"
    for module, path in MODULES.items():
        if not module.startswith("netperf_lib.data."):
            code = re.sub(r'"""[\s\S]*?"""', "", path.read_text("utf-8"))
            assert re.findall(folders, code) == [], module


def test_results_are_values_to_the_end():
    """Nothing is hung onto a table, changed in a frozen object, or read out of a message."""
    for module, path in MODULES.items():
        hung = r"\.attrs|object\.__setattr__|\bin str\(e(rr(or)?|xc)?\)"
        assert not re.search(hung, path.read_text("utf-8")), module


def test_editors_see_the_names_that_load():
    """What is imported for type checkers alone is what `__getattr__` finds."""
    checked = next(n for n in parsed("netperf_lib").body if isinstance(n, ast.If))
    names = {}
    for node in [n for n in checked.body if isinstance(n, ast.ImportFrom)]:
        for alias in node.names:
            names[alias.name] = "." * node.level + (node.module or alias.name)
    assert sorted(names) == netperf_lib.__all__
    assert {name: names[name] for name in netperf_lib._HOMES} == netperf_lib._HOMES
