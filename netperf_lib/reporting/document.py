"""Executed notebooks as one document: cells of markdown, with their pictures as attachments.

A PDF and an HTML page are made of the same cells. What a code cell shows becomes a cell of its
own: a picture, markdown, a table, or printed text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import TextWrapper
from typing import Any

from nbformat import from_dict

from ..analysis.tables import markdown_table
from ..analysis.words import as_markdown, as_text
from ..errors import NothingToReport
from .cover import Cover

FIRST = "summary"
"""The notebook that opens a report."""
LAST = ("07-quality", "published")
"""Notebooks that follow the answers, whatever their names."""
PICTURES = {
    "image/svg+xml": ".svg",
    "image/png": ".png",
    "image/jpeg": ".jpg",
}
LINE = 100
"""Characters of the monospaced font on a line."""
LINES = 400
"""Lines of printed output that are shown."""
NOTHING = NothingToReport.__name__
HIDDEN = {"parameters", "injected-parameters", "hide-input", "remove-input"}
WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass
class Document:
    """What is set on pages: a title and cells of markdown.

    Attributes
    ----------
    title : str
        Its title.
    cells : list
        Cells of markdown.
    cover : Cover, optional
        What was measured.
    nothing : str
        Why the experiment lacks the data for it; empty if it does not.
    parameters : dict
        Parameters of each notebook, in words.
    """

    title: str
    cells: list[Any] = field(default_factory=list)
    cover: Cover | None = None
    nothing: str = ""
    parameters: dict[str, str] = field(default_factory=dict)

    def pictures(self) -> dict[str, bytes]:
        """Return the pictures by name."""
        return {
            name: base64.b64decode(data)
            for cell in self.cells
            for name, bundle in cell.get("attachments", {}).items()
            for data in bundle.values()
        }


def _markdown(source: str, attachments: Mapping[str, Any] | None = None, mark: str = "") -> Any:
    cell = {"cell_type": "markdown", "metadata": {"netperf": mark}, "source": source}
    extra = {"attachments": attachments} if attachments else {}
    return from_dict({**cell, **extra})  # type: ignore[no-untyped-call]  # without types


def marked(title: str, text: str) -> Any:
    """Return a cell with a marked sentence."""
    return _markdown(f"> **{as_markdown(title)}**: {as_markdown(text)}")


def document(book: Any, *, name: str, code: bool = False, base: Path | None = None) -> Document:
    """Return an executed notebook as a document.

    Parameters
    ----------
    book : NotebookNode
        The notebook.
    name : str
        Its title if it has no heading.
    code : bool
        Show the code too.
    base : path, optional
        Folder of the pictures that its text names.
    """
    made = Document(name)
    for cell in book.cells:
        tags = set(cell.metadata.get("tags", []))
        if "try-next" in tags or "papermill-error-cell-tag" in tags:
            continue
        if cell.cell_type == "markdown":
            made.cells.append(_text_cell(cell, base))
        elif cell.cell_type == "code":
            if code and cell.source.strip() and not HIDDEN & tags:
                made.cells.append(_markdown(_fenced(cell.source.strip(), "python")))
            made.cells += _outputs(cell)
            endings = (o["evalue"] for o in cell.outputs if o.get("ename") == NOTHING)
            made.nothing = next(endings, "")
            if made.nothing:
                break
    _take_title(made)
    return made


def _take_title(made: Document) -> None:
    """Take the first heading as the title, and move the others up."""
    first = next((cell for cell in made.cells if cell.source.strip()), None)
    heading = re.match(r"\s*#\s+(.+?)\s*(?:\n|\Z)", first.source) if first else None
    if first is not None and heading is not None:
        made.title = as_text(heading[1])
        first.source = first.source[heading.end() :]
        made.cells = [cell for cell in made.cells if cell.source.strip()]


# -- what a cell holds -----------------------------------------------------------------------------


def _text_cell(cell: Any, base: Path | None) -> Any:
    """Text whose pictures are attached; one from elsewhere is named, and not loaded."""
    kept = dict(cell.get("attachments") or {})

    def local(link: re.Match[str]) -> str:
        alt, target = link[1], link[2]
        if target.startswith("attachment:"):
            return f"![{alt}]({target})"
        file = (base or Path()) / target
        mime = next((m for m, suffix in PICTURES.items() if file.suffix.lower() == suffix), None)
        if "://" in target or mime is None or not file.is_file():
            return f"**picture not found: {as_markdown(target)}**"
        kept[file.name] = {mime: base64.b64encode(file.read_bytes()).decode()}
        return f"![{alt}](attachment:{file.name})"

    source = re.sub(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)", local, str(cell.source))
    return _markdown(source, kept)


def _outputs(cell: Any) -> Iterator[Any]:
    for output in cell.outputs:
        if output.output_type == "error":
            nothing = output.ename == NOTHING
            yield marked("Not in this experiment" if nothing else output.ename, f"{output.evalue}.")
            if not nothing:
                yield _markdown(_fenced("\n".join(output.traceback)))
        elif output.output_type == "stream":
            if output.name != "stderr":
                yield _markdown(_fenced(_text(output.text)))
        else:
            yield from _shown(output)


def _shown(output: Any) -> Iterator[Any]:
    """What an output shows: the first of its forms that a page can hold."""
    data = output.get("data", {})
    mime = next((m for m in PICTURES if m in data), None)
    if mime is not None:
        alt = output.get("metadata", {}).get(mime, {}).get("alt", "")
        yield _picture(_text(data[mime]), mime, alt)
    elif "text/markdown" in data:
        yield _markdown(_text(data["text/markdown"]))
    elif "<table" in (page := _text(data.get("text/html", ""))):
        yield from map(_markdown, _tables(page))
    elif "text/latex" in data:
        yield _markdown(_text(data["text/latex"]))
    elif "text/plain" in data and WIDGET not in data:
        text = _text(data["text/plain"])
        if not re.match(r"<(Axes|Figure|seaborn)|array\(\[<Axes", text):
            yield _markdown(_fenced(text))


def _picture(data: str, mime: str, alt: str) -> Any:
    if mime == "image/svg+xml":
        svg = re.sub(r"<metadata>.*?</metadata>", "", data, flags=re.DOTALL)
        # what matplotlib wrote: text, or comments where it drew the letters
        words = re.findall(r"<text[^>]*>([^<]+)</text>|<!-- (.+?) -->", svg)
        alt = alt or " ".join(a or b for a, b in words)[:300]
        data = base64.b64encode(svg.encode()).decode()
    name = hashlib.blake2s(data.encode(), digest_size=8).hexdigest() + PICTURES[mime]
    words_of_it = as_markdown(" ".join(alt.split()) or "Chart")
    return _markdown(f"![{words_of_it}](attachment:{name})", {name: {mime: data}})


def _tables(page: str) -> Iterator[str]:
    """The tables of a piece of HTML, as pandas writes them."""
    from bs4 import BeautifulSoup

    soup: Any = BeautifulSoup(page, "html.parser")
    for table in soup.find_all("table"):
        rows = [_cells(line) for line in table.find_all("tr")]
        heads = len(table.select("thead tr")) or 1
        width = max(map(len, rows), default=0)
        # a level that spans several rows stands in the first of them
        rows = [[""] * (width - len(row)) + row for row in rows]
        header = [" ".join(filter(None, column)) for column in zip(*rows[:heads], strict=True)]
        if width:
            yield markdown_table(header, rows[heads:])


def _cells(line: Any) -> list[str]:
    cells = []
    for cell in line.find_all(["th", "td"]):
        text = cell.get_text(" ", strip=True)
        if re.fullmatch(r"-?\d\.\d+e\+\d+", text):  # nobody reads throughput in powers of ten
            text = f"{float(text):,.0f}"
        cells += [text, *[""] * (int(cell.get("colspan") or 1) - 1)]
    return cells


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)


def _fenced(text: str, language: str = "") -> str:
    """Printed output or code, without control sequences, long lines and endless lists of lines."""
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)
    text = re.sub(r"^.*\r(?!\n)", "", text, flags=re.MULTILINE).rstrip().expandtabs()
    lines = "".join(c for c in text if c == "\n" or c >= " ").split("\n")
    if left := max(0, len(lines) - LINES):
        said = f"… {left:,} lines are left out here; the executed notebook holds them …"
        lines = [*lines[: LINES // 2], "", said, "", *lines[-LINES // 2 :]]
    text = "\n".join(part for line in lines for part in _wrap(line) or [""])
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


_wrap = TextWrapper(
    LINE, replace_whitespace=False, drop_whitespace=False, break_on_hyphens=False
).wrap


# -- several notebooks -----------------------------------------------------------------------------


def combine(documents: Mapping[str, Document]) -> Document:
    """Join documents, or finish a single one: facts first, then chapters, then how it was made.

    What was shown is not shown again.
    """
    several = len(documents) > 1
    opening = FIRST if several else next(iter(documents))
    first = documents.get(opening, Document("Network performance"))
    cover = next((part.cover for part in documents.values() if part.cover), None)
    whole = Document(first.title, cover=cover)
    lacking = [part for part in documents.values() if part.nothing and several]
    if first not in lacking:  # a chapter's sections stand below its heading, those of page one not
        whole.cells = [_raised(cell) for cell in first.cells]
    heads = (i for i, cell in enumerate(whole.cells) if cell.source.startswith("#"))
    whole.cells.insert(next(heads, len(whole.cells)), _markdown("", mark="facts"))
    names = [n for n in documents if n != opening and documents[n] not in lacking]
    mark = "contents" if len(names) > 2 else ""
    for name in sorted(names, key=LAST.__contains__):
        part = documents[name]
        whole.cells += [_markdown(f"# {as_markdown(part.title)}", mark=mark), *part.cells]
        mark = ""
    if several:
        whole.cells = list(_once(whole.cells))
    if lacking:
        items = (f"- {as_markdown(d.title)}: {as_markdown(d.nothing)}." for d in lacking)
        whole.cells.append(_markdown("\n".join(["# Questions without data", "", *items])))
    if cover:
        whole.cells.append(_markdown(cover.provenance))
        given = [row for d in documents.values() for row in d.parameters.items() if row[1]]
        if given:
            table = markdown_table(("Notebook", "Parameters"), given)
            whole.cells.append(_markdown(f"## Parameters of the notebooks\n\n{table}"))
    return whole


def _raised(cell: Any) -> Any:
    """A cell whose headings are one level higher."""
    source = cell.source
    if not source.startswith("```"):
        source = re.sub(r"(?m)^#(#+ )", r"\1", source)
    return _markdown(source, cell.get("attachments"))


def _once(cells: Iterable[Any]) -> Iterator[Any]:
    """Leave out what was shown before, and headings of which nothing is left."""
    seen: set[str] = set()
    waiting: Any = None
    for whole in cells:
        heading, _, text = whole.source.strip().partition("\n")
        cell = whole
        if heading.startswith("# "):
            waiting = None
        elif heading.startswith("## "):
            waiting = _markdown(heading)
            cell = _markdown(text.strip(), whole.get("attachments"))
            if not cell.source:
                continue
        # of a table its rows, in whatever order, and not its caption
        rows = {line for line in cell.source.splitlines() if line.startswith("| ")}
        said = rows or {cell.source}
        if not said <= seen or heading.startswith("# "):
            if waiting is not None:
                yield waiting
            waiting = None
            yield cell
        seen |= said
