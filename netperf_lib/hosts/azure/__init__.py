"""VMs in Azure: placed by a template, proven, and removed again, through the command line `az`.

A deployment has a resource group of its own, so that deleting the group removes all of it. The
group is recorded on disk before it is created; an interrupted `up` or `down` is simply repeated.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import AzureError
from ...experiment.deployment import Deployment, Host
from ...experiment.model import Experiment
from ..guests import guests, paths
from ..source import NOTHING_KNOWN, Price, Workload, read_options, say_aloud, say_doubts
from . import az as az_module
from . import checks, groups, plan, proof, template
from .az import Runs
from .checks import Preflight
from .failures import PASSING, AzError
from .groups import Leftover
from .options import Options as Options
from .state import CREATED, Record, State
from .topology import alternatives

EPHEMERAL = True
"""`npl run` removes the VMs after measuring."""
HOLDS = True
"""`npl up` may leave the VMs running: they outlive the process that placed them."""
RETRY_PAUSES_S = (30.0, 100.0, 300.0)
"""Seconds before a deployment that met a passing conflict is started again."""
DEPLOYED_S = {"vm": 30 * 60, "gateway": 90 * 60}
GUEST_WAIT_S = 900.0


def _proposals(experiment: Experiment, workload: Workload) -> list[Preflight]:
    """What is declared, then what else is allowed; errors in it are raised before az is needed."""
    options = read_options(experiment, Options)
    return [
        Preflight(
            experiment=experiment, options=options, topology=declared, workload=workload
        )
        for declared in alternatives(experiment, options)
    ]


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Estimate the cost of all deployments from the public price list; no login is needed."""
    findings = _proposals(experiment, workload)[0]
    estimate = findings.cost
    text = str(estimate)
    if (estimate.amount or 0) > (experiment.budget or float("inf")):
        text += f"; ABOVE the budget of {experiment.budget:g}"
    created = plan.preview(
        findings.topology, findings.options, estimate, experiment.deployments
    )
    return Price(text, estimate.parts(), created)


def write_template(experiment: Experiment, folder: Path) -> Path:
    """Write what `up` will deploy, and the commands that it will run; return the script.

    Nothing is asked of Azure. The folder holds the private keys of the VMs.
    """
    findings = _proposals(experiment, NOTHING_KNOWN)[0]
    findings.allow_from = findings.options.callers or ("YOUR-PUBLIC-ADDRESS",)
    with (
        tempfile.TemporaryDirectory() as temporary,
        State.locked(Path(temporary)) as store,
    ):
        attempt = _Attempt(findings, store)
        attempt.record.starts = 1
        delete = ("group", "delete", "--name", attempt.record.name)
        commands = [*attempt.rehearsal(), *attempt.creation(), delete]
        within = f"{store.files}{os.sep}"
        lines = [shlex.join(("az", *command)) for command in commands]
        notes = [
            "# What `npl up` runs, each with --subscription; then it asks for the result until",
            "# there is one. Write your address for YOUR-PUBLIC-ADDRESS in parameters.json, if it",
            "# is there. The last command is what `npl down` runs.",
        ]
        script = "\n".join([*notes, *lines, ""]).replace(within, "")
        store.file("commands.sh", script)
        shutil.copytree(store.files, folder, dirs_exist_ok=True)
    return folder / "commands.sh"


def spent(*, state: Path, done: float) -> float | None:
    """Return the cost of the VMs so far, from local records only. See `Source.spent`."""
    return State(state).spent(dt.datetime.now(dt.UTC), done=done)


def _rehearse(az: Runs, findings: Preflight) -> str:
    """What Azure says it would create; nothing is kept of it."""
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as store:
        attempt = _Attempt(findings, store)
        return groups.rehearse(az, attempt.rehearsal())


def examine(
    experiment: Experiment, *, workload: Workload = NOTHING_KNOWN
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    AzureError if `az` is missing, nobody is logged in, or the subscription is not accessible.
    """
    findings = _proposals(experiment, workload)[0]
    return checks.examine(findings, findings.options.subscription, _rehearse)


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
    proposals = _proposals(experiment, workload)
    with State.locked(state) as store, _told(store, "`npl up` again, or `npl down`"):
        tried = [record.attempt for record in store.records(number)]
        first = min(max(tried, default=0), len(proposals) - 1)
        for choice, findings in enumerate(proposals[first:], first):
            is_last = choice == len(proposals) - 1
            # a deployment that was begun stays in its subscription, whatever is selected now
            name = findings.options.subscription or store.data.subscription or None
            found = list(checks.examine(findings, name, _rehearse))
            # what is resumed would count against its own quota
            is_new = choice not in tried
            problems = [*findings.problems, *findings.elsewhere] if is_new else []
            if problems and not findings.problems and not is_last:
                say_aloud(
                    f"{experiment.name}: trying the next alternative, since {problems[0]}"
                )
                continue
            if problems:
                raise AzureError(
                    f"{experiment.name}: nothing was created, because {'; '.join(problems)}"
                )
            az = az_module.Az(findings.subscription)
            attempt = _Attempt(findings, store, az, number, choice)
            for _, words, _ in found[-3:]:
                say_aloud(f"{attempt.record.name}: {words}")
            try:
                outputs = attempt.create()
            except AzError as failure:
                attempt.end(failure)
                if failure.kind != "capacity" or is_last or attempt.record.proven:
                    raise
                say_aloud(
                    f"{attempt.record.name}: {failure.code}: trying the next alternative"
                )
                continue
            return attempt.proven(outputs)
    raise AssertionError("the last alternative returns or raises")


@contextmanager
def _told(store: State, remedy: str) -> Iterator[None]:
    """Say what may cost money when the block ends before its end, also by Ctrl-C."""
    try:
        yield
    except BaseException:
        if names := [record.name for record in store.records() if record.starts]:
            say_aloud(f"{', '.join(names)} may exist and cost money: run {remedy}")
        raise


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
        tags = self.options.tags | {"netperf-experiment": name}
        subscription = self.findings.subscription
        self.record: Record = self.store.begin(
            self.number, self.choice, name, subscription, tags
        )
        self.record.renew(self.options.expires_h)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the template."""
        return template.parameters(
            self.findings.topology,
            self.options,
            tags=self.record.tags,
            public_key=self.store.key(self.store.identity)[1],
            allow_from=self.findings.allow_from,
            host_key=lambda vm: self.store.host_key(self.record.name, vm),
            # a gateway takes no hyphen and no tilde
            shared_key=secrets.token_hex(32),
        )

    def files(self, text: str, name: str = "template.json") -> tuple[str, ...]:
        """Write a template and its parameters, and return the arguments that name them."""
        file = self.store.file(name, text)
        values = self.store.file("parameters.json", json.dumps(self.parameters()))
        return ("--template-file", str(file), "--parameters", f"@{values}")

    def rehearsal(self) -> tuple[groups.Command, groups.Command]:
        """Return the commands that have Azure validate and preview the whole, its group, too."""
        record, region = self.record, self.options.region
        text = template.rehearsal_text(record.name, region, record.tags)
        return groups.rehearsal(record.name, region, self.files(text, "rehearsal.json"))

    def creation(self) -> tuple[groups.Command, groups.Command]:
        """Return the commands that create the whole."""
        files = self.files(template.template_text())
        return groups.creation(self.record, self.options.region, self.record.tags, files)

    def create(self) -> dict[str, Any]:
        """Create everything; return the outputs of the template."""
        record, store = self.record, self.store
        store.data.cost = self.findings.cost
        deadline_s = DEPLOYED_S["gateway" if self.findings.topology.gateways else "vm"]
        # after a passing conflict of a resource again: what exists stays as it is
        for pause_s in (*RETRY_PAUSES_S, None):
            if not record.running:
                record.starts += 1
                record.running = True
            store.write()
            try:
                return groups.deploy(
                    self.az, record, self.creation(), deadline_s=deadline_s
                )
            except AzError as failure:
                passes = failure.kind in (PASSING, "absent") and not record.running
                if pause_s is None or not passes:
                    raise
                again = f"the same deployment again in {pause_s:g} s"
                say_aloud(f"{record.name}: {failure.code}: {again}")
                az_module.CLOCK.sleep(pause_s)
            finally:
                store.write()
        raise AssertionError("the last try returns or raises")

    def end(self, failure: AzError) -> None:
        """Remove a failed attempt that cannot succeed as declared, so that it costs nothing.

        Everything else stays for the next `up`; so does what was up before.
        """
        final = failure.kind in ("capacity", "permission", "permanent")
        if self.record.proven or not final:
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
        stopped = [f"{vm.name} ({vm.power})" for vm in placed.values() if vm.stopped]
        if stopped:
            raise AzureError(
                f"{name} is stopped: {', '.join(stopped)}. A restart may place them "
                "elsewhere: run `npl down`, then `npl up`"
            )
        facts = guests(hosts, marker=name, wait_s=GUEST_WAIT_S)
        reached = tuple(host for host in hosts if not isinstance(facts[host.name], str))
        if not reached:
            raise AzureError(
                f"{name}: the VMs were created, but none can be reached: "
                f"{facts[hosts[0].name]} "
                f"(port 22 is open to {', '.join(self.findings.allow_from)}; if SSH leaves from "
                "another address, give hosts.options.allow_from)"
            )
        hosts = proof.proven(declared, placed, hosts, facts)
        seen = paths(reached, tuple(declared.paths), marker=name)
        deployment = Deployment(
            deployment_id=name,
            source="azure",
            hosts=hosts,
            created_utc=self.record.tags[CREATED],
            proofs=(*links, *proof.path_proofs(declared, seen)),
        )
        say_doubts(deployment, say_aloud)
        self.record.proven = True
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
    with State.locked(state) as store, _told(store, "`npl down`"):
        if records := store.records(number):
            az = az_module.Az(store.data.subscription)
            groups.remove(az, records, store.gone)
        if not store.data.groups:
            store.clear()


def subscription() -> tuple[str, str]:
    """Return id and name of the subscription that is selected."""
    account = checks.account(None)
    return account["id"], account["name"]


def leftovers(subscription: str, *, expired: bool = False) -> list[Leftover]:
    """Return the deployments with this project's tag in a subscription.

    They are of any user and experiment; with `expired`, those that have expired.
    """
    now = dt.datetime.now(dt.UTC)
    found = groups.leftovers(az_module.Az(subscription))
    return [group for group in found if not expired or group.expired(now)]


def down_all(subscription: str, deployments: Iterable[Leftover]) -> None:
    """Delete what `leftovers` found, and prove that it is gone."""
    groups.remove(az_module.Az(subscription), deployments)
