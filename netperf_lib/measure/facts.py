"""Facts and counters of a host.

The scripts that print them, and the functions that read their output.

The scripts are short and only read kernel files and call the usual tools where installed; parts
that a host does not provide are absent. They run in the locale and with the search path that `ssh`
sets. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

CPU_BUSY, CPU_STOLEN, RETRANSMITTED, CLOCK_JUMP_S = 0.9, 0.05, 0.05, 0.25
"""Shares, and a step of the clock, from which on a run carries a warning."""
BYPASSING = 0.9
"""A run also carries a warning if less than this share of the packets takes the expected virtual
function."""

FACTS = r"""
address=$1; shift
part() { printf '\n@%s\n' "$1"; }
nic=$(ip -o addr show 2>/dev/null | grep -F " $address/" | head -n 1 | { read -r _ name _; echo "${name%%@*}"; })
part kernel; uname -r
part os; (. /etc/os-release; echo "$PRETTY_NAME")
part cpu; sed -n 's/^model name[ \t]*: //p' /proc/cpuinfo | head -n 1
part cpus; (unset OMP_NUM_THREADS OMP_THREAD_LIMIT; nproc)
part nic; echo "$nic"
part driver; ethtool -i "$nic" | sed -n 's/^driver: //p'
part mtu; cat "/sys/class/net/$nic/mtu"
part offloads; ethtool -k "$nic" | grep -E '^(tcp-seg|generic-|large-receive|rx-check|tx-check)'
part qdisc; tc qdisc show dev "$nic"
part functions
for d in /sys/class/net/*; do
  [ "$(cat "$d/address")" = "$(cat "/sys/class/net/$nic/address")" ] && [ "${d##*/}" != "$nic" ] &&
    echo "${d##*/} $(basename "$(readlink "$d/device/driver")") $(cat "$d/operstate")"
done
part sysctl
for s in net/ipv4/tcp_congestion_control net/ipv4/tcp_available_congestion_control net/ipv4/tcp_rmem \
  net/ipv4/tcp_wmem net/core/rmem_max net/core/wmem_max net/core/default_qdisc net/ipv4/tcp_window_scaling \
  net/ipv4/tcp_timestamps net/ipv4/tcp_sack net/ipv4/tcp_no_metrics_save net/ipv4/tcp_mtu_probing; do
  [ -r "/proc/sys/$s" ] && echo "$s $(cat "/proc/sys/$s")"
done
for t in "$@"; do part "tool $t"; command -v "${t%% *}" && timeout 5 $t 2>&1 </dev/null | head -n 5; done
exit 0
"""  # noqa: E501  (as it is run or printed)
"""``$1`` is the data address; every further argument is the command that prints a tool's
version."""

COUNTERS = r"""
nic=$1
printf '@time\n'; date +%s.%N; cat /proc/uptime
printf '@cpu\n'; head -n 1 /proc/stat
printf '@tcp\n'; cat /proc/net/snmp /proc/net/netstat
printf '@nic\n'
for f in "/sys/class/net/$nic/statistics/"*; do read -r v <"$f"; echo "${f##*/} $v"; done
printf '@ethtool\n'; ethtool -S "$nic" 2>/dev/null
printf '@state\n'
read -r v </proc/sys/net/ipv4/tcp_congestion_control; echo "congestion_control $v"
set -- $(cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem)
printf 'tcp_rmem %s %s %s\ntcp_wmem %s %s %s\n' "$@"
for d in /sys/class/net/*; do read -r v <"$d/operstate"; echo "link.${d##*/} $v"; done
exit 0
"""
"""``$1`` is the network interface."""


_TICKS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_FIRST = ("kernel", "os", "cpu", "cpus", "nic")
"""Facts that are the first line of their part."""


def _parts(text: str) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("@"):
            part = parts.setdefault(line[1:], [])
        elif line.strip() and parts:
            part.append(line.strip())
    return parts


def read_facts(text: str) -> dict[str, Any]:
    """Read the output of `FACTS` into a document about the host.

    Unknown facts are absent or null.
    """
    parts = _parts(text)
    first = {name: lines[0] for name, lines in parts.items() if lines}
    sysctl = {}
    for line in parts.get("sysctl", ()):
        name, *values = line.split()
        if values:
            sysctl[name.replace("/", ".")] = " ".join(values)
    installed = {}
    for name, lines in parts.items():
        if name.startswith("tool ") and lines:
            # the path of the program, its version, and perhaps credits and options
            installed[name.split()[1]] = "".join(lines[1:2]) or None
    facts: dict[str, Any] = {name: first.get(name) for name in _FIRST}
    facts |= {name: parts.get(name, []) for name in ("offloads", "qdisc", "functions")}
    facts |= {"mtu": _number(first.get("mtu", "")), "sysctl": sysctl, "tools": installed}
    facts["congestion_control"] = sysctl.get("net.ipv4.tcp_congestion_control")
    facts |= {"nic_driver": first.get("driver"), "vf_up": None}
    if facts["nic_driver"] == "hv_netvsc":
        # Azure pairs this synthetic interface with a virtual function of the same hardware address:
        # it says hv_netvsc for every card, and the function tells what drives the card
        functions = [line.split() for line in parts.get("functions", ())]
        up = [words[1] for words in functions if words[2:] == ["up"]]
        facts["vf_up"] = bool(up)
        facts["nic_driver"] = (up or ["hv_netvsc"])[0]
    return facts


def _number(text: str) -> int | float | None:
    text = text.strip()
    if re.fullmatch(r"-?[0-9]+", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"-?[0-9]+\.[0-9]+", text, re.ASCII):
        return float(text)
    return None


def _numbers(names: Iterable[str], values: Iterable[str]) -> dict[str, int | float]:
    """Return what is a number, by its name."""
    pairs = zip(names, map(_number, values), strict=False)
    return {name: value for name, value in pairs if value is not None}


def read_counters(text: str) -> dict[str, Any]:
    """Read the output of `COUNTERS`.

    Flat numbers, and the settings that should not change while a test runs.
    """
    parts = _parts(text)
    counters: dict[str, Any] = {}
    clocks = [line.split()[0] for line in parts.get("time", ())]
    times = _numbers(("time_s", "uptime_s"), clocks)
    if len(times) == 2:
        counters |= times
    ticks = _numbers(_TICKS, " ".join(parts.get("cpu", ())).split()[1:])
    if len(ticks) == len(_TICKS):
        # not `nice`: such work gives way to the test
        busy = sum(ticks[name] for name in ("user", "system", "irq", "softirq", "steal"))
        counters |= {
            "cpu.busy": busy,
            "cpu.steal": ticks["steal"],
            "cpu.softirq": ticks["softirq"],
            "cpu.total": sum(ticks.values()),
        }
    lines = parts.get("tcp", [])
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        group, *keys = names.split()
        full = [f"{group.rstrip(':')}.{key}" for key in keys]
        counters |= _numbers(full, values.split()[1:])
    for part, separator in (("nic", " "), ("ethtool", ":")):
        for line in parts.get(part, ()):
            key, _, value = line.rpartition(separator)
            counters |= _numbers([f"{part}.{key.strip()}"], [value])
    settings = [line.split(" ", 1) for line in parts.get("state", ())]
    counters["state"] = {words[0]: words[1] for words in settings if words[1:]}
    return counters


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, int | float]:
    """Return how much each counter grew; those that did not move are left out."""
    grown = {}
    for name, value in after.items():
        if name != "state" and name in before and value != before[name]:
            grown[name] = value - before[name]
    return grown


def warnings(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    host: str,
    accelerated: bool | None = None,
) -> list[str]:
    """Return what happened on a host during a test that makes its numbers doubtful."""
    grown = Counter(difference(before, after))
    notes = []
    for name, value in before.get("state", {}).items():
        now = after.get("state", {}).get(name)
        if now != value:
            notes.append(f"{name} changed from {value} to {now} during the run")
    total = grown["cpu.total"]
    if total > 20:  # clock ticks of 10 ms: less says nothing
        busy, steal = grown["cpu.busy"] / total, grown["cpu.steal"] / total
        if busy > CPU_BUSY:
            why = "the number may be the machine's, not the network's"
            notes.append(f"CPU {100 * busy:.0f} % busy: {why}")
        if steal > CPU_STOLEN:
            where = "other machines on its hardware"
            notes.append(f"{100 * steal:.0f} % of the CPU went to {where}")
    for way, word in (("tx", "sent"), ("rx", "received")):
        function = f"ethtool.vf_{way}_packets"
        packets, through = grown[f"nic.{way}_packets"], grown[function]
        known = accelerated and function in after
        if known and packets > 100 and through < BYPASSING * packets:
            notes.append(
                f"{through} of {packets} packets {word} took the virtual function: "
                "accelerated networking was not at work all the time"
            )
    again = grown["Tcp.RetransSegs"]
    if again > 100 and again > RETRANSMITTED * grown["Tcp.OutSegs"]:
        share = again / grown["Tcp.OutSegs"]
        notes.append(f"{100 * share:.0f} % of the TCP segments were retransmitted")
    jump_s = grown["time_s"] - grown["uptime_s"]
    if abs(jump_s) > CLOCK_JUMP_S:
        how = "let its time service slew, not step"
        notes.append(f"the clock jumped by {jump_s:+.2f} s during the run; {how}")
    return [f"{host}: {note}" for note in notes]
