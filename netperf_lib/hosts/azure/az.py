"""Run the Azure command line: argument lists in, JSON out; on failure one exception with cause and remedy."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import AzureError, pip_install
from .failures import AzError, read_failure, waits
from .tunnel import running

RENEWED_BY = ("AZURE_FEDERATED_TOKEN_FILE", "ACTIONS_ID_TOKEN_REQUEST_URL")
"""Variables that tell where a CI platform provides a fresh token for the pipeline."""

Zones = Mapping[str, Mapping[str, str]]
"""Region to logical zone to physical zone."""


@dataclass(frozen=True)
class Clock:
    """How time passes while the cloud works."""

    poll_s: float = 8
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def find_az() -> str:
    """Return the path of `az`: on PATH, or next to the running Python (package `azure-cli`)."""
    program = shutil.which("az") or shutil.which("az", path=str(Path(sys.executable).parent))
    if not program:
        raise AzureError(
            f"the Azure command line `az` is not installed here: run `{pip_install('azure-cli')}`"
        )
    return program


Runs = Callable[..., Any]
"""Anything that runs ``az <arguments>`` and returns its JSON."""


def find(az: Runs, *command: str) -> Any:
    """Return what a command shows, or None if the resource does not exist."""
    try:
        return az(*command)
    except AzError as failure:
        if failure.kind != "missing":
            raise
        return None


def locations(az: Runs, subscription: str) -> Zones:
    """Regions of a subscription, with its own mapping of zones.

    ``az account list-locations`` has no ``--subscription``, and the mapping differs between subscriptions.
    """
    url = f"/subscriptions/{subscription}/locations?api-version=2022-12-01"
    answer = az("rest", "--method", "get", "--url", url)
    return {
        region["name"]: {
            m["logicalZone"]: m["physicalZone"]
            for m in region.get("availabilityZoneMappings") or ()
        }
        for region in (answer or {}).get("value") or ()
        if region.get("type")
        != "EdgeZone"  # a site outside of its region, which takes VMs of its own kind only
    }


class Az:
    """The Azure command line of one subscription, by name or id; None: the selected one.

    A command may take `timeout_s`, and waits up to `patience_s` in total for a throttled or unavailable service.
    """

    def __init__(
        self,
        subscription: str | None = None,
        *,
        timeout_s: float = 300,
        patience_s: float = 600,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.subscription, self.timeout_s, self.patience_s, self.sleep = (
            subscription,
            timeout_s,
            patience_s,
            sleep,
        )
        self.path = find_az()

    def __call__(self, *arguments: str) -> Any:
        """Run ``az <arguments>`` and return its JSON (None if it prints nothing).

        AzError if it failed: `code` and `kind` give the reason, the text what to do.
        """
        command = [
            self.path,
            *arguments,
            "--output",
            "json",
        ]  # a login that it asks for is a warning
        if (
            self.subscription
            and arguments[0] not in ("account", "extension", "rest", "version")
            and "--subscription" not in arguments
        ):
            command += ["--subscription", self.subscription]
        waited, attempt, renewed = 0.0, 0, False
        while True:
            try:
                return self._once(command, arguments)
            except AzError as failure:
                if failure.kind == "login" and not renewed and self._renewed():
                    renewed = True
                    continue
                pause = waits(failure, attempt)
                if pause is None or waited + pause > self.patience_s:
                    raise
                waited, attempt = waited + pause, attempt + 1
                self.sleep(pause)

    def _renewed(self) -> bool:
        """Log in again if the pipeline provides a token (OIDC); return whether it does."""
        token = _assertion()
        if not token:
            return False
        as_json = ("--output", "json")
        account = self._once([self.path, "account", "show", *as_json], ("account", "show"))
        who = (
            "--username",
            account["user"]["name"],
            "--tenant",
            account["tenantId"],
            "--federated-token",
            token,
        )
        for words in (
            ("login", "--service-principal", *who),
            ("account", "set", "--subscription", account["id"]),
        ):
            self._once([self.path, *words, *as_json], words[:2])
        return True

    def _once(self, command: list[str], arguments: tuple[str, ...]) -> Any:
        title = "az " + " ".join(arguments[:4])
        environment = {
            **os.environ,
            "AZURE_CORE_NO_COLOR": "1",
            "AZURE_CORE_COLLECT_TELEMETRY": "0",
        }
        with running(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process:
            try:
                raw_out, raw_err = process.communicate(timeout=self.timeout_s)
            except subprocess.TimeoutExpired:
                raise AzError(
                    f"`{title}` did not answer within {self.timeout_s:.0f} s: "
                    "see https://status.azure.com, then try again",
                    code="Timeout",
                    kind="timeout",
                ) from None
        out, err = raw_out.decode("utf-8", "replace"), raw_err.decode("utf-8", "replace")
        if process.returncode < 0:
            name = signal.Signals(-process.returncode).name
            raise AzError(
                f"`{title}` was ended by {name}: run the command again", code=name, kind="other"
            )
        if process.returncode:
            raise read_failure(title, process.returncode, err or out)
        return _json(title, out)


def _assertion() -> str | None:
    """A fresh token for the pipeline: from the file that its platform renews, or from GitHub."""
    file, url = (os.environ.get(name, "") for name in RENEWED_BY)
    with contextlib.suppress(OSError, ValueError, KeyError):
        if file:
            return Path(file).read_text("utf-8").strip()
        if url.startswith("https://"):
            bearer = {"Authorization": f"bearer {os.environ['ACTIONS_ID_TOKEN_REQUEST_TOKEN']}"}
            query = urllib.request.Request(  # noqa: S310 - https is checked above
                f"{url}&audience=api://AzureADTokenExchange", headers=bearer
            )
            with urllib.request.urlopen(query, timeout=30) as answer:  # noqa: S310 - https is checked above
                return str(json.load(answer)["value"])
    return None


def _json(title: str, text: str) -> Any:
    """The JSON in the output of az, which may begin with notices."""
    if not text.strip():
        return None
    lines = text.splitlines(keepends=True)
    for i, line in enumerate(lines):
        if i == 0 or line[:1] in "[{":
            with contextlib.suppress(ValueError):
                return json.loads("".join(lines[i:]))
    begin = " ".join(text.split())[:120]
    raise AzError(
        f"`{title}` answered something that is not JSON ({begin!r}): try `az version`, and reinstall az if that fails",
        code="NotJson",
        kind="other",
    )
