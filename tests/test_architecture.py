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
    """What is imported of the project itself, each name with its module: ``.data.layout.Store``."""
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
    "cli": "errors metrics quantities experiment hosts measure data analysis plots reporting "
    "pipeline",
}


def test_the_layers_have_no_cycle():
    order = [
        *TopologicalSorter(
            {part: below.split() for part, below in LAYERS.items()}
        ).static_order()
    ]
    assert (order[0], order[-1]) == ("errors", "cli")


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


def test_there_is_no_attic():
    assert not [
        p for p in MODULES if p.stem in ("utils", "util", "helpers", "common", "misc")
    ]


PROTOCOLS = {
    "tools": "NAME MARKS STATES_CONDITIONS sightings read commands rate_bps PACKAGE VERSION TESTS "
    "LOAD_TESTS OPTIONS",
    "hosts": "Options EPHEMERAL HOLDS up down cost spent",
    "plots": "levels limits roofs rounds shift streams waits",  # a plot is called as what it shows
}
"""Names that several modules of a part have, since they are members of a protocol."""
DOUBLED = set(
    """
    TEMPLATES WORDS check clean collect examine judge leftovers levels log observe overview
    parse start text
    """.split()
)
"""Other names that still stand in two modules, with different meanings: none may be added."""


def test_one_name_means_one_thing():
    modules = {}
    for path in MODULES:
        for node in parsed(path).body:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [getattr(node, "target", node)]
            )
            for defined in {
                t.id if isinstance(t, ast.Name) else getattr(t, "name", "_")
                for t in targets
            }:
                part = name(path).split("/")[0]
                # a verb of the command line calls the function of its name
                if (
                    defined[0] != "_"
                    and part != "cli"
                    and defined not in PROTOCOLS.get(part, "").split()
                ):
                    modules.setdefault(defined, set()).add(name(path))
    doubled = {defined: places for defined, places in modules.items() if len(places) > 1}
    assert {
        defined: places for defined, places in doubled.items() if defined not in DOUBLED
    } == {}


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


VERBS = set(
    """
    Add Ask Await Begin Bring Call Carry Check Close Compare Connect Convert Copy Count Create
    Decide Decode Delete Deploy Derive Describe Disprove Do Draw Drop End Estimate Exclude Execute
    Expand Explain Explore Find Fork Freeze Give Go Have Hold Import Join Judge Keep Leave Let List
    Load Look Make Measure Meet Mount Name Open Pin Place Preview Print Project Raise Read Record
    Refuse Remove Render Report Restore Return Run Say Scale Schedule Show Sort Start Stop Store
    Summarise Take Teach Tell Turn Undo Wait Wake Write Yield
    """.split()
)
"""What the docstring of a public function begins with; add a verb, not a noun."""


def docstrings(nodes):
    """Yield the docstrings of public functions and methods; a property names what it is."""
    for node in nodes:
        if getattr(node, "name", "_")[0] == "_":
            continue
        if isinstance(node, ast.ClassDef):
            yield from docstrings(node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            kinds = map(ast.unparse, node.decorator_list)
            if not any("property" in kind for kind in kinds):
                yield ast.get_docstring(node) or "Return"


def test_a_docstring_says_what_a_function_does():
    said = [text for path in MODULES for text in docstrings(parsed(path).body)]
    first = re.compile(r"\w+")
    assert len(said) > 500
    assert [t for t in said if not (m := first.match(t)) or m[0] not in VERBS] == []


def code_lines(function):
    """Return the lines of a function below its docstring."""
    first, *others = function.body
    below = others[0] if ast.get_docstring(function) and others else first
    return (function.end_lineno or 0) - below.lineno + 1


def test_no_function_is_longer_than_a_screen():
    for path in MODULES:
        nodes = [*ast.walk(parsed(path))]
        functions = [
            n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        assert {f.name for f in functions if code_lines(f) > 70} == set(), path


def test_tests_stand_where_their_package_stands():
    of_no_package = {
        "bench",
        "logs",
        "notebooks",
        "studies",
    }  # fixtures; whole experiments
    tests = PACKAGE.parent / "tests"
    folders = (
        {path.relative_to(tests).parent.as_posix() for path in tests.rglob("test_*.py")}
        - {"."}
        - of_no_package
    )
    packages = {path.relative_to(PACKAGE).parent.as_posix() for path in MODULES}
    assert folders <= packages


def test_the_page_on_the_way_of_a_datum_names_what_is_there():
    """Every file that the page names exists, and defines the names that follow it, or precede it
    with "of"."""
    page = (PACKAGE.parent / "docs" / "explanation" / "layout.md").read_text("utf-8")
    for file in re.findall(r"`([\w/]+/(?:\w+\.\w+)?)`", page):
        assert any((root / file).exists() for root in (PACKAGE, PACKAGE.parent)), file
    rows = re.findall(r"(?m)^\| [^|]+ \| `([\w/]+\.py)` \| `(\w+)` \|", page)
    assert len(rows) > 10
    for name_, file in [(n, f) for f, n in rows] + re.findall(
        r"`(\w+)`s?,? of `([\w/]+\.py)`", page
    ):
        tree = ast.parse((PACKAGE / file).read_text("utf-8"))
        assert name_ in {getattr(node, "name", "") for node in tree.body}, (
            f"{file} has no {name_}"
        )
    defined = {
        getattr(node, "name", "") for path in MODULES for node in parsed(path).body
    }
    assert set(re.findall(r"`([A-Z]\w+)`", page)) <= defined


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
