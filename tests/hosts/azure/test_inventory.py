"""Hosts that exist already: nothing is made, and what is not said is left to the user's SSH
configuration."""

from pathlib import Path

import pytest

from netperf_lib.errors import ExperimentError
from netperf_lib.hosts import inventory

from .conftest import GUEST, experiment


def declared(*pairs, **options):
    base = experiment(*pairs)
    return base.model_copy(
        update={
            "hosts": base.hosts.model_copy(
                update={"source": "inventory", "options": options}
            )
        }
    )


@pytest.fixture(autouse=True)
def answers(monkeypatch):
    monkeypatch.setattr(
        inventory,
        "guests",
        lambda hosts, **_: {
            h.name: GUEST if h.name != "mute" else "no answer" for h in hosts
        },
    )


def test_a_list_of_hosts(tmp_path):
    named = {"address": "192.0.2.1", "data_address": "10.0.0.1", "accelerated": True}
    hosts = {"a": named, "b": {}, "spare": {}}
    listed = declared("a b same-zone", hosts=hosts, user="me", identity="~/k")
    a, b = inventory.up(listed, number=1, state=tmp_path).hosts
    assert (a.address, a.data_address, a.user, a.owned) == (
        "192.0.2.1",
        "10.0.0.1",
        "me",
        False,
    )
    assert (b.address, b.data_address, b.port, b.known_hosts) == ("b", "b", 22, None)
    assert a.identity == str(Path("~/k").expanduser())
    claim = "virtual function present and up in the guest"
    assert {p.claim: p.holds for p in a.proofs}[claim] is True
    assert not any("virtual function" in p.claim for p in b.proofs)
    inventory.down(listed, state=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_silent_host_is_listed_and_flagged(tmp_path, capsys):
    listed = declared("a mute same-zone", hosts={"a": {}, "mute": {}})
    made = inventory.up(listed, number=1, state=tmp_path)
    (proof,) = made.host("mute").proofs
    assert (proof.claim, proof.holds, proof.evidence) == (
        "facts of the guest",
        None,
        "no answer",
    )
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "mute: not proven: facts of the guest (no answer)"


def test_a_host_that_is_not_listed_is_named(tmp_path):
    listed = declared("a b same-zone", hosts={"a": {}})
    with pytest.raises(ExperimentError, match="host 'b', which is not in the inventory"):
        inventory.up(listed, number=1, state=tmp_path)
