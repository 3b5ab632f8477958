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

from ..analysis.words import as_markdown, as_text
from ..errors import NothingToReport
from .blocks import notice
from .cover import NONE, Cover

FIRST = "summary"
"""The notebook that opens a report."""
NOTHING = NothingToReport.__name__
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
    """

    title: str
    cells: list[Any] = field(default_factory=list)
    nothing: str = ""
    error: str = ""
    cover: Cover = NONE


def text_cell(source: str, attachments: Any = None, mark: str = "") -> Any:
    """Return a cell of markdown; a template knows it by its mark."""
    cell = {"cell_type": "markdown", "metadata": {"netperf": mark}, "source": source}
    return from_dict(cell | {"attachments": attachments or {}})  # type: ignore[no-untyped-call]


def code_cell(source: str, *outputs: Any) -> Any:
    """Return a cell of code, with what it shows."""
    hidden = {"transient": {"remove_source": not source}}
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
        if cell.cell_type == "markdown":
            made.cells.append(text_cell(cell.source, cell.get("attachments")))
        elif code and cell.source and not tags & HIDDEN:
            made.cells.append(code_cell(cell.source))
        for output in cell.get("outputs", ()):
            made.cells += _shown(output)
            made.nothing = output.evalue if output.get("ename") == NOTHING else ""
    first = made.cells[0] if made.cells else text_cell("")
    heading, _, rest = first.source.partition("\n")
    if heading.startswith("# "):
        made.title, first.source = as_text(heading[2:]), rest
    return made


def _shown(output: Any) -> Iterator[Any]:
    """What an output shows, in the first of its forms that a page can hold."""
    if output.output_type == "error":
        nothing = output.ename == NOTHING
        yield marked(
            "Not in this experiment" if nothing else output.ename, f"{output.evalue}."
        )
        yield from [] if nothing else [code_cell("", output)]
    if output.output_type == "stream" and output.name == "stdout":
        yield code_cell("", output)
    data = dict(output.get("data", {}))
    if "<table" not in data.get("text/html", ""):
        data.pop("text/html", None)
    mime = next((mime for mime in FORMS if mime in data), "")
    if mime in PICTURES:
        yield _picture(data[mime], mime, output.metadata.get(mime, {}).get("alt"))
    elif mime in ("text/markdown", "text/latex"):
        yield text_cell(data[mime])
    elif mime and not re.match(r"<(Axes|Figure|seaborn)", data[mime]):
        kind = {
            "output_type": "display_data",
            "metadata": {},
        }  # pandoc wants results numbered
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
    first = parts.pop(FIRST if len(parts) > 1 else next(iter(parts)), None)
    whole = Document("Network performance") if first is None else Document(first.title)
    whole.cover = next(iter(documents.values())).cover
    # a chapter's sections stand below its heading, those of page one do not
    whole.cells = [_raised(cell) for cell in first.cells] if first else []
    heads = (i for i, cell in enumerate(whole.cells) if cell.source.startswith("# "))
    whole.cells.insert(next(heads, len(whole.cells)), text_cell("", mark="facts"))
    chapters = [part for part in parts.values() if not part.nothing]
    said: set[str] = set()
    for part in chapters:
        mark = "contents" if part is chapters[0] and len(chapters) > 2 else ""
        whole.cells.append(text_cell(f"# {as_markdown(part.title)}", mark=mark))
        whole.cells += _news(part.cells, said)
    lacking = [part for part in parts.values() if part.nothing]
    if lacking:
        items = (
            f"- {as_markdown(part.title)}: {as_markdown(part.nothing)}."
            for part in lacking
        )
        whole.cells.append(text_cell("\n".join(["# Questions without data", "", *items])))
    whole.cells.append(text_cell(whole.cover.provenance))
    for cell in whole.cells:  # the cover says it once, for all of them
        for said_once in notice(whole.cover.notice):
            cell.source = cell.source.removeprefix(said_once.markdown)
    return whole


def _raised(cell: Any) -> Any:
    """A cell whose headings are one level higher."""
    if cell.cell_type == "code":
        return cell
    return text_cell(re.sub(r"(?m)^#(#+ )", r"\1", cell.source), cell.attachments)


def _news(cells: list[Any], said: set[str]) -> Iterator[Any]:
    """Cells; of an explanation that a chapter before has given, the heading of what follows it."""
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type == "code" or cell.source not in said:
            said.add(cell.source)
            yield cell
        elif following is not None and not following.source.startswith("#"):
            heading, _, _ = cell.source.partition("\n")
            yield text_cell(heading if heading.startswith("#") else "")
