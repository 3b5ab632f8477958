"""Make it: a resource group, the template, and the wait until every resource is there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._az import Runs
from ._failures import AzError, error_of

__all__ = ["Clock", "deploy", "make_group"]

NAME = "npl"
"""Name of the deployment in its group."""
RUNNING = {"accepted", "running", "creating", "created", "updating", "validating", "ready"}


@dataclass(frozen=True)
class Clock:
    """How time passes while the cloud works."""

    poll_s: float = 8
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def make_group(az: Runs, name: str, location: str, tags: Mapping[str, str]) -> None:
    """Make the resource group; safe to repeat."""
    az("group", "create", "--name", name, "--location", location, "--tags", *(f"{k}={v}" for k, v in tags.items()))


def deploy(
    az: Runs,
    group: str,
    template: Path,
    parameters: Path,
    *,
    deadline_s: float,
    clock: Clock,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Deploy the template into the group and return its outputs.

    A deployment that runs already (an earlier process was stopped) is waited for, not started twice.

    Raises
    ------
    AzError
        With the root cause; kind ``timeout`` when the deadline passed.
    """
    end = clock.now() + deadline_s
    state = _state(az, group)
    if state != "running":
        files = ("--template-file", str(template), "--parameters", f"@{parameters}")
        try:
            az("deployment", "group", "create", "--resource-group", group, "--name", NAME, *files, "--no-wait")
        except AzError as failure:
            if failure.code != "DeploymentActive":
                raise
    told: dict[str, str] = {}
    while True:
        document = az("deployment", "group", "show", "--resource-group", group, "--name", NAME)
        properties = document["properties"]
        reached = properties["provisioningState"].lower()
        if reached not in RUNNING:
            break
        _tell(az, group, told, say)
        if clock.now() > end:
            raise AzError(
                f"deployment of {group} is not complete after {deadline_s / 60:.0f} min (waiting for "
                f"{', '.join(n for n, s in told.items() if s != 'Succeeded') or 'its first resource'}): raise "
                "hosts.options.deadline_min, or see `az deployment operation group list`",
                code="Deadline",
                kind="timeout",
            )
        clock.sleep(clock.poll_s)
    if reached != "succeeded":
        raise _why(az, group, properties)
    return {name: entry["value"] for name, entry in (properties.get("outputs") or {}).items()}


def _state(az: Runs, group: str) -> str:
    try:
        document = az("deployment", "group", "show", "--resource-group", group, "--name", NAME)
    except AzError as failure:
        if failure.kind == "missing":
            return "none"
        raise
    return "running" if document["properties"]["provisioningState"].lower() in RUNNING else "ended"


def _operations(az: Runs, group: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = az(
        "deployment", "operation", "group", "list", "--resource-group", group, "--name", NAME
    )
    return found or []


def _tell(az: Runs, group: str, told: dict[str, str], say: Callable[[str], None]) -> None:
    for operation in _operations(az, group):
        p = operation["properties"]
        target = p.get("targetResource") or {}
        if not target:
            continue
        name = f"{target['resourceType'].split('/', 1)[1]} {target['resourceName']}"
        if told.get(name) != p["provisioningState"]:
            told[name] = p["provisioningState"]
            say(f"{group}: {name} {p['provisioningState'].lower()}")


def _why(az: Runs, group: str, properties: Mapping[str, Any]) -> AzError:
    """The root cause: the failed operations know more than the deployment itself."""
    details = []
    for operation in _operations(az, group):
        p = operation["properties"]
        if p["provisioningState"] == "Failed" and p.get("statusMessage"):
            message = p["statusMessage"]
            details.append(json.loads(message) if isinstance(message, str) and message.startswith("{") else message)
    error = properties.get("error") or {"code": "Unknown", "message": "no cause given"}
    nested = [d.get("error", d) for d in details if isinstance(d, dict)]
    return error_of(f"deployment of {group}", {"code": "DeploymentFailed", "message": "", "details": [error, *nested]})
