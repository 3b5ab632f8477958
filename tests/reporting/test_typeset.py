"""A notebook full of what breaks converters: nothing may be lost on the way to the page."""

import base64
import io
import re

import pandas as pd
import pypdf
import pytest
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from netperf_lib.analysis.words import Words
from netperf_lib.reporting import blocks
from netperf_lib.reporting.document import combine, document
from netperf_lib.reporting.html import page
from netperf_lib.reporting.pdf import typeset

LONG = pd.DataFrame(
    {
        "run": [f"run{i:04d}" for i in range(260)],
        "value": [i * 1.5 for i in range(260)],
        "note": [f"note{i} with words that wrap in their column" for i in range(260)],
    }
)
WIDE = pd.DataFrame([[f"r{r}c{c}" for c in range(12)] for r in range(6)])
MARKDOWN = r"""# A stress test

Prices of \$5 and \$10, `code with $dollars$`, C:\\temp, #hash, a_b_c, 5 * 3 * 2, @mention, 100 %.

Maths $T \le \frac{MSS}{RTT}$ and a block:

$$ \int_0^1 x^2\,dx = \tfrac13 $$

| left | right |
|---|---|
| one | 1 |

#### A heading that skips levels

Emoji 🚀 and 😀, CJK 中文 日本語, Greek λ, arrows →.

![nothing here](no-such-picture.png)

![far away](https://example.org/pixel.png)
"""


def png():
    out = io.BytesIO()
    Figure(figsize=(1, 1)).savefig(out, format="png")
    return base64.b64encode(out.getvalue()).decode()


def shown(one):
    return new_output("display_data", data={"text/markdown": one._repr_markdown_()})


def table_of(frame):
    rows = frame.astype(str).to_numpy().tolist()
    return blocks.Shown("a table", blocks.markdown_table([*frame], rows))


def pdf_of(*cells, code=False):
    made = document(new_notebook(cells=list(cells)), name="stress", code=code)
    return typeset(combine({"stress": made}))


def text_of(pdf):
    return "\n".join(
        page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages
    )


@pytest.fixture(scope="module")
def stress():
    """The text of a PDF of all that is hard to set."""
    plain = "#set page(width: 1cm) \\ ] } 🚀 $ * _ `"
    outputs = [
        shown(table_of(LONG)),
        shown(blocks.callout("Said with `code` and $x^2$.", title="Mind *this*")),
        shown(Words.of("Said **in bold** with 1 < 2 & #hash.")),
        new_output(
            "execute_result", data={"text/html": WIDE.to_html(), "text/plain": "wide"}
        ),
        new_output("stream", name="stdout", text="re\x1b[31md and\tblack\x1b[0m"),
        new_output("stream", name="stderr", text="a warning nobody needs"),
        new_output("stream", name="stdout", text="x" * 3000),
        new_output("display_data", data={"image/png": png(), "text/plain": "<Figure>"}),
        new_output(
            "display_data", data={"text/latex": "$$E = mc^2$$", "text/plain": "E"}
        ),
        new_output("display_data", data={"text/plain": plain}),
    ]
    source = (
        "value = '" + "y" * 300 + "'\n" + "\n".join(f"line_{i} = {i}" for i in range(120))
    )
    return text_of(
        pdf_of(
            new_markdown_cell(MARKDOWN), new_code_cell(source, outputs=outputs), code=True
        )
    )


def test_every_cell_of_a_table_is_on_the_pages(stress):
    words = set(stress.split())
    assert {
        *LONG["run"],
        *WIDE.to_numpy().ravel(),
        *(f"note{i}" for i in range(260)),
    } <= words


@pytest.mark.parametrize(
    "words",
    [
        "$5 and $10",
        "C:\\temp",
        "a_b_c",
        "#set page(width: 1cm)",
        "Said with `code` and $x^2$.",
        "Said **in bold** with 1 < 2 & #hash.",
        "Mind *this*",
        "picture not found: no-such-picture.png",
        "picture not found: https://example.org/pixel.png",
        "red and black",
        "‹U+1F680›",
        "‹U+65E5›",
        "😀",
    ],
)
def test_words_that_look_like_markup_stay_words(stress, words):
    assert words in " ".join(stress.split())


def test_long_lines_are_wrapped_not_cut(stress):
    assert stress.count("y") >= 300
    assert stress.count("x") >= 3000
    assert "line_119 = 119" in stress
    assert "a warning nobody needs" not in stress


def test_code_is_hidden_unless_asked():
    cell = new_code_cell("hidden_name = 1")
    assert "hidden_name" not in text_of(pdf_of(cell))
    assert "hidden_name" in text_of(pdf_of(cell, code=True))


def test_a_fence_that_is_left_open_swallows_no_cell():
    text = text_of(
        pdf_of(new_markdown_cell("```\nnever closed"), new_markdown_cell("after it"))
    )
    assert "never closed" in text
    assert "after it" in text


def of_one_notebook(pages):
    """Combine pages that one notebook made: their cells by their titles."""
    books = {"summary": document(new_notebook(), name="All")}
    for title, cells in pages.items():
        books[title] = document(new_notebook(cells=cells), name=title)
        books[title].title, books[title].notebook = title, "factor"
    return combine(books)


def test_pages_of_one_notebook_are_one_chapter():
    """What is said of all metrics stands once, at its end."""
    pages = {}
    for name in ("latency", "throughput"):
        shown = new_output("display_data", data={"text/plain": f"figure of {name}"})
        pages[f"Racks: {name}"] = [
            new_markdown_cell("# Racks\nDoes it matter?"),
            new_code_cell("1", outputs=[shown]),
            new_markdown_cell("## What to do\n\nMove."),
        ]
    made = of_one_notebook(pages)
    sources = [cell.source for cell in made.cells if cell.source]
    heads = ["# Racks", "Does it matter?", "## Latency", "## Throughput"]
    assert sources == [*heads, "## What to do\n\nMove."]
    printed = text_of(typeset(made))
    assert [printed.count(words) for words in ("Move.", "figure of")] == [1, 2]


def test_each_factor_is_a_chapter_though_they_share_a_notebook():
    made = of_one_notebook(
        {
            f"{name}: latency": [new_markdown_cell(f"# {name}\nDoes it matter?")]
            for name in ("Racks", "Kernels")
        }
    )
    heads = [cell.source for cell in made.cells if cell.source.startswith("# ")]
    assert heads == ["# Racks: latency", "# Kernels: latency"]


def test_of_details_a_pdf_has_what_they_print_and_a_page_folds_them():
    told = new_output("stream", name="stdout", text="2 of 2 agree.")
    shown = new_output("display_data", data={"text/plain": "a raw table"})
    tag = {"tags": ["detail"]}
    cells = [
        new_markdown_cell("Before."),
        new_markdown_cell("## By hand", metadata=tag),
        new_code_cell("1", outputs=[told, shown], metadata=tag),
        new_markdown_cell("After."),
    ]
    made = combine({"racks": document(new_notebook(cells=cells), name="racks")})
    printed = " ".join(text_of(typeset(made)).split())
    assert "Before. 2 of 2 agree. See racks.ipynb. After." in printed
    assert "raw table" not in printed
    _, folded, rest = re.split("<details>|</details>", page(made))
    assert "a raw table" in folded
    assert "2 of 2 agree" in folded
    assert "2 of 2" not in rest
