"""Make the workshop material from ``notebooks/workshop/solutions``: lessons, slides for the teacher, a handout.

``make workshop`` runs this. The lessons are the solutions without the lines that end in ``# solution``; slides and
handout show the lessons, with figures from the recorded experiment.
"""

from __future__ import annotations

import copy
import re
import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from netperf_lib import recorded
from netperf_lib.reporting.document import combine, document
from netperf_lib.reporting.html import TEMPLATES, exporter
from netperf_lib.reporting.pdf import typeset

LESSONS = Path(__file__).resolve().parent.parent / "notebooks" / "workshop"
MARK = "# solution"
SLIDES = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{css}
html {{ scroll-snap-type: y mandatory }} body {{ font-size: clamp(16px, 2.1vw, 30px) }}
section {{ min-height: 100vh; scroll-snap-align: start; padding: 4vh 7vw; overflow: auto }}
section > .title {{ margin-top: 6vh; border: 0 }} table {{ font-size: .62em }}
img {{ max-height: 66vh; width: auto }}
@media print {{ section {{ break-after: page; min-height: 0 }} }}
</style></head><body>
{sections}
<script>
for (const one of document.querySelectorAll("section")) {{ // what is higher than the window is made smaller
  const size = Math.max(.5, innerHeight / one.scrollHeight);
  if (size < 1) Object.assign(one.style, {{ zoom: size, minHeight: `${{100 / size}}vh` }});
}}
const keys = {{ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1}};
addEventListener("keydown", event => {{
  if (!(event.key in keys)) return;
  const all = [...document.querySelectorAll("section")];
  const now = all.findLastIndex(one => one.getBoundingClientRect().top <= 5);
  all[Math.max(0, Math.min(all.length - 1, now + keys[event.key]))].scrollIntoView();
  event.preventDefault();
}});
</script></body></html>
"""
"""Slides that need nothing but this file: a slide fills the window, and keys go from one to the next."""


def lesson(solution: NotebookNode) -> NotebookNode:
    """Return a lesson as learners get it: its solution without the marked lines."""
    book = copy.deepcopy(solution)
    for cell in book.cells:
        cell.source = "\n".join(line for line in cell.source.split("\n") if not line.endswith(MARK))
    return book


def lessons(names: list[str] | None = None) -> dict[str, NotebookNode]:
    """Return the lessons by name: those in `names`, or all."""
    found = sorted((LESSONS / "solutions").glob("*.ipynb"))
    return {
        p.stem: lesson(nbformat.read(p, as_version=4))
        for p in found
        if names is None or p.stem in names
    }


def shown(book: NotebookNode) -> NotebookNode:
    """Execute a lesson on recorded data without its live cells; the code of exercises and live cells stays visible."""
    book = copy.deepcopy(book)
    for cell in book.cells:
        tags = cell.metadata.setdefault("tags", [])
        cell.source = cell.source.replace('"results/lab"', repr(str(recorded())))
        if (
            cell.cell_type == "code"
            and not {"live", "exercise"} & set(tags)
            and not cell.source.startswith("%%")
        ):
            tags.append("hide-input")
    with tempfile.TemporaryDirectory() as desk:
        place = {"metadata": {"path": desk}}
        client = NotebookClient(
            book,
            timeout=300,
            resources=place,
            skip_cells_with_tag="live",
            extra_arguments=["--IPKernelApp.log_level=50"],
        )
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


def slides(book: NotebookNode) -> str:
    """Return a lesson as slides in one file; each heading, figure or table begins a slide."""
    groups: list[list[NotebookNode]] = [[]]
    room = 0
    for cell in (part for c in book.cells for part in _parts(c)):
        begins = False
        if cell.cell_type == "markdown":
            after_exercise = bool(groups[-1]) and "exercise" in groups[-1][-1].metadata.get(
                "tags", []
            )
            headed = re.match(r"#+", cell.source)
            begins = bool(headed) or after_exercise
            room = len(cell.source) + (0 if begins else room)
            if headed and len(headed[0]) == 1:
                room = 1000  # the title has a slide of its own
        elif any("data" in o for o in cell.outputs):
            begins = room > 130
            room = 1000  # a slide shows one figure or table
        groups += [[]] if begins and groups[-1] else []
        groups[-1].append(cell)
    title = book.cells[0].source.split("\n")[0].removeprefix("# ")
    sections = [f'<section><h1 class="title">{escape(title)}</h1>{_fragment(groups[0])}</section>']
    sections += [f"<section>{_fragment(cells)}</section>" for cells in groups[1:]]
    css = (TEMPLATES / "page.css").read_text("utf-8")
    return SLIDES.format(title=escape(title), css=css, sections="\n".join(sections))


def _fragment(cells: list[NotebookNode]) -> str:
    """HTML of some cells; ids of headings would be the same on each slide."""
    made = document(nbformat.v4.new_notebook(cells=cells), name="", code=True)
    book = nbformat.v4.new_notebook(cells=made.cells)
    html, _ = exporter("fragment.html").from_notebook_node(book)
    return re.sub(r'<(h\d) id="[^"]*">', r"<\1>", str(html))


def handout(books: list[NotebookNode]) -> bytes:
    """Return text, figures and exercises of the lessons as one PDF, one chapter per lesson, with room for answers."""
    parts = {}
    for number, book in enumerate(books):
        cells = copy.deepcopy(book.cells)
        for place, cell in enumerate(cells):
            cell.source = re.sub(r"^# \d+ · ", "# ", cell.source)  # chapters are numbered
            cell.source = re.sub(r"^### (Exercise \d+)\s+", r"**\1.** ", cell.source)
            if "exercise" in cell.metadata.get("tags", []):
                # nothing to run on paper, but something to write
                cells[place] = nbformat.v4.new_markdown_cell(f"Answer {number}: {'.' * 120}")
        shown = nbformat.v4.new_notebook(cells=cells)
        parts[str(number)] = document(shown, name="Lesson", code=True)
    whole = combine(parts)
    whole.title = "Workshop"
    return typeset(whole)


def write_lessons(folder: Path = LESSONS) -> None:
    """Write the lessons that learners open."""
    for name, book in lessons().items():
        folder.joinpath(f"{name}.ipynb").write_text(nbformat.writes(book) + "\n", "utf-8")


def build(folder: Path, names: list[str] | None = None) -> list[Path]:
    """Write the slides of each lesson and the handout to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {name: shown(book) for name, book in lessons(names).items()}
    made = [folder / f"{name}.slides.html" for name in done]
    for place, book in zip(made, done.values(), strict=True):
        place.write_text(slides(book), "utf-8")
    made.append(folder / "handout.pdf")
    made[-1].write_bytes(handout(list(done.values())))
    return made


if __name__ == "__main__":
    write_lessons()
    for made in build(Path(sys.argv[1])):
        print(made)
