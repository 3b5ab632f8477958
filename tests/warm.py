"""Python programs without their start: a parent that has imported what they need forks for each of them.

A program that a test starts in place of Python (or of az) hands its arguments, folder, environment and files over a
socket to this server, which forks. The child goes on as ``python -m MODULE …`` or ``python -c CODE …`` would, with the
same arguments, environment, standard files and exit code. Killing the program kills the child; SIGHUP, SIGINT and
SIGTERM are passed on. Only what a process is before Python starts differs: its number, its group, and what `/proc`
says of its environment. What tests signals, starts or leftovers of processes starts the real program.

    python warm.py LISTENER learn|keep CODE      execute what imports, and serve until standard input is closed
"""

import array
import atexit
import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
from pathlib import Path

# Hundreds are started: each imports what Python has built in, and nothing else.
CLIENT = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@" # a path of Python may hold a space
' '''
import posix, sys, _signal as signal, _socket as socket
words = [*{words!r}, *sys.argv[1:]]
server = socket.socket(socket.AF_UNIX)
if words[:1] not in (["-m"], ["-c"]) or server.connect_ex({address!r}):
    posix.execv({real!r}, [{real!r}, *sys.argv[1:]])
variables = [name + b"=" + value for name, value in posix.environ.items()]
parts = [str(len(words)).encode(), *(w.encode(errors="surrogateescape") for w in words), posix.getcwdb(), *variables]
request = b"\\0".join(parts)
files = b"".join(n.to_bytes(4, sys.byteorder) for n in range(3))
server.sendmsg([len(request).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
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
    """Write a program that asks the server at `address`, and starts the real one where there is none."""
    program.parent.mkdir(parents=True, exist_ok=True)
    text = CLIENT.format(python=sys.executable, address=str(address), real=str(real), words=words)
    program.write_text(text, "utf-8")
    program.chmod(0o755)


@contextlib.contextmanager
def warm(program, real, imports, words=(), learn=False):
    """Make `program`, which stands in for a Python, or a program of it, at `real`, while the block runs.

    `words` are what it gives to Python before its own arguments, `imports` the code that the server executes first.
    One that is to `learn` imports what its children imported, for the children to come.
    """
    address = program.with_suffix(".socket")
    client(program, address, real, words)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(64)  # who comes while the server still imports waits
        command = [
            real.with_name("python"),
            __file__,
            str(listener.fileno()),
            "learn" if learn else "keep",
            imports,
        ]
        server = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    yield server
    server.communicate()
    assert server.returncode == 0, f"the parent of {program} ended with {server.returncode}"


class Server:
    """Fork for every program."""

    def __init__(self, listener, learns):
        self.listener, self.learns = listener, learns
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(0, selectors.EVENT_READ, sys.exit)

    def serve(self):
        """Until standard input is closed; each child returns, as its program."""
        while True:
            for key, _ in self.selector.select():
                if (
                    self.selector.get_map().get(key.fd) is key and key.data()
                ):  # what went before may have ended it
                    return

    def accept(self):
        """Start one program; true in the child."""
        connection, _ = self.listener.accept()
        header, files = b"", array.array("i")
        while len(header) < 4:
            data, extra, *_ = connection.recvmsg(
                4 - len(header), socket.CMSG_SPACE(3 * files.itemsize)
            )
            if not data:
                connection.close()
                return False
            header += data
            for _, _, content in extra:
                files.frombytes(content)
        left, request = struct.unpack("!I", header)[0], b""
        while len(request) < left and (data := connection.recv(left - len(request))):
            request += data
        names_in, names_out = os.pipe()
        os.set_blocking(names_in, False)
        child = os.fork()
        if not child:
            self.selector.close()
            self.listener.close()
            connection.close()
            os.close(names_in)
            number, *parts = map(os.fsdecode, request.split(b"\0"))
            words, (folder, *variables) = parts[: int(number)], parts[int(number) :]
            become(words, folder, dict(v.split("=", 1) for v in variables), files.tolist())
            if self.learns:
                atexit.register(report, set(sys.modules), names_out)
            else:
                os.close(names_out)
            return True
        os.close(names_out)
        for file in files:
            os.close(file)
        ended = os.pidfd_open(child)

        def on_message():
            try:
                number = connection.recv(1)
            except ConnectionError:
                number = b""
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(ended, number[0] if number else signal.SIGKILL)
            if not number:
                self.selector.unregister(connection)

        def end():
            _, status = os.waitpid(child, 0)
            with contextlib.suppress(OSError):
                connection.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))
            for key in (connection, ended):
                with contextlib.suppress(KeyError):
                    self.selector.unregister(key)
            connection.close()
            os.close(ended)
            with contextlib.suppress(OSError):  # less than what a pipe holds
                learn(os.read(names_in, 1 << 16).decode().split())
            os.close(names_in)

        self.selector.register(connection, selectors.EVENT_READ, on_message)
        self.selector.register(ended, selectors.EVENT_READ, end)
        return False


def learn(names):
    """Import what a child needed."""
    for name in names:
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    gc.freeze()


def report(known, names_out):
    """Tell the parent what was imported."""
    os.write(names_out, " ".join(set(sys.modules) - known).encode()[:65000])


def become(words, folder, environment, files):
    """Take on what a program is given when it starts."""
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        )
    for wanted, given in enumerate(files):
        os.dup2(given, wanted)
        os.close(given)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if "ipykernel_launcher" in words:  # which sets this before anything imports matplotlib
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    if (backend := os.environ.get("MPLBACKEND")) and (matplotlib := sys.modules.get("matplotlib")):
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
        Server(_listener, sys.argv[2] == "learn").serve()
    run()
