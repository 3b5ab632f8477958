"""The examples of the documentation run: each figure has one, and so has each function that people type."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

import netperf_lib as npl

PLOTS = [getattr(npl.plots, name) for name in dir(npl.plots) if inspect.isfunction(getattr(npl.plots, name))]
TYPED = [npl.observe, npl.levels, npl.ask, npl.compare, npl.limits]


@pytest.fixture(scope="module")
def exp() -> Any:
    return npl.read(npl.recorded())


@pytest.mark.parametrize("function", [*PLOTS, *TYPED], ids=lambda f: f.__name__)
def test_the_example_of_a_function_runs(function: Any, exp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    function = inspect.unwrap(function)
    names = {**vars(inspect.getmodule(function)), "npl": npl, "exp": exp}  # type: ignore[arg-type]
    (example,) = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=names)
    assert example.examples, "it has no example"
    runner = doctest.DocTestRunner()
    shown: list[str] = []
    runner.run(example, out=shown.append)
    assert runner.failures == 0, "".join(shown)
    plt.close("all")
