"""Topology of the lab: its hosts, the links between them, and their settings. Pure data, no I/O."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ...experiment.model import Name
from ..source import unknown_host

LabPlacement = Literal["ppg", "same-zone", "cross-zone", "cross-region"]
Rate = Annotated[float, Field(ge=1e5, le=1e11)]
Sysctls = dict[
    Annotated[
        str, Field(pattern=r"^net(\.[A-Za-z0-9_-]+)+$", examples=["net.ipv4.tcp_rmem"])
    ],
    str,
]
"""Settings under `net`, of which every host has its own; any other would affect this machine."""

FIRST_ADDRESS = 4
"""The first address that a real Azure subnet hands out."""
STRETCH = 10
"""Delays inside a region are this many times those of a real one, so that the emulation adds
little to them."""
VARIATION = 0.015
"""Of the delays inside a region: enough to hide a difference of a hundredth from a single run."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LabHost(_Strict):
    """One emulated host: where it claims to be, and the cost of its network interface."""

    name: Name
    """Name of the host, as used in pairs."""
    region: str = "region-1"
    """Region: two hosts in different regions are `cross-region`."""
    zone: str = Field(default="1", coerce_numbers_to_str=True)
    """Zone: two hosts in the same region and different zones are `cross-zone`."""
    ppg: str | None = None
    """Proximity placement group: two hosts in the same one are `ppg`."""
    accelerated: bool = True
    """A label only: the cost of a slow interface is set by `extra_delay_us` and
    `extra_jitter_us`."""
    egress_bps: Rate = 8e9
    """Rate at which the host may send, to all others together."""
    extra_delay_us: float = Field(default=0, ge=0, le=1e7)
    """Delay added one way to every packet that this host sends or receives."""
    extra_jitter_us: float = Field(default=0, ge=0, le=1e7)
    """Jitter, uniform from 0 to this, added to `extra_delay_us`."""
    sysctls: Sysctls = {}
    """Settings of this host alone."""


class Link(_Strict):
    """The link between two hosts, one way; both directions are alike."""

    delay_us: float = Field(ge=0, le=1e7)
    """One-way delay; the emulation itself adds some tens of microseconds."""
    jitter_us: float = Field(default=0, ge=0, le=1e7)
    """Jitter, uniform from 0 to this, added to the delay; packets keep their order."""
    variation: float = Field(default=0, ge=0, le=0.5)
    """Standard deviation of the delay from one second to the next, as a share of it."""
    rate_bps: Rate | None = None
    """Rate of the link; null: no limit."""
    loss: float = Field(default=0, ge=0, lt=1)
    """Share of packets lost at random. Even 1e-4 on a long link cripples a single TCP stream."""


def _default_hosts() -> tuple[LabHost, ...]:
    return (
        LabHost(name="client", ppg="ppg-1"),
        LabHost(name="ppg", ppg="ppg-1"),
        LabHost(name="zone"),
        LabHost(name="xzone", zone="2"),
        LabHost(name="region", region="region-2"),
        LabHost(name="plain", accelerated=False, extra_delay_us=780, extra_jitter_us=200),
    )


def _default_links() -> dict[str, Link]:
    # published for Azure: one way 40, 58 and 57 µs, without accelerated networking 146 µs, and
    # 10 ms to another region. 58 and 57 are the same for whom a cloud's noise is in the way: here
    # they are equal, and vary, so that a single run says nothing of which is the shorter.
    return {
        "ppg": Link(delay_us=40 * STRETCH),
        "same-zone": Link(delay_us=58 * STRETCH, variation=VARIATION),
        "cross-zone": Link(delay_us=58 * STRETCH, variation=VARIATION),
        "cross-region": Link(delay_us=10_000, jitter_us=200, rate_bps=2.5e9),
    }


class Options(_Strict):
    """Options under ``hosts: options:`` of an experiment in the lab; all have defaults."""

    hosts: tuple[LabHost, ...] = Field(
        default_factory=_default_hosts, min_length=2, max_length=64
    )
    """The hosts; default: `client`, and one at every distance from it."""
    links: dict[str, Link] = Field(default_factory=_default_links)
    """Links by placement (`ppg`, `same-zone`, `cross-zone`, `cross-region`) or, with precedence,
    by two hosts (`client/zone`); links not given keep their defaults."""
    sysctls: Sysctls = {
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
        "net.ipv4.tcp_wmem": "4096 16384 2621440",
    }
    """Settings of every host. The send buffer limits a single stream over a long path here, so
    tuning it matters."""
    queue_us: float = Field(default=30_000, gt=0, le=1e7)
    """How long a packet may wait for its turn, at the sender's interface and at the link, before
    it is dropped."""
    udp_bps: Rate = 1e8
    """Rate at which a host may send over UDP. The sender is held back, so nothing is lost on the
    way. A receiver scheduled late loses what its socket (208 KiB by default, some 90 datagrams)
    cannot hold: at 100 Mbit/s that is 10 ms, and none of 5·10⁵ datagrams was lost with both of
    two processors busy; at 300 Mbit/s 0.4 % were."""
    mtu: int = Field(default=1500, ge=576, le=65000)
    """Largest packet in bytes."""

    @field_validator("links", mode="after")
    @classmethod
    def _keep_defaults(cls, links: dict[str, Link]) -> dict[str, Link]:
        return _default_links() | links

    @model_validator(mode="after")
    def _names_fit(self) -> Options:
        names = [h.name for h in self.hosts]
        if len(set(names)) != len(names):
            raise ValueError("two hosts have the same name")
        if "localhost" in names:
            raise ValueError("'localhost' cannot be the name of a host")
        for key in self.links.keys() - _default_links().keys():
            names_linked = key.split("/")
            if len(names_linked) != 2 or len(set(names_linked) & set(names)) != 2:
                raise ValueError(
                    f"link {key!r} is neither a placement ({', '.join(_default_links())}) nor two "
                    "hosts such as "
                    f"'{names[0]}/{names[1]}'"
                )
        return self

    @model_validator(mode="after")
    def _pairs_fit(self, info: ValidationInfo) -> Options:
        """Refuse pairs of the experiment, the context, that do not fit its hosts.

        They name an unknown host, or another placement than that of their hosts.
        """
        by_name = {h.name: h for h in self.hosts}
        if unknown := unknown_host(info.context or (), by_name, "lab"):
            raise ValueError(unknown)
        for pair in info.context or ():
            placement = _placement(by_name[pair.client], by_name[pair.server])
            if pair.placement != placement and pair.placement in get_args(LabPlacement):
                raise ValueError(
                    f"the pair {pair.client} and {pair.server} is declared {pair.placement!r}, "
                    "but its hosts are "
                    f"{placement!r}: change the placement of the pair, or region, zone or ppg of "
                    "a host"
                )
        return self

    def address(self, name: str) -> str:
        """Return the address of the host called `name` inside the lab."""
        return f"10.10.0.{FIRST_ADDRESS + [h.name for h in self.hosts].index(name)}"

    def host(self, name: str) -> LabHost:
        """Return the host called `name`; KeyError when there is none."""
        return {h.name: h for h in self.hosts}[name]

    def path(self, a: str, b: str) -> Link:
        """Return everything between the hosts `a` and `b`, one way, as requested."""
        one, other = self.host(a), self.host(b)
        link = (
            self.links.get(f"{a}/{b}")
            or self.links.get(f"{b}/{a}")
            or self.links[_placement(one, other)]
        )
        delay_us = link.delay_us + one.extra_delay_us + other.extra_delay_us
        jitter_us = link.jitter_us + one.extra_jitter_us + other.extra_jitter_us
        return link.model_copy(update={"delay_us": delay_us, "jitter_us": jitter_us})


def _placement(a: LabHost, b: LabHost) -> LabPlacement:
    if a.region != b.region:
        return "cross-region"
    if a.zone != b.zone:
        return "cross-zone"
    return "ppg" if a.ppg is not None and a.ppg == b.ppg else "same-zone"
