"""Resource groups, each with one deployment: validate, create, wait, cancel, delete, find again.

Azure's resource manager is replicated, and lags: for some seconds it may deny what exists, or show
what was there before. What it denies is therefore asked for again before it counts.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ...errors import AzureError
from ...metrics import plural
from .az import Clock, Runs, find
from .failures import AzError, error_of, stood_for

RUNNING = {
    *("accepted", "running", "creating", "created", "updating", "validating", "ready"),
    "canceling",
}
DEADLINE_S = 90 * 60
CANCEL_S = 15 * 60
"""A deployment that is cancelled may take so long to end."""
LOOKS, LOOKS_S = 3, 30
"""What Azure denies so often, over so many seconds, is not there."""
DELETIONS = 4
"""Gateways and their networks sometimes need more than one."""
TAG = "netperf-deployment"
AnyTarget = TypeVar("AnyTarget", bound="Target")


@dataclass(kw_only=True, eq=False)
class Target:
    """A deployment, and the resource group that it has for itself."""

    name: str
    """Name of the group."""
    starts: int = 0
    """How often a deployment was started; each start has a name of its own."""
    quiet: bool = True
    """No deployment is under way."""

    @property
    def deployment(self) -> tuple[str, ...]:
        """Arguments by which az finds the deployment."""
        return ("--resource-group", self.name, "--name", self.started)

    @property
    def started(self) -> str:
        """Name of the latest deployment, or ""."""
        return f"npl-{self.starts}" if self.starts else ""


def _files(template: Path, parameters: Path) -> tuple[str, ...]:
    return ("--template-file", str(template), "--parameters", f"@{parameters}")


def rehearse(az: Runs, location: str, template: Path, parameters: Path) -> list[str]:
    """Have Azure validate the deployment and preview it; nothing is created.

    Returns what it would do, and what it could not check, for example a limit that applies only
    when a resource is created. AzError if it is not valid, or not permitted.
    """
    where = ("--location", location, "--name", f"npl-{location}")
    arguments = (*where, *_files(template, parameters))
    az("deployment", "sub", "validate", *arguments)
    plain = ("--no-pretty-print", "--result-format", "ResourceIdOnly")
    answer = az("deployment", "sub", "what-if", *arguments, *plain)
    changes = [*(answer.get("changes") or ()), *(answer.get("potentialChanges") or ())]
    counts = Counter(c["changeType"].lower() for c in changes)
    words = " and ".join(f"{verb} {plural(n, 'resource')}" for verb, n in counts.items())
    remarks = [str(d.get("message")) for d in answer.get("diagnostics") or ()]
    return [f"Azure finds it valid, and would {words}", *remarks]


@dataclass(kw_only=True, eq=False)
class Leftover(Target):
    """An existing deployment of this project."""

    experiment: str
    created_utc: str | None
    expires_utc: str | None

    def expired(self, now: dt.datetime) -> bool:
        """Whether it has expired; a group with an unreadable tag counts as expired."""
        try:
            return now >= dt.datetime.fromisoformat((self.expires_utc or "").replace("Z", "+00:00"))
        except ValueError:
            return True


def leftovers(az: Runs) -> list[Leftover]:
    """Return every resource group with this project's tag in the subscription."""
    listed = az("group", "list", "--tag", "netperf-experiment") or ()
    tagged = [g for g in listed if "netperf-experiment" in (g.get("tags") or {})]
    return [
        Leftover(
            name=group["name"],
            quiet=False,
            experiment=group["tags"]["netperf-experiment"],
            created_utc=group["tags"].get("netperf-created"),
            expires_utc=group["tags"].get("netperf-expires"),
        )
        for group in tagged
    ]


@dataclass
class _Removal:
    """What is known of one removal so far."""

    quiet: bool = False
    """No deployment goes on creating anything."""
    cancelled_s: float | None = None
    """When the deployment was cancelled."""
    denied: list[float] = field(default_factory=list)
    """When Azure denied, without a break, that what is looked for exists."""
    deletions: int = 0
    asked_s: float | None = None
    """When the last deletion was asked for."""
    deleting: bool = False
    """Azure was seen at it."""
    trouble: str = ""

    def denies(self, now: float) -> bool:
        """Note that Azure denies something; return whether it did so often enough to count."""
        self.denied.append(now)
        return len(self.denied) >= LOOKS and now - self.denied[0] >= LOOKS_S


def remove(
    az: Runs,
    targets: Iterable[AnyTarget],
    *,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    gone: Callable[[AnyTarget], None] = lambda _: None,
) -> None:
    """Delete resource groups and verify that they are gone; one that fails does not hold up others.

    A deployment that may still run is cancelled first, and waited for. `gone` is called with each
    group that is proven to be gone; AzureError says what is left, and why. Safe to repeat.
    """
    end = clock.now() + DEADLINE_S
    left = {target: _Removal(quiet=target.quiet) for target in targets}
    failed: list[str] = []
    while left:
        for target, removal in list(left.items()):
            try:
                if not removal.quiet and _silenced(az, target, removal, clock):
                    removal.quiet = True
                    removal.denied.clear()
                if removal.quiet and _deleted(az, target, removal, clock, say):
                    del left[target]
                    gone(target)
                    say(f"{target.name}: gone")
                elif removal.deletions > DELETIONS:
                    del left[target]
                    why = removal.trouble or _advice(target)
                    failed.append(
                        f"{target.name} is still there after {DELETIONS} deletions: {why}"
                    )
            except AzError as failure:
                if failure.deed == "login":
                    raise
                removal.trouble = str(failure)
                if failure.deed != "retry" and failure.code != "Timeout":
                    del left[target]
                    failed.append(f"{target.name} cannot be deleted: {failure}")
                    say(failed[-1])
        if left:
            if clock.now() > end:
                names = ", ".join(t.name for t in left)
                minutes = f"{DEADLINE_S / 60:.0f} min"
                failed.append(f"still there after {minutes}: {names} ({_advice(*left)})")
                break
            clock.sleep(clock.poll_s)
    if failed:
        raise AzureError("; ".join(failed) + "; repeat `npl down`")


def _silenced(az: Runs, target: Target, removal: _Removal, clock: Clock) -> bool:
    """Cancel what is being deployed into a group; return whether nothing goes on."""
    now = clock.now()
    listed = find(az, "deployment", "group", "list", "--resource-group", target.name) or ()
    states = {d["name"]: d["properties"]["provisioningState"].lower() for d in listed}
    running = [name for name, state in states.items() if state in RUNNING]
    if states and not running and target.started in ("", *states):
        return True
    cancelled = [_cancelled(az, target, name) for name in running or [target.started] if name]
    if not running and not any(cancelled):
        return removal.denies(now)
    removal.denied.clear()
    removal.cancelled_s = removal.cancelled_s or now
    return now - removal.cancelled_s > CANCEL_S


def _cancelled(az: Runs, target: Target, name: str) -> bool:
    """Ask for the end of a deployment; return whether Azure knows that it runs."""
    try:
        az("deployment", "group", "cancel", "--resource-group", target.name, "--name", name)
    except AzError as failure:
        # it may not have begun, or have ended by now
        if failure.deed not in ("retry", "absent"):
            raise
        return False
    return True


def _deleted(
    az: Runs, target: Target, removal: _Removal, clock: Clock, say: Callable[[str], None]
) -> bool:
    """Go on with the deletion of a group; return whether it is proven to be gone.

    Both a look and a deletion say that it is not there: after Azure was seen deleting it, or often
    enough for anything that was just created to appear.
    """
    group = find(az, "group", "show", "--name", target.name)
    if group is None:
        if _asked(az, target):
            removal.denied.clear()
            removal.asked_s = clock.now()
            return False
        return removal.denies(clock.now()) or removal.deleting
    removal.denied.clear()
    removal.deleting = group["properties"]["provisioningState"] == "Deleting"
    waiting = removal.asked_s is not None and clock.now() - removal.asked_s <= clock.lag_s
    if removal.deleting or waiting:
        return False
    # also after a deletion that failed
    removal.deletions += 1
    if removal.deletions <= DELETIONS and _asked(az, target):
        removal.asked_s = clock.now()
        say(f"{target.name}: deleting")
    return False


def _asked(az: Runs, target: Target) -> bool:
    """Ask for the deletion of a group; return whether Azure knows the group."""
    try:
        az("group", "delete", "--name", target.name, "--yes", "--no-wait")
    except AzError as failure:
        if failure.kind != "missing":
            raise
        return False
    return True


def _advice(*targets: Target) -> str:
    return "; ".join(f"see `az resource list -g {t.name} -o table`" for t in targets)


def state_of(az: Runs, target: Target) -> str | None:
    """Return the state of a group; None if Azure does not show it."""
    group = find(az, "group", "show", "--name", target.name)
    return None if group is None else str(group["properties"]["provisioningState"])


def deploy(
    az: Runs,
    target: Target,
    template: Path,
    parameters: Path,
    *,
    deadline_s: float,
    clock: Clock,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Deploy the template into the group and return its outputs.

    A deployment that is already running (an earlier process was stopped) is waited for, not started
    twice. AzError has the root cause; its kind is ``timeout`` if the deadline passed.
    """
    begun = clock.now()
    while not _started(az, target, template, parameters, unsure=clock.now() - begun < clock.lag_s):
        clock.sleep(clock.poll_s)
    states: dict[str, str] = {}
    while True:
        shown = find(az, "deployment", "group", "show", *target.deployment)
        operations = find(az, "deployment", "operation", "group", "list", *target.deployment)
        properties = (shown or {}).get("properties") or {"provisioningState": "Accepted"}
        listed = [o["properties"] for o in operations or ()]
        reached = properties["provisioningState"].lower()
        if reached == "succeeded":
            target.quiet = True
            outputs = properties.get("outputs") or {}
            return {name: entry["value"] for name, entry in outputs.items()}
        if reached not in RUNNING:
            target.quiet = True
            raise _why(target, properties, listed)
        for p in listed:
            if resource := p.get("targetResource"):
                name = f"{resource['resourceType'].split('/', 1)[1]} {resource['resourceName']}"
                if states.get(name) != p["provisioningState"]:
                    states[name] = p["provisioningState"]
                    say(f"{target.name}: {name} {p['provisioningState'].lower()}")
        if clock.now() - begun > deadline_s:
            waiting = [n for n, s in states.items() if s != "Succeeded"]
            raise AzError(
                f"deployment of {target.name} is not complete after {deadline_s / 60:.0f} min "
                f"(waiting for {', '.join(waiting) or 'its first resource'}): "
                "see `az deployment operation group list`",
                code="Deadline",
                kind="timeout",
            )
        clock.sleep(clock.poll_s)


def _started(az: Runs, target: Target, template: Path, parameters: Path, *, unsure: bool) -> bool:
    """Start a deployment; return whether it runs. A new group may be `unsure` for a while."""
    try:
        files = _files(template, parameters)
        az("deployment", "group", "create", *target.deployment, *files, "--no-wait")
    except AzError as failure:
        if failure.kind == "missing" and unsure:
            return False
        if not failure.code.startswith("DeploymentActive"):
            raise
    return True


def _why(
    target: Target, properties: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]
) -> AzError:
    """The root cause: the failed operations know more than the deployment itself."""
    unknown = {"code": "Unknown", "message": "no cause given"}
    details: list[Any] = [properties.get("error") or unknown]
    for p in operations:
        message = p.get("statusMessage")
        if p["provisioningState"] != "Failed" or not message:
            continue
        if isinstance(message, str) and message.startswith("{"):
            message = json.loads(message)
        if isinstance(message, dict):
            status = stood_for(str(p.get("statusCode") or ""))
            details += [{"code": code, "message": ""} for code, _ in status]
            details.append(message.get("error", message))
    outer = {"code": "DeploymentFailed", "message": "", "details": details}
    return error_of(f"deployment of {target.name}", outer)
