"""Cells of a notebook, executed in this process."""

import ast
import builtins
import re

import matplotlib.pyplot as plt
import nbformat
import pytest

from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.runs import measurement
from netperf_lib.errors import NothingToReport


def shared(lead):
    """Every page asks the first one, in a process of its own: here they share its answer on the
    same runs."""
    known = {}

    def asked(data, **options):
        source = measurement(data)
        key = source.runs.to_csv(), repr(source.origin), repr(options)
        if key not in known:
            known[key] = lead(data, **options)
        return known[key]

    return asked


LEAD = shared(lead_paragraph)


def last_value(code, names):
    """Execute code; return the value of its last expression, or None."""
    tree = ast.parse(code)
    if not (tree.body and isinstance(tree.body[-1], ast.Expr)):
        tree.body += ast.parse("None").body
    last = tree.body.pop()
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def executed(book, parameters):
    """Execute the cells of a notebook; return its names, and what it shows, figures among it."""
    names = {}
    outputs = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netperf_lib.reporting.answer.lead_paragraph", LEAD)
        patch.setattr(
            builtins, "display", lambda *some: outputs.extend(some), raising=False
        )
        for cell in nbformat.read(book, as_version=4).cells:
            if cell.cell_type != "code":
                continue
            plt.close("all")  # as in a notebook, a cell begins a figure of its own
            try:
                shown = last_value(re.sub(r"(?m)^%.*$", "", cell.source), names)
            except NothingToReport as end:
                outputs.append(f"Not in this experiment: {end}")
                break
            if shown is not None:
                whole = getattr(shown, "parts", None)
                outputs += whole() if callable(whole) else [shown]
            outputs += [f for f in map(plt.figure, plt.get_fignums()) if f.axes]
            if "parameters" in cell.metadata.get("tags", []):
                names |= parameters
    plt.close("all")
    return names, outputs
