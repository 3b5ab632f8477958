"""README and documentation: commands that exist, code that runs, links that lead somewhere."""

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import pypdf
import pytest

from netperf_lib.cli import npl

from .conftest import REPO

with (
    pytest.MonkeyPatch.context() as _patch
):  # what writes the reference of the documentation
    _patch.syspath_prepend(REPO / "docs")
    import generated

PAGES = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
PAGES = [p for p in PAGES if not {"_build", "generated", "gallery"} & set(p.parts)]

PUBLISHED_FIRST = [
    "Placement: One-way latency",
    "figures but no verdicts",
    "ppg, provider Azure 1 39.4 µs",
    "cross-region, provider Azure 1 9.9 ms",
    "zone ad1 → ad2 3 402 µs",
    "cross-region, 16 streams 1 2.55 Gbit/s",
]
"""What the first page of a report of the published logs says."""


def blocks(page, *languages):
    return re.findall(
        rf"(?ms)^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text("utf-8")
    )


def commands():
    """Every command line of npl, with its page."""
    found = []
    for page in PAGES:
        for block in blocks(page, "console"):
            for line in re.findall(r"(?m)^\$ (.*)$", block):
                for part in re.split(r"&&|[|>] ", line.split(" #")[0]):
                    words = part.split()
                    if words and words[0].endswith("npl"):
                        found.append((page.relative_to(REPO).as_posix(), part.strip()))
    return found


def test_a_command_is_one_that_npl_takes():
    for page, line in commands():
        words = shlex.split(line)[1:]
        command = npl
        context = click.Context(npl, info_name="npl")
        while isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            assert found is not None, f"{page}: no verb {words[0]!r}"
            command, words = found, words[1:]
        try:
            command.make_context(command.name or "npl", words, parent=context)
        except click.ClickException as error:
            pytest.fail(f"{page}: {line}: {error.format_message()}")


WITH_CODE = [p for p in PAGES if blocks(p, "python") and p.name != "figures.md"]
"""Those of figures are drawn by the tests of figures."""


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: p.relative_to(REPO).as_posix())
def test_python_runs_as_it_stands(python, page):
    for code in blocks(page, "python"):
        done = subprocess.run(
            [python, "-c", code], cwd=REPO, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def typed(page, python, folder):
    """Type the commands of a page; what it shows below them is what they print, in this order."""
    env = {
        **os.environ,
        "PATH": f"{Path(python).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    printed = []
    for language, block in re.findall(
        r"(?ms)^```(console|text)\n(.*?)^```", page.read_text("utf-8")
    ):
        if language == "text":
            rest = iter(line.rstrip() for line in printed)
            for line in block.splitlines():
                assert line == "…" or line.rstrip() in rest, (
                    f"{page.name} shows a line that is not printed: {line!r}"
                )
            continue
        printed = []
        for line in block.splitlines():
            if re.match(
                r"\$ (?!git|make|export|\.venv|npl run|npl doctor --azure|npl down)", line
            ):
                # of a report of all pages one, but where the page shows what is in it
                line += " --notebook summary" if line.startswith("$ npl report") else ""
                command = ["bash", "-c", line.removeprefix("$ ")]
                done = subprocess.run(
                    command, cwd=folder, env=env, capture_output=True, text=True
                )
                assert done.returncode == 0, (line, done.stderr[-2000:])
                printed += done.stdout.splitlines()


def chapters(report):
    """Return the pages on which each chapter stands, by its title."""
    outline = [entry for entry in report.outline if not isinstance(entry, list)]
    titles = [str(entry.title).lstrip("0123456789 ") for entry in outline]
    starts = [*zip(titles, map(report.get_destination_page_number, outline), strict=True)]
    pages = [" ".join(page.extract_text().split()) for page in report.pages]
    ends = [*starts, ("", len(pages))]
    return {title: " ".join(pages[a : b + 1]) for (title, a), (_, b) in pairwise(ends)}


def sections(report):
    """Return the titles of the sections of each chapter that has some."""
    found = {}
    for entry, inside in pairwise(report.outline):
        if isinstance(inside, list):
            titles = [part.title for part in inside if not isinstance(part, list)]
            found[numberless(entry.title)] = list(map(numberless, titles))
    return found


def numberless(title):
    return str(title).lstrip("0123456789. ")


@pytest.mark.slow
def test_the_page_on_own_logs_is_typed_from_top_to_bottom(python, tmp_path):
    (tmp_path / "data").symlink_to(REPO / "data")
    typed(REPO / "docs" / "tutorials" / "own-logs.md", python, tmp_path)
    report = pypdf.PdfReader(tmp_path / "published.pdf")
    first = " ".join(report.pages[0].extract_text().split())
    for words in ("21 ok", "as labelled, not as planned", *PUBLISHED_FIRST):
        assert words in first, words
    found = chapters(report)
    titles = sections(report)
    assert "Throughput at the receiver" in titles["Every pair"]
    assert "Throughput at the sender" in titles["Placement"]
    # iperf 2's client told the sender's only
    assert "Throughput at the receiver" not in titles["Placement"]
    pairs = found["Every pair"]
    assert "Best is zone ad3 → ad1 with 114 µs" in pairs
    assert "unknown" not in pairs  # logs without zones are no pair of zones
    whole = " ".join(found.values())
    for words in (
        "measured by qperf tcp_lat: 3 conditions",
        "15 of 15 conditions have no failed or missing run",
        "no verdict",
    ):
        assert words in whole, words


@pytest.mark.parametrize("name", ["azure", "first-report"])
def test_a_tutorial_shows_what_its_commands_print(name, python, tmp_path):
    (tmp_path / "data").symlink_to(REPO / "data")
    typed(REPO / "docs" / "tutorials" / f"{name}.md", python, tmp_path)


def test_links_lead_to_files():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if not re.match(r"[a-z]+:|.*/generated/", target):  # what `make docs` makes
                assert (page.parent / target).exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", ["experiment", "options", "metrics"])
def test_every_row_of_a_generated_page_has_its_meaning(page):
    """`make docs` builds them, and every warning is an error there."""
    rows = re.findall(r"(?m)^\| `.*", getattr(generated, page)())
    assert len(rows) > 30
    assert [row for row in rows if re.search(r"\|\s*\|", row)] == []
