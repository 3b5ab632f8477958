"""The layout as one table, held against the imports in the code."""

import ast
import importlib
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "netperf_lib"
MODULES = sorted(PACKAGE.rglob("*.py"))
IO_MODULES = {
    "asyncio",
    "asyncssh",
    "fsspec",
    "httpx",
    "os",
    "pathlib",
    "requests",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "urllib",
}


def name(path):
    return path.relative_to(PACKAGE).with_suffix("").as_posix().removesuffix("/__init__")


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


@cache
def imports(path):
    """Top-level names of foreign modules, and the project's own as ``.name`` relative to the
    package."""
    found = set()
    depth = len(path.relative_to(PACKAGE).parts)
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if not node.level:
                found.add((node.module or "").split(".")[0])
            elif node.level == depth:
                found.update(
                    [f".{node.module}"]
                    if node.module
                    else [f".{alias.name}" for alias in node.names]
                )
            else:
                base = path.relative_to(PACKAGE).parts[: depth - node.level]
                found.update(
                    ["." + ".".join([*base, *([node.module] if node.module else [])])]
                )
    return found


@cache
def members(path):
    """What is imported of the project itself, each name with its module: ``.data.raw.Record``."""
    parts = path.relative_to(PACKAGE).parent.parts
    return {
        "."
        + ".".join(
            [
                *parts[: len(parts) - node.level + 1],
                *filter(None, [node.module]),
                alias.name,
            ]
        )
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }


@cache
def calls(path):
    return {
        ast.unparse(n.func) for n in ast.walk(parsed(path)) if isinstance(n, ast.Call)
    }


def in_part(path, *parts):
    return name(path).split("/")[0] in parts


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
    by_name = {f".{name(p).replace('/', '.')}": p for p in MODULES}

    def target(imported):
        return imported if imported in by_name else imported.rpartition(".")[0]

    graph = {
        n: {t for i in members(p) if (t := target(i)) in by_name and t != n}
        for n, p in by_name.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_a_part_imports_only_what_its_layer_may():
    for path in MODULES:
        if name(path) not in ("", "__init__", "__main__"):
            part = name(path).split("/")[0]
            own = {
                n.lstrip(".").split(".")[0] for n in imports(path) if n.startswith(".")
            } - {
                part,
                "",
            }
            assert own <= set(LAYERS[part].split()), path


def test_pure_parts_do_no_io():
    for path in MODULES:
        if in_part(path, "experiment", "metrics", "errors", "tools"):
            # experiment/yaml.py reads the declaration: the one file that these parts open
            allowed = {"os", "pathlib"} if name(path) == "experiment/yaml" else set()
            assert not imports(path) & (IO_MODULES - allowed), path
            assert not calls(path) & {"open", "print", "input"}, path


def test_only_measure_hosts_and_reporting_start_processes():
    starts = re.compile(
        r"os\.(fork|exec|spawn|system|posix_spawn)|asyncio\.create_subprocess"
    )
    for path in MODULES:
        if not in_part(path, "measure", "hosts", "reporting"):
            # `workers` starts processes of its own kind, no other program
            allowed = {"multiprocessing"} if name(path) == "data/workers" else set()
            assert not imports(path) & (
                {"asyncssh", "multiprocessing", "pty", "subprocess"} - allowed
            ), path
            assert not [*filter(starts.match, calls(path))], path


def test_only_plots_imports_matplotlib():
    drawing = {
        name(path) for path in MODULES if imports(path) & {"matplotlib", "seaborn"}
    }
    assert {n for n in drawing if not n.startswith(("plots", "reporting"))} == set()


def test_only_data_knows_the_data_folder():
    names = r"raw|tables|run\.json|experiment\.yaml"
    folders = rf"[\"'](?:raw|tables)(?:/|[\"']\s*/)|/\s*[\"'](?:{names})[\"']"
    for path in MODULES:
        if not in_part(path, "data"):
            assert not re.findall(
                folders, re.sub(r'"""[\s\S]*?"""', "", path.read_text("utf-8"))
            ), path


def test_results_are_values_to_the_end():
    """Nothing is hung onto a table, changed in a frozen object, or read out of a message."""
    for path in MODULES:
        code = path.read_text("utf-8")
        assert ".attrs" not in code, path
        assert "object.__setattr__" not in code, path
        assert not re.search(r"\bin str\(e(rr(or)?|xc)?\)", code), path
        statements = [n.value for n in ast.walk(parsed(path)) if isinstance(n, ast.Expr)]
        assert not [n for n in statements if isinstance(n, ast.ListComp | ast.SetComp)], (
            path
        )


@pytest.mark.parametrize("module", ["netperf_lib"])
def test_editors_see_the_names_that_load(module):
    """What is imported for type checkers alone is what `__getattr__` finds."""
    loaded = importlib.import_module(module)
    tree = ast.parse(Path(loaded.__file__ or "").read_text("utf-8"))
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    names = {
        alias.name: "." * node.level + (node.module or alias.name)
        for node in checked.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(names) == loaded.__all__
    assert {name: names[name] for name in loaded._HOMES} == loaded._HOMES
