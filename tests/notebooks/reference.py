"""Executed reference notebooks, which nbval executes again and compares.

``python -m tests.notebooks.reference`` writes them anew, or those whose names it is given, for
example when the recorded experiment was measured again: look at what changed before it is kept.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
import papermill

import netperf_lib as npl
from netperf_lib.reporting import notebooks

FOLDER = Path(__file__).parent / "reference"
RECORDED = npl.recorded().parent
OTHERS = {"05-paths": "paths", "before-after": "after", "pairs": "zones", "time": "day"}
"""Recordings of what the recorded experiment does not answer, by notebook."""
CHANGING = ("npl.explore(exp)", "@interact", "npl.summary(", "from ipywidgets")
"""Cells that show a page, a widget, a path, or what was before: nbval executes them alone."""


def executed(name):
    """Execute a notebook, and leave of it what means something the next time."""
    given = {"experiment": f"{RECORDED}/{OTHERS.get(name, 'lab-full')}"}
    if name == "before-after":
        given["before"] = f"{RECORDED}/before"
    with tempfile.TemporaryDirectory() as folder:
        done = Path(folder, "executed.ipynb")
        # in a kernel, as nbval executes it: a report prints fewer digits
        papermill.execute_notebook(
            notebooks()[name], done, given, kernel_name="python3", progress_bar=False
        )
        book = nbformat.read(done, as_version=4)
    book.metadata = {"kernelspec": book.metadata["kernelspec"]}
    for cell in book.cells:
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:  # the experiment lies elsewhere each time
            source = cell.source.replace(
                f'"{RECORDED}/', 'os.environ["NETPERF_RECORDED"] + "/'
            )
            cell.source = f"import os\n\n{source}"
        if any(words in cell.source for words in CHANGING) and cell.cell_type == "code":
            tags, cell.outputs = [*tags, "nbval-ignore-output"], []
        cell.metadata = {"tags": tags} if tags else {}
        if "outputs" in cell:  # warnings name files of this machine
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            if "image/svg+xml" in output.get("data", {}):  # a picture is not compared
                output.data["image/svg+xml"] = "PICTURE"
    return book


if __name__ == "__main__":
    for name in sys.argv[1:] or notebooks():
        nbformat.write(executed(name), FOLDER / f"{name}.ipynb")
