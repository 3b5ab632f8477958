"""How much of the readers the tests hold: change one constant or one comparison, and see whether
a test turns red.

``python -m tests.tools.mutate [--sample 300] [--seed 1]`` changes the source in memory: a number is
one more (from 100 on: twice as large), a text has another end, a comparison is its opposite. Each
change is tried in a fork of this process, which has everything imported but the library's readers.
First the golden logs of the changed tool are read, then their damaged copies and the conformance
corpus; a change that they do not show runs the other tests of the readers. The sample takes the
same share of every file. It prints the share that turned a test red, and every change that did not.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd  # noqa: F401 - what tests import is imported once, and shared by all processes
import pytest

from netperf_lib.experiment import model  # noqa: F401
from tests.tools import golden

PACKAGE = Path(__file__).parents[2] / "netperf_lib"
PAIRS = (
    (ast.Lt, ast.GtE),
    (ast.Gt, ast.LtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
)
OPPOSITE = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
TESTS = ["tests/tools", "tests/data/test_logs.py", "--ignore=tests/tools/test_golden.py"]
TESTS += [
    "--ignore=tests/tools/test_conformance.py",
    "--ignore=tests/tools/test_corpus.py",
]
WITHOUT = """any_ runs_and documentation ipv6 what_arrived throughput_is full_round two_logs
cannot_be_used packed_log a_folder_a_pattern""".split()
"""Tests that take long: they draw thousands of logs, or run the tools."""
DOCUMENTS = golden.documents()
SECONDS = 120
"""Time of the processor after which a change is a loop."""


@dataclass(frozen=True)
class Change:
    """Change one of the `places` of a file."""

    path: str
    place: int

    def tree(self):
        """Return the changed syntax tree, and the changed node."""
        tree = ast.parse((PACKAGE / self.path).read_text("utf-8"))
        node = list(places(tree))[self.place]
        if isinstance(node, ast.Compare):
            node.ops = [OPPOSITE[type(node.ops[0])]()]
        elif isinstance(node.value, str):
            # of characters to strip, one fewer
            node.value = node.value[:-1] if hasattr(node, "strips") else f"{node.value}~"
        else:
            node.value = node.value + 1 if abs(node.value) < 100 else 2 * node.value
        return tree, node


def can_change(node):
    """Return whether a node is a number or a text of one line, or a comparison of two things."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1
    if not isinstance(node, ast.Constant) or node.lineno != node.end_lineno:
        return False
    return type(node.value) in (int, float, str) and node.value != ""


def places(node):
    """Yield every node that can be changed.

    Texts that only people read are left out: docstrings, annotations, parts of formatted texts.
    """
    if can_change(node):
        yield node
    if isinstance(node, ast.Call) and "strip" in ast.unparse(node.func):
        for argument in node.args:
            argument.strips = True
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns") or isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                continue
            if isinstance(child, ast.AST):
                yield from places(child)


class Loader(importlib.abc.Loader):
    """Loads a changed syntax tree under the name of the module."""

    def __init__(self, tree, path):
        self._tree, self._path = tree, path

    def exec_module(self, module):
        tree = ast.fix_missing_locations(self._tree)
        exec(compile(tree, str(self._path), "exec"), module.__dict__)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one changed module."""

    def __init__(self, change):
        self._path = PACKAGE / change.path
        self._name = "netperf_lib." + change.path.removesuffix(".py").removesuffix(
            "/__init__"
        ).replace("/", ".")
        self._tree, _ = change.tree()

    def find_spec(self, name, path, target=None):
        if name != self._name:
            return None
        inside = [str(self._path.parent)] if self._path.name == "__init__.py" else None
        loader = Loader(self._tree, self._path)
        return importlib.util.spec_from_file_location(
            name, self._path, loader=loader, submodule_search_locations=inside
        )


def red(change):
    """Whether a test shows the change; in this process, which is of no use afterwards."""
    sys.meta_path.insert(0, Finder(change))
    for name in [
        n
        for n in sys.modules
        if n.startswith(("netperf_lib.tools", "netperf_lib.data", "tests.tools."))
    ]:
        del sys.modules[name]
        package, _, last = name.rpartition(".")
        if package in sys.modules:
            # else it would be imported from there
            vars(sys.modules[package]).pop(last, None)
    return _figures_differ(Path(change.path).parts[1].removesuffix(".py")) or bool(
        pytest.main(
            [
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                *TESTS,
                "-k",
                f"not ({' or '.join(WITHOUT)})",
            ]
        )
    )


def _figures_differ(part):
    """Whether a log, a damaged log, a document of the corpus or a command is different."""
    from tests.tools import golden, test_commands

    if list(test_commands.told()) != test_commands.EXPECTED.read_text().splitlines():
        return True
    names = {log.parent.name for log in golden.golden_logs()}
    chosen = (
        {part}
        if part in names
        else {"iperf2", "iperf3"}
        if part == "iperf_rows"
        else names
    )
    logs = [log for log in golden.golden_logs() if log.parent.name in chosen]
    logs.sort(key=lambda log: log.stat().st_size)
    if any(map(golden.difference, logs)):
        return True
    expected = dict(line.split() for line in golden.DAMAGED.read_text().splitlines())
    small = [log for log in logs if f"{log.parent.name}/{log.name}" in expected]
    if any(
        golden.damaged(log) != expected[f"{log.parent.name}/{log.name}"] for log in small
    ):
        return True
    from tests.tools import test_conformance

    digests = test_conformance.DIGESTS.read_text().split()
    if any(golden.digest(edge) != edge["read"] for edge in golden.edges()):
        return True
    each = [
        pair for pair in zip(DOCUMENTS, digests, strict=True) if pair[0]["tool"] in chosen
    ]
    return any(test_conformance.digest(d) != digest for d, digest in each)


def shown(change):
    """`red` in a process of its own; an error is red, and so is a loop."""
    process = os.fork()
    if not process:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            os._exit(red(change))
        except BaseException:  # noqa: BLE001 - also SystemExit of what was changed
            os._exit(1)
    return os.waitpid(process, 0)[1] != 0


def stratified(size, rng):
    """Draw changes, the same share of every file."""
    files = {}
    for path in sorted((PACKAGE / "tools").rglob("*.py")):
        count = len(list(places(ast.parse(path.read_text("utf-8")))))
        files[str(path.relative_to(PACKAGE))] = range(count)
    total = sum(map(len, files.values()))
    drawn = []
    for path, every in files.items():
        sample = rng.sample(every, round(size * len(every) / total))
        drawn += [Change(path, place) for place in sample]
    return drawn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="the beginning of the paths to change")
    a = parser.parse_args()
    chosen = [
        c
        for c in stratified(a.sample, random.Random(a.seed))
        if c.path.startswith(f"tools/{a.only}")
    ]
    survivors = 0
    for i, change in enumerate(chosen, 1):
        if not shown(change):
            survivors += 1
            _, node = change.tree()
            print(f"{i} {change.path}:{node.lineno}: {ast.unparse(node)}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} changes turn a test red")


if __name__ == "__main__":
    main()
