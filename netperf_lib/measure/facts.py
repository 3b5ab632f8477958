"""Facts and counters of a host.

The scripts that print them, and the functions that read their output.

The scripts are short and only read kernel files and call the usual tools where installed; parts
that a host does not provide are absent. They run in the locale and with the search path that `ssh`
sets. Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
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

    def first(name: str) -> str | None:
        return next(iter(parts.get(name, ())), None)

    split = (line.partition(" ") for line in parts.get("sysctl", ()))
    sysctl = {name.replace("/", "."): " ".join(v.split()) for name, _, v in split if v}
    # Azure pairs the synthetic interface with a virtual function of the same hardware address
    functions = [line.split() for line in parts.get("functions", ())]
    up = [words[1] for words in functions if len(words) == 3 and words[2] == "up"]
    driver, mtu = first("driver"), first("mtu") or ""
    virtual = driver == "hv_netvsc"
    facts: dict[str, Any] = {name: first(name) for name in _FIRST}
    return facts | {
        # the interface itself says hv_netvsc for every card: what drives the card is the function
        "nic_driver": up[0] if virtual and up else driver,
        "mtu": int(mtu) if mtu.isdecimal() else None,
        "offloads": parts.get("offloads", []),
        "qdisc": parts.get("qdisc", []),
        "functions": parts.get("functions", []),
        "vf_up": bool(up) if virtual else None,
        "congestion_control": sysctl.get("net.ipv4.tcp_congestion_control"),
        "sysctl": sysctl,
        # the first line is the path of the program, the second names the version; credits and
        # options may follow
        "tools": {
            name.split()[1]: "".join(lines[1:2]) or None
            for name, lines in parts.items()
            if name.startswith("tool ") and lines
        },
    }


def _number(text: str) -> float | None:
    text = text.strip()
    return float(text) if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text, re.ASCII) else None


def read_counters(text: str) -> dict[str, Any]:
    """Read the output of `COUNTERS`.

    Flat numbers, and the settings that should not change while a test runs.
    """
    parts = _parts(text)
    counters: dict[str, Any] = {}
    clock = [_number(line.split()[0]) for line in parts.get("time", ())]
    if len(clock) == 2 and None not in clock:
        counters |= {"time_s": clock[0], "uptime_s": clock[1]}
    ticks = [_number(word) for word in " ".join(parts.get("cpu", ())).split()[1:9]]
    if len(ticks) == 8 and None not in ticks:
        user, nice, system, idle, wait, irq, soft, steal = (int(t or 0) for t in ticks)
        busy = (
            user + system + irq + soft + steal
        )  # not `nice`: such work gives way to the test
        counters |= {
            "cpu.busy": busy,
            "cpu.steal": steal,
            "cpu.softirq": soft,
            "cpu.total": busy + nice + idle + wait,
        }
    lines = parts.get("tcp", [])
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        group, *keys = names.split()
        pairs = zip(keys, map(_number, values.split()[1:]), strict=False)
        counters |= {
            f"{group.rstrip(':')}.{key}": int(value)
            for key, value in pairs
            if value is not None
        }
    for part, separator in (("nic", " "), ("ethtool", ":")):
        for line in parts.get(part, ()):
            key, _, value = line.rpartition(separator)
            if (number := _number(value)) is not None:
                counters[f"{part}.{key.strip()}"] = int(number)
    counters["state"] = dict(
        line.split(" ", 1) for line in parts.get("state", ()) if " " in line
    )
    return counters


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, int | float]:
    """Return how much each counter grew; those that did not move are left out."""
    return {
        name: value - before[name]
        for name, value in after.items()
        if isinstance(value, int | float) and name in before and value != before[name]
    }


def warnings(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    host: str,
    accelerated: bool | None = None,
) -> list[str]:
    """Return what happened on a host during a test that makes its numbers doubtful."""
    moved, notes = difference(before, after), []
    for name, value in before.get("state", {}).items():
        now = after.get("state", {}).get(name)
        if now != value:
            notes.append(f"{host}: {name} changed from {value} to {now} during the run")
    grown: defaultdict[str, Any] = defaultdict(int, moved)
    total = grown["cpu.total"]
    if total > 20:  # clock ticks of 10 ms: less says nothing
        busy, steal = (grown[name] / total for name in ("cpu.busy", "cpu.steal"))
        if busy > CPU_BUSY:
            why = "the number may be the machine's, not the network's"
            notes.append(f"{host}: CPU {100 * busy:.0f} % busy: {why}")
        if steal > CPU_STOLEN:
            where = "other machines on its hardware"
            notes.append(f"{host}: {100 * steal:.0f} % of the CPU went to {where}")
    for way, word in (("tx", "sent"), ("rx", "received")):
        function = f"ethtool.vf_{way}_packets"
        packets, through = grown[f"nic.{way}_packets"], grown[function]
        if (
            accelerated
            and function in after
            and packets > 100
            and through < BYPASSING * packets
        ):
            notes.append(
                f"{host}: {through} of {packets} packets {word} took the virtual function: "
                "accelerated networking was "
                "not at work all the time"
            )
    sent, again = grown["Tcp.OutSegs"], grown["Tcp.RetransSegs"]
    if again > 100 and again > RETRANSMITTED * sent:
        notes.append(
            f"{host}: {100 * again / sent:.0f} % of the TCP segments were retransmitted"
        )
    jump = grown["time_s"] - grown["uptime_s"]
    if "time_s" in moved and abs(jump) > CLOCK_JUMP_S:
        how = "let its time service slew, not step"
        notes.append(f"{host}: the clock jumped by {jump:+.2f} s during the run; {how}")
    return notes
