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

_FILE = "deployment.json"
_ADAPTER = TypeAdapter(Deployment)
_NOTICE = (
    "Emulated hosts: network namespaces of one Linux machine, linked by software that adds delay and limits rates as "
    "it was told to; these numbers say nothing about a real network or cloud"
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
    shared = [w for told in supervisor.warnings.values() for w in told if any(f"{p} {SHARED}" in w for p in SCRATCH)]
    noise = "; this machine was busy when they were made, so short delays are not to be believed"
    return Deployment(
        deployment_id=f"lab-{number}",
        source="lab",
        hosts=hosts,
        notice=_NOTICE + (noise if calibration and calibration.noisy else "") + ".",
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        proofs=(
            _floor(calibration),
            Proof(
                "every host has a home, /run, /tmp and /var/tmp of its own",
                not shared,
                "all else is the file system of this machine, which every host sees",
            ),
        ),
    )


def _floor(calibration: Calibration | None) -> Proof:
    claim = "what the emulation adds to a delay is small and steady"
    if calibration is None:
        return Proof(claim, None, "not calibrated: delays are longer than asked for by an unknown part")
    measured = ", ".join(f"{floor:.1f}" for floor in calibration.floors_us)
    evidence = f"measured {measured} µs one way; {calibration.floor_us:.1f} µs are taken off every delay"
    if calibration.reached:
        off = [r.quartiles_us[1] - r.asked_us for r in calibration.reached]
        evidence += (
            f"; delays then are {min(off):+.1f} to {max(off):+.1f} µs from what was asked for, and a tool adds its "
            "own cost (qperf 3 to 8 µs): an error of all runs alike, which no interval holds"
        )
    if calibration.noisy:
        evidence += (
            "; this machine is busy: end other programs, or as root try the option 'realtime: true', and trust medians"
        )
    return Proof(claim, not calibration.noisy, evidence)


def _delay(first: str, reached: Reached) -> Proof:
    asked, low, measured, high = (format_value(v, "us") for v in (reached.asked_us, *reached.quartiles_us))
    return Proof(
        f"one way between {first} and {reached.host} takes {asked}",
        abs(reached.quartiles_us[1] - reached.asked_us) <= 5 + 0.15 * reached.asked_us,
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
