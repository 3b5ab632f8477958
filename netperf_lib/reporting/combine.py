"""Several executed notebooks as one report: the summary first, a chapter a question, provenance once."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from ..errors import NothingToReport
from ..questions.words import MIME

__all__ = ["combine"]

FIRST = "summary"
"""The notebook whose cover, verdicts and words open the report."""


def combine(books: Mapping[str, Any]) -> Any:
    """Join executed notebooks.

    Parameters
    ----------
    books : mapping of str to notebook
        By name, in the order of the chapters.

    Returns
    -------
    notebook
        To be converted as one; its first heading is the title.
    """
    from nbformat import v4

    new: Any = v4
    whole = new.new_notebook()
    parameters: dict[str, Any] = {}
    missing: list[str] = []
    last: Any = None
    for name, book in books.items():
        cells = copy.deepcopy(book.cells)
        parameters |= book.metadata.get("netperf", {}).get("parameters", {})
        reason = _reason(cells)
        provenance = [c for c in cells if _shows(c, "provenance")]
        last = provenance[-1] if provenance else last
        cells = [c for c in cells if c not in provenance]
        if reason is not None:
            missing.append(f"- **{_heading(cells) or name}**: {reason}.")
            continue
        if name == FIRST:
            _promote(cells)
        else:
            chapter = next((c for c in cells if c.cell_type == "markdown"), None)
            if chapter is not None:
                chapter.metadata["netperf_chapter"] = True
        whole.cells += cells
    if missing:
        words = "These questions were not asked of this experiment:\n\n" + "\n".join(missing)
        whole.cells.append(new.new_markdown_cell(f"# Not in this experiment\n\n{words}"))
    if last is not None:
        whole.cells.append(last)
    for i, cell in enumerate(whole.cells):
        cell["id"] = f"cell-{i}"
    whole.metadata["title"] = _heading(books[FIRST].cells) if FIRST in books else "Report"
    whole.metadata["netperf"] = {"parameters": parameters, "chapters": True}
    return whole


def _heading(cells: Any) -> str | None:
    first = next((c.source for c in cells if c.cell_type == "markdown"), "")
    found = re.match(r"\s*#\s+(.+)", first)
    return found[1].strip() if found else None


def _promote(cells: Any) -> None:
    """Take the title away and raise every heading by one: what opens the report stands in no chapter."""
    title = True
    for cell in cells:
        if cell.cell_type != "markdown":
            continue
        if title:
            cell.source = re.sub(r"\A\s*#\s+.+\n?", "", cell.source).strip()
            title = False
        cell.source = re.sub(r"(?m)^##", "#", cell.source)
    if cells and cells[0].cell_type == "markdown":
        cells[0].source = ""  # the question of the summary is the subtitle of the cover


def _reason(cells: Any) -> str | None:
    outputs = (o for c in cells for o in c.get("outputs", ()))
    return next((str(o["evalue"]) for o in outputs if o.get("ename") == NothingToReport.__name__), None)


def _shows(cell: Any, kind: str) -> bool:
    return any(o.get("data", {}).get(MIME, {}).get("kind") == kind for o in cell.get("outputs", ()))
