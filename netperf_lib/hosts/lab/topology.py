"""What the lab looks like: its hosts, the links between them, and the settings of both. Pure data, no I/O."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from ...experiment.model import Name
from ..source import unknown_host

Placement = Literal["ppg", "same-zone", "cross-zone", "cross-region"]
Rate = Annotated[float, Field(ge=1e5, le=1e11)]
Sysctls = dict[Annotated[str, Field(pattern=r"^net(\.[A-Za-z0-9_-]+)+$")], str]
"""Settings below `net`, of which every host has its own; any other would be this machine's."""

FIRST_ADDRESS = 4
"""The first address that a real Azure subnet hands out."""


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LabHost(_Strict):
    """One emulated host: where it claims to be, and what its own network interface costs."""

    name: Name
    """Name of the host, as pairs name it."""
    region: str = "region-1"
    """Two hosts of different regions are `cross-region`."""
    zone: str = "1"
    """Two hosts of one region and different zones are `cross-zone`."""
    ppg: str | None = None
    """Proximity placement group: two hosts of the same one are `ppg`."""
    accelerated: bool = True
    """A label only: what a slow interface costs is said by `extra_delay_us` and `extra_jitter_us`."""
    egress_bps: Rate = 8e9
    """What the host may send, to all others together."""
    extra_delay_us: float = Field(default=0, ge=0, le=1e7)
    """Added one way to every packet that this host sends or receives."""
    extra_jitter_us: float = Field(default=0, ge=0, le=1e7)
    """Uniform from 0 to this, added to `extra_delay_us`."""
    sysctls: Sysctls = {}
    """Of this host alone."""

    @field_validator("zone", mode="before")
    @classmethod
    def _zone_is_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) else value  # `zone: 1` is what people write


class Link(_Strict):
    """What lies between two hosts, one way; both directions are alike."""

    delay_us: float = Field(ge=0, le=1e7)
    """One way, as a tool on the hosts measures it: the lab takes off what the emulation itself costs."""
    jitter_us: float = Field(default=0, ge=0, le=1e7)
    """Uniform from 0 to this, added to the delay; packets keep their order."""
    rate_bps: Rate | None = None
    """Rate of the link; null: no limit."""
    loss: float = Field(default=0, ge=0, lt=1)
    """Share of packets lost at random. Even 1e-4 over a long link takes a single TCP stream apart."""


_BIG_BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 67108864", "net.ipv4.tcp_wmem": "4096 16384 67108864"}


def _default_hosts() -> tuple[LabHost, ...]:
    return (
        LabHost(name="client", ppg="ppg-1"),
        LabHost(name="ppg", ppg="ppg-1"),
        LabHost(name="zone"),
        LabHost(name="xzone", zone="2"),
        LabHost(name="region", region="region-2"),
        LabHost(name="plain", accelerated=False, extra_delay_us=100, extra_jitter_us=40),
        LabHost(name="zone-64m", sysctls=_BIG_BUFFERS),
        LabHost(name="region-64m", region="region-2", sysctls=_BIG_BUFFERS),
    )


def _default_links() -> dict[str, Link]:
    # the orders of magnitude that were published for Azure: one-way 40, 58 and 57 µs, and 10 ms to another region
    return {
        "ppg": Link(delay_us=40),
        "same-zone": Link(delay_us=58),
        "cross-zone": Link(delay_us=57),
        "cross-region": Link(delay_us=10_000, jitter_us=200, rate_bps=2.5e9),
    }


class Options(_Strict):
    """What stands under ``hosts: options:`` of an experiment in the lab; everything has a default."""

    hosts: tuple[LabHost, ...] = Field(default_factory=_default_hosts, min_length=2, max_length=64)
    """The hosts; default: `client`, and one at every distance from it."""
    links: dict[str, Link] = Field(default_factory=_default_links)
    """By placement (`ppg`, `same-zone`, `cross-zone`, `cross-region`) or, before that, by two hosts (`client/zone`);
    what is not given keeps its default."""
    sysctls: Sysctls = {"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 2621440"}
    """Of every host. The send buffer is what limits a single stream over a long path here, so tuning it shows."""
    queue_us: float = Field(default=30_000, gt=0, le=1e7)
    """How long a packet may wait for its turn, at the sender's interface and at the link, before it is dropped."""
    udp_bps: Rate = 1e8
    """What a host may send over UDP. The sender is held back, so nothing is lost on the way. A receiver whose turn on
    the processor comes late loses what its socket (208 KiB by default, some 90 datagrams) cannot hold: at 100 Mbit/s
    that is 10 ms, and nothing was lost of 5·10⁵ datagrams with both of two processors busy; at 300 Mbit/s 0.4 % was."""
    mtu: int = Field(default=1500, ge=576, le=65000)
    """Largest packet in bytes."""
    realtime: bool = False
    """Real-time priority for the emulation and the hosts: steadier delays on a busy machine; needs root."""
    calibrate: bool = True
    """Measure at start what the emulation costs by itself and take it off every delay (about two seconds)."""

    @field_validator("links", mode="after")
    @classmethod
    def _keep_defaults(cls, links: dict[str, Link]) -> dict[str, Link]:
        return _default_links() | links

    @model_validator(mode="after")
    def _names_fit(self) -> Options:
        names = [h.name for h in self.hosts]
        if len(set(names)) != len(names):
            raise ValueError("two hosts have the same name")
        if bad := [n for n in names if "/" in n or n == "localhost"]:
            raise ValueError(f"{bad[0]!r} cannot be the name of a host")
        for key in self.links.keys() - _default_links().keys():
            ends = key.split("/")
            if len(ends) != 2 or ends[0] == ends[1] or not set(ends) <= set(names):
                raise ValueError(
                    f"link {key!r} is neither a placement ({', '.join(_default_links())}) nor two hosts such as "
                    f"'{names[0]}/{names[1]}'"
                )
        return self

    @model_validator(mode="after")
    def _pairs_fit(self, info: ValidationInfo) -> Options:
        """Refuse pairs of the experiment (the context) of unknown hosts, or of a placement that is not theirs."""
        known = {h.name: h for h in self.hosts}
        if unknown := unknown_host(info.context or (), known, "lab"):
            raise ValueError(unknown)
        for pair in info.context or ():
            placement = _placement(known[pair.client], known[pair.server])
            if pair.placement != placement and pair.placement in get_args(Placement):
                raise ValueError(
                    f"the pair {pair.client} and {pair.server} is called {pair.placement!r}, and its hosts lie "
                    f"{placement!r}: change the placement of the pair, or region, zone or ppg of a host"
                )
        return self

    def address(self, name: str) -> str:
        """Address of the host called `name` inside the lab."""
        return f"10.10.0.{FIRST_ADDRESS + [h.name for h in self.hosts].index(name)}"

    def host(self, name: str) -> LabHost:
        """Return the host called `name`; KeyError when there is none."""
        return {h.name: h for h in self.hosts}[name]

    def path(self, a: str, b: str) -> Link:
        """Everything between the hosts `a` and `b`, one way, as it was asked for."""
        one, other = self.host(a), self.host(b)
        link = self.links.get(f"{a}/{b}") or self.links.get(f"{b}/{a}") or self.links[_placement(one, other)]
        delay_us = link.delay_us + one.extra_delay_us + other.extra_delay_us
        jitter_us = link.jitter_us + one.extra_jitter_us + other.extra_jitter_us
        return link.model_copy(update={"delay_us": delay_us, "jitter_us": jitter_us})


def _placement(a: LabHost, b: LabHost) -> Placement:
    if a.region != b.region:
        return "cross-region"
    if a.zone != b.zone:
        return "cross-zone"
    return "ppg" if a.ppg is not None and a.ppg == b.ppg else "same-zone"
