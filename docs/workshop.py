"""Make the workshop material from ``notebooks/workshop/solutions``: lessons, slides for the teacher, a handout.

``make workshop`` runs this. The lessons are the solutions without the lines that end in ``# solution``; slides and
handout show the lessons, with figures from the recorded experiment.
"""

from __future__ import annotations

import copy
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbconvert import SlidesExporter
from nbconvert.preprocessors import TagRemovePreprocessor
from nbformat import NotebookNode
from traitlets.config import Config

from netperf_lib import recorded
from netperf_lib.reporting.kernels import QUIET
from netperf_lib.reporting.pdf import typeset

LESSONS = Path(__file__).resolve().parent.parent / "notebooks" / "workshop"
MARK = "# solution"
CSS = """<style>
.reveal .slides section, .reveal .slides section .jp-RenderedHTMLCommon { font-size: 28px; text-align: left; }
.reveal .slides section :is(h1, h2, h3) { font-size: 1.6em; text-transform: none; }
.reveal .slides section .jp-OutputArea-output img { width: 860px; max-height: 500px; object-fit: contain; margin: 0; }
.reveal .slides section .jp-OutputArea-output { font-size: 18px; }
.reveal .slides section .jp-OutputArea-output table { font-size: 17px; }
.reveal .slides section .jp-OutputArea-output table.npl-verdicts { font-size: 13px; }
</style>"""


def lesson(solution: NotebookNode) -> NotebookNode:
    """Return a lesson as learners get it: its solution without the marked lines."""
    book = copy.deepcopy(solution)
    for cell in book.cells:
        cell.source = "\n".join(line for line in cell.source.split("\n") if not line.endswith(MARK))
    return book


def lessons(names: list[str] | None = None) -> dict[str, NotebookNode]:
    """Return the lessons by name: those in `names`, or all."""
    found = sorted((LESSONS / "solutions").glob("*.ipynb"))
    return {p.stem: lesson(nbformat.read(p, as_version=4)) for p in found if names is None or p.stem in names}


def shown(book: NotebookNode) -> NotebookNode:
    """Execute a lesson on recorded data without its live cells; the code of exercises and live cells stays visible."""
    book = copy.deepcopy(book)
    for cell in book.cells:
        tags = cell.metadata.setdefault("tags", [])
        cell.source = cell.source.replace('"results/lab"', repr(str(recorded())))
        if cell.cell_type == "code" and not {"live", "exercise"} & set(tags) and not cell.source.startswith("%%"):
            tags.append("hide-input")
    with tempfile.TemporaryDirectory() as desk:
        place = {"metadata": {"path": desk}}
        client = NotebookClient(book, timeout=300, resources=place, skip_cells_with_tag="live", extra_arguments=QUIET)
        client.execute()
    for cell in book.cells:
        if cell.cell_type == "code" and "hide-input" not in cell.metadata["tags"]:
            cell.outputs = []  # "Not answered yet"
    return book


def _parts(cell: NotebookNode) -> list[NotebookNode]:
    """Split a text cell at its headings."""
    if cell.cell_type != "markdown":
        return [copy.deepcopy(cell)]
    return [nbformat.v4.new_markdown_cell(text) for text in re.split(r"\n\n(?=##)", cell.source)]


def slides(book: NotebookNode, *, reveal: str | None = None) -> str:
    """Return a lesson as slides; each heading, figure or table begins a slide."""
    config = Config()
    config.TagRemovePreprocessor.remove_input_tags = {"hide-input", "parameters"}
    exporter = SlidesExporter(config=config, exclude_input_prompt=True, exclude_output_prompt=True, reveal_scroll=True)
    exporter.register_preprocessor(TagRemovePreprocessor, enabled=True)
    if reveal:
        exporter.reveal_url_prefix = reveal
    cells, room = [], 0
    for cell in (part for c in book.cells for part in _parts(c)):
        kind = "-"
        if cell.cell_type == "markdown":
            after_exercise = bool(cells) and "exercise" in cells[-1].metadata.get("tags", [])
            headed = re.match(r"#+", cell.source)
            kind = "slide" if headed and len(headed[0]) < 3 else "subslide" if headed or after_exercise else "-"
            room = len(cell.source) + (room if kind == "-" else 0)
            if headed and len(headed[0]) == 1:
                room = 1000  # the title has a slide of its own
        elif any("data" in o for o in cell.outputs):
            kind = "subslide" if room > 130 else "-"
            room = 1000  # a slide shows one figure or table
        cell.metadata["slideshow"] = {"slide_type": kind}
        cells.append(cell)
    book = nbformat.v4.new_notebook(cells=cells, metadata=book.metadata)
    html, _ = exporter.from_notebook_node(book)
    return str(html).replace("</head>", f"{CSS}</head>", 1)


def handout(books: list[NotebookNode]) -> bytes:
    """Return text, figures and exercises of the lessons as one PDF, one chapter per lesson."""
    whole = nbformat.v4.new_notebook(metadata={"title": "Workshop", "netperf": {"chapters": True}})
    for book in books:
        cells = copy.deepcopy(book.cells)
        cells[0].metadata["netperf_chapter"] = "lesson"
        for cell in cells:
            cell.source = re.sub(r"^# \d+ · ", "# ", cell.source)  # chapters are numbered
            cell.source = re.sub(r"^### (Exercise \d+)\s+", r"**\1.** ", cell.source)
            if "exercise" in cell.metadata.get("tags", []):
                cell.source = ""  # nothing to run on paper
        whole.cells += cells
    return typeset(whole, code=True)


def write_lessons(folder: Path = LESSONS) -> None:
    """Write the lessons that learners open."""
    for name, book in lessons().items():
        folder.joinpath(f"{name}.ipynb").write_text(nbformat.writes(book) + "\n", "utf-8")


def build(folder: Path, names: list[str] | None = None, *, reveal: str | None = None) -> list[Path]:
    """Write the slides of each lesson and the handout to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {name: shown(book) for name, book in lessons(names).items()}
    made = [folder / f"{name}.slides.html" for name in done]
    for place, book in zip(made, done.values(), strict=True):
        place.write_text(slides(book, reveal=reveal), "utf-8")
    made.append(folder / "handout.pdf")
    made[-1].write_bytes(handout(list(done.values())))
    return made


if __name__ == "__main__":
    write_lessons()
    for made in build(Path(sys.argv[1]), reveal=os.environ.get("REVEAL")):
        print(made)
