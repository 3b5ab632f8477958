"""Cells of a notebook, executed in this process."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import pytest


def executed(book: Path, parameters: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Execute the cells of a notebook; return its names, and what it shows."""
    names: dict[str, Any] = {}
    outputs: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtins, "display", lambda *some: outputs.extend(some), raising=False)
        for cell in nbformat.read(book, as_version=4).cells:
            if cell.cell_type != "code":
                continue
            plt.close("all")  # as in a notebook, a cell begins a figure of its own
            tree = ast.parse(re.sub(r"(?m)^%.*$", "", cell.source))
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, book.name, "exec"), names)
            if isinstance(last, ast.Expr):
                shown = eval(compile(ast.Expression(last.value), book.name, "eval"), names)
                outputs += shown.parts() if hasattr(shown, "parts") else [shown]
            if "parameters" in cell.metadata.get("tags", []):
                names |= parameters
    plt.close("all")
    return names, outputs
