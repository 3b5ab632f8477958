"""The one list of factors: what is known about the dimensions of a measurement beyond their names.

Every factor, option and label of a run is a dimension, and a column of the table of runs, without
being listed here. `FACTORS` adds to some of them what a reader or a schedule needs: how a level is
written, the order of the levels, the level that goes without saying, the tests that a factor
applies to. An option of a tool that is not listed has the type that its tool declares. Any other
factor is a user's label: text, in alphabetical order. To tell the library about a new factor, add
an entry here.

A *condition* is one level of every factor whose role is ``"condition"``. Factors of role ``"host"``
describe the two hosts (VM size, region, zone), and so follow from ``client`` and ``server``; those
of role ``"observed"`` are found while measuring (kernel, versions): they should stay the same; if
they do not, they are another possible explanation for a difference.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
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
    splits: Literal["always", "in a round"] | None = None
    """When another level makes another condition: always; or only where it alone tells two runs
    of a round apart.

    Default: always, but for what is found while measuring.
    """
    null: Literal["default", "none", "unknown"] = "none"
    """What a null means: the default of the system; that there is none; or nothing, for it is
    not known."""
    unit: str | None = None
    """Unit of a level as `format_value` writes it."""
    ordinary: Level = None
    """The level that goes without saying in the name of a condition."""
    order: tuple[str, ...] = ()
    """Levels in their natural order; others follow."""
    words: Mapping[Any, str] | Callable[[Any], str] | None = None
    """Words for a level in a sentence."""
    follows: tuple[str, ...] = ()
    """Factors that determine this one: naming one of them also names this one."""
    applies: Callable[[str, str], bool] = lambda _tool, _test: True
    """Whether the factor applies to a test, from the names of the tool and the test."""

    @property
    def _is_rate(self) -> bool:
        """Whether a level is a rate, as text: ``1G``."""
        return self.kind == "text" and self.unit == "bps"

    @property
    def always_splits(self) -> bool:
        """Whether another level makes another condition in every case."""
        return (
            self.splits or ("in a round" if self.role == "observed" else "always")
        ) == "always"

    def level_words(self, level: Any) -> str:
        """Return the words for a level of this factor.

        ``16 streams``, ``1 MiB TCP buffer``, ``bitrate 1 Gbit/s``.
        """
        level = plain(level)
        if isinstance(self.words, Mapping):
            if level in self.words:
                return self.words[level]
        elif self.words is not None and level is not None:
            return self.words(level)
        title = (self.label or self.name).replace("_", " ")
        if level is None and self.null == "unknown":
            return f"{title} not known"
        if level is None:
            return f"no {title}" if self.kind == "text" else f"default {title}"
        if self.kind == "flag" and isinstance(level, bool):
            return title if level else f"not {title}"
        if self.unit and not isinstance(level, str):
            return f"{title} {format_value(level, self.unit)}"
        return f"{title} {level:g}" if isinstance(level, float) else f"{title} {level}"

    def written(self, level: Any) -> str:
        """Return a level as people write it, and as `cast` reads it: ``16 MiB``, ``default``."""
        level = plain(level)
        if isinstance(self.words, Mapping) and level in self.words:
            return self.words[level]
        if level is None:
            return "default" if self.null == "default" else "null"
        if self.unit and not isinstance(level, str):
            return format_value(level, self.unit)
        return str(level)

    def cast(self, level: Any) -> Level:
        """Convert a level to the type of this factor.

        ``zone: 1`` in a YAML file means the zone "1".

        A text means the level that is written so: ``16 MiB``, ``default``, ``yes``. A value that
        cannot be converted is returned unchanged: no run has such a level.
        """
        value = plain(level)
        if isinstance(value, str):
            value = self._read(value)
        if value is None or isinstance(value, str):
            return value
        if self._is_rate:
            return _rate_level(value)
        if self.kind == "text":
            return str(value).lower() if isinstance(value, bool) else str(value)
        if self.kind == "number":
            return float(value)
        if self.kind == "integer" and isinstance(value, float) and value.is_integer():
            return int(value)
        return value

    def _read(self, text: str) -> Level:
        """Return the level that a text means."""
        named = self.words if isinstance(self.words, Mapping) else {}
        for level, words in named.items():
            if words == text:
                return plain(level)
        if text == self.written(None) and self.name in FACTORS:
            return None
        if self.kind == "flag":
            return FLAGS.get(text.lower(), text)
        if self.kind != "text" or self._is_rate:
            with suppress(ValueError):
                return read_quantity(text, self.unit or "")
        return text

    def key(self, level: Any) -> tuple[Any, ...]:
        """Sort key of a level.

        Null first, then the natural order, numbers by size, text alphabetically.
        """
        level = plain(level)
        if level is None:
            return (0,)
        if self.order:
            place = self.order.index(level) if level in self.order else len(self.order)
            return (1, place, _natural(level))
        rate = read_rate(level) if self._is_rate else None
        return (1, *_natural(level if rate is None else rate))


def _natural(level: Level) -> tuple[Any, ...]:
    """Numbers before text; the numbers in a text count as numbers: vm2 before vm10."""
    if isinstance(level, bool | int | float):
        return 0, float(level)
    return 1, tuple(
        (0, int(p), "") if p.isdecimal() else (1, 0, p)
        for p in re.split(r"(\d{1,15})", str(level))
        if p
    )


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


_DIRECTIONS = {name: name for name in ("forward", "reverse", "bidir")} | {
    None: "direction not known"
}


def _pair(
    name: str, label: str, role: Literal["host", "observed"] = "host"
) -> list[Factor]:
    """A property of a host: one column for the client, one for the server."""
    return [
        Factor(f"{side}_{name}", f"{side}'s {label}", role=role, null="unknown")
        for side in ("client", "server")
    ]


_CONDITIONS = (
    Factor("placement", order=tuple(PLACEMENTS), words=str),
    Factor(
        "accelerated",
        "accelerated networking",
        kind="flag",
        ordinary=True,
        words={
            True: "accelerated networking",
            False: "no accelerated networking",
            None: "accelerated networking not known",
        },
    ),
    Factor("tool", words=str),
    Factor("test", words=str),
    Factor(
        "streams",
        "parallel streams",
        kind="integer",
        null="unknown",
        words=lambda n: "1 stream" if n == 1 else f"{n:g} streams",
        applies=lambda tool, test: tool.startswith("iperf") and not is_latency(test),
    ),
    Factor(
        "tcp_buffer_bytes",
        "TCP buffer",
        kind="integer",
        null="default",
        unit="bytes",
        words=lambda n: f"{format_value(n, 'bytes')} TCP buffer",
        applies=lambda _tool, test: not is_latency(test),
    ),
    Factor(
        "message_bytes",
        "message size",
        kind="integer",
        unit="bytes",
        words=lambda n: f"{format_value(n, 'bytes')} messages",
    ),
    Factor("during", "load", words={None: "idle path"}),
    Factor("protocol", words={"tcp": "TCP", "udp": "UDP", None: "protocol not known"}),
    Factor("congestion", "congestion control", words=str),
    Factor("bitrate", unit="bps", words=_bitrate),
    Factor("mss", "MSS", kind="integer", words=lambda n: f"MSS {int(n)} B"),
    Factor("nodelay", "TCP_NODELAY", kind="flag", ordinary=False),
    Factor("zerocopy", "zero copy", kind="flag", ordinary=False),
    Factor("reverse", "server to client", kind="flag", ordinary=False),
    Factor("bidir", "both directions", kind="flag", ordinary=False),
    Factor("interval_s", "interval", kind="number", unit="s", splits="in a round"),
    Factor("full_rtt", "whole round trips", kind="flag", ordinary=False),
    Factor("mps", "messages per second"),
    Factor("reply_every", "one reply every", kind="integer"),
    Factor("burst", "messages in a burst", kind="integer"),
    Factor("direction", follows=("reverse", "bidir"), words=_DIRECTIONS),
    Factor("duration_s", "duration", kind="number", unit="s", splits="in a round"),
    Factor(
        "omit_s",
        "omitted start",
        kind="number",
        unit="s",
        ordinary=0,
        splits="in a round",
    ),
    Factor("gateway_sku", "gateway", words=str),
)
# the hosts come last: they name a condition only where nothing else does
_HOSTS = (
    Factor("client", splits="in a round"),
    Factor("server", splits="in a round"),
    *_pair("vm_size", "VM size"),
    *_pair("region", "region"),
    *_pair("zone", "zone"),
    Factor(
        "advertised_bps",
        "advertised bandwidth",
        kind="number",
        unit="bps",
        role="host",
        splits="in a round",
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
    *_pair("zone_physical", "physical zone", "observed"),
    *_pair("cpu", "processor", "observed"),
)
_KINDS: Mapping[Any, Literal["flag", "integer", "number"]] = {
    bool: "flag",
    int: "integer",
    float: "number",
}
_OPTIONS = [
    Factor(
        option.name,
        kind=_KINDS.get(option.type, "text"),
        null="default",
        ordinary=option.default,
    )
    for tool in TOOLS.values()
    for option in tool.OPTIONS
    if all(option.name != listed.name for listed in _CONDITIONS)
]

FACTORS: Mapping[str, Factor] = {
    one.name: one for one in (*_CONDITIONS, *_OPTIONS, *_HOSTS)
}

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
    return FACTORS.get(name) or Factor(
        name, words=str if name in ("condition", LOG_NAME) else None
    )


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
    chosen = [
        c
        for c in columns
        if c not in METRICS and c not in NOT_FACTORS and factor(c).role in roles
    ]
    position = {name: i for i, name in enumerate(FACTORS)}
    own = (
        position["client"] - 0.5
    )  # labels come before the hosts, which name a condition last
    return sorted(dict.fromkeys(chosen), key=lambda c: position.get(c, own))


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
        host, known = hosts.get(side) or {}, facts.get(side) or {}
        for name in ("vm_size", "region", "zone", "zone_physical"):
            levels[f"{side}_{name}"] = host.get(name)
        for name, label in (host.get("labels") or {}).items():
            levels[f"{side}_{name}"] = label
        # the same VM size lands on different processors and network cards
        for name in ("cpu", "nic_driver"):
            if f"{side}_{name}" in FACTORS and known.get(name):
                levels[f"{side}_{name}"] = known[name]
        proven.append(host.get("accelerated"))
    if levels.get("accelerated") is not None and None not in proven:
        # as the guests prove it, which may differ from what was declared
        levels["accelerated"] = all(proven)
    return {name: plain(level) for name, level in levels.items()}


def plain(level: Any) -> Level:
    """Convert a level to a plain Python type.

    Numpy scalars are unpacked, and any missing value becomes None.
    """
    value: object = level.item() if getattr(level, "ndim", None) == 0 else level
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if value is None or isinstance(value, str | int):
        return value
    return None if str(value) in ("<NA>", "NaT") else str(value)
