"""A document as PDF: pandoc reads its cells, typst sets them, without LaTeX and without a browser.

The same document gives the same bytes: no clock, no random name and no system font takes part.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from ..analysis.words import shortened
from ..data.files import scratch
from ..errors import ReportError
from . import fonts
from .document import Document

TEMPLATES = Path(__file__).parent / "templates"
READER = "ipynb-raw_html-smart-superscript-autolink_bare_uris+escaped_line_breaks"
"""A label is text: no tag, no link and no quotation mark is made of it."""


def typeset(document: Document, *, standards: tuple[Any, ...] = ("ua-1",)) -> bytes:
    """Return the PDF of a document, tagged so that a screen reader can read it.

    Raises
    ------
    ReportError
        Typst refuses the document; the message has its diagnosis.
    """
    with scratch() as folder:
        for picture, data in document.pictures().items():
            text = picture.endswith(".svg")
            place = folder / picture
            place.write_bytes(fonts.printable(data.decode()).encode() if text else data)
        source = '#import "report.typ": *\n#show: report\n#cover\n' + _body(document)
        (folder / "main.typ").write_text(fonts.printable(source), "utf-8")
        meta = json.dumps(_meta(document), ensure_ascii=False)
        (folder / "meta.json").write_text(fonts.printable(meta), "utf-8")
        (folder / "report.typ").write_bytes((TEMPLATES / "report.typ").read_bytes())
        return _compile(folder, _date(document), standards)


def _meta(document: Document) -> dict[str, Any]:
    cover = document.cover
    facts = cover.facts if cover else {}
    notice = cover.notice if cover else None
    return {
        "title": document.title,
        "subtitle": cover.subtitle if cover else "",
        "facts": list(facts.items()),
        "notice": notice,
        "short": notice and shortened(notice),
        "running": " · ".join(facts[name] for name in ("Experiment", "Measured") if name in facts),
    }


def _date(document: Document) -> dt.datetime:
    """SOURCE_DATE_EPOCH, else the last measurement."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        return dt.datetime.fromtimestamp(int(epoch), dt.UTC)
    measured = document.cover.date if document.cover else None
    return (measured or dt.datetime(1980, 1, 1, tzinfo=dt.UTC)).replace(microsecond=0)


def _body(document: Document) -> str:
    """Markup of the cells."""
    cells = [
        {
            "cell_type": "markdown",
            "metadata": dict(cell.metadata),
            "source": cell.source.replace("](attachment:", "]("),  # they are files beside it
        }
        for cell in document.cells
    ]
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    filter_ = str(TEMPLATES / "markdown.lua")
    return run_pandoc(json.dumps(book), READER, "typst", "--columns=10000", "-L", filter_)


def run_pandoc(text: str, source: str, to: str, *options: str) -> str:
    """Return a text in another format.

    Raises
    ------
    ReportError
        Pandoc cannot read it.
    """
    import pypandoc

    command = [pypandoc.get_pandoc_path(), "-f", source, "-t", to, "--wrap=none", *options]
    done = subprocess.run(
        command,
        input=text.encode(),
        capture_output=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        why = done.stderr.decode().strip()
        raise ReportError(f"pandoc could not read the notebook: {why}")
    return done.stdout.decode()


def _compile(folder: Path, when: dt.datetime, standards: tuple[Any, ...]) -> bytes:
    import typst

    try:
        pdf, warnings = typst.compile_with_warnings(
            str(folder / "main.typ"),
            root=str(folder),
            font_paths=[str(fonts.font_folder())],
            ignore_system_fonts=True,
            format="pdf",
            pdf_standards=list(standards),
            timestamp=when,
            package_path=str(folder / "no-packages"),
        )
    except typst.TypstError as error:
        why = getattr(error, "diagnostic", None) or error
        raise ReportError(f"the report could not be typeset: {why}") from None
    if any("converge" in str(warning) for warning in warnings):
        raise ReportError("the pages of the report do not settle: their numbers would be wrong")
    return bytes(pdf)
