"""A process that executes notebooks, when nobody waits for its answer any more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import nbformat

from netperf_lib.reporting.worker import PROGRAM


def test_worker_of_a_killed_report_ends_quietly(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")])  # type: ignore[no-untyped-call]
    nbformat.write(notebook, tmp_path / "a.ipynb")  # type: ignore[no-untyped-call]
    request = {
        "notebook": str(tmp_path / "a.ipynb"),
        "executed": str(tmp_path / "b.ipynb"),
        "parameters": {},
        "own": False,
    }
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as worker:
        worker.stdout.close()  # type: ignore[union-attr]
        worker.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
        worker.stdin.close()  # type: ignore[union-attr]
        said = worker.stderr.read()  # type: ignore[union-attr]
    assert (tmp_path / "b.ipynb").exists()
    assert "Traceback" not in said
