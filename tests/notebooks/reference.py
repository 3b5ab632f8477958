"""Executed reference notebooks, which nbval executes again and compares.

``python -m tests.notebooks.reference`` writes them anew, for example when the recorded experiment was measured again:
look at what changed before it is kept.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import nbformat

import netperf_lib as npl
from netperf_lib.reporting import notebooks

FOLDER = Path(__file__).parent / "reference"
WHERE = 'import os\n\nexperiment = os.environ["{}"]'
"""Stands in for the experiment that papermill injected: it lies elsewhere each time."""
PAGES = (
    "summary",
    "01-placement-latency",
    "02-accelerated-latency",
    "03-streams-throughput",
    "04-tcp-buffers",
    "06-tails",
    "07-quality",
)
"""One page of each notebook that the recorded experiment can answer."""


def names() -> list[str]:
    """The notebooks that answer a question; `explore` answers none by itself."""
    return [n for n in notebooks() if n != "explore"]


def executed(where: dict[str, Path]) -> dict[str, Any]:
    """Execute the notebooks, each on its experiment, and make of them what can be compared."""
    found = {}
    for wanted, place in where.items():
        for pdf in npl.report(place):
            if pdf.stem in PAGES:
                found[pdf.stem] = comparable(
                    nbformat.read(pdf.with_suffix(".ipynb"), as_version=4), wanted
                )
    return found


def comparable(book: Any, where: str) -> Any:
    """Leave of an executed notebook what means something the next time."""
    book.metadata = {k: v for k, v in book.metadata.items() if k in ("kernelspec", "language_info")}
    book.metadata["language_info"].pop("version", None)
    for cell in book.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if "injected-parameters" in tags:
            others = [
                line
                for line in cell.source.splitlines()
                if not line.startswith(("#", "experiment ="))
            ]
            cell.source = "\n".join([WHERE.format(where), *others])
        if "outputs" in cell:  # warnings name files of this machine
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            data.pop("image/svg+xml", None)  # a picture is not compared
            if str(data.get("text/plain")).startswith("<Figure"):
                data["text/plain"] = "a picture"
    return book


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(shutil.copytree(npl.recorded(), Path(folder) / "lab-full"))
        books = executed({"NETPERF_RECORDED": recorded})
    for name, book in books.items():
        nbformat.write(book, FOLDER / f"{name}.ipynb")
