"""A notebook full of what breaks converters: nothing may be lost on the way to the page."""

from __future__ import annotations

import base64
import datetime as dt
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pypdf
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from netperf_lib.errors import ReportError
from netperf_lib.questions.tables import Table
from netperf_lib.questions.words import Words
from netperf_lib.reporting import blocks, tables
from netperf_lib.reporting.pdf import _compile, printed, source, typeset

LONG = pd.DataFrame(
    {
        "run": [f"run{i:04d}" for i in range(260)],
        "value": [i * 1.5 for i in range(260)],
        "note": [
            f"note{i} with words that make the cell long enough to wrap in its column"
            for i in range(260)
        ],
    }
)
WIDE = pd.DataFrame(
    [[f"r{r}c{c}" for c in range(40)] for r in range(6)], columns=[f"column{c}" for c in range(40)]
)
MARKDOWN = r"""# A stress test

Prices of $5 and $10, `code with $dollars$`, C:\temp, #hash, a_b_c, 5 * 3 * 2, @mention, <not a tag>, 100 %, "quotes".

Maths $T \le \frac{MSS}{RTT}\sqrt{\frac{3}{2p}}$ and a block:

$$ \int_0^1 x^2\,dx = \tfrac13 $$

| left | right |
|---|---|
| one | 1 |
| two | 2 |

> [!WARNING]
> A warning with *emphasis*.

- [x] done
- [ ] not done

Emoji 🚀 and 😀, CJK 中文 日本語, Greek λ, arrows →, a footnote[^1].

[^1]: The footnote's words.

![nothing here](no-such-picture.png)
"""


def png() -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0\xff\0\0\0\xff\0" * 2)
    return base64.b64encode(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    ).decode()


def bundle(shown: Any) -> Any:
    return new_output("display_data", data=shown._repr_mimebundle_())


def book(*cells: Any) -> Any:
    return new_notebook(cells=list(cells))


def pdf_of(nb: Any, **options: Any) -> bytes:
    return typeset(nb, name="stress", **options)


def text_of(pdf: bytes, tmp_path: Path) -> str:
    place = tmp_path / "page.pdf"
    place.write_bytes(pdf)
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(place).pages)


@pytest.fixture(scope="module")
def stress() -> bytes:
    html = WIDE.to_html()
    many = pd.DataFrame(
        {("a", "x"): [1, 2], ("a", "y"): [3, 4], ("b", "x"): [5, 6]},
        index=pd.MultiIndex.from_tuples([("k", 1), ("k", 2)]),
    ).to_html()
    outputs = [
        bundle(Table.of(LONG, "A long table.")),
        bundle(Table.of(WIDE, "A wide table.")),
        bundle(
            blocks.callout("Callout with `code` and $x^2$.", title="Mind *this*", level="warning")
        ),
        bundle(Words.of("Said **in bold** with 1 < 2 & #hash.")),
        new_output("execute_result", data={"text/html": html, "text/plain": "wide"}),
        new_output("execute_result", data={"text/html": many, "text/plain": "many"}),
        new_output(
            "execute_result",
            data={"text/html": "<b>bold</b> &amp; <i>italic</i>", "text/plain": "html"},
        ),
        new_output(
            "stream",
            name="stdout",
            text="\n".join(f"line{i}" for i in range(5000)) + "\x1b[31mred\x1b[0m",
        ),
        new_output("stream", name="stderr", text="a warning nobody needs"),
        new_output("stream", name="stdout", text="x" * 3000),
        new_output("display_data", data={"image/png": png(), "text/plain": "two pixels"}),
        new_output("display_data", data={"text/latex": "$$E = mc^2$$", "text/plain": "E"}),
        new_output("display_data", data={"text/plain": "#set page(width: 1cm) \\ ] } 🚀 $ * _ `"}),
    ]
    code = new_code_cell(
        "value = '" + "y" * 300 + "'\n" + "\n".join(f"line_{i} = {i}" for i in range(120)),
        outputs=outputs,
    )
    return pdf_of(book(new_markdown_cell(MARKDOWN), code), code=True)


def test_every_row_of_a_long_table_is_on_the_pages(stress: bytes, tmp_path: Path) -> None:
    text = text_of(stress, tmp_path)
    assert [r for r in LONG["run"] if r not in text] == []
    assert [i for i in range(260) if not re.search(rf"\bnote{i}\b", text)] == []


def test_every_cell_of_a_wide_table_is_on_the_pages_twice(stress: bytes, tmp_path: Path) -> None:
    text = text_of(stress, tmp_path)
    for cell in WIDE.to_numpy().ravel():
        # once from the helper, once from a bare DataFrame
        assert len(re.findall(rf"\b{cell}\b", text)) >= 2, cell


def test_words_that_look_like_markup_stay_words(stress: bytes, tmp_path: Path) -> None:
    text = " ".join(text_of(stress, tmp_path).split())
    for words in (
        "$5 and $10",
        "C:\\temp",
        "#hash",
        "a_b_c",
        "@mention",
        "100 %",
        "1 < 2 & #hash",
        "#set page(width: 1cm)",
    ):
        assert words in text, words
    for words in (
        "Callout with `code` and $x^2$.",
        "Said **in bold** with 1 < 2 & #hash.",
        "Mind *this*",
    ):
        assert words in text
    assert "The footnote’s words." in text or "The footnote's words." in text


def test_a_picture_that_is_missing_is_said(stress: bytes, tmp_path: Path) -> None:
    assert "picture not found: no-such-picture.png" in " ".join(text_of(stress, tmp_path).split())


def test_a_huge_output_is_cut_in_the_middle_and_says_so(stress: bytes, tmp_path: Path) -> None:
    text = text_of(stress, tmp_path)
    assert "line0" in text
    assert "line4999" in text
    assert "4,600 lines are left out here" in text
    assert "a warning nobody needs" not in text


def test_long_lines_of_code_and_output_are_wrapped_not_cut(stress: bytes, tmp_path: Path) -> None:
    text = text_of(stress, tmp_path)
    assert text.count("y") >= 300
    assert text.count("x") >= 3000
    assert "line_119 = 119" in text


def test_characters_without_a_glyph_are_spelled_out(stress: bytes, tmp_path: Path) -> None:
    text = text_of(stress, tmp_path)
    assert "rocket" in text
    assert "😀" in text, "DejaVu holds this one"
    assert "U+65E5" in text


def test_the_stress_is_a_tagged_pdf_and_the_same_each_time(stress: bytes) -> None:
    # the compiler refuses what does not meet PDF/UA-1, so that there is a PDF at all says that it does
    assert b"pdfuaid" in stress or b"/MarkInfo" in stress
    again = pdf_of(book(new_markdown_cell(MARKDOWN), new_code_cell("1")))
    assert again == pdf_of(book(new_markdown_cell(MARKDOWN), new_code_cell("1")))


def test_pages_that_do_not_settle_are_refused(tmp_path: Path) -> None:
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    (tmp_path / "main.typ").write_text("#set document(title: [a])\n= Steady\n", "utf-8")
    assert _compile(tmp_path, when, []).startswith(b"%PDF")
    (tmp_path / "main.typ").write_text(
        "#context { (query(<x>).len() + 1) * [#metadata(0)<x>] }", "utf-8"
    )
    with pytest.raises(ReportError, match="do not settle"):
        _compile(tmp_path, when, [])


def test_code_is_hidden_unless_asked(tmp_path: Path) -> None:
    nb = book(new_markdown_cell("# T"), new_code_cell("hidden_name = 1", outputs=[]))
    assert "hidden_name" not in text_of(pdf_of(nb), tmp_path)
    assert "hidden_name" in text_of(pdf_of(nb, code=True), tmp_path)


def test_an_error_is_shown_as_one(tmp_path: Path) -> None:
    failed = new_output(
        "error", ename="ValueError", evalue="no", traceback=["\x1b[31mValueError\x1b[0m: no"]
    )
    text = text_of(
        pdf_of(book(new_markdown_cell("# T"), new_code_cell("x", outputs=[failed]))), tmp_path
    )
    assert "ValueError: no" in text


def test_markdown_that_swallows_a_mark_is_read_alone(tmp_path: Path) -> None:
    nb = book(
        new_markdown_cell("# T\n\n```\nnever closed"), new_markdown_cell("## After\n\nwords after")
    )
    text = text_of(pdf_of(nb), tmp_path)
    assert "never closed" in text
    assert "words after" in text
    assert "netperfpiece" not in text


def test_attached_pictures_are_kept() -> None:
    cell: Any = new_markdown_cell("# T\n\n![two pixels](attachment:a.png)")
    cell["attachments"] = {"a.png": {"image/png": png()}}
    text, files = source(book(cell))
    assert "local-image" in text
    assert any(name.endswith(".png") for name in files)


def test_a_table_that_fits_has_one_part_and_a_wide_one_keeps_its_first_column() -> None:
    small = tables.fitted([["a", "b"]], [["x", "1"]], caption=None)
    assert len(small["parts"]) == 1
    assert small["size"] == 9
    wide = tables.fitted([list(WIDE.columns)], WIDE.to_numpy().tolist(), caption=None)
    assert len(wide["parts"]) > 1
    for part in wide["parts"]:
        assert part["header"][0][0] == "column0"
    shown = {h for part in wide["parts"] for h in part["header"][0]}
    assert shown == set(WIDE.columns)


@pytest.mark.parametrize(
    "cell", ["1", "−3.5", "+4 %", "58.2 µs", "7.55 Gbit/s", "1,234", "3e-05", "0.5 s"]
)
def test_numbers_are_told_from_words(cell: str) -> None:
    assert tables.numeric([cell, "–"])
    assert not tables.numeric([cell, "same-zone"])


def test_printed_output_loses_its_control_sequences() -> None:
    assert printed("a\x1b[31mb\x1b[0m\n10 %\r100 %\n") == "ab\n100 %"


def test_no_row_is_lost_between_html_and_table() -> None:
    (table,) = tables.parse(LONG.to_html())
    assert [r[1] for r in table.rows] == list(LONG["run"])
    nested = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    (table,) = tables.parse(nested.to_html())
    assert table.header == [["", "a", "a"], ["", "x", "y"]]


def test_headings_that_skip_levels_are_raised(tmp_path: Path) -> None:
    nb = book(
        new_markdown_cell("Words first.\n\n#### Deep"),
        new_markdown_cell("```\n= no heading\n```\n\n##### Deeper"),
    )
    pdf = pdf_of(nb)
    assert b"pdfuaid" in pdf or "Deeper" in text_of(pdf, tmp_path)
    assert re.findall(r"(?m)^=+ .*", source(nb)[0]) == ["= Deep", "= no heading", "== Deeper"]


def test_a_line_that_is_too_long_is_broken_behind_a_blank() -> None:
    sentence = "cross-zone: one-way latency equivalent to same-zone within 10 % (1.7 % lower; 1 of 24 runs slow) (ok)"
    assert printed(f"{sentence}\n\n{'x' * 100}").split("\n") == [
        "cross-zone: one-way latency equivalent to same-zone within 10 % (1.7 % lower; 1 of 24 runs ",
        "slow) (ok)",
        "",
        "x" * 94,
        "x" * 6,
    ]
