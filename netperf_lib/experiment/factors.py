"""The one list of factors: what is known about the dimensions of a measurement beyond their names.

Every factor, option and label of a run is a dimension, and a column of the table of runs, without
being listed here. `FACTORS` adds to some of them what a reader or a schedule needs: how a level is
written and read, the order of the levels, the level that goes without saying. An option of a tool
that is not listed has the type that its tool declares. Any other factor is a user's label: text, in
alphabetical order. To tell the library about a new factor, add an entry here.

A *condition* is one level of every factor whose role is ``"condition"``. Factors of role ``"host"``
describe the two hosts (VM size, region, zone), and so follow from ``client`` and ``server``; those
of role ``"observed"`` are found while measuring (kernel, versions): they should stay the same; if
they do not, they are another possible explanation for a difference.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias

from ..metrics import EVIDENCE, METRICS, format_value
from ..quantities import read_quantity
from ..tools import TOOLS
from .placements import PLACEMENTS

Level: TypeAlias = str | int | float | bool | None

FLAGS = {
    "on": True,
    "true": True,
    "yes": True,
    "1": True,
    "off": False,
    "false": False,
    "no": False,
    "0": False,
}
"""How people write a flag."""
_LATENCY = re.compile(r"[a-z]+_lat|ping-pong|under-load|playback")


def is_latency(test: str) -> bool:
    """Return whether a test times single messages instead of filling the path."""
    return _LATENCY.fullmatch(test) is not None


@dataclass(frozen=True, slots=True)
class Factor:
    """What is known about one factor."""

    name: str
    """Column in the table of runs."""
    label: str = ""
    """Its name in headings and on axes."""
    _: KW_ONLY
    kind: Literal["text", "integer", "number", "flag"] = "text"
    """Type of a level."""
    role: Literal["condition", "host", "observed"] = "condition"
    """Part of a condition; a property of one of the two hosts; found while measuring."""
    minor: bool = False
    """Whether another level makes another condition only where it alone tells two runs of a round
    apart, as of everything that is found while measuring."""
    null: Literal["default", "none", "unknown"] = "none"
    """What a null means: the default of the system; that there is none; or nothing, for it is
    not known."""
    unit: str | None = None
    """Unit of a level as `format_value` writes it. A text in bit/s is a rate: ``1G``."""
    ordinary: Level = None
    """The level that goes without saying in the name of a condition."""
    order: tuple[str, ...] = ()
    """Levels in their natural order; others follow."""
    names: Mapping[Level, str] = field(default_factory=dict)
    """Names of levels, by which people also ask for them."""
    words: str | Callable[[Any], str] = ""
    """Words for a level in a sentence: a pattern with ``{}``, or a function; default: label and
    level."""
    follows: tuple[str, ...] = ()
    """Factors that determine this one: naming one of them also names this one."""

    @property
    def always_splits(self) -> bool:
        """Whether another level makes another condition in every case."""
        return not self.minor and self.role != "observed"

    @property
    def _is_rate(self) -> bool:
        return self.kind == "text" and self.unit == "bps"

    def level_words(self, level: Any) -> str:
        """Return the words for a level of this factor.

        ``16 streams``, ``1 MiB TCP buffer``, ``bitrate 1 Gbit/s``.
        """
        level = plain(level)
        title = (self.label or self.name).replace("_", " ")
        if level in self.names:
            return self.names[level]
        if level is None:
            return self._null_words(title)
        if callable(self.words):
            return self.words(level)
        if self.words:
            return self.words.format(self.written(level))
        if self.kind == "flag" and isinstance(level, bool):
            return title if level else f"not {title}"
        return f"{title} {self.written(level)}"

    def _null_words(self, title: str) -> str:
        """Return what is said of a level that is null."""
        if self.null == "unknown":
            return f"{title} not known"
        if self.kind == "text" and self.null != "default":
            return f"no {title}"
        return f"default {title}"

    def written(self, level: Any) -> str:
        """Return a level as people write it, and as `cast` reads it: ``16 MiB``, ``default``."""
        level = plain(level)
        if level in self.names:
            return self.names[level]
        if level is None:
            return "default" if self.null == "default" else "null"
        if isinstance(level, str):
            return level
        if self.unit:
            return format_value(level, self.unit)
        return str(level).removesuffix(".0")

    def cast(self, level: Any) -> Level:
        """Convert a level to the type of this factor.

        ``zone: 1`` in a YAML file means the zone "1".

        A text means the level that is written so: ``16 MiB``, ``default``, ``yes``. A value that
        cannot be converted is returned unchanged: no run has such a level.
        """
        value = plain(level)
        for known, name in self.names.items():
            if value == name:
                return known
        if value is None or (value == self.written(None) and self.name in FACTORS):
            return None
        if self.kind == "flag":
            return FLAGS.get(str(value).lower(), value)
        if self.kind == "text" and not self._is_rate:
            return str(value).lower() if isinstance(value, bool) else str(value)
        try:
            number = read_quantity(value, self.unit or "")
        except ValueError:
            return value
        if self.kind == "text":
            return _rate_level(number)
        whole = self.kind == "integer" and number.is_integer()
        return int(number) if whole else number

    def key(self, level: Any) -> tuple[Any, ...]:
        """Sort key of a level.

        Null first, then the natural order, numbers by size, text alphabetically.
        """
        level = plain(level)
        if level is None:
            return (0,)
        if self.order:
            place = (*self.order, level).index(level)
            return (1, place, _natural(level))
        if self._is_rate and (rate := read_rate(level)) is not None:
            level = rate
        return (1, *_natural(level))


def _natural(level: Level) -> tuple[Any, ...]:
    """Numbers before text; the numbers in a text count as numbers: vm2 before vm10."""
    if isinstance(level, int | float):
        return 0, level
    # text and digits in turns
    parts: list[Any] = re.split(r"(\d{1,15})", str(level))
    parts[1::2] = map(int, parts[1::2])
    return 1, parts


def read_rate(text: Any) -> float | None:
    """Return the bits per second of a rate such as ``1G``, ``800 Mbit/s`` or 1000000.

    None if it is not a rate.
    """
    try:
        return read_quantity(str(text).strip(), "bps")
    except ValueError:
        return None


def _rate_level(bps: float) -> str:
    """A rate as a level of a factor, written in one way: ``1G``, ``800M``."""
    for prefix, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        text = f"{bps / factor:g}"
        if bps >= factor and float(text) * factor == bps:
            return text + prefix
    return f"{bps:.0f}"


def _bitrate(level: Any) -> str:
    rate = read_rate(level)
    if rate is None:
        return f"bitrate {level}"
    return f"bitrate {format_value(rate, 'bps')}" if rate else "unlimited bitrate"


def _streams(level: Any) -> str:
    return "1 stream" if level == 1 else f"{level:g} streams"


def _of_both(
    name: str, label: str, role: Literal["host", "observed"] = "host"
) -> list[Factor]:
    """A property of a host: one column for the client, one for the server."""
    return [
        Factor(f"{side}_{name}", f"{side}'s {label}", role=role, null="unknown")
        for side in ("client", "server")
    ]


_CONDITIONS = (
    Factor("placement", order=tuple(PLACEMENTS), words="{}"),
    Factor(
        "accelerated",
        "accelerated networking",
        kind="flag",
        ordinary=True,
        names={
            True: "accelerated networking",
            False: "no accelerated networking",
            None: "accelerated networking not known",
        },
    ),
    Factor("tool", words="{}"),
    Factor("test", words="{}"),
    Factor(
        "streams",
        "parallel streams",
        kind="integer",
        null="unknown",
        words=_streams,
    ),
    Factor(
        "tcp_buffer_bytes",
        "TCP buffer",
        kind="integer",
        null="default",
        unit="bytes",
        words="{} TCP buffer",
    ),
    Factor(
        "message_bytes",
        "message size",
        kind="integer",
        unit="bytes",
        words="{} messages",
    ),
    Factor("during", "load", names={None: "idle path"}),
    Factor("protocol", names={"tcp": "TCP", "udp": "UDP", None: "protocol not known"}),
    Factor("congestion", "congestion control", words="{}"),
    Factor("bitrate", unit="bps", words=_bitrate),
    Factor("mss", "MSS", kind="integer", words="MSS {} B"),
    Factor("nodelay", "TCP_NODELAY", kind="flag", ordinary=False),
    Factor("zerocopy", "zero copy", kind="flag", ordinary=False),
    Factor("reverse", "server to client", kind="flag", ordinary=False),
    Factor("bidir", "both directions", kind="flag", ordinary=False),
    Factor("interval_s", "interval", kind="number", unit="s", minor=True),
    Factor("full_rtt", "whole round trips", kind="flag", ordinary=False),
    Factor("mps", "messages per second"),
    Factor("reply_every", "one reply every", kind="integer"),
    Factor("burst", "messages in a burst", kind="integer"),
    Factor(
        "direction",
        follows=("reverse", "bidir"),
        names={None: "direction not known"},
        words="{}",
    ),
    Factor("duration_s", "duration", kind="number", unit="s", minor=True),
    Factor(
        "omit_s",
        "omitted start",
        kind="number",
        unit="s",
        ordinary=0,
        minor=True,
    ),
    Factor("gateway_sku", "gateway", words="{}"),
)
# the hosts come last: they name a condition only where nothing else does
_HOSTS = (
    Factor("client", minor=True),
    Factor("server", minor=True),
    *_of_both("vm_size", "VM size"),
    *_of_both("region", "region"),
    *_of_both("zone", "zone"),
    Factor(
        "advertised_bps",
        "advertised bandwidth",
        kind="number",
        unit="bps",
        role="host",
        minor=True,
    ),
    Factor(
        "congestion_control",
        "congestion control",
        role="observed",
        follows=("congestion",),
    ),
    Factor(
        "tcp_buffer_default_bytes",
        "default TCP buffer",
        kind="integer",
        unit="bytes",
        role="observed",
        follows=("tcp_buffer_bytes",),
    ),
    Factor("kernel", role="observed"),
    Factor(
        "tool_version",
        "version of the tool",
        role="observed",
        follows=("tool",),
    ),
    Factor(
        "nic_driver",
        "network driver",
        role="observed",
        follows=("accelerated",),
    ),
    Factor(
        "server_nic_driver",
        "server's network driver",
        role="observed",
        follows=("accelerated",),
    ),
    Factor(
        "vf_up",
        "virtual function up",
        kind="flag",
        role="observed",
        follows=("accelerated",),
    ),
    *_of_both("zone_physical", "physical zone", "observed"),
    *_of_both("cpu", "processor", "observed"),
)
_KINDS: Mapping[Any, Literal["flag", "integer", "number"]] = {
    bool: "flag",
    int: "integer",
    float: "number",
}

FACTORS: dict[str, Factor] = {known.name: known for known in _CONDITIONS}
for _tool in TOOLS.values():
    for _option in _tool.OPTIONS:
        _known = Factor(
            _option.name,
            kind=_KINDS.get(_option.type, "text"),
            null="default",
            ordinary=_option.default,
        )
        FACTORS.setdefault(_known.name, _known)
FACTORS |= {known.name: known for known in _HOSTS}

NOT_FACTORS = frozenset(
    "experiment run_id status error round order deployment deployment_id attempt notice command "
    "raw_path raw_sha256 "
    "declaration_sha256 reader_version started_utc ended_utc warnings excluded condition "
    "declared".split()
).union(EVIDENCE)
"""Columns of the table of runs that identify or describe a run and are not dimensions."""


LOG_NAME = "log_name"
"""The factor of what only the names of logs tell apart: it splits, and nothing is compared by
rule."""


def is_address(value: Any) -> bool:
    """Return whether a value is an address of version 4 or 6, with or without its zone."""
    try:
        ipaddress.ip_address(str(value).partition("%")[0])
    except ValueError:
        return False
    return True


def is_reserved(name: str) -> bool:
    """Return whether a column that is no factor has this name, so that a label could not."""
    return name in NOT_FACTORS or name in METRICS or name == LOG_NAME


def factor(name: str) -> Factor:
    """Return what is known about a factor; one that is not in the list is a user's label.

    Examples
    --------
    >>> factor("streams").level_words(16)
    '16 streams'
    >>> factor("rack").level_words("b7")
    'rack b7'
    """
    # a condition is the name that `select` gives to a combination of levels: not a column of the
    # tables
    words = "{}" if name in ("condition", LOG_NAME) else ""
    return FACTORS.get(name) or Factor(name, words=words)


def level_words(name: str, level: Any) -> str:
    """Return the words for a level of the factor `name` in a sentence."""
    return factor(name).level_words(level)


def sort_levels(name: str, levels: Iterable[Any]) -> list[Level]:
    """Return the distinct levels of a factor in their natural order; null comes first.

    Examples
    --------
    >>> sort_levels("placement", ["vpn", "cross-zone", "ppg", "my-rack"])
    ['ppg', 'cross-zone', 'vpn', 'my-rack']
    >>> sort_levels("bitrate", ["1G", "800M", None])
    [None, '800M', '1G']
    """
    return sorted(dict.fromkeys(plain(v) for v in levels), key=factor(name).key)


def dimensions(
    columns: Iterable[str], *, roles: Sequence[str] = ("condition",)
) -> list[str]:
    """Return which columns of the table of runs are dimensions.

    Those listed, in the order of the list, then the user's own.

    Those of role ``"condition"`` make up a condition.
    """
    present = dict.fromkeys(columns)
    listed = FACTORS.keys() | METRICS.keys() | NOT_FACTORS
    own = [name for name in present if name not in listed]
    # labels come before the hosts, which name a condition last
    ordered = [*FACTORS]
    first_host = ordered.index("client")
    ordered[first_host:first_host] = own
    return [name for name in ordered if name in present and factor(name).role in roles]


def factors_of(
    trial: Mapping[str, Any], hosts: Mapping[str, Any], facts: Mapping[str, Any]
) -> dict[str, Level]:
    """Return every factor of a run: what was scheduled, and the two hosts with their facts.

    Factors known only from the log (protocol, direction) are not included; of the facts of a host,
    its processor and network card are.
    """
    levels = dict(trial)
    proven = []
    for side in ("client", "server"):
        host = hosts.get(side) or {}
        proven.append(host.get("accelerated"))
        for name in ("vm_size", "region", "zone", "zone_physical"):
            levels[f"{side}_{name}"] = host.get(name)
        for name, label in (host.get("labels") or {}).items():
            levels[f"{side}_{name}"] = label
    # the same VM size lands on different processors and network cards
    for name in ("client_cpu", "server_cpu", "server_nic_driver"):
        side, _, fact = name.partition("_")
        if known := (facts.get(side) or {}).get(fact):
            levels[name] = known
    if levels.get("accelerated") is not None and None not in proven:
        # as the guests prove it, which may differ from what was declared
        levels["accelerated"] = all(proven)
    return {name: plain(level) for name, level in levels.items()}


def plain(level: Any) -> Level:
    """Convert a level to a plain Python type.

    Numpy scalars are unpacked, and any missing value becomes None.
    """
    value: object = level
    if getattr(level, "ndim", None) == 0:
        value = level.item()
    if value is None or isinstance(value, str | int):
        return value
    text = str(value)
    if text in ("nan", "<NA>", "NaT"):
        return None
    return value if isinstance(value, float) else text
