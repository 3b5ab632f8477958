"""What sets up a machine of the workflows."""

import os
import shutil
import subprocess

import pytest

from .conftest import REPO

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
