"""Executed notebooks as one document: cells of markdown, with their pictures as attachments.

A PDF and an HTML page are made of the same cells. What a code cell shows becomes a cell of its
own: a picture, markdown, a table, or printed text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
HIDDEN = {"parameters", "injected-parameters", "hide-input", "remove-input"}
WIDGET = "application/vnd.jupyter.widget-view+json"


@dataclass
class Document:
    """What is set on pages.

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
    provenance : str
        How it was made, in markdown.
    parameters : dict
        Parameters of each notebook, in words.
    """

    title: str
    cells: list[Any] = field(default_factory=list)
    cover: Cover | None = None
    nothing: str = ""
    provenance: str = ""
    parameters: dict[str, str] = field(default_factory=dict)

    def pictures(self) -> dict[str, bytes]:
        """Return the pictures by name."""
        return {
            name: base64.b64decode(data)
            for cell in self.cells
            for name, bundle in cell.get("attachments", {}).items()
            for data in bundle.values()
        }


def _markdown(source: str, attachments: Mapping[str, Any] | None = None) -> Any:
    from nbformat import v4

    new: Any = v4
    cell = new.new_markdown_cell(source)
    if attachments:
        cell["attachments"] = dict(attachments)
    return cell


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
            made.nothing = _ending(cell)
            if made.nothing:
                break
    _take_title(made)
    return made


def _ending(cell: Any) -> str:
    """Why a notebook ends with this cell, if the experiment lacks the data for it."""
    wanted = NothingToReport.__name__
    found = (o["evalue"] for o in cell.get("outputs", ()) if o.get("ename") == wanted)
    return str(next(found, ""))


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
    for output in cell.get("outputs", ()):
        kind = output["output_type"]
        if kind == "stream":
            if output["name"] != "stderr":
                yield _markdown(_fenced(printed(_text(output["text"]))))
        elif kind == "error":
            if output["ename"] == NothingToReport.__name__:
                yield marked("Not in this experiment", f"{output['evalue']}.")
            else:
                yield marked(output["ename"], output["evalue"])
                yield _markdown(_fenced(printed("\n".join(output["traceback"]))))
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
        text = printed(_text(data["text/plain"]))
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
        cells += [cell.get_text(" ", strip=True), *[""] * (int(cell.get("colspan") or 1) - 1)]
    return cells


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)


def _fenced(text: str, language: str = "") -> str:
    longest = max(map(len, re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{wrap(text)}\n{fence}"


def wrap(text: str) -> str:
    """Break lines that are too long for the page, behind a blank where one is near."""
    pattern = rf".{{1,{LINE}}}$|.{{{LINE // 2},{LINE}}}(?<= )|.{{1,{LINE}}}"
    parts = (re.findall(pattern, line) or [""] for line in text.expandtabs().split("\n"))
    return "\n".join(part for line in parts for part in line)


def printed(text: str) -> str:
    """Return printed output without control sequences and without endless lists of lines."""
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)
    text = re.sub(r"^.*\r(?!\n)", "", text, flags=re.MULTILINE).rstrip()
    lines = wrap("".join(c for c in text if c in "\n\t" or c >= " ")).split("\n")
    if len(lines) > LINES:
        left = len(lines) - LINES
        said = f"… {left:,} lines are left out here; the executed notebook holds them …"
        lines = [*lines[: LINES // 2], "", said, "", *lines[-LINES // 2 :]]
    return "\n".join(lines)


# -- several notebooks -----------------------------------------------------------------------------


def combine(documents: Mapping[str, Document]) -> Document:
    """Join documents in the order of the chapters; what was shown is not shown again."""
    first = documents.get(FIRST)
    whole = Document(first.title if first else "Network performance")
    described = next((d for d in documents.values() if d.cover), None)
    if described is not None:
        whole.cover, whole.provenance = described.cover, described.provenance
    for part in documents.values():
        whole.parameters |= part.parameters
    shown = [name for name, part in documents.items() if not part.nothing]
    for name in sorted(documents, key=LAST.__contains__):
        part = documents[name]
        if part.nothing:
            continue
        if name != FIRST:
            heading = _markdown(f"# {as_markdown(part.title)}")
            if len(shown) > 3 and name == next(n for n in shown if n != FIRST):
                heading.metadata["netperf"] = "contents"
            whole.cells.append(heading)
        # a chapter's sections stand below its heading
        whole.cells += _raised(part.cells) if name == FIRST else part.cells
    whole.cells = list(_once(whole.cells))
    _mark(whole)
    lacking = [
        f"- {as_markdown(d.title)}: {as_markdown(d.nothing)}."
        for d in documents.values()
        if d.nothing
    ]
    if lacking:
        whole.cells.append(_markdown("\n".join(["# Questions without data", "", *lacking])))
    return whole


def finished(part: Document) -> Document:
    """Return a document of one notebook as it is set by itself."""
    cells = _raised(part.cells)
    whole = replace(part, cells=cells)
    _mark(whole)
    return whole


def _mark(whole: Document) -> None:
    """Put the facts behind the answers in short, and at the end how the report was made."""
    heads = (i for i, cell in enumerate(whole.cells) if cell.source.startswith("#"))
    facts = _markdown("")
    facts.metadata["netperf"] = "facts"
    whole.cells.insert(next(heads, len(whole.cells)), facts)
    if whole.provenance:
        whole.cells.append(_markdown(whole.provenance))
        rows = [list(row) for row in whole.parameters.items() if row[1]]
        if rows:
            table = markdown_table(("Notebook", "Parameters"), rows)
            whole.cells.append(_markdown(f"## Parameters of the notebooks\n\n{table}"))


def _raised(cells: Iterable[Any]) -> list[Any]:
    """Headings of a document whose title stands above it, one level higher."""
    raised = []
    for cell in cells:
        source = cell.source
        if not source.startswith("```"):
            source = re.sub(r"(?m)^#(#+ )", r"\1", source)
        raised.append(_markdown(source, cell.get("attachments")))
    return raised


def _once(cells: Iterable[Any]) -> Iterator[Any]:
    """Leave out what was shown before, and sections of which nothing is left."""
    seen: set[str] = set()
    waiting: Any = None
    for cell in cells:
        heading, _, text = cell.source.strip().partition("\n")
        lines = set(cell.source.splitlines())
        # of a table its rows, in whatever order, and not its caption
        said = {line for line in lines if line.startswith("| ")} or {cell.source}
        known = said <= seen and not heading.startswith("# ")
        seen |= said
        if known:
            continue
        if waiting is not None and not heading.startswith("#"):
            yield waiting
            waiting = None
        if heading.startswith("##") and not text.strip():
            waiting = cell
        else:
            waiting = None
            yield cell
