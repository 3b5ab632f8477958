"""Hosts that exist already: nothing is made, what is not said is left to the user's SSH
configuration, and nothing of a list is ever read by a shell."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from netperf_lib.errors import ExperimentError, UsageError
from netperf_lib.experiment.deployment import Host
from netperf_lib.hosts import inventory, options

from ..sshd import Sshd, on_hosts
from .azure.conftest import GUEST

ADDRESSES = [
    "i-$(touch /tmp/x)",
    "a`id`",
    "a;b",
    "a b",
    "-oProxyCommand=x",
    "a|b",
    "a'b",
    'a"b',
    "a\\b",
    "a\nb",
    "",
    "{a}",
    "$HOME",
]
USERS = ["-l", "a;b", "a'b", "a`b", "$(id)", "a -x", "a\\", "a\0b", "", "x|y"]


def declared(**machine):
    return on_hosts({"a": machine, "b": {"address": "10.0.0.1"}})


@pytest.mark.parametrize(
    ("field", "value"),
    [("address", a) for a in ADDRESSES]
    + [("data_address", a) for a in ADDRESSES]
    + [("user", u) for u in USERS],
)
def test_what_ssh_refuses_is_refused(field, value):
    with pytest.raises(ExperimentError, match=rf"hosts\.a\.{field}"):
        options(declared(**{field: value}))
    given = {"name": "a", "address": "10.0.0.1", "data_address": "10.0.0.1"} | {
        field: value
    }
    with pytest.raises((UsageError, ValueError)):
        Host(**given)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (
            {"data_adress": "10.0.0.2"},
            "data_adress: unknown key; did you mean data_address?",
        ),
        ({"port": "22o1"}, "port: '22o1': Input should be a valid integer"),
        ({"address": "bob@10.0.0.1"}, "give the user and the port as `user` and `port`"),
        ({"address": "10.0.0.1:2201"}, "give the user and the port as `user` and `port`"),
        ({"address": "[fd77::1]"}, "no brackets"),
        ({"address": "10.0.0.256"}, "'10.0.0.256' is not a host name or address"),
    ],
)
def test_what_people_mistype_is_told(machine, said):
    with pytest.raises(ExperimentError, match=rf"hosts\.a\..*{re.escape(said)}"):
        options(declared(**machine))


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "fe80::1%eth0", "vm-1.example.com", "i-0abc", "mi_1", "2001:db8::1"],
)
def test_addresses_of_every_kind_are_accepted(address):
    read = options(declared(address=address, user="DOMAIN\\user@example.com"))
    assert read.hosts["a"].address == address


def test_a_proxy_command_of_the_users_own_runs_nothing_of_the_address(tmp_path):
    config, witness = tmp_path / "config", tmp_path / "ran"
    config.write_text('Host i-*\n  ProxyCommand sh -c "echo %h"\n')
    address = f"i-$(touch {witness})"
    with pytest.raises(ExperimentError):
        inventory.up(
            declared(address=address, ssh_config=str(config)),
            number=1,
            state=tmp_path / "state",
        )
    assert not witness.exists()


async def test_two_names_of_one_machine_are_no_pair(tmp_path):
    """From a running event loop, as in a notebook."""
    with closing(Sshd(tmp_path / "sshd")) as server:
        machine = {
            "address": "127.0.0.1",
            "port": server.port,
            "identity": str(server.identity),
            "known_hosts": str(server.known_hosts),
        }
        experiment = on_hosts({"a": machine, "b": machine})
        made = inventory.up(experiment, number=1, state=tmp_path / "state")
    (said,) = made.contradictions()
    assert said.startswith("a and b are two machines (both names lead to ")


def test_a_list_of_hosts(tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "guests", lambda *_, **__: {"a": GUEST, "b": GUEST})
    named = {"address": "192.0.2.1", "data_address": "10.0.0.1", "accelerated": True}
    listed = on_hosts({"a": named, "b": {}, "spare": {}}, user="me", identity="~/k")
    a, b = inventory.up(listed, number=1, state=tmp_path).hosts
    found = (a.address, a.data_address, a.user, a.owned)
    assert found == ("192.0.2.1", "10.0.0.1", "me", False)
    assert (b.address, b.data_address, b.port, b.known_hosts) == ("b", "b", 22, None)
    assert a.identity == str(Path("~/k").expanduser())
    claim = "virtual function present and up in the guest"
    assert {p.claim: p.holds for p in a.proofs}[claim] is True
    assert not any("virtual function" in p.claim for p in b.proofs)
    inventory.down(listed, state=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_silent_host_is_listed_and_flagged(tmp_path, monkeypatch, capsys):
    answers = {"a": GUEST, "b": "no answer"}
    monkeypatch.setattr(inventory, "guests", lambda *_, **__: answers)
    made = inventory.up(on_hosts({"a": {}, "b": {}}), number=1, state=tmp_path)
    (proof,) = made.host("b").proofs
    found = (proof.claim, proof.holds, proof.evidence)
    assert found == ("facts of the guest", None, "no answer")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "b: not proven: facts of the guest (no answer)"
