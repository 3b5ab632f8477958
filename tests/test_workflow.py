"""Workflows and containers are valid, their commands exist, and they store no secret."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
import yaml

from netperf_lib.cli import npl

from .conftest import REPO, TARGETS

WORKFLOWS = sorted((REPO / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("place", WORKFLOWS, ids=lambda p: p.name)
def test_a_workflow_calls_what_exists_and_stores_no_secret(place):
    text = place.read_text("utf-8")
    workflow = yaml.safe_load(text)
    commands = "\n".join(
        s.get("run", "") for job in workflow["jobs"].values() for s in job["steps"]
    )
    for line in re.findall(
        r"(?m)^\s*\.venv/bin/npl (.*)", re.sub(r"\$\(.*?\)", "x", commands)
    ):
        verb, *words = [
            w.replace("$MARGIN", "5%") for w in shlex.split(line.split("|")[0])
        ]
        words = [w.replace("$EXPERIMENT", "data/experiments/lab.yaml") for w in words]
        npl.commands[verb].make_context(verb, words)
    assert set(re.findall(r"(?m)^\s*make (\S+)", commands)) <= {*TARGETS}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    assert "contents" in workflow["permissions"]
    assert "secrets." not in text
    assert not re.search(
        r"(?i)(account_?key|connection_?string|sas|password|token)\s*[:=]\s*(?!\$\{\{ "
        r"github)[^wr\s]",
        text,
    )
    used = re.findall(r"uses: (\S+)", text)
    assert all(re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40}", action) for action in used), (
        used
    )


def test_the_container_is_made_by_the_command_of_the_readme():
    place = REPO / ".binder" / "Dockerfile"
    text = place.read_text("utf-8").replace("\\\n", " ")
    runs = re.findall(r"(?m)^RUN (.*)$", text)
    assert runs[-1] == "make setup"
    needed = dict(
        re.findall(
            r"(?m)^need (\S+) (\S+)", (REPO / ".ci/system-tools").read_text("utf-8")
        )
    )
    installed = set(runs[0].split())
    assert {
        needed[tool] for tool in ("iperf3", "iperf", "qperf", "sockperf")
    } <= installed
    assert {"git", "make", "python3-venv"} <= installed
    container = json.loads((REPO / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert (REPO / ".devcontainer" / container["build"]["dockerfile"]).resolve() == place
    assert container["remoteUser"] in text
    assert container["postCreateCommand"].removeprefix("make ") in TARGETS


APT = """#!/bin/sh
case "$*" in
  *--simulate*) echo "Inst greeting (1.0 Debian:13/stable [all])" ;;
  *download*) cp "$DEB" . ;;
esac
"""
"""What apt does for an ordinary user, from a package at hand in place of a mirror."""


@pytest.mark.parametrize("folder", ["usr/bin", "bin"])
def test_tools_are_unpacked_wherever_their_packages_hold_them(folder, tmp_path):
    """Debian 13 has nothing below /lib: a package of programs alone has no folder of libraries."""
    for tool in ("dpkg", "dpkg-deb"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool} here")
    content, clone = tmp_path / "greeting", tmp_path / "a clone"
    program, apt = content / folder / "greet", tmp_path / "bin" / "apt-get"
    control = "Package: greeting\nVersion: 1.0\nArchitecture: all\nMaintainer: a\n"
    files = {content / "DEBIAN" / "control": control, apt: APT}
    for place, text in (files | {program: '#!/bin/sh\necho "hello $1"\n'}).items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for place in (content / "DEBIAN", program, apt):  # whatever the umask
        place.chmod(0o755)
    deb = tmp_path / "greeting.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", content, deb],
        check=True,
        capture_output=True,
    )
    clone.mkdir()
    env = os.environ | {"PATH": f"{apt.parent}:{os.environ['PATH']}", "DEB": str(deb)}
    words = ["bash", REPO / ".ci" / "unpack-tools", "greeting"]
    done = subprocess.run(words, cwd=clone, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    greeted = subprocess.run(
        [clone / ".venv" / "bin" / "greet", "you"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert greeted.stdout == "hello you\n"
