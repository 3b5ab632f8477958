"""Several executed notebooks as one report: summary, one chapter per question, appendix, and provenance once."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..questions.judging import THESE
from ..questions.words import MIME, as_markdown, as_text
from .blocks import contents_of, outputs_of
from .cover import PROOFS

FIRST = "summary"
"""The notebook whose cover, verdicts and words open the report."""
MEASURED = "What was measured"
"""Its section with figures and tables."""
APPENDIX = ("07-quality", "published")
"""Notebooks that follow the answers, regardless of the order of their names."""

ALONE = ("## What to do",)
"""Sections of a notebook that a report leaves out: its table of answers at the front says what to do."""

SAME = ("## How it was measured", "## What this does not say", "## What to do")
"""Sections that are the same on every page of a notebook: only the first page of a report has them."""


class Earlier(NamedTuple):
    """A figure or a table of a report, to which later pages refer."""

    chapter: str
    output: Any
    columns: tuple[str, ...] = ()
    rows: frozenset[tuple[str, ...]] = frozenset()


def combine(books: Mapping[str, Any]) -> Any:
    """Join executed notebooks in the order of the chapters; the first heading is the title.

    A finding is reported twice: in the table at the front, and in the chapter with its evidence. So if the summary has
    the verdicts, the chapters repeat neither that table nor a headline. Comparisons that were not declared appear only
    in the table of their chapter, which then needs no sentences next to it.
    """
    from nbformat import v4

    new: Any = v4
    report = new.new_notebook()
    parameters: dict[str, Any] = {}
    unasked: dict[str, str] = {}
    last: Any = None
    earlier: set[str] = set()
    printed: list[Earlier] = []
    drawn: dict[str, Earlier] = {}
    judged = FIRST in books and "nothing" not in books[FIRST].metadata["netperf"]
    front = contents_of(books[FIRST].cells, "verdicts") if judged else None
    for name in sorted(books, key=APPENDIX.__contains__):
        book = books[name]
        cells = copy.deepcopy(book.cells)
        parameters |= book.metadata["netperf"]["parameters"]
        provenance = [c for c in cells if _shows(c, "provenance")]
        last = provenance[-1] if provenance else last
        cells = [c for c in cells if c not in provenance]
        if "nothing" in book.metadata["netperf"]:
            unasked[_heading(cells) or name] = book.metadata["netperf"]["nothing"]
            continue
        if name == FIRST:
            _open(cells)
        else:
            cells = _chapter(cells, front, earlier)
            for first in [c for c in cells if c.cell_type == "markdown"][:1]:
                first.metadata["netperf_chapter"] = "appendix" if name in APPENDIX else "chapter"
        _once(cells, earlier)
        _refer(cells, MEASURED if name == FIRST else _heading(cells) or name, printed, drawn)
        report.cells += cells
    if last is not None:
        if any(name in books for name in APPENDIX):  # they show what proves the placement
            for block in contents_of([last], "provenance"):
                block["groups"] = [g for g in block["groups"] if g["title"] != PROOFS]
        last.metadata["netperf_chapter"] = "end"
        report.cells.append(last)
    for i, cell in enumerate(report.cells):
        cell["id"] = f"cell-{i}"
    title = _heading(books[FIRST].cells) if FIRST in books else None
    report.metadata["title"] = title or "Network performance"
    report.metadata["netperf"] = {"parameters": parameters, "chapters": True, "unasked": unasked}
    return report


def _open(cells: Sequence[Any]) -> None:
    """Make the first notebook the opening, which is no chapter: its headings move up, its question is the subtitle."""
    for i, cell in enumerate(c for c in cells if c.cell_type == "markdown"):
        cell.source = re.sub(r"(?m)^##", "#", cell.source) if i else ""


def _chapter(cells: Sequence[Any], front: Sequence[Any] | None, earlier: set[str]) -> list[Any]:
    """Make another notebook a chapter, without what the tables of answers at the front say, if there are some."""
    if not any(_shows(c, "verdicts") for c in cells):  # its headline repeats none of the front
        for output in outputs_of(cells, "cover"):
            _replace(output, output.data[MIME]["headline"])
    if front is not None:
        answered = _contrasts(front)
        own = any(
            _shows(c, "verdicts") and not _contrasts(contents_of([c], "verdicts")) <= answered
            for c in cells
        )
        if not own:
            _renumber(cells, front)
        cells = list(_without(cells, ("cover", "findings" if own else "verdicts")))
    _shorten(cells, () if front is None else ALONE, earlier)
    return list(cells)


def _replace(output: Any, text: str, kind: str = "words") -> None:
    """Show sentences instead, in every format."""
    output.data = {
        MIME: {"kind": kind, "text": text},
        "text/markdown": as_markdown(text),
        "text/plain": text,
    }


def _without(cells: Iterable[Any], kinds: Sequence[str]) -> Iterator[Any]:
    """Cells without outputs of these kinds; one that showed nothing else is left out."""
    for cell in cells:
        outputs = cell.get("outputs", [])
        remaining = [o for o in outputs if o.get("data", {}).get(MIME, {}).get("kind") not in kinds]
        if outputs:
            cell.outputs = remaining
        if remaining or not outputs:
            yield cell


def _shorten(cells: Iterable[Any], alone: tuple[str, ...], earlier: set[str]) -> None:
    """Remove sections that only a stand-alone page needs, and those that an earlier page has `said`."""
    for cell in cells:
        if cell.cell_type == "markdown":
            head, *parts = re.split(r"(?m)^(?=## )", cell.source)
            title, newline, question = head.partition("\n")
            if (
                title.startswith("# ") and question.strip() in earlier
            ):  # the same notebook about another metric
                head = title + newline
            earlier.add(question.strip())
            parts = [p for p in [head, *parts] if p.strip() not in earlier]
            parts = [p for p in parts if not p.startswith(alone)]
            earlier |= {p.strip() for p in parts if p.startswith(SAME)}
            cell.source = "".join(parts)


def _once(cells: Iterable[Any], earlier: set[str]) -> None:
    """Remove sentences computed from the data that an earlier page has `said`; a list stays as it is."""
    for output in outputs_of(cells, "words"):
        text = output["data"][MIME]["text"]
        if not text.startswith("- "):
            sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
            _replace(output, " ".join(s for s in sentences if s not in earlier))
            earlier |= set(sentences)


def _renumber(cells: Iterable[Any], front: Sequence[Any]) -> None:
    """Give the warnings of a chapter's findings the numbers that they have in the table of answers at the front.

    A warning that is not there is written out.
    """
    numbers = {
        note.partition(": ")[2]: note.partition(":")[0].split()[-1]
        for table in front
        for note in table["notes"]
    }
    for table, output in zip(
        contents_of(cells, "verdicts"), outputs_of(cells, "findings"), strict=False
    ):
        own = [note.partition(": ")[2] for note in table["notes"]]

        def number(mark: re.Match[str], own: Sequence[str] = own) -> str:
            warnings = [own[int(n) - 1] for n in mark[1].split(", ")]
            numbered = ", ".join(numbers[w] for w in warnings if w in numbers)
            others = "".join(f" Warning: {w}" for w in warnings if w not in numbers)
            return (
                f" Warning{'s' if ',' in numbered else ''} {numbered}." if numbered else ""
            ) + others

        text = re.sub(r"(?m) Warnings? ([\d, ]+)\.$", number, output["data"][MIME]["text"])
        _replace(output, text.replace(f", {THESE}.", "."), "findings")


def _refer(
    cells: Iterable[Any], chapter: str, printed: list[Earlier], drawn: dict[str, Earlier]
) -> None:
    """Replace what an earlier chapter has by a reference: a figure `drawn` there, or a table `printed` there."""
    for output in outputs_of(cells, "figure"):
        before = drawn.setdefault(output.data["text/html"], Earlier(chapter, output))
        if before.chapter != chapter:
            _refer_to(output, before, "figure")
    for output in outputs_of(cells, "table"):
        block = output["data"][MIME]
        columns, rows = (
            tuple(block["columns"]),
            frozenset(tuple(map(str, row)) for row in block["rows"]),
        )
        before = next(
            (p for p in printed if p.columns == columns and rows <= p.rows),
            Earlier(chapter, output),
        )
        if before.chapter == chapter:
            printed.append(Earlier(chapter, output, columns, rows))
        else:
            _refer_to(output, before, "table")


def _refer_to(output: Any, before: Earlier, what: str) -> None:
    """Show a reference to an earlier figure or table instead: its number in the PDF, and a link in HTML."""
    data = before.output.data
    caption = (
        str(output.data[MIME].get("caption") or "This").split(":")[0].rstrip(".")
    )  # what it shows, without how
    label = data[MIME].setdefault(
        "label", f"{what}-{hashlib.sha256(repr(data[MIME]).encode()).hexdigest()[:12]}"
    )
    anchor = f'<span id="{label}"></span>'
    if not str(data.get("text/html", anchor)).startswith(anchor):
        data["text/html"] = anchor + data["text/html"]
    target = f"as in the {what} of the page “{before.chapter}”"
    _replace(output, f"{caption}: {target}.", "reference")
    output.data[MIME] |= {"caption": caption, "label": label}
    output.data["text/markdown"] = f"{as_markdown(caption)}: [{as_markdown(target)}](#{label})."


def _heading(cells: Any) -> str | None:
    first = next((c.source for c in cells if c.cell_type == "markdown"), "")
    heading = re.match(r"\s*#\s+(.+)", first)
    return as_text(heading[1].strip()) if heading else None


def _contrasts(tables: Iterable[Any]) -> set[tuple[str, ...]]:
    """The rows of tables of verdicts, without what to do and what limits a level."""
    return {
        (*row[:2], re.sub(r" \([^)]*\)$", "", row[2], flags=re.M), row[3])
        for b in tables
        for row in b["rows"]
    }


def _shows(cell: Any, *kinds: str) -> bool:
    return any(contents_of([cell], kind) for kind in kinds)
