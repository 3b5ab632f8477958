"""Where each VM goes follows from its pairs; what cannot be is refused in one sentence."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft4Validator

from netperf_lib.errors import ExperimentError
from netperf_lib.hosts import options as checked
from netperf_lib.hosts.azure import template
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
    text = template.first_start(place(declared).vms[-1], ("PRIVATE\n", "PUBLIC"))
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
        "r": ("remote-northeurope", far, "", False),
        "v": ("peered", home, "1", False),
        "i": ("public-northeurope", far, "", False),
        "w": ("vpn-northeurope", far, "", False),
    }
    one_way = [("home", "remote-northeurope"), ("home", "peered")]
    assert set(made.peerings) == {*one_way, *((b, a) for a, b in one_way)}
    assert [g["kind"] for g in made.gateways] == ["Vpn"] * 2
    assert made.admitted == [("public-northeurope", "ip-c")]


def test_regions_in_both_directions_and_several():
    vms = {"other": {"region": "japaneast"}}
    pairs = ("near far cross-region", "far near cross-region", "near other cross-region")
    made = place(experiment(*pairs, vms=vms))
    networks = {"near": "home", "far": "remote-northeurope", "other": "remote-japaneast"}
    assert {v.name: v.network for v in made.vms} == networks


@pytest.mark.parametrize("size", ["D8s_v4", "DC4as_v5", "B2s"])
def test_acceleration_can_be_off_on_older_sizes(size):
    vms = {"a": {"vm_size": f"Standard_{size}"}}
    assert not place(experiment("a b same-zone off", vms=vms)).vm("a").accelerated


ARM_IMAGE = "Canonical:ubuntu-24_04-lts:server-arm64:latest"
ALWAYS = ("D8s_v5", "D4ads_v5", "F8as_v6")


@pytest.mark.parametrize(
    ("pairs", "said", "options"),
    [
        *(
            (
                "a b same-zone off",
                rf"{size} is always acc",
                {"vms": {"a": {"vm_size": size}}},
            )
            for size in map("Standard_{}".format, ALWAYS)
        ),
        ("a b basic-lb", "retired the basic load balancer.*use standard-lb", {}),
        ("a b expressroute", "circuit belongs to others.* as an inventory", {}),
        ("a b teleport", "unknown placement for Azure .known: ppg, same-zone", {}),
        ("a b cross-region", "set hosts.options.remote_region", {"remote_region": None}),
        ("a b cross-zone", "give hosts.options.zones two", {"zones": ["2"]}),
        ("a b cross-zone", "would be in zone 1", {"vms": {"b": {"zone": "1"}}}),
        ("a b same-zone; a b cross-zone", "would be in zone 1|have zone", {}),
        ("Client_A b ppg", "host 'Client_A' cannot be .*letters, digits and hyphens", {}),
        ("c- b ppg", "neither begins nor ends with a hyphen", {}),
        ("c s ppg; C s ppg", "hosts 'c' and 'C' have one name in Azure", {}),
        ("a b ppg", "give hosts.options.image one", {"vm_size": "Standard_D4ps_v5"}),
        ("a b ppg", "an x86 processor", {"image": ARM_IMAGE}),
        ("a b vpn", "existing network", WITHIN),
        ("a b ppg", "ssh_config belong together", {"subnet": WITHIN["subnet"]}),
        ("a b ppg", "image", {"image": "@file:b:c:d"}),
        ("a b ppg", "subscription", {"subscription": "--debug"}),
        ("a b ppg", "tags", {"tags": {"--x": "y"}}),
        ("a b ppg", "tags", {"tags": {"@x": "y"}}),
        ("a b ppg", "not an IPv4 address or prefix", {"allow_from": ["2001:db8::7"]}),
        ("a b ppg", "would open port 22 to", {"allow_from": ["0.0.0.0/0"]}),
        ("a b ppg", "'z', which is in no pair", {"vms": {"z": {"zone": "1"}}}),
        ("a b same-zone; a b ppg", "ppg off .*same-zone. and on .*ppg", {}),
        ("a b ppg; a c ppg off", "should have accelerated on .* and off", {}),
        ("a b ppg; a c nat-gateway", "network home .*ppg. and nat .*nat-gateway", {}),
        ("a b standard-lb; c b ppg", "address its load balancer .* and none", {}),
    ],
)
def test_what_cannot_be_is_refused_with_the_remedy(pairs, said, options):
    with pytest.raises(ExperimentError, match=said) as caught:
        place(experiment(*pairs.split("; "), **options))
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


def test_the_script_of_the_first_start_waits_for_apt():
    (script,) = (f["content"] for f in first_start(experiment())["write_files"])
    assert script.startswith("#!/bin/bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    calls = re.findall(r"apt-get .*", script)
    assert calls
    # a daily job of apt that runs is waited for
    assert all("-o DPkg::Lock::Timeout=600" in call for call in calls)


def test_secrets_are_secure_parameters():
    kinds = json.loads(template.template_text())["parameters"]
    assert kinds["userData"]["type"] == "secureObject"
    assert kinds["sharedKey"]["type"] == "securestring"
