"""Where each VM goes follows from its pairs; what cannot be is refused in one sentence."""

import ast
import ipaddress
import json
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

import netperf_lib
from netperf_lib.errors import ExperimentError
from netperf_lib.experiment.placements import PLACED, PLACEMENTS
from netperf_lib.hosts import options as checked
from netperf_lib.hosts.azure.template import user_data
from netperf_lib.hosts.azure.topology import alternatives

from .conftest import experiment

GROUP = "/subscriptions/s/resourceGroups/net/providers/Microsoft.Network"
WITHIN = {"subnet": f"{GROUP}/virtualNetworks/v/subnets/x", "ssh_config": "c"}


FIRST_START = Draft4Validator(
    json.loads(Path(__file__).with_name("cloud-init-schema.json").read_text("utf-8"))
)


def place(declared, attempt=0):
    return alternatives(declared, checked(declared))[attempt]


def first_start(declared):
    text = user_data(place(declared).vms[-1], ("PRIVATE\n", "PUBLIC"))
    assert text.startswith("#cloud-config\n")
    return yaml.safe_load(text)


def test_each_placement_puts_its_server_where_it_says():
    pairs = ("p ppg", "z same-zone", "x cross-zone", "r cross-region", "v vnet-peering")
    pairs += ("i public-ip", "w vpn")
    made = place(experiment(*(f"c {p}" for p in pairs)))
    home, far = "westeurope", "northeurope"
    assert {v.name: (v.network, v.region, v.zone, bool(v.ppg)) for v in made.vms} == {
        "c": ("home", home, "1", True),
        "p": ("home", home, "1", True),
        "z": ("home", home, "1", False),
        "x": ("home", home, "2", False),
        "r": ("remote", far, "", False),
        "v": ("peered", home, "1", False),
        "i": ("public", far, "", False),
        "w": ("vpn", far, "", False),
    }
    one_way = [("home", "remote"), ("home", "peered")]
    assert set(made.peerings) == {*one_way, *((b, a) for a, b in one_way)}
    assert [g["kind"] for g in made.gateways] == ["Vpn"] * 2
    assert made.admitted == [("public", "ip-c")]


def test_all_zone_pairs_in_both_directions():
    zones = ("1", "2", "3")
    pairs = [f"z{a} z{b} cross-zone" for a in zones for b in zones if a != b]
    made = place(
        experiment(*pairs, zones=zones, vms={f"z{z}": {"zone": z} for z in zones})
    )
    assert {v.name: v.zone for v in made.vms} == {"z1": "1", "z2": "2", "z3": "3"}


def test_regions_in_both_directions_and_several():
    vms = {"other": {"region": "japaneast"}}
    pairs = ("near far cross-region", "far near cross-region", "near other cross-region")
    made = place(experiment(*pairs, vms=vms))
    networks = {"near": "home", "far": "remote", "other": "remote-japaneast"}
    assert {v.name: v.network for v in made.vms} == networks


@pytest.mark.parametrize(
    ("size", "refused"),
    [
        *(
            (size, True)
            for size in ("Standard_D8s_v5", "Standard_D4ads_v5", "Standard_F8as_v6")
        ),
        *(
            (size, False)
            for size in ("Standard_D8s_v4", "Standard_DC4as_v5", "Standard_B2s")
        ),
    ],
)
def test_off_needs_a_size_that_can_be_off(size, refused):
    declared = experiment("a b same-zone off", vms={"a": {"vm_size": size}})
    if not refused:
        assert not place(declared).vm("a").accelerated
        return
    with pytest.raises(ExperimentError, match=f"host 'a'.*{size} is always accelerated"):
        place(declared)


@pytest.mark.parametrize(
    ("pairs", "options", "said"),
    [
        (
            ["a b basic-lb"],
            {},
            "retired the basic load balancer on 2025-09-30.*use standard-lb",
        ),
        (["a b teleport"], {}, "unknown placement for Azure .known: ppg, same-zone"),
        (
            ["a b cross-region"],
            {"remote_region": None},
            "set hosts.options.remote_region",
        ),
        (["a b cross-zone"], {"zones": ["2"]}, "give hosts.options.zones two"),
        (["a b expressroute"], {}, "circuit belongs to others.* as an inventory"),
        (["Client_A b ppg"], {}, "host 'Client_A' cannot be a VM of Azure"),
        (["c- b ppg"], {}, "neither begins nor ends with a hyphen"),
        (["s.b b ppg"], {}, "letters, digits and hyphens"),
        (["c s ppg", "C s ppg"], {}, "hosts 'c' and 'C' have one name in Azure"),
        (["a b ppg"], {"vm_size": "Standard_D4ps_v5"}, "give hosts.options.image one"),
        (["a b ppg"], {"image": "Canonical:ubuntu-24_04-lts:server-arm64:latest"}, "x86"),
        (["a b vpn"], WITHIN, "existing network"),
        (["a b same-zone"], {"subnet": WITHIN["subnet"]}, "ssh_config belong together"),
        (["a b same-zone"], {"image": "@file:b:c:d"}, "image"),
        (["a b same-zone"], {"subscription": "--debug"}, "subscription"),
        (["a b same-zone"], {"tags": {"--x": "y"}}, "tags"),
        (["a b same-zone"], {"tags": {"@x": "y"}}, "tags"),
        (["a b same-zone"], {"allow_from": ["192.0.2.7", "2001:db8::7"]}, "IPv4"),
        (["a b same-zone"], {"allow_from": ["0.0.0.0/0"]}, "would open port 22 to"),
        (
            ["a b same-zone"],
            {"allow_from": ["Internet"]},
            "not an IPv4 address or prefix",
        ),
        (
            ["a b same-zone", "a b ppg"],
            {},
            "should have ppg off .*same-zone. and on .*ppg",
        ),
        (
            ["a b same-zone", "a c same-zone off"],
            {},
            "should have accelerated on .* and off",
        ),
        (
            ["a b same-zone", "a b cross-zone"],
            {},
            "both hosts would be in zone 1|have zone",
        ),
        (
            ["a b standard-lb", "c b same-zone"],
            {},
            "should have address its load balancer .* and none",
        ),
        (["a b same-zone"], {"vms": {"z": {"zone": "1"}}}, "'z', which is in no pair"),
        (
            ["a b cross-zone"],
            {"vms": {"b": {"zone": "1"}}},
            "both hosts would be in zone 1",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(pairs, options, said):
    with pytest.raises(ExperimentError, match=said) as caught:
        place(experiment(*pairs, **options))
    assert "\n" not in str(caught.value)


def test_alternatives_are_only_those_allowed_and_each_once():
    def zones(**options):
        declared = experiment("a b cross-zone", **options)
        found = alternatives(declared, checked(declared))
        return [tuple(vm.zone for vm in made.vms) for made in found]

    assert zones() == [("1", "2")]
    assert zones(alternative_zones=True) == [("1", "2"), ("2", "1")]
    fixed = {"a": {"zone": "1"}, "b": {"zone": "2"}}
    assert zones(alternative_zones=True, vms=fixed) == [("1", "2")]


FREE = sorted(set(PLACED) - {"nat-gateway"})


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(FREE), min_size=1, max_size=8))
def test_networks_never_overlap(kinds):
    made = place(experiment(*(f"c s{i} {kind}" for i, kind in enumerate(kinds))))
    assert {v.network for v in made.vms} == {n["name"] for n in made.networks}
    blocks = [ipaddress.ip_network(n["prefix"]) for n in made.networks]
    assert not any(a.overlaps(b) for i, a in enumerate(blocks) for b in blocks[:i])


def test_the_first_start_brings_key_tools_and_buffers():
    declared = experiment("c r cross-region")
    pair = declared.pairs[0].model_copy(update={"tcp_buffer_bytes": 1 << 26})
    config = first_start(declared.model_copy(update={"pairs": (pair,)}))
    assert config["ssh_keys"] == {
        "ed25519_private": "PRIVATE\n",
        "ed25519_public": "PUBLIC",
    }
    assert {"qperf", "sockperf", "iperf3"} <= set(config["runcmd"][-1])
    assert f"net.core.rmem_max = {1 << 26}" in config["write_files"][-1]["content"]
    # a start whose data the schema refuses is "degraded done"
    assert list(FIRST_START.iter_errors(config)) == []
    # as an earlier release wrote it
    assert list(FIRST_START.iter_errors(config | {"ssh_genkeytypes": []}))


def test_bash_reads_the_script_of_the_first_start():
    (script,) = (f["content"] for f in first_start(experiment())["write_files"])
    assert script.startswith("#!/bin/bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_a_placement_is_one_entry_of_one_table():
    """Nothing that creates or judges knows one by its name."""
    code = (Path(netperf_lib.__file__).parent / "hosts" / "azure").glob("*.py")
    # words of az and of Azure that are also names
    other = {"az", "ppg", "nat-gateway", "public-ip"}
    nodes = (
        node for path in code for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )
    words = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert not words & (set(PLACEMENTS) - other)


def test_secrets_are_secure_parameters():
    template = Path(netperf_lib.__file__).parent / "hosts" / "azure" / "template.json"
    kinds = {
        k: v["type"] for k, v in json.loads(template.read_text())["parameters"].items()
    }
    assert {kinds["userData"], kinds["sharedKey"]} == {"secureObject", "securestring"}
