"""A ping-pong over TCP between two hosts, to find what the emulation itself costs.

It does the same as `qperf tcp_lat`, sending a byte back and forth, so the tools will measure the same; Python adds
about a microsecond.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import time
from typing import Any


def receive(control: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Wait for a host's JSON message; return it and the descriptor that came with it. OSError if the host failed."""
    message, fds, _, _ = socket.recv_fds(control, 65536, 1)
    reply: dict[str, Any] = json.loads(message) if message else {"error": "it ended without output"}
    if "error" in reply:
        raise OSError(reply["error"])
    return reply, fds[0] if fds else None


def one_way_us(client: socket.socket, server: socket.socket, server_address: str, seconds: float) -> tuple[float, ...]:
    """Measure half a round trip between two hosts by their control sockets: the quartiles and the median (µs)."""
    request: dict[str, Any] = {"do": "echo", "address": server_address}
    server.send(json.dumps(request).encode())
    request |= {"do": "time", "port": receive(server)[0]["port"], "seconds": seconds}
    client.send(json.dumps(request).encode())
    return tuple(receive(client)[0]["quartiles_us"])


def answer(request: dict[str, Any], control: socket.socket) -> None:
    """Carry out, in a child of the host's process 1, a request of `one_way_us`; ends the process."""
    try:
        if request["do"] == "echo":
            _echo(request["address"], control)
        else:
            quartiles = _time(request["address"], request["port"], request["seconds"])
            control.send(json.dumps({"quartiles_us": quartiles}).encode())
    except (OSError, statistics.StatisticsError) as error:
        control.send(json.dumps({"error": str(error)}).encode())
    os._exit(0)


def _echo(address: str, control: socket.socket) -> None:
    with socket.create_server((address, 0)) as server:
        server.settimeout(5)
        control.send(json.dumps({"port": server.getsockname()[1]}).encode())
        connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while byte := connection.recv(1):
            connection.send(byte)


def _time(address: str, port: int, seconds: float) -> list[float]:
    halves: list[float] = []
    with socket.create_connection((address, port), timeout=5) as connection:
        connection.setblocking(True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        clock = time.perf_counter_ns
        end = clock() + round(seconds * 1e9)
        while (start := clock()) < end or len(halves) < 4:
            connection.send(b"x")
            connection.recv(1)
            halves.append((clock() - start) / 2000)
    # the first ones include waking everything up
    return statistics.quantiles(halves[len(halves) // 10 :] if len(halves) > 20 else halves, n=4)
