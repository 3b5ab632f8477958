"""VMs in Azure: placed by a template, proven, and taken away again, through the command line `az`.

A deployment has a resource group of its own, so that deleting the group removes all of it; in an existing group, what
carries its tag is removed. What is about to be made is on disk before it is made; an interrupted `up` or `down` is
simply repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import shlex
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
from ...experiment.model import Deployment, Experiment, Host, Proof
from ..guests import guests, paths
from ..source import Workload
from . import access, checks, groups, prices, proof, template
from . import az as az_module
from .az import Runs
from .checks import Preflight
from .failures import AzError
from .groups import Clock, Leftover, Target
from .options import Options
from .proof import existing, proofs_of
from .state import State
from .topology import Topology, alternatives, topology

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
    "spent",
    "up",
]

EPHEMERAL = True
"""`npl run` takes the VMs away after measuring."""
HOLDS = True
"""`npl up` may leave them running: they outlive the process that placed them."""
CLOCK = Clock()
GUEST_WAIT_S = 900.0
Say = Callable[[str], None]
NOTHING_KNOWN = Workload()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _options(experiment: Experiment) -> Options:
    from .. import options

    checked: Options = options(experiment)
    return checked


def _runner(options: Options) -> Runs:
    return az_module.Az(options.subscription, sleep=CLOCK.sleep)


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """What `up` would run."""

    commands: str
    """The az commands that make something, in their order, and those by which Azure is asked before."""
    template: str
    """The ARM template."""
    parameters: str
    """Its parameters, as a parameter file (secrets and keys left out)."""

    def __str__(self) -> str:
        return f"{self.commands}# --- template.json\n{self.template}\n# --- parameters.json\n{self.parameters}"


def dry_run(experiment: Experiment) -> DryRun:
    """Show what `up` would run, without asking anybody: its az commands, the template, the parameters.

    Raises
    ------
    ExperimentError
        The experiment cannot be placed.
    """
    options = _options(experiment)
    place = topology(experiment, options)
    target = Target(name=f"npl-{experiment.name[:40]}-MARK-d1", shared=options.resource_group or "")
    now = dt.datetime.now(dt.UTC)
    tags = _tags(experiment, options, target, now)
    given = template.parameters(
        place,
        options,
        tags=tags,
        public_key="YOUR_PUBLIC_KEY",
        allow_from=options.allow_from or ("YOUR_ADDRESS/32",),
        host_key=lambda _: ("HOST_PRIVATE_KEY", "HOST_PUBLIC_KEY"),
        prefix="npl-MARK-d1-" if target.shared else "",
        plan=bool(options.plan),
        shutdown_at=_shutdown_at(options, tags),
    )
    before = "template.json" if target.shared else "template-with-group.json"
    commands = [
        groups.rehearsal_command(verb, target, options.region, before, "parameters.json")
        for verb in ("validate", "what-if")
    ]
    commands += [] if target.shared else [groups.group_command(target.group, options.region, tags)]
    commands += [groups.deploy_command(target, "template.json", "parameters.json")]
    prefix = "npl-MARK-d1-" if target.shared else ""
    there = options.subscription or "SUBSCRIPTION"
    commands += [c for n in place.networks for c in access.hub_commands(target, n, prefix, options, there)]
    more = ("--subscription", options.subscription) if options.subscription else ()
    return DryRun(
        commands="".join(f"az {shlex.join((*c, *(() if '--subscription' in c else more)))}\n" for c in commands),
        template=template.template_text(),
        parameters=json.dumps(given, indent=2) + "\n",
    )


def preflight(experiment: Experiment, *, workload: Workload = NOTHING_KNOWN) -> Preflight:
    """Look at login, subscription, sizes, zones, quota, cost and rounds, and have Azure say what it would make.

    Nothing is made.

    Raises
    ------
    AzureError
        `az` is missing, nobody is logged in, or the subscription is not accessible.
    """
    options = _options(experiment)
    place, az = topology(experiment, options), _runner(options)
    found = _look(experiment, options, place, az, workload)
    if found.problems or found.elsewhere:
        return found
    place = place.unzoned(found.unzoned)
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as kept:
        record = kept.begin(
            1, 0, experiment=experiment.name, subscription=found.subscription, shared=options.resource_group
        )
        tags = _tags(experiment, options, kept.target(record), dt.datetime.now(dt.UTC))
        try:
            changes, remarks = _rehearse(options, place, kept, record, found, tags, az)
        except AzError as refusal:
            return replace(found, problems=(str(refusal),))
    return replace(found, changes=changes, warnings=(*found.warnings, *remarks))


def _estimate(experiment: Experiment, options: Options, place: Topology, workload: Workload) -> prices.Cost:
    return prices.cost(
        place,
        options,
        measuring_s=workload.measuring_s,
        deployments=experiment.deployments,
        traffic=workload.traffic,
    )


def cost(experiment: Experiment, *, workload: Workload) -> str:
    """Estimate by the public price list what all deployments cost; nobody needs to be logged in.

    Raises
    ------
    ExperimentError
        The experiment cannot be placed.
    """
    options = _options(experiment)
    estimate = _estimate(experiment, options, topology(experiment, options), workload)
    text = str(estimate).removeprefix("cost ")
    if experiment.budget is not None and estimate.amount is not None and estimate.amount > experiment.budget:
        text += f"; ABOVE the budget of {experiment.budget:g}"
    return text


def spent(experiment: Experiment, *, state: Path, done: float) -> float | None:
    """What the VMs of this experiment have cost until now; asks nobody. See `Source.spent`."""
    return State(state).spent(dt.datetime.now(dt.UTC), done=done)


def _look(experiment: Experiment, options: Options, place: Topology, az: Runs, workload: Workload) -> Preflight:
    noted = list(workload.notes)
    if total := sum(n for n, _ in workload.traffic.values()):
        noted.append(f"up to {total / 1e9:,.0f} GB of traffic")
    return checks.look(
        experiment,
        options,
        place,
        az,
        estimate=_estimate(experiment, options, place, workload),
        measuring_s=workload.measuring_s,
        noted=noted,
    )


def up(
    experiment: Experiment, *, number: int, state: Path, workload: Workload = NOTHING_KNOWN, say: Say = _say
) -> Deployment:
    """Place the VMs of deployment `number`, prove where they are, and return them; safe to repeat.

    What was added to the experiment since is added to a deployment that is up.

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
        return _up(experiment, options, number, kept, az, workload, say)


def _up(
    experiment: Experiment,
    options: Options,
    number: int,
    kept: State,
    az: Runs,
    workload: Workload,
    say: Say,
) -> Deployment:
    first = kept.last_attempt(number)
    choices = alternatives(options)
    before = kept.deployment(number)
    if before is not None:
        if not _still_there(az, kept, number):
            kept.forget(number)
        elif _same(kept, number, topology(experiment, options, attempt=min(first, len(choices) - 1))):
            _let_caller_in(options, kept, number, az, say)
            return before
    for attempt in range(min(first, len(choices) - 1), len(choices)):
        place = topology(experiment, options, attempt=attempt)
        found = _look(experiment, options, place, az, workload)
        if not kept.made(number, attempt):  # what is half made may go on: its own VMs would count against it
            if found.elsewhere and not found.problems and attempt < len(choices) - 1:
                say(f"{experiment.name}: {found.elsewhere[0]}: trying the next alternative")
                continue
            checks.refuse(found, experiment.name)
        record = kept.begin(
            number,
            attempt,
            experiment=experiment.name,
            subscription=found.subscription,
            shared=options.resource_group,
        )
        name = record["name"]
        kept.priced(found.cost)
        say(f"{name}: {len(place.vms)} VMs in {', '.join(place.regions)}; {found.cost}")
        made_of, place = place.parts(), place.unzoned(found.unzoned)
        try:
            outputs = _place(experiment, options, place, kept, record, found, az, say)
        except AzError as failure:
            if before is not None and kept.deployment(number) is not None:
                raise  # what was up before stays up
            kept.note(name, given_up=True)
            last = attempt == len(choices) - 1 or failure.kind != "capacity"
            _abandon(az, kept, record, say)
            if last:
                raise
            say(f"{name}: {failure.code}: trying the next alternative")
            continue
        deployment = _deployment(options, place, kept, record, found, outputs, az, say)
        kept.remember(number, deployment, made_of)
        return deployment
    raise AssertionError("the last alternative returns or raises")


def _same(kept: State, number: int, place: Topology) -> bool:
    """Whether what is up is what is asked for; False: something is to be added.

    Raises
    ------
    AzureError
        Something that is up would have to change.
    """
    there, wanted = kept.parts(number), place.parts()
    # removed pairs leave their VMs idle; one that is asked for otherwise than it stands cannot be changed in place
    names = {kind: {_name_of(p): p for p in parts} for kind, parts in there.items()}
    changed = [
        _name_of(part)
        for kind, parts in wanted.items()
        for part in parts
        if _name_of(part) in names.get(kind, {}) and names[kind][_name_of(part)] != part
    ]
    if changed:
        raise AzureError(
            f"the declaration of {', '.join(dict.fromkeys(changed))} changed since deployment {number} was placed: "
            "run `npl down`, then `npl up`"
        )
    return all(set(parts) <= set(there.get(kind, ())) for kind, parts in wanted.items())


def _name_of(part: str) -> str:
    document = json.loads(part)
    return str(document["name"]) if isinstance(document, dict) else part


def _let_caller_in(options: Options, kept: State, number: int, az: Runs, say: Say) -> None:
    """The address of this machine may have changed since: port 22 follows it."""
    record = next(g for g in kept.groups if g["number"] == number and not g.get("given_up"))
    allow_from = list(checks.callers(options, checks.Findings()))
    if not allow_from or allow_from == record.get("allow_from", allow_from):
        return
    for name in record.get("security_groups", ()):
        az(
            *("network", "nsg", "rule", "update", "--resource-group", kept.target(record).group, "--nsg-name", name),
            *("--name", "ssh-from-caller", "--source-address-prefixes", *allow_from),
        )
    kept.note(record["name"], allow_from=allow_from)
    say(f"{record['name']}: port 22 is open to {', '.join(allow_from)} now")


def _abandon(az: Runs, kept: State, record: dict[str, Any], say: Say) -> None:
    """A failed attempt must not cost money while someone reads the message; `down` verifies that it is gone."""
    name, target = record["name"], kept.target(record)
    if not kept.asked_for(name):
        say(f"{name}: nothing was made")
        kept.gone(name)
        return
    try:
        if target.shared:
            groups.remove(az, [target], clock=CLOCK, say=say, gone=lambda t: kept.gone(t.name))
            return
        az("group", "delete", "--name", target.group, "--yes", "--no-wait")
        say(f"{name}: deleting what was made of it")
    except AzError as failure:
        if failure.kind == "missing":
            kept.gone(name)
        else:
            say(f"{name}: could not be deleted now ({failure.code}): run `npl down`")
    except AzureError as failure:
        say(f"{name}: {failure}")


def _still_there(az: Runs, kept: State, number: int) -> bool:
    """Whether the deployment is up.

    Raises
    ------
    AzureError
        Its VMs are stopped: Azure may start them anywhere, so that what was proven of them does not hold any more.
    """
    records = [g for g in kept.groups if g["number"] == number and not g.get("given_up")]
    if not records:
        return False
    try:
        for record in records:
            group = kept.target(record).group
            if az("group", "show", "--name", group)["properties"]["provisioningState"] != "Succeeded":
                return False
            vms = {
                vm["name"]: vm.get("powerState")
                for vm in az("vm", "list", "--resource-group", group, "--show-details") or ()
            }
            wanted = record.get("vms", ())
            if not set(wanted) <= set(vms):
                return False
            stopped = [f"{n} ({vms[n]})" for n in wanted if vms[n] not in (None, "VM running")]
            if stopped:
                raise AzureError(
                    f"{record['name']} is stopped: {', '.join(stopped)}. Started again they may stand elsewhere: run "
                    "`npl down`, then `npl up`"
                )
    except AzError as failure:
        if failure.kind == "missing":
            return False
        raise
    return True


def _tags(experiment: Experiment, options: Options, target: Target, now: dt.datetime) -> dict[str, str]:
    stamp = "%Y-%m-%dT%H:%M:%SZ"
    return {
        **options.tags,
        "netperf-experiment": experiment.name,
        groups.TAG: target.name,
        "netperf-created": now.strftime(stamp),
        "netperf-expires": (now + dt.timedelta(hours=options.expires_h)).strftime(stamp),
    }


def _shutdown_at(options: Options, tags: dict[str, str]) -> str:
    return tags["netperf-expires"][11:16].replace(":", "") if options.shutdown else ""


def _parameters(
    options: Options,
    place: Topology,
    kept: State,
    record: dict[str, Any],
    found: Preflight,
    tags: dict[str, str],
) -> Path:
    name = record["name"]
    given = template.parameters(
        place,
        options,
        tags=tags,
        public_key=kept.public_key(),
        allow_from=found.allow_from,
        host_key=lambda vm: kept.host_key(name, vm),
        shared_key=kept.secret("vpn-key") if any(b for _, b in place.connections) else "",
        rarity=found.rarity,
        prefix=record.get("prefix", ""),
        plan=found.plan,
        shutdown_at=_shutdown_at(options, tags),
    )
    return kept.file(f"parameters-{name}.json", json.dumps(given))


def _rehearse(
    options: Options,
    place: Topology,
    kept: State,
    record: dict[str, Any],
    found: Preflight,
    tags: dict[str, str],
    az: Runs,
) -> tuple[tuple[groups.Change, ...], tuple[str, ...]]:
    target = kept.target(record)
    parameters = _parameters(options, place, kept, record, found, tags)
    text = template.template_text() if target.shared else template.rehearsal_text(target.group, options.region, tags)
    return groups.rehearse(az, target, options.region, kept.file("rehearsal.json", text), parameters)


def _place(
    experiment: Experiment,
    options: Options,
    place: Topology,
    kept: State,
    record: dict[str, Any],
    found: Preflight,
    az: Runs,
    say: Say,
) -> dict[str, Any]:
    name, target, prefix = record["name"], kept.target(record), record.get("prefix", "")
    tags = record.get("tags") or _tags(experiment, options, target, dt.datetime.now(dt.UTC))
    if not record["made"]:
        changes, remarks = _rehearse(options, place, kept, record, found, tags, az)
        if theirs := [c.name for c in changes if target.shared and c.change in ("Modify", "Delete")]:
            raise AzError(
                f"{name}: would change {', '.join(theirs)} in resource group {target.shared}, which are not ours",
                code="NotOurs",
                kind="conflict",
            )
        say(f"{name}: Azure finds it valid, and would {groups.in_words(changes)}")
        for remark in remarks:
            say(f"{name}: {remark}")
    kept.note(
        name,
        tags=tags,
        hub_peerings=[
            f"{options.hub}/virtualNetworkPeerings/{access.hub_peering(target, n)}"
            for n in place.networks
            if options.hub and n.prefix
        ],
        vms=[prefix + v.name for v in place.vms],
        security_groups=[f"nsg-{prefix}{n.name}" for n in place.networks],
        allow_from=list(found.allow_from),
    )
    groups.make_group(az, target, options.region, tags)
    kept.note(name, made=True)
    text = kept.file("template.json", template.template_text())
    parameters = _parameters(options, place, kept, record, found, tags)
    minutes = options.deadline_min or (90 if place.gateways else 30)
    outputs = groups.deploy(az, target, text, parameters, deadline_s=minutes * 60, clock=CLOCK, say=say)
    for network in place.networks:
        for command in access.hub_commands(target, network, prefix, options, found.subscription):
            az(*command)
    return outputs


def _deployment(
    options: Options,
    place: Topology,
    kept: State,
    record: dict[str, Any],
    found: Preflight,
    outputs: dict[str, Any],
    az: Runs,
    say: Say,
) -> Deployment:
    name, target, prefix = record["name"], kept.target(record), record.get("prefix", "")
    addresses = {a["name"].removeprefix(prefix): a for a in outputs["addresses"]}
    fronts = {f["name"].removeprefix(f"lb-{prefix}"): f["private"] for f in outputs["fronts"]}
    reach = {n: a["public"] or a["private"] for n, a in addresses.items()}
    known = kept.known_hosts(name, reach)
    public = {s for _, s in place.public_pairs}
    say(f"{name}: asking the cloud and the guests for proof")
    observed = proof.observe(az, target.group, prefix)
    config = access.ssh_config(options, kept, name, {reach[n]: vm.id for n, vm in observed.vms.items()})
    hosts = tuple(
        Host(
            name=v.name,
            address=reach[v.name],
            data_address=fronts.get(v.name) or addresses[v.name]["public" if v.name in public else "private"],
            user=options.user,
            identity=str(kept.identity.resolve()),
            known_hosts=str(known.resolve()),
            ssh_config=config,
            owned=True,
        )
        for v in place.vms
    )
    links = proof.joined(az, target.group, place, prefix, clock=CLOCK, wait_s=300)
    links += tuple(
        Proof(claim=f"gateway of {g.network} ({g.kind})", holds=True, evidence=f"SKU {g.sku}") for g in place.gateways
    )
    facts = guests(hosts, marker=name, wait_s=GUEST_WAIT_S)
    unreachable = [f for f in facts.values() if isinstance(f, str)]
    if len(unreachable) == len(hosts):
        raise AzureError(
            f"{name}: the VMs are made, but none can be reached: {unreachable[0]} (port 22 is open to "
            f"{', '.join(found.allow_from)}); run `npl up` again, or `npl down`"
        )
    hosts = proof.proven(place, observed, hosts, facts, found.physical_zones, options.bandwidth_mbps, options.pinned())
    reached = [h for h in hosts if not isinstance(facts[h.name], str)]
    links += proof.routes(az, target.group, place, hosts, prefix)
    links += proof.path_proofs(place, paths(tuple(reached), tuple(place.paths), marker=name))
    for host in hosts:
        for claim in host.proofs:
            if not claim.holds:
                verdict = "NOT TRUE" if claim.holds is False else "not proven"
                say(f"{host.name}: {verdict}: {claim.claim} ({claim.evidence})")
    every = [p for h in hosts for p in h.proofs] + list(links)
    say(f"{name}: {sum(p.holds is True for p in every)} of {len(every)} claims are proven")
    created = next(g for g in kept.groups if g["name"] == name)["tags"]["netperf-created"]
    return Deployment(deployment_id=name, source="azure", hosts=hosts, created_utc=created, proofs=links)


def down(experiment: Experiment, *, state: Path, number: int | None = None, say: Say = _say) -> None:
    """Delete all that was or may have been made, of one deployment or of all, and verify that it is gone.

    The keys are removed with the last of them.

    Raises
    ------
    AzureError
        What is left, and why; repeat it.
    """
    if not (state / "azure.json").exists():
        return
    with _terminable(), State.locked(state) as kept:
        chosen = [g for g in kept.groups if number in (None, g["number"])]
        if chosen:
            az = az_module.Az(kept.data.get("subscription"), sleep=CLOCK.sleep)
            for record in chosen:
                if not kept.asked_for(record["name"]):
                    kept.gone(record["name"])
            asked = [g for g in chosen if kept.asked_for(g["name"])]
            access.leave_hub(az, asked, kept)
            groups.remove(
                az,
                [kept.target(g) for g in asked],
                uncertain=[kept.target(g) for g in asked if not g["made"]],
                clock=CLOCK,
                say=say,
                gone=lambda target: kept.gone(target.name),
            )
        if not kept.groups:
            kept.clear()


def leftovers(*, expired: bool = False, subscription: str | None = None) -> list[Leftover]:
    """Deployments with this project's tag, of whatever experiment and whoever made them.

    Parameters
    ----------
    expired : bool
        Only those whose time is over.
    subscription : str, optional
        Name or id; None: the selected one.
    """
    now = dt.datetime.now(dt.UTC)
    az = az_module.Az(subscription, sleep=CLOCK.sleep)
    return [g for g in groups.leftovers(az) if not expired or g.expired(now)]


def down_all(found: Iterable[Leftover], *, subscription: str | None = None, say: Say = _say) -> None:
    """Delete what `leftovers` found in the same subscription, and verify that it is gone.

    Raises
    ------
    AzureError
        What is left, and why; repeat it.
    """
    with _terminable():
        az = az_module.Az(subscription, sleep=CLOCK.sleep)
        groups.remove(az, [g.target for g in found], clock=CLOCK, say=say)


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
