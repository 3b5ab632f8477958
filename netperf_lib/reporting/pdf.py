"""A notebook as Typst source, and as a PDF: without LaTeX, without a browser.

Everything a notebook shows goes as data into ``data.json``, which the template ``report.typ`` reads, so that nothing
needs escaping; only markdown becomes markup, through pandoc. The same notebook gives the same bytes: no clock, no
random name, and no system font takes part.
"""

from __future__ import annotations

import base64
import copy
import datetime as dt
import hashlib
import json
import logging
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ReportError
from ..questions.words import MIME, as_markdown, as_text
from . import fonts, tables
from .blocks import contents_of

TEMPLATE = Path(__file__).parent / "templates"
MARKDOWN = (
    "markdown+alerts+tex_math_dollars+pipe_tables+autolink_bare_uris+lists_without_preceding_blankline+strikeout"
    "+task_lists+footnotes-smart-citations-implicit_figures-raw_attribute-raw_tex-raw_html-native_divs-native_spans"
)
LINE = 94
"""Characters of the monospaced font that fit on a line."""
LINES = 400
"""Lines of printed output that a report shows; the middle of a longer output is left out, with a note."""
WORDS = ("words", "findings", "headline")
"""Kinds of blocks whose content is sentences."""
PICTURES = {"image/svg+xml": ".svg", "image/png": ".png", "image/jpeg": ".jpg"}


def source(
    nb: Any,
    *,
    name: str = "Report",
    base: str | None = None,
    code: bool = False,
    contents: bool = True,
) -> tuple[str, dict[str, bytes]]:
    """Typst source of an executed notebook, which is left as it is, and the files that the source reads.

    Parameters
    ----------
    name : str
        Title of a notebook without a heading.
    base : str, optional
        Folder of the pictures that the notebook refers to.
    code, contents : bool
        Show the code too; show the contents after the first page.
    """
    return _Page(copy.deepcopy(nb), name=name, base=base, code=code, contents=contents).render()


def typeset(nb: Any, *, standards: Sequence[Any] = ("ua-1",), **options: Any) -> bytes:
    """Make the PDF of an executed notebook, with the options of `source`, to these standards.

    Raises ReportError if Typst refuses the document; the message contains its diagnosis.
    """
    text, files = source(nb, **options)
    with tempfile.TemporaryDirectory(prefix="netperf-report-") as folder:
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        Path(folder, "main.typ").write_text(text, "utf-8")
        try:
            return _compile(Path(folder), stamp(nb), standards)
        except ReportError as error:
            if "error: PDF/" not in str(error) and "PDF/UA" not in str(error):
                raise
            # a user's notebook; a page that is not accessible to everyone is better than none
            logging.getLogger(__name__).warning(
                "the PDF does not meet %s: %s", ", ".join(standards), error
            )
            return _compile(Path(folder), stamp(nb), [])


def _compile(folder: Path, when: dt.datetime, standards: Sequence[Any]) -> bytes:
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
        raise ReportError(
            f"the report could not be typeset: {getattr(error, 'diagnostic', None) or error}"
        ) from None
    if any("converge" in str(w) for w in warnings):
        raise ReportError(
            "the pages of the report do not settle: page, figure and table numbers would be wrong"
        )
    return bytes(pdf)


def stamp(nb: Any) -> dt.datetime:
    """Date of the document: SOURCE_DATE_EPOCH, else the last measurement, else when papermill was done."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        return dt.datetime.fromtimestamp(int(epoch), dt.UTC)
    cover = next(iter(contents_of(nb.cells, "cover")), {})
    when = (
        cover.get("date")
        or nb.metadata.get("papermill", {}).get("end_time")
        or "1980-01-01T00:00:00+00:00"
    )
    return dt.datetime.fromisoformat(when).replace(microsecond=0)


class _Page:
    """One document in the making: its data, its files, its markup."""

    def __init__(self, nb: Any, *, name: str, base: str | None, code: bool, contents: bool) -> None:
        self.nb, self.base, self.code = nb, Path(base or "."), code
        self.data: list[Any] = []
        self.files: dict[str, bytes] = {}
        self.images: dict[str, str] = {}
        self.cover = next(iter(contents_of(nb.cells, "cover")), None)
        self.name: str = nb.metadata.get("title", "")
        self.file = name
        self.chapters = bool(nb.metadata.get("netperf", {}).get("chapters"))
        self.first_cover = self.cover
        self.scale = 1.0  # of the picture on page one
        self.contents = contents

    # -- pieces ----------------------------------------------------------------------------------------------------

    def call(self, function: str, data: Any) -> str:
        """Markup that gives `data` to a function of the template."""
        self.data.append(data)
        return f"\n#r.{function}(d.blocks.at({len(self.data) - 1}))\n"

    def keep(self, data: bytes, suffix: str) -> str:
        """Keep a file that the source reads; return its name."""
        name = f"{hashlib.blake2s(data, digest_size=8).hexdigest()}{suffix}"
        self.files[name] = data
        return name

    def _picture(
        self, data: bytes, suffix: str, caption: str | None, alt: str, label: str | None = None
    ) -> str:
        path = self.keep(data, suffix)
        return self.call(
            "picture",
            {"path": path, "caption": caption, "alt": alt, "scale": self.scale, "label": label},
        )

    # -- the document -------------------------------------------------------------------------------------------------

    def render(self) -> tuple[str, dict[str, bytes]]:
        """Source, and the files that it reads."""
        self._title()
        words = self._markdown()
        body, provenance = [], []
        contents, appendix = self.cover is not None and self.contents, False
        for index, cell in enumerate(self.nb.cells):
            if cell.cell_type == "markdown":
                if cell.metadata.get("netperf_chapter"):
                    if contents:
                        body.append("#r.contents(1)")
                        contents = False
                    if cell.metadata.netperf_chapter == "appendix" and not appendix:
                        body.append("#show: r.appendix")
                        appendix, self.scale = True, 0.6
                    body.append("#r.chapter()")
                body.append(words[index])
            elif cell.cell_type == "code":
                tags = cell.metadata.get("tags", [])
                hidden = {"parameters", "injected-parameters", "hide-input", "remove-input"} & set(
                    tags
                )
                if self.code and cell.source.strip() and not hidden:
                    body.append(
                        self.call("code", {"source": wrap(cell.source.strip()), "lang": "python"})
                    )
                for output in cell.get("outputs", ()):
                    block = output.get("data", {}).get(MIME, {})
                    if block.get("kind") == "provenance":
                        if block not in provenance:
                            provenance.append(block)
                        continue
                    key = (index, id(output))
                    body.append(words[key] if key in words else self._output(output))
        body += [self.call("provenance", self._parameters(p)) for p in provenance]
        head = ['#import "report.typ" as r', '#import "report.typ": horizontalrule']
        head += ['#let d = json("data.json")', "#show: r.report.with(d.meta)"]
        head += ["#let local-image(src, alt) = box(image(d.images.at(src), alt: alt))"]
        if self.cover:
            head.append("#r.cover(d.cover)")
        elif self.name:
            head.append("#r.plain-title()")
        source = "\n".join([*head, "\n\n".join(body)]) + "\n"
        data = {
            "meta": self._meta(),
            "cover": self.cover,
            "blocks": self.data,
            "images": self.images,
        }
        text = json.dumps(data, ensure_ascii=False, indent=1, sort_keys=True)
        source, text = fonts.printable(source), fonts.printable(text)
        files = self.files | {
            "data.json": text.encode(),
            "report.typ": (TEMPLATE / "report.typ").read_bytes(),
        }
        return source, files

    def _title(self) -> None:
        """Take the first heading as the title; the cover or the title line shows it."""
        first = next(
            (c for c in self.nb.cells if c.cell_type == "markdown" and c.source.strip()), None
        )
        heading = re.match(r"\s*#\s+(.+?)\s*(?:\n|\Z)", first.source) if first else None
        if first and heading and not self.chapters:
            self.name = self.name or as_text(heading[1])
            subtitle = first.source[heading.end() :].strip()
            if (
                self.cover is not None
                and subtitle
                and "\n\n" not in subtitle
                and len(subtitle) < 300
            ):
                self.cover = self.cover | {
                    "subtitle": re.sub(r"[*_`]", "", " ".join(subtitle.split()))
                }
                subtitle = ""
            first.source = subtitle

    def _meta(self) -> dict[str, Any]:
        papermill = self.nb.metadata.get("papermill", {})
        parameters = {**papermill.get("default_parameters", {}), **papermill.get("parameters", {})}
        parameters.pop("experiment", None)
        cover = self.cover or {}
        return {
            "title": self.name or self.file,
            "authors": [a["name"] for a in self.nb.metadata.get("authors", [])],
            "keywords": [f"{k}={v}" for k, v in parameters.items()],
            "description": cover.get("headline"),
            "running": cover.get("running", ""),
            "notice": cover.get("notice_short"),
            "chapters": self.chapters,
            "footer": "netperf_lib",
        }

    def _parameters(self, block: dict[str, Any]) -> dict[str, Any]:
        metadata = self.nb.metadata.get("netperf", {})
        implied = (
            {"experiment", "metric"} if self.chapters else {"experiment"}
        )  # a page is named after its metric
        rows = []
        for name, values in metadata.get("parameters", {}).items():
            words = [
                f"{k} {_plain(v)}" for k, v in values.items() if k not in implied and v is not None
            ]
            rows += [f"{name}: {', '.join(words)}"] if words else []
        named = (
            [{"title": "parameters of the notebooks", "rows": [["set", "; ".join(rows)]]}]
            if rows
            else []
        )
        groups = [*block["groups"], *named]
        if unasked := metadata.get("unasked"):
            groups.append(
                {"title": "questions without data", "rows": [[k, v] for k, v in unasked.items()]}
            )
        return {**block, "groups": groups}

    # -- markdown --------------------------------------------------------------------------------------------------

    def _markdown(self) -> dict[Any, str]:
        """Every piece of markdown, by its position, as markup: one run of pandoc for all of them."""
        pieces: dict[Any, str] = {}
        for index, cell in enumerate(self.nb.cells):
            if cell.cell_type == "markdown":
                pieces[index] = self._with_images(cell)
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                block = data.get(MIME, {})
                if block.get("kind") in ("callout", *WORDS):
                    pieces[index, id(output)] = as_markdown(block["text"])
                elif (
                    MIME not in data
                    and "text/markdown" in data
                    and not PICTURES.keys() & data.keys()
                ):
                    pieces[index, id(output)] = _text(data["text/markdown"])
        done = dict(
            zip(
                pieces,
                _pandoc(list(pieces.values()), shift=0 if self.chapters else -1),
                strict=True,
            )
        )
        done = dict(zip(done, _levelled(list(done.values())), strict=True))
        for index, cell in enumerate(self.nb.cells):
            for output in cell.get("outputs", ()):
                block = output.get("data", {}).get(MIME, {})
                if block.get("kind") == "callout":
                    title = (
                        json.dumps(block["title"], ensure_ascii=False) if block["title"] else "none"
                    )
                    body = done[index, id(output)]
                    done[index, id(output)] = (
                        f'\n#r.callout("{block["level"]}", {title})[\n{body}\n]\n'
                    )
        return done

    def _with_images(self, cell: Any) -> str:
        """Markdown whose pictures, attached or next to the notebook, are files of the report."""
        source = str(cell.source)
        for name, bundle in (cell.get("attachments") or {}).items():
            mime, data = next(iter(bundle.items()))
            file = self.keep(base64.b64decode(data), PICTURES.get(mime, ".png"))
            self.images[file] = file
            source = source.replace(f"attachment:{name}", file)

        def local(link: re.Match[str]) -> str:
            target = link[2]
            file = self.base / target
            if "://" not in target and file.is_file() and file.suffix.lower() in PICTURES.values():
                self.images[target] = self.keep(file.read_bytes(), file.suffix.lower())
            return link[0] if target in self.images else f"**picture not found: `{target}`**"

        return re.sub(r"!\[([^\]]*)\]\(([^)\s]+)[^)]*\)", local, source)

    # -- outputs ---------------------------------------------------------------------------------------------------

    def _output(self, output: Any) -> str:
        kind = output["output_type"]
        if kind == "stream":
            return (
                ""
                if output["name"] == "stderr"
                else self.call("stream", {"text": printed(_text(output["text"]))})
            )
        if kind == "error":
            text = printed("\n".join(output["traceback"]))
            return self.call("error", {"title": output["ename"], "text": text})
        data = output.get("data", {})
        if MIME in data:
            return self._block(data[MIME], data)
        for mime, suffix in PICTURES.items():
            if mime in data:
                raw = _text(data[mime])
                alt = _text(data.get("text/plain", "")) or "Chart without a description"
                return self._picture(
                    _svg(raw) if suffix == ".svg" else base64.b64decode(raw), suffix, None, alt
                )
        if "text/html" in data and "<table" in _text(data["text/html"]):
            return "".join(
                self.call("data-table", tables.fitted(t.header, t.rows, caption=t.caption))
                for t in tables.parse(_text(data["text/html"]))
            )
        if "text/html" in data and "<script" not in _text(data["text/html"]):
            return "\n" + _pandoc([_text(data["text/html"])], source="html")[0] + "\n"
        if "text/latex" in data:
            return "\n" + _pandoc([_text(data["text/latex"])])[0] + "\n"
        if "text/plain" in data and "application/vnd.jupyter.widget-view+json" not in data:
            return self.call("stream", {"text": printed(_text(data["text/plain"]))})
        return ""

    def _block(self, block: dict[str, Any], data: Any) -> str:
        kind = block["kind"]
        if kind == "cover":
            if block is self.first_cover and self.chapters:
                self.scale = 0.74
            return self.call("lead", block["headline"]) if block.get("headline") else ""
        if kind == "figure":
            image = re.search(r"data:image/svg\+xml;base64,([^\"]+)", _text(data["text/html"]))
            if not image:
                raise ReportError(
                    f"the figure {block['caption'][:60]!r} has lost its picture; execute the notebook again"
                )
            svg = _svg(base64.b64decode(image[1]).decode())
            return self._picture(svg, ".svg", block["caption"], block["alt"], block.get("label"))
        if kind == "table":
            table = tables.fitted([block["columns"]], block["rows"], caption=block["caption"])
            return self.call("data-table", table | {"label": block.get("label")})
        if kind == "reference":
            return self.call("reference", block)
        if kind == "verdicts":
            return self.call("verdicts", block)
        raise ReportError(
            f"a cell shows something of an unknown kind {kind!r}; is the notebook from another version?"
        )


def _svg(text: str) -> bytes:
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return fonts.printable(text).encode()


def _text(value: Any) -> str:
    return "".join(value) if isinstance(value, list) else str(value)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def wrap(text: str) -> str:
    """Break lines that are too long for the page, behind a blank where one is near."""
    pattern = rf".{{1,{LINE}}}$|.{{{LINE // 2},{LINE}}}(?<= )|.{{1,{LINE}}}"
    parts = (re.findall(pattern, line) or [""] for line in text.expandtabs().split("\n"))
    return "\n".join(part for line in parts for part in line)


def printed(text: str) -> str:
    """Printed output as a page can hold it: no control sequences, no endless lines, no endless list of lines."""
    text = re.sub(r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", text)
    text = re.sub(r"^.*\r(?!\n)", "", text, flags=re.MULTILINE).rstrip()
    lines = wrap("".join(c for c in text if c in "\n\t" or c >= " ")).split("\n")
    if len(lines) > LINES:
        left = len(lines) - LINES
        note = f"… {left:,} lines are left out here; the executed notebook holds them …"
        lines = [*lines[: LINES // 2], "", note, "", *lines[-LINES // 2 :]]
    return "\n".join(lines)


def _pandoc(pieces: list[str], *, source: str = MARKDOWN, shift: int = 0) -> list[str]:
    """Convert pieces of text to Typst markup, all in one go where no piece spills into the next."""
    if not pieces:
        return []
    mark = "netperfpiece" + hashlib.blake2s("".join(pieces).encode(), digest_size=6).hexdigest()
    converted = run_pandoc(f"\n\n{mark}\n\n".join(pieces), source, shift)
    parts = re.split(rf"(?m)^{mark}\s*$", converted)
    if len(parts) != len(pieces):  # an open fence or tag swallowed a mark
        parts = [run_pandoc(piece, source, shift) for piece in pieces]
    return [p.strip() for p in parts]


def _levelled(pieces: list[str]) -> list[str]:
    """Raise headings that skip a level, as PDF/UA demands: the first is of level 1, and none is deeper by two."""
    last, fence = 0, ""
    levelled = []
    for piece in pieces:
        lines = []
        for line in piece.split("\n"):
            mark = re.match(r"`{3,}", line)
            if mark and (not fence or line.strip() == fence):
                fence = "" if fence else mark[0]
            heading = None if fence else re.match(r"(=+) ", line)
            if heading:
                last = min(len(heading[1]), last + 1)
                line = "=" * last + line[heading.end(1) :]
            lines.append(line)
        levelled.append("\n".join(lines))
    return levelled


def run_pandoc(text: str, source: str, shift: int = 0, *, to: str = "typst") -> str:
    """Convert one text to Typst markup, or to HTML whose formulas are MathML."""
    import pypandoc

    command = [pypandoc.get_pandoc_path(), "-f", source, "-t", to, "--wrap=none"]
    command += ["-L", str(TEMPLATE / "markdown.lua")] if to == "typst" else ["--mathml"]
    if shift:
        command.append(f"--shift-heading-level-by={shift}")
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, timeout=120, check=False
    )
    if done.returncode:
        raise ReportError(
            f"pandoc could not read a text of the notebook: {done.stderr.decode().strip()}"
        )
    return done.stdout.decode()
