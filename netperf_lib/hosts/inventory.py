"""Existing hosts: in Azure, in another cloud, on premises.

Nothing is created, changed or deleted.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from ..experiment.deployment import Deployment, Host
from ..experiment.model import Address, Experiment, User
from .guests import guest_proofs, guests, one_machine
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
    """A list of hosts."""

    hosts: dict[str, Machine]
    """Hosts by name."""
    user: User | None = None
    """User to log in as, for hosts without one of their own."""
    identity: str | None = None
    """Private key file, for hosts without one of their own."""
    ssh_config: str | None = None
    """OpenSSH configuration file, for hosts without one of their own."""

    @model_validator(mode="after")
    def _pairs_listed(self, info: ValidationInfo) -> Self:
        """Refuse pairs of the experiment (the context) that name hosts not listed here."""
        if unknown := unknown_host(info.context or (), self.hosts, "inventory"):
            raise ValueError(unknown)
        return self


def up(
    experiment: Experiment,
    *,
    number: int,
    state: Path,
    workload: Workload = NOTHING_KNOWN,
) -> Deployment:
    """Return the hosts that the pairs name, with proofs of their properties."""
    options = read_options(experiment, Options)
    pairs = [(pair.client, pair.server) for pair in experiment.pairs]
    hosts = tuple(_host(name, options) for name in dict.fromkeys(chain(*pairs)))
    facts = guests(hosts, marker=f"inventory-{experiment.name}", wait_s=0)
    proven = []
    for host in hosts:
        proofs = guest_proofs(host.accelerated, facts[host.name])
        proven.append(replace(host, proofs=tuple(proofs)))
    deployment = Deployment(
        deployment_id=f"inventory-{experiment.name}-{number}",
        source="inventory",
        hosts=tuple(proven),
        proofs=one_machine(pairs, facts),
    )
    say_doubts(deployment, say_aloud)
    return deployment


def down(experiment: Experiment, *, state: Path, number: int | None = None) -> None:
    """Do nothing."""


def cost(experiment: Experiment, *, workload: Workload) -> Price:
    """Return that nothing is created."""
    return Price("nothing beyond what the hosts cost anyway: they already exist")


def _host(name: str, options: Options) -> Host:
    fields = options.hosts[name].model_dump(exclude_none=True)
    shared = options.model_dump(exclude={"hosts"}, exclude_none=True)
    fields = {"address": name, **shared, **fields}
    for file in ("identity", "ssh_config"):
        if file in fields:
            fields[file] = str(Path(fields[file]).expanduser())
    fields.setdefault("data_address", fields["address"])
    return Host(name=name, **fields)
