"""Up, proven, down: against the emulated cloud in this process, on a clock of its own."""

import datetime as dt
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from netperf_lib import hosts
from netperf_lib.cli import npl
from netperf_lib.errors import AzureError
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure.failures import AzError, read_failure
from netperf_lib.hosts.azure.state import State

from .cloud import BASE, OTHER, SUBSCRIPTION, Cloud, Fault
from .conftest import GUEST, SEEDS, experiment, nothing_is_left
from .recordings import fault

NET = f"{BASE}/resourceGroups/net/providers/Microsoft.Network"
SUBNET = f"{NET}/virtualNetworks/v/subnets/x"
VM = "Microsoft.Compute/virtualMachines"
NIC = "Microsoft.Network/networkInterfaces"
NSG = "Microsoft.Network/networkSecurityGroups"
EVERY = (
    *(
        "c p ppg",
        "c z same-zone",
        "c x cross-zone",
        "d y same-zone off",
    ),
    *("c r cross-region", "c v vnet-peering", "c l standard-lb"),
    *("c i public-ip", "g n nat-gateway", "c w vpn"),
)


def outside(cloud):
    """What stands in the subscription already, and must stay as it is."""
    cloud.request("PUT", f"{BASE}/resourceGroups/net", {}, {"location": "westeurope"})
    subnet = {"name": "x", "properties": {"addressPrefix": "10.1.0.0/24"}}
    space = {"addressPrefixes": ["10.1.0.0/16"]}
    network = {"addressSpace": space, "subnets": [subnet]}
    cloud.put(f"{NET}/virtualNetworks/v", {"properties": network})


def interrupt():
    raise KeyboardInterrupt


def unproven(made):
    return [f"{host} {p.claim}: {p.evidence}" for host, p in made.claims() if not p.holds]


@SEEDS
def test_every_placement_is_proven_and_removed(placed, cloud):
    outside(cloud)
    kept = dict(cloud.resources)
    declared = experiment(*EVERY)
    made = placed.put(declared)
    assert unproven(made) == []
    names = [n for p in declared.pairs for n in (p.client, p.server)]
    assert [h.name for h in made.hosts] == list(dict.fromkeys(names))
    front = cloud.get("Microsoft.Network/loadBalancers", "lb-l")["properties"]
    address = front["frontendIPConfigurations"][0]["properties"]["privateIPAddress"]
    assert made.host("l").data_address == address
    (pool,) = cloud.get(NIC, "nic-l")["properties"]["ipConfigurations"][0]["properties"][
        "loadBalancerBackendAddressPools"
    ]
    assert "/loadBalancers/lb-l/" in pool["id"]
    parts = [r["properties"] for r in cloud.resources.values()]
    assert {p["peeringState"] for p in parts if "peeringState" in p} == {"Connected"}
    assert made.host("i").data_address == made.host("i").address
    assert (made.host("c").zone, made.host("x").zone) == ("1", "2")
    assert made.host("p").ppg == made.host("c").ppg == "ppg-westeurope-1"
    assert not made.host("y").accelerated
    placed.remove()
    assert cloud.resources == kept


# a cloud that lags


@SEEDS
def test_one_404_of_the_group_is_no_removal(placed, cloud):
    placed.up()
    look = r"GET .*/resourceGroups/npl[^/]*$"
    cloud.faults.append(Fault("request", look, 404, "ResourceGroupNotFound"))
    placed.remove()


@SEEDS
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("GET .*/deployments/[^/]+$", "DeploymentNotFound"),
        ("PUT .*/deployments/[^/]+", "ResourceGroupNotFound"),
        ("GET .*/virtualMachines", "ResourceGroupNotFound"),
    ],
)
def test_a_404_after_the_start_is_not_the_end(placed, cloud, asked, code):
    cloud.faults.append(Fault("request", asked, 404, code))
    assert unproven(placed.up()) == []
    placed.remove()


def test_a_normal_removal_is_not_slower(placed, az, cloud, clock):
    cloud.lag = None
    placed.up()
    before = clock.monotonic()
    placed.remove()
    assert clock.monotonic() - before <= 20
    assert not [c for c in az.commands if "cancel" in c]


def test_a_stop_cancels_before_it_deletes(placed, az):
    create = ("deployment", "group", "create")
    az.after = lambda _, words: interrupt() if words[:3] == create else None
    with pytest.raises(KeyboardInterrupt):
        placed.up()
    az.after = lambda *_: None
    placed.remove()
    verbs = [c[:3] for c in az.commands]
    deleted = verbs.index(("group", "delete", "--name"))
    assert verbs.index(("deployment", "group", "cancel")) < deleted


def test_up_twice_places_once(placed, az, cloud, tmp_path):
    first = placed.up()
    assert placed.up() == first
    assert len(cloud.groups) == 1
    other = placed.up(number=2)
    with hosts.deployed(experiment(), number=1, state=tmp_path) as made:
        assert made == first
    assert list(cloud.groups) == [other.deployment_id]
    cloud.stopped.add("a")
    with pytest.raises(
        AzureError, match=r"is stopped: a .VM deallocated.*run `npl down`"
    ):
        placed.up(number=2)
    placed.remove()


def test_a_group_that_somebody_deleted_is_placed_anew(placed, cloud):
    made = placed.up()
    cloud.request("DELETE", f"{BASE}/resourceGroups/{made.deployment_id}")
    cloud.settle()
    assert placed.up().hosts[0].name == "a"
    placed.remove()


def test_all_that_is_tagged_is_found_and_removed(placed, cloud, clock):
    outside(cloud)
    placed.up(tags={"team": "net"})
    clock.sleep(100)
    for group in [g for g in cloud.groups.values() if g["name"] != "net"]:
        tags = {"netperf-experiment", "netperf-created", "netperf-expires", "team"}
        assert tags <= set(group["tags"])
    (found,) = azure.leftovers(SUBSCRIPTION)
    assert azure.leftovers(SUBSCRIPTION, expired=True) == []
    azure.down_all(SUBSCRIPTION, [found])
    assert set(cloud.groups) == {"net"}


# what is placed


def test_access_is_narrow(placed, cloud):
    made = placed.up("c i public-ip", "c p ppg")
    groups = [cloud.get(NSG, name)["properties"] for name in cloud.names(NSG)]
    ssh = [group["securityRules"][0]["properties"] for group in groups]
    assert {rule["destinationPortRange"] for rule in ssh} == {"22"}
    own = f"{NSG}/securityRules"
    tests = [cloud.get(own, name)["properties"] for name in cloud.names(own)]
    assert [r["sourceAddressPrefix"] for r in ssh] == ["192.0.2.7/32"] * 2
    assert [r["sourceAddressPrefix"] for r in tests] == [made.host("c").address]
    identity = Path(made.hosts[0].identity or "")
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600
    assert stat.S_IMODE(identity.parent.stat().st_mode) == 0o700
    known = Path(made.hosts[0].known_hosts or "").read_text("utf-8").splitlines()
    assert [line.split()[:2] for line in known] == [
        [h.address, "ssh-ed25519"] for h in made.hosts
    ]


def test_a_caller_elsewhere_is_let_in(placed, cloud, tmp_path):
    placed.up()
    moved = experiment(allow_from=["198.51.100.9", "198.51.100.10"])
    azure.up(moved, number=1, state=tmp_path)
    (rule,) = cloud.get(NSG, "nsg-home")["properties"]["securityRules"]
    prefixes = rule["properties"]["sourceAddressPrefixes"]
    assert prefixes == ["198.51.100.9/32", "198.51.100.10/32"]


def test_an_existing_subnet_is_used_and_left_alone(placed, cloud, tmp_path):
    outside(cloud)
    before = json.dumps(cloud.resources, sort_keys=True)
    pairs = ("a b ppg", "a l standard-lb", "a z cross-zone")
    declared = experiment(*pairs, subnet=SUBNET, ssh_config="~/jump", allow_from=None)
    made = placed.put(declared)
    assert unproven(made) == []
    assert all(h.address.startswith("10.1.0.") for h in made.hosts)
    assert {h.ssh_config for h in made.hosts} == {str(Path("~/jump").expanduser())}
    assert not cloud.names("Microsoft.Network/publicIPAddresses")
    azure.down(declared, state=tmp_path)
    assert json.dumps(cloud.resources, sort_keys=True) == before


def test_a_schedule_stops_the_vms(placed, cloud, tmp_path, capsys):
    placed.up(expires_h=3)
    assert (
        "after 3 h a schedule stops the VMs; the rest goes on costing"
        in capsys.readouterr().err
    )
    schedules = "Microsoft.DevTestLab/schedules"
    assert cloud.names(schedules) == ["shutdown-computevm-a", "shutdown-computevm-b"]
    azure.down(experiment(), state=tmp_path)
    placed.up(expires_h=100)
    assert not cloud.names(schedules)


def test_what_does_not_hold_is_flagged(placed, cloud, monkeypatch):
    answers = {
        "a": GUEST,
        "b": GUEST | {"nic": GUEST["nic"][:1], "hyperv": ""},
        "c": "no answer",
    }
    monkeypatch.setattr(azure, "guests", lambda *_, **__: answers)
    cloud.scattered = True
    declared = experiment("a b ppg", "a c same-zone")
    flagged = " ".join(unproven(placed.put(declared)))
    for claim in (
        "b virtual function present and up in the guest",
        "b ppg-westeurope-1 keeps its members together",
        "b Hyper-V host",
        "c facts of the guest: no answer",
    ):
        assert claim in flagged


def test_the_subscription_of_a_deployment_is_kept(placed, az, clock, tmp_path):
    first = placed.up()
    elsewhere = az.clouds[OTHER] = Cloud(step_s=4, clock=clock.monotonic)
    az.selected = OTHER
    assert placed.up() == first
    assert not elsewhere.groups
    with (
        State.locked(tmp_path) as store,
        pytest.raises(AzureError, match="and this is another"),
    ):
        store.begin(2, 0, "probe", "another", {})


@pytest.mark.parametrize("index", range(1, 9))
def test_what_is_selected_meanwhile_changes_nothing(placed, az, cloud, clock, index):
    elsewhere = az.clouds[OTHER] = Cloud(step_s=4, clock=clock.monotonic)

    def select(now, _):
        az.selected = OTHER if now >= index else az.selected

    az.before = select
    placed.up()
    placed.remove()
    assert not elsewhere.groups


def test_that_nothing_is_left_names_the_subscription_that_was_asked(az):
    shown = CliRunner().invoke(npl, ["down", "--all"]).output
    assert shown == f"nothing of this project in subscription emulated ({SUBSCRIPTION})\n"


def test_what_is_asked_for_leftovers_is_one_subscription(placed, az, clock):
    placed.up()
    az.clouds[OTHER] = Cloud(step_s=4, clock=clock.monotonic)
    identity, name = azure.subscription()
    az.selected = OTHER
    assert (identity, name) == (SUBSCRIPTION, "emulated")
    azure.down_all(identity, azure.leftovers(identity))
    nothing_is_left(placed.cloud, placed.state / "none")


def test_a_continued_up_is_not_born_expired(placed, az, cloud, tmp_path, monkeypatch):
    def login(_, words):
        if words[:2] == ("group", "create"):
            raise AzError("sign-in frequency", code="AADSTS70043", kind="login")

    az.before = login
    with pytest.raises(AzError):
        placed.up()
    with State.locked(tmp_path) as store:
        (record,) = store.records()
        for tag in ("netperf-created", "netperf-expires"):
            record.tags[tag] = record.tags[tag].replace("2026", "2025")
        store.write()
    az.before = lambda *_: None
    placed.up()
    (group,) = cloud.groups.values()
    assert group["tags"]["netperf-expires"] > f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H}"
    assert azure.leftovers(SUBSCRIPTION, expired=True) == []
    placed.remove()


# what goes wrong


def broken(_, words):
    """A failure that nobody knows."""
    raise read_failure("az", 1, "ERROR: 'tokenType'\n")


@pytest.mark.parametrize("index", range(5))
def test_a_removal_goes_on_whatever_az_says(placed, az, index):
    placed.up()
    begun = len(az.commands)
    az.before = lambda now, words: broken(now, words) if now == begun + index else None
    placed.remove()


def test_a_look_that_fails_once_is_repeated(placed, az):
    failed = []

    def once(now, words):
        if words not in failed:
            failed.append(words)
            broken(now, words)

    az.before = once
    assert unproven(placed.up()) == []
    az.before = lambda *_: None
    placed.remove()


def test_a_create_whose_answer_was_lost_is_started_again(placed, az):
    lost = []

    def lose(_, words):
        if words[:3] == ("deployment", "group", "create") and not lost:
            lost.append(words)
            return [None]
        return None

    az.before = lose
    assert unproven(placed.up()) == []
    placed.remove()


@pytest.mark.parametrize("minutes", [15, 40])
def test_a_resource_that_cannot_be_deleted_yet_is_waited_for(
    placed, cloud, clock, capsys, minutes
):
    placed.up("c w vpn")
    where = next(w for w in cloud.resources if "virtualnetworkgateways" in w)
    cloud.kept[where] = clock.monotonic() + minutes * 60
    placed.remove()
    assert "is not gone yet" in capsys.readouterr().err


@pytest.mark.parametrize("seen", ["placed", "deleting"])
def test_an_interrupt_says_what_may_cost_money(placed, az, capsys, seen):
    placed.up()
    verb = {"placed": ("group", "show"), "deleting": ("group", "delete")}[seen]
    az.before = lambda _, words: interrupt() if words[:2] == verb else None
    with pytest.raises(KeyboardInterrupt):
        azure.down(experiment(), state=placed.state)
    az.before = lambda *_: None
    assert "may exist and cost money: run `npl down`" in capsys.readouterr().err
    placed.remove()


# what Azure refuses


@pytest.mark.parametrize(
    "code",
    [
        "ZonalAllocationFailed",
        "AllocationFailed",
        "OverconstrainedZonalAllocationRequest",
    ],
)
def test_capacity_leads_to_the_next_alternative(placed, cloud, code):
    cloud.faults.append(fault(code, "validate", "b$"))
    declared = experiment("a b cross-zone", alternative_zones=True)
    assert [h.zone for h in placed.put(declared).hosts] == ["2", "1"]
    placed.remove()


@pytest.mark.parametrize("code", ["OverconstrainedZonalAllocationRequest"])
def test_capacity_found_later_leads_to_the_next_alternative(placed, cloud, code):
    cloud.faults.append(fault(code, "resource", f"{VM} b", 2))
    with pytest.raises(AzError, match=rf"{code}: .*no capacity .*alternative_zones"):
        placed.up()
    placed.remove()
    declared = experiment("a b cross-zone", alternative_zones=True)
    made = placed.put(declared)
    assert [h.zone for h in made.hosts] == ["2", "1"]
    placed.remove()


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (
            fault("quota-total-regional-cores", "validate", "b$"),
            "QuotaExceeded: .*a quota is raised at",
        ),
        (
            fault("403-authorization-storage", match="PUT .*resourcegroups/npl-[^/]*$"),
            "ask an owner of the subscription for it .a role",
        ),
        (
            fault("RequestDisallowedByPolicy", "resource", NIC),
            "an exemption from a policy or lock",
        ),
        (fault("401-expired-token", match="POST .*/validate"), "run `az login`"),
        (fault("quota-total-regional-cores", "resource", VM), "quota is raised"),
        (Fault("request", "PUT .*deployments/npl-1", 404, "InvalidX", "y"), "InvalidX"),
    ],
)
def test_what_cannot_be_helped_stops_at_once(placed, az, cloud, failing, said):
    cloud.faults.append(replace(failing))
    declared = experiment(alternative_zones=True)
    with pytest.raises(AzureError, match=said) as caught:
        placed.put(declared)
    assert "\n" not in str(caught.value)
    assert len({c for c in az.commands if c[:2] == ("group", "create")}) <= 1
    placed.remove()


def test_a_passing_conflict_starts_the_same_again(placed, cloud):
    cloud.faults.append(fault("AnotherOperationInProgress", "resource", NSG))
    assert unproven(placed.up()) == []
    assert len(cloud.groups) == 1
    placed.remove()


def test_a_deployment_that_never_ends_has_a_deadline(placed, cloud):
    cloud.step_s = 1000
    with pytest.raises(AzError, match="not complete after 30 min"):
        placed.up()
    placed.remove()


def test_a_deletion_that_fails_is_repeated(placed, cloud):
    placed.up()
    cloud.faults.append(fault("nic-in-use", "delete", times=2))
    placed.remove()


def test_a_locked_group_does_not_keep_the_others(placed, cloud, tmp_path):
    for number in (1, 2):
        placed.up(number=number)
    locked = next(g for g in cloud.groups if g.endswith("d1"))
    cloud.faults.append(fault("ScopeLocked", match=f"DELETE .*{locked}$", times=9))
    with pytest.raises(AzureError, match=f"{locked} cannot be deleted: .*policy or lock"):
        azure.down(experiment(), state=tmp_path)
    assert list(cloud.groups) == [locked]
    assert list(tmp_path.rglob("id_ed25519"))
    cloud.faults.clear()
    placed.remove()


# what is on disk


def test_two_at_once_are_told_apart(placed, tmp_path):
    with (
        State.locked(tmp_path),
        pytest.raises(AzureError, match="another process is placing"),
    ):
        placed.up()


def test_a_damaged_record_says_what_to_do(placed, tmp_path):
    (tmp_path / "azure.json").write_text("{half", "utf-8")
    with pytest.raises(
        AzureError, match=r"is damaged, .* find what was placed with `npl down --all`"
    ):
        azure.down(experiment(), state=tmp_path)


def test_an_interruption_leaves_the_bill_whole(tmp_path, monkeypatch):
    store = State(tmp_path)
    store.data.hours = 3
    store.write()

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    store.data.hours = 4
    with pytest.raises(KeyboardInterrupt):
        store.write()
    assert State(tmp_path).data.hours == 3
