"""README and documentation: commands that exist, code that runs, links that lead somewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pypdf
import pytest

import netperf_lib as npl_package
from netperf_lib.cli import npl

from .conftest import REPO, TARGETS

PAGES = [REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))]
PAGES = [p for p in PAGES if not {"_build", "generated", "gallery"} & set(p.parts)]

PUBLISHED_FIRST = [
    "Placement: Latency",
    "figures but no verdicts",
    "ppg 39.4 µs – 7.55 Gbit/s –",
    "cross-region 9.9 ms – 721 Mbit/s 2.55 Gbit/s",
    "cross-zone, provider Oracle 261 µs 16 Gbit/s – –",
]
"""What the first page of a report of the published logs says."""


def blocks(page, *languages):
    return re.findall(rf"(?ms)^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text("utf-8"))


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


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.relative_to(REPO).as_posix()
)
def test_python_runs_as_it_stands(python, page):
    codes, folder = blocks(page, "python"), REPO
    if page.name == "figures.md":  # one program
        codes, folder = ["\n".join(codes)], page.parent
    for code in codes:
        done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)
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
            if re.match(r"\$ (?!git|make|export|\.venv|npl run|npl doctor --azure|npl down)", line):
                command = ["bash", "-c", line.removeprefix("$ ")]
                done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
                assert done.returncode == 0, (line, done.stderr[-2000:])
                printed += done.stdout.splitlines()


def test_the_page_on_own_logs_is_typed_from_top_to_bottom(python, tmp_path):
    (tmp_path / "data").symlink_to(REPO / "data")
    typed(REPO / "docs" / "tutorials" / "own-logs.md", python, tmp_path)
    first, *others = (
        " ".join(p.extract_text().split())
        for p in pypdf.PdfReader(tmp_path / "published.pdf").pages
    )
    for words in ("21 ok", "as labelled, not as planned", *PUBLISHED_FIRST):
        assert words in first, words
    whole = " ".join((first, *others))
    for words in (
        "measured by iperf2 tcp in 1 round of 1 deployment: 5 conditions, 1 complete run each.",
        "Best is ad3 → ad1 with 114 µs, worst ad1 → ad2 with 402 µs",
        "Every pair: throughput at the receiver",
        "3 of 15 conditions are complete in every one of 3 rounds",
        "Placement: throughput at the sender",
        "no verdict",
    ):
        assert words.lower() in whole.lower(), words
    assert "Best is unknown" not in whole  # logs without zones are no pair of zones
    assert (
        "Placement: throughput at the receiver" not in whole
    )  # iperf 2's client told the sender's only


@pytest.mark.parametrize("name", ["azure", "first-report"])
def test_a_tutorial_shows_what_its_commands_print(name, python):
    typed(REPO / "docs" / "tutorials" / f"{name}.md", python, REPO)


BOOKS = sorted((REPO / "notebooks").rglob("*.ipynb"))


def test_names_of_the_package_exist():
    for page in (*PAGES, *BOOKS):
        for dotted in set(re.findall(r"\bnpl((?:\.[A-Za-z_]+)+)\(", page.read_text("utf-8"))):
            found = npl_package
            for name in dotted[1:].split("."):
                assert hasattr(found, name), f"{page}: npl{dotted}"
                found = getattr(found, name)


def test_links_lead_to_files():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text("utf-8")):
            if not re.match(r"[a-z]+:|.*/generated/", target):  # what `make docs` makes
                assert (page.parent / target).exists(), f"{page}: {target}"


def test_make_targets_that_are_named_exist():
    for page in PAGES:
        named = re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))
        for block in blocks(page, "console"):
            named += re.findall(r"(?m)^\$ make ([a-z-]+)", block)
        assert set(named) <= {*TARGETS}, page


def test_readme_is_short():
    assert len((REPO / "README.md").read_text("utf-8").split()) <= 650


def test_the_documentation_builds_without_a_warning(python, tmp_path):
    """Its notebooks are executed by other tests."""
    checkout = REPO
    if not os.access(REPO, os.W_OK):  # what is generated stands beside what is written
        checkout = shutil.copytree(
            REPO, tmp_path / "checkout", ignore=shutil.ignore_patterns(".git", ".venv*")
        )
    words = "-m sphinx -W -q -b html -D nb_execution_mode=off -d"
    command = [python, *words.split(), str(tmp_path / "trees")]
    done = subprocess.run(
        [*command, str(checkout / "docs"), str(tmp_path / "html")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    reference = tmp_path / "html" / "reference" / "generated"
    for page in ("experiment", "options"):
        text = (reference / f"{page}.html").read_text("utf-8")
        rows = re.findall(r"<tr.*?</tr>", text, re.DOTALL)
        assert len(rows) > 30
        without = [r for r in rows if re.search(r"<td>(<p></p>)?</td>\s*</tr>", r)]
        assert not without, f"{page}: fields without a meaning"
    assert "throughput_bps" in (
        tmp_path / "html" / "reference" / "generated" / "metrics.html"
    ).read_text("utf-8")
