"""Finds where iperf 2 programs begin in a text, and the tests of each program.

A server prints its banner once and then one test after the other; with ``-r`` a client prints two of each. With ``-d``
and ``-r`` a server connects back, under a client banner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..draft import line_start, or_above
from ..iperf_rows import stream_number

_START = re.compile(  # each begins with a literal character: the engine looks for these first
    r"Client connecting to (?P<target>\S+), (?:TCP|UDP) port(?P<client>)"
    r"|Server listening on (?:TCP|UDP) port (?P<port>\d+)(?P<server>)"
    r"|\[\s*(?P<name>[^\]\n]{1,20})\] local \S+ port (?P<here>\d+) connected with (?P<peer>\S*)(?P<local>)"
    r"|\[\s*(?P<id>[^\]\[\n]{1,20}?)\s*\]\s*(?P<from>\d+\.\d+)\s*-\s*(?P<to>\d+\.\d+)\s+sec\s+[\d.]+ [KMGT]?B"
    r"(?P<row>)"
    r"|i(?<=\bi)perf: (?!done)\S|listener bind failed|connect failed: ",
)


_COMMAND, _RULE = re.compile(r"\biperf -"), re.compile(r"[ >]*-----")
_BEFORE_AN_ERROR = 60
"""Number of characters that may precede a message in its line."""


def tests(text: str) -> Iterator[tuple[int, bool]]:
    """Yield the offsets where a test begins, and whether a program begins with it."""
    matches = list(_START.finditer(text))
    results = _results(matches)
    kind = ""
    rows_seen = finished = serving = is_server = False
    listening: set[str] = set()
    peers: set[str] = set()
    names: set[int] = set()  # numbers of the program's connections
    waiting: set[int] = set()  # connections without a row so far
    for i, m in enumerate(matches):
        now = m.lastgroup or "error"
        if now == "row":
            rows_seen, finished = rows_seen or bool(kind), i in results
            waiting.clear()
            continue
        at, complete = line_start(text, m.start()), True
        if now in ("client", "server"):
            # One program prints two banners with -d, and an early connection may precede its banner.
            back = m["target"] in peers and (waiting or _goes_on(matches[i + 1 :], names))
            if is_server and now == "client" and back:
                new, complete, now = finished and not waiting, False, "local"
            else:
                new = not kind or rows_seen or kind == "client" or (kind == now == "server")
                serving = now == "server"
            at = or_above(text, at, _RULE)
        elif now == "local":
            new, complete = not kind or finished, not kind
        elif m.start() - at > _BEFORE_AN_ERROR:
            continue
        else:
            above = matches[i - 1].end()
            another = "connect failed" not in m[0] or (
                finished and _COMMAND.search(text, above, m.start())
            )
            new = not kind or bool(rows_seen and another)
            if not new:
                continue
        if new:
            rows_seen = finished = False
            if complete:
                listening, peers, names, is_server = set(), set(), set(), False
            waiting = set()
            yield at, complete
        if m["port"]:
            listening.add(m["port"])
        elif m["here"]:
            peers.add(m["peer"])
            names.add(stream_number(m["name"]))
            waiting.add(stream_number(m["name"]))
            is_server |= serving and m["here"] in listening
            if not new:
                continue
        kind = now


def _results(matches: list[re.Match[str]]) -> set[int]:
    """Return the rows over a whole test that has ended: no row of the same stream continues from there."""
    last: dict[str, int] = {}  # stream -> index of its last row
    results: set[int] = set()
    for i, m in enumerate(matches):
        if not m["to"]:
            continue
        index = last.get(m["id"])
        if index is not None and abs(float(m["from"]) - float(matches[index]["to"])) < 0.011:
            results.discard(index)
        if float(m["from"]) == 0 and (index is not None or float(m["to"]) != 1 or "SUM" in m["id"]):
            results.add(i)
        last[m["id"]] = i
    return results


def _goes_on(matches: list[re.Match[str]], names: set[int]) -> bool:
    """Return whether the connection under a client banner is the server's: its number follows the earlier ones."""
    following = next((m for m in matches if m.lastgroup), None)
    return following is not None and (
        following["here"] is None or all(stream_number(following["name"]) > n for n in names)
    )
