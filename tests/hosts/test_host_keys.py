"""Host keys pinned at the first contact, with a real sshd."""

import os
import shutil
from pathlib import Path

import pytest

from netperf_lib.data.layout import Store
from netperf_lib.errors import HostError
from netperf_lib.hosts import inventory

from ..sshd import Sshd, on_hosts


def declared(server, **more):
    machine = {
        "address": "127.0.0.1",
        "port": server.port,
        "identity": str(server.identity),
    }
    return on_hosts({"a": machine, "b": machine}, **more)


def test_the_first_key_is_pinned_and_another_one_refused(tmp_path):
    server = Sshd(tmp_path / "one")
    experiment = declared(server, host_keys="first-contact")
    try:
        (a, b) = inventory.up(experiment, number=1, state=tmp_path / "state").hosts
        claims = {p.claim: p for p in a.proofs}
        assert claims["kernel"].holds
        assert claims["host key"].holds is None  # nobody vouched for it: reports flag it
        assert "pinned at the first contact" in claims["host key"].evidence
        kept = Path(a.known_hosts or "").read_text("utf-8")
        assert (server.folder / "host_key.pub").read_text("utf-8").split()[1] in kept
        assert b.known_hosts != a.known_hosts
    finally:
        server.stop()

    shutil.rmtree(tmp_path / "one")
    other = Sshd(tmp_path / "one", port=server.port)
    try:
        (a, _) = inventory.up(experiment, number=1, state=tmp_path / "state").hosts
        (proof,) = (p for p in a.proofs if p.claim == "facts of the guest")
        assert "host key is not the one pinned in" in proof.evidence
        assert Path(a.known_hosts or "").read_text("utf-8") == kept
    finally:
        other.stop()


def test_unknown_hosts_are_refused_unless_the_first_contact_is_trusted(tmp_path):
    server = Sshd(tmp_path / "one")
    try:
        (a, _) = inventory.up(declared(server), number=1, state=tmp_path / "state").hosts
        (proof,) = a.proofs
        assert "its host key is not known: " in proof.evidence
        assert "declare hosts.options.host_keys: first-contact" in proof.evidence
        assert not (tmp_path / "state").exists()
    finally:
        server.stop()


async def test_a_first_contact_from_a_running_event_loop(tmp_path):
    """As in a notebook, whose kernel runs one."""
    server = Sshd(tmp_path / "one")
    try:
        (a, _) = inventory.up(
            declared(server, host_keys="first-contact"),
            number=1,
            state=tmp_path / "state",
        ).hosts
        assert a.known_hosts
    finally:
        server.stop()


def test_pinned_keys_are_closed_whatever_the_umask(tmp_path):
    server = Sshd(tmp_path / "one")
    before = os.umask(0)
    try:
        store = Store(tmp_path, "probe")
        inventory.up(
            declared(server, host_keys="first-contact"), number=1, state=store.hosts_dir
        )
    finally:
        os.umask(before)
        server.stop()
    private = [*store.hosts_dir.rglob("*"), store.hosts_dir]
    assert len(private) == 4
    assert [path for path in private if path.stat().st_mode & 0o077] == []


def test_pinned_keys_that_others_can_write_are_refused(tmp_path):
    server = Sshd(tmp_path / "one")
    experiment = declared(server, host_keys="first-contact")
    state = tmp_path / "state"
    try:
        inventory.up(experiment, number=1, state=state)
        (state / "host-keys" / "a.known_hosts").chmod(0o666)
        with pytest.raises(
            HostError, match=r"a\.known_hosts can be written by other users"
        ):
            inventory.up(experiment, number=1, state=state)
    finally:
        server.stop()
