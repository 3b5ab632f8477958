"""Up, proven, down: against the emulated cloud in this process, on a clock of its own."""

import datetime as dt
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
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure.failures import AzError, read_failure
from netperf_lib.hosts.azure.state import State

from .cloud import BASE, OTHER, SUBSCRIPTION, Cloud, Fault
from .conftest import GUEST, SEEDS, experiment, nothing_is_left

NET = f"{BASE}/resourceGroups/net/providers/Microsoft.Network"
SUBNET = f"{NET}/virtualNetworks/v/subnets/x"
VM = "Microsoft.Compute/virtualMachines"
NIC = "Microsoft.Network/networkInterfaces"
NSG = "Microsoft.Network/networkSecurityGroups"
EVERY = (
    *("c p ppg", "c z same-zone", "c x cross-zone", "d y same-zone off"),
    *("c r cross-region", "c v vnet-peering", "c l standard-lb"),
    *("c i public-ip", "g n nat-gateway", "c w vpn"),
)
CREATE = ("deployment", "group", "create")


def outside(cloud):
    """What stands in the subscription already, and must stay as it is; returns it."""
    cloud.request("PUT", f"{BASE}/resourceGroups/net", {}, {"location": "westeurope"})
    subnet = {"name": "x", "properties": {"addressPrefix": "10.1.0.0/24"}}
    cloud.put(f"{NET}/virtualNetworks/v", {"properties": {"subnets": [subnet]}})
    return dict(cloud.resources)


def interrupt_at(az, *verbs):
    def hook(_, words):
        if words[: len(verbs)] == verbs:
            raise KeyboardInterrupt

    return hook


def unproven(made):
    return [f"{host} {p.claim}: {p.evidence}" for host, p in made.claims() if not p.holds]


@SEEDS
def test_every_placement_is_proven_and_removed(placed, cloud):
    kept = outside(cloud)
    made = placed.up(*EVERY)
    assert unproven(made) == []
    assert {h.name for h in made.hosts} == set("cpzxdyrvlignw")
    front = cloud.alike("Microsoft.Network/loadBalancers")["lb-l"]["properties"]
    address = front["frontendIPConfigurations"][0]["properties"]["privateIPAddress"]
    assert made.host("l").data_address == address
    assert made.host("i").data_address == made.host("i").address
    placed.remove()
    assert cloud.resources == kept


# a cloud that lags


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("GET .*/resourceGroups/npl[^/]*$", "ResourceGroupNotFound"),
        ("GET .*/deployments/[^/]+$", "DeploymentNotFound"),
        ("PUT .*/deployments/[^/]+", "ResourceGroupNotFound"),
        ("GET .*/virtualMachines", "ResourceGroupNotFound"),
    ],
)
def test_one_404_says_nothing(placed, cloud, asked, code):
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
    az.after = interrupt_at(az, *CREATE)
    with pytest.raises(KeyboardInterrupt):
        placed.up()
    az.after = lambda *_: None
    placed.remove()
    verbs = [c[:3] for c in az.commands]
    deleted = verbs.index(("group", "delete", "--name"))
    assert verbs.index(("deployment", "group", "cancel")) < deleted


def test_up_twice_places_once(placed, cloud, tmp_path):
    first = placed.up()
    assert placed.up() == first
    assert len(cloud.groups) == 1
    other = placed.up(number=2)
    with hosts.deployed(experiment(), number=1, state=tmp_path) as made:
        assert made == first
    assert list(cloud.groups) == [other.deployment_id]
    cloud.stopped.add("a")
    with pytest.raises(AzureError, match=r"is stopped: a .VM deallocated.*`npl down`"):
        placed.up(number=2)
    placed.remove()


def test_a_group_that_somebody_deleted_is_placed_anew(placed, cloud):
    made = placed.up()
    cloud.request("DELETE", f"{BASE}/resourceGroups/{made.deployment_id}")
    cloud.settle()
    assert placed.up().hosts[0].name == "a"
    placed.remove()


def test_all_that_is_tagged_is_found_and_removed(placed, az, cloud, clock):
    outside(cloud)
    placed.up(tags={"team": "net"})
    clock.sleep(100)
    (group,) = [g for g in cloud.groups.values() if g["name"] != "net"]
    tags = {"netperf-experiment", "netperf-created", "netperf-expires", "team"}
    assert tags <= set(group["tags"])
    # whatever is selected after that
    az.clouds[OTHER] = Cloud(step_s=4, clock=clock.monotonic)
    assert azure.subscription() == (SUBSCRIPTION, "emulated")
    az.selected = OTHER
    (found,) = azure.leftovers(SUBSCRIPTION)
    assert azure.leftovers(SUBSCRIPTION, expired=True) == []
    azure.down_all(SUBSCRIPTION, [found])
    assert set(cloud.groups) == {"net"}


@pytest.mark.parametrize("expires", [None, "soon", "2999-01-01T00:00:00"])
def test_a_group_of_which_nobody_knows_when_it_expires_has_expired(az, cloud, expires):
    tags = {"netperf-experiment": "probe", "netperf-expires": expires}
    body = {"location": "westeurope", "tags": tags}
    cloud.request("PUT", f"{BASE}/resourceGroups/npl-probe", {}, body)
    cloud.lag = None
    (found,) = azure.leftovers(SUBSCRIPTION, expired=True)
    assert found.experiment == "probe"


# what is placed


def test_access_is_narrow(placed, cloud):
    made = placed.up("c i public-ip", "c p ppg")
    groups = [group["properties"] for group in cloud.alike(NSG).values()]
    ssh = [group["securityRules"][0]["properties"] for group in groups]
    assert {rule["destinationPortRange"] for rule in ssh} == {"22"}
    assert [r["sourceAddressPrefix"] for r in ssh] == ["192.0.2.7/32"] * 2
    own = f"{NSG}/securityRules"
    tests = [rule["properties"] for rule in cloud.alike(own).values()]
    assert [r["sourceAddressPrefix"] for r in tests] == [made.host("c").address]
    identity = Path(made.hosts[0].identity or "")
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600
    assert stat.S_IMODE(identity.parent.stat().st_mode) == 0o700
    known = Path(made.hosts[0].known_hosts or "").read_text("utf-8").splitlines()
    assert [line.split()[0] for line in known] == [h.address for h in made.hosts]


def test_a_caller_elsewhere_is_let_in(placed, cloud):
    placed.up()
    placed.up(allow_from=["198.51.100.9", "198.51.100.10"])
    (rule,) = cloud.alike(NSG)["nsg-home"]["properties"]["securityRules"]
    prefixes = rule["properties"]["sourceAddressPrefixes"]
    assert prefixes == ["198.51.100.9/32", "198.51.100.10/32"]


def test_an_existing_subnet_is_used_and_left_alone(placed, cloud):
    before = outside(cloud)
    pairs = ("a b ppg", "a l standard-lb", "a z cross-zone")
    made = placed.up(*pairs, subnet=SUBNET, ssh_config="~/jump", allow_from=None)
    assert unproven(made) == []
    assert all(h.address.startswith("10.1.0.") for h in made.hosts)
    assert {h.ssh_config for h in made.hosts} == {str(Path("~/jump").expanduser())}
    assert not cloud.alike("Microsoft.Network/publicIPAddresses")
    placed.remove()
    assert cloud.resources == before


def test_a_schedule_stops_the_vms(placed, cloud, capsys):
    placed.up(expires_h=3)
    assert "after 3 h a schedule stops the VMs" in capsys.readouterr().err
    schedules = "Microsoft.DevTestLab/schedules"
    assert set(cloud.alike(schedules)) == {"shutdown-computevm-a", "shutdown-computevm-b"}
    placed.remove()
    placed.up(expires_h=100)
    assert not cloud.alike(schedules)


def test_what_does_not_hold_is_flagged(placed, cloud, monkeypatch):
    bare = GUEST | {"nic": GUEST["nic"][:1], "hyperv": ""}
    answers = {"a": GUEST, "b": bare, "c": "no answer"}
    monkeypatch.setattr(azure, "guests", lambda *_, **__: answers)
    cloud.scattered = True
    flagged = " ".join(unproven(placed.up("a b ppg", "a c same-zone")))
    for claim in (
        "b virtual function present and up in the guest",
        "b ppg-westeurope-1 keeps its members together",
        "b Hyper-V host",
        "c facts of the guest: no answer",
    ):
        assert claim in flagged


# one subscription


def test_the_subscription_of_a_deployment_is_kept(placed, az, clock, tmp_path):
    first = placed.up()
    elsewhere = az.clouds[OTHER] = Cloud(step_s=4, clock=clock.monotonic)
    az.selected = OTHER
    assert placed.up() == first
    assert not elsewhere.groups
    mismatch = pytest.raises(AzureError, match="and this is another")
    with State.locked(tmp_path) as store, mismatch:
        store.begin(2, 0, "probe", "another", {})


@pytest.mark.parametrize("index", range(1, 8))
def test_what_is_selected_meanwhile_changes_nothing(placed, az, clock, index):
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


def test_a_continued_up_is_not_born_expired(placed, az, cloud, tmp_path):
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
    placed.remove()


# what goes wrong


def once(az, fails):
    """Let the command fail for which this holds, once, in a way that nobody knows."""
    failed = []

    def hook(index, words):
        if words not in failed and fails(index, words):
            failed.append(words)
            raise read_failure("az", 1, "ERROR: 'tokenType'\n")

    az.before = hook


@pytest.mark.parametrize("index", range(5))
def test_a_removal_goes_on_whatever_az_says(placed, az, index):
    placed.up()
    failing = len(az.commands) + index
    once(az, lambda now, _: now == failing)
    placed.remove()


def test_a_look_that_fails_once_is_repeated(placed, az):
    once(az, lambda *_: True)
    assert unproven(placed.up()) == []
    placed.remove()


def test_a_create_whose_answer_was_lost_is_started_again(placed, az):
    lost = iter([[None]])
    az.before = lambda _, words: next(lost, None) if words[:3] == CREATE else None
    assert unproven(placed.up()) == []
    placed.remove()


def test_a_resource_that_cannot_be_deleted_yet_is_waited_for(
    placed, cloud, clock, capsys
):
    placed.up("c w vpn")
    where = next(w for w in cloud.resources if "virtualnetworkgateways" in w)
    cloud.kept[where] = clock.monotonic() + 40 * 60
    placed.remove()
    assert "is not gone yet" in capsys.readouterr().err


# what Azure refuses

FULL = "OverconstrainedZonalAllocationRequest"


@pytest.mark.parametrize(("at", "where"), [("validate", "/b$"), ("resource", f"{VM} b")])
def test_capacity_leads_to_the_next_alternative(placed, cloud, at, where):
    full = Fault(at, where, 409, FULL, "no room", 2)
    cloud.faults.append(full)
    with pytest.raises(AzError, match=rf"{FULL}: .*no capacity .*alternative_zones"):
        placed.up()
    nothing_is_left(cloud, placed.state / "none")
    full.times = 1
    placed.remove()
    made = placed.up("a b cross-zone", alternative_zones=True)
    assert [h.zone for h in made.hosts] == ["2", "1"]
    placed.remove()


@pytest.mark.parametrize(
    ("failing", "said"),
    [
        (Fault("validate", "/b$", 400, "QuotaExceeded", "of cores"), "quota is raised"),
        (Fault("request", "PUT .*npl-[^/]*$", 403, "AuthorizationFailed"), "a role"),
        (Fault("resource", NIC, 403, "RequestDisallowedByPolicy"), "exemption from a p"),
        (
            Fault("request", "POST .*/validate", 401, "ExpiredAuthenticationToken"),
            "login",
        ),
        (Fault("resource", VM, 409, "QuotaExceeded"), "quota is raised"),
    ],
)
def test_what_cannot_be_helped_stops_at_once(placed, az, cloud, failing, said):
    cloud.faults.append(replace(failing))
    with pytest.raises(AzureError, match=said) as caught:
        placed.up(alternative_zones=True)
    assert "\n" not in str(caught.value)
    assert len({c for c in az.commands if c[:2] == ("group", "create")}) <= 1
    placed.remove()


def test_a_passing_conflict_starts_the_same_again(placed, cloud):
    cloud.faults.append(Fault("resource", NSG, 409, "AnotherOperationInProgress"))
    assert unproven(placed.up()) == []
    assert len(cloud.groups) == 1
    placed.remove()


def test_a_deployment_that_never_ends_has_a_deadline(placed, cloud, monkeypatch):
    monkeypatch.setattr(az_module, "POLL_S", 60)
    cloud.step_s = 1000
    with pytest.raises(AzError, match="not complete after 30 min"):
        placed.up()
    placed.remove()


def test_a_locked_group_does_not_keep_the_others(placed, cloud, tmp_path):
    for number in (1, 2):
        placed.up(number=number)
    locked = next(g for g in cloud.groups if g.endswith("d1"))
    cloud.faults.append(
        Fault("request", f"DELETE .*{locked}$", 409, "ScopeLocked", "", 9)
    )
    with pytest.raises(AzureError, match=f"{locked} cannot be deleted: .*policy or lock"):
        azure.down(experiment(), state=tmp_path)
    assert list(cloud.groups) == [locked]
    assert list(tmp_path.rglob("id_ed25519"))
    cloud.faults.clear()
    placed.remove()


# what is on disk


def test_two_at_once_are_told_apart(placed, tmp_path):
    refused = pytest.raises(AzureError, match="another process is placing")
    with State.locked(tmp_path), refused:
        placed.up()


def test_a_damaged_record_says_what_to_do(placed, tmp_path):
    (tmp_path / "azure.json").write_text("{half", "utf-8")
    with pytest.raises(AzureError, match=r"is damaged, .* with `npl down --all`"):
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
