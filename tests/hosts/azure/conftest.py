"""An emulated cloud, and experiments to place in it."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from netperf_lib.experiment.model import Experiment
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure import checks, groups, prices, proof

from ...warm import warm
from .cloud import Cloud, accelerated
from .direct import Clock, DirectAz
from .emulator import Emulator
from .machines import Machines, possible, private_network

FREE = ("disk StandardSSD_LRS", "public address", "nat gateway", "load balancer")
FREE += ("transfer public-ip", "transfer standard-lb", "transfer vpn")
PRICES = dict.fromkeys(("Standard_D4s_v5", "Standard_D4s_v4", "VpnGw1AZ"), 0.2)
PRICES |= {"Standard_D2s_v5": 0.1, **dict.fromkeys(FREE, 0.0)}
AZ = Path(__file__).resolve().parents[3] / ".venv-azure" / "bin" / "az"


SIZES = ("Standard_D4s_v5", "Standard_D4s_v4", "Standard_D2s_v5")


def experiment(*pairs, called="probe", budget=None, deployments=1, **options):
    """An experiment whose pairs are given as "client server placement [off]", with a size that
    can be without."""
    declared, plain = [], {}
    for text in pairs or ("a b same-zone",):
        client, server, placement, *more = text.split()
        pair = {"client": client, "server": server, "placement": placement}
        declared.append(pair | {"accelerated": not more})
        if more:
            plain |= {name: {"vm_size": SIZES[1]} for name in (client, server)}
    usual = {
        "region": "westeurope",
        "remote_region": "northeurope",
        "vm_size": SIZES[0],
        "allow_from": ["192.0.2.7"],
        "bandwidth_mbps": dict.fromkeys(SIZES, 12500),
        "prices": PRICES,
    }
    options = usual | options | {"vms": plain | options.get("vms", {})}
    given = {key: value for key, value in options.items() if value is not None}
    return Experiment.model_validate(
        {
            "name": called,
            "hosts": {"source": "azure", "options": given},
            "pairs": declared,
            "tests": [{"tool": "qperf", "test": "tcp_lat", "duration_s": 1}],
            "rounds": 10,
            "deployments": deployments,
            "budget": budget,
        }
    )


def seen(hosts, pairs, **_):
    """What guests say of their paths."""
    return {
        pair: {"hops": 1, "mtu": 1500, "sent": 2000, "vf_tx_packets": 2003}
        for pair in pairs
    }


GUEST = {
    "kernel": "6.8.0-1010-azure",
    "system": "Ubuntu 24.04",
    "hyperv": "AMS07XXXX",
    "tool": {"iperf3": "3.16", "iperf": "2.1.9", "qperf": "0.4.11", "sockperf": "3.7"},
    "nic": [("eth0", "hv_netvsc", "up"), ("enP1s1", "mlx5_core", "up")],
}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cloud(clock, request):
    """A cloud that answers late, by a seed."""
    made = Cloud(step_s=4, clock=clock.monotonic)
    made.lag = random.Random(getattr(request, "param", 1))
    return made


SEEDS = pytest.mark.parametrize(
    "cloud",
    [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))],
    indirect=True,
)


@pytest.fixture
def az(cloud, clock, monkeypatch):
    """The source `azure`, wired to the emulated cloud in this process; guests answer as they
    should."""
    direct = DirectAz(cloud)

    def guests(hosts, **_):
        found = {}
        for host in hosts:
            vm = cloud.alike("Microsoft.Compute/virtualMachines")[host.name]
            nics = GUEST["nic"] if accelerated(cloud, vm) else GUEST["nic"][:1]
            found[host.name] = GUEST | {"nic": nics}
        return found

    monkeypatch.setattr(az_module, "_once", direct.once)
    monkeypatch.setattr(az_module, "find_az", lambda: "az")
    monkeypatch.setattr(azure, "guests", guests)
    monkeypatch.setattr(azure, "paths", seen)
    monkeypatch.setattr(groups, "RETRY_PAUSES_S", (30.0, 100.0))
    monkeypatch.setattr(az_module, "POLL_S", 5.0)
    # a world beside it in the same process has none of these
    monkeypatch.setattr(az_module, "LAG_S", 60.0)
    monkeypatch.setattr(groups, "LOOKS_S", 30)
    for module in (az_module, groups, proof):
        monkeypatch.setattr(module, "time", clock)
    return direct


@dataclass
class Placed:
    """What is placed in the emulated cloud, and kept in a folder."""

    cloud: Cloud
    state: Path

    def put(self, declared, number=1):
        return azure.up(declared, number=number, state=self.state)

    def up(self, *pairs, number=1, **options):
        return self.put(experiment(*pairs, **options), number)

    def remove(self):
        """Remove all, and see that nothing is left."""
        azure.down(experiment(), state=self.state)
        nothing_is_left(self.cloud, self.state)


def nothing_is_left(cloud, state):
    cloud.settle()
    assert not [name for name in cloud.groups if name != "net"]
    assert not cloud.alike("Microsoft.Compute/virtualMachines")
    assert not list(state.rglob("id_*"))


@pytest.fixture
def placed(az, cloud, tmp_path):
    return Placed(cloud, tmp_path)


def az_version():
    """The version of az in .venv-azure."""
    (found,) = AZ.parent.parent.glob("lib/python3*/site-packages/azure_cli-*.dist-info")
    return found.name.removesuffix(".dist-info").split("-")[1]


@dataclass
class World:
    """The real az, an emulated cloud behind HTTPS, and a stand-in with a real sshd for every VM."""

    cloud: Cloud
    emulator: Emulator
    machines: Machines
    folder: Path
    python: Path
    """A Python that starts warm, in the network of the emulated cloud."""

    def fresh(self):
        """Forget what was made, and who is logged in otherwise."""
        self.cloud.reset()
        self.machines.follow()
        self.machines.without_vf.clear()
        self.emulator.environment(az_version())

    def options(self, **more):
        """Options that ask the emulator for prices and for the caller's address."""
        return {"prices": None, "allow_from": None, **more}


@pytest.fixture(scope="package")
def _world(tmp_path_factory):
    if why := possible():
        pytest.skip(why)
    if not AZ.exists():
        pytest.skip("az is not in .venv-azure (make .venv-azure/ready)")
    folder = tmp_path_factory.mktemp("azure")
    cloud = Cloud(step_s=0.005)
    with private_network(), pytest.MonkeyPatch.context() as patch:
        emulator = Emulator(cloud, folder / "emulator")
        machines = Machines(cloud, folder / "machines")
        emulator.after = machines.follow
        environment = {
            **emulator.environment(az_version()),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "AZ_INSTALLER": "PIP",  # as the program says
        }
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(az_module, "POLL_S", 0.2)
        patch.setattr(az_module, "LAG_S", 0)
        patch.setattr(groups, "LOOKS_S", 0)
        patch.setattr(prices, "PRICES_URL", f"{emulator.base}/prices")
        patch.setattr(prices, "ADDRESS_URL", f"{emulator.base}/address")
        patch.setattr(groups, "RETRY_PAUSES_S", (0.0, 0.0))
        patch.setattr(azure, "GUEST_WAIT_S", 5.0)
        imports = "import azure.cli.core.telemetry, azure.cli.core.intercept_survey, requests, msal"
        own = "import netperf_lib.cli, netperf_lib.pipeline, netperf_lib.hosts.azure"
        program, python = folder / "bin" / "az", folder / "bin" / "python"
        try:
            with (
                warm(program, AZ, imports, words=("-m", "azure.cli"), learn=True),
                warm(python, Path(sys.executable), own, learn=True),
            ):
                yield World(cloud, emulator, machines, folder, python)
        finally:
            cloud.reset()
            machines.follow()
            emulator.close()


@pytest.fixture
def world(_world):
    """A world in which nothing is placed; its network leads nowhere."""
    _world.fresh()
    return _world


@pytest.fixture
def price_list(tmp_path, monkeypatch):
    """The service that is asked for prices."""
    emulator = Emulator(Cloud(), tmp_path / "emulator")
    for name, value in emulator.environment("0").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(prices, "PRICES_URL", f"{emulator.base}/prices")
    yield emulator
    emulator.close()


def preflight(declared, workload=None):
    """What the checks find that is wrong."""
    found = azure._proposals(declared, workload or Workload())[0]
    name = found.options.subscription
    rows = list(checks.examine(found, name, azure._rehearse))
    return found, [words for _, words, kind in rows if kind]
