"""An emulated cloud, and experiments to place in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from netperf_lib.hosts import azure
from netperf_lib.hosts.azure import _az, _proof
from netperf_lib.model import Experiment

from .cloud import Cloud
from .direct import Clock, DirectAz

Make = Callable[..., Experiment]


def experiment(
    *pairs: str, name: str = "probe", budget: float | None = None, deployments: int = 1, **options: Any
) -> Experiment:
    """An experiment whose pairs are given as "client server placement [off]"."""
    declared = []
    for text in pairs or ("a b same-zone",):
        client, server, placement, *more = text.split()
        declared.append({"client": client, "server": server, "placement": placement, "accelerated": more != ["off"]})
    options = {
        "region": "westeurope",
        "remote_region": "northeurope",
        "vm_size": "Standard_D4s_v5",
        "allow_from": ["192.0.2.7"],
        "bandwidth_mbps": {"Standard_D4s_v5": 12500, "Standard_D2s_v5": 12500},
        "prices": {"Standard_D4s_v5": 0.2, "Standard_D2s_v5": 0.1, "VpnGw1AZ": 0.2, "ErGw1AZ": 0.2},
        **options,
    }
    return Experiment.model_validate(
        {
            "name": name,
            "hosts": {"source": "azure", "options": {k: v for k, v in options.items() if v is not None}},
            "pairs": declared,
            "tests": [{"tool": "qperf", "test": "tcp_lat", "duration_s": 1}],
            "rounds": 10,
            "deployments": deployments,
            "budget": budget,
        }
    )


GUEST = {
    "kernel": "6.8.0-1010-azure",
    "system": "Ubuntu 24.04",
    "hyperv": "AMS07XXXX",
    "tool": [("iperf3", "3.16"), ("iperf", "2.1.9"), ("qperf", "0.4.11"), ("sockperf", "3.7")],
    "nic": [("eth0", "hv_netvsc", "up"), ("enP1s1", "mlx5_core", "up")],
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cloud(clock: Clock) -> Cloud:
    return Cloud(step_s=4, clock=clock.now)


@pytest.fixture
def az(cloud: Cloud, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> DirectAz:
    """The source `azure`, wired to the emulated cloud in this process; guests answer as they should."""
    direct = DirectAz(cloud)

    def guests(hosts: Any, **_: Any) -> Any:
        out = {}
        for host in hosts:
            nics = cloud.get("Microsoft.Network/networkInterfaces", f"nic-{host.name}")["properties"]
            out[host.name] = GUEST | {"nic": GUEST["nic"] if nics["enableAcceleratedNetworking"] else GUEST["nic"][:1]}
        return out

    monkeypatch.setattr(_az, "Az", lambda *_, **__: direct)
    monkeypatch.setattr(_proof, "guests", guests)
    monkeypatch.setattr(azure, "CLOCK", azure.Clock(poll_s=5, now=clock.now, sleep=clock.sleep))
    return direct
