"""Existing hosts: in Azure, in another cloud, on premises. Nothing is created, changed or deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from ..errors import ExperimentError
from ..experiment.model import Address, Deployment, Experiment, Host, Proof, User
from .guests import guest_proofs, guests, one_machine
from .host_keys import pinned
from .source import (
    NOTHING_KNOWN,
    Price,
    Workload,
    read_options,
    say_aloud,
    say_doubts,
    unknown_host,
)
from .source import spent as spent

EPHEMERAL = False
"""The hosts already exist, and stay."""
HOLDS = True


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Machine(_Declared):
    """One host; null values are left to the user's own SSH configuration, or unknown."""

    address: Address | None = None
    """Where SSH connects; null: the host's name, which the SSH configuration may resolve."""
    data_address: Address | None = None
    """Address that the tests use; null: `address`."""
    port: Annotated[int, Field(ge=1, le=65535)] = 22
    """SSH port."""
    user: User | None = None
    """User to log in as."""
    identity: str | None = None
    """Private key file."""
    known_hosts: str | None = None
    """File with the host's public key."""
    ssh_config: str | None = None
    """OpenSSH configuration file."""
    region: str | None = None
    """Region, for tables and reports."""
    zone: str | None = None
    """Logical zone."""
    zone_physical: str | None = None
    """Physical zone."""
    ppg: str | None = None
    """Proximity placement group."""
    vm_size: str | None = None
    """VM size."""
    accelerated: bool | None = None
    """Accelerated networking."""


class Options(_Declared):
    """A list of hosts, or an Azure resource group from which to read them."""

    hosts: dict[str, Machine] = {}
    """Hosts by name. With `resource_group`: additions to what Azure reports."""
    resource_group: Annotated[str, Field(pattern=r"^[\w(][\w.()-]*$")] | None = None
    """Azure resource group whose VMs are the hosts."""
    subscription: Annotated[str, Field(pattern=r"^\w[^@]*$")] | None = None
    """Subscription of the resource group, by name or id; null: the one that `az` has selected."""
    management: Literal["public", "private"] = "public"
    """Which address of the VMs in the resource group SSH connects to."""
    user: User | None = None
    """User to log in as, for hosts without one of their own."""
    identity: str | None = None
    """Private key file, for hosts without one of their own."""
    ssh_config: str | None = None
    """OpenSSH configuration file, for hosts without one of their own."""
    host_keys: Literal["known", "first-contact"] = "known"
    """For hosts without `known_hosts`: `known` means keys in your own file; `first-contact` pins the first key that a
    host presents, which is flagged, and refuses any other from then on."""

    @model_validator(mode="after")
    def _some(self) -> Options:
        if not self.hosts and not self.resource_group:
            raise ValueError("give hosts, or a resource_group to read them from")
        return self

    @model_validator(mode="after")
    def _pairs_listed(self, info: ValidationInfo) -> Self:
        """Refuse pairs of the experiment (the context) that name hosts not listed here."""
        if not self.resource_group and (
            unknown := unknown_host(info.context or (), self.hosts, "inventory")
        ):
            raise ValueError(unknown)
        return self


def up(
    experiment: Experiment, *, number: int, state: Path, workload: Workload = NOTHING_KNOWN
) -> Deployment:
    """Return the hosts that the pairs name, with proofs of their properties."""
    options = read_options(experiment, Options)
    listed: dict[str, tuple[Host, tuple[Proof, ...]]] = {
        name: (_host(name, machine, options), ()) for name, machine in options.hosts.items()
    }
    if options.resource_group:
        listed |= _read(options)
    if unknown := unknown_host(experiment.pairs, listed, "inventory"):
        raise ExperimentError(f"{experiment.name}: {unknown}")
    names = dict.fromkeys(n for pair in experiment.pairs for n in (pair.client, pair.server))
    hosts = tuple(listed[n][0] for n in names)
    keys: dict[str, Proof] = {}
    if options.host_keys == "first-contact":
        hosts, keys = pinned(hosts, state / "host-keys")
    facts = guests(hosts, marker=f"inventory-{experiment.name}", wait_s=0)
    deployment = Deployment(
        deployment_id=f"inventory-{experiment.name}-{number}",
        source="inventory",
        hosts=tuple(
            replace(
                host,
                proofs=(
                    *listed[host.name][1],
                    *((keys[host.name],) if host.name in keys else ()),
                    *guest_proofs(host.accelerated, facts[host.name]),
                ),
            )
            for host in hosts
        ),
        proofs=one_machine(((pair.client, pair.server) for pair in experiment.pairs), facts),
    )
    say_doubts(deployment, say_aloud)
    return deployment


def down(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Do nothing."""


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Return that nothing is created."""
    return Price("nothing beyond what the hosts cost anyway: they already exist")


def _host(name: str, machine: Machine, options: Options) -> Host:
    fields = machine.model_dump(exclude_none=True)
    address = fields.pop("address", name)
    for shared in ("user", "identity", "ssh_config"):
        value = fields.get(shared) or getattr(options, shared)
        if value is not None:
            fields[shared] = str(Path(value).expanduser()) if shared != "user" else value
    return Host(
        name=name,
        address=address,
        data_address=fields.pop("data_address", address),
        owned=False,
        **fields,
    )


def _read(options: Options) -> dict[str, tuple[Host, tuple[Proof, ...]]]:
    from . import azure

    out = {}
    for vm in azure.existing(options.resource_group or "", subscription=options.subscription):
        reach = (vm.public if options.management == "public" else None) or vm.private
        described = {"address": reach, "data_address": vm.private, **azure.facts_of(vm)}
        own = (
            options.hosts[vm.name].model_dump(exclude_unset=True)
            if vm.name in options.hosts
            else {}
        )
        machine = Machine.model_validate({**described, **own})
        out[vm.name] = _host(vm.name, machine, options), tuple(azure.cloud_proofs(None, vm))
    return out
