"""A notebook as one self-contained HTML page: it loads no script, style or font from elsewhere."""

from __future__ import annotations

import base64
import copy
import importlib
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import pass_context
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from ..questions.words import as_text
from .blocks import outputs_of
from .pdf import MARKDOWN, run_pandoc

TEMPLATES = Path(__file__).parent / "templates"


@cache
def exporter(*, code: bool) -> PageExporter:
    """The exporter of all pages of a report: to compile its templates takes longer than a page."""
    return PageExporter(code=code)


class PageExporter(HTMLExporter):
    """Notebook to HTML that can be mailed, archived and read without a network: printed, on a desktop or on a phone."""

    def __init__(self, *, code: bool = False, **kw: Any) -> None:
        super().__init__(  # type: ignore[no-untyped-call]  # nbconvert has no types
            exclude_input=not code,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
            exclude_anchor_links=True,
            embed_images=True,
            raw_template=(TEMPLATES / "page.html").read_text("utf-8"),
            **kw,
        )

    def from_notebook_node(self, nb: Any, resources: Any = None, **kw: Any) -> Any:
        """Convert a notebook; see nbconvert's `HTMLExporter.from_notebook_node`."""
        formatter: Any = importlib.import_module("pygments.formatters").HtmlFormatter()

        nb = copy.deepcopy(nb)
        resources = dict(resources or {})
        nb.metadata["title"] = _title(nb) or resources.get("metadata", {}).get("name") or "Report"
        headings: list[str] = []
        self._parts = self._headings = 0
        for cell in nb.cells:
            for output in cell.get("outputs", ()):
                if "text/html" in output.get("data", {}):
                    output["data"]["text/html"] = inlined(
                        "".join(output["data"]["text/html"]), resources.get("explorer")
                    )
            if cell.cell_type == "markdown":
                headings += re.findall(r"(?m)^##\s+(.+?)\s*$", cell.source)
        _fold(nb.cells)
        resources["contents"] = list(enumerate(headings, 1))
        if (
            len(headings) > 2
        ):  # after the answers in short, on top of which a phone would show nothing else
            covers = (c for c in nb.cells if outputs_of([c], "cover"))
            next(covers, nb.cells[0]).metadata["netperf_contents"] = True
        resources["page_css"] = (TEMPLATES / "page.css").read_text("utf-8")
        resources["code_css"] = formatter.get_style_defs(".highlight")
        return super().from_notebook_node(nb, resources, **kw)

    @pass_context
    def markdown2html(self, context: Any, source: str) -> str:
        """Render the markdown of a cell; pandoc renders what Jupyter leaves to a script (formulas).

        HTML in it is text: a label may come from anybody.
        """
        if "$" in source:
            return self._anchored(_harmless(run_pandoc(source, MARKDOWN, to="html")))
        attachments = context.get("cell", {}).get("attachments", {})
        renderer = IPythonRenderer(
            escape=True,
            allow_harmful_protocols=False,
            exclude_anchor_links=True,
            attachments=attachments,
        )
        return self._anchored(_harmless(str(MarkdownWithMath(renderer=renderer).render(source))))

    def _anchored(self, page: str) -> str:
        """Give every heading an id, to link to: ``part-3`` for the third of the contents, ``part-3-1`` within it."""

        def numbered(tag: re.Match[str]) -> str:
            if tag[1] == "2":
                self._parts, self._headings = self._parts + 1, 0
                name = f"part-{self._parts}"
            else:
                self._headings += 1
                name = f"part-{self._parts}-{self._headings}"
            words = tag[2] if "<a" in tag[2] else f'<a href="#{name}">{tag[2]}</a>'
            return f'<h{tag[1]} id="{name}">{words}</h{tag[1]}>'

        return re.sub(r"<h([1-6])\b[^>]*>(.*?)</h\1>", numbered, page, flags=re.DOTALL)


def _harmless(page: str) -> str:
    """Leave out pictures from elsewhere and links that are programs, which pandoc passes on: a page loads nothing."""
    page = re.sub(r'<img\b[^>]*?\bsrc="(?!data:image/)([^"]*)"[^>]*>', r"\1", page)
    return re.sub(r'(?i)href="\s*(?:javascript|vbscript|data):[^"]*"', 'href="#"', page)


def inlined(page: str, explorer: str | None = None) -> str:
    """Replace references to pictures with the pictures; a point shows its run and leads to its log in `explorer`."""

    def picture(image: re.Match[str]) -> str:
        svg = base64.b64decode(image[2]).decode()
        if explorer:
            svg = re.sub(
                r'<use data-run="([^"]*)".*?</use>',
                lambda point: (
                    f'<a href="{explorer}#run={quote(unescape(point[1]))}">{point[0]}</a>'
                ),
                svg,
                flags=re.DOTALL,
            )
        return svg[svg.index("<svg") :].replace(
            "<svg", f'<svg role="img" aria-label="{image[1]}"', 1
        )

    return re.sub(
        r'<img [^>]*?alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]+)">', picture, page
    )


def _fold(cells: Any) -> None:
    """Fold the chapters of a combined report under their headings: what is open are the answers."""
    opened = False
    for cell in cells:
        if kind := cell.metadata.get("netperf_chapter"):
            heading = ""
            if kind != "end":
                heading, _, cell.source = cell.source.strip().partition("\n")
            cell.metadata["netperf_fold"] = {"heading": heading, "close": opened}
            opened = True


def _title(nb: Any) -> str | None:
    """Title of a page, taken out of its cells; the chapters of a combined report go one level down."""
    words = [c for c in nb.cells if c.cell_type == "markdown"]
    if nb.metadata.get("netperf", {}).get("chapters"):
        for cell in words:
            cell.source = re.sub(r"(?m)^(#+ )", r"#\1", cell.source)
        return str(nb.metadata.title)
    for cell in words[:1]:
        if heading := re.match(r"\s*#\s+(.+?)\s*(?:\n|\Z)", cell.source):
            cell.source = cell.source[heading.end() :]
            return as_text(heading[1])
    return None
