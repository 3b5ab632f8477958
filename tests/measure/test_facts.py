"""What is read of a host: what it tells, and nothing that it does not."""

import os
import platform
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netperf_lib.experiment.factors import factors_of
from netperf_lib.measure.facts import (
    COUNTERS,
    FACTS,
    difference,
    read_counters,
    read_facts,
    warnings,
)

AZURE = """
@kernel
6.8.0-1021-azure

@os
Ubuntu 24.04.1 LTS

@cpu
Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz

@cpus
16

@nic
eth0

@driver
hv_netvsc

@mtu
1500

@offloads
tcp-segmentation-offload: on
large-receive-offload: off [fixed]

@functions
enP12345s1 mlx5_core {state}

@sysctl
net/ipv4/tcp_congestion_control cubic
net/ipv4/tcp_rmem 4096	131072	6291456

@tool iperf3 --version
/usr/bin/iperf3
iperf 3.16 (cJSON 1.7.15)

@tool qperf --version
"""


def sh(script, *arguments):
    return subprocess.run(
        ["sh", "-c", script, "sh", *arguments], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(("state", "up"), [("up", True), ("down", False)])
def test_a_vm_with_a_virtual_function(state, up):
    facts = read_facts(AZURE.replace("{state}", state))
    assert facts["vf_up"] is up
    assert facts["nic_driver"] == ("mlx5_core" if up else "hv_netvsc")
    assert facts["functions"] == [f"enP12345s1 mlx5_core {state}"]
    assert (facts["cpus"], facts["mtu"]) == ("16", 1500)
    assert facts["congestion_control"] == "cubic"
    assert facts["os"] == "Ubuntu 24.04.1 LTS"
    assert facts["sysctl"]["net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert facts["tools"] == {
        "iperf3": "iperf 3.16 (cJSON 1.7.15)"
    }  # qperf is not installed


def test_two_cards_of_one_size_are_told_apart():
    """Both are hv_netvsc by the interface that has the address."""
    mellanox = read_facts(AZURE.replace("{state}", "up"))
    mana = read_facts(AZURE.replace("mlx5_core {state}", "mana up"))
    assert (mellanox["nic_driver"], mana["nic_driver"]) == ("mlx5_core", "mana")
    sides = {"client": mellanox, "server": mana}
    levels = factors_of({}, {}, sides)
    assert levels["server_nic_driver"] == "mana"
    assert levels["client_cpu"] == mellanox["cpu"]


def test_a_vm_whose_virtual_function_is_gone_and_a_machine_that_never_has_one():
    gone = read_facts(AZURE.replace("enP12345s1 mlx5_core {state}", ""))
    assert gone["vf_up"] is False
    assert (
        read_facts(
            AZURE.replace("hv_netvsc", "virtio_net").replace(
                "enP12345s1 mlx5_core {state}", ""
            )
        )["vf_up"]
        is None
    )


def test_this_machine_tells_its_own(monkeypatch):
    monkeypatch.setenv(
        "OMP_NUM_THREADS", "1"
    )  # nproc obeys it; the host has as many processors as before
    facts = read_facts(
        sh(FACTS, "127.0.0.1", "iperf3 --version", "no-such-tool --version")
    )
    assert facts["kernel"] == platform.release()
    assert facts["cpus"] == str(len(os.sched_getaffinity(0)))
    assert facts["nic"] in ("lo", None)
    assert facts["sysctl"]["net.ipv4.tcp_sack"] in ("0", "1")
    assert "no-such-tool" not in facts["tools"]
    assert facts["vf_up"] is None


def test_counters_of_this_machine_grow():
    before, after = read_counters(sh(COUNTERS, "lo")), read_counters(sh(COUNTERS, "lo"))
    for name in (
        "Tcp.OutSegs",
        "TcpExt.TCPTimeouts",
        "nic.rx_bytes",
        "cpu.total",
        "time_s",
        "uptime_s",
    ):
        assert after[name] >= before[name]
    assert before["state"]["congestion_control"]
    assert "link.lo" in before["state"]
    assert all(v != 0 for v in difference(before, after).values())


@given(st.text(max_size=300))
def test_damaged_output_gives_absent_facts_and_no_traceback(text):
    for part in ("@time\n", "@cpu\n", "@tcp\n", "@nic\n", "@state\n", "@link\n", ""):
        assert isinstance(read_facts(part + text), dict)
        assert isinstance(read_counters(part + text), dict)


CALM = {
    "cpu.busy": 0,
    "cpu.steal": 0,
    "cpu.total": 0,
    "Tcp.OutSegs": 0,
    "Tcp.RetransSegs": 0,
    "time_s": 0.0,
    "uptime_s": 0.0,
    "nic.tx_packets": 0,
    "nic.rx_packets": 0,
    "ethtool.vf_tx_packets": 0,
    "ethtool.vf_rx_packets": 0,
    "state": {"congestion_control": "cubic", "link.enP1": "up"},
}
AFTER = CALM | {
    "cpu.busy": 300,
    "cpu.total": 2000,
    "Tcp.OutSegs": 100_000,
    "Tcp.RetransSegs": 200,
    "time_s": 10.0,
    "uptime_s": 10.0,
    "nic.tx_packets": 100_000,
    "nic.rx_packets": 90_000,
    "ethtool.vf_tx_packets": 99_900,
    "ethtool.vf_rx_packets": 89_000,
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, None),
        ({"cpu.busy": 1960}, "98 % busy"),
        ({"cpu.steal": 300}, "15 % of the CPU went to other machines"),
        ({"Tcp.RetransSegs": 9000}, "9 % of the TCP segments were retransmitted"),
        ({"Tcp.RetransSegs": 50, "Tcp.OutSegs": 60}, None),
        (
            {"ethtool.vf_tx_packets": 0},
            "0 of 100000 packets sent took the virtual function",
        ),
        (
            {"ethtool.vf_rx_packets": 45_000},
            "45000 of 90000 packets received took the virtual function",
        ),
        ({"time_s": 12.5}, r"clock jumped by \+2.50 s"),
        (
            {"state": {"congestion_control": "bbr", "link.enP1": "up"}},
            "congestion_control changed from cubic to bbr",
        ),
        ({"state": {"congestion_control": "cubic"}}, "link.enP1 changed from up to None"),
    ],
)
def test_what_makes_a_number_doubtful_is_said(changed, said):
    found = warnings(CALM, AFTER | changed, "vm1", True)
    if said is None:
        assert found == []
    else:
        (warning,) = found
        assert warning.startswith("vm1: ")
        assert re.search(said, warning)


def test_no_virtual_function_is_missed_where_there_should_be_none():
    assert not warnings(
        CALM,
        AFTER | {"ethtool.vf_tx_packets": 0, "ethtool.vf_rx_packets": 0},
        "vm1",
        False,
    )
