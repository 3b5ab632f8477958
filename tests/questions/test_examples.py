"""The examples of the documentation run: each figure has one, and so has each function that people type."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import netperf_lib as npl

MODULES = (npl, npl.questions, npl.plots, npl.hosts, npl.workshop, npl.stats)
FUNCTIONS = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name in dir(module)
    if inspect.isfunction(value := getattr(module, name))
}
WITHOUT = {
    "netperf_lib": "bundle collect down ingest report run up",
    "netperf_lib.hosts": "budget_reached cost deployed options release",
    "netperf_lib.reporting.workshop": "start",
}
"""Functions whose example would need hosts, minutes or a table made for it: tests of their own run them."""


@pytest.fixture(scope="module")
def exp() -> Any:
    return npl.read(npl.recorded())


def test_no_function_is_listed_that_has_an_example() -> None:
    named = {f"{module}.{name}" for module, names in WITHOUT.items() for name in names.split()}
    lacking = {name for name, f in FUNCTIONS.items() if ">>>" not in (f.__doc__ or "") or "+SKIP" in (f.__doc__ or "")}
    assert lacking <= named


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_runs(name: str, exp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, short = name.rpartition(".")
    if short in WITHOUT.get(module, "").split():
        pytest.skip("needs hosts, minutes or a table made for it")
    monkeypatch.chdir(Path(__file__).parents[2])
    function: Any = inspect.unwrap(FUNCTIONS[name])
    names = {**vars(inspect.getmodule(function)), "npl": npl, "exp": exp}  # type: ignore[arg-type]
    (example,) = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=names)
    assert example.examples, "it has no example"
    runner = doctest.DocTestRunner()
    shown: list[str] = []
    runner.run(example, out=shown.append)
    assert runner.failures == 0, "".join(shown)
    plt.close("all")
