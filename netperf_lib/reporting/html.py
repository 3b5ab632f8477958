"""A document as one HTML page, which loads no script, style, font or picture from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import bleach  # type: ignore[import-untyped]
from jinja2 import pass_context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import v4

from ..analysis.words import as_text
from .document import DETAIL, Document, text_cell
from .pdf import run_pandoc

TEMPLATES = Path(__file__).parent / "templates"
FORMULAS = "markdown-raw_html-raw_tex-raw_attribute-native_divs-native_spans-smart"


@cache
def exporter(template: str = "page.html") -> PageExporter:
    """Return the exporter of all pages: to compile its template takes longer than a page."""
    return PageExporter(raw_template=(TEMPLATES / template).read_text("utf-8"))


def page(document: Document, *, explorer: str | None = None) -> str:
    """Return the page of a document.

    Parameters
    ----------
    document : Document
        What it shows.
    explorer : str, optional
        Name of the file of the explorer, which stands beside the page.
    """
    cells = list(_folded(document.cells))
    book = v4.new_notebook(cells=cells, nbformat_minor=4)  # type: ignore[no-untyped-call]
    headings = re.findall(r"(?m)^# (.+)$", "\n".join(c.source for c in document.cells))
    resources = {
        "document": document,
        "explorer": explorer,
        "contents": [as_text(heading) for heading in headings],
        "page_css": (TEMPLATES / "page.css").read_text("utf-8"),
    }
    return str(exporter().from_notebook_node(book, resources)[0])


def _folded(cells: Iterable[Any]) -> Iterator[Any]:
    """Cells, with marks where those of details begin and end."""
    for is_detail, group in groupby(cells, lambda cell: cell.metadata.netperf == DETAIL):
        if is_detail:
            yield text_cell("", mark="fold")
            yield from group
            yield text_cell("", mark="unfold")
        else:  # what a detail printed is there itself
            yield from (cell for cell in group if cell.metadata.netperf != "told")


def _scrolling(table: re.Match[str]) -> str:
    """A table that scrolls where it is wide; one of verdicts is told from others."""
    kind = "scroll answers" if re.search(r'<td[^>]* class="', table[0]) else "scroll"
    return f'<div class="{kind}">{table[0]}</div>'


def tables(page: str) -> str:
    """Return the tables of a piece of HTML, without anything that is no text in them."""
    found = "".join(re.findall(r"(?s)<table.*?</table>", page))
    tags = {"table", "thead", "tbody", "tr", "th", "td"}
    return str(bleach.clean(found, tags, {"*": ["colspan", "rowspan"]}, strip=True))


class PageExporter(HTMLExporter):
    """Notebook to HTML that can be mailed, archived and read without a network."""

    def __init__(self, **options: Any) -> None:
        hidden = {"exclude_input_prompt": True, "exclude_output_prompt": True}
        options |= {"filters": {"tables": tables}, **hidden}
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def from_notebook_node(self, nb: Any, resources: Any = None, **options: Any) -> Any:
        """Convert a notebook; see nbconvert's `HTMLExporter.from_notebook_node`."""
        self._chapter = 0
        return super().from_notebook_node(nb, resources, **options)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Render the markdown of a cell.

        HTML in it is text, because a label may come from anybody.
        """
        if re.search(r"(?<!\\)\$", source):  # a formula, which Jupyter leaves to a script
            body = run_pandoc(source, "-f", FORMULAS, "-t", "html", "--mathml")
        else:
            renderer = IPythonRenderer(
                escape=True,
                allow_harmful_protocols=("data:image/svg+xml;",),  # type: ignore[arg-type]
                exclude_anchor_links=True,
                attachments=context.get("cell", {}).get("attachments", {}),
            )
            body = str(MarkdownWithMath(renderer=renderer).render(source))
        body = re.sub(
            r'(?i)href="\s*(?:javascript|vbscript|data):[^"]*"', 'href="#"', body
        )
        # notebooks link to one another, but a page is mailed without them
        body = re.sub(r'<a href="[\w-]+\.ipynb">(.*?)</a>', r"\1", body)
        # a picture from elsewhere would tell who reads the page
        elsewhere = r'<img\b[^>]*?\bsrc="(?!data:image/)([^"]*)"[^>]*>'
        body = re.sub(elsewhere, r"picture not found: \1", body)
        verdict = r"<td([^>]*)>([▲▼■○] (\w+))</td>"
        body = re.sub(verdict, r'<td\1 class="\3">\2</td>', body)
        body = re.sub(r"(?s)<table>.*?</table>", _scrolling, body)
        return re.sub(r"(?s)<h([1-5])\b[^>]*>(.*?)</h\1>", self._anchored, body)

    def _anchored(self, heading: re.Match[str]) -> str:
        """A heading one level lower, below the title; a chapter has an id to link to."""
        level = int(heading[1]) + 1
        self._chapter += level == 2
        name = f' id="part-{self._chapter}"' if level == 2 else ""
        return f"<h{level}{name}>{heading[2]}</h{level}>"
