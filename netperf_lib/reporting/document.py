"""Executed notebooks as one notebook, of which a PDF and an HTML page are made.

What pandoc or a browser would treat in its own way is a cell of markdown: text that was computed,
and pictures, which are its attachments.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nbformat import from_dict

from ..analysis.words import as_markdown, as_text, capital
from ..errors import NothingToReport
from .blocks import notice
from .cover import Cover

FIRST = "summary"
"""The notebook that opens a report."""
NOTHING = NothingToReport.__name__
DETAIL = "detail"
"""Tag of cells that are there to be followed: an HTML page folds them, and of them a PDF has what
they print."""
HIDDEN = {"parameters", "injected-parameters", "hide-input"}
"""Tags of cells whose code is not shown."""
PICTURES = {"image/svg+xml": ".svg", "image/png": ".png", "image/jpeg": ".jpg"}
FORMS = [*PICTURES, "text/markdown", "text/html", "text/latex", "text/plain"]
"""What a page can hold of an output, best first."""


@dataclass
class Document:
    """What is set on pages.

    Attributes
    ----------
    title : str
        Its title.
    cells : list
        Cells of markdown.
    nothing, error : str
        Why the experiment lacks the data for it, or why it was not made; else empty.
    cover : Cover
        What was measured.
    notebook : str
        Name of its notebook: the chapters of one are joined.
    kind : str
        What its cover says above the title.
    """

    title: str
    cells: list[Any] = field(default_factory=list)
    nothing: str = ""
    error: str = ""
    cover: Cover = field(default_factory=Cover)
    notebook: str = ""
    kind: str = "Network performance report"


def text_cell(source: str, attachments: Any = None, mark: str = "") -> Any:
    """Return a cell of markdown; a template knows it by its mark."""
    cell = {"cell_type": "markdown", "metadata": {"netperf": mark}, "source": source}
    return from_dict(cell | {"attachments": attachments or {}})  # type: ignore[no-untyped-call]


def code_cell(source: str, *outputs: Any) -> Any:
    """Return a cell of code, with what it shows."""
    hidden = {"transient": {"remove_source": not source}, "netperf": ""}
    cell = {
        "cell_type": "code",
        "metadata": hidden,
        "source": source,
        "outputs": list(outputs),
    }
    return from_dict(cell | {"execution_count": None})  # type: ignore[no-untyped-call]


def marked(title: str, text: str) -> Any:
    """Return a cell with a marked sentence."""
    return text_cell(f"> **{as_markdown(title)}**: {as_markdown(text)}")


def document(book: Any, *, name: str, code: bool = False) -> Document:
    """Return an executed notebook as a document.

    Parameters
    ----------
    book : NotebookNode
        The notebook.
    name : str
        Its title if it does not begin with a heading.
    code : bool
        Show the code too.
    """
    made = Document(name)
    for cell in book.cells:
        tags = {*cell.metadata.get("tags", [])}
        if tags & {"try-next", "papermill-error-cell-tag"}:
            continue
        shown = []
        if cell.cell_type == "markdown":
            shown.append(text_cell(cell.source, cell.get("attachments"), mark="prose"))
        elif code and cell.source and not tags & HIDDEN:
            shown.append(code_cell(cell.source))
        for output in cell.get("outputs", ()):
            shown += _shown(output)
            if output.get("ename") == NOTHING:
                made.nothing = output.evalue
        if DETAIL in tags:
            for one in shown:
                one.metadata["netperf"] = DETAIL
            shown += _told(cell, name)
        made.cells += shown
    for first in made.cells[:1]:
        heading, _, rest = first.source.partition("\n")
        if heading.startswith("# "):
            made.title, first.source = as_text(heading[2:]), rest
    return made


def _told(cell: Any, name: str) -> Iterator[Any]:
    """What a cell of details printed, and where it stands, as a sentence of a PDF."""
    for output in cell.get("outputs", ()):
        if output.output_type == "stream" and output.name == "stdout":
            words = " ".join(output.text.split())
            yield text_cell(as_markdown(f"{words} See {name}.ipynb."), mark="told")


def _shown(output: Any) -> Iterator[Any]:
    """What an output shows, in the first of its forms that a page can hold."""
    if output.output_type == "error" and output.ename == NOTHING:
        yield marked("Not in this experiment", f"{output.evalue}.")
    elif output.output_type == "error":
        yield marked(output.ename, f"{output.evalue}.")
        yield code_cell("", output)
    if output.output_type == "stream" and output.name == "stdout":
        yield code_cell("", output)
    data = dict(output.get("data", {}))
    if "<table" not in data.get("text/html", ""):
        data.pop("text/html", None)
    mime = next((mime for mime in FORMS if mime in data), "")
    if mime in PICTURES:
        yield _picture(data[mime], mime, output.metadata.get(mime, {}).get("alt"))
    elif mime in ("text/markdown", "text/latex"):
        cell = text_cell(data[mime])
        cell.metadata["short"] = output.metadata.get(mime, {}).get("short")
        yield cell
    elif mime and not re.match(r"<(Axes|Figure|seaborn)", data[mime]):
        # pandoc wants results numbered
        kind: Any = {"output_type": "display_data", "metadata": {}}
        yield code_cell("", kind | {"data": {mime: data[mime]}})


def _picture(data: str, mime: str, alt: str | None) -> Any:
    """A picture; what no alternative text tells, the words in it do."""
    if mime == "image/svg+xml":
        alt = alt or " ".join(re.findall(r"<text[^>]*>([^<]+)</text>", data))[:300]
        data = base64.b64encode(data.encode()).decode()
    words = " ".join((alt or "").split()) or "Chart"
    name = hashlib.blake2s(data.encode(), digest_size=8).hexdigest() + PICTURES[mime]
    return text_cell(f"![{as_markdown(words)}](attachment:{name})", {name: {mime: data}})


# -- several notebooks -----------------------------------------------------------------------------


def combine(documents: Mapping[str, Document]) -> Document:
    """Join documents, or finish a single one: the answers, then chapters, then how it was made."""
    parts = dict(documents)
    whole = Document("Network performance", cover=next(iter(parts.values())).cover)
    first = parts.pop(FIRST if len(parts) > 1 else next(iter(parts)), None)
    if first is not None:
        whole.title = first.title
        # a chapter's sections stand below its heading, those of page one do not
        whole.cells = [_with_headings(cell, HIGHER, "") for cell in first.cells]
    sections = (i for i, cell in enumerate(whole.cells) if cell.source.startswith("# "))
    whole.cells.insert(next(sections, len(whole.cells)), text_cell("", mark="facts"))
    begun = len(whole.cells)
    chapters: dict[tuple[str, str], list[Document]] = {}
    lacking = []
    for key, part in parts.items():
        if part.nothing:
            lacking.append(f"- {as_markdown(part.title)}: {as_markdown(part.nothing)}.")
        else:
            subject = part.title.partition(": ")[0]
            chapters.setdefault((part.notebook or key, subject), []).append(part)
    for chapter in chapters.values():
        whole.cells += _chapter(chapter)
    if len(chapters) > 2:
        whole.cells[begun].metadata["netperf"] = "contents"
    if lacking:
        lines = ["# Questions without data", "", *lacking]
        whole.cells.append(text_cell("\n".join(lines)))
    whole.cells.append(text_cell(whole.cover.provenance))
    for said_once in notice(whole.cover.notice):  # by the cover, for all of them
        for cell in whole.cells:
            cell.source = cell.source.removeprefix(said_once.markdown)
    return whole


HIGHER, LOWER = r"(?m)^#(?=#+ )", r"(?m)^(?=##+ )"
"""Where a heading loses a mark to stand a level higher, or gets one to stand lower."""


def _with_headings(cell: Any, place: str, mark: str) -> Any:
    """A cell with a mark in these places of its text."""
    if cell.cell_type == "code":
        return cell
    changed = text_cell(re.sub(place, mark, cell.source), cell.attachments)
    changed.metadata = cell.metadata
    return changed


def _chapter(parts: list[Document]) -> Iterator[Any]:
    """The pages of a factor as one chapter: each metric, then what holds for all of them."""
    first, several = parts[0], len(parts) > 1
    title = first.title
    if several:
        title = title.partition(": ")[0]
    yield text_cell(f"# {as_markdown(title)}")
    whole = list(map(_shortened, first.cells))
    told = {cell.source for cell in whole if cell.cell_type == "markdown"} - {""}
    for part in parts:
        shown = list(map(_shortened, part.cells[: _last_shown(part)]))
        if part is first:
            yield shown.pop(0)
        else:
            shown = [cell for cell in shown if cell.source not in told]
        if several:
            quantity = part.title.partition(": ")[2]
            yield text_cell(f"## {as_markdown(capital(quantity))}")
            shown = [_with_headings(cell, LOWER, "#") for cell in shown]
        yield from shown
    yield from whole[_last_shown(first) :]


def _last_shown(part: Document) -> int:
    """Number of cells before the prose at the end."""
    number = len(part.cells)
    while number > 1 and part.cells[number - 1].metadata.get("netperf") == "prose":
        number -= 1
    return number


def _shortened(cell: Any) -> Any:
    """A cell without what a report has said on its first pages."""
    short = cell.metadata.get("short")
    return text_cell(short) if short else cell
