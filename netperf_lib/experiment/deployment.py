"""The hosts of a measurement, and what is proven of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .factors import is_address


def check_address(text: str) -> str:
    """Return a host name or address without characters that a shell would interpret or ssh refuses.

    ValueError otherwise: an ssh configuration may hand it to a shell (``ProxyCommand sh -c "… %h
    …"``).
    """
    is_number = ":" in text or re.fullmatch(r"[0-9.]+", text)
    if not re.fullmatch(r"[\w:][\w.:%-]*", text) or (is_number and not is_address(text)):
        raise ValueError(
            f"{text!r} is not a host name or address: it has letters, digits and any of .:%-_, "
            "and no brackets; give the user and the port as `user` and `port`"
        )
    return text


def check_user(text: str) -> str:
    """Return a user name, checked as ssh checks it."""
    if (
        not text
        or text.startswith("-")
        or re.search(r"""['`";&<>|(){}\x00-\x1f\x7f]|\s-|\\$""", text)
    ):
        raise ValueError(
            f"{text!r} is not a user name: it must not start with '-' or contain quotes or any of "
            f";&<>|(){{}}"
        )
    return text


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim about a host or placement, and the evidence for it."""

    claim: str
    holds: bool | None
    """True, False, or None if it could not be determined."""
    evidence: str = ""
    factor: bool = False
    """Whether a declared factor, such as the placement, rests on it: nothing is measured if it
    is false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine reachable over SSH."""

    name: str
    address: str
    """Management address, which SSH connects to."""
    data_address: str
    """Address that the tests run against."""
    own_address: str | None = None
    """The host's own address, where `data_address` is translated to it: by a load balancer, or a
    public address."""
    port: int = 22
    user: str | None = None
    ssh_config: str | None = None
    """OpenSSH client configuration file; None: the user's own."""
    identity: str | None = None
    """Private key file; None: as given by the configuration or the agent."""
    known_hosts: str | None = None
    """File with the pinned host key; None: the user's own."""
    owned: bool = False
    """Created by this project: network settings may be changed (and are restored)."""
    region: str | None = None
    zone: str | None = None
    """Logical zone: its number is the subscription's own."""
    zone_physical: str | None = None
    ppg: str | None = None
    vm_size: str | None = None
    accelerated: bool | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further factors of this host; each is ``client_<name>`` or ``server_<name>`` of a run."""
    proofs: tuple[Proof, ...] = ()

    def __post_init__(self) -> None:
        check_address(self.address)
        check_address(self.data_address)
        if self.user is not None:
            check_user(self.user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One act of placing hosts."""

    deployment_id: str
    source: str
    hosts: tuple[Host, ...]
    notice: str | None = None
    """Notice that every table and page made from these hosts must show, for example that they
    are emulated."""
    created_utc: str | None = None
    proofs: tuple[Proof, ...] = ()

    def host(self, name: str) -> Host:
        """Return the host called `name`."""
        known = {host.name: host for host in self.hosts}
        if name not in known:
            raise KeyError(f"no host {name!r} (known: {', '.join(known)})")
        return known[name]

    def claims(self) -> list[tuple[str, Proof]]:
        """Return every claim with its host; an empty name for those about the deployment."""
        claims = []
        for host in self.hosts:
            claims += [(host.name, proof) for proof in host.proofs]
        return claims + [("", proof) for proof in self.proofs]

    def contradictions(self) -> list[str]:
        """Return the claims of declared factors that are proven false, with the evidence."""
        false = []
        for name, proof in self.claims():
            if proof.factor and proof.holds is False:
                words = f"{name}: {proof.claim} ({proof.evidence})"
                false.append(words.removeprefix(": "))
        return false

    def doubts(self) -> list[str]:
        """Return every claim that is false or not proven, with the evidence."""
        words = {False: "NOT TRUE", None: "not proven"}
        return [
            f"{name or self.deployment_id}: {words[p.holds]}: {p.claim} ({p.evidence})"
            for name, p in self.claims()
            if not p.holds
        ]
