"""A real Azurite, Microsoft's emulator of Azure Storage, on loopback."""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

VERSION = "3.37.0"


def installed() -> Path:
    """The blob service of the pinned version, installed by npm into a cache outside the checkout when missing."""
    base = (
        Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        / "netperf_lib"
        / f"azurite-{VERSION}"
    )
    program = base / "node_modules" / ".bin" / "azurite-blob"
    if program.exists():
        return program
    if not shutil.which("npm"):
        pytest.skip(
            f"Azurite {VERSION} is not in {base}, and npm is not here to install it: apt-get install npm"
        )
    base.parent.mkdir(parents=True, exist_ok=True)
    with (
        (base.parent / "azurite.lock").open("w") as lock,
        tempfile.TemporaryDirectory(dir=base.parent) as folder,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test may be installing it
        if program.exists():
            return program
        aside = Path(folder, "whole")
        aside.mkdir()
        command = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(aside),
            f"azurite@{VERSION}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=720)
        if done.returncode or not (aside / program.relative_to(base)).exists():
            pytest.skip(
                f"npm could not install Azurite {VERSION}: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
            )
        shutil.rmtree(base, ignore_errors=True)
        aside.rename(base)
    return program


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """Run it for as long as the block runs; gives the connection string, with an account and key of its own."""
    program = installed()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    key = base64.b64encode(os.urandom(64)).decode()
    command = [
        str(program),
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(folder),
    ]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with (folder / "azurite.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            env={**os.environ, "AZURITE_ACCOUNTS": f"fleet:{key}"},
            cwd=folder,
        )
    try:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    pytest.skip(
                        f"Azurite does not start: {(folder / 'azurite.log').read_text()[-300:]}"
                    )
                time.sleep(0.1)
        yield (
            f"DefaultEndpointsProtocol=http;AccountName=fleet;AccountKey={key};"
            f"BlobEndpoint=http://127.0.0.1:{port}/fleet;"
        )
    finally:
        process.terminate()
        process.wait(20)
