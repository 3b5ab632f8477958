"""What each target of `make help` starts can be started: options are known, and modules can be imported."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

REPO = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="make is for Linux")


def targets() -> list[str]:
    text = (REPO / "Makefile").read_text("utf-8")
    return re.findall(r"(?m)^([a-z][a-z-]*):.*## ", text)


def recipe(target: str) -> str:
    """Return the commands of a target, with nothing before it to be made."""
    made = ("setup", ".venv/ready", ".venv-azure/ready")
    command = ["make", "--dry-run", "--always-make", target, "ANEW=1", "SEED=1"]
    command += [word for name in made if name != target for word in ("--old-file", name)]
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(
        command, cwd=REPO, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.replace("\\\n", " ")


def starts(target: str) -> list[list[str]]:
    """Return the words after each start of a program of `.venv`."""
    found = re.findall(r"\.venv/bin/((?:python|npl|jupyter)\b[^\n|;&>)]*)", recipe(target))
    return [shlex.split(words) for words in found]


def smallest(words: list[str]) -> list[str] | None:
    """Return the smallest start that finds the same program and reads the same options."""
    program, *rest = words
    if program == "npl":
        return [sys.executable, "-m", "netperf_lib", *rest, "--help"]
    if program == "jupyter" or rest[0] == "-c":
        return None
    if rest[0] != "-m":
        load = "import runpy, sys; runpy.run_path(sys.argv[1])"
        return [sys.executable, "-c", load, rest[0]]
    if rest[1] == "pytest":
        files = [str(p) for word in rest if word.endswith(".py") for p in REPO.glob(word)]
        only = ["--collect-only", "--quiet", "-n0", "-p", "no:cacheprovider"]
        return [sys.executable, "-m", "pytest", *files, *only] if files else None
    if not rest[1].startswith("tests"):
        assert find_spec(rest[1])
        return None
    return [sys.executable, "-c", f"import {rest[1]}"]


@pytest.mark.parametrize("target", targets())
def test_make_target_starts(target: str) -> None:
    for words in starts(target):
        if (command := smallest(words)) is None:
            continue
        if target == "fuzz" and find_spec("atheris") is None:
            pytest.skip("atheris is installed by the target")
        done = subprocess.run(
            command, cwd=REPO, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout[-500:]}{done.stderr}"
