"""VMs in Azure: placed by a template, proven, and removed again, through the command line `az`.

A deployment has a resource group of its own, so that deleting the group removes all of it. The
group is recorded on disk before it is created; an interrupted `up` or `down` is simply repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import AzureError
from ...experiment.model import Deployment, Experiment, Host
from ..guests import guests, paths
from ..source import NOTHING_KNOWN, Price, Workload, read_options, say_aloud, say_doubts
from . import az as az_module
from . import checks, groups, proof, template
from .az import Runs, find
from .checks import Preflight
from .failures import AzError
from .groups import Leftover
from .options import Options as Options
from .state import Record, State
from .topology import Topology, alternatives, topology

EPHEMERAL = True
"""`npl run` removes the VMs after measuring."""
HOLDS = True
"""`npl up` may leave the VMs running: they outlive the process that placed them."""
RETRY_PAUSES_S = (30.0, 100.0, 300.0)
"""Seconds before a deployment that met a passing conflict is started again."""
DEPLOYED_S = {"vm": 30 * 60, "gateway": 90 * 60}
GUEST_WAIT_S = 900.0


def _proposal(
    experiment: Experiment, workload: Workload = NOTHING_KNOWN, *, attempt: int = 0
) -> Preflight:
    options = read_options(experiment, Options)
    declared = topology(experiment, options, attempt=attempt)
    return Preflight(
        experiment=experiment, options=options, topology=declared, workload=workload
    )


def _runner(subscription: str | None) -> Runs:
    return az_module.Az(subscription)


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Estimate the cost of all deployments from the public price list; no login is needed."""
    estimate = _proposal(experiment, workload).cost
    text = str(estimate)
    if (estimate.amount or 0) > (experiment.budget or float("inf")):
        text += f"; ABOVE the budget of {experiment.budget:g}"
    return Price(text, estimate.parts())


def spent(*, state: Path, done: float) -> float | None:
    """Return the cost of the VMs so far, from local records only. See `Source.spent`."""
    return State(state).spent(dt.datetime.now(dt.UTC), done=done)


def _rehearse(az: Runs, findings: Preflight) -> str:
    """What Azure says it would create; nothing is kept of it."""
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as store:
        attempt = _Attempt(findings, store)
        where = ("--name", attempt.record.name, "--location", findings.options.region)
        return groups.rehearse(az, *where, *attempt.files(whole=True))


def examine(
    experiment: Experiment, *, workload: Workload = NOTHING_KNOWN
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    AzureError if `az` is missing, nobody is logged in, or the subscription is not accessible.
    """
    findings = _proposal(experiment, workload)
    return checks.examine(findings, _runner(findings.options.subscription), _rehearse)


def up(
    experiment: Experiment,
    *,
    number: int,
    state: Path,
    workload: Workload = NOTHING_KNOWN,
) -> Deployment:
    """Place the VMs of deployment `number`, prove where they are, and return them; safe to repeat.

    What a failed deployment created is removed at once; VMs that were created but do not answer
    stay, for a second `up` or for `down`. After an interruption `up` resumes, and `down` removes
    what there is.
    """
    # errors in the declaration are reported before az is needed
    options = _proposal(experiment).options
    last = len(alternatives(options)) - 1
    az = _runner(options.subscription)
    with State.locked(state) as store:
        first = min(max((r.attempt for r in store.records(number)), default=0), last)
        if number in store.data.deployments:
            recorded_az = _runner(store.data.subscription)  # whatever is selected now
            declared = topology(experiment, options, attempt=first)
            if _unchanged(recorded_az, store, number, declared, options):
                return store.data.deployments[number]
        for choice in range(first, last + 1):
            findings = _proposal(experiment, workload, attempt=choice)
            found = [words for _, words, _ in checks.examine(findings, az, _rehearse)]
            # what is resumed would count against its own quota
            resumed = any(r.attempt == choice for r in store.records(number))
            problems = [] if resumed else [*findings.problems, *findings.elsewhere]
            if problems and choice < last and not findings.problems:
                say_aloud(
                    f"{experiment.name}: trying the next alternative, since {problems[0]}"
                )
                continue
            if problems:
                raise AzureError(
                    f"{experiment.name}: nothing was created, because {'; '.join(problems)}"
                )
            attempt = _Attempt(findings, store, az, number, choice)
            for words in found[-3:]:
                say_aloud(f"{attempt.record.name}: {words}")
            try:
                outputs = attempt.create()
            except AzError as failure:
                if number in store.data.deployments:
                    raise  # a deployment that was already up stays up
                attempt.end(failure)
                if choice == last or failure.deed != "alternative":
                    raise
                say_aloud(
                    f"{attempt.record.name}: {failure.code}: trying the next alternative"
                )
                continue
            return attempt.proven(outputs)
    raise AssertionError("the last alternative returns or raises")


def _unchanged(
    az: Runs, store: State, number: int, declared: Topology, options: Options
) -> bool:
    """Whether all that is declared is up, and open to this machine.

    AzureError if the declaration changed, or if VMs are stopped: Azure may start them anywhere, so
    what was proven about them no longer holds.
    """
    record, made = store.records(number)[-1], store.data.deployments[number]

    def look() -> dict[str, str] | None:
        group = find(az, "group", "show", "--name", record.name)
        if group is None or group["properties"]["provisioningState"] != "Succeeded":
            return None
        listed = (
            find(az, "vm", "list", "--resource-group", record.name, "--show-details")
            or ()
        )
        power = {vm["name"]: vm.get("powerState") or "" for vm in listed}
        return power if {h.name for h in made.hosts} <= power.keys() else None

    power = groups.assured(look)
    if power is None:
        del store.data.deployments[number]
        store.write()
        return False
    stopped = [
        f"{h.name} ({power[h.name]})" for h in made.hosts if "run" not in power[h.name]
    ]
    if stopped:
        raise AzureError(
            f"{record.name} is stopped: {', '.join(stopped)}. A restart may place them "
            "elsewhere: run `npl down`, then `npl up`"
        )
    if store.data.parts[number] != declared.text():
        raise AzureError(
            f"{record.name} was placed by another declaration: run `npl down`, then `npl up`"
        )
    return {*checks.callers(options)} <= {*record.allow_from}


@dataclass
class _Attempt:
    """One way to place one deployment; recorded on disk before anything is created."""

    findings: Preflight
    store: State
    az: Runs = az_module.Az
    number: int = 1
    choice: int = 0

    def __post_init__(self) -> None:
        name, self.options = self.findings.experiment.name, self.findings.options
        now, stamp = dt.datetime.now(dt.UTC), "%Y-%m-%dT%H:%M:%SZ"
        tags = self.options.tags | {
            "netperf-experiment": name,
            "netperf-created": now.strftime(stamp),
            "netperf-expires": (
                now + dt.timedelta(hours=self.options.expires_h)
            ).strftime(stamp),
        }
        self.record: Record = self.store.begin(
            self.number, self.choice, name, self.findings.subscription, tags
        )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the template."""
        return template.parameters(
            self.findings.topology,
            self.options,
            tags=self.record.tags,
            public_key=self.store.key(self.store.identity)[1],
            allow_from=self.findings.allow_from,
            host_key=lambda vm: self.store.host_key(self.record.name, vm),
            shared_key=secrets.token_urlsafe(32),
        )

    def files(self, *, whole: bool = False) -> tuple[str, ...]:
        """Write template and parameters, and return the arguments that name them.

        The `whole` template makes the group, too; Azure validates it.
        """
        text, name = template.template_text(), self.record.name
        if whole:
            text = template.rehearsal_text(name, self.options.region, self.record.tags)
        file = self.store.file("template.json", text)
        values = self.store.file("parameters.json", json.dumps(self.parameters()))
        return ("--template-file", str(file), "--parameters", f"@{values}")

    def create(self) -> dict[str, Any]:
        """Create everything; return the outputs of the template."""
        record, store, data = self.record, self.store, self.store.data
        record.allow_from, data.cost = list(self.findings.allow_from), self.findings.cost
        store.write()
        tags = [f"{key}={value}" for key, value in record.tags.items()]
        where = ("--name", record.name, "--location", self.options.region)
        self.az("group", "create", *where, "--tags", *tags)
        files = self.files()
        deadline_s = DEPLOYED_S["gateway" if self.findings.topology.gateways else "vm"]
        # after a passing conflict of a resource again: what exists stays as it is
        for pause_s in (*RETRY_PAUSES_S, None):
            record.starts += record.quiet
            record.quiet = False
            store.write()
            try:
                return groups.deploy(self.az, record, files, deadline_s=deadline_s)
            except AzError as failure:
                if pause_s is None or failure.deed != "retry":
                    raise
                again = f"the same deployment again in {pause_s:g} s"
                say_aloud(f"{record.name}: {failure.code}: {again}")
                az_module.CLOCK.sleep(pause_s)
            finally:
                store.write()
        raise AssertionError("the last try returns or raises")

    def end(self, failure: AzError) -> None:
        """Remove a failed attempt that cannot succeed as declared, so that it costs nothing.

        Everything else stays for the next `up`.
        """
        if failure.deed not in ("alternative", "stop"):
            say_aloud(
                f"{self.record.name}: what was created stays and costs money: "
                "run `npl up` again, or `npl down`"
            )
            return
        try:
            groups.remove(self.az, [self.record], self.store.gone)
        except AzureError as trouble:
            say_aloud(str(trouble))

    def proven(self, outputs: dict[str, Any]) -> Deployment:
        """Return the hosts that were created, with proofs that they match the declaration."""
        declared, name, store = self.findings.topology, self.record.name, self.store
        say_aloud(f"{name}: asking the cloud and the guests for proof")
        hosts = self._hosts(outputs["addresses"])
        placed, links = proof.cloud(self.az, name, declared, self.findings.physical_zones)
        facts = guests(hosts, marker=name, wait_s=GUEST_WAIT_S)
        unreachable = [f for f in facts.values() if isinstance(f, str)]
        if len(unreachable) == len(hosts):
            raise AzureError(
                f"{name}: the VMs were created, but none can be reached: {unreachable[0]} "
                f"(port 22 is open to {', '.join(self.findings.allow_from)}); "
                "run `npl up` again, or `npl down`"
            )
        hosts = proof.proven(declared, placed, hosts, facts)
        reached = tuple(h for h in hosts if not isinstance(facts[h.name], str))
        deployment = Deployment(
            deployment_id=name,
            source="azure",
            hosts=hosts,
            created_utc=self.record.tags["netperf-created"],
            proofs=(
                *links,
                *proof.path_proofs(
                    declared, paths(reached, tuple(declared.paths), marker=name)
                ),
            ),
        )
        say_doubts(deployment, say_aloud)
        store.data.deployments[self.number] = deployment
        store.data.parts[self.number] = declared.text()
        store.write()
        return deployment

    def _hosts(self, addresses: list[dict[str, str]]) -> tuple[Host, ...]:
        """The hosts, without proofs."""
        config = self.options.ssh_config
        reach = {a["name"]: a["public"] or a["private"] for a in addresses}
        keys = self.store.known_hosts(self.record.name, reach)
        return tuple(
            Host(
                name=a["name"],
                address=reach[a["name"]],
                data_address=a["data"],
                own_address=a["private"] if a["data"] != a["private"] else None,
                user=template.USER,
                identity=str(self.store.identity.resolve()),
                known_hosts=str(keys.resolve()),
                ssh_config=str(Path(config).expanduser()) if config else None,
                owned=True,
            )
            for a in addresses
        )


def down(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Delete what was or may have been created, of one deployment or all, and prove it is gone.

    The keys are removed with the last deployment. AzureError says what is left, and why; then
    repeat the call.
    """
    if not (state / "azure.json").exists():
        return
    with State.locked(state) as store:
        if records := store.records(number):
            az = _runner(store.data.subscription)
            groups.remove(az, records, store.gone)
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
    groups.remove(_runner(None), deployments)
