"""The project files agree with each other."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from packaging.requirements import Requirement

from .conftest import MAKEFILE, REPO, TARGETS, pytest_terminal_summary
from .notebooks import test_browser
from .unpacked import unpack

PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))


def names(requirements):
    return {re.split(r"[<>=!~ ;\[]", r)[0].lower().replace("_", "-") for r in requirements}


def test_environment_yml_equals_pyproject():
    listed = yaml.safe_load((REPO / "environment.yml").read_text("utf-8"))["dependencies"]
    flat = [x for x in listed if isinstance(x, str)] + [
        p for x in listed if isinstance(x, dict) for p in x["pip"]
    ]
    flat = [x for x in flat if x not in ("pip", "--editable .") and not x.startswith("python>=")]
    extras = PROJECT["project"]["optional-dependencies"]
    nbval = [d for d in PROJECT["dependency-groups"]["dev"] if d.startswith("nbval")]
    wanted = (
        PROJECT["project"]["dependencies"]
        + extras["azure"]
        + extras["report"]
        + extras["lab"]
        + nbval
    )
    assert set(flat) == {name for name in wanted if not name.startswith("netperf_lib")}
    assert f"python{PROJECT['project']['requires-python']}" in listed


def test_the_lock_holds_every_dependency_with_hashes():
    lock = (REPO / "requirements.lock").read_text("utf-8")
    locked = set(re.findall(r"(?m)^([a-z0-9._-]+)==", lock))
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = PROJECT["project"]["dependencies"] + extras["report"] + extras["lab"]
    wanted += PROJECT["dependency-groups"]["dev"]
    assert names(wanted) - {"netperf-lib"} <= {
        n.replace("_", "-").replace(".", "-") for n in locked
    }
    assert lock.count("--hash=sha256:") >= len(locked)


def test_make_help_explains_every_target():
    text = subprocess.run(
        ["make", "help"], cwd=REPO, capture_output=True, text=True, check=True
    ).stdout
    assert re.findall(r"(?m)^  make ([a-z-]+)", text) == TARGETS
    own = text.partition("\nfor maintainers\n")[0]
    words = "help setup report test check docs workshop notebooks"
    assert re.findall(r"(?m)^  make ([a-z-]+)", own) == words.split()


def test_a_checkout_with_a_space_in_its_path_is_set_up(tmp_path):
    place = tmp_path / "a place"
    (place / ".ci").mkdir(parents=True)
    for name in (
        "requirements.lock",
        "requirements-azure.lock",
        "pyproject.toml",
        ".ci/system-tools",
        ".ci/unpack-tools",
    ):
        (place / name).touch()
    (place / "Makefile").write_text((REPO / "Makefile").read_text("utf-8"), "utf-8")
    for environment in (".venv", ".venv-azure"):
        (place / environment / "bin").mkdir(parents=True)
        for name in (
            "python",
            "uv",
        ):  # installing takes minutes: what tells where it would go stands in for it
            program = place / environment / "bin" / name
            program.write_text('#!/bin/sh\nprintf "%s\\n" "$VIRTUAL_ENV" "$@" >>told\n')
            program.chmod(0o755)
    environ = {
        k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        ["make", ".venv-azure/ready"], cwd=place, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("setup")]
    assert [step.partition(":")[0] for step in steps] == [
        *(f"setup {number}/4" for number in range(1, 5)),
        "setup",
    ]
    told = (place / "told").read_text().splitlines()
    assert [t for t in told if t.startswith(str(tmp_path))] == [
        *[f"{place}/.venv"] * 2, f"{place}/.venv/bin/python", f"{place}/.venv-azure",
    ]  # fmt: skip


def test_no_path_of_a_machine_in_the_project():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for file in filter(None, listed.stdout.split("\0")):
        place = REPO / file
        if (
            place.suffix in (".py", ".md", ".toml", ".yaml", ".yml", ".ipynb", ".typ")
            and place.is_file()
            and file != "tests/test_project.py"
        ):
            assert not re.search(r"(?<![\w.])/(root|work|home/\w+)/", place.read_text("utf-8")), (
                file
            )


def test_no_pattern_is_possessive():
    """Python before 3.11.5 matches `(?:…)*+` and `(?>…)` wrongly (python/cpython#106052), and 3.11.2 is our floor."""
    for file in sorted((REPO / "netperf_lib").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re")),
                    args=[ast.Constant(value=str(pattern)), *_],
                ):
                    assert not re.search(
                        r"(?<!\\)[*+?}]\+|\(\?>", re.sub(r"\[[^]]*\]", "x", pattern)
                    ), (file, pattern)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive, and the wheel that is built from it as an index or a distribution would."""
    folder = tmp_path_factory.mktemp("dist")
    hatchling = REPO / ".venv/bin/hatchling"
    if not hatchling.exists():
        pytest.skip("hatchling is not in .venv")
    subprocess.run(
        [hatchling, "build", "-t", "sdist", "-d", folder], cwd=REPO, check=True, capture_output=True
    )
    unpack(next(folder.glob("*.tar.gz")), folder)
    source = next(p for p in folder.iterdir() if p.is_dir())
    subprocess.run(
        [hatchling, "build", "-t", "wheel", "-d", folder],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return folder


def test_the_wheel_carries_notebooks_and_templates(built):
    held = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    sources = [
        p for p in (REPO / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts
    ]
    for source in sources:
        assert f"netperf_lib/_notebooks/{source.relative_to(REPO / 'notebooks').as_posix()}" in held
    assert any(n.endswith(".typ") for n in held)
    assert "netperf_lib/py.typed" in held


def test_what_is_installed_from_the_wheel_finds_its_notebooks_and_data(built, tmp_path):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "site")
    code = (
        "import netperf_lib as npl; from netperf_lib.reporting import notebooks; "
        "print(npl.__file__, npl.recorded(), *notebooks().values(), len(npl.load(npl.recorded())), sep='\\n')"
    )
    env = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    *places, runs = done.stdout.splitlines()
    assert all(Path(p).is_relative_to(tmp_path / "site") for p in places)
    assert int(runs) > 200


WITHOUT_REPORTS = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: None if name.partition(".")[0] in NOT_INSTALLED else find(name, *rest)
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
run("verify", mine)
run("report", mine)
print(len(npl.plots.rounds(npl.read(mine), "latency_oneway_us").figure.svg()) > 1000)
"""


def closure(roots):
    """Names of the installed packages that these need."""
    found = set()
    while roots:
        needed = Requirement(roots.pop())
        name = needed.name.lower().replace("_", "-")
        if name not in found and (needed.marker is None or needed.marker.evaluate({"extra": ""})):
            found.add(name)
            roots += importlib.metadata.requires(name) or []
    return found


def test_logs_are_read_imported_compared_and_plotted_without_what_only_reports_need(
    tmp_path,
):
    """Also the weight of what is installed then, without compiled files."""
    core = closure(list(PROJECT["project"]["dependencies"]))
    report = closure(list(PROJECT["project"]["optional-dependencies"]["report"])) - core
    files = [
        file
        for name in core
        for file in importlib.metadata.files(name) or ()
        if file.suffix != ".pyc"
    ]
    weight = sum(
        place.stat().st_size for file in files if (place := Path(str(file.locate()))).is_file()
    )
    assert weight < 520e6, weight
    assert len(core) <= 36
    modules = "nbconvert nbformat papermill ipykernel IPython jinja2 pypandoc typst"
    assert {*"nbconvert papermill ipykernel jinja2 typst ipython".split()} <= report
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
    assert verbs == [f"{verb} 0 None" for verb in ("parse", "import", "compare", "verify")]
    assert report_line.startswith("report 1 reports need")
    assert "netperf_lib[report]" in report_line
    assert plotted == "True"


def test_every_golden_log_names_a_licence_that_allows_the_copy():
    logs = REPO / "tests" / "logs"
    rows = [line.split("\t") for line in (logs / "SOURCES.tsv").read_text("utf-8").splitlines()[1:]]
    held = {
        p.relative_to(logs).as_posix()
        for p in logs.glob("*/*")
        if not p.name.endswith(".expected.json")
    }
    assert {row[0] for row in rows} == held
    assert [row for row in rows if not row[2].startswith(("CC0", "MIT", "BSD", "Apache"))] == []
    assert [row for row in rows if not row[3]] == []


def test_what_is_skipped_for_want_of_a_program_names_the_command_that_gets_it():
    (reason,) = (mark.kwargs["reason"] for mark in test_browser.pytestmark if mark.name == "skipif")
    skipped, said = SimpleNamespace(longrepr=("test_browser.py", 1, f"Skipped: {reason}")), []
    pytest_terminal_summary(SimpleNamespace(stats={"skipped": [skipped] * 2}, line=said.append))
    assert said == ["Skipped: 2 need sudo apt-get install chromium"]


def test_what_make_installs_beside_the_lock_has_a_version():
    assert re.search(r"(?m)^UV := uv==\d", MAKEFILE)
    named = re.findall(r"atheris\S*|cyclonedx-bom\S*|pip-audit\S*", MAKEFILE)
    assert len(named) >= 4
    assert all("==" in name or name == "atheris" for name in named)


def test_the_notice_names_each_package_that_brings_a_program_or_a_licence_of_its_own():
    notice = (REPO / "NOTICE").read_text("utf-8")
    extras = PROJECT["project"]["optional-dependencies"]
    named = []
    for name in sorted(closure([*PROJECT["project"]["dependencies"], *extras["report"]])):
        files = [
            Path(str(file.locate()))
            for file in importlib.metadata.files(name) or ()
            if ".so" not in file.name
        ]
        large = [file for file in files if file.is_file() and file.stat().st_size > 1 << 20]
        about = importlib.metadata.metadata(name)
        licences = [
            about.get("License-Expression") or about.get("License") or "",
            *about.get_all("Classifier", []),
        ]
        if any(file.open("rb").read(4) == b"\x7fELF" for file in large) or re.search(
            r"\bA?GPL", licences[0]
        ):
            named.append(name)
    assert "pypandoc-binary" in named
    assert [name for name in named if name.replace("-", "_") not in notice.replace("-", "_")] == []
    assert "GNU General Public License" in notice
