"""What is said before anybody is logged in: all that will exist, its time, and its price."""

import json
import shlex
import stat

import pytest

from netperf_lib.errors import UsageError
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure import prices
from netperf_lib.hosts.azure.plan import vcpus
from netperf_lib.pipeline import save_template

from ...conftest import REPO
from .conftest import PRICES, experiment
from .test_place import EVERY


@pytest.fixture(autouse=True)
def nothing_there(monkeypatch):
    """Neither az, nor a login, nor a network."""
    monkeypatch.setenv("PATH", "")
    for name in ("PRICES_URL", "ADDRESS_URL"):
        monkeypatch.setattr(prices, name, "https://localhost:1/")


def creates(*pairs, **options):
    declared = experiment(*pairs, **options)
    return "\n".join(azure.cost(declared, workload=Workload()).creates)


def test_all_that_will_exist_is_listed():
    text = creates(*EVERY, prices=None)
    for line in (
        "zone 1, proximity placement group ppg-westeurope-1: c, p",
        "1 × Standard_D4s_v5 in westeurope, zone 2: x",
        "2 × Standard_D4s_v4 in westeurope, zone 1: d, y",
        "Standard_D4s_v5 in northeurope, no zone: r, i, n, w",
        "vCPUs: 28 of DSv5 in westeurope, 8 of DSv4 in westeurope, 16 of DSv5 in northeurope",
        "9 × disk StandardSSD_LRS in westeurope",
        "4 × disk StandardSSD_LRS in northeurope",
        "1 × VPN gateway VpnGw1AZ in northeurope",
        "1 × load balancer in westeurope",
        "1 × nat gateway in westeurope",
        "port 22 is open to 192.0.2.7/32",
        "ports 1024 to 65535 of network public are open to ip-c",
        "after 12 h a schedule stops the VMs; the rest goes on costing an unknown amount",
        "the price list could not be reached",
    ):
        assert line in text


def test_prices_have_a_date_and_a_rate():
    text = creates("a b ppg", prices=PRICES | {"public address": 0.005})
    assert "all of it costs 0.41 USD an hour, 9.84 a day" in text
    assert "the rest goes on costing 0.01 USD an hour, 0.24 a day" in text
    assert "list prices of 20" in text


def test_who_reaches_port_22_is_not_asked_for():
    assert "the machine where `npl up` runs" in creates("a b ppg", allow_from=None)


@pytest.mark.parametrize(
    ("size", "known"),
    [
        ("Standard_D8s_v4", ("DSv4", 8)),
        ("Standard_E4-2ads_v5", ("EADSv5", 2)),
        ("Standard_F72s_v2", ("FSv2", 72)),
        ("Standard_B2s", ("BS", 2)),
        ("Standard_NC4as_T4_v3", ("NCASv3", 4)),
        ("Standard_odd", None),
    ],
)
def test_a_size_says_its_processors(size, known):
    assert vcpus(size) == known


def test_the_template_comes_with_the_commands_that_up_runs(az, tmp_path):
    declared = experiment("a b ppg")
    file = tmp_path / "commands.sh"
    azure.write_template(declared, tmp_path)
    written = [shlex.split(line) for line in file.read_text("utf-8").splitlines()[3:]]
    azure.up(declared, number=1, state=tmp_path / "state")
    azure.down(declared, state=tmp_path / "state")
    run = [list(command) for command in az.commands]

    def shape(words):
        """Without names, times and folders."""
        return [w for w in words if w.startswith("--") or w.isalpha() or w == "what-if"]

    shapes = [shape(words) for words in run]
    for command in written:
        assert any(
            shape(command[1:]) == found[: len(shape(command[1:]))] for found in shapes
        )
    values = json.loads((tmp_path / "parameters.json").read_text("utf-8"))["parameters"]
    assert [vm["name"] for vm in values["vms"]["value"]] == ["a", "b"]
    assert stat.S_IMODE((tmp_path / "parameters.json").stat().st_mode) == 0o600
    assert "parameters('vms')" in (tmp_path / "template.json").read_text("utf-8")


def test_only_a_cloud_has_a_template_and_only_a_new_folder_takes_it(tmp_path):
    lab = REPO / "data" / "experiments" / "lab.yaml"
    with pytest.raises(UsageError, match="creates nothing in a cloud"):
        save_template(lab, tmp_path / "new")
    declared = REPO / "data" / "experiments" / "azure-zones.yaml"
    with pytest.raises(UsageError, match="exists; choose another name"):
        save_template(declared, tmp_path)
