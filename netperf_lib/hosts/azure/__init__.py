"""VMs in Azure: placed by a template, proven, and removed again, through the command line `az`.

A deployment has a resource group of its own, so that deleting the group removes all of it; in an existing group, the
resources with its tag are removed. Everything is recorded on disk before it is created; an interrupted `up` or `down`
is simply repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import AzureError
from ...experiment.model import Deployment, Experiment, Host
from ..guests import guests, paths
from ..source import NOTHING_KNOWN, Price, Say, Workload, read_options, say_aloud, say_doubts
from . import access, checks, groups, proof, template
from . import az as az_module
from .az import Clock, Runs, find
from .checks import Preflight
from .failures import AzError
from .groups import Leftover
from .options import Options as Options
from .proof import cloud_proofs as cloud_proofs
from .proof import existing as existing
from .proof import facts_of as facts_of
from .state import State
from .topology import Topology, alternatives, in_words, topology

EPHEMERAL = True
"""`npl run` removes the VMs after measuring."""
HOLDS = True
"""`npl up` may leave the VMs running: they outlive the process that placed them."""
CLOCK = Clock()
AGAIN_S = (30.0, 100.0, 300.0)
"""Seconds before a deployment that met a passing conflict is started again."""
GUEST_WAIT_S = 900.0


def _proposal(
    experiment: Experiment, workload: Workload = NOTHING_KNOWN, *, attempt: int = 0
) -> Preflight:
    options = read_options(experiment, Options)
    declared = topology(experiment, options, attempt=attempt)
    return Preflight(experiment=experiment, options=options, declared=declared, workload=workload)


def _runner(subscription: str | None) -> Runs:
    return az_module.Az(subscription, sleep=CLOCK.sleep)


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Estimate the cost of all deployments from the public price list; no login is needed."""
    estimate = _proposal(experiment, workload).cost
    text = str(estimate).removeprefix("cost ")
    if (
        experiment.budget is not None
        and estimate.amount is not None
        and estimate.amount > experiment.budget
    ):
        text += f"; ABOVE the budget of {experiment.budget:g}"
    return Price(text, estimate.parts(), estimate.amount, estimate.currency)


def spent(*, state: Path, done: float) -> float | None:
    """Cost of the VMs of this experiment so far, from local records only. See `Source.spent`."""
    return State(state).spent(dt.datetime.now(dt.UTC), done=done)


def _rehearse(az: Runs, findings: Preflight) -> str:
    """What Azure says it would create; nothing is kept of it."""
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as store:
        findings.changes, remarks = _Attempt(findings, store, az).rehearse()
        findings.warnings += remarks
        return f"Azure finds it valid, and would {groups.in_words(findings.changes)}"


def examine(
    experiment: Experiment, *, workload: Workload = NOTHING_KNOWN
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order) for all that can be known beforehand.

    Nothing is created. AzureError if `az` is missing, nobody is logged in, or the subscription is not accessible.
    """
    findings = _proposal(experiment, workload)
    return checks.examine(findings, _runner(findings.options.subscription), rehearse=_rehearse)


class _WithoutKeys(State):
    """A state with placeholders for the real names and keys."""

    def _key(self, path: Path) -> tuple[str, str]:
        return "PRIVATE_KEY", "PUBLIC_KEY"

    def secret(self, name: str) -> str:
        return "SECRET"


def dry_run(experiment: Experiment) -> dict[str, str]:
    """What `up` would run, without asking anybody: az commands, template, parameters (without keys), all in words."""
    findings = _proposal(experiment)
    options = findings.options
    commands = []
    more = ("--subscription", options.subscription) if options.subscription else ()

    def az(*arguments: str) -> Any:
        """Note the command, and answer as if it succeeded at once."""
        if {"create", "update", "validate", "what-if"} & set(arguments[:4]):
            text = shlex.join((*arguments, *(() if "--subscription" in arguments else more)))
            commands.append(f"az {text.replace(f'{store.files}/', '')}\n")
        return {"properties": {"provisioningState": "Succeeded"}}

    findings.subscription = options.subscription or "SUBSCRIPTION"
    findings.allow_from = (
        checks.callers(options, []) if options.allow_from else ("YOUR_ADDRESS/32",)
    )
    findings.plan = bool(options.plan)
    with tempfile.TemporaryDirectory() as folder, _WithoutKeys.locked(Path(folder)) as store:
        store.data.mark = "MARK"
        attempt = _Attempt(findings, store, az)
        attempt.create()
        return {
            "commands": "".join(commands),
            "template.json": template.template_text(),
            "parameters.json": json.dumps(attempt.parameters(), indent=2),
            "in words": in_words(findings.declared, options.expires_h),
        }


def up(
    experiment: Experiment,
    *,
    number: int,
    state: Path,
    workload: Workload = NOTHING_KNOWN,
    say: Say = say_aloud,
) -> Deployment:
    """Place the VMs of deployment `number`, prove where they are, and return them; safe to repeat.

    Additions to the experiment are added to a deployment that is up. What a failed deployment created is deleted at
    once; VMs that were created but do not answer stay, for a second `up` or for `down`. After an interruption `up`
    resumes, and `down` removes what there is.
    """
    options = _proposal(
        experiment
    ).options  # errors in the declaration are reported before az is needed
    choices = range(len(alternatives(options)))
    az = _runner(options.subscription)
    with State.locked(state) as store:
        first = min(max((r.attempt for r in store.open(number)), default=0), choices[-1])
        before = store.data.deployments.get(number)
        if before is not None:
            recorded_az = _runner(store.data.subscription)  # whatever is selected now
            if not _still_there(recorded_az, store, number):
                store.forget(number)
            elif _same(store, number, topology(experiment, options, attempt=first)):
                _let_caller_in(options, store, number, recorded_az, say)
                return before
        for choice in choices[first:]:
            findings = _proposal(experiment, workload, attempt=choice)
            list(checks.examine(findings, az))  # which adds what it finds
            # a partial deployment may resume: its own VMs would count against it
            if not any(
                r.made for r in store.data.groups if (r.number, r.attempt) == (number, choice)
            ):
                if findings.elsewhere and not findings.problems and choice < choices[-1]:
                    say(
                        f"{experiment.name}: trying the next alternative, since {findings.elsewhere[0]}"
                    )
                    continue
                if problems := [*findings.problems, *findings.elsewhere]:
                    raise AzureError(
                        f"{experiment.name}: nothing was created, because {'; '.join(problems)}"
                    )
            attempt = _Attempt(findings, store, az, number, choice, say)
            store.priced(findings.cost)
            declared = findings.declared
            say(
                f"{attempt.record.name}: {len(declared.vms)} VMs in {', '.join(declared.regions)}; {findings.cost}"
            )
            try:
                outputs = attempt.create()
            except AzError as failure:
                if before is not None and number in store.data.deployments:
                    raise  # a deployment that was already up stays up
                attempt.end(failure)
                if choice == choices[-1] or failure.deed != "alternative":
                    raise
                say(f"{attempt.record.name}: {failure.code}: trying the next alternative")
                continue
            deployment = attempt.proven(outputs)
            store.remember(number, deployment, declared.parts())
            return deployment
    raise AssertionError("the last alternative returns or raises")


def _same(store: State, number: int, topology: Topology) -> bool:
    """Whether everything declared is up; AzureError if some of it would have to change."""
    placed, requested = store.data.parts.get(number, {}), topology.parts()
    # removed pairs leave their VMs idle; a VM whose declaration changed cannot be changed in place
    if changed := [name for name, part in requested.items() if placed.get(name, part) != part]:
        names = dict.fromkeys(name.partition(" ")[2] for name in changed)
        raise AzureError(
            f"the declaration of {', '.join(names)} changed since deployment {number} was placed: "
            "run `npl down`, then `npl up`"
        )
    return requested.keys() <= placed.keys()


def _let_caller_in(options: Options, store: State, number: int, az: Runs, say: Say) -> None:
    """Update the rule for port 22 if the address of this machine has changed."""
    record = store.open(number)[0]
    allow_from = list(checks.callers(options, []))
    if not allow_from or allow_from == record.allow_from:
        return
    for kind, _, network in (part.partition(" ") for part in store.data.parts[number]):
        if kind == "Network":
            name = f"nsg-{record.prefix}{network}"
            az(
                *(
                    "network",
                    "nsg",
                    "rule",
                    "update",
                    "--resource-group",
                    record.group,
                    "--nsg-name",
                    name,
                ),
                *("--name", "ssh-from-caller", "--source-address-prefixes", *allow_from),
            )
    store.note(record, allow_from=allow_from)
    say(f"{record.name}: port 22 is now open to {', '.join(allow_from)}")


def _still_there(az: Runs, store: State, number: int) -> bool:
    """Whether the deployment is up.

    AzureError if its VMs are stopped: Azure may start them anywhere, so what was proven about them no longer holds.
    """
    for record in store.open(number):
        if groups.state_of(az, record) != "Succeeded":
            return False
        listed = find(az, "vm", "list", "--resource-group", record.group, "--show-details") or ()
        power = {vm["name"].removeprefix(record.prefix): vm.get("powerState") for vm in listed}
        names = [host.name for host in store.data.deployments[number].hosts]
        if not set(names) <= set(power):
            return False
        if stopped := [f"{n} ({power[n]})" for n in names if power[n] not in (None, "VM running")]:
            raise AzureError(
                f"{record.name} is stopped: {', '.join(stopped)}. A restart may place them elsewhere: run "
                "`npl down`, then `npl up`"
            )
    return bool(store.open(number))


@dataclass
class _Attempt:
    """One way to place one deployment; recorded on disk before anything is created."""

    findings: Preflight
    store: State
    az: Runs
    number: int = 1
    choice: int = 0
    say: Say = lambda _: None

    def __post_init__(self) -> None:
        name, self.options = self.findings.experiment.name, self.findings.options
        shared = self.options.resource_group
        self.topology = self.findings.topology
        self.record = self.store.begin(
            self.number, self.choice, name, self.findings.subscription, shared
        )
        now, stamp = dt.datetime.now(dt.UTC), "%Y-%m-%dT%H:%M:%SZ"
        self.tags = self.record.tags or {
            **self.options.tags,
            "netperf-experiment": name,
            groups.TAG: self.record.name,
            "netperf-created": now.strftime(stamp),
            "netperf-expires": (now + dt.timedelta(hours=self.options.expires_h)).strftime(stamp),
        }

    def parameters(self) -> dict[str, Any]:
        """Parameters of the template."""
        return template.parameters(
            self.topology,
            self.options,
            tags=self.tags,
            public_key=self.store.public_key(),
            allow_from=self.findings.allow_from,
            host_key=lambda vm: self.store.host_key(self.record.name, vm),
            shared_key=self.store.secret("vpn-key")
            if any(b for _, b in self.topology.connections)
            else "",
            rarity=self.findings.rarity,
            prefix=self.record.prefix,
            plan=self.findings.plan,
        )

    def rehearse(self) -> tuple[tuple[groups.Change, ...], tuple[str, ...]]:
        """What Azure says it would create, and what it could not check."""
        record, region = self.record, self.options.region
        text = template.template_text()
        if not record.shared:
            text = template.rehearsal_text(record.group, region, self.tags)
        files = self.store.file("template-to-check.json", text), self._parameter_file()
        return groups.rehearse(self.az, record, region, *files)

    def _parameter_file(self) -> Path:
        return self.store.file("parameters.json", json.dumps(self.parameters()))

    def create(self) -> dict[str, Any]:
        """Create everything; return the outputs of the template."""
        az, store, options, record, topology = (
            self.az,
            self.store,
            self.options,
            self.record,
            self.topology,
        )
        name = record.name
        if not self.record.made:
            changes, remarks = self.rehearse()
            if theirs := [
                c.name for c in changes if record.shared and c.change in ("Modify", "Delete")
            ]:
                raise AzError(
                    f"{name}: would change {', '.join(theirs)} in resource group {record.shared}, "
                    "which belong to others",
                    code="NotOurs",
                    kind="conflict",
                )
            for remark in (f"Azure finds it valid, and would {groups.in_words(changes)}", *remarks):
                self.say(f"{name}: {remark}")
        store.note(
            record,
            given_up=False,
            tags=self.tags,
            hub_peerings=[
                f"{topology.hub}/virtualNetworkPeerings/{name}-{n}" for n in topology.joining_hub
            ],
            allow_from=list(self.findings.allow_from),
        )
        if not record.shared:
            tags = (f"{k}={v}" for k, v in self.tags.items())
            az(
                "group",
                "create",
                "--name",
                record.group,
                "--location",
                options.region,
                "--tags",
                *tags,
            )
        store.note(record, made=True)
        files = store.file("template.json", template.template_text()), self._parameter_file()
        deadline_s = 60 * (options.deadline_min or (90 if topology.gateways else 30))
        outputs = self._deploy(files, deadline_s)
        access.join_hub(az, record, topology, options, self.findings.subscription)
        return outputs

    def _deploy(self, files: tuple[Path, Path], deadline_s: float) -> dict[str, Any]:
        """Deploy; after a passing conflict of one resource the same deployment again: what exists stays as it is."""
        for pause_s in (*AGAIN_S, None):
            try:
                return groups.deploy(
                    self.az, self.record, *files, deadline_s=deadline_s, clock=CLOCK, say=self.say
                )
            except AzError as failure:
                # a group that was just created is not known everywhere at once
                if pause_s is None or failure.deed not in ("retry", "absent"):
                    raise
                self.say(
                    f"{self.record.name}: {failure.code}: the same deployment again in {pause_s:g} s"
                )
                CLOCK.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def end(self, failure: AzError) -> None:
        """Delete a failed attempt that cannot succeed as declared, so that it costs nothing while the message is read.

        `down` verifies the deletion. Everything else stays for the next `up`, which goes on with it.
        """
        store, record = self.store, self.record
        name = record.name
        if not record.requested:
            self.say(f"{name}: nothing was created")
            store.gone(record)
            return
        if failure.deed not in ("alternative", "stop"):
            self.say(
                f"{name}: what was created stays and costs money: run `npl up` again, or `npl down`"
            )
            return
        store.note(record, given_up=True)
        try:
            if record.shared:
                groups.remove(self.az, [record], clock=CLOCK, say=self.say, gone=store.gone)
            else:
                self.az("group", "delete", "--name", record.group, "--yes", "--no-wait")
                self.say(f"{name}: deleting what was created of it")
        except AzError as failure:
            self.say(f"{name}: could not be deleted now ({failure.code}): run `npl down`")
        except AzureError as failure:
            self.say(f"{name}: {failure}")

    def proven(self, outputs: dict[str, Any]) -> Deployment:
        """The hosts that were created, with the proofs that they match the declaration."""
        az, store, options, topology, say = (
            self.az,
            self.store,
            self.options,
            self.topology,
            self.say,
        )
        name, group, prefix = self.record.name, self.record.group, self.record.prefix
        addresses = {a["name"].removeprefix(prefix): a for a in outputs["addresses"]}
        fronts = {f["name"].removeprefix(f"lb-{prefix}"): f["private"] for f in outputs["fronts"]}
        reach = {n: a["public"] or a["private"] for n, a in addresses.items()}
        public = {s for _, s in topology.public_pairs}
        data = {
            v.name: fronts.get(v.balancer)
            or addresses[v.name]["public" if v.name in public else "private"]
            for v in topology.vms
        }
        say(f"{name}: asking the cloud and the guests for proof")
        placed = proof.observe(az, group, self.findings.physical_zones, prefix)
        config = access.ssh_config(
            options, store, name, {reach[n]: vm.id for n, vm in placed.items()}
        )
        host_keys = store.known_hosts(name, reach)
        hosts = tuple(
            Host(
                name=v.name,
                address=reach[v.name],
                data_address=data[v.name],
                own_address=addresses[v.name]["private"]
                if data[v.name] != addresses[v.name]["private"]
                else None,
                backends=topology.backends(v.name),
                user=options.user,
                identity=str(store.identity.resolve()),
                known_hosts=str(host_keys.resolve()),
                ssh_config=config,
                owned=True,
            )
            for v in topology.vms
        )
        links = proof.joined(az, group, topology, prefix, clock=CLOCK, wait_s=300)
        facts = guests(hosts, marker=name, wait_s=GUEST_WAIT_S)
        unreachable = [f for f in facts.values() if isinstance(f, str)]
        if len(unreachable) == len(hosts):
            raise AzureError(
                f"{name}: the VMs were created, but none can be reached: {unreachable[0]} (port 22 is open to "
                f"{', '.join(self.findings.allow_from)}); run `npl up` again, or `npl down`"
            )
        hosts = proof.proven(topology, options, placed, hosts, facts)
        reached = tuple(h for h in hosts if not isinstance(facts[h.name], str))
        links += proof.routes(az, group, topology, hosts, prefix)
        links += proof.path_proofs(topology, paths(reached, tuple(topology.paths), marker=name))
        created = self.tags["netperf-created"]
        deployment = Deployment(
            deployment_id=name, source="azure", hosts=hosts, created_utc=created, proofs=links
        )
        say_doubts(deployment, say)
        return deployment


def down(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Delete everything that was or may have been created, of one deployment or of all, and verify that it is gone.

    The keys are removed with the last deployment. AzureError says what is left, and why; then repeat the call.
    """
    if not (state / "azure.json").exists():
        return
    with State.locked(state) as store:
        records = [r for r in store.data.groups if number in (None, r.number)]
        for record in records:
            if not record.requested:
                store.gone(record)
        if requested := [r for r in records if r.requested]:
            az = _runner(store.data.subscription)
            access.leave_hub(az, requested, store)
            groups.remove(az, requested, clock=CLOCK, say=say_aloud, gone=store.gone)
        if not store.data.groups:
            store.clear()


def leftovers(*, expired: bool = False) -> list[Leftover]:
    """Deployments with this project's tag in the selected subscription, of any user and experiment, or expired ones."""
    now = dt.datetime.now(dt.UTC)
    return [g for g in groups.leftovers(_runner(None)) if not expired or g.expired(now)]


def down_all(deployments: Iterable[Leftover]) -> None:
    """Delete what `leftovers` found, and verify that it is gone."""
    groups.remove(_runner(None), deployments, clock=CLOCK, say=say_aloud)
