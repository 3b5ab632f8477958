"""Executed reference notebooks, which nbval executes again and compares.

``python tests/notebooks/reference.py`` writes them anew: look at what changed before it is kept.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat

import netperf_lib as npl
from tests.report import made

FOLDER = Path(__file__).parent / "reference"
WHERE = 'import os\n\nexperiment = os.environ["NETPERF_EXPERIMENT"]'
"""Stands in for the parameters that papermill injected: the experiment lies elsewhere each time."""
IGNORED = ("npl.provenance(runs)",)
"""Cells that tell of versions."""


def executed(experiment: Path, names: list[str] | None = None) -> dict[str, Any]:
    """Execute the notebooks, and make of them what can be compared."""
    found = {}
    for pdf in npl.report(experiment, notebooks=names or list(NAMES)):
        book = nbformat.read(pdf.with_suffix(".ipynb"), as_version=4)
        book.metadata = {k: v for k, v in book.metadata.items() if k in ("kernelspec", "language_info")}
        for cell in book.cells:
            tags = cell.metadata.get("tags", [])
            cell.metadata = {"tags": tags} if tags else {}
            if "injected-parameters" in tags:
                cell.source = WHERE
            if cell.source in IGNORED:
                cell.metadata["tags"] = [*tags, "nbval-ignore-output"]
                cell.outputs = []
            for output in cell.get("outputs", ()):
                html = output.get("data", {}).get("text/html")
                if html:  # a picture is not compared, and need not be kept
                    output["data"]["text/html"] = re.sub(r"data:image/svg\+xml;base64,[A-Za-z0-9+/=]*", "PICTURE", html)
        found[pdf.stem] = book
    return found


NAMES = ("summary", "01-placement", "02-accelerated", "03-streams", "04-tcp-buffers", "06-tails", "07-quality")

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, book in executed(made.experiment(Path(folder))).items():
            nbformat.write(book, FOLDER / f"{name}.ipynb")
