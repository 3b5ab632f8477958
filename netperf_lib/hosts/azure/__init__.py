"""VMs in Azure: placed by a template, proven, and taken away again, through the command line `az`.

One resource group holds one deployment, so that deleting the group removes all of it. What is about to be made is on
disk before it is made; an interrupted `up` or `down` is simply repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...errors import AzureError
from ...experiment.estimate import Preview, duration_s, traffic
from ...experiment.model import Deployment, Experiment, Host
from ...experiment.schedule import schedule
from ..guests import guests
from . import _az, _deploy, _preflight, _prices, _proof, _rehearsal, _script, _teardown, _template
from ._az import Runs
from ._deploy import Clock
from ._existing import existing, proofs_of
from ._failures import AzError
from ._options import Options
from ._pins import pinned
from ._preflight import Preflight
from ._state import State
from ._teardown import Leftover
from ._topology import Topology, alternatives, topology

__all__ = [
    "EPHEMERAL",
    "HOLDS",
    "DryRun",
    "Options",
    "cost",
    "down",
    "down_all",
    "dry_run",
    "existing",
    "leftovers",
    "preflight",
    "proofs_of",
    "up",
]

EPHEMERAL = True
"""`npl run` takes the VMs away after measuring."""
HOLDS = True
"""`npl up` may leave them running: they outlive the process that placed them."""
CLOCK = Clock()
GUEST_WAIT_S = 900.0
Say = Callable[[str], None]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(experiment: Experiment) -> Options:
    from .. import options

    checked: Options = options(experiment)
    return checked


def _runner(options: Options) -> Runs:
    return _az.Az(options.subscription, sleep=CLOCK.sleep)


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What would run."""

    script: str
    """Plain az commands."""
    template: str
    """The ARM template."""
    parameters: str
    """Its parameters, as a parameter file (secrets and keys left out)."""

    def __str__(self) -> str:
        return f"{self.script}\n# --- template.json\n{self.template}\n# --- parameters.json\n{self.parameters}"


def dry_run(experiment: Experiment) -> DryRun:
    """Show what would be made, without asking anybody: plain az commands, the template, its parameters.

    Raises
    ------
    ExperimentError
        The experiment cannot be placed.
    """
    options = _options(experiment)
    place = topology(experiment, options)
    given = _template.parameters(
        place,
        options,
        tags=_tags(experiment, options, dt.datetime.now(dt.UTC)),
        public_key="YOUR_PUBLIC_KEY",
        allow_from=options.allow_from or ("YOUR_ADDRESS/32",),
        host_key=lambda _: ("HOST_PRIVATE_KEY", "HOST_PUBLIC_KEY"),
    )
    group = f"npl-{experiment.name}-d1"
    text = _script.script(given, group=group, location=options.region, hours=options.expires_h)
    return DryRun(script=text, template=_template.template_text(), parameters=json.dumps(given, indent=2) + "\n")


def preflight(experiment: Experiment) -> Preflight:
    """Look at login, subscription, sizes, zones, quota, cost and rounds, and have Azure say what it would make.

    Nothing is made.

    Raises
    ------
    AzureError
        `az` is missing, nobody is logged in, or the subscription is not to be had.
    """
    options = _options(experiment)
    place, az = topology(experiment, options), _runner(options)
    found = _look(experiment, options, place, az)
    if found.problems or found.elsewhere:
        return found
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as state:
        tags = _tags(experiment, options, dt.datetime.now(dt.UTC))
        try:
            changes, remarks = _rehearse(options, place, state, f"npl-{experiment.name[:56]}", found, tags, az)
        except AzError as refusal:
            return replace(found, problems=(str(refusal),))
    return replace(found, changes=changes, warnings=(*found.warnings, *remarks))


def cost(experiment: Experiment, *, measuring_s: float) -> str:
    """Estimate by the public price list what the machines of all deployments cost; nobody needs to be logged in.

    Raises
    ------
    ExperimentError
        The experiment cannot be placed.
    """
    options = _options(experiment)
    place = topology(experiment, options)
    estimate = _prices.cost(place, options, measuring_s=measuring_s, deployments=experiment.deployments)
    said = str(estimate).removeprefix("cost ")
    if experiment.budget is not None and estimate.amount is not None and estimate.amount > experiment.budget:
        said += f"; ABOVE the budget of {experiment.budget:g}"
    return said


def _look(experiment: Experiment, options: Options, place: Topology, az: Runs) -> Preflight:
    planned = schedule(experiment, seed=0)
    noted = Preview(plan=planned).notes()
    if total := sum(sent for sent, _ in traffic(planned).values()):
        noted.append(f"up to {total / 1e9:,.3g} GB of traffic; between zones and regions it is paid for, too")
    return _preflight.look(experiment, options, place, az, measuring_s=duration_s(planned), noted=noted)


def up(experiment: Experiment, *, number: int, state: Path, say: Say = _say) -> Deployment:
    """Place the VMs of deployment `number`, prove where they are, and return them; safe to repeat.

    Raises
    ------
    AzureError
        With cause and remedy. What a failed deployment made is deleted at once; VMs that are made but do not answer
        stay, for a second `up` or for `down`. After an interruption `up` goes on, and `down` takes away what there is.
    """
    options = _options(experiment)
    topology(experiment, options)  # what is declared wrongly is said before az is asked for
    az = _runner(options)
    with _terminable(), State.locked(state) as kept:
        return _up(experiment, options, number, kept, az, say)


def _up(experiment: Experiment, options: Options, number: int, kept: State, az: Runs, say: Say) -> Deployment:
    before = kept.deployment(number)
    if before is not None:
        if _still_there(az, kept, number):
            return before
        kept.forget(number)
    first = kept.last_attempt(number)
    choices = alternatives(options)
    for attempt in range(min(first, len(choices) - 1), len(choices)):
        place = topology(experiment, options, attempt=attempt)
        found = _look(experiment, options, place, az)
        if not kept.made(number, attempt):  # what is half made may go on: its own VMs would count against it
            if found.elsewhere and not found.problems and attempt < len(choices) - 1:
                say(f"{experiment.name}: {found.elsewhere[0]}: trying the next alternative")
                continue
            _preflight.refuse(found, experiment.name)
        group = kept.begin(number, attempt, experiment=experiment.name, subscription=found.subscription)["name"]
        say(f"{group}: {len(place.vms)} VMs in {', '.join(place.regions)}; {found.cost}")
        try:
            outputs = _place(experiment, options, place, kept, group, found, az, say)
        except AzError as failure:
            kept.note(group, given_up=True)
            last = attempt == len(choices) - 1 or failure.kind != "capacity"
            _abandon(az, group, kept, say)
            if last:
                raise
            say(f"{group}: {failure.code}: trying the next alternative")
            continue
        deployment = _deployment(experiment, options, place, kept, group, number, found, outputs, az, say)
        kept.remember(number, deployment)
        return deployment
    raise AssertionError("the last alternative returns or raises")


def _abandon(az: Runs, group: str, kept: State, say: Say) -> None:
    """A failed attempt must not cost money while someone reads the message; `down` verifies that it is gone."""
    if not kept.asked_for(group):
        say(f"{group}: nothing was made")
        kept.gone(group)
        return
    try:
        az("group", "delete", "--name", group, "--yes", "--no-wait")
        say(f"{group}: deleting what was made of it")
    except AzError as failure:
        if failure.kind == "missing":
            kept.gone(group)
        else:
            say(f"{group}: could not be deleted now ({failure.code}): run `npl down`")


def _still_there(az: Runs, kept: State, number: int) -> bool:
    names = [g["name"] for g in kept.groups if g["number"] == number and not g.get("given_up")]
    try:
        return bool(names) and all(
            az("group", "show", "--name", n)["properties"]["provisioningState"] == "Succeeded" for n in names
        )
    except AzError as failure:
        if failure.kind == "missing":
            return False
        raise


def _tags(experiment: Experiment, options: Options, now: dt.datetime) -> dict[str, str]:
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    return {
        **options.tags,
        "netperf-experiment": experiment.name,
        "netperf-created": now.strftime(stamp),
        "netperf-expires": (now + dt.timedelta(hours=options.expires_h)).strftime(stamp),
    }


def _parameters(
    options: Options, place: Topology, kept: State, group: str, found: Preflight, tags: dict[str, str]
) -> Path:
    given = _template.parameters(
        place,
        options,
        tags=tags,
        public_key=kept.public_key(),
        allow_from=found.allow_from,
        host_key=lambda vm: kept.host_key(group, vm),
        shared_key=kept.secret("vpn-key") if any(b for _, b in place.connections) else "",
        rarity=found.rarity,
    )
    return kept.file(f"parameters-{group}.json", json.dumps(given))


def _rehearse(
    options: Options, place: Topology, kept: State, group: str, found: Preflight, tags: dict[str, str], az: Runs
) -> tuple[tuple[_rehearsal.Change, ...], tuple[str, ...]]:
    parameters = _parameters(options, place, kept, group, found, tags)
    template = kept.file("rehearsal.json", _template.rehearsal_text(group, options.region, tags))
    return _rehearsal.rehearse(az, group, options.region, template, parameters)


def _place(
    experiment: Experiment,
    options: Options,
    place: Topology,
    kept: State,
    group: str,
    found: Preflight,
    az: Runs,
    say: Say,
) -> dict[str, Any]:
    record = next(g for g in kept.groups if g["name"] == group)
    tags = record.get("tags") or _tags(experiment, options, dt.datetime.now(dt.UTC))
    if not record["made"]:
        changes, remarks = _rehearse(options, place, kept, group, found, tags, az)
        say(f"{group}: Azure finds it valid, and would {_rehearsal.in_words(changes)}")
        for remark in remarks:
            say(f"{group}: {remark}")
    kept.note(group, tags=tags)
    _deploy.make_group(az, group, options.region, tags)
    kept.note(group, made=True)
    template = kept.file("template.json", _template.template_text())
    parameters = _parameters(options, place, kept, group, found, tags)
    minutes = options.deadline_min or (90 if place.gateways else 30)
    return _deploy.deploy(az, group, template, parameters, deadline_s=minutes * 60, clock=CLOCK, say=say)


def _deployment(
    experiment: Experiment,
    options: Options,
    place: Topology,
    kept: State,
    group: str,
    number: int,
    found: Preflight,
    outputs: dict[str, Any],
    az: Runs,
    say: Say,
) -> Deployment:
    addresses = {a["name"]: a for a in outputs["addresses"]}
    fronts = {f["name"]: f["private"] for f in outputs["fronts"]}
    reach = {n: a["public"] or a["private"] for n, a in addresses.items()}
    known = kept.known_hosts(group, reach)
    public = {s for _, s in place.public_pairs}
    hosts = tuple(
        Host(
            name=v.name,
            address=reach[v.name],
            data_address=fronts.get(f"lb-{v.name}") or addresses[v.name]["public" if v.name in public else "private"],
            user=options.user,
            identity=str(kept.identity.resolve()),
            known_hosts=str(known.resolve()),
            owned=True,
        )
        for v in place.vms
    )
    say(f"{group}: asking the cloud and the guests for proof")
    observed = _proof.observe(az, group)
    links = _proof.joined(az, group, place, clock=CLOCK, wait_s=300)
    facts = guests(hosts, marker=group, wait_s=GUEST_WAIT_S)
    unreachable = [f for f in facts.values() if isinstance(f, str)]
    if len(unreachable) == len(hosts):
        raise AzureError(
            f"{group}: the VMs are made, but none can be reached: {unreachable[0]} (port 22 is open to "
            f"{', '.join(found.allow_from)}); run `npl up` again, or `npl down`"
        )
    hosts = _proof.proven(place, observed, hosts, facts, found.physical_zones, options.bandwidth_mbps, pinned(options))
    for host in hosts:
        for proof in host.proofs:
            if not proof.holds:
                verdict = "NOT TRUE" if proof.holds is False else "not proven"
                say(f"{host.name}: {verdict}: {proof.claim} ({proof.evidence})")
    every = [p for h in hosts for p in h.proofs] + list(links)
    say(f"{group}: {sum(p.holds is True for p in every)} of {len(every)} claims are proven")
    return Deployment(
        deployment_id=group,
        source="azure",
        hosts=hosts,
        created_utc=next(g for g in kept.groups if g["name"] == group)["tags"]["netperf-created"],
        proofs=links,
    )


def down(experiment: Experiment, *, state: Path, say: Say = _say) -> None:
    """Delete every resource group that was or may have been made, verify that they are gone, remove the keys.

    Raises
    ------
    AzureError
        What is left, and why; repeat it.
    """
    if not (state / "azure.json").exists():
        return
    with _terminable(), State.locked(state) as kept:
        if kept.groups:
            az = _az.Az(kept.data.get("subscription"), sleep=CLOCK.sleep)
            names = [g["name"] for g in kept.groups if kept.asked_for(g["name"])]
            uncertain = [g["name"] for g in kept.groups if not g["made"]]
            for name in _teardown.remove(az, names, uncertain=uncertain, clock=CLOCK, say=say):
                kept.gone(name)
        kept.clear()


def leftovers(*, expired: bool = False, subscription: str | None = None) -> list[Leftover]:
    """Resource groups with this project's tag, of whatever experiment and whoever made them.

    Parameters
    ----------
    expired : bool
        Only those whose time is over.
    subscription : str, optional
        Name or id; None: the selected one.
    """
    now = dt.datetime.now(dt.UTC)
    return [g for g in _teardown.leftovers(_az.Az(subscription, sleep=CLOCK.sleep)) if not expired or g.expired(now)]


def down_all(found: Iterable[Leftover], *, subscription: str | None = None, say: Say = _say) -> None:
    """Delete what `leftovers` found in the same subscription, and verify that it is gone.

    Raises
    ------
    AzureError
        What is left, and why; repeat it.
    """
    with _terminable():
        _teardown.remove(_az.Az(subscription, sleep=CLOCK.sleep), [g.group for g in found], clock=CLOCK, say=say)


@contextmanager
def _terminable() -> Iterator[None]:
    """A polite kill unwinds like Ctrl-C: az is ended, the record is complete, the lock is free."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(*_: Any) -> None:
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
