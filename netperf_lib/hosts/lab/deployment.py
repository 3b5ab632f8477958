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
from .supervisor import Calibration, Reached, Supervisor
from .topology import STRETCH, Options

_FILE = "deployment.json"
_ADAPTER = TypeAdapter(Deployment)
TOLERANCE = 0.05
"""Share of a delay by which it may differ from what was asked for; the shortest is 400 µs, what the emulation adds to
it was steady within 3 % also beside a busy loop, and the probe's own median moves by 1 %."""


def _notice(options: Options) -> str:
    stretched = options.links == Options().links
    delays = f"its delays inside a region are {STRETCH} times those of a real one, and " if stretched else ""
    return (
        f"Emulated hosts: network namespaces of one Linux machine; {delays}its numbers say nothing about a real cloud."
    )


def describe(supervisor: Supervisor, number: int) -> Deployment:
    """Describe what a started `supervisor` runs as deployment `number`."""
    options, folder = supervisor.options, supervisor.folder
    calibration = supervisor.calibration
    user = pwd.getpwuid(os.geteuid()).pw_name
    reached = calibration.reached if calibration else ()
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
                *(_delay(options.hosts[0].name, r) for r in reached if r.host == h.name),
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
            _floor(calibration, min(link.delay_us for link in options.links.values())),
            Proof(
                "every host has a home, /run, /tmp and /var/tmp of its own",
                not shared,
                "all else is the file system of this machine, which every host sees",
            ),
        ),
    )


def _floor(calibration: Calibration | None, shortest_us: float) -> Proof:
    claim = "what the emulation adds to a delay is steady"
    if calibration is None:
        return Proof(claim, None, "not calibrated: delays are longer than asked for by an unknown part")
    measured = ", ".join(f"{floor:.1f}" for floor in calibration.floors_us)
    evidence = f"measured {measured} µs one way; {calibration.floor_us:.1f} µs are taken off every delay"
    steady = calibration.spread_us <= TOLERANCE * shortest_us
    return Proof(claim, steady, evidence + ("" if steady else "; this machine is busy: end other programs"))


def _delay(first: str, reached: Reached) -> Proof:
    requested, low, measured, high = (format_value(v, "us") for v in (reached.asked_us, *reached.quartiles_us))
    return Proof(
        f"one way between {first} and {reached.host} takes {requested}",
        abs(reached.quartiles_us[1] - reached.asked_us) <= TOLERANCE * reached.asked_us,
        f"half a TCP round trip: median {measured}, quartiles {low} and {high}",
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
