"""The ways to VMs without public addresses, each with real servers of SSH: a jump host, Bastion's tunnel."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from netperf_lib.errors import UnreachableError
from netperf_lib.hosts.azure.access import ssh_config
from netperf_lib.hosts.azure.options import Options
from netperf_lib.hosts.azure.state import State
from netperf_lib.measure.ssh import Remote

from ...sshd import Sshd, alive, wait_until
from .cloud import BASE

BASTION = f"{BASE}/resourceGroups/net/providers/Microsoft.Network/bastionHosts/b1"
TUNNEL = """#!{python}
import select, socket, sys
given = dict(zip(sys.argv, sys.argv[1:]))
assert sys.argv[1:4] == ["network", "bastion", "tunnel"] and given["--target-resource-id"] == "/vm/a", sys.argv
with socket.create_server(("127.0.0.1", int(given["--port"]))) as server:
    while True:  # as az does, which waits for the next connection until it is interrupted
        near, _ = server.accept()
        far = socket.create_connection(("127.0.0.1", {port}))
        data = b"-"
        while data:
            (ready, *_), _, _ = select.select([near, far], [], [])
            data = ready.recv(1 << 16)
            (far if ready is near else near).sendall(data)
"""


@pytest.fixture
def vm(tmp_path: Path) -> Iterator[Sshd]:
    server = Sshd(tmp_path / "vm")
    yield server
    server.stop()


async def answer(remote: Remote) -> str:
    try:
        await remote.connect()
        return (await remote.script("echo $0")).out.strip()
    finally:
        await remote.close()


def options(**more: str) -> Options:
    return Options.model_validate(
        {"region": "westeurope", "vm_size": "Standard_D2s_v5", "management": "private", **more}
    )


def test_through_a_jump_host(vm: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jump = Sshd(tmp_path / "jump")
    home = tmp_path / "home" / ".ssh"
    home.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home.parent))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    shutil.copy(jump.identity, home / "id_ed25519")
    key = jump.known_hosts.read_text("utf-8").partition(" ")[2]
    (home / "known_hosts").write_text(f"[localhost]:{jump.port} {key}", "utf-8")
    config = ssh_config(
        options(jump_host=f"localhost:{jump.port}"), State(tmp_path), "d1", {"127.0.0.1": "/vm/a"}
    )
    host = vm.host(ssh_config=config, owned=True)
    seen: list[int] = []

    async def through() -> str:
        remote = Remote(host, "test")
        await remote.connect()
        seen.extend(jump.sessions)
        return await answer(remote)

    assert asyncio.run(through()) == "sh"
    assert seen, "nobody came through the jump host"
    jump.stop()
    with pytest.raises(UnreachableError):
        asyncio.run(answer(Remote(host, "test")))


def test_through_the_tunnel_of_a_bastion(
    vm: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "az"
    program.parent.mkdir()
    program.write_text(TUNNEL.format(python=shutil.which("python3"), port=vm.port), "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    config = ssh_config(options(bastion=BASTION), State(tmp_path), "d1", {"127.0.0.1": "/vm/a"})
    assert asyncio.run(answer(Remote(vm.host(ssh_config=config), "test"))) == "sh"
    assert wait_until(lambda: not alive(str(program))), "the tunnel outlives the connection"
    program.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    with pytest.raises(UnreachableError):
        asyncio.run(answer(Remote(vm.host(ssh_config=config), "test")))
