"""Commands on a host, over a real sshd: quoting, limits, and what happens when something dies."""

import asyncio
import io
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netperf_lib.errors import SSHError, UnreachableError
from netperf_lib.hosts.guests import guests
from netperf_lib.measure import session as host_session
from netperf_lib.measure import ssh
from netperf_lib.measure.session import HostSession
from netperf_lib.measure.ssh import BUSY, FLOODED, HUNG, KILLED, MISSING, Remote

from ..sshd import Sshd, alive, free_port, keygen, wait_until


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    with closing(Sshd(tmp_path_factory.mktemp("sshd"))) as server:
        yield server


def start(remote, *command, limit_s=60, out=None, err=None, listens=()):
    out, err = out or io.BytesIO(), err or io.BytesIO()
    return remote.start(command, out=out, err=err, limit_s=limit_s, listens=listens)


async def output(remote, *command, limit_s=20):
    out, err = io.BytesIO(), io.BytesIO()
    process = await start(remote, *command, limit_s=limit_s, out=out, err=err)
    return await process.wait(), out.getvalue(), err.getvalue()


@asynccontextmanager
async def connected(host, marker="test"):
    remote = Remote(host, marker)
    try:
        await remote.connect()
        yield remote
    finally:
        await remote.close()


@pytest.fixture
async def remote(sshd):
    async with connected(sshd.host()) as remote:
        yield remote


async def test_output_and_exit_code_arrive_unchanged(remote):
    script = r"printf 'a\000b\n'; printf 'err' >&2; exit 3"
    assert await output(remote, "sh", "-c", script) == (3, b"a\0b\n", b"err")
    # the same shell serves the next command
    assert await output(remote, "echo", "again") == (0, b"again\n", b"")
    assert len(remote._idle) == 1


async def test_much_output_arrives_whole(remote):
    code, out, _ = await output(
        remote, "sh", "-c", "head -c 4000000 /dev/zero; printf end"
    )
    assert (code, len(out), out[-3:]) == (0, 4_000_003, b"end")


async def test_tools_print_points_and_whole_lines_whatever_the_host_is_set_to(
    tmp_path,
):
    """Decimal commas and lines cut at 80 columns are of other people's logs: a log of ours has
    neither."""
    german = 'SetEnv LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 "LANG=de_DE.UTF-8"\n'
    wide = "x" * 300
    script = (
        f"echo $LC_ALL; [ -t 1 ] || echo no terminal; printf '%.1f\\n' 1.5; echo {wide}"
    )
    with closing(Sshd(tmp_path, more=german)) as server:
        async with connected(server.host()) as remote:
            found = await output(remote, "sh", "-c", script)
    assert found == (0, f"C\nno terminal\n1.5\n{wide}\n".encode(), b"")


HOSTILE = [
    "; rm -rf /",
    "$(reboot)",
    "`id`",
    "a'b",
    'a"b',
    "a\nb",
    "\\",
    "*",
    "~",
    "$HOME",
    "",
    " ",
    "!x",
    "stop",
    "µ",
]


@pytest.mark.slow
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    words=st.lists(
        st.sampled_from(HOSTILE)
        | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        max_size=6,
    )
)
def test_every_argument_is_literal(sshd, words):
    async def there_and_back():
        async with connected(sshd.host()) as remote:
            _, out, _ = await output(remote, "printf", "%s\\0", "first", *words)
        assert out.decode().split("\0")[:-1] == ["first", *words]

    asyncio.run(there_and_back())


@pytest.mark.parametrize(
    ("script", "limit_s", "code"),
    [
        ("no-such-program -x", 20, MISSING),
        ("false", 20, 1),
        ("trap '' TERM; while :; do sleep 0.1; done", 0.5, HUNG),
        ("kill -KILL $$", 30, KILLED),
    ],
)
async def test_an_exit_code_tells_how_a_program_ended(remote, script, limit_s, code):
    words = ["sh", "-c", script] if " $" in script or ";" in script else script.split()
    assert (await output(remote, *words, limit_s=limit_s))[0] == code


async def test_a_command_ends_when_its_time_is_over(remote):
    begun = time.monotonic()
    code, out, _ = await output(
        remote, "sh", "-c", "echo begun; sleep 987.1", limit_s=0.5
    )
    assert (code, out) == (124, b"begun\n")
    assert time.monotonic() - begun < 8
    # a killed process can be seen until it is scheduled once more
    assert await asyncio.to_thread(wait_until, lambda: not alive("sleep 987.1"))


async def test_one_that_ignores_being_asked_is_killed(remote):
    stubborn = "trap '' TERM; echo on; sleep 987.2 & wait; sleep 987.2"
    process = await start(remote, "sh", "-c", stubborn)
    assert await asyncio.to_thread(wait_until, lambda: alive("sleep 987.2"))
    assert await process.stop() is not None
    assert await asyncio.to_thread(wait_until, lambda: not alive("sleep 987.2"))


@pytest.mark.slow
async def test_one_that_ends_as_it_is_asked_to_leaves_the_shell_in_order(remote):
    """The shell that waits for the word to stop may be ended while it reads it."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for i in range(100):
            process = await start(remote, "sleep", "0.03")
            await asyncio.sleep(0.028 + i % 20 * 0.0005)
            await process.stop()
            assert await output(remote, "echo", "again") == (0, b"again\n", b""), i
    finally:
        for one in busy:
            one.kill()
            one.wait()


@pytest.mark.parametrize(
    ("protocol", "kind", "then"),
    [("tcp", "SOCK_STREAM", "s.listen();"), ("udp", "SOCK_DGRAM", "")],
)
async def test_a_server_is_ready_when_it_listens(remote, protocol, kind, then):
    port = free_port()
    slow = (
        f"import socket,time; time.sleep(.4); s=socket.socket(type=socket.{kind}); "
        f"s.bind(('127.0.0.1',{port})); {then} time.sleep(60)"
    )
    err = io.BytesIO()
    begun = time.monotonic()
    listens = [(protocol, port)]
    process = await start(remote, sys.executable, "-c", slow, err=err, listens=listens)
    assert await process.listening()
    assert time.monotonic() - begun > 0.4
    assert await process.stop() == 143
    assert err.getvalue() == b""  # what the worker says is not the tool's


async def test_a_server_that_dies_first_does_not_listen(remote):
    listens = [("tcp", free_port())]
    process = await start(remote, "sh", "-c", "exit 7", listens=listens)
    assert not await process.listening()
    assert await process.wait() == 7


@pytest.mark.parametrize("ended", [True, False])
async def test_a_port_that_is_used_or_was_just_now_is_busy(remote, ended):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()  # the side that closes first waits
        if ended:
            server.close()
        process = await start(remote, "sleep", "60", listens=[("tcp", port)])
        assert not await process.listening()
        assert await process.wait() == BUSY


async def test_leftovers_are_ended_and_nobody_elses_process(sshd):
    mine = f"mine-{os.getpid()}"  # the same test may run beside this one
    others = [
        subprocess.Popen(
            ["sleep", "987.4"], env={"NETPERF_LIB": marker, "PATH": os.environ["PATH"]}
        )
        for marker in (f"{mine}:local", "theirs:local", f"{mine}:other-host")
    ]
    try:
        async with connected(sshd.host(), mine) as remote:
            assert await remote.end_leftovers() == 1
            assert others[0].wait(5) == -signal.SIGKILL
            assert [p.poll() for p in others[1:]] == [None, None]
            assert await remote.end_leftovers() == 0
    finally:
        for process in others:
            process.kill()
            process.wait()


async def test_a_cut_connection_is_one_clear_error_and_ends_what_ran(sshd, remote):
    stubborn = "trap '' HUP; sleep 987.5 & sleep 987.5"
    process = await start(remote, "sh", "-c", stubborn)
    assert await asyncio.to_thread(wait_until, lambda: len(alive("sleep 987.5")) >= 2)
    for pid in sshd.sessions:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(
        UnreachableError, match=r"host local \(127.0.0.1:\d+\): the connection broke"
    ):
        await process.wait()
    assert await asyncio.to_thread(wait_until, lambda: not alive("sleep 987.5"))
    assert not remote.connected
    assert await remote.connect()
    assert (await remote.script("echo back")).out == "back\n"


async def test_a_host_that_hangs_is_given_up(sshd, monkeypatch):
    monkeypatch.setattr(ssh, "ALIVE_S", 0.5)
    monkeypatch.setattr(ssh, "ALIVE_COUNT", 2)
    async with connected(sshd.host()) as remote:
        process = await start(remote, "sleep", "987.6")
        sessions = sshd.sessions
        try:
            for pid in sessions:
                os.kill(pid, signal.SIGSTOP)
            begun = time.monotonic()
            with pytest.raises(UnreachableError, match="host local"):
                await process.wait()
            assert time.monotonic() - begun < 10
        finally:
            for pid in sessions:
                os.kill(pid, signal.SIGCONT)


async def _refused(remote):
    with pytest.raises(UnreachableError) as error:
        await remote.connect()
    message = str(error.value)
    assert message.startswith("host local (")
    assert "\n" not in message
    return message


async def test_each_refusal_has_its_remedy(sshd, tmp_path, monkeypatch):
    stranger = str(keygen(tmp_path / "stranger"))
    assert "authorized_keys" in await _refused(Remote(sshd.host(identity=stranger), "t"))

    changed = tmp_path / "known_hosts"
    changed.write_text(f"[127.0.0.1]:{sshd.port} {Path(stranger + '.pub').read_text()}")
    message = await _refused(Remote(sshd.host(known_hosts=str(changed)), "t"))
    assert "host key" in message
    assert str(changed) in message
    changed.write_text(f"odd\n{sshd.known_hosts.read_text()}")
    message = await _refused(Remote(sshd.host(known_hosts=str(changed)), "t"))
    assert f"{changed}, or the ssh configuration, cannot be read" in message
    changed.write_text("")
    assert "host key" in await _refused(Remote(sshd.host(known_hosts=str(changed)), "t"))

    assert "sshd running" in await _refused(Remote(sshd.host(port=free_port()), "t"))
    assert "identity" in await _refused(
        Remote(sshd.host(identity=str(tmp_path / "absent")), "t")
    )
    assert "address" in await _refused(
        Remote(sshd.host(address="no-such-host.invalid"), "t")
    )

    monkeypatch.setattr(ssh, "CONNECT_S", 0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        assert f"security group let port {port} through" in await _refused(
            Remote(sshd.host(port=port), "t")
        )


async def test_an_unreachable_host_is_not_tried_at_every_turn(sshd, monkeypatch):
    tried = []
    plain = ssh.asyncssh.connect

    def connect(*given, **options):
        tried.append(given)
        return plain(*given, **options)

    monkeypatch.setattr(ssh.asyncssh, "connect", connect)
    how = {
        "install": False,
        "say": lambda _: None,
        "logins": asyncio.Semaphore(8),
    }
    session = HostSession(sshd.host(port=free_port()), "t:1", (), **how)
    for _ in range(3):
        with pytest.raises(UnreachableError, match="connection refused"):
            await session.meet()
    assert len(tried) == 1
    # it was never reached: this is the limit, whatever the patience
    monkeypatch.setattr(host_session, "FIRST_S", 1.0)
    monkeypatch.setattr(host_session, "AGAIN_S", 0.5)
    begun = time.monotonic()
    with pytest.raises(UnreachableError):
        await session.wait(300)
    assert 0.5 < time.monotonic() - begun < 15
    assert len(tried) > 1


async def test_the_ssh_configuration_is_honoured(sshd, tmp_path):
    config = tmp_path / "config"
    config.write_text(
        f"Host lan-*\n  Port {sshd.port}\n  User {sshd.host().user}\n  IdentityFile "
        f"{sshd.identity}\n"
        f"  UserKnownHostsFile {sshd.known_hosts}\n  HostName 127.0.0.1\n"
        "Host lan-behind\n  ProxyJump lan-gate\n"
    )
    bare = {
        "port": 22,
        "user": None,
        "identity": None,
        "known_hosts": None,
        "ssh_config": str(config),
    }
    for address in ("lan-gate", "lan-behind"):
        async with connected(sshd.host(address=address, **bare)) as remote:
            told = await remote.script("echo $SSH_CONNECTION")
        assert told.out.split()[-1] == str(sshd.port)


async def _reaches(host):
    async with connected(host) as remote:
        return (await remote.script("echo here")).out == "here\n"


async def test_keys_with_a_passphrase_come_from_the_agent(
    tmp_path, tmp_path_factory, monkeypatch
):
    own = Sshd(tmp_path)
    place = str(
        tmp_path_factory.getbasetemp() / "agent"
    )  # a socket's path may not be long
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: Path(place).exists())
        subprocess.run(
            ["ssh-add", "-q", own.identity],
            env={**os.environ, "SSH_AUTH_SOCK": place},
            check=True,
        )
        subprocess.run(
            ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", own.identity], check=True
        )
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        assert "ssh-add" in await _refused(Remote(own.host(), "t"))
        config = tmp_path / "config"
        config.write_text(f"IdentityAgent {place}\n")
        assert await _reaches(own.host(identity=None, ssh_config=str(config)))
        monkeypatch.setenv("SSH_AUTH_SOCK", place)
        assert await _reaches(own.host())
        config.write_text(f"IdentityFile {own.identity}\nIdentitiesOnly yes\n")
        assert await _reaches(own.host(identity=None, ssh_config=str(config)))
    finally:
        agent.terminate()
        agent.wait()
        own.close()


async def test_certificates_are_shown_as_the_configuration_of_az_ssh_says(tmp_path):
    authority, key = keygen(tmp_path / "authority"), keygen(tmp_path / "key")
    own = Sshd(tmp_path / "sshd", more=f"TrustedUserCAKeys {authority}.pub\n")
    try:
        config = tmp_path / "config"
        config.write_text(
            f"Host vm\n\tHostName 127.0.0.1\n\tUser {own.host().user}\n\tCertificateFile "
            f'"{tmp_path}/signed.pub"\n'
            f'\tIdentityFile "{key}"\n'
        )
        vm = own.host(address="vm", user=None, identity=None, ssh_config=str(config))
        subprocess.run(
            [
                "ssh-keygen",
                "-q",
                "-s",
                authority,
                "-I",
                "t",
                "-n",
                own.host().user or "",
                "-V",
                "+1h",
                f"{key}.pub",
            ],
            check=True,
        )
        assert "signed.pub" in await _refused(Remote(vm, "t"))
        (tmp_path / "key-cert.pub").rename(tmp_path / "signed.pub")
        assert await _reaches(vm)
    finally:
        own.close()


async def test_a_script_that_takes_too_long_is_an_error(remote):
    with pytest.raises(SSHError, match="not done in time"):
        await remote.script("sleep 987.7", limit_s=0.3)


async def test_endless_output_is_stopped(remote, monkeypatch):
    monkeypatch.setattr(ssh, "MAX_OUTPUT_BYTES", 2_000_000)
    code, out, _ = await output(remote, "yes", limit_s=60)
    assert (code, len(out)) == (FLOODED, 2_000_000)
    assert await output(remote, "echo", "again") == (0, b"again\n", b"")


async def test_old_algorithms_are_named(tmp_path):
    config = tmp_path / "config"
    config.write_text("KexAlgorithms curve25519-sha256\n")
    old = "KexAlgorithms diffie-hellman-group14-sha1\n"
    with closing(Sshd(tmp_path, more=old)) as server:
        message = await _refused(Remote(server.host(ssh_config=str(config)), "t"))
    assert "diffie-hellman-group14-sha1" in message
    assert "in ssh_config (KexAlgorithms," in message
    assert "the route" not in message


@pytest.fixture
def jump(sshd, tmp_path):
    """A server that refuses the tenth connection at once, and the way through it."""
    with closing(Sshd(tmp_path / "gate", more="MaxStartups 9:100:9\n")) as gate:
        config = tmp_path / "config"
        config.write_text(
            f"Host gate\n  HostName 127.0.0.1\n  Port {gate.port}\n"
            f"  UserKnownHostsFile {gate.known_hosts}\n  IdentityFile {gate.identity}\n"
            f"Host 127.0.0.1\n  ProxyJump gate\n  UserKnownHostsFile {sshd.known_hosts}\n"
            f"Host *\n  User {gate.host().user}\n"
        )
        yield gate, config


def test_hosts_behind_a_jump_host_are_all_reached(sshd, jump):
    hosts = tuple(
        sshd.host(name=f"h{n}", ssh_config=str(jump[1]), known_hosts=None)
        for n in range(12)
    )
    found = guests(hosts, marker="t", wait_s=0)
    assert [answer for answer in found.values() if isinstance(answer, str)] == []


async def test_jump_host_that_refuses_is_named(sshd, jump):
    gate, config = jump
    sockets = []
    try:
        while len(sockets) < 9:  # the one that asked whether it is up may still count
            one = socket.create_connection(("127.0.0.1", gate.port), timeout=10)
            if one.recv(100).startswith(b"SSH"):
                sockets.append(one)
        message = await _refused(Remote(sshd.host(ssh_config=str(config)), "t"))
    finally:
        for one in sockets:
            one.close()
    assert "through the jump host gate was lost" in message
    assert "MaxStartups" in message
