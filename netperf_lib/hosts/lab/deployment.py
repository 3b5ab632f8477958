"""Description of a running lab for the rest of the library: its hosts, and proofs of their measured properties."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from ...experiment.model import Deployment, Host, Proof
from ...metrics import format_value
from .host_process import SCRATCH, SHARED
from .supervisor import Supervisor
from .topology import STRETCH, Options

_FILE = "deployment.json"
_ADAPTER = TypeAdapter(Deployment)
TOLERANCE = 0.05
"""Share of a delay by which it may differ from what was asked for: what the emulation adds to the shortest, of 400 µs,
was 35 to 50 µs, also beside busy loops."""


def _notice(options: Options) -> str:
    stretched = options.links == Options().links
    delays = f"its delays inside a region are {STRETCH} times those of a real one, and " if stretched else ""
    return (
        f"Emulated hosts: network namespaces of one Linux machine; {delays}its numbers say nothing about a real cloud."
    )


def describe(supervisor: Supervisor, number: int) -> Deployment:
    """Describe what a started `supervisor` runs as deployment `number`."""
    options, folder = supervisor.options, supervisor.folder
    user = pwd.getpwuid(os.geteuid()).pw_name
    first = options.hosts[0].name
    hosts = tuple(
        Host(
            name=h.name,
            address="127.0.0.1",
            port=supervisor.ports[h.name],
            data_address=options.address(h.name),
            user=user,
            ssh_config=str(folder / "ssh_config"),
            identity=str(folder / "id"),
            known_hosts=str(folder / "known_hosts"),
            owned=True,
            region=h.region,
            zone=h.zone,
            ppg=h.ppg,
            accelerated=h.accelerated,
            proofs=(
                *((_delay(options, first, h.name, supervisor.one_way_us[h.name]),) if h.name != first else ()),
                *(Proof("set up as asked", False, warning) for warning in supervisor.warnings[h.name]),
            ),
        )
        for h in options.hosts
    )
    shared = [w for host in supervisor.warnings.values() for w in host if any(f"{p} {SHARED}" in w for p in SCRATCH)]
    return Deployment(
        deployment_id=f"lab-{number}",
        source="lab",
        hosts=hosts,
        notice=_notice(options),
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        proofs=(
            Proof(
                "every host has a home, /run, /tmp and /var/tmp of its own",
                not shared,
                "all else is the file system of this machine, which every host sees",
            ),
        ),
    )


def _delay(options: Options, first: str, other: str, quartiles_us: list[float]) -> Proof:
    path = options.path(first, other)
    requested_us = path.delay_us + path.jitter_us / 2
    requested, low, median, high = (format_value(v, "us") for v in (requested_us, *quartiles_us))
    return Proof(
        f"one way between {first} and {other} takes {requested}",
        abs(quartiles_us[1] - requested_us) <= TOLERANCE * requested_us,
        f"half of the time until a TCP connection is refused: median {median}, quartiles {low} and {high}",
    )


def write(deployment: Deployment, folder: Path) -> None:
    """Write `deployment` to the lab's folder, for other processes that use the lab."""
    part = folder / f"{_FILE}.part"
    part.write_bytes(_ADAPTER.dump_json(deployment, indent=2))
    part.replace(folder / _FILE)


def read(folder: Path) -> Deployment | None:
    """Return the deployment running in `folder`; None while it is being set up."""
    try:
        return _ADAPTER.validate_json((folder / _FILE).read_bytes())
    except FileNotFoundError:
        return None
