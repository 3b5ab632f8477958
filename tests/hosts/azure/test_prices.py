"""The cost of a deployment, by the recorded price list, and what is spent of a budget."""

import datetime as dt

import pytest

from netperf_lib import hosts
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure import prices
from netperf_lib.hosts.azure.state import State
from netperf_lib.hosts.azure.topology import topology

from .conftest import PRICES, experiment, preflight

WORKLOAD = Workload(measuring_s=60, traffic={("a", "b"): 1100e9})
FAR = "a b cross-region"


def estimate(pair, **more):
    """The cost of an hour of what a pair needs; a terabyte is sent from client to server."""
    declared = experiment(pair, **{"prices": None} | more)
    options = hosts.options(declared)
    placed = topology(declared, options)
    place_s = prices.PLACE_S["gateway" if placed.gateways else "vm"]
    traffic = {tuple(pair.split()[:2]): 1e12}
    workload = Workload(measuring_s=3600 - place_s, traffic=traffic)
    return prices.cost(placed, options, workload, 1)


def part(found, name):
    """What a part costs, as it is said."""
    (line,) = (line for line in found.parts if f" {name}: " in line)
    return float(line.split()[-2])


@pytest.mark.parametrize(
    ("pair", "name", "amount"),
    [
        # beside it are Spot, Low Priority and Windows
        ("a b same-zone", "Standard_D4s_v5 in westeurope", 2 * 0.23),
        (FAR, "Standard_D4s_v5 in northeurope", 0.214),
        # the same SKU has the meters of its connections
        ("a b vpn", "VpnGw1AZ in westeurope", 0.21),
        # beside it are dynamic, basic and global ones
        ("a b same-zone", "public address in westeurope", 2 * 0.005),
        ("a b nat-gateway", "nat gateway in westeurope", 0.045),
        # beside the general one are those of edge sites and of the government's cloud
        ("a b standard-lb", "load balancer in westeurope", 0.025),
    ],
)
def test_an_hour_has_its_price(price_list, pair, name, amount):
    price_list.page = 2
    assert part(estimate(pair), name) == pytest.approx(amount, abs=0.0051)


@pytest.mark.parametrize(
    ("path", "options", "price"),
    [
        *((path, {}, 0.0) for path in ("ppg", "cross-zone")),
        ("vnet-peering", {}, 0.02),
        ("standard-lb", {}, 0.005),
        ("cross-region", {}, 0.07),
        ("vpn", {}, 0.035),
        ("public-ip", {}, 0.05),
        ("nat-gateway", {"remote_region": None}, 0.045),
    ],
)
def test_a_gigabyte_has_its_price(price_list, path, options, price):
    assert estimate(f"a b {path}", **options).transfer == pytest.approx(1000 * price)


def test_an_unknown_price_is_said(price_list):
    found = estimate(FAR, remote_region="austriaeast")
    assert found.unknown == ("transfer cross-region",)
    assert "no price for transfer cross-region; give hosts.options.prices" in str(found)


def test_the_budget_counts_transfer(az):
    known = PRICES | {"transfer cross-region": 0.07}
    declared = experiment(FAR, budget=60, prices=known)
    assert not preflight(declared, Workload(measuring_s=60))[1]
    found, problems = preflight(declared, WORKLOAD)
    assert found.cost.amount == pytest.approx(1100 * 0.07, rel=0.05)
    assert any("budget of 60" in p for p in problems)


def test_no_budget_is_kept_by_unknown_prices(az, monkeypatch):
    monkeypatch.setattr(prices, "PRICES_URL", "https://localhost:1/")
    _, (problem,) = preflight(experiment(FAR, budget=60), WORKLOAD)
    assert "budget 60 cannot be kept: its cost is unknown" in problem


def test_what_is_spent_ends_the_collection(az, tmp_path):
    known = PRICES | {"transfer cross-region": 0.05}
    declared = experiment(FAR, budget=60, prices=known)
    azure.up(declared, number=1, state=tmp_path, workload=WORKLOAD)
    assert hosts.budget_reached(declared, state=tmp_path, done=0.5) is None
    assert azure.spent(state=tmp_path, done=1.0) == pytest.approx(55, rel=0.01)
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=20)
    assert State(tmp_path).spent(later, done=0.0) == pytest.approx(20 * 0.4, rel=0.01)
    cheap = declared.model_copy(update={"budget": 20})
    assert hosts.budget_reached(cheap, state=tmp_path, done=0.5)
    azure.down(declared, state=tmp_path)
    assert 0 <= State(tmp_path).data.hours < 0.1


def test_what_goes_on_costing_is_said(price_list):
    declared = experiment("c d same-zone", "c w vpn", "c l standard-lb", prices=None)
    (found,) = azure._proposals(declared, Workload())
    idle = 2 * 0.21 + 6 * 0.005 + 0.025
    assert found.cost.idle_h == pytest.approx(idle, rel=0.1)
