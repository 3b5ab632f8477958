"""Labels, folders and declarations of strangers: nothing in a page runs or loads, no cell is a
formula."""

import io
import json
import os
import random
import re
import shutil
import unicodedata
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

import nbformat
import openpyxl
import pandas as pd
import pypdf
import pyte
import pytest
from bs4 import BeautifulSoup
from wcwidth import wcwidth

import netperf_lib as npl
from netperf_lib import cli
from netperf_lib.analysis.contents import Page
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.words import Words, as_markdown
from netperf_lib.data.imports import labels_template, read_logs
from netperf_lib.data.labels import is_one_line
from netperf_lib.data.logged import understand
from netperf_lib.data.raw import RawFolder, write_records
from netperf_lib.errors import (
    CONTROL,
    NetperfError,
    UsageError,
    as_cell,
    of_cell,
    visible,
)
from netperf_lib.measure import say_aloud
from netperf_lib.reporting import blocks, fonts, html
from netperf_lib.reporting.document import combine, document
from netperf_lib.reporting.pdf import typeset
from netperf_lib.terminal import text, verdict_blocks

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg/onload=alert(3)>",
    "[click](javascript:alert(4))",
    "![seen](https://example.org/pixel.png)",
    "<a href='javascript:alert(5)'>x</a>",
    "=HYPERLINK(\"https://example.org\")",
    "+cmd|' /C calc'!A0",
    "@SUM(1)",
    "$x^{2$ and $5/h vs $6/h",
    "`code` **bold** | cell",
    "&lt;script&gt;",
]  # fmt: skip
FACTOR = "../../<img src=x onerror=alert(6)> @user $x^{2$"
"""A column of the user: the name of a factor, in headings, figures, pages and names of files."""
PIECES = [*HOSTILE, *r"| \ ` [ ] < x ~~ ^ _ { } &amp; http://".split(), "- ", "# ", "1. "]
EXAMPLES = int(os.environ.get("STRANGERS", "5"))
"""Examples of a generated test: few in the suite; ``STRANGERS=500`` before a release."""
SEEDS = range(max(1, EXAMPLES // 100))
"""Each of a hundred labels."""


def generated(seed, number=100):
    """Labels of any Unicode that an import takes, a third of them made of hostile pieces."""
    rng = random.Random(seed)
    ranges = [
        (0x20, 0x7E),
        (0xA1, 0x2FF),
        (0x300, 0x24FF),
        (0x2500, 0xD7FF),
        (0xE000, 0x1FFFF),
    ]
    labels = {}
    while len(labels) < number:
        label = "".join(rng.choices(PIECES, k=rng.randint(1, 3)))
        if rng.random() < 0.6:
            low, high = rng.choice(ranges) if rng.random() < 0.6 else ranges[0]
            label = "".join(
                chr(rng.randint(low, high)) for _ in range(rng.randint(1, 20))
            )
        if is_one_line(label) and (label := label.strip()):
            labels[label] = None
    return list(labels)


EVENTS = re.compile(r"on[a-z]+", re.IGNORECASE)


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """Logs that are known to be fine, with labels that are not."""
    folder = tmp_path_factory.mktemp("stranger")
    rows = []
    cases = product(enumerate(HOSTILE), HOSTILE[:2], (1, 2))
    for (i, label), level, number in cases:
        name = f"{len(rows)}.txt"
        (folder / name).write_text(f"tcp_lat:\n    latency  =  {50 + i + number} us\n")
        row = {"file": name, "placement": label, FACTOR: level, "round": number}
        rows.append(row)
    npl.import_logs(folder, labels=pd.DataFrame(rows), into=folder.with_name("mine"))
    return folder.with_name("mine")


@pytest.fixture(scope="module")
def pages(stranger):
    """Every chapter by itself, and the combined report."""
    files = npl.report(stranger, to="html")
    return {
        file.stem: BeautifulSoup(file.read_text("utf-8"), "html.parser") for file in files
    }


def is_dead(page):
    """Nothing in a page runs, loads or leads elsewhere."""
    policy = page.find("meta", attrs={"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none';")
    assert "script" not in policy["content"]
    assert not page.find_all(["script", "iframe", "object", "embed", "base", "form"])
    for tag in page.find_all(True):
        assert not [name for name in tag.attrs if EVENTS.fullmatch(name)], tag
        link, source = str(tag.get("href", "#")), str(tag.get("src", "data:image"))
        assert link.startswith(("#", "explorer", "data:image")), tag
        assert source.startswith("data:image"), tag
        assert str(tag.get("xlink:href", "#")).startswith(("#", "data:image")), tag


def test_nothing_in_a_page_is_live(pages):
    assert len(pages) > 2
    assert any(FACTOR in page.get_text() for page in pages.values())
    for page in pages.values():
        is_dead(page)
    words = " ".join(pages["report"].get_text(" ").split())
    assert all(label in words for label in HOSTILE[:3])


def test_nothing_in_a_pdf_is_live(pages, stranger):
    for name in pages.keys() - {"report"}:
        book = nbformat.read(stranger / "reports" / f"{name}.ipynb", as_version=4)
        is_inert(typeset(combine({name: document(book, name=name)})))


def is_inert(pdf):
    """A PDF without actions and links to elsewhere; its text."""
    reader = pypdf.PdfReader(io.BytesIO(pdf))
    notes = [
        note.get_object() for page in reader.pages for note in page.get("/Annots") or ()
    ]
    assert all(note["/A"]["/S"] == "/GoTo" for note in notes if "/A" in note)
    assert not {"/OpenAction", "/AA", "/AcroForm"} & reader.trailer["/Root"].keys()
    assert not re.search(rb"/(JavaScript|Launch|URI|SubmitForm|EmbeddedFile)\b", pdf)
    return "".join(page.extract_text() for page in reader.pages)


def unbroken(text):
    """A text without what a page puts where it breaks a long word."""
    return re.sub("[\\s\u200b\u00ad\u2010\u2011-]", "", text)


def squeezed(text):
    return "".join(text.split())


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_labels_are_text_in_pages(seed):
    """Labels of any Unicode in titles, sentences, boxes and tables of both kinds of report."""
    labels = generated(seed)
    shown = [Words.of(f"In {label} it is 5 % lower.", f"{label}.") for label in labels]
    shown.append(Words.of(*(f"- {label}: more" for label in labels)))
    shown.append(blocks.callout(labels[0], title=labels[1]))
    shown.append(
        blocks.Shown(
            "a table",
            blocks.markdown_table(["rack", labels[0]], [[one, "1"] for one in labels]),
        )
    )
    data = ({"text/markdown": one._repr_markdown_()} for one in shown)
    outputs = [nbformat.v4.new_output("display_data", bundle) for bundle in data]
    title = nbformat.v4.new_markdown_cell(f"# {as_markdown(labels[0])}")
    book = nbformat.v4.new_notebook(
        cells=[title, nbformat.v4.new_code_cell(outputs=outputs)]
    )
    made = combine({"labels": document(book, name="labels")})
    page = BeautifulSoup(html.page(made), "html.parser")
    is_dead(page)
    words = squeezed(page.get_text())
    assert [label for label in labels if words.count(squeezed(label)) < 4] == []
    printed = unbroken(is_inert(typeset(made)))
    forms = [unbroken(fonts.printable(label)) for label in labels]
    assert [form for form in forms if form not in printed] == []
    # of sentences, some stand across two pages, with the lines at their ends between them
    assert sum(printed.count(form) >= 4 for form in forms) > 0.9 * len(forms)


def test_what_no_font_holds_is_spelled_out_and_the_rest_is_as_it_is():
    text = "caf\u00e9 \u021e \U0001f680\ufe0f \u4e2d x\u0304 \u1c05\u0369 \ue000"
    spelled = "‹U+1F680› ‹U+4E2D› x\u0304 ‹U+1C05›‹U+0369› ‹U+E000›"
    assert fonts.printable(text) == f"caf\u00e9 \u021e {spelled}"


def test_names_of_logs_in_a_table_to_fill_in_are_no_formulas(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "=HYPERLINK(1).txt").write_text(
        "tcp_lat:\n    latency  =  50 us\n"
    )
    table = labels_template(tmp_path / "logs")
    assert "\n'=HYPERLINK(1).txt," in table
    (tmp_path / "labels.csv").write_text(
        table.replace("placement", "rack").replace("txt,,", "txt,,'@home")
    )
    [run] = understand(tmp_path / "logs", labels=tmp_path / "labels.csv").runs
    assert (
        run.labels["rack"] == "@home"
    )  # the apostrophe is the spreadsheet's, not the label's


def test_a_price_in_a_label_is_text_in_a_figure():
    runs = npl.load(npl.recorded()).query("tool == 'qperf'")
    runs["placement"] = runs["placement"].map(lambda p: f"{p} $5/h vs $6^{{2")
    assert (
        "$5/h vs $6^{2"
        in npl.plots.rounds(runs, "latency_oneway_us", hue="placement").figure.svg()
    )


ESCAPES = "\x1b[31mred\x1b]0;title\x07\x1b[2J\x9b31m\u202edetrevni\ud800"


@pytest.fixture(scope="module")
def escapes(tmp_path_factory):
    """A folder whose records were written by others, with what the import would have refused."""
    folder = tmp_path_factory.mktemp("escapes")
    for label, us in (("ppg", 50), ("zone", 70)):
        for number in range(1, 4):
            file = folder / f"logs/{label}/r{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"tcp_lat:\n    latency  =  {us + number} us\n")
    pattern = "{placement}/r{round}.txt"
    mine = Path(
        npl.import_logs(folder / "logs", pattern=pattern, into=folder / "mine").path
    )
    [packed] = mine.glob("raw/*/runs.json.gz")
    _, records = RawFolder(packed.parent).records()
    for record in records:
        if record.trial["placement"] == "zone":
            record.trial["placement"] = ESCAPES[:-1]
    write_records(packed.parent, records)
    shutil.rmtree(mine / "digests")  # what was escaped has no digest
    shutil.rmtree(mine / "tables", ignore_errors=True)
    (mine / "raw" / ESCAPES[:-1]).mkdir()
    return mine


@pytest.mark.parametrize(
    "line",
    [
        "compare {}",
        "compare {} --by placement",
        "compare {} --json",
        "compare {} --by placement --where placement=x",
        "import --labels-template FILE",
        "parse FILE",
        "plan FILE",
    ],
)
def test_no_command_prints_what_a_terminal_acts_on(escapes, line, capfd):
    file = escapes.parent / os.fsdecode(ESCAPES.encode("utf-8", "surrogatepass"))
    file.write_text("no log")
    places = {"{}": str(escapes), "FILE": str(file)}
    with suppress(SystemExit):
        try:
            words = [places.get(word, word) for word in line.split()]
            cli.npl.main(words, standalone_mode=False)
        except NetperfError as error:
            say_aloud(str(error))
    printed = "".join(capfd.readouterr())
    assert "title" in printed
    assert not CONTROL.search(printed), printed


def is_as_printed(text):
    """A terminal shows every character, in its own colour, and changes nothing else."""
    # this terminal drops the rest of a line after what has no width and does not combine
    lines = "".join(c for c in text if c == "\n" or wcwidth(c) > 0).split("\n")
    screen = pyte.Screen(max(map(len, lines)) * 2 + 1, len(lines) + 1)
    pyte.Stream(screen).feed("\r\n".join(lines))
    for line, row in zip(lines, screen.display, strict=False):
        shown, sent = (
            squeezed(unicodedata.normalize("NFC", words)) for words in (row, line)
        )
        assert shown == sent
    cells = [cell for row in screen.buffer.values() for cell in row.values()]
    assert {cell.fg for cell in cells} | {cell.bg for cell in cells} == {"default"}
    assert screen.title == ""


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_labels_are_compared(escapes, seed):
    runs = read_logs(escapes.parent / "logs/ppg", pattern="r{round}.txt").runs
    labels = generated(seed, 8)
    several = pd.concat([runs.assign(placement=label) for label in labels])
    family = npl.compare(several, by="placement", metric="latency_oneway_us")
    assert {name for c in family for name in c.names} == set(labels)
    assert json.loads(json.dumps(family.to_dict()))


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_labels_are_text_in_every_format(escapes, seed):
    """Labels of any Unicode that can be shown, in the words of a comparison and in cells."""
    labels = generated(seed)
    runs = read_logs(escapes.parent / "logs", pattern="{placement}/r{round}.txt")
    compared = npl.compare(runs, by="placement", metric="latency_oneway_us")
    rows = tuple(replace(compared[0], names=(label, "ppg")) for label in labels)
    shown = text(verdict_blocks(replace(compared, comparisons=rows)), 2000)
    assert not CONTROL.search(shown)
    is_as_printed(shown)
    flat, book = pd.DataFrame({"label": map(as_cell, labels)}), io.BytesIO()
    written = io.StringIO(flat.to_csv(index=False))
    again = pd.read_csv(written, dtype=str, keep_default_na=False)["label"]
    assert list(map(of_cell, again)) == list(map(of_cell, labels))
    flat.to_excel(book, index=False, engine="openpyxl")
    cells = [row[0] for row in openpyxl.load_workbook(book).active.iter_rows(min_row=2)]
    assert "f" not in {cell.data_type for cell in cells}


@pytest.mark.parametrize("seed", SEEDS)
def test_generated_labels_are_imported_as_they_are(seed, tmp_path):
    labels = generated(seed)
    (tmp_path / "a.txt").write_text(
        "".join(f"tcp_lat:\n    latency  =  {50 + i} us\n" for i in range(len(labels)))
    )
    table = pd.DataFrame(
        {"file": "a.txt", "run": range(1, len(labels) + 1), "rack": labels}
    )
    mine = npl.import_logs(tmp_path / "a.txt", labels=table, into=tmp_path / "mine")
    expected = dict(
        zip((50.0 + i for i in range(len(labels))), map(of_cell, labels), strict=True)
    )
    assert (
        dict(zip(mine.runs["latency_oneway_us"], mine.runs["rack"], strict=True))
        == expected
    )


def test_the_lead_paragraph_keeps_the_blanks_of_a_label():
    runs = npl.load(npl.recorded()).query("tool == 'qperf'")
    runs["placement"] = runs["placement"].map(lambda level: f"a {level} b")
    assert "a ppg b" in "\n".join(lead_paragraph(runs).lines)


@pytest.mark.parametrize(
    "cell",
    [
        "x;=CMD()",
        "x;  =1",
        "a\t+1",
        "\t=1",
        " =1",
        "\uff1d1",
        "x;\uff0bcmd",
        "x\n-1",
        "x;@SUM(1)",
        "=1;=2",
    ],
    ids=ascii,
)
def test_no_separator_of_a_spreadsheet_begins_a_formula(cell):
    """A spreadsheet set to another country splits lines of CSV at other characters than the
    comma."""
    written = pd.DataFrame({"rack": [as_cell(cell)]}).to_csv(index=False).splitlines()[1:]
    for part in re.split("[;\t\n]", "\n".join(written)):
        assert not re.match(r'\s*"?\s*[=+\-@\uff1d\uff0b\uff0d\uff20]', part), part
    assert of_cell(as_cell(cell)) == cell
    assert as_cell("a-b; c = d") == "a-b; c = d"


@pytest.mark.parametrize(
    "label",
    [
        "g\u3164",
        "g\u200d",
        "g\ufe0f",
        "p\u034fpg",
        "\u115fg",
        "g\u2800",
        "g\U000e0100",
        "\u0645\u200d",
    ],
    ids=ascii,
)
def test_no_label_looks_like_another_by_what_nobody_sees(label):
    assert not is_one_line(label)
    assert label not in visible(label)
    assert visible(
        "\U0001f468\u200d\U0001f469 1\ufe0f\u20e3 \u0645\u06cc\u200c\u062e"
    ) == (
        # where a script or an emoji has them
        "\U0001f468\u200d\U0001f469 1\ufe0f\u20e3 \u0645\u06cc\u200c\u062e"
    )


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("round", value) for value in ("inf", "1e400", "1e30", "-1", "nan")),
        *(("duration_s", value) for value in ("inf", "nan", "-1")),
        *((name, "1e30") for name in ("deployment", "streams", "tcp_buffer_bytes")),
        *(
            ("rack", f"a{c}b")
            for c in ("\x1b[2J", "\x07", "\x9b", "\u202e", "\n", "\x85")
        ),
        ("rack", "x" * 201),
        ("x" * 201, "rack"),
        ("a\x1b[2Jb", "rack"),
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_an_impossible_cell_is_refused_in_one_sentence(tmp_path, column, value):
    (tmp_path / "a.txt").write_text("tcp_lat:\n    latency  =  50 us\n")
    labels = pd.DataFrame({"file": ["a.txt"], column: [value]})
    with pytest.raises(UsageError, match=r"^labels(:2)?: .*(write|remove)") as caught:
        npl.import_logs(tmp_path / "a.txt", labels=labels, into=tmp_path / "mine")
    assert len(str(caught.value)) < 200
    assert not (tmp_path / "mine").exists()


def test_a_page_of_any_factor_has_a_file_in_the_folder_of_reports():
    names = [
        "../../../x",
        "..",
        "a/b",
        "a-b",
        "x" * 200,
        "\U0001f680" * 200,
        "{x}",
        "a\\b",
        "team",
    ]
    keys = [
        Page("factor", {"factor": name, "metric": "latency_oneway_us"}).key
        for name in names
    ]
    assert len(set(keys)) == len(names)
    assert all(
        Path(key).name == key and len(f".{key}.ipynb".encode()) < 256 for key in keys
    )
    assert keys[-1] == "factor-team-latency"
