"""The examples of the documentation run: each figure has one, and so has each function that
people type."""

import doctest
import inspect
import types
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import netperf_lib as npl

MODULES = (npl, npl.analysis, npl.plots, npl.hosts, npl.workshop)
FUNCTIONS = {
    f"{module.__name__}.{name}": value
    for module in MODULES
    for name in dir(module)
    if inspect.isfunction(value := getattr(module, name))
}
WITHOUT = {
    "netperf_lib.collect",
    "netperf_lib.report",
    "netperf_lib.run",
    "netperf_lib.reporting.workshop.start",
}
"""Functions that measure, typeset or serve, for more seconds than an example may take; other tests
run them."""


def test_each_function_has_an_example_or_is_listed():
    lacking = {
        name
        for name, f in FUNCTIONS.items()
        if ">>>" not in (f.__doc__ or "") or "+SKIP" in (f.__doc__ or "")
    }
    assert lacking == WITHOUT


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - WITHOUT))
def test_the_example_of_a_function_runs(name, exp, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    function = inspect.unwrap(FUNCTIONS[name])
    names = {**vars(inspect.getmodule(function)), "npl": npl, "exp": exp}
    (example,) = doctest.DocTestFinder(recurse=False).find(
        function, function.__name__, globs=names
    )
    assert example.examples, "it has no example"
    runner = doctest.DocTestRunner()
    shown = []
    runner.run(example, out=shown.append)
    assert runner.failures == 0, "".join(shown)
    plt.close("all")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_a_public_module_shows_its_public_names_and_nothing_else(module):
    shown = dir(module)
    assert shown == sorted(set(shown))
    assert set(shown) == set(module.__all__)
    parts = {n for n in shown if isinstance(getattr(module, n), types.ModuleType)}
    assert parts <= (
        {"analysis", "hosts", "plots", "workshop"} if module is npl else set()
    )
    assert not [n for n in shown if n.startswith("_") and n != "__version__"]
