"""What can be known of a subscription before anything is created in it."""

import pytest

from netperf_lib.errors import AzureError
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure.az import Az, locations

from .cloud import OTHER, SUBSCRIPTION
from .conftest import PRICES, experiment, preflight

SUBJECTS = ("login", "zones", "access", "price", "time", "validation")


def found(declared):
    return {subject: (words, fine) for subject, words, fine in azure.examine(declared)}


def test_a_line_for_each_subject_and_nothing_is_made(az, cloud):
    prices = PRICES | {"transfer cross-region": 0.07}
    lines = found(experiment("a b cross-region", budget=5, prices=prices))
    assert tuple(lines) == SUBJECTS
    assert all(fine for _, fine in lines.values()), lines
    assert "valid, and would create 14 resources" in lines["validation"][0]
    assert "within the budget of 5" in lines["price"][0]
    assert not [r for r in cloud.requests if r.startswith(("PUT", "DELETE"))]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"region": "westus"}, "region westus has no zone 1 .it has none.: correct"),
        ({"region": "atlantis"}, "region 'atlantis' is not open"),
        ({"expires_h": 0.1}, "raise hosts.options.expires_h"),
        ({"budget": 0.01}, "above the budget of 0.01"),
    ],
)
def test_one_mistake_is_one_sentence(az, cloud, tmp_path, options, said):
    declared = experiment(prices=PRICES, **options)
    assert len([words for words, fine in found(declared).values() if not fine]) == 1
    with pytest.raises(AzureError, match=f"nothing was created, because .*{said}") as e:
        azure.up(declared, number=1, state=tmp_path)
    assert "\n" not in str(e.value)
    assert not cloud.groups


def test_an_unknown_address_is_a_problem(az, monkeypatch):
    place = "netperf_lib.hosts.azure.prices.ADDRESS_URL"
    monkeypatch.setattr(place, "https://localhost:1/")
    _, (problem,) = preflight(experiment(allow_from=None))
    assert "give hosts.options.allow_from" in problem


def test_zones_are_those_of_the_subscription(placed):
    here, other = (locations(Az(), s)["westeurope"] for s in (SUBSCRIPTION, OTHER))
    assert here != other
    made = placed.up("a b cross-zone", subscription="emulated")
    assert [(h.zone, h.zone_physical) for h in made.hosts] == [(z, here[z]) for z in "12"]


def test_the_budget_is_of_all_deployments(az):
    minute = Workload(measuring_s=60)
    plan, _ = preflight(experiment(deployments=4), minute)
    assert plan.cost.amount == pytest.approx(2 * 0.2 * (60 + 4 * 900) / 3600)
