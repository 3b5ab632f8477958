"""Resource groups and deployments into them: validate, create, wait, delete, find again.

A deployment has a resource group of its own, with the same name; or it shares an existing group, and then its tag marks
what belongs to it.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...errors import AzureError
from .az import Clock, Runs, find
from .failures import AzError, error_of, stood_for
from .template import api_version

RUNNING = {"accepted", "running", "creating", "created", "updating", "validating", "ready"}
DEADLINE_S = 90 * 60
LAG_S = 60
"""Seconds for which Azure may deny what was just created."""
AnyTarget = TypeVar("AnyTarget", bound="Target")
TAG = "netperf-deployment"
DELETE_ORDER = (
    ("virtualmachines", "schedules"),
    ("connections",),
    ("virtualnetworkgateways",),
    ("networkinterfaces",),
    ("loadbalancers", "disks"),
    ("virtualnetworks",),
    ("natgateways", "networksecuritygroups", "routetables", "proximityplacementgroups"),
)
"""Types of resources in a shared group, in the order in which Azure can delete them; all others come last."""


@dataclass(kw_only=True, eq=False)
class Target:
    """Where a deployment goes."""

    name: str
    """Name of the deployment, and of its own resource group."""
    shared: str = ""
    """Existing resource group, if the deployment has none of its own."""
    prefix: str = ""
    """Prefix of all names in a shared group, so that they do not collide with others."""

    @property
    def group(self) -> str:
        """Resource group."""
        return self.shared or self.name

    @property
    def deployment(self) -> tuple[str, ...]:
        """Arguments by which az finds the deployment."""
        return ("--resource-group", self.group, "--name", self.name if self.shared else "npl")


@dataclass(frozen=True, kw_only=True)
class Change:
    """What would happen to one resource."""

    change: str
    """Create, Modify, NoChange, Ignore …, in Azure's terms."""
    type: str
    """Without its namespace, for example ``virtualMachines``."""
    name: str


def in_words(changes: Iterable[Change]) -> str:
    """Count changes by kind and type of resource, for example ``create 2 virtualMachines, 1 virtualNetworks``."""
    counts: dict[str, Counter[str]] = {}
    for c in changes:
        counts.setdefault(c.change.lower(), Counter())[c.type] += 1
    return "; ".join(
        f"{verb} {', '.join(f'{n} {t}' for t, n in sorted(c.items()))}"
        for verb, c in counts.items()
    )


def _files(template: Path, parameters: Path) -> tuple[str, ...]:
    return ("--template-file", str(template), "--parameters", f"@{parameters}")


def rehearse(
    az: Runs, target: Target, location: str, template: Path, parameters: Path
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Have Azure validate the deployment and preview it; nothing is created, not even the resource group.

    Returns what would happen to each resource, and what Azure could not check, for example a limit that applies only
    when a resource is created. AzError if it is not valid, or not permitted.
    """
    # in the group if it exists, else in the subscription
    level, where = "sub", tuple[str, ...](("--location", location, "--name", f"npl-{location}"))
    if target.shared:
        level, where = "group", target.deployment
    arguments = (*where, *_files(template, parameters))
    az("deployment", level, "validate", *arguments)
    answer = az(
        "deployment",
        level,
        "what-if",
        *arguments,
        "--no-pretty-print",
        "--result-format",
        "ResourceIdOnly",
    )
    changes = []
    for change in [*(answer.get("changes") or ()), *(answer.get("potentialChanges") or ())]:
        _, inside, tail = change["resourceId"].rpartition("/providers/")
        if inside:
            _, kind, *names = tail.split("/")
            kind, name = "/".join([kind, *names[1::2]]), "/".join(names[::2])
        else:
            kind, name = "resourceGroups", tail.rpartition("/")[2]
        changes.append(Change(change=change["changeType"], type=kind, name=name))
    return tuple(changes), tuple(str(d.get("message")) for d in answer.get("diagnostics") or ())


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
    """Every deployment with this project's tag in the subscription, in groups of its own or shared ones."""
    tagged: dict[tuple[str, str], Mapping[str, str]] = {}  # by name and shared group
    for group in az("group", "list", "--tag", "netperf-experiment") or ():
        if "netperf-experiment" in (group.get("tags") or {}):
            tagged[group["name"], ""] = group["tags"]
    for resource in az("resource", "list", "--tag", "netperf-experiment") or ():
        group, tags = resource["id"].split("/")[4], resource.get("tags") or {}
        name = tags.get(TAG)
        if name and (group, "") not in tagged and name != group:
            tagged.setdefault((name, group), tags)
    return [
        Leftover(
            name=name,
            shared=shared,
            experiment=tags["netperf-experiment"],
            created_utc=tags.get("netperf-created"),
            expires_utc=tags.get("netperf-expires"),
        )
        for (name, shared), tags in tagged.items()
    ]


def remove(
    az: Runs,
    targets: Iterable[AnyTarget],
    *,
    clock: Clock,
    say: Callable[[str], None] = lambda _: None,
    gone: Callable[[AnyTarget], None] = lambda _: None,
) -> None:
    """Delete deployments and verify that they are gone; one that fails does not hold up the others. Safe to repeat.

    A resource group of the target's own is deleted, in a shared one everything with its tag. Azure may deny for a
    moment what exists, so that one is looked for three times before it counts as gone. `gone` is called with each
    that is verified to be gone; AzureError says what is left, and why.
    """
    end = clock.now() + DEADLINE_S
    left = dict.fromkeys(targets, 3)
    deletions: Counter[AnyTarget] = Counter()
    trouble: dict[AnyTarget, str] = {}
    failed: list[str] = []
    while left:
        for target in list(left):
            try:
                state = state_of(az, target)
                if state is None:
                    left[target] -= 1
                    if not left[target] or deletions[target]:
                        del left[target]
                        gone(target)
                        say(f"{target.name}: gone")
                elif state != "Deleting":
                    # also after a deletion that failed: gateways and their networks sometimes need a second one
                    if deletions[target] >= (4 if not target.shared else 4 + len(DELETE_ORDER)):
                        del left[target]
                        why = trouble.get(target) or _look(target)
                        failed.append(
                            f"{target.name} is still there after {deletions[target]} deletions: {why}"
                        )
                        continue
                    deletions[target] += 1
                    _delete(az, target)
                    say(f"{target.name}: deleting")
            except AzError as failure:
                if failure.deed == "login":
                    raise
                trouble[target] = str(failure)
                if failure.deed not in ("retry", "absent") and failure.code != "Timeout":
                    del left[target]
                    failed.append(f"{target.name} cannot be deleted: {failure}")
                    say(failed[-1])
        if left:
            if clock.now() > end:
                names = ", ".join(t.name for t in left)
                failed.append(
                    f"still there after {DEADLINE_S / 60:.0f} min: {names} ({_look(*left)})"
                )
                break
            clock.sleep(clock.poll_s)
    if failed:
        raise AzureError("; ".join(failed) + "; repeat `npl down`")


def _delete(az: Runs, target: Target) -> None:
    if not target.shared:
        az("group", "delete", "--name", target.group, "--yes", "--no-wait")
        return
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for resource in _tagged(az, target):
        by_kind.setdefault(resource["type"].rsplit("/", 1)[-1].lower(), []).append(resource)
    for kinds in (*DELETE_ORDER, tuple(by_kind)):
        by_version: dict[str, list[str]] = {}
        for resource in (r for kind in kinds for r in by_kind.get(kind, ())):
            by_version.setdefault(api_version(resource["type"]), []).append(resource["id"])
        for version, ids in by_version.items():
            # az would look up the version, which needs rights on the subscription, and without --verbose it hides why
            az(
                "resource",
                "delete",
                "--ids",
                *ids,
                *(("--api-version", version) if version else ()),
                "--verbose",
            )
        if by_version:
            return


def _tagged(az: Runs, target: Target) -> list[dict[str, Any]]:
    every = find(az, "resource", "list", "--resource-group", target.group) or ()
    return [r for r in every if (r.get("tags") or {}).get(TAG) == target.name]


def _look(*targets: Target) -> str:
    return "; ".join(f"see `az resource list -g {t.group} -o table`" for t in targets)


def state_of(az: Runs, target: Target) -> str | None:
    """State of what is there of a deployment; None: it is gone."""
    if target.shared:
        return "Succeeded" if _tagged(az, target) else None
    group = find(az, "group", "show", "--name", target.group)
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

    A deployment that is already running (an earlier process was stopped) is waited for, not started twice. AzError has
    the root cause; its kind is ``timeout`` if the deadline passed.
    """
    end, unsure = clock.now() + deadline_s, clock.now() + LAG_S
    show = ("deployment", "group", "show", *target.deployment)
    before = find(az, *show)
    if not before or before["properties"]["provisioningState"].lower() not in RUNNING:
        try:
            az(
                "deployment",
                "group",
                "create",
                *target.deployment,
                *_files(template, parameters),
                "--no-wait",
            )
        except AzError as failure:
            if not failure.code.startswith("DeploymentActive"):
                raise
    states: dict[str, str] = {}
    while True:
        shown = find(az, *show)
        if shown is None and clock.now() <= unsure:
            clock.sleep(clock.poll_s)
            continue
        properties = (shown or az(*show))["properties"]
        reached = properties["provisioningState"].lower()
        if reached == "succeeded":
            return {
                name: entry["value"] for name, entry in (properties.get("outputs") or {}).items()
            }
        operations = [
            o["properties"]
            for o in find(az, "deployment", "operation", "group", "list", *target.deployment) or ()
        ]
        if reached not in RUNNING:
            raise _why(target, properties, operations)
        for p in operations:
            if resource := p.get("targetResource"):
                name = f"{resource['resourceType'].split('/', 1)[1]} {resource['resourceName']}"
                if states.get(name) != p["provisioningState"]:
                    states[name] = p["provisioningState"]
                    say(f"{target.name}: {name} {p['provisioningState'].lower()}")
        if clock.now() > end:
            raise AzError(
                f"deployment of {target.name} is not complete after {deadline_s / 60:.0f} min (waiting for "
                f"{', '.join(n for n, s in states.items() if s != 'Succeeded') or 'its first resource'}): raise "
                "hosts.options.deadline_min, or see `az deployment operation group list`",
                code="Deadline",
                kind="timeout",
            )
        clock.sleep(clock.poll_s)


def _why(
    target: Target, properties: Mapping[str, Any], operations: Iterable[Mapping[str, Any]]
) -> AzError:
    """The root cause: the failed operations know more than the deployment itself."""
    details: list[Any] = [
        properties.get("error") or {"code": "Unknown", "message": "no cause given"}
    ]
    for p in operations:
        message = p.get("statusMessage")
        if p["provisioningState"] == "Failed" and message:
            detail = (
                json.loads(message)
                if isinstance(message, str) and message.startswith("{")
                else message
            )
            if isinstance(detail, dict):
                details += [
                    {"code": code, "message": ""}
                    for code, _ in stood_for(str(p.get("statusCode") or ""))
                ]
                details.append(detail.get("error", detail))
    return error_of(
        f"deployment of {target.name}",
        {"code": "DeploymentFailed", "message": "", "details": details},
    )
