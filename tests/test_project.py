"""The project files agree with each other."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import REPO


def test_no_pattern_is_possessive():
    """Python before 3.11.5 matches `(?:…)*+` and `(?>…)` wrongly, and 3.11.2 is our floor."""
    for file in sorted((REPO / "netperf_lib").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            match call:
                case ast.Call(
                    ast.Attribute(ast.Name("re")), [ast.Constant(str(pattern)), *_]
                ):
                    plain = re.sub(r"\[[^]]*\]", "x", pattern)
                    possessive = r"(?<!\\)[*+?}]\+|\(\?>"
                    assert not re.search(possessive, plain), (file, pattern)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that is built from the source archive, as an index or a distribution would."""
    folder = tmp_path_factory.mktemp("dist")
    hatchling = REPO / ".venv/bin/hatchling"
    if not hatchling.exists():
        pytest.skip("hatchling is not in .venv")
    build = [hatchling, "build", "-d", folder, "-t"]
    subprocess.run([*build, "sdist"], cwd=REPO, check=True, capture_output=True)
    shutil.unpack_archive(next(folder.glob("*.tar.gz")), folder)
    source = next(p for p in folder.iterdir() if p.is_dir())
    subprocess.run([*build, "wheel"], cwd=source, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow
def test_what_the_wheel_installs_finds_its_notebooks_and_data(wheel, tmp_path):
    site = tmp_path / "site"
    shutil.unpack_archive(wheel, site, "zip")
    code = (
        "import netperf_lib as npl; from netperf_lib.reporting import notebooks; "
        "print(npl.__file__, npl.recorded(), *notebooks().values(), sep='\\n'); "
        "print(len(npl.load(npl.recorded())))"
    )
    command = [sys.executable, "-c", code]
    env = os.environ | {"PYTHONPATH": str(site)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *places, runs = done.stdout.splitlines()
    assert all(Path(p).is_relative_to(site) for p in places)
    assert int(runs) > 200
    carried, books = site / "netperf_lib" / "_notebooks", REPO / "notebooks"
    for book in [
        b for b in books.rglob("*.ipynb") if ".ipynb_checkpoints" not in b.parts
    ]:
        assert (carried / book.relative_to(books)).is_file()
    assert [*site.glob("netperf_lib/**/*.typ")]
    assert (site / "netperf_lib" / "py.typed").is_file()


WITHOUT_REPORTS = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def find_spec(name, *rest):
    return None if name.partition(".")[0] in NOT_INSTALLED else find(name, *rest)
PathFinder.find_spec = find_spec
from click.testing import CliRunner
import netperf_lib as npl
from netperf_lib.cli import npl as command
logs, mine = sys.argv[1:]
def run(*words):
    done = CliRunner().invoke(command, words)
    print(words[0], done.exit_code, done.exception, flush=True)
run("parse", logs)
run("import", logs, "--pattern", "{placement}/r{round}.txt", "--into", mine)
run("compare", mine)
run("report", mine)
print(len(npl.plots.rounds(npl.read(mine), "latency_oneway_us").figure.svg()) > 1000)
"""


def test_logs_are_compared_and_plotted_without_the_report_extra(
    tmp_path,
):
    modules = "nbconvert nbformat papermill ipykernel IPython jinja2 pypandoc typst"
    for i, placement in enumerate(("ppg", "zone")):
        for number in range(1, 7):
            log = tmp_path / f"logs/{placement}/r{number}.txt"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(f"tcp_lat:\n    latency  =  {50 + 20 * i + number} us\n")
    code = f"NOT_INSTALLED = {(modules + ' distributed').split()}\n{WITHOUT_REPORTS}"
    command = [sys.executable, "-c", code, tmp_path / "logs", tmp_path / "mine"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *verbs, report_line, plotted = done.stdout.splitlines()
    assert verbs == [f"{verb} 0 None" for verb in ("parse", "import", "compare")]
    assert report_line.startswith("report 1 reports need")
    assert "netperf_lib[report]" in report_line
    assert plotted == "True"
