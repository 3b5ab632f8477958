"""A commented experiment file to start from."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import UsageError

HOST_SOURCES = {
    "lab": """\
hosts:
  source: lab # emulated hosts on this machine: no preparation, but no result about a real network
""",
    "inventory": """\
hosts:
  source: inventory # machines that you reach with ssh; user, port, key and jump host come from your configuration
  options:
    hosts: # address: where ssh connects; data_address: where the tests send traffic
      client: {address: client.example.net, data_address: 10.0.0.4}
      near: {address: near.example.net, data_address: 10.0.0.5}
      far: {address: far.example.net, data_address: 10.0.0.6}
""",  # noqa: E501  (as it is run or printed)
    "azure": """\
hosts:
  source: azure # `npl doctor --azure FILE` checks login, zones and cost and creates nothing
  options:
    region: westeurope
    remote_region: northeurope
    zones: ["1", "2"]
    vm_size: Standard_D8s_v5
    image: Canonical:ubuntu-24_04-lts:server:latest
    expires_h: 6 # a tag; `npl down --all --expired` finds what was forgotten
""",
}
"""Where the hosts come from, in YAML."""

_ZONES = """\
  - {client: client, server: zone, placement: same-zone, accelerated: true}
  - {client: client, server: xzone, placement: cross-zone, accelerated: true}
"""
_OWN_ZONES = """\
  - {client: client, server: near, placement: same-zone}
  - {client: client, server: far, placement: cross-zone}
"""
_CARDS = """\
  - {client: client, server: zone, placement: same-zone, accelerated: true}
  - {client: client, server: plain, placement: same-zone, accelerated: false}
"""
_OWN_CARDS = """\
  - {client: client, server: near, placement: same-zone, accelerated: true}
  - {client: client, server: far, placement: same-zone, accelerated: false}
"""
_REGIONS = """\
  - {client: client, server: region, placement: cross-region, accelerated: true}
"""
_BOTH = """\
  - {tool: qperf, test: tcp_lat, duration_s: 5} # half a round trip
  - {tool: iperf3, test: tcp, duration_s: 10, omit_s: 1}
"""


@dataclass(frozen=True)
class Question:
    """What a starter asks, in YAML."""

    title: str
    pairs: str
    own_pairs: str
    """Those of an inventory."""
    tests: str
    family: str


QUESTIONS = {
    "placement": Question(
        "Does the placement make a difference?",
        _ZONES,
        _OWN_ZONES,
        _BOTH,
        "{factor: placement, baseline: same-zone, "
        "metrics: [latency_oneway_us, throughput_bps], margin: 10 %}",
    ),
    "accelerated": Question(
        "Does accelerated networking make a difference?",
        _CARDS,
        _OWN_CARDS,
        _BOTH,
        "{factor: accelerated, baseline: false, "
        "metrics: [latency_oneway_us, throughput_bps], margin: 10 %}",
    ),
    "streams": Question(
        "Do parallel streams give more throughput?",
        _ZONES,
        _OWN_ZONES,
        """\
  - {tool: iperf3, test: tcp, duration_s: 10, omit_s: 1, streams: [1, 4, 16], placements: [cross-zone]}
""",  # noqa: E501  (as it is run or printed)
        "{factor: streams, baseline: 1, metrics: [throughput_bps], margin: 10 %}",
    ),
    "buffers": Question(
        "Do larger TCP buffers give more throughput?",
        _REGIONS,
        "",
        """\
  - {tool: iperf3, test: tcp, duration_s: 10, omit_s: 1, tcp_buffer_bytes: [1 MiB, 16 MiB]}
""",
        "{factor: tcp_buffer_bytes, baseline: 1 MiB, metrics: [throughput_bps], margin: 10 %}",
    ),
}


def starter(
    name: str, hosts: str = "lab", question: str = "placement", rounds: int = 10
) -> str:
    """Return a commented experiment file, which `load_experiment` accepts as it is.

    UsageError for a question that the hosts cannot answer.
    """
    asked = QUESTIONS[question]
    if hosts == "inventory" and question == "buffers":
        raise UsageError(
            "the settings of hosts of an inventory are not changed: ask about buffers with "
            "hosts that are created (lab, azure)"
        )
    pairs = asked.own_pairs if hosts == "inventory" else asked.pairs
    return f"""\
# `npl plan FILE` shows time and cost, `npl run FILE` measures and reports.
name: {name}
title: {asked.title}
{HOST_SOURCES[hosts]}
# Ordered pairs of hosts and the placement that each represents; any name is a placement.
pairs:
{pairs}
# Every pair runs every test, once in each round, in random order.
tests:
{asked.tests}
rounds: {rounds}

# The comparisons, declared before the data: the first run freezes them. Differences within the margin are equivalent.
compare: {asked.family}
"""  # noqa: E501  (as it is run or printed)
