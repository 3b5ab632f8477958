"""Everything that can be known of a subscription before anything is created in it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from netperf_lib import cli
from netperf_lib.errors import AzureError, ExperimentError
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure import checks

from . import record
from .cloud import SUBSCRIPTION, Cloud
from .conftest import experiment, proposal
from .direct import DirectAz
from .emulator import Emulator
from .recordings import fault
from .test_landing_zone import priced

SUBJECTS = (
    "az", "login", "second factor", "rights", "providers", "zones", "sizes", "quota", "image", "built upon", "locks",
    "access",
    "price", "time", "policy",
)  # fmt: skip


def found(declared: Any) -> dict[str, tuple[str, bool]]:
    return {subject: (words, fine) for subject, words, fine in azure.examine(declared)}


def test_a_line_for_each_subject_and_nothing_is_created(az: DirectAz, cloud: Cloud) -> None:
    lines = found(experiment("a b cross-region", budget=5, prices={**PRICED}))
    assert tuple(lines) == SUBJECTS
    assert all(fine for _, fine in lines.values()), lines
    assert lines["second factor"][0] == "given at this login"
    assert lines["quota"][0].startswith(
        "4 vCPUs in westeurope, 1 public addresses in westeurope, 4 vCPUs in northeurope"
    )
    assert lines["policy"][0].startswith(
        "Azure finds it valid, and would create 2 networkInterfaces, "
    )
    assert "within the budget of 5" in lines["price"][0]
    assert not cloud.groups
    assert not cloud.resources
    assert not [r for r in cloud.requests if r.startswith(("PUT", "DELETE", "PATCH"))]


PRICED = {
    "Standard_D4s_v5": 0.2,
    "disk StandardSSD_LRS": 0.0,
    "public address": 0.0,
    "transfer cross-region": 0.07,
}


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("rights", "no right to Microsoft.Compute/virtualMachines/write"),
        (
            "providers",
            "provider Microsoft.Compute is NotRegistered: run `az provider register --wait",
        ),
        ("quota", "quota of standardDSv5Family in westeurope: 8 vCPUs needed, 1 free of 1"),
        ("policy", "RequestDisallowedByPolicy: Resource 'x' was disallowed by policy"),
        ("built upon", "run `az extension add --name bastion`"),
        (
            "locks",
            "lock keep (CanNotDelete): nothing could be removed again in the scope of /subscriptions/",
        ),
        ("price", "is above the budget of 0.1"),
        ("time", "longer than hosts.options.expires_h 0.1: raise it, or measure less"),
        ("sizes", "size Standard_D4s_v5 is not available in zone 3"),
    ],
)
def test_what_is_wrong_is_told_with_its_remedy(
    az: DirectAz, cloud: Cloud, subject: str, words: str
) -> None:
    more: dict[str, Any] = {}
    match subject:
        case "rights":
            cloud.actions = ["*/read", "Microsoft.Network/*", "Microsoft.Resources/*"]
        case "providers":
            cloud.unregistered.add("Microsoft.Compute")
        case "quota":
            cloud.limits["westeurope", "standardDSv5Family"] = 1
        case "policy":
            cloud.faults.append(
                fault("RequestDisallowedByPolicy", match="POST .*/validate", times=9)
            )
        case "built upon":
            where = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Network/bastionHosts/b"
            more = {"bastion": where, "management": "private"}
        case "locks":
            at = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/locks/keep"
            cloud.locks = [{"id": at, "name": "keep", "properties": {"level": "CanNotDelete"}}]
        case "price":
            more = {"prices": {**PRICED, "Standard_D4s_v5": 2.0}}
        case "time":
            more = {"expires_h": 0.1}
        case "sizes":
            more = {"zones": ["3"], "vm_size": "Standard_F72s_v2"}
            words = words.replace("D4s_v5", "F72s_v2")
    lines = found(experiment(budget=0.1 if subject == "price" else None, **more))
    said, fine = lines[subject]
    assert not fine
    assert words in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"region": "West Europe"},
            "hosts.options.region: 'West Europe' does not look like westeurope",
        ),
        (
            {"vm_size": "D4s_v5"},
            "hosts.options.vm_size: 'D4s_v5' does not look like Standard_D8s_v5",
        ),
        (
            {"vms": {"a": {"vm_size": "D4"}}},
            "hosts.options.vms.a.vm_size: 'D4' does not look like Standard_D8s_v5",
        ),
        ({"bandwidth_mbps": {"D4": 1}}, "'D4' does not look like Standard_D8s_v5"),
        ({"zones": ["4"]}, "hosts.options.zones.0: '4' does not look like 1 or 2 or 3"),
        ({"vpn_sku": "Basic"}, "hosts.options.vpn_sku: 'Basic' does not look like VpnGw1AZ"),
        (
            {"image": "Ubuntu2404"},
            "'Ubuntu2404' does not look like Canonical:ubuntu-24_04-lts:server:latest",
        ),
        (
            {"subnet": "default"},
            "'default' does not look like /subscriptions/ID/resourceGroups/GROUP/providers/TYPE/NAME",
        ),
        (
            {"vmsize": "x"},
            "hosts.options.vmsize: unknown key; did you mean vm_size? known here are region, ",
        ),
        ({"vms": {"a": {"colour": "x"}}}, "unknown key; known here are region, zone, vm_size, "),
        (
            {"disk": "Premium"},
            "'Premium' is not known; legal are 'Standard_LRS', 'StandardSSD_LRS', 'Premium_LRS'",
        ),
        ({"prices": {"disk Premium_LRS": -1}}, "-1 must be greater than or equal to 0"),
    ],
)
def test_a_mistake_in_the_options_is_told_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ExperimentError) as refused:
        next(azure.examine(experiment(**options)))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("pairs", "options", "subject", "words"),
    [
        (
            [],
            {"region": "westeuropa"},
            "zones",
            "region 'westeuropa' is not open to this subscription: did you mean westeurope? choose one of `az",
        ),
        (
            ["a b same-zone", "a c ppg"],
            {"region": "westus"},
            "zones",
            "a, b, c: region westus has no zone 1: set hosts.options.zones: [] to use none",
        ),
        (
            [],
            {"vm_size": "Standard_D4s_v55"},
            "sizes",
            "size Standard_D4s_v55 is not offered in westeurope: choose one of `az vm list-skus -l westeurope --zone",
        ),
        (
            [],
            {"vm_size": "Standard_HB120rs_v3"},
            "sizes",
            "size Standard_HB120rs_v3 is not available in zone 1 of westeurope, in no zone: choose another size",
        ),
        (
            [],
            {"vm_size": "Standard_D4ps_v5"},
            "image",
            "a, b: size Standard_D4ps_v5 does not run x64 images; choose another",
        ),
        (
            [],
            {"resource_group": "gone"},
            "built upon",
            "resource group gone does not exist: correct it in hosts.options",
        ),
    ],
)
def test_one_mistake_is_one_sentence(
    az: DirectAz, pairs: list[str], options: dict[str, Any], subject: str, words: str
) -> None:
    problems = {
        name: said
        for name, (said, fine) in found(experiment(*pairs, **options)).items()
        if not fine
    }
    assert list(problems) == [subject]
    assert words in problems[subject]
    assert problems[subject].count(words[-30:]) == 1


def test_zones_may_be_numbers(az: DirectAz) -> None:
    assert found(experiment(zones=[1, 2]))["zones"] == ("westeurope (3 zones)", True)


def test_a_login_without_a_second_factor_is_a_warning(az: DirectAz, cloud: Cloud) -> None:
    az.factors = ["pwd"]
    words, fine = found(experiment())["second factor"]
    assert fine
    assert "run `az logout`, then `az login`" in words
    az.user = {"name": "app", "type": "servicePrincipal"}
    assert found(experiment())["second factor"] == ("not asked of a service principal", True)


def test_an_old_az_is_refused_before_anything_else(az: DirectAz, tmp_path: Path) -> None:
    az.version = "2.45.0"
    with pytest.raises(
        AzureError, match=r"az 2\.45\.0 is too old .*run `az upgrade` .2\.76 or later"
    ):
        azure.up(experiment(), number=1, state=tmp_path)
    assert [c[0] for c in az.commands] == ["version"]


def test_what_is_asked_ahead_is_what_the_checks_ask(az: DirectAz) -> None:
    declared = experiment("a b cross-region")
    ahead = checks.commands(proposal(declared))
    assert found(declared)
    assert all(az.commands.count(command) == 1 for command in ahead)
    late = [c for c in az.commands if c not in ahead]
    assert [c[:3] for c in late if c[0] not in ("version", "account", "rest", "deployment")] == []


def test_what_az_answers_is_recorded_without_ids(tmp_path: Path) -> None:
    real = tmp_path / "real"
    answer = {
        "id": f"/subscriptions/{SUBSCRIPTION}",
        "user": "me@example.com",
        "ip": "203.0.113.9",
        "net": "10.0.0.4",
    }
    answer |= {
        "name": "Contoso",
        "tenantDisplayName": "Contoso",
        "tenantDefaultDomain": "contoso.onmicrosoft.com",
    }
    printed = json.dumps(answer, indent=2)
    error = f"ERROR: {SUBSCRIPTION} of contoso.onmicrosoft.com"
    real.write_text(f"#!/bin/sh\necho '{printed}'; echo '{error}' >&2; exit 3\n", "utf-8")
    real.chmod(0o755)
    record.program(tmp_path / "bin", str(real), tmp_path / "out.jsonl")
    for words in (["account", "show"], ["account", "get-access-token"]):
        done = subprocess.run([tmp_path / "bin" / "az", *words], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (3, printed + "\n")
    first, second = (
        json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    )
    assert first["command"] == ["account", "show"]
    assert json.loads(first["stdout"]) == {
        "id": "/subscriptions/00000000-…", "user": "someone@…", "ip": "192.0.2.…", "net": "10.0.0.4",
        "name": "…", "tenantDisplayName": "…", "tenantDefaultDomain": "…",
    }  # fmt: skip
    stderr = "ERROR: 00000000-… of someone.onmicrosoft.com\n"
    assert (first["exit_code"], first["stderr"], second["stdout"]) == (3, stderr, "")


def test_the_tutorials_experiment_is_found_in_order(
    az: DirectAz, price_list: Emulator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real az is asked the same in `test_end_to_end`."""
    file = priced("azure-placement", tmp_path, price_list.base, allow_from=["192.0.2.7"])
    cli.npl.main(["doctor", "--azure", str(file)], standalone_mode=False)
    *lines, last = capsys.readouterr().out.splitlines()
    assert last == f"npl run {file}"
    assert [re.match(r"ok +(.+?)  ", line)[1] for line in lines] == list(SUBJECTS)  # type: ignore[index]
    assert not az.cloud.groups
