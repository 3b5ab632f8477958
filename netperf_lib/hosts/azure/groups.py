"""Resource groups, each with one deployment: validate, create, wait, cancel, delete, find again.

Azure's resource manager is replicated, and lags: for some seconds it may deny what exists, or show
what was there before. What it denies is therefore asked for again before it counts.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ...errors import AzureError
from ...metrics import plural
from ..source import say_aloud
from . import az as az_module
from .az import Runs, find
from .failures import PASSING, AzError, error_of

RUNNING = {
    *("accepted", "running", "creating", "created", "updating", "validating", "ready"),
    "canceling",
}
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

    def expired(self, now: dt.datetime) -> bool:
        """Return whether it has expired; a group with an unreadable tag counts as expired."""
        try:
            return now >= dt.datetime.fromisoformat(self.expires_utc or "")
        except ValueError:
            return True


def leftovers(az: Runs) -> list[Leftover]:
    """Return every resource group with this project's tag in the subscription."""
    found = []
    for group in az("group", "list", "--tag", "netperf-experiment") or ():
        tags = group["tags"]
        experiment = tags["netperf-experiment"]
        created, expires = tags.get("netperf-created"), tags.get("netperf-expires")
        found.append(
            Leftover(
                name=group["name"],
                experiment=experiment,
                created_utc=created,
                expires_utc=expires,
            )
        )
    return found


def clock_s() -> float:
    """Return the time in seconds."""
    return az_module.CLOCK.now()


def pause(least_s: float = 0.0) -> None:
    """Let Azure work."""
    az_module.CLOCK.sleep(max(az_module.CLOCK.poll_s, least_s))


class _Denials:
    """Looks in a row at which Azure denied something."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def suffice(self, denied: bool) -> bool:
        """Note a look; return whether there were enough of them that it counts."""
        self.times = [*self.times, clock_s()] if denied else []
        return len(self.times) >= LOOKS and self.times[-1] - self.times[0] >= LOOKS_S


def rehearsal(name: str, region: str, files: Command) -> tuple[Command, Command]:
    """Return the commands that have Azure validate a deployment and preview it."""
    where = ("--name", name, "--location", region, *files)
    plain = ("--no-pretty-print", "--result-format", "ResourceIdOnly")
    verbs = ("deployment", "sub")
    return (*verbs, "validate", *where), (*verbs, "what-if", *where, *plain)


def rehearse(az: Runs, commands: tuple[Command, Command]) -> str:
    """Have Azure validate a deployment and preview it; nothing is created.

    Returns what it would do, and what it could not check, for example a limit that applies only
    when a resource is created. AzError if it is not valid, or not permitted.
    """
    validate, what_if = commands
    az(*validate)
    answer = az(*what_if)
    counts = Counter(
        change["changeType"].lower() for change in answer.get("changes") or ()
    )
    words = " and ".join(f"{verb} {plural(n, 'resource')}" for verb, n in counts.items())
    remarks = [str(d.get("message")) for d in answer.get("diagnostics") or ()]
    return "; ".join([f"Azure finds it valid, and would {words}", *remarks])


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
    end = clock_s() + DEADLINE_S
    ask = partial(az, patience_s=0.0)
    left = {target: _removal(ask, target) for target in targets}
    answers: dict[str, str] = {}
    refused: dict[str, str] = {}
    told_s = clock_s()
    while left and clock_s() <= end:
        wait_s = 0.0
        for target in list(left):
            try:
                next(left[target])
            except StopIteration:
                del left[target]
                answers.pop(target.name, None)
                gone(target)
                say_aloud(f"{target.name}: gone")
            except AzError as failure:
                answers[target.name] = str(failure)
                wait_s = max(wait_s, failure.wait_s)
                if failure.kind in ("login", "permission"):
                    refused[target.name] = str(failure)
                    del left[target]
                else:
                    left[target] = _removal(ask, target)
        if left and clock_s() - told_s >= az_module.TELL_S:
            told_s = clock_s()
            for target in left:
                answer = answers.get(target.name, "Azure is deleting it")
                say_aloud(f"{target.name} is not gone yet: {answer}")
        if left:
            pause(wait_s)
    troubles = [f"{name} cannot be deleted: {text}" for name, text in refused.items()]
    for target in left:
        answer = answers.get(target.name, "Azure is deleting it")
        minutes = DEADLINE_S / 60
        troubles.append(f"{target.name} is still there after {minutes:.0f} min: {answer}")
    if troubles:
        raise AzureError("; ".join(troubles) + "; repeat `npl down`")


def _removal(ask: Runs, target: Target) -> Iterator[None]:
    """Remove a group, with a pause at each `yield`; it ends when the group is proven to be gone.

    Both a look and a deletion say that it is not there: after Azure was seen deleting it, or often
    enough for anything that was just created to appear.
    """
    if target.running:
        yield from _cancellation(ask, target)
    target.running = False
    delete = ("group", "delete", "--name", target.name, "--yes", "--no-wait")
    denials, asked_s, deleting = _Denials(), float("-inf"), False
    while True:
        group = find(ask, "group", "show", "--name", target.name)
        known = group is not None
        if group is not None:
            deleting = group["properties"]["provisioningState"] == "Deleting"
        waiting = deleting or clock_s() - asked_s <= az_module.CLOCK.lag_s
        if not known or not waiting:
            known = _asked(ask, *delete) or known
            asked_s = clock_s() if known else asked_s
        if denials.suffice(not known) or (deleting and not known):
            return
        yield


def _cancellation(ask: Runs, target: Target) -> Iterator[None]:
    """Cancel what is being deployed into a group, with pauses, until nothing goes on."""
    group = ("--resource-group", target.name)
    cancel = ("deployment", "group", "cancel", *group, "--name")
    denials, cancelled_s = _Denials(), float("inf")
    while True:
        listed = find(ask, "deployment", "group", "list", *group) or ()
        states: dict[bool, list[str]] = {}
        for deployment in listed:
            is_running = deployment["properties"]["provisioningState"].lower() in RUNNING
            states.setdefault(is_running, []).append(deployment["name"])
        running, ended = states.get(True, []), states.get(False, [])
        if ended and not running and target.started in ("", *ended):
            return
        # it may not have begun, or have ended by now
        names = running or [target.started] if target.started else running
        known = [_asked(ask, *cancel, name, despite=PASSING) for name in names]
        if running or any(known):
            cancelled_s = min(cancelled_s, clock_s())
        denied = not running and not any(known)
        if denials.suffice(denied) or clock_s() - cancelled_s > CANCEL_S:
            return
        yield


def _asked(ask: Runs, *command: str, despite: str = "") -> bool:
    """Ask for the end of something; return whether Azure knows it.

    A failure of the kind `despite` says nothing against that.
    """
    try:
        ask(*command)
    except AzError as failure:
        if failure.kind not in ("absent", despite):
            raise
        return failure.kind == despite
    return True


def creation(
    target: Target, region: str, tags: dict[str, str], files: Command
) -> tuple[Command, Command]:
    """Return the commands that create the group, and deploy the template into it."""
    pairs = [f"{key}={value}" for key, value in tags.items()]
    place = ("--name", target.name, "--location", region)
    named = ("--resource-group", target.name, "--name", target.started)
    deployment = ("deployment", "group", "create", *named, *files, "--no-wait")
    return ("group", "create", *place, "--tags", *pairs), deployment


def deploy(
    az: Runs, target: Target, commands: tuple[Command, Command], *, deadline_s: float
) -> dict[str, Any]:
    """Run the commands of `creation`, and return the outputs of the template.

    A deployment that is already running (an earlier process was stopped) is waited for, not started
    twice; one that Azure does not know after a while is started again. AzError has the root cause;
    its code is ``Deadline`` if the deadline passed.
    """
    end = clock_s() + deadline_s
    asked_s = float("-inf")
    named = ("--resource-group", target.name, "--name", target.started)
    while True:
        unknown_s = clock_s() - asked_s
        if unknown_s > az_module.CLOCK.lag_s and _started(az, commands):
            say_aloud(f"{target.name}: Azure is creating it")
            asked_s = clock_s()
        look = partial(az, patience_s=end - clock_s())
        shown = find(look, "deployment", "group", "show", *named)
        if shown is not None:
            asked_s = float("inf")
            properties = shown["properties"]
            state = properties["provisioningState"].lower()
            target.running = state in RUNNING
            if state == "succeeded":
                outputs = properties.get("outputs") or {}
                return {name: output["value"] for name, output in outputs.items()}
            if not target.running:
                unknown = {"code": "Unknown", "message": "no cause given"}
                error = properties.get("error") or unknown
                raise error_of(f"deployment of {target.name}", error)
        if clock_s() > end:
            operations = f"-g {target.name} -n {target.started}"
            raise AzError(
                f"deployment of {target.name} is not complete after {deadline_s / 60:.0f} min: "
                f"see `az deployment operation group list {operations}`",
                code="Deadline",
            )
        pause()


def _started(az: Runs, commands: tuple[Command, Command]) -> bool:
    """Start a deployment; return whether it runs. A new group may not be known for a while."""
    group, deployment = commands
    az(*group)
    try:
        az(*deployment)
    except AzError as failure:
        if failure.kind != "absent":
            raise
        return failure.code.startswith("DeploymentActive")
    return True
