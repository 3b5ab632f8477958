"""What guests show of themselves over SSH: kernel, tools, the SR-IOV virtual function, the machine underneath."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from ..errors import SSHError
from ..experiment.model import Host, Proof
from ..measure.event_loop import finish
from ..measure.ssh import Remote

__all__ = ["guest_proofs", "guests"]

GUEST = r"""
if command -v cloud-init >/dev/null 2>&1; then
  timeout "$1" cloud-init status --wait >/dev/null 2>&1
  echo "cloud-init=$(cloud-init status 2>/dev/null | sed -n 's/^status: //p')"
fi
echo "kernel=$(uname -r)"
echo "guest=$(hostname)"
echo "system=$(. /etc/os-release; echo "$PRETTY_NAME")"
for pool in /var/lib/hyperv/.kvp_pool_3; do
  [ -r $pool ] && echo "hyperv=$(tr -s '\0' '\n' < $pool | sed -n '/^PhysicalHostName$/{n;p;q}')"
done
for nic in /sys/class/net/*; do
  driver=$(basename "$(readlink -f $nic/device/driver 2>/dev/null)" 2>/dev/null)
  [ "$driver" ] && echo "nic=$(basename $nic) $driver $(cat $nic/operstate 2>/dev/null)"
done
for tool in iperf3 iperf qperf sockperf; do
  command -v $tool >/dev/null || continue
  echo "tool=$tool $( (timeout 5 $tool --version || true) 2>&1 | grep -m1 -oE '[0-9]+(\.[0-9]+)+[-a-z0-9.]*')"
done
for package in ethtool iperf iperf3 qperf sockperf; do
  version=$( (dpkg-query -W -f '${Version}' $package || rpm -q --qf '%{VERSION}-%{RELEASE}' $package) 2>/dev/null) &&
    echo "package=$package $version"
done
[ -r /usr/local/share/npl-built ] && sed 's/^/package=/' /usr/local/share/npl-built
true
"""
VF_DRIVERS = ("mlx4_core", "mlx4_en", "mlx5_core", "mana")
"""Drivers of the SR-IOV virtual functions that Azure gives to guests."""


def guests(hosts: tuple[Host, ...], *, marker: str, wait_s: float) -> dict[str, Mapping[str, Any] | str]:
    """Ask every guest for its facts, all at once.

    Parameters
    ----------
    hosts : tuple of Host
        Where to ask.
    marker : str
        What processes there are known by.
    wait_s : float
        Longest wait for SSH to answer, and then for the first start to complete.

    Returns
    -------
    dict
        Host name to its facts, or to the sentence that says why there are none.
    """

    async def one(host: Host) -> Mapping[str, Any] | str:
        remote = Remote(host, marker)
        end = time.monotonic() + wait_s
        try:
            while True:
                try:
                    await remote.connect()
                    output = await remote.script(GUEST, f"{max(1, wait_s):.0f}", limit_s=wait_s + 30)
                    return _facts(output.out)
                except SSHError as error:
                    if time.monotonic() > end:
                        return str(error)
                    await asyncio.sleep(min(11, wait_s / 5))
        finally:
            await remote.close()

    async def all_of_them() -> list[Mapping[str, Any] | str]:
        return await asyncio.gather(*(one(h) for h in hosts))

    return dict(zip((h.name for h in hosts), finish(all_of_them()), strict=True))


def _facts(text: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"nic": [], "tool": [], "package": []}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "nic":
            facts["nic"].append((*value.split(), "", "", "")[:3])
        elif key in ("tool", "package"):
            name, _, version = value.partition(" ")
            facts[key].append((name, version))
        elif value:
            facts[key] = value
    return facts


def guest_proofs(
    accelerated: bool | None, guest: Mapping[str, Any] | str, versions: Mapping[str, str] = MappingProxyType({})
) -> list[Proof]:
    """Proofs from one guest's facts.

    Parameters
    ----------
    accelerated : bool or None
        Whether accelerated networking is asked for; None: that is not known.
    guest : mapping or str
        What `guests` returned for it.
    versions : mapping
        Package to the version that was asked for, exact or with a final ``*``.
    """
    if isinstance(guest, str):
        return [Proof(claim="facts of the guest", holds=None, evidence=guest)]
    functions = [n for n in guest["nic"] if n[1] in VF_DRIVERS]
    shown = ", ".join(" ".join(n) for n in guest["nic"]) or "no interface with a driver"
    up = any(n[2] == "up" for n in functions)
    out = []
    if accelerated is True:
        claim = "virtual function present and up in the guest"
        out.append(Proof(claim=claim, holds=up if guest["nic"] else None, evidence=shown))
    elif accelerated is False:
        claim = "no virtual function in the guest"
        out.append(Proof(claim=claim, holds=not functions if guest["nic"] else None, evidence=shown))
    hyperv = guest.get("hyperv")
    out.append(Proof(claim="Hyper-V host", holds=bool(hyperv) or None, evidence=hyperv or "the guest does not tell"))
    out.append(Proof(claim="kernel", holds=True, evidence=f"{guest.get('kernel')} ({guest.get('system')})"))
    tools = dict(guest["tool"])
    missing = [t for t in ("iperf3", "iperf", "qperf", "sockperf") if t not in tools]
    out.append(
        Proof(
            claim="measuring tools installed",
            holds=not missing,
            evidence=", ".join(f"{t} {v}".strip() for t, v in tools.items())
            + (f"; missing {', '.join(missing)}" if missing else ""),
        )
    )
    packages = dict(guest.get("package", ()))
    if packages:
        # for the record, so that the same can be asked for again
        evidence = ", ".join(f"{p} {v}" for p, v in packages.items())
        out.append(Proof(claim="packages of the tools", holds=True, evidence=evidence))
    for package, version in versions.items():
        there = packages.get(package)
        holds = None if there is None else fnmatchcase(there, version)
        out.append(
            Proof(claim=f"{package} {version}", holds=holds, evidence=there or "not told by the package manager")
        )
    if "cloud-init" in guest:
        out.append(
            Proof(claim="first start complete", holds=guest["cloud-init"] == "done", evidence=guest["cloud-init"])
        )
    return out
