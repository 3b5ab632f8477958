"""Resource groups, each with one deployment: validate, create, wait, cancel, delete, find again.

Azure's resource manager is replicated, and lags: for some seconds it may deny what exists, or show
what was there before. What it denies is therefore asked for again before it counts.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from ...errors import AzureError
from ...metrics import plural
from ..source import say_aloud
from . import az as az_module
from .az import Runs, find
from .failures import PASSING, AzError, error_of

RETRY_PAUSES_S = (30.0, 100.0, 300.0)
"""Seconds before a deployment that met a passing conflict is started again."""
ENDED = ("succeeded", "failed", "canceled")
DEADLINE_S = 90 * 60
CANCEL_S = 15 * 60
"""A deployment that is cancelled may take so long to end."""
LOOKS, LOOKS_S = 3, 30
"""What Azure denies so often, over so many seconds, is not there."""
TAG = "netperf-deployment"
AnyTarget = TypeVar("AnyTarget", bound="Target")
Command = tuple[str, ...]


@dataclass(kw_only=True, eq=False)
class Target:
    """A deployment, and the resource group that it has for itself."""

    name: str
    """Name of the group."""
    starts: int = 0
    """How often a deployment was started; each start has a name of its own."""
    running: bool = False
    """A deployment may be under way."""

    @property
    def started(self) -> str:
        """Name of the latest deployment, or ""."""
        return f"npl-{self.starts}" if self.starts else ""


@dataclass(kw_only=True, eq=False)
class Leftover(Target):
    """An existing deployment of this project."""

    experiment: str
    created_utc: str | None
    expires_utc: str | None
    running: bool = True

    @property
    def expired(self) -> bool:
        """Whether it has expired; a group with an unreadable tag counts as expired."""
        try:
            expires = dt.datetime.fromisoformat(self.expires_utc or "")
            return expires <= dt.datetime.now(dt.UTC)
        except (TypeError, ValueError):
            return True


def leftovers(az: Runs) -> Iterator[Leftover]:
    """Yield every resource group with this project's tag in the subscription."""
    for group in az("group", "list", "--tag", "netperf-experiment") or ():
        tags = group["tags"]
        yield Leftover(
            name=group["name"],
            experiment=tags["netperf-experiment"],
            created_utc=tags.get("netperf-created"),
            expires_utc=tags.get("netperf-expires"),
        )


@dataclass
class _Removal:
    """What was seen of the removal of a group so far."""

    begun_s: float
    denied: list[float] = field(default_factory=list)
    """When Azure denied it, in a row."""
    deleting: bool = False
    """Azure was seen deleting it."""
    answer: str = "Azure is deleting it"

    def note(self, known: bool) -> bool:
        """Note a look; return whether Azure denied it often enough for what was just created."""
        self.denied = [] if known else [*self.denied, time.monotonic()]
        return len(self.denied) >= LOOKS and self.denied[-1] - self.denied[0] >= LOOKS_S


def rehearse(az: Runs, commands: tuple[Command, Command]) -> str:
    """Have Azure validate a deployment and preview it; nothing is created.

    Returns what it would do, and what it could not check, for example a limit that applies only
    when a resource is created. AzError if it is not valid, or not permitted.
    """
    validate, what_if = commands
    az(*validate)
    answer = az(*what_if)
    number = plural(len(answer.get("changes") or ()), "resource")
    remarks = [str(d.get("message")) for d in answer.get("diagnostics") or ()]
    return "; ".join([f"Azure finds it valid, and would create {number}", *remarks])


def remove(
    az: Runs,
    targets: Iterable[AnyTarget],
    gone: Callable[[AnyTarget], None] = lambda _: None,
) -> None:
    """Delete resource groups and verify that they are gone; one that fails does not hold up others.

    A deployment that may still run is cancelled first, and waited for. Whatever az answers, a
    deletion is repeated until the deadline, unless a person must act. `gone` is called with each
    group that is proven to be gone; AzureError says what is left, and why. Safe to repeat.
    """
    begun_s = told_s = time.monotonic()
    ask = partial(az, patience_s=0.0)
    left = {target: _Removal(begun_s) for target in targets}
    troubles = []
    while left:
        wait_s = 0.0
        is_late = time.monotonic() - begun_s > DEADLINE_S
        is_told = time.monotonic() - told_s >= az_module.TELL_S
        told_s = time.monotonic() if is_told else told_s
        for target, seen in list(left.items()):
            try:
                if _removed(ask, target, seen):
                    gone(target)
                    say_aloud(f"{target.name}: gone")
                    del left[target]
                    continue
            except AzError as failure:
                seen.answer = str(failure)
                wait_s = max(wait_s, failure.wait_s)
                if failure.kind in ("login", "permission"):
                    troubles.append(f"{target.name} cannot be deleted: {failure}")
                    del left[target]
                    continue
            if is_late:
                minutes = f"{DEADLINE_S / 60:.0f} min"
                troubles.append(f"{target.name} is there after {minutes}: {seen.answer}")
                del left[target]
            elif is_told:
                say_aloud(f"{target.name} is not gone yet: {seen.answer}")
        if left:
            time.sleep(max(az_module.POLL_S, wait_s))
    if troubles:
        raise AzureError("; ".join(troubles) + "; repeat `npl down`")


def _removed(ask: Runs, target: Target, seen: _Removal) -> bool:
    """Take the next step of a removal; return whether the group is proven to be gone.

    Both a look and a deletion say that it is not there: after Azure was seen deleting it, or often
    enough for anything that was just created to appear.
    """
    if target.running:
        is_late = time.monotonic() - seen.begun_s > CANCEL_S
        if not is_late and not _ended(ask, target, seen):
            return False
        target.running = False
        seen.denied = []
    group = find(ask, "group", "show", "--name", target.name)
    if group and group["properties"]["provisioningState"] == "Deleting":
        seen.deleting = True
        return False
    delete = ("group", "delete", "--name", target.name, "--yes", "--no-wait")
    is_known = group is not None
    if is_known or not seen.deleting:
        is_known = _knows(ask, *delete) or is_known
    return seen.note(is_known) or (seen.deleting and not is_known)


def _ended(ask: Runs, target: Target, seen: _Removal) -> bool:
    """Cancel what is being deployed into a group; return whether nothing goes on."""
    group = ("--resource-group", target.name)
    names = [target.started]
    if not target.starts:
        listed = find(ask, "deployment", "group", "list", *group) or ()
        names = [deployment["name"] for deployment in listed]
    cancel = ("deployment", "group", "cancel", *group, "--name")
    known = []
    for name in names:
        try:
            known.append(_knows(ask, *cancel, name))
        except AzError as failure:
            # it has ended
            if not failure.code.startswith("DeploymentCannotBe"):
                raise
    return not known or seen.note(any(known))


def _knows(ask: Runs, *command: str) -> bool:
    """Ask for the end of something; return whether Azure knows it."""
    try:
        ask(*command)
    except AzError as failure:
        if failure.kind != "absent":
            raise
        return False
    return True


def deploy(
    az: Runs,
    target: Target,
    commands: Callable[[], tuple[Command, Command]],
    note: Callable[[], None],
    limit_s: float,
) -> dict[str, Any]:
    """Create a group and deploy a template into it; return the outputs of the template.

    `commands` returns the commands for the next start; `note` records `target`. A deployment that
    is already running (an earlier process was stopped) is waited for, not started twice; one that
    Azure does not know after a while is started again, and so is one that met a passing conflict of
    a resource: what exists stays as it is. AzError has the root cause; its code is ``Deadline`` if
    the deadline passed.
    """
    end = time.monotonic() + limit_s
    asked_s = float("-inf")
    pauses_s = iter(RETRY_PAUSES_S)
    while True:
        if not target.running:
            target.starts += 1
            target.running = True
        note()
        is_unknown = time.monotonic() - asked_s > az_module.LAG_S
        if is_unknown and _started(az, *commands()):
            say_aloud(f"{target.name}: Azure is creating it")
            asked_s = time.monotonic()
        look = partial(az, patience_s=end - time.monotonic())
        named = ("--resource-group", target.name, "--name", target.started)
        shown = find(look, "deployment", "group", "show", *named)
        if shown is not None:
            asked_s = float("inf")
            properties = shown["properties"]
            state = properties["provisioningState"].lower()
            target.running = state not in ENDED
            note()
            if state == "succeeded":
                outputs = properties.get("outputs") or {}
                return {name: output["value"] for name, output in outputs.items()}
            if not target.running:
                unknown = {"code": "Unknown", "message": "no cause given"}
                error = properties.get("error") or unknown
                failure = error_of(f"deployment of {target.name}", error)
                pause_s = next(pauses_s, None)
                if pause_s is None or failure.kind not in (PASSING, "absent"):
                    raise failure
                again = f"the same deployment again in {pause_s:g} s"
                say_aloud(f"{target.name}: {failure.code}: {again}")
                time.sleep(pause_s)
                asked_s = float("-inf")
                continue
        if time.monotonic() > end:
            operations = f"-g {target.name} -n {target.started}"
            raise AzError(
                f"deployment of {target.name} is not complete after {limit_s / 60:.0f} min: "
                f"see `az deployment operation group list {operations}`",
                code="Deadline",
            )
        time.sleep(az_module.POLL_S)


def _started(az: Runs, group: Command, deployment: Command) -> bool:
    """Start a deployment; return whether it runs. A new group may not be known for a while."""
    az(*group)
    try:
        az(*deployment)
    except AzError as failure:
        if failure.kind != "absent":
            raise
        return failure.code.startswith("DeploymentActive")
    return True
