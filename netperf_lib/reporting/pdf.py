"""A document as PDF: pandoc reads its cells, typst sets them, without LaTeX and without a browser.

The same document gives the same bytes: no clock, no random name and no system font takes part.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from dataclasses import asdict
from pathlib import Path

from ..data.files import scratch
from ..errors import ReportError
from . import fonts
from .document import DETAIL, Document

TEMPLATES = Path(__file__).parent / "templates"
READER = "ipynb-raw_html-smart-superscript-autolink_bare_uris+escaped_line_breaks"
"""A label is text: no tag, no link and no quotation mark is made of it."""


def typeset(document: Document) -> bytes:
    """Return the PDF of a document, tagged so that a screen reader can read it.

    Raises
    ------
    ReportError
        Typst refuses the document; the message has its diagnosis.
    """
    cells = [cell for cell in document.cells if cell.metadata.get("netperf") != DETAIL]
    book = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}
    with scratch() as folder:
        words = ["-f", READER, "-t", "typst", "--ipynb-output=all"]
        words += ["-L", str(TEMPLATES / "markdown.lua")]
        body = run_pandoc(json.dumps(book), *words, folder=folder)
        cover = asdict(document.cover)
        meta = {"title": document.title, "kind": document.kind, **cover}
        files = {
            "main.typ": f'#import "report.typ": *\n#show: report\n#cover\n{body}',
            "meta.json": json.dumps(meta, ensure_ascii=False, default=str),
            "report.typ": (TEMPLATES / "report.typ").read_text("utf-8"),
            **{file.name: file.read_text("utf-8") for file in folder.glob("*.svg")},
        }
        for file, text in files.items():
            (folder / file).write_text(fonts.printable(text), "utf-8")
        return _compiled(folder, document.cover.date)


def run_pandoc(text: str, *options: str, folder: Path | None = None) -> str:
    """Return a text in another format.

    Raises
    ------
    ReportError
        Pandoc cannot read it.
    """
    import pypandoc

    command = [pypandoc.get_pandoc_path(), "--wrap=none", "--columns=10000", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        input=text,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise ReportError(f"pandoc could not read the notebook: {done.stderr.strip()}")
    return done.stdout


def _compiled(folder: Path, when: dt.datetime) -> bytes:
    """Return the PDF of ``main.typ`` in a folder."""
    import typst

    try:
        pdf = typst.compile(
            str(folder / "main.typ"),
            root=str(folder),
            font_paths=[str(fonts.font_folder())],
            ignore_system_fonts=True,
            format="pdf",
            pdf_standards=["ua-1"],
            timestamp=when,
            package_path=str(folder / "no-packages"),
        )
    except typst.TypstError as error:
        why = getattr(error, "diagnostic", None) or error
        raise ReportError(f"the report could not be typeset: {why}") from None
    return bytes(pdf)
