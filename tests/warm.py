"""Python programs without their start: a parent that has imported what they need forks.

A program that a test starts in place of Python (or of az) hands its arguments, folder,
environment and files over a socket to this server. A fork of it goes on as ``python -m MODULE …``
or ``python -c CODE …`` would, with the same exit code. Killing the program kills the fork; SIGHUP,
SIGINT and SIGTERM are passed on. What tests how a process starts or ends takes the real Python.

    python warm.py LISTENER LEARNED CODE      execute what imports, and serve until stdin is closed
"""

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
from pathlib import Path

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# Hundreds are started: each imports what Python has built in, and nothing else.
CLIENT = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@" # a path of Python may hold a space
' '''
import posix, sys, _signal as signal, _socket as socket
given = sys.argv[2:] if sys.argv[1:2] == ["-u"] else sys.argv[1:]
words = [*{words!r}, *given]
server = socket.socket(socket.AF_UNIX)
if words[:1] not in (["-m"], ["-c"]) or server.connect_ex({address!r}):
    posix.execv({real!r}, [{real!r}, *sys.argv[1:]])
variables = [name + b"=" + value for name, value in posix.environ.items()]
arguments = [w.encode(errors="surrogateescape") for w in words]
request = b"\\0".join([str(len(words)).encode(), *arguments, posix.getcwdb(), *variables])
files = b"".join(n.to_bytes(4, sys.byteorder) for n in range(3))
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)]
server.sendmsg([len(request).to_bytes(4, "big")], rights)
server.sendall(request)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: server.send(bytes([number])))
answer = server.recv(4)
if len(answer) < 4:
    sys.exit("the server of warm processes is gone")
code = int.from_bytes(answer, "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if code != -9 else None
    posix.kill(posix.getpid(), -code)
posix._exit(code)
"""


def client(program, address, real, words=()):
    """Write a program that asks the server, and starts the real one where there is none."""
    program.parent.mkdir(parents=True, exist_ok=True)
    text = CLIENT.format(
        python=sys.executable, address=str(address), real=str(real), words=words
    )
    program.write_text(text, "utf-8")
    program.chmod(0o755)


@contextlib.contextmanager
def warm(program, real, imports, words=(), learn=False):
    """Make `program`, which stands in for the one at `real`, while the block runs.

    `words` are what it gives to Python before its own arguments, `imports` the code that the
    server executes first. One that is to `learn` imports what its children imported.
    """
    address = program.with_suffix(".socket")
    client(program, address, real, words)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(64)  # who comes while the server still imports waits
        number, learned = str(listener.fileno()), str(program.with_suffix(".learned"))
        command = [
            real.with_name("python"),
            __file__,
            number,
            learned if learn else "",
            imports,
        ]
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()]
        )
    yield server
    server.communicate()
    assert server.returncode == 0, (
        f"the parent of {program} ended with {server.returncode}"
    )


def serve(listener, learned):
    """Fork for each program until standard input is closed; return in a child."""
    # reaped, not ignored, so that `time` counts what they used
    signal.signal(signal.SIGCHLD, reap)
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            os._exit(0)  # nothing to take apart
        connection, _ = listener.accept()
        if learned and Path(learned).exists():
            learn(Path(learned))
        if not os.fork():
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if not start(connection):
                os._exit(0)
            if learned:
                atexit.register(report, Path(learned), set(sys.modules))
            return
        connection.close()


def reap(*_):
    """Collect each fork that has ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def start(connection):
    """Become a program in a fork and return true; pass signals on and its exit code back."""
    header, files, _, _ = socket.recv_fds(connection, 4, 3)
    if len(header) < 4:
        return False
    request = connection.recv(struct.unpack("!I", header)[0], socket.MSG_WAITALL)
    child = os.fork()
    if not child:
        connection.close()
        number, *parts = map(os.fsdecode, request.split(b"\0"))
        words, (folder, *variables) = parts[: int(number)], parts[int(number) :]
        become(words, folder, dict(v.split("=", 1) for v in variables), files)
        return True
    for file in files:
        os.close(file)
    ended, watched = os.pidfd_open(child), [connection, 0]
    while ended not in (ready := select.select([ended, *watched], [], [])[0]):
        number = b""  # the program is gone, or who started the server
        if 0 not in ready:
            with contextlib.suppress(ConnectionError):
                number = connection.recv(1)
        if number:
            signal.pidfd_send_signal(ended, number[0])
        else:  # with what it started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
        watched = watched if number else []
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(OSError):
        connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
    return False


def learn(learned):
    """Import what children needed."""
    names = learned.read_text().split()
    learned.unlink()
    for name in names:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    gc.freeze()


def report(learned, known):
    """Tell the server what was imported."""
    with learned.open("a") as file:
        file.write(" ".join([*set(sys.modules) - known, ""]))


def become(words, folder, environment, files):
    """Take on what a program is given when it starts."""
    os.setsid()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for wanted, given in enumerate(files):
        os.dup2(given, wanted)
        os.close(given)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if (
        "ipykernel_launcher" in words
    ):  # which sets this before anything imports matplotlib
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if (backend := os.environ.get("MPLBACKEND")) and (
        matplotlib := sys.modules.get("matplotlib")
    ):
        matplotlib.rcParams["backend"] = backend  # which it reads when it is imported
    sys.path[0] = "" if words[0] == "-c" else folder
    sys.argv = words


def run():
    """Do what the program does; how it ends is how this process ends."""
    option, what, *sys.argv[1:] = sys.argv
    sys.argv[0] = option
    code = 0
    try:
        if option == "-m":
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(compile(what, "<string>", "exec"), main.__dict__)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        code = end.code or 0
    # as Python does, but for the taking apart of all that the parent imported
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())
    gc.disable()  # what is imported stays
    with socket.socket(fileno=int(sys.argv[1])) as _listener:
        exec(sys.argv[3])
        gc.enable()
        gc.freeze()  # a child that collects garbage copies no page of its parent
        serve(_listener, sys.argv[2])
    run()
