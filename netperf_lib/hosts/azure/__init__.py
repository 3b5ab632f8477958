"""VMs in Azure: placed by a template, proven, and removed again, through the command line `az`.

A deployment has a resource group of its own, so that deleting the group removes all of it. The
group is recorded on disk before it is created; an interrupted `up` or `down` is simply repeated.
"""

from __future__ import annotations

import base64
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
from functools import partial
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
from .failures import AzError
from .groups import Command, Leftover
from .options import Options as Options
from .state import CREATED, IDENTITY, Record, State
from .topology import Topology, alternatives

EPHEMERAL = True
"""`npl run` removes the VMs after measuring."""
HOLDS = True
"""`npl up` may leave the VMs running: they outlive the process that placed them."""
DEPLOYED_S = {"vm": 30 * 60, "gateway": 90 * 60}
GUEST_WAIT_S = 900.0
FINAL = ("capacity", "permission", "permanent")
"""Kinds of failures of what cannot succeed as it is declared."""


def _proposals(experiment: Experiment, workload: Workload) -> list[Preflight]:
    """What is declared, then what else is allowed; errors in it are raised before az is needed."""
    options = read_options(experiment, Options)
    given = partial(Preflight, experiment=experiment, options=options, workload=workload)
    return [given(topology=declared) for declared in alternatives(experiment, options)]


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Estimate the cost of all deployments from the public price list; no login is needed."""
    preflight = _proposals(experiment, workload)[0]
    estimate, text = preflight.cost, str(preflight.cost)
    if (estimate.amount or 0) > (experiment.budget or float("inf")):
        text += f"; ABOVE the budget of {experiment.budget:g}"
    created = plan.preview(
        preflight.topology, preflight.options, estimate, experiment.deployments
    )
    # a sum that lacks some of its parts is none
    parts = () if estimate.unknown else estimate.parts
    return Price(text, parts, created)


def write_template(experiment: Experiment, folder: Path) -> Path:
    """Write what `up` will deploy, and the commands that it will run; return the script.

    Nothing is asked of Azure. The folder holds the private keys of the VMs.
    """
    preflight = _proposals(experiment, NOTHING_KNOWN)[0]
    preflight.allow_from = preflight.options.callers or ("YOUR-PUBLIC-ADDRESS",)
    with _draft(preflight) as attempt:
        attempt.record.starts = 1
        delete = ("group", "delete", "--name", attempt.record.name)
        commands = [*attempt.rehearsal(), *attempt.creation(), delete]
        lines = [
            "# What `npl up` runs, each with --subscription; then it asks for the result until",
            "# there is one. Write your address for YOUR-PUBLIC-ADDRESS in parameters.json, if it",
            "# is there. The last command is what `npl down` runs.",
        ]
        lines += [shlex.join(("az", *command)) for command in commands]
        files = attempt.store.files
        script = "\n".join([*lines, ""]).replace(f"{files}{os.sep}", "")
        attempt.store.file("commands.sh", script)
        shutil.copytree(files, folder, dirs_exist_ok=True)
    return folder / "commands.sh"


def spent(*, state: Path, done: float) -> float | None:
    """Return the cost of the VMs so far, from local records only. See `Source.spent`."""
    return State(state).spent(dt.datetime.now(dt.UTC), done=done)


def _rehearse(az: Runs, preflight: Preflight) -> str:
    """What Azure says it would create."""
    with _draft(preflight) as attempt:
        return groups.rehearse(az, attempt.rehearsal())


@contextmanager
def _draft(preflight: Preflight) -> Iterator[_Attempt]:
    """An attempt of which nothing is kept."""
    with tempfile.TemporaryDirectory() as folder, State.locked(Path(folder)) as store:
        yield _begin(preflight, store)


def examine(
    experiment: Experiment, *, workload: Workload = NOTHING_KNOWN
) -> Iterator[tuple[str, str, bool]]:
    """Yield (subject, what was found or what to do, whether it is in order); nothing is created.

    AzureError if `az` is missing, nobody is logged in, or the subscription is not accessible.
    """
    preflight = _proposals(experiment, workload)[0]
    name = preflight.options.subscription
    for subject, words, kind in checks.examine(preflight, name, _rehearse):
        yield subject, words, not kind


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
        choice = min(max(tried, default=0), len(proposals) - 1)
        while True:
            try:
                return _place(proposals[choice], store, number, choice)
            except AzError as failure:
                choice += 1
                if failure.kind != "capacity" or choice == len(proposals):
                    raise
                say_aloud(f"{experiment.name}: trying the next alternative: {failure}")


def _place(preflight: Preflight, store: State, number: int, choice: int) -> Deployment:
    """Check, create and prove one alternative; AzError if Azure refuses it."""
    # a deployment that was begun stays in its subscription, whatever is selected now
    name = preflight.options.subscription or store.data.subscription or None
    found = list(checks.examine(preflight, name, _rehearse))
    problems = [finding for finding in found if finding[2]]
    # what is resumed would count against its own quota
    is_new = choice not in [record.attempt for record in store.records(number)]
    if problems and is_new:
        text = "; ".join(words for _, words, _ in problems)
        raise AzError(
            f"{preflight.experiment.name}: nothing was created, because {text}",
            code="Checked",
            kind=problems[0][2],
        )
    attempt = _begin(preflight, store, number, choice)
    for _, words, _ in found[-3:]:
        say_aloud(f"{attempt.record.name}: {words}")
    az = az_module.Az(preflight.subscription)
    return attempt.proven(az, attempt.create(az))


@contextmanager
def _told(store: State, remedy: str) -> Iterator[None]:
    """Say what may cost money when the block ends before its end, also by Ctrl-C."""
    try:
        yield
    except BaseException:
        if names := [record.name for record in store.records() if record.starts]:
            say_aloud(f"{', '.join(names)} may exist and cost money: run {remedy}")
        raise


def _begin(
    preflight: Preflight, store: State, number: int = 1, choice: int = 0
) -> _Attempt:
    """Record a deployment on disk, before anything of it is created."""
    name = preflight.experiment.name
    tags = preflight.options.tags | {"netperf-experiment": name}
    record = store.begin(number, choice, name, preflight.subscription, tags)
    record.renew(preflight.options.expires_h)
    return _Attempt(preflight, store, record)


@dataclass(frozen=True)
class _Attempt:
    """One way to place one deployment, which is recorded."""

    preflight: Preflight
    store: State
    record: Record

    @property
    def options(self) -> Options:
        """What the experiment says of Azure."""
        return self.preflight.options

    @property
    def topology(self) -> Topology:
        """What is to be created."""
        return self.preflight.topology

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the template."""
        starts = {}
        for vm in self.topology.vms:
            key = self.store.host_key(self.record.name, vm.name)
            text = template.first_start(vm, key)
            starts[vm.name] = base64.b64encode(text.encode()).decode()
        return template.parameters(
            self.topology,
            self.options,
            self.record.tags,
            sshPublicKey=self.store.key(IDENTITY)[1],
            sshFrom=list(self.preflight.allow_from),
            # a gateway takes no hyphen and no tilde
            sharedKey=secrets.token_hex(32),
            userData=starts,
        )

    def files(self, text: str, name: str = "template.json") -> tuple[str, ...]:
        """Write a template and its parameters, and return the arguments that name them."""
        file = self.store.file(name, text)
        values = self.store.file("parameters.json", json.dumps(self.parameters()))
        return ("--template-file", str(file), "--parameters", f"@{values}")

    def rehearsal(self) -> tuple[Command, Command]:
        """Return the commands that have Azure validate and preview the whole, its group, too."""
        name, region = self.record.name, self.options.region
        text = template.rehearsal_text(name, region, self.record.tags)
        files = self.files(text, "rehearsal.json")
        where = ("--name", name, "--location", region, *files)
        plain = ("--no-pretty-print", "--result-format", "ResourceIdOnly")
        verbs = ("deployment", "sub")
        return (*verbs, "validate", *where), (*verbs, "what-if", *where, *plain)

    def creation(self) -> tuple[Command, Command]:
        """Return the commands that create the group, and deploy the template into it."""
        name, region = self.record.name, self.options.region
        tags = [f"{key}={value}" for key, value in self.record.tags.items()]
        group = ("group", "create", "--name", name, "--location", region, "--tags", *tags)
        named = ("--resource-group", name, "--name", self.record.started)
        files = self.files(template.template_text())
        return group, ("deployment", "group", "create", *named, *files, "--no-wait")

    def create(self, az: Runs) -> dict[str, Any]:
        """Create everything; return the outputs of the template.

        What cannot succeed as declared is removed, so that it costs nothing. Everything else stays
        for the next `up`; so does what was up before.
        """
        store, record = self.store, self.record
        store.data.cost = self.preflight.cost
        limit_s = DEPLOYED_S["gateway" if self.topology.gateways else "vm"]
        try:
            return groups.deploy(az, record, self.creation, store.write, limit_s)
        except AzError as failure:
            if record.proven:
                raise AzureError(str(failure)) from None
            if failure.kind in FINAL:
                try:
                    groups.remove(az, [record], store.gone)
                except AzureError as trouble:
                    say_aloud(str(trouble))
            raise

    def proven(self, az: Runs, outputs: dict[str, Any]) -> Deployment:
        """Return the hosts that were created, with proofs that they match the declaration."""
        declared, name = self.topology, self.record.name
        say_aloud(f"{name}: asking the cloud and the guests for proof")
        hosts = self._hosts(outputs["addresses"])
        zones = self.preflight.physical_zones
        placed, links = proof.cloud(az, name, declared, zones)
        stopped = [f"{vm} ({seen.power})" for vm, seen in placed.items() if seen.stopped]
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
                f"{facts[hosts[0].name]} (port 22 is open to "
                f"{', '.join(self.preflight.allow_from)}; if SSH leaves from "
                "another address, give hosts.options.allow_from)"
            )
        seen = paths(reached, tuple(declared.paths), marker=name)
        deployment = Deployment(
            deployment_id=name,
            source="azure",
            hosts=tuple(proof.proven(declared, placed, hosts, facts)),
            created_utc=self.record.tags[CREATED],
            proofs=(*links, *proof.path_proofs(declared, seen)),
        )
        say_doubts(deployment, say_aloud)
        self.record.proven = True
        self.store.write()
        return deployment

    def _hosts(self, addresses: list[dict[str, str]]) -> tuple[Host, ...]:
        """The hosts, without proofs."""
        config = self.options.ssh_config
        if config:
            config = str(Path(config).expanduser())
        reach = {row["name"]: row["public"] or row["private"] for row in addresses}
        keys = self.store.known_hosts(self.record.name, reach)
        return tuple(
            Host(
                name=row["name"],
                address=reach[row["name"]],
                data_address=row["data"],
                own_address=row["private"] if row["data"] != row["private"] else None,
                user=template.USER,
                identity=str((self.store.files / IDENTITY).resolve()),
                known_hosts=str(keys.resolve()),
                ssh_config=config,
                owned=True,
            )
            for row in addresses
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
    found = groups.leftovers(az_module.Az(subscription))
    return [group for group in found if group.expired or not expired]


def down_all(subscription: str, deployments: Iterable[Leftover]) -> None:
    """Delete what `leftovers` found, and prove that it is gone."""
    groups.remove(az_module.Az(subscription), deployments)
