"""What is said before anybody is logged in: all that will exist, its time, and its price."""

import json
import re
import shlex
import socket
import stat
import threading

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


CHUNKED = "Transfer-Encoding: chunked"


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
        "ports 1024 to 65535 of network public-northeurope are open to ip-c",
        "after 12 h a schedule stops the VMs; the rest goes on costing an unknown amount",
        "the price list could not be reached",
    ):
        assert line in text


@pytest.mark.parametrize(
    "answer", ["220 ready", f"HTTP/1.1 200 OK\r\n{CHUNKED}\r\n\r\n9\r\n{{"]
)
def test_what_is_no_answer_of_the_price_list(monkeypatch, answer):
    with socket.create_server(("localhost", 0)) as server:

        def serve():
            client, _ = server.accept()
            client.recv(10000)
            client.sendall(f"{answer}\r\n".encode())
            client.close()

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://localhost:{server.getsockname()[1]}/"
        monkeypatch.setattr(prices, "PRICES_URL", url)
        assert "price list could not be reached" in creates("a b ppg", prices=None)


def test_prices_have_a_date_and_a_rate():
    text = creates("a b ppg", prices=PRICES | {"public address": 0.005})
    assert "all of it costs 0.41 USD an hour, 9.84 a day" in text
    assert "the rest goes on costing 0.01 USD an hour, 0.24 a day" in text
    assert "list prices of 20" in text


@pytest.mark.parametrize(("budget", "is_above"), [(0.05, True), (1, False)])
def test_a_plan_is_compared_with_its_budget(budget, is_above):
    price = azure.cost(experiment(budget=budget), workload=Workload())
    assert (f"ABOVE the budget of {budget}" in price.words) is is_above


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

    def shape(words):
        """Without names, times and folders."""
        return [word for word in words if re.fullmatch("[a-z-]+", word)]

    run = [" ".join(shape(command)) for command in az.commands]
    for command in written:
        assert any(line.startswith(" ".join(shape(command[1:]))) for line in run)
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
