"""VMs in Azure: placed by a template, proven, and removed again, through the command line `az`.

A deployment has a resource group of its own, so that deleting the group removes all of it. The
group is recorded on disk before it is created; an interrupted `up` or `down` is simply repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
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
from . import az as az_module
from . import checks, groups, proof, template
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
DEPLOYED_S = {"vm": 30 * 60, "gateway": 90 * 60}
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
    if (estimate.amount or 0) > (experiment.budget or float("inf")):
        text += f"; ABOVE the budget of {experiment.budget:g}"
    return Price(text, estimate.parts(), estimate.amount, estimate.currency)


def spent(*, state: Path, done: float) -> float | None:
    """Return the cost of the VMs so far, from local records only. See `Source.spent`."""
    return State(state).spent(dt.datetime.now(dt.UTC), done=done)


def _rehearse(az: Runs, findings: Preflight) -> str:
    """What Azure says it would create; nothing is kept of it."""
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as store:
        return "; ".join(_Attempt(findings, store, az).rehearse())


def examine(
    experiment: Experiment, *, workload: Workload = NOTHING_KNOWN
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    AzureError if `az` is missing, nobody is logged in, or the subscription is not accessible.
    """
    findings = _proposal(experiment, workload)
    return checks.examine(findings, _runner(findings.options.subscription), rehearse=_rehearse)


class _WithoutKeys(State):
    """A state with placeholders for the real names and keys."""

    def _key(self, path: Path) -> tuple[str, str]:
        return "PRIVATE_KEY", "PUBLIC_KEY"


def dry_run(experiment: Experiment) -> dict[str, str]:
    """Return what `up` would run, without asking anybody: commands, template, parameters, words."""
    findings = _proposal(experiment)
    options = findings.options
    commands: list[str] = []

    def az(*arguments: str) -> Any:
        """Note the command, and answer as if it succeeded at once."""
        if {"create", "validate", "what-if"} & set(arguments[:4]):
            more = ("--subscription", options.subscription) if options.subscription else ()
            text = shlex.join((*arguments, *more)).replace(f"{store.files}/", "")
            commands.append(f"az {text}\n")
        return [] if "list" in arguments else {"properties": {"provisioningState": "Succeeded"}}

    findings.subscription = options.subscription or "SUBSCRIPTION"
    unknown = ("YOUR_ADDRESS/32",)
    ask = options.allow_from is None and options.public
    findings.allow_from = unknown if ask else checks.callers(options, [])
    with tempfile.TemporaryDirectory() as folder, _WithoutKeys.locked(Path(folder)) as store:
        store.data.mark = "MARK"
        attempt = _Attempt(findings, store, az)
        attempt.create()
        return {
            "commands": "".join(commands),
            "template.json": template.template_text(),
            "parameters.json": json.dumps(attempt.parameters(), indent=2),
            "in words": f"{in_words(findings.declared)}{findings.expiry[0].upper()}"
            f"{findings.expiry[1:]} until `npl down`, or `npl down --all --expired`.\n"
            "Nothing was created, and Azure was not contacted.\n",
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

    Additions to the experiment are added to a deployment that is up. What a failed deployment
    created is deleted at once; VMs that were created but do not answer stay, for a second `up` or
    for `down`. After an interruption `up` resumes, and `down` removes what there is.
    """
    # errors in the declaration are reported before az is needed
    options = _proposal(experiment).options
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
            resumed = [r for r in store.data.groups if (r.number, r.attempt) == (number, choice)]
            if not any(r.made for r in resumed):
                if findings.elsewhere and not findings.problems and choice < choices[-1]:
                    why = findings.elsewhere[0]
                    say(f"{experiment.name}: trying the next alternative, since {why}")
                    continue
                if problems := [*findings.problems, *findings.elsewhere]:
                    raise AzureError(
                        f"{experiment.name}: nothing was created, because {'; '.join(problems)}"
                    )
            attempt = _Attempt(findings, store, az, number, choice, say)
            store.priced(findings.cost)
            regions = ", ".join(findings.declared.regions)
            size = f"{len(findings.declared.vms)} VMs in {regions}"
            say(f"{attempt.record.name}: {size}; {findings.cost}; {findings.left_running}")
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
            store.remember(number, deployment, findings.declared.parts())
            return deployment
    raise AssertionError("the last alternative returns or raises")


def _same(store: State, number: int, requested: Topology) -> bool:
    """Whether everything declared is up; AzureError if some of it would have to change."""
    placed, parts = store.data.parts.get(number, {}), requested.parts()
    # removed pairs leave their VMs idle; a VM whose declaration changed cannot change in place
    if changed := [name for name, part in parts.items() if placed.get(name, part) != part]:
        names = dict.fromkeys(name.partition(" ")[2] for name in changed)
        raise AzureError(
            f"the declaration of {', '.join(names)} changed since deployment {number} was placed: "
            "run `npl down`, then `npl up`"
        )
    return parts.keys() <= placed.keys()


def _let_caller_in(options: Options, store: State, number: int, az: Runs, say: Say) -> None:
    """Update the rule for port 22 if the address of this machine has changed."""
    record = store.open(number)[0]
    allow_from = list(checks.callers(options, []))
    if not allow_from or allow_from == record.allow_from:
        return
    for kind, _, network in (part.partition(" ") for part in store.data.parts[number]):
        if kind == "Network":
            rule = ("--nsg-name", f"nsg-{network}", "--name", "ssh-from-caller")
            sources = ("--source-address-prefixes", *allow_from)
            where = ("--resource-group", record.name)
            az("network", "nsg", "rule", "update", *where, *rule, *sources)
    store.note(record, allow_from=allow_from)
    say(f"{record.name}: port 22 is now open to {', '.join(allow_from)}")


def _still_there(az: Runs, store: State, number: int) -> bool:
    """Whether the deployment is up.

    AzureError if its VMs are stopped: Azure may start them anywhere, so what was proven about them
    no longer holds.
    """
    for record in store.open(number):
        if groups.state_of(az, record) != "Succeeded":
            return False
        listed = find(az, "vm", "list", "--resource-group", record.name, "--show-details") or ()
        power = {vm["name"]: vm.get("powerState") for vm in listed}
        names = [host.name for host in store.data.deployments[number].hosts]
        if not set(names) <= set(power):
            return False
        if stopped := [f"{n} ({power[n]})" for n in names if power[n] not in (None, "VM running")]:
            raise AzureError(
                f"{record.name} is stopped: {', '.join(stopped)}. A restart may place them "
                "elsewhere: run `npl down`, then `npl up`"
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
        self.topology = self.findings.topology
        subscription = self.findings.subscription
        self.record = self.store.begin(self.number, self.choice, name, subscription)
        now, stamp = dt.datetime.now(dt.UTC), "%Y-%m-%dT%H:%M:%SZ"
        self.tags = self.record.tags or {
            **self.options.tags,
            "netperf-experiment": name,
            groups.TAG: self.record.name,
            "netperf-created": now.strftime(stamp),
            "netperf-expires": (now + dt.timedelta(hours=self.options.expires_h)).strftime(stamp),
        }

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the template."""
        vpn = any(gateway for _, gateway in self.topology.connections)
        return template.parameters(
            self.topology,
            self.options,
            tags=self.tags,
            public_key=self.store.public_key(),
            allow_from=self.findings.allow_from,
            host_key=lambda vm: self.store.host_key(self.record.name, vm),
            shared_key=secrets.token_urlsafe(32) if vpn else "",
            rarity=self.findings.rarity,
        )

    def rehearse(self) -> list[str]:
        """Return what Azure says it would create, and what it could not check."""
        region = self.options.region
        text = template.rehearsal_text(self.record.name, region, self.tags)
        file = self.store.file("template-to-check.json", text)
        return groups.rehearse(self.az, region, file, self._parameter_file())

    def _parameter_file(self) -> Path:
        return self.store.file("parameters.json", json.dumps(self.parameters()))

    def create(self) -> dict[str, Any]:
        """Create everything; return the outputs of the template."""
        record, store, name = self.record, self.store, self.record.name
        if not record.made:
            for remark in self.rehearse():
                self.say(f"{name}: {remark}")
        allow_from = list(self.findings.allow_from)
        store.note(record, given_up=False, tags=self.tags, allow_from=allow_from)
        tags = [f"{key}={value}" for key, value in self.tags.items()]
        where = ("--name", name, "--location", self.options.region)
        self.az("group", "create", *where, "--tags", *tags)
        store.note(record, made=True)
        files = store.file("template.json", template.template_text()), self._parameter_file()
        return self._deploy(files)

    def _deploy(self, files: tuple[Path, Path]) -> dict[str, Any]:
        """Deploy; after a passing conflict of a resource again: what exists stays as it is."""
        record, store = self.record, self.store
        deadline_s = DEPLOYED_S["gateway" if self.topology.gateways else "vm"]
        for pause_s in (*AGAIN_S, None):
            if record.quiet:
                store.note(record, starts=record.starts + 1, quiet=False)
            try:
                return groups.deploy(
                    self.az, record, *files, deadline_s=deadline_s, clock=CLOCK, say=self.say
                )
            except AzError as failure:
                if pause_s is None or failure.deed != "retry":
                    raise
                again = f"the same deployment again in {pause_s:g} s"
                self.say(f"{record.name}: {failure.code}: {again}")
                CLOCK.sleep(pause_s)
            finally:
                store.write()
        raise AssertionError("the last try returns or raises")

    def end(self, failure: AzError) -> None:
        """Delete a failed attempt that cannot succeed as declared, so that it costs nothing.

        `down` proves that it is gone. Everything else stays for the next `up`.
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
            self.az("group", "delete", "--name", name, "--yes", "--no-wait")
            self.say(f"{name}: deleting what was created of it")
        except AzError as failure:
            self.say(f"{name}: could not be deleted now ({failure.code}): run `npl down`")

    def proven(self, outputs: dict[str, Any]) -> Deployment:
        """Return the hosts that were created, with proofs that they match the declaration."""
        az, topology, name = self.az, self.topology, self.record.name
        self.say(f"{name}: asking the cloud and the guests for proof")
        placed = proof.patient(
            lambda: proof.observe(az, name, self.findings.physical_zones),
            lambda seen: proof.placed_proofs(topology, self.options, seen),
            clock=CLOCK,
            wait_s=CLOCK.lag_s,
        )
        hosts = self._hosts(outputs)
        links = proof.joined(az, name, topology, clock=CLOCK)
        facts = guests(hosts, marker=name, wait_s=GUEST_WAIT_S)
        unreachable = [f for f in facts.values() if isinstance(f, str)]
        if len(unreachable) == len(hosts):
            raise AzureError(
                f"{name}: the VMs were created, but none can be reached: {unreachable[0]} "
                f"(port 22 is open to {', '.join(self.findings.allow_from)}); "
                "run `npl up` again, or `npl down`"
            )
        hosts = proof.proven(topology, self.options, placed, hosts, facts)
        reached = tuple(h for h in hosts if not isinstance(facts[h.name], str))
        links += proof.one_hardware(facts)
        links += proof.routes(az, name, topology, hosts)
        links += proof.path_proofs(topology, paths(reached, tuple(topology.paths), marker=name))
        deployment = Deployment(
            deployment_id=name,
            source="azure",
            hosts=hosts,
            created_utc=self.tags["netperf-created"],
            proofs=links,
        )
        say_doubts(deployment, self.say)
        return deployment

    def _hosts(self, outputs: dict[str, Any]) -> tuple[Host, ...]:
        """The hosts, without proofs."""
        store, name = self.store, self.record.name
        config = self.options.ssh_config
        addresses = {a["name"]: a for a in outputs["addresses"]}
        reach = {n: a["public"] or a["private"] for n, a in addresses.items()}
        fronts = {f["name"]: f["private"] for f in outputs["fronts"]}
        at_public = {server for _, server in self.topology.public_pairs}
        data = {
            n: fronts.get(f"lb-{n}") or a["public" if n in at_public else "private"]
            for n, a in addresses.items()
        }
        keys = store.known_hosts(name, reach)
        return tuple(
            Host(
                name=n,
                address=reach[n],
                data_address=data[n],
                own_address=a["private"] if data[n] != a["private"] else None,
                user=template.USER,
                identity=str(store.identity.resolve()),
                known_hosts=str(keys.resolve()),
                ssh_config=str(Path(config).expanduser()) if config else None,
                owned=True,
            )
            for n, a in addresses.items()
        )


def down(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Delete what was or may have been created, of one deployment or all, and prove it is gone.

    The keys are removed with the last deployment. AzureError says what is left, and why; then
    repeat the call.
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
            groups.remove(az, requested, clock=CLOCK, say=say_aloud, gone=store.gone)
        if not store.data.groups:
            store.clear()


def leftovers(*, expired: bool = False) -> list[Leftover]:
    """Return the deployments with this project's tag in the selected subscription.

    They are of any user and experiment; with `expired`, those that have expired.
    """
    now = dt.datetime.now(dt.UTC)
    return [g for g in groups.leftovers(_runner(None)) if not expired or g.expired(now)]


def down_all(deployments: Iterable[Leftover]) -> None:
    """Delete what `leftovers` found, and prove that it is gone."""
    groups.remove(_runner(None), deployments, clock=CLOCK, say=say_aloud)
