"""Run the Azure command line: argument lists in, JSON out; a failure has its cause and remedy."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ...errors import AzureError, pip_install
from .failures import AzError, read_failure

Zones = Mapping[str, Mapping[str, str]]
"""Region to logical zone to physical zone."""
TIMEOUT_S, PATIENCE_S = 300.0, 600.0
Runs = Callable[..., Any]
"""Anything that runs ``az <arguments>`` and returns its JSON."""
LEASH = 'exec 3<&0 </dev/null; { read -r _; kill -9 "-$$"; } <&3 >/dev/null 2>&1 & exec "$@" 3<&-'
"""Script that becomes a command, and kills it when its standard input is closed."""


@dataclass(frozen=True)
class Clock:
    """How time passes while the cloud works."""

    poll_s: float = 8
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    lag_s: float = 60
    """Azure may deny for so long what was just written, or show what was there before."""


CLOCK = Clock()


def find_az() -> str:
    """Return the path of `az`: on PATH, or next to the running Python (package `azure-cli`)."""
    program = shutil.which("az") or shutil.which(
        "az", path=str(Path(sys.executable).parent)
    )
    if not program:
        raise AzureError(
            f"the Azure command line `az` is not installed here: run `{pip_install('azure-cli')}`"
        )
    return program


def find(az: Runs, *command: str) -> Any:
    """Return what a command shows, or None if Azure says that the resource does not exist."""
    try:
        return az(*command)
    except AzError as failure:
        if failure.kind != "missing":
            raise
        return None


def locations(az: Runs, subscription: str) -> Zones:
    """Return the regions of a subscription, with its own mapping of zones.

    ``az account list-locations`` has no ``--subscription``, and the mapping differs between
    subscriptions.
    """
    url = f"/subscriptions/{subscription}/locations?api-version=2022-12-01"
    answer = az("rest", "--method", "get", "--url", url)
    return {
        region["name"]: {
            m["logicalZone"]: m["physicalZone"]
            for m in region.get("availabilityZoneMappings") or ()
        }
        for region in answer["value"]
        # a site outside of its region, which takes VMs of its own kind only
        if region.get("type") != "EdgeZone"
    }


@contextlib.contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start az in a session of its own, which ends with the block, or with this process.

    A killed caller must not leave an `az` behind that goes on creating resources. No Python code
    runs while az is started (`preexec_fn`, hooks of `fork`): Python drops exceptions raised by
    signals there, so Ctrl-C would be lost.
    """
    leashed = ["sh", "-c", LEASH, "sh", *command]
    # Ctrl-C reaches this process alone, which decides what happens to az
    with subprocess.Popen(
        leashed, stdin=subprocess.PIPE, start_new_session=True, **more
    ) as process:
        leash, process.stdin = process.stdin, None  # which `communicate` would close
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if leash is not None:
                leash.close()


class Az:
    """The Azure command line of one subscription, by name or id; None: the selected one.

    A command may take `TIMEOUT_S`. It is repeated for up to `PATIENCE_S` in total while the service
    is throttled or unavailable.
    """

    def __init__(self, subscription: str | None = None) -> None:
        self.subscription, self.path = subscription, find_az()

    def __call__(self, *arguments: str) -> Any:
        """Run ``az <arguments>`` and return its JSON (None if it prints nothing).

        AzError if it failed: `code` and `kind` give the reason, the text what to do.
        """
        # a login that it asks for is a warning, so warnings are wanted
        command = [self.path, *arguments, "--output", "json"]
        anywhere = ("account", "rest")
        if self.subscription and arguments[0] not in anywhere:
            command += ["--subscription", self.subscription]
        waited = 0.0
        for attempt in count():
            try:
                return _once(command, "az " + " ".join(arguments[:4]))
            except AzError as failure:
                wait_s = failure.waits(attempt)
                if wait_s is None:
                    raise
                if waited + wait_s > PATIENCE_S:
                    text = f"{failure}; it was repeated for {waited / 60:.0f} min"
                    raise AzError(text, code=failure.code, kind=failure.kind) from None
                waited += wait_s
                CLOCK.sleep(wait_s)
        raise AssertionError("it is repeated until it ends")


def _once(command: list[str], title: str) -> Any:
    quiet = {"AZURE_CORE_NO_COLOR": "1", "AZURE_CORE_COLLECT_TELEMETRY": "0"}
    pipe = subprocess.PIPE
    with running(command, stdout=pipe, stderr=pipe, env=os.environ | quiet) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            text = f"`{title}` did not answer within {TIMEOUT_S:.0f} s: try again"
            raise AzError(text, code="Timeout", kind="timeout") from None
    if process.returncode:
        raise read_failure(
            title, process.returncode, (err or out).decode("utf-8", "replace")
        )
    return json.loads(out) if out.strip() else None
