"""What each target of `make help` starts can be started: options are known, and modules can be
imported."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec

import pytest

from .conftest import REPO, TARGETS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="make is for Linux")


def recipe(target):
    """Return the commands of a target, with nothing before it to be made."""
    made = ("setup", ".venv/ready", ".venv-azure/ready")
    command = ["make", "--dry-run", "--always-make", target, "ANEW=1", "SEED=1"]
    command += [word for name in made if name != target for word in ("--old-file", name)]
    environ = {
        k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run(
        command, cwd=REPO, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.replace("\\\n", " ")


def starts(target):
    """Return the words after each start of a program of `.venv`."""
    found = re.findall(
        r"\.venv/bin/((?:python|npl|jupyter)\b[^\n|;&>)]*)", recipe(target)
    )
    return [shlex.split(words) for words in found]


def smallest(python, words):
    """Return the smallest start that finds the same program and reads the same options."""
    program, *rest = words
    if program == "npl":
        return [python, "-m", "netperf_lib", *rest, "--help"]
    if program == "jupyter" or rest[0] == "-c":
        return None
    if rest[0] != "-m":
        load = "import runpy, sys; runpy.run_path(sys.argv[1])"
        return [python, "-c", load, rest[0]]
    if rest[1] == "pytest":
        files = [str(p) for word in rest if word.endswith(".py") for p in REPO.glob(word)]
        only = ["--collect-only", "--quiet", "-n0", "-p", "no:cacheprovider"]
        return [python, "-m", "pytest", *files, *only] if files else None
    if not rest[1].startswith("tests"):
        assert find_spec(rest[1])
        return None
    return [python, "-c", f"import {rest[1]}"]


@pytest.mark.parametrize("target", TARGETS)
def test_make_target_starts(python, target):
    for words in starts(target):
        if (command := smallest(python, words)) is None:
            continue
        if target == "fuzz" and find_spec("atheris") is None:
            pytest.skip("atheris is installed by the target")
        done = subprocess.run(
            command, cwd=REPO, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, (
            f"{shlex.join(command)}: {done.stdout[-500:]}{done.stderr}"
        )
