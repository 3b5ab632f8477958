"""What can be known of a subscription before anything is created in it."""

import pytest

from netperf_lib.errors import AzureError
from netperf_lib.hosts import Workload, azure
from netperf_lib.hosts.azure.failures import error_of

from .cloud import OTHER, SUBSCRIPTION
from .conftest import PRICES, experiment, preflight
from .test_place import interrupt

SUBJECTS = ("login", "zones", "addresses", "access", "price", "time", "validation")


def found(declared):
    return {subject: (words, fine) for subject, words, fine in azure.examine(declared)}


def test_a_line_for_each_subject_and_nothing_is_made(az, cloud):
    prices = PRICES | {"transfer cross-region": 0.07}
    lines = found(experiment("a b cross-region", budget=5, prices=prices))
    assert tuple(lines) == SUBJECTS
    assert all(fine for _, fine in lines.values()), lines
    assert lines["addresses"][0].startswith("1 public addresses in westeurope")
    assert lines["validation"][0].startswith(
        "Azure finds it valid, and would create 14 resources"
    )
    assert "within the budget of 5" in lines["price"][0]
    assert not [r for r in cloud.requests if r.startswith(("PUT", "DELETE", "PATCH"))]


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
    problems = [words for words, fine in found(declared).values() if not fine]
    assert len(problems) == 1
    with pytest.raises(
        AzureError, match=f"nothing was created, because .*{said}"
    ) as caught:
        azure.up(declared, number=1, state=tmp_path)
    assert "\n" not in str(caught.value)
    assert not cloud.groups


def test_an_unknown_address_is_a_problem(az, monkeypatch):
    monkeypatch.setattr(
        "netperf_lib.hosts.azure.prices.ADDRESS_URL", "https://localhost:1/"
    )
    (problem,) = preflight(experiment(allow_from=None)).problems
    assert "give hosts.options.allow_from" in problem


def test_addresses_that_are_free_are_counted(az, cloud):
    assert not preflight(experiment()).problems
    cloud.limits["westeurope", "PublicIPAddresses"] = 1
    (problem,) = preflight(experiment()).problems
    assert "2 needed, 1 free of 1; ask for more at https://aka.ms/quota" in problem
    cloud.limits["westeurope", "PublicIPAddresses"] = -1
    assert not preflight(experiment()).problems


def test_going_on_is_not_stopped_by_its_own_quota(az, cloud, tmp_path):
    cloud.limits["westeurope", "PublicIPAddresses"] = 2
    create = ("deployment", "group", "create")
    az.after = lambda _, words: interrupt() if words[:3] == create else None
    with pytest.raises(KeyboardInterrupt):
        azure.up(experiment(), number=1, state=tmp_path)
    az.after = lambda *_: None
    cloud.settle()
    assert len(azure.up(experiment(), number=1, state=tmp_path).hosts) == 2


def test_zones_are_those_of_the_subscription(az, tmp_path):
    from netperf_lib.hosts.azure.az import Az, locations

    here, other = (locations(Az(), s)["westeurope"] for s in (SUBSCRIPTION, OTHER))
    assert here != other
    made = azure.up(
        experiment("a b cross-zone", subscription="emulated"), number=1, state=tmp_path
    )
    assert [(h.zone, h.zone_physical) for h in made.hosts] == [(z, here[z]) for z in "12"]


def test_a_missing_second_factor_asks_for_a_login():
    message = (
        "Resource was disallowed by Azure: users must use MFA for Create operations."
    )
    assert (
        error_of("az", {"code": "RequestDisallowedByAzure", "message": message}).kind
        == "login"
    )


def test_the_budget_is_of_all_deployments(az):
    minute = Workload(measuring_s=60)
    one, four = (
        preflight(experiment(deployments=n), workload=minute).cost.amount for n in (1, 4)
    )
    assert four == pytest.approx(2 * 0.2 * (60 + 4 * 900) / 3600)
    assert (one or 0) < (four or 0)
