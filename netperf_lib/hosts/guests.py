"""Facts that guests report over SSH.

Kernel, tools, the SR-IOV virtual function, the machine underneath.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from ..errors import SSHError
from ..experiment.deployment import Host, Proof
from ..measure.event_loop import finish
from ..measure.ssh import MAX_LOGINS, Remote
from ..tools import TOOLS

Awaited = TypeVar("Awaited")

PROGRAMS = tuple(tool.VERSION[0] for tool in TOOLS.values())
"""Programs that the project runs on a host."""
GUEST = r"""
if command -v cloud-init >/dev/null 2>&1; then
  timeout "$1" cloud-init status --wait >/dev/null 2>&1
  # "done" may be "degraded done", which only the long form tells
  echo "cloud-init=$(cloud-init status --long 2>/dev/null | sed -n 's/^extended_status: //p;s/^status: //p' | tail -n 1)"
fi
echo "kernel=$(uname -r)"
echo "guest=$(hostname)"
echo "machine=$(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/net)"
echo "system=$(. /etc/os-release; echo "$PRETTY_NAME")"
for pool in /var/lib/hyperv/.kvp_pool_3; do
  [ -r $pool ] && echo "hyperv=$(tr -s '\0' '\n' < $pool | sed -n '/^PhysicalHostName$/{n;p;q}')"
done
for nic in /sys/class/net/*; do
  driver=$(basename "$(readlink -f $nic/device/driver 2>/dev/null)" 2>/dev/null)
  [ "$driver" ] && echo "nic=$(basename $nic) $driver $(cat $nic/operstate 2>/dev/null)"
done
for tool in PROGRAMS; do
  command -v $tool >/dev/null || continue
  echo "tool=$tool $( (timeout 5 $tool --version || true) 2>&1 | grep -m1 -oE '[0-9]+(\.[0-9]+)+[-a-z0-9.]*')"
done
true
""".replace("PROGRAMS", " ".join(PROGRAMS))  # noqa: E501  (as it is run or printed)
PATH = r"""
exec python3 - "$1" <<'END'
import socket, subprocess, sys, time
to, port = sys.argv[1], 20999
def run(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=5).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
device = (run("ip", "-o", "route", "get", to).split(" dev ") + [""])[1].split(" ")[0]
def vf():
    lines = [l.split(":") for l in run("ethtool", "-S", device).splitlines()]
    return next((int(l[1]) for l in lines if l[0].strip() == "vf_tx_packets"), None)
for ttl in range(1, 17):
    with socket.socket() as probe:
        probe.settimeout(1)
        probe.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        try:
            probe.connect((to, port))
        except ConnectionRefusedError:
            pass  # it came so far
        except OSError:
            continue
        print(f"hops={ttl}")
        break
before, sent = vf(), 2000
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    probe.connect((to, port))
    print(f"mtu={probe.getsockopt(socket.IPPROTO_IP, 14)}")
    done = 0
    for i in range(sent):
        if i % 50 == 49:
            time.sleep(0.001)  # a burst of all would overflow a queue before the counter
        try:
            done += bool(probe.send(b"path"))
        except OSError:
            pass  # what came back of an earlier one
print(f"sent={done}")
if before is not None:
    print(f"vf_tx_packets={vf() - before}")
END
"""
VF_DRIVERS = {
    "mlx4_core": "ConnectX-3",
    "mlx4_en": "ConnectX-3",
    "mlx5_core": "ConnectX-4 or later",
    "mana": "Microsoft Azure Network Adapter",
}
"""Drivers of the SR-IOV virtual functions that Azure gives to guests, and what they drive."""


Facts = Mapping[str, Any] | str
"""What a guest told, or why it told nothing."""


def guests(hosts: tuple[Host, ...], *, marker: str, wait_s: float) -> dict[str, Facts]:
    """Ask all guests for their facts at once.

    Host name to facts, or to the reason why there are none.

    SSH may take up to `wait_s` to answer, and the first start then as long again to complete.
    """

    async def facts(remote: Remote) -> Facts:
        end = time.monotonic() + wait_s
        while True:
            try:
                await remote.connect()
                seconds = f"{max(1, wait_s):.0f}"
                output = await remote.script(GUEST, seconds, limit_s=wait_s + 30)
                return _facts(output.out)
            except SSHError as error:
                if time.monotonic() > end:
                    return str(error)
                await asyncio.sleep(min(11, wait_s / 5))

    return _ask_each(hosts, marker, facts)


def paths(
    hosts: tuple[Host, ...], pairs: tuple[tuple[str, str], ...], *, marker: str
) -> dict[tuple[str, str], Facts]:
    """Ask the client of every pair for the path to its server.

    `hops` (TCP), `mtu`, `sent`, `vf_tx_packets`.

    Unknown values are absent; a path may be replaced by the text of an error. Pairs whose hosts are
    not among `hosts` are left out.
    """
    addresses = {host.name: host.data_address for host in hosts}
    found: dict[tuple[str, str], Facts] = {}

    async def ask(remote: Remote) -> None:
        for client, server in pairs:
            if client != remote.host.name or server not in addresses:
                continue
            try:
                await remote.connect()
                answer = await remote.script(PATH, addresses[server], limit_s=60)
                lines = re.findall(r"^(\w+)=(\d+)$", answer.out, re.MULTILINE)
                found[client, server] = {name: int(value) for name, value in lines}
            except SSHError as error:
                found[client, server] = str(error)

    _ask_each(hosts, marker, ask)
    return found


def _ask_each(
    hosts: tuple[Host, ...],
    marker: str,
    ask: Callable[[Remote], Coroutine[Any, Any, Awaited]],
) -> dict[str, Awaited]:
    """Return what is asked of each host, by its name; all are asked at once."""
    logins = asyncio.Semaphore(MAX_LOGINS)

    async def one(host: Host) -> Awaited:
        remote = Remote(host, marker, logins)
        try:
            return await ask(remote)
        finally:
            await remote.close()

    async def every() -> list[Awaited]:
        return await asyncio.gather(*map(one, hosts))

    names = [host.name for host in hosts]
    return dict(zip(names, finish(every()), strict=True))


def _facts(text: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"nic": [], "tool": {}}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "nic":
            facts["nic"].append((*value.split(), "", "", "")[:3])
        elif key == "tool":
            name, _, facts["tool"][name] = value.partition(" ")
        elif value:
            facts[key] = value
    return facts


def accelerated(guest: Facts) -> bool | None:
    """Return whether a virtual function is up in the guest; None if that is not known."""
    if isinstance(guest, str) or not guest["nic"]:
        return None
    return any(state == "up" for _, _, state in _functions(guest))


def _functions(guest: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, driver and state of each virtual function."""
    return [nic for nic in guest["nic"] if nic[1] in VF_DRIVERS]


def one_machine(
    pairs: Iterable[tuple[str, str]], facts: Mapping[str, Facts]
) -> tuple[Proof, ...]:
    """Disprove that the hosts of a pair are two machines, where both names lead to one.

    Its loopback is no network.
    """
    known = {name: told for name, told in facts.items() if isinstance(told, Mapping)}
    proofs = []
    for one, other in dict.fromkeys(pairs):
        first, second = known.get(one, {}), known.get(other, {})
        if "machine" in first and first["machine"] == second.get("machine"):
            claim = f"{one} and {other} are two machines"
            how = "correct the address or port of one of them"
            evidence = f"both names lead to {first['guest']}: {how}"
            proofs.append(Proof(claim, False, evidence, factor=True))
    return tuple(proofs)


def guest_proofs(requested: bool | None, guest: Facts) -> list[Proof]:
    """Return the proofs from one guest's facts: accelerated networking as `requested`."""
    if isinstance(guest, str):
        return [Proof("facts of the guest", None, guest)]
    functions = _functions(guest)
    found = ", ".join(map(" ".join, guest["nic"])) or "no interface with a driver"
    proofs = []
    if requested is True:
        claim = "virtual function present and up in the guest"
        if functions:
            kinds = dict.fromkeys(VF_DRIVERS[driver] for _, driver, _ in functions)
            found += f" ({', '.join(kinds)})"
        proofs.append(Proof(claim, accelerated(guest), found, factor=True))
    elif requested is False:
        absent = (not functions) if guest["nic"] else None
        claim = "no virtual function in the guest"
        proofs.append(Proof(claim, absent, found, factor=True))
    if guest.get("hyperv"):
        proofs.append(Proof("Hyper-V host", True, guest["hyperv"]))
    elif requested is not None:
        proofs.append(Proof("Hyper-V host", None, "the guest does not tell"))
    kernel = f"{guest.get('kernel')} ({guest.get('system')})"
    proofs.append(Proof("kernel", True, kernel))
    tools = guest["tool"]
    installed = ", ".join(f"{name} {version}".strip() for name, version in tools.items())
    missing = [program for program in PROGRAMS if program not in tools]
    if missing:
        installed += f"; missing {', '.join(missing)}"
    proofs.append(Proof("measuring tools installed", not missing, installed))
    if started := guest.get("cloud-init"):
        proofs.append(Proof("first start complete", started == "done", started))
    return proofs
