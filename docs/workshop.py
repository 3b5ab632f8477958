"""Make the workshop material from ``notebooks/workshop/solutions``.

Lessons, slides for the teacher, a handout.

``make workshop`` runs this. The lessons are the solutions without the lines that end in ``#
solution``; slides and handout show the lessons, with figures from the recorded experiment.
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
from nbformat import NotebookNode
from rich.console import Console
from rich.progress import track

from netperf_lib import recorded
from netperf_lib.errors import ReportError
from netperf_lib.reporting.document import combine, document
from netperf_lib.reporting.execute import Job, Notebooks
from netperf_lib.reporting.html import TEMPLATES, exporter
from netperf_lib.reporting.pdf import typeset

LESSONS = Path(__file__).resolve().parent.parent / "notebooks" / "workshop"
MARK = "# solution"
WIDTH, HEIGHT = 1280, 720
"""Of a slide, in pixels: on the screen it is scaled to the window, and printed as it is."""
LINES, ABOVE, LINE, THIN = 13, 4, 78, 5
"""Lines that fit on a slide and above a figure, characters on a line, and lines of a thin slide."""
FIGURES = (
    "import matplotlib.pyplot as plt; plt.rcParams['figure.figsize'] = 4.2, 1.9; "
    "import netperf_lib.plots.figure as drawn; drawn.WIDTH = 5.9"
)
"""Run before a lesson whose figures are to be shown: low, so that text fits above; and so narrow
that the smallest text is read from the back when a figure is as wide as a slide."""
SLIDES = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{css}
@page {{ size: {width}px {height}px; margin: 0 }}
html {{ scroll-snap-type: y mandatory }} body {{ font-size: 28px; line-height: 1.4; overflow-x: hidden }}
section {{ width: {width}px; height: {height}px; padding: 28px 64px; overflow: hidden;
  scroll-snap-align: start; display: grid; grid-template-rows: auto 1fr auto }}
header, footer {{ color: var(--mute); font-size: 18px }} footer {{ text-align: right }}
section > div {{ display: grid; gap: 20px; align-content: center }}
h1 {{ font-size: 44px; margin: 0 0 .4em }} h3, h4, h5 {{ font-size: 34px; margin: .5em 0 .2em; border: 0 }}
p, ul, ol {{ margin: .4em 0 }} pre {{ font-size: 22px; white-space: pre-wrap }}
table {{ font-size: 22px; line-height: 1.25 }} th, td {{ padding: .12em .6em }}
img {{ width: 100%; max-width: none; max-height: 570px; object-fit: contain }} article + article img {{ max-height: 420px }}
.scroll {{ overflow: visible }} article {{ min-width: 0 }}
@media print {{ body {{ zoom: 1 !important }} section {{ break-after: page }} }}
</style></head><body>
{sections}
<script>
const fit = () => document.body.style.zoom = Math.min(innerWidth / {width}, innerHeight / {height});
addEventListener("resize", fit);
fit();
for (const part of document.querySelectorAll("section > div")) {{ // what is higher than a slide is made smaller
  const wide = Math.max(...[part, ...part.querySelectorAll("table")].map(one => one.scrollWidth));
  const size = Math.min(590 / part.scrollHeight, part.clientWidth / wide);
  if (size < 1) part.style.zoom = Math.max(.4, size);
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
"""  # noqa: E501  (as it is run or printed)
"""Slides that need nothing but this file: a slide fills the window, and keys go from one to the
next."""


def lesson(solution: NotebookNode) -> NotebookNode:
    """Return a lesson as learners get it: its solution without the marked lines."""
    book = copy.deepcopy(solution)
    for cell in book.cells:
        cell.source = "\n".join(
            line for line in cell.source.split("\n") if not line.endswith(MARK)
        )
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
    """Execute a lesson on recorded data without its live cells.

    The code of exercises and live cells stays visible.
    """
    book = copy.deepcopy(book)
    book.cells.insert(1, nbformat.v4.new_code_cell(FIGURES))
    for cell in book.cells:
        tags = cell.metadata.setdefault("tags", [])
        cell.source = cell.source.replace('"results/lab"', repr(str(recorded())))
        if (
            cell.cell_type == "code"
            and not {"live", "exercise"} & set(tags)
            and not cell.source.startswith("%%")
        ):
            tags.append("hide-input")
    live = [cell for cell in book.cells if "live" in cell.metadata["tags"]]
    sources = [cell.source for cell in live]
    for cell in live:
        cell.source = ""
    book = _executed(book)
    live = [cell for cell in book.cells if "live" in cell.metadata["tags"]]
    for cell, source in zip(live, sources, strict=True):
        cell.source = source
    for cell in book.cells:
        if cell.cell_type == "code" and "hide-input" not in cell.metadata["tags"]:
            cell.outputs = []  # "Not answered yet"
    return book


def _executed(book: NotebookNode) -> NotebookNode:
    with tempfile.TemporaryDirectory() as desk:
        place, done = Path(desk, "lesson.ipynb"), Path(desk, "executed.ipynb")
        nbformat.write(book, place)
        job = Job("lesson", str(place), str(done), folder=desk)
        with Notebooks() as processes:
            [(_, error)] = processes.executed([job])
        if error:
            raise ReportError(error)
        return nbformat.read(done, as_version=4)


def _parts(book: NotebookNode) -> list[NotebookNode]:
    """Return what a lesson shows: its text split at headings, and no exercise to be filled in."""
    parts = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            texts = re.split(r"\n\n(?=##|```)|(?<=```)\n\n", cell.source)
            parts += [nbformat.v4.new_markdown_cell(text) for text in texts]
        elif "exercise" not in cell.metadata.get("tags", []):
            parts.append(cell)
    return [part for part in parts if _is_code(part) or _lines(part) or _is_figure(part)]


def _is_code(cell: NotebookNode) -> bool:
    if cell.cell_type == "markdown":
        return str(cell.source).startswith("```")
    return not {"parameters", "hide-input"} & set(cell.metadata.get("tags", []))


def _is_figure(cell: NotebookNode) -> bool:
    """Whether a cell shows a picture or a table."""
    return cell.cell_type == "code" and any("data" in output for output in cell.outputs)


def _lines(cell: NotebookNode) -> int:
    """Return how many lines the text of a cell takes."""
    text = cell.source if cell.cell_type == "markdown" or _is_code(cell) else ""
    if cell.cell_type == "code" and not _is_figure(cell):
        text += "".join(output.get("text", "") for output in cell.outputs)
    return sum(-(-len(part) // LINE) for part in text.splitlines() if part.strip())


def _packed(parts: list[NotebookNode]) -> list[list[NotebookNode]]:
    """Return the cells of each slide: as many as fit, one of them with code, one with a figure."""
    slides: list[list[NotebookNode]] = [[]]
    for part in parts:
        now = [*slides[-1], part]
        room = ABOVE if any(map(_is_figure, now)) else LINES
        heads = sum(cell.source.startswith("#") for cell in now)
        full = sum(map(_lines, now)) + heads > room
        several = sum(map(_is_code, now)) > 1 or sum(map(_is_figure, now)) > 1
        if slides[-1] and (full or several):
            slides.append([])
            # what introduces a figure or code stays with it
            if not _lines(part) or _is_code(part):
                slides[-1] = _introduction(slides[-2])
        slides[-1].append(part)
    *_, before, last = [[], *slides]
    if sum(map(_lines, last)) < THIN and any(map(_is_figure, before)):
        slides[-1] = _introduction(before) + last
    return slides


def _introduction(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Take the text under the last heading from a slide, if something else remains."""
    text = cells[-1].cell_type == "markdown" and cells[-1].source.startswith("##")
    return [cells.pop()] if text and len(cells) > 1 else []


def slides(book: NotebookNode) -> str:
    """Return an executed lesson as slides in one file."""
    title = book.cells[0].source.split("\n")[0].removeprefix("# ")
    packed = _packed(_parts(book))
    if sum(map(_lines, packed[0])) < THIN:
        heads = re.findall(r"(?m)^## (.+)", "\n".join(cell.source for cell in book.cells))
        packed[0].append(
            nbformat.v4.new_markdown_cell("\n".join(f"- {head}" for head in heads))
        )
    sections = [
        _slide(title, cells, f"{number} / {len(packed)}")
        for number, cells in enumerate(packed, 1)
    ]
    css = (TEMPLATES / "page.css").read_text("utf-8")
    return SLIDES.format(
        title=escape(title),
        css=css,
        sections="\n".join(sections),
        width=WIDTH,
        height=HEIGHT,
    )


def _slide(title: str, cells: list[NotebookNode], place: str) -> str:
    """Return one slide: its text, and below it its figure or table."""
    figures = [cell for cell in cells if _is_figure(cell)]
    text = [cell for cell in cells if not _is_figure(cell)]
    halves = "".join(
        f"<article>{_fragment(half)}</article>" for half in (text, figures) if half
    )
    head = f"<header>{escape(title)}</header>"
    if cells[0].source.startswith("# "):
        head = f"<h1>{escape(title)}</h1>"
    return f"<section>{head}<div>{halves}</div><footer>{place}</footer></section>"


def _fragment(cells: list[NotebookNode]) -> str:
    """HTML of some cells; ids of headings would be the same on each slide."""
    made = document(
        nbformat.v4.new_notebook(cells=copy.deepcopy(cells)), name="", code=True
    )
    book = nbformat.v4.new_notebook(cells=made.cells, nbformat_minor=4)  # without ids
    html, _ = exporter("fragment.html").from_notebook_node(book)
    return re.sub(r'<(h\d) id="[^"]*">', r"<\1>", str(html))


def handout(books: list[NotebookNode]) -> bytes:
    """Return text, figures and exercises of the lessons as one PDF, one chapter per lesson.

    With room for answers.
    """
    parts = {}
    for number, book in enumerate(books, 1):
        cells = copy.deepcopy(book.cells)
        exercise = 0
        for place, cell in enumerate(cells):
            cell.source = re.sub(r"^# \d+ · ", "# ", cell.source)  # chapters are numbered
            cell.source = re.sub(
                r"\*The next cells? .*\*", "", cell.source
            )  # of a notebook
            cell.source = re.sub(r"^### (Exercise \d+)\s+", r"**\1.** ", cell.source)
            if "exercise" in cell.metadata.get("tags", []):
                # nothing to run on paper, but something to write
                exercise += 1
                line = f"Answer {number}.{exercise}: {'.' * 120}"
                cells[place] = nbformat.v4.new_markdown_cell(line)
        shown = nbformat.v4.new_notebook(cells=cells)
        parts[str(number)] = document(shown, name="Lesson", code=True)
    whole = combine(parts)
    whole.title, whole.kind = "Workshop", "Handout"
    for cell in whole.cells:
        cell.metadata.pop("netperf", None)  # so few pages need no list of contents
    return typeset(whole)


def write_lessons(folder: Path = LESSONS) -> None:
    """Write the lessons that learners open."""
    for name, book in lessons().items():
        folder.joinpath(f"{name}.ipynb").write_text(nbformat.writes(book) + "\n", "utf-8")


def build(folder: Path, names: list[str] | None = None) -> list[Path]:
    """Write the slides of each lesson and the handout to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[str, Any] = {}
    for name, book in track(
        lessons(names).items(), "lessons", console=Console(stderr=True)
    ):
        done[name] = shown(book)
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
