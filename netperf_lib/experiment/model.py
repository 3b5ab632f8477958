"""The data of the project, frozen: what is declared, what is scheduled.

Declared (pydantic, read from a yaml file): `Experiment` and its parts. Scheduled: `Trial`. Nothing
here does I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from ..metrics import ALPHA, MARGIN
from ..quantities import read_quantity
from ..tools import TOOLS, Request
from .deployment import check_address, check_user
from .factors import Level, factor

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
"""A name that is safe as a file name, a host name and an Azure tag."""


Address = Annotated[str, AfterValidator(check_address)]
User = Annotated[str, AfterValidator(check_user)]


def _text(level: object) -> object:
    """Convert numbers and flags given as labels to text: ``rack: 7``."""
    return factor("").cast(level) if isinstance(level, int | float) else level


Labels = dict[Name, Annotated[str, BeforeValidator(_text)]]
"""Labels that the user adds to a pair or host: each is a factor of its own, and its levels are
text."""

Factors = Annotated[
    dict[str, Level],
    AfterValidator(
        lambda levels: {name: factor(name).cast(level) for name, level in levels.items()}
    ),
]
"""Factors with their levels."""


SOURCES = ("lab", "inventory", "azure")
"""Modules of `netperf_lib.hosts` that hosts come from."""

if TYPE_CHECKING:
    Tool: TypeAlias = str
    LoadTool: TypeAlias = str
    Source: TypeAlias = str
else:
    Source = Literal[(*SOURCES, "imported")]
    Tool = Literal[tuple(sorted(TOOLS))]
    LoadTool = Literal[
        tuple(sorted(name for name, tool in TOOLS.items() if tool.LOAD_TESTS))
    ]


OptionValue: TypeAlias = str | int | float | bool
"""Value of an option of a test."""


class _Declared(BaseModel):
    """Base of what people write in YAML: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _quantity(unit: str) -> BeforeValidator:
    """Read a text as a quantity in a unit; anything else is left to the type."""
    return BeforeValidator(lambda v: read_quantity(v, unit) if isinstance(v, str) else v)


_SIZE, _SECONDS = _quantity("bytes"), _quantity("s")


class Pair(_Declared):
    """An ordered pair of hosts and the placement that it represents."""

    client: Name
    """Host that starts the test: it sends, or makes requests."""
    server: Name
    """Host that answers."""
    placement: Name
    """`ppg`, `same-zone`, `cross-zone`, `cross-region`, or a path such as `standard-lb`, `vpn`,
    `public-ip`."""
    accelerated: bool | None = None
    """Accelerated networking (SR-IOV) on both ends; null if unknown."""
    tcp_buffer_bytes: Annotated[int, _SIZE, Field(gt=0, le=2**40)] | None = None
    """Largest TCP buffer that the hosts of this pair allow, if that is a property of the hosts."""
    bandwidth_mbps: float | None = Field(default=None, gt=0)
    """Advertised bandwidth of this path in Mbit/s, for example that of a gateway; null: as the
    experiment says."""
    labels: Labels = {}
    """Further factors of this pair, for example ``{gateway_sku: ErGw1AZ}``."""


class Load(_Declared):
    """Traffic on the same pair while a test measures: the latency is then the working latency."""

    tool: LoadTool = "iperf3"
    """Tool that generates the load."""
    test: Name = "tcp"
    """A test of that tool."""
    streams: int = Field(default=1, ge=1, le=128)
    """Parallel streams of the load."""
    options: dict[str, OptionValue] = {}
    """Further options of that test, for example `{bitrate: 100M}`."""

    def __str__(self) -> str:
        options = "".join(f" {k}={v}" for k, v in sorted(self.options.items()))
        return f"{self.tool} {self.test} ×{self.streams}{options}"


OPTIONS = {option.name: option for tool in TOOLS.values() for option in tool.OPTIONS}


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return the value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


class TestSpec(_Declared):
    """One test of one tool, and the factor levels it is crossed with."""

    __test__ = False  # not a pytest class
    tool: Tool
    """Tool that measures."""
    test: Name
    """A test of that tool, for example `tcp_lat`, `tcp_bw`, `tcp`, `udp`, `ping-pong`."""
    duration_s: Annotated[float, _SECONDS] = Field(default=10, gt=0, le=3600)
    """Duration of the measurement in seconds."""
    omit_s: Annotated[float, _SECONDS] = Field(default=0, ge=0, le=60)
    """Seconds at the start that the tool itself omits (iperf3 `-O`)."""
    streams: tuple[Annotated[int, Field(ge=1, le=128)], ...] = Field(
        default=(1,), min_length=1
    )
    """Numbers of parallel streams, for example `[1, 4, 16]`; each is a condition."""
    tcp_buffer_bytes: tuple[
        Annotated[int, _SIZE, Field(ge=4096, le=2**31)] | None, ...
    ] = Field(default=(None,), min_length=1)
    """TCP buffers to test, in bytes; null: those of the hosts. They are set as kernel limits on
    hosts that this project creates, and on the tool's own sockets on all others."""
    message_bytes: tuple[Annotated[int, _SIZE, Field(ge=1, le=2**26)] | None, ...] = (
        Field(default=(None,), min_length=1)
    )
    """Message sizes; null: chosen by the tool."""
    placements: tuple[Name, ...] | None = Field(default=None, min_length=1)
    """Only pairs with these placements; null: all pairs."""
    options: dict[
        str, OptionValue | Annotated[tuple[OptionValue | None, ...], Field(min_length=1)]
    ] = {}
    """Further options of the test, as declared by its tool; each value of a list is a condition
    (null: the default).

    An option can also stand beside `tool` and `test`: `bitrate: [1G, 5G]`."""
    during: Load | None = None
    """Measure while this load runs."""

    @model_validator(mode="before")
    @classmethod
    def _named_options(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        if not isinstance(values.get("options", {}), Mapping):
            return values
        others, options = dict(values), dict(values.get("options", {}))
        for name in values.keys() & OPTIONS.keys():
            if name in options:
                raise ValueError(f"{name} stands in options and beside them; keep one")
            options[name] = others.pop(name)
        if options:
            others["options"] = options
        return others


Margin = Annotated[float, _quantity("ratio"), Field(gt=0, lt=1)]


class Contrast(_Declared):
    """A comparison declared before the data.

    Condition A against condition B, or against a threshold.

    With `b`, the question is which side is better by more than the margin, or whether they are
    equivalent. With `below` or `at_least`, it is whether condition A meets the threshold.
    """

    metric: str
    """Metric to compare, for example `latency_oneway_us`."""
    a: Factors
    """Condition A: factors and their levels, for example `{placement: ppg}`."""
    b: Factors | None = None
    """Condition B, with which A is compared."""
    margin: Margin = MARGIN
    """Ratios within 1/(1+margin) … 1+margin count as equivalent: 0.1 or `10 %`."""
    below: float | str | None = None
    """A threshold that A must stay below, for example `1 ms`; a number is in the unit of the
    metric."""
    at_least: float | str | None = None
    """A threshold that A must reach, for example `900 Mbit/s` or `90 % of 10 Gbit/s`."""
    of: str | None = None
    """The bandwidth to which a threshold in per cent refers."""
    question: str | None = None
    """The question in words, as the report shows it."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        kinds = [
            name for name in ("b", "below", "at_least") if getattr(self, name) is not None
        ]
        if len(kinds) != 1:
            raise ValueError(
                "a contrast has exactly one of b, below, at_least; this one has "
                f"{' and '.join(kinds) or 'none'}"
            )
        return self


class Compare(_Declared):
    """A family of contrasts in one line.

    Every level of a factor against a baseline, for each metric.

    The sides of a contrast differ in the factor alone: if streams or buffers also vary, each of
    their levels has one.
    """

    factor: str
    """Factor whose levels are compared."""
    baseline: Level = None
    """The level to compare the others with; default: the first in the natural order, such as
    `ppg` or null."""
    levels: tuple[Level, ...] | None = Field(default=None, min_length=1)
    """Levels to compare with the baseline; null: all others."""
    metrics: tuple[str, ...] | None = Field(default=None, min_length=1)
    """Metrics to compare; default: those of latency_oneway_us, rtt_us and throughput_bps that
    are measured."""
    margin: Margin = MARGIN
    """Margin of each contrast."""
    where: Factors = {}
    """Levels of other factors that both sides have."""


class HostsSpec(_Declared):
    """Where the hosts come from."""

    source: Source
    """`lab`, `inventory` or `azure`; `imported` means existing logs: nothing is measured."""
    options: dict[str, Any] = {}
    """Options of that source, which it declares and checks itself."""


class Experiment(_Declared):
    """A declared experiment: hosts, pairs, tests, rounds, contrasts."""

    name: Name
    """Name of the experiment, and of its folder under the data root."""
    title: str = ""
    """The question it asks, shown on the cover of the report."""
    hosts: HostsSpec
    """Where the hosts come from."""
    pairs: tuple[Pair, ...] = Field(default=(), validate_default=True)
    """Pairs of hosts to measure."""
    tests: tuple[TestSpec, ...] = Field(default=(), validate_default=True)
    """Tests to run on each pair."""
    rounds: int = Field(default=10, ge=1, le=10_000)
    """Rounds of each deployment; in a round every condition is measured once, in random order."""
    deployments: int = Field(default=1, ge=1, le=100)
    """How many times the hosts are placed; a claim about a placement needs several deployments."""
    seed: int | None = Field(default=None, ge=0, lt=2**63)
    """Seed of the random order; null: drawn at random and stored with the plan."""
    contrasts: tuple[Contrast, ...] = ()
    """Comparisons declared before the data; the first run freezes them."""
    compare: Annotated[
        tuple[Compare, ...], BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)
    ] = ()
    """Families of contrasts, one or a list; expanded into `contrasts` when the file is read."""
    factors: tuple[str, ...] | None = None
    """Of imported logs, the columns of runs that describe a condition: written by the import, and
    yours to edit; null: all that vary."""
    alpha: float = Field(default=ALPHA, gt=0, lt=0.5)
    """Share of reports that may contain a false verdict."""
    bandwidth_mbps: float | None = Field(default=None, gt=0)
    """Advertised bandwidth of the hosts in Mbit/s; null: that of their VM sizes, from the hosts'
    options."""
    pause_s: float = Field(default=0, ge=0, le=600)
    """Pause between trials in seconds."""
    attempts: int = Field(default=2, ge=1, le=10)
    """Total number of attempts at a trial that fails."""
    budget: float | None = Field(default=None, gt=0)
    """Maximum cost of the experiment, all its deployments together, in the currency of the price
    list; null: no limit."""

    def advertised_bps(self, pair: Pair) -> float | None:
        """Return the bandwidth advertised for a pair, in bit/s; None if none is declared.

        The pair's own ``bandwidth_mbps``, else the experiment's, else the lower one of the two VM
        sizes in ``hosts.options.bandwidth_mbps``.
        """
        declared = pair.bandwidth_mbps or self.bandwidth_mbps
        if declared is None:
            declared = self._bandwidth_of_sizes(pair)
        return None if declared is None else declared * 1e6

    def _bandwidth_of_sizes(self, pair: Pair) -> float | None:
        """Return the bandwidth in Mbit/s of the smaller VM of a pair, if both are declared."""
        options = self.hosts.options
        known = as_mapping(options.get("bandwidth_mbps"))
        hosts = {**as_mapping(options.get("hosts")), **as_mapping(options.get("vms"))}
        speeds = []
        for name in (pair.client, pair.server):
            size = as_mapping(hosts.get(name)).get("vm_size") or options.get("vm_size")
            speed = known.get(str(size))
            if not isinstance(speed, int | float) or speed <= 0:
                return None
            speeds.append(float(speed))
        return min(speeds)

    @field_validator("pairs", "tests")
    @classmethod  # imported runs were not scheduled here
    def _something_to_measure(
        cls, value: tuple[Any, ...], info: ValidationInfo
    ) -> tuple[Any, ...]:
        hosts = info.data.get("hosts")
        if not value and hosts is not None and hosts.source != "imported":
            raise ValueError("is missing or empty; give at least one")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Planned: this test, on this pair, in this condition, in this round."""

    pair: Pair
    test: TestSpec
    deployment: int = 0
    round: int = 0
    order: int = 0
    """Position in the whole schedule, from 0."""
    streams: int = 1
    tcp_buffer_bytes: int | None = None
    message_bytes: int | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    advertised_bps: float | None = None
    """Bandwidth advertised for the pair."""
    leading: bool = False
    """Measured so that what follows it has a known predecessor: its log is kept, and it is no
    run of the table."""

    @property
    def run_id(self) -> str:
        """Name of the run folder.

        Stable for a place in the schedule, readable, and unique in an experiment.
        """
        digest = hashlib.blake2s(repr(self.condition).encode(), digest_size=4).hexdigest()
        place = f"d{self.deployment:02d}-r{self.round:03d}"
        name = f"{place}-{self.test.tool}-{self.test.test}-{self.pair.placement}-{digest}"
        return f"{name}-lead" if self.leading else name

    @property
    def requested_buffer_bytes(self) -> int | None:
        """TCP buffers that the test asks for.

        If they differ from those of the hosts of the pair.
        """
        if self.tcp_buffer_bytes == self.pair.tcp_buffer_bytes:
            return None
        return self.tcp_buffer_bytes

    @property
    def request(self) -> Request:
        """What the tool is asked to run.

        Buffers that the hosts have already are not asked for: no more autotuning.
        """
        spec = self.test
        return Request(
            tool=spec.tool,
            test=spec.test,
            duration_s=spec.duration_s,
            omit_s=spec.omit_s,
            streams=self.streams,
            tcp_buffer_bytes=self.requested_buffer_bytes,
            message_bytes=self.message_bytes,
            loaded=spec.during is not None,
            options=self.options,
        )

    @property
    def condition(self) -> tuple[Any, ...]:
        """What distinguishes this trial from the others of its round."""
        pair, spec = self.pair, self.test
        condition: tuple[Any, ...] = (
            pair.client,
            pair.server,
            pair.placement,
            spec.tool,
            spec.test,
            # a default may be an int: 10 and 10.0 are one condition
            float(spec.duration_s),
            float(spec.omit_s),
            self.streams,
            self.tcp_buffer_bytes,
            self.message_bytes,
            tuple(sorted(self.options.items())),
        )
        if spec.during:
            condition += (str(spec.during),)
        if pair.labels:
            condition += (tuple(sorted(pair.labels.items())),)
        return condition
