"""Where each VM goes follows from its pairs; what cannot be is refused in one sentence."""

from __future__ import annotations

import ast
import ipaddress
import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import netperf_lib
from netperf_lib.errors import ExperimentError
from netperf_lib.experiment import placements
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.placements import PLACED, PLACEMENTS
from netperf_lib.hosts import options as checked
from netperf_lib.hosts.azure import prices
from netperf_lib.hosts.azure.options import Options
from netperf_lib.hosts.azure.template import parameters, template_text, user_data
from netperf_lib.hosts.azure.topology import Topology, alternatives, topology
from netperf_lib.hosts.guests import guest_proofs

from .conftest import GUEST, experiment
from .models import wrong

CIRCUIT = "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/expressRouteCircuits/c1"
SUBNET = (
    "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network/virtualNetworks/v/subnets/x"
)


def place(declared: Experiment, attempt: int = 0) -> Topology:
    return topology(declared, checked(declared), attempt=attempt)


def test_each_placement_puts_its_server_where_it_says() -> None:
    made = place(
        experiment(
            "c p ppg", "c z same-zone", "c x cross-zone", "c r cross-region", "c v vnet-peering", "c l standard-lb",
            "c i public-ip", "c w vpn", "c e expressroute", expressroute_circuit=CIRCUIT,
        )
    )  # fmt: skip
    seen = {v.name: (v.network, v.region, v.zone, bool(v.ppg), v.balancer) for v in made.vms}
    home, far = "westeurope", "northeurope"
    assert seen == {
        "c": ("home", home, "1", True, ""),
        "p": ("home", home, "1", True, ""),
        "z": ("home", home, "1", False, ""),
        "x": ("home", home, "2", False, ""),
        "r": ("remote", far, "1", False, ""),
        "v": ("peered", home, "1", False, ""),
        "l": ("home", home, "1", False, "l"),
        "i": ("public", far, "1", False, ""),
        "w": ("vpn", far, "1", False, ""),
        "e": ("expressroute", far, "1", False, ""),
    }
    assert set(made.peerings) == {
        ("home", "peered"),
        ("peered", "home"),
        ("home", "remote"),
        ("remote", "home"),
    }
    assert [(g.name, g.kind) for g in made.gateways] == [
        ("vpn-home", "Vpn"),
        ("vpn-vpn", "Vpn"),
        ("expressroute-home", "ExpressRoute"),
        ("expressroute-expressroute", "ExpressRoute"),
    ]
    assert made.public_pairs == (("c", "i"),)


def test_all_zone_pairs_in_both_directions() -> None:
    zones = ("1", "2", "3")
    pairs = [f"z{a} z{b} cross-zone" for a in zones for b in zones if a != b]
    made = place(experiment(*pairs, zones=zones, vms={f"z{z}": {"zone": z} for z in zones}))
    assert {v.name: v.zone for v in made.vms} == {"z1": "1", "z2": "2", "z3": "3"}


def test_both_directions_between_regions() -> None:
    made = place(experiment("near far cross-region", "far near cross-region"))
    assert {v.name: v.network for v in made.vms} == {"near": "home", "far": "remote"}


def test_accelerated_networking_off_needs_hosts_of_its_own() -> None:
    made = place(experiment("a b same-zone", "c d same-zone off"))
    assert {v.name: v.accelerated for v in made.vms} == {
        "a": True,
        "b": True,
        "c": False,
        "d": False,
    }
    with pytest.raises(
        ExperimentError, match=r"'a' should have accelerated on .* and off .*; name another host"
    ):
        place(experiment("a b same-zone", "a c same-zone off"))


@pytest.mark.parametrize(
    ("size", "instead"),
    [
        ("Standard_D8s_v5", "Standard_D8s_v4"), ("Standard_E16ads_v6", "Standard_E16ads_v4"),
        ("Standard_D4ps_v5", "Standard_D8s_v4"), ("Standard_F8as_v6", "Standard_D8s_v4"),
        ("Standard_D8s_v4", None), ("Standard_F8s_v2", None), ("Standard_DC4as_v5", None), ("Standard_B2s", None),
    ],
)  # fmt: skip
def test_a_size_that_is_always_accelerated_is_refused_where_it_should_not_be(
    size: str, instead: str | None
) -> None:
    place(experiment("a b same-zone", vm_size=size))
    for declared in (
        experiment("a b same-zone off", vms={"a": {"vm_size": size}}),
        experiment(
            "a b same-zone off", vm_size="Standard_D8s_v3", vms={"a": {}}, alternative_sizes=[size]
        ),
    ):
        if instead is None:
            place(declared)
            continue
        said = f"host 'a'.*{size}.* is always accelerated.*for example {instead}"
        with pytest.raises(ExperimentError, match=said):
            place(declared)


@pytest.mark.parametrize(
    ("pairs", "options", "said"),
    [
        (["a b basic-lb"], {}, "retired the basic load balancer on 2025-09-30.*use standard-lb"),
        (["a b teleport"], {}, "unknown placement for Azure .known: ppg, same-zone"),
        (["a b cross-region"], {"remote_region": None}, "set hosts.options.remote_region"),
        (["a b cross-zone"], {"zones": ["2"]}, "zones must name two zones"),
        (["a b expressroute"], {}, "expressroute_circuit .*az network express-route list"),
        (["a b vpn"], {"subnet": SUBNET}, "existing network"),
        (
            ["a b vpn"],
            {"vpn_sku": "VpnGw2"},
            "no new gateways of SKU VpnGw2 since November 2025; use VpnGw2AZ",
        ),
        (["a b cross-region"], {"subnet": SUBNET}, "remote_subnet"),
        (["a b public-ip"], {"management": "private", "jump_host": "jump"}, "no public addresses"),
        (["a b same-zone"], {"management": "private"}, "cannot be reached"),
        (
            ["a b same-zone"],
            {"image": "MicrosoftWindowsServer:WindowsServer:2022-datacenter-g2:latest"},
            "Linux",
        ),
        (["a b same-zone"], {"allow_from": ["192.0.2.7", "2001:db8::7"]}, "IPv4"),
        (["a b same-zone"], {"allow_from": []}, "allow_from"),
        (["a b same-zone"], {"expires_h": 48}, "24 hours"),
        (["a b same-zone"], {"jump_host": "jump"}, "management: private"),
        (["a b nva"], {}, "next_hop"),
        (["a b same-zone", "a b ppg"], {}, "'b' should have ppg off .* and on"),
        (["a b same-zone", "a b cross-zone"], {}, "both hosts would be in zone 1|should have zone"),
        (["a b standard-lb", "c b same-zone"], {}, "measured at different addresses"),
        (
            ["a b same-zone"],
            {"vms": {"b": {"backends": 2}}},
            "b has backends, but b is not the server of a standard-lb",
        ),
        (
            ["a b standard-lb", "a b-2 ppg"],
            {"vms": {"b": {"backends": 2}}},
            "'b-2' would also be the name of a backend",
        ),
        (["A_b c same-zone"], {}, "cannot name a VM"),
        ([f"{'a' * 41} c same-zone"], {}, "at most 40"),
        (["a b same-zone"], {"vms": {"z": {"zone": "1"}}}, "'z', which is in no pair"),
        (["a b cross-zone"], {"vms": {"b": {"zone": "1"}}}, "both hosts would be in zone 1"),
        (["a b same-zone"], {"allow_from": ["0.0.0.0/0"]}, "would open port 22 to"),
        (["a b same-zone"], {"allow_from": ["Internet"]}, "not an address or prefix"),
        (["a b same-zone"], {"region": "West Europe"}, "region"),
        (["a b same-zone"], {"colour": "red"}, "unknown key; known here are region"),
        (["a b same-zone"], {"address_space": "8.8.0.0/16"}, "must be private"),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(
    pairs: list[str], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ExperimentError, match=said) as caught:
        place(experiment(*pairs, **options))
    assert "\n" not in str(caught.value)


def test_a_load_balancer_would_end_the_connection_for_control_of_a_long_test() -> None:
    declared = experiment("a b standard-lb", "a c same-zone")
    (test,) = declared.tests
    long = test.model_copy(update={"duration_s": 1900.0})
    with pytest.raises(ExperimentError, match="idle for 30 minutes"):
        place(declared.model_copy(update={"tests": (long,)}))
    elsewhere = long.model_copy(update={"placements": ("same-zone",)})
    assert place(declared.model_copy(update={"tests": (test, elsewhere)}))
    (balancer,) = (
        r for r in json.loads(template_text())["resources"] if r["type"].endswith("/loadBalancers")
    )
    assert (
        balancer["properties"]["loadBalancingRules"][0]["properties"]["idleTimeoutInMinutes"] == 30
    )


def test_alternatives_are_only_those_allowed() -> None:
    assert len(alternatives(checked(experiment()))) == 1
    many = experiment(
        "a b cross-zone", alternative_zones=True, alternative_sizes=["Standard_D2s_v5"]
    )
    assert [tuple(v.zone for v in place(many, i).vms) for i in range(3)] == [
        ("1", "2"),
        ("2", "1"),
        ("1", "2"),
    ]
    assert {v.size for v in place(many, 2).vms} == {"Standard_D2s_v5"}


FREE = [p for p in PLACED if p not in ("expressroute", "nva", "nat-gateway")]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.sampled_from(sorted(set(PLACED) - {"expressroute", "nva", "nat-gateway"})),
        min_size=1,
        max_size=8,
    )
)
def test_networks_never_overlap_and_every_member_is_made(kinds: list[str]) -> None:
    made = place(experiment(*(f"c s{i} {kind}" for i, kind in enumerate(kinds))))
    blocks = [ipaddress.ip_network(n.prefix) for n in made.networks]
    assert not any(a.overlaps(b) for i, a in enumerate(blocks) for b in blocks[:i])
    assert {v.network for v in made.vms} == {n.name for n in made.networks}
    assert len(made.vms) == len(kinds) + 1
    for network in made.networks:
        parts = [ipaddress.ip_network(p) for p in network.subnets.values()]
        assert not any(a.overlaps(b) for i, a in enumerate(parts) for b in parts[:i])


def given_parameters(declared: Experiment) -> dict[str, Any]:
    options: Options = checked(declared)
    filled = parameters(
        topology(declared, options),
        options,
        tags={"netperf-experiment": "x", "netperf-expires": "2030-01-02T03:04:05Z"},
        public_key="ssh-ed25519 AAAA",
        allow_from=("192.0.2.7/32",),
        host_key=lambda vm: (f"private {vm}", f"public {vm}"),
    )
    return {k: v["value"] for k, v in filled["parameters"].items()}


def test_parameters_are_those_of_the_template() -> None:
    declared = set(json.loads(template_text())["parameters"])
    assert set(given_parameters(experiment("c r cross-region"))) == declared


def test_the_template_sets_accelerated_networking_and_security_explicitly() -> None:
    resources = {r["type"]: r for r in json.loads(template_text())["resources"]}
    nic = resources["Microsoft.Network/networkInterfaces"]["properties"]
    vm = resources["Microsoft.Compute/virtualMachines"]["properties"]
    assert "accelerated" in nic["enableAcceleratedNetworking"]
    assert vm["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True
    assert "adminPassword" not in vm["osProfile"]


def test_secrets_are_secure_parameters() -> None:
    kinds = {k: v["type"] for k, v in json.loads(template_text())["parameters"].items()}
    assert {kinds["userData"], kinds["sharedKey"]} == {"secureObject", "securestring"}


def test_the_first_start_brings_host_key_tools_and_buffers() -> None:
    declared = experiment("c r cross-region", versions={"iperf3": "3.16-1build2"})
    pair = declared.pairs[0].model_copy(update={"tcp_buffer_bytes": 1 << 26})
    declared = declared.model_copy(update={"pairs": (pair,)})
    vm = place(declared).vm("r")
    text = user_data(vm, checked(declared), ("PRIVATE\nKEY\n", "PUBLIC"))
    assert text.startswith("#cloud-config\n")
    config = yaml.safe_load(text)  # as cloud-init reads it
    assert config["ssh_keys"] == {"ed25519_private": "PRIVATE\nKEY\n", "ed25519_public": "PUBLIC"}
    assert "iperf3=3.16-1build2" in config["runcmd"][-1]
    assert f"net.core.rmem_max = {1 << 26}" in config["write_files"][-1]["content"]
    alma = experiment(image="almalinux:almalinux-x86_64:9-gen2:latest")
    assert (
        "dnf"
        in yaml.safe_load(user_data(place(alma).vms[0], checked(alma), ("a", "b")))["runcmd"][-1]
    )


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        (
            "Canonical:ubuntu-24_04-lts:server:latest",
            {"iperf3=3.16-*", "iperf=2.1.9+*", "qperf=0.4.11-*", "sockperf=3.7-*"},
        ),
        (
            "Canonical:0001-com-ubuntu-server-jammy:22_04-lts-gen2:latest",
            {"iperf3=3.9-*", "sockperf=3.7-*"},
        ),
        ("Debian:debian-13:13-gen2:latest", {"iperf3=3.18-*", "iperf=2.2.1+*"}),
        ("almalinux:almalinux-x86_64:9-gen2:latest", {"iperf3=3.9-*", "qperf=0.4.9-*"}),
        ("RedHat:RHEL:9-lvm-gen2:latest", {"iperf3=3.9-*"}),
        ("RedHat:RHEL:10-lvm-gen2:latest", {"iperf3", "iperf", "qperf"}),
    ],
)
def test_tools_are_pinned_by_the_release_of_the_image(image: str, asked: set[str]) -> None:
    declared = experiment(image=image)
    config = yaml.safe_load(user_data(place(declared).vms[0], checked(declared), ("a", "b")))
    assert asked <= set(config["runcmd"][-1])


def test_what_the_experiment_asks_for_comes_before_the_pins() -> None:
    declared = experiment(versions={"iperf3": "3.17.1-1", "qperf": "*"})
    assert checked(declared).pinned() == {
        "iperf": "2.1.9+*",
        "iperf3": "3.17.1-1",
        "sockperf": "3.7-*",
    }


def test_the_script_of_the_first_start_is_one_that_bash_reads() -> None:
    config = yaml.safe_load(
        user_data(place(experiment()).vms[0], checked(experiment()), ("a", "b"))
    )
    (script,) = (f["content"] for f in config["write_files"] if f["path"].endswith("npl-prepare"))
    assert script.startswith("#!/bin/bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"$JOURNAL"
case "$*" in *=gone*|*-gone*|*" epel-release") exit 100;; esac
"""


@pytest.mark.parametrize("manager", ["apt", "dnf"])
def test_a_version_that_is_gone_is_no_reason_to_have_no_tool(tmp_path: Path, manager: str) -> None:
    """With stand-ins for the package managers, which must not touch this machine."""
    config = yaml.safe_load(
        user_data(place(experiment()).vms[0], checked(experiment()), ("a", "b"))
    )
    (script,) = (f["content"] for f in config["write_files"] if f["path"].endswith("npl-prepare"))
    for name in ("apt-get", "dnf", "systemctl", "sleep", "sockperf", "iperf3", "iperf", "qperf"):
        (tmp_path / name).write_text(STAND_IN, "utf-8")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "os-release").write_text(
        'VERSION_ID="9.4"\n', "utf-8"
    )  # this machine's may have no version
    script = script.replace("/etc/os-release", str(tmp_path / "os-release"))
    journal = tmp_path / "journal"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "JOURNAL": str(journal)}
    subprocess.run(
        ["bash", "-s", manager, "iperf3=gone", "qperf=0.4.11", "iperf"],
        input=script, text=True, check=True, env=environment, capture_output=True,
    )  # fmt: skip
    done = [
        line.rsplit(" ", 1)[1]
        for line in journal.read_text("utf-8").splitlines()
        if " install " in line
    ]
    glue = {"apt": "=", "dnf": "-"}[manager]
    wanted = [f"iperf3{glue}gone"] * 4 + ["iperf3", f"qperf{glue}0.4.11", "iperf"]
    assert [d for d in done if "epel" not in d] == wanted
    # Red Hat's own repositories do not have it
    epel = [d.rsplit("/", 1)[1] for d in done if d.startswith("https:")]
    assert set(epel) == ({"epel-release-latest-9.noarch.rpm"} if manager == "dnf" else set())


@pytest.mark.parametrize(
    ("driver", "kind"),
    [("mlx5_core", "ConnectX-4 or later"), ("mana", "Microsoft Azure Network Adapter")],
)
def test_the_kinds_of_virtual_function_are_told_apart(driver: str, kind: str) -> None:
    guest = GUEST | {"nic": [("eth0", "hv_netvsc", "up"), ("enP1s1", driver, "up")]}
    (proof,) = (p for p in guest_proofs(True, guest) if p.claim.startswith("virtual function"))
    assert proof.holds
    assert kind in proof.evidence


def test_the_version_asked_for_is_proven_or_flagged() -> None:
    guest = GUEST | {"package": [("iperf3", "3.16-1build2"), ("qperf", "0.4.11-3")]}
    wanted = {"iperf3": "3.16*", "qperf": "0.4.10-1", "sockperf": "3.7-1"}
    claims = {p.claim: (p.holds, p.evidence) for p in guest_proofs(True, guest, wanted)}
    assert claims["packages of the tools"] == (True, "iperf3 3.16-1build2, qperf 0.4.11-3")
    assert claims["iperf3 3.16*"] == (True, "3.16-1build2")
    assert claims["qperf 0.4.10-1"] == (False, "0.4.11-3")
    assert claims["sockperf 3.7-1"][0] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda vm: vm["properties"].update(licence="x"),
            "properties.licence: .* no such property",
        ),
        (
            lambda vm: vm["properties"]["securityProfile"].update(securityType="Standard"),
            "'Standard' is none of",
        ),
        (lambda vm: vm["properties"]["osProfile"].update(adminUsername=7), "7 is no str"),
        (lambda vm: vm.update(apiVersion="2099-01-01"), "no class of version"),
        (lambda vm: vm["properties"].update(networkProfile=[]), "is no .*NetworkProfile"),
    ],
)
def test_the_emulator_refuses_what_azures_own_classes_do_not_know(change: Any, said: str) -> None:
    """Every template that the tests deploy goes through this (`Cloud`); here it is shown that it can refuse."""
    security = {"securityType": "TrustedLaunch", "uefiSettings": {"secureBootEnabled": True}}
    vm = {
        "type": "Microsoft.Compute/virtualMachines",
        "apiVersion": "2024-07-01",
        "name": "a",
        "location": "westeurope",
        "properties": {"securityProfile": security, "osProfile": {"adminUsername": "me"}},
    }
    assert wrong(vm) == []
    change(vm)
    (problem,) = wrong(vm)
    assert re.search(said, problem), problem


def test_a_placement_is_one_entry_of_one_table() -> None:
    """Nothing that creates or judges knows one by its name."""
    root = Path(netperf_lib.__file__).parent
    code = [
        *(root / "hosts" / "azure").glob("*.py"),
        *(root / "questions").glob("*.py"),
        root / "experiment" / "estimate.py",
    ]
    # words of az and of Azure that are also names, and names in studies of others
    other = {"az", "ppg", "nat-gateway", "public-ip"}
    found = {
        (path.name, node.value)
        for path in code
        if path.name != "published_figures.py"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and node.value in set(PLACEMENTS) - other
    }
    assert not found


def test_a_new_placement_is_placed_priced_and_proven_by_its_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = replace(
        PLACEMENTS["vnet-peering"], network="partner", meaning="a partner's network, peered"
    )
    for name in ("PLACEMENTS", "PLACED"):
        monkeypatch.setitem(getattr(placements, name), "partner", entry)
    declared = experiment("a b partner")
    made = topology(declared, checked(declared))
    assert made.peerings == (("home", "partner"), ("partner", "home"))
    assert made.vm("b").network == "partner"
    free = checked(declared).model_copy(update={"prices": {"transfer partner": 0.5}})
    assert prices._transfer("partner", "westeurope", "westeurope", free) == 0.5
