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
from itertools import count
from pathlib import Path
from typing import Any

from ...errors import AzureError, pip_install
from ..source import say_aloud
from .failures import PASSING, AzError, read_failure

Zones = Mapping[str, Mapping[str, str]]
"""Region to logical zone to physical zone."""
TIMEOUT_S, PATIENCE_S = 300.0, 600.0
FIRST_WAIT_S, LONGEST_WAIT_S, TELL_S = 5.0, 60.0, 60.0
Runs = Callable[..., Any]
"""Anything that runs ``az <arguments>`` and returns its JSON."""
GUARD = 'exec 3<&0 </dev/null; { read -r _; kill -9 "-$$"; } <&3 >/dev/null 2>&1 & exec "$@" 3<&-'
"""Script that becomes a command, and kills it when its standard input is closed."""
OWN_FAULTS = {2: "az does not take it", 126: "az cannot be run", 127: "az is missing"}
"""Exit codes that say that nothing was asked: the same again would say the same."""
SILENT = {"create", "delete", "cancel"}
"""Verbs whose commands may print nothing."""


POLL_S = 8.0
LAG_S = 60.0
"""Azure may deny for so long what was just written, or show what was there before."""


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
        if failure.kind != "absent":
            raise
        return None


def locations(az: Runs, subscription: str) -> Zones:
    """Return the regions of a subscription, with its own mapping of zones.

    ``az account list-locations`` has no ``--subscription``, and the mapping differs between
    subscriptions.
    """
    url = f"/subscriptions/{subscription}/locations?api-version=2022-12-01"
    answer = az("rest", "--method", "get", "--url", url)
    zones: dict[str, dict[str, str]] = {}
    for region in answer["value"]:
        # a site outside of its region takes VMs of its own kind only
        if region.get("type") == "EdgeZone":
            continue
        own = zones[region["name"]] = {}
        for mapping in region.get("availabilityZoneMappings") or ():
            own[mapping["logicalZone"]] = mapping["physicalZone"]
    return zones


@contextlib.contextmanager
def running(command: list[str], **more: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start az in a session of its own, which ends with the block, or with this process.

    A killed caller must not leave an `az` behind that goes on creating resources. No Python code
    runs while az is started (`preexec_fn`, hooks of `fork`): Python drops exceptions raised by
    signals there, so Ctrl-C would be lost.
    """
    guarded = ["sh", "-c", GUARD, "sh", *command]
    # Ctrl-C reaches this process alone, which decides what happens to az
    with subprocess.Popen(
        guarded, stdin=subprocess.PIPE, start_new_session=True, **more
    ) as process:
        guard, process.stdin = process.stdin, None  # which `communicate` would close
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if guard is not None:
                guard.close()


class Az:
    """The Azure command line of one subscription, by name or id; None: the selected one.

    All commands that are used here may be repeated: what exists stays as it is. So whatever passes,
    or is not known, is repeated, and told once a minute.
    """

    def __init__(self, subscription: str | None = None) -> None:
        self.subscription, self.path = subscription, find_az()

    def __call__(self, *arguments: str, patience_s: float = PATIENCE_S) -> Any:
        """Run ``az <arguments>`` and return its JSON; None if it prints nothing.

        AzError if it failed, and was repeated for `patience_s` where that may help: `code` and
        `kind` give the reason, the text what to do. AzureError at once if az cannot be run, or does
        not take the arguments.
        """
        # a login that it asks for is a warning, so warnings are wanted
        command = [self.path, *arguments, "--output", "json"]
        anywhere = ("account", "rest")
        if self.subscription and arguments[0] not in anywhere:
            command += ["--subscription", self.subscription]
        title = "az " + " ".join(arguments[:4])
        begun = told = time.monotonic()
        for attempt in count():
            try:
                return _once(command, title)
            except AzError as failure:
                usual_s = min(FIRST_WAIT_S * 2.0**attempt, LONGEST_WAIT_S)
                wait_s = max(failure.wait_s, usual_s)
                again = time.monotonic() + wait_s
                if failure.kind != PASSING or again - begun > patience_s:
                    minutes = (time.monotonic() - begun) / 60
                    if minutes < 1:
                        raise
                    text = f"{failure}; it was repeated for {minutes:.0f} min"
                    raise AzError(text, code=failure.code, kind=failure.kind) from None
                if again - told >= TELL_S:
                    say_aloud(f"{failure}; it is repeated")
                    told = again
                time.sleep(wait_s)
        raise AssertionError("it is repeated until it ends")


def _once(command: list[str], title: str) -> Any:
    plain = {"AZURE_CORE_NO_COLOR": "1", "AZURE_CORE_COLLECT_TELEMETRY": "0"}
    pipe = subprocess.PIPE
    with running(command, stdout=pipe, stderr=pipe, env=os.environ | plain) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            text = f"`{title}` did not answer within {TIMEOUT_S:.0f} s: try again"
            raise AzError(text, code="Timeout") from None
    errors = (err or out).decode("utf-8", "replace")
    if fault := OWN_FAULTS.get(process.returncode):
        raise AzureError(f"{title}: {fault}: {' '.join(errors.split())[-600:]}")
    if process.returncode:
        raise read_failure(title, process.returncode, errors)
    verbs = title.split(" --")[0].split()
    if not out.strip() and verbs[-1] in SILENT:
        return None
    try:
        return json.loads(out)
    except ValueError:
        text = f"{title}: the answer is a web page or empty, not Azure's own: try again later"
        raise AzError(text, code="NoDocument") from None
