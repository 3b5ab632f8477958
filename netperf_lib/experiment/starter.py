"""A commented experiment file to start from."""

from __future__ import annotations

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
""",
    "azure": """\
hosts:
  source: azure # `npl doctor --azure FILE` checks login, sizes, quota and cost and creates nothing
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

_CREATED_PAIRS = """\
  - {client: client, server: zone, placement: same-zone, accelerated: true}
  - {client: client, server: xzone, placement: cross-zone, accelerated: true}
"""
_OWN_PAIRS = """\
  - {client: client, server: near, placement: same-zone}
  - {client: client, server: far, placement: cross-zone}
"""

QUESTIONS = {
    "placement": (
        "Does the placement make a difference?",
        """\
  - {tool: qperf, test: tcp_lat, duration_s: 5} # half a round trip
  - {tool: iperf3, test: tcp, duration_s: 10, omit_s: 1}
""",
        "{factor: placement, baseline: same-zone, metrics: [latency_oneway_us, throughput_bps], margin: 10 %}",
    ),
    "streams": (
        "Do parallel streams give more throughput?",
        """\
  - {tool: iperf3, test: tcp, duration_s: 10, omit_s: 1, streams: [1, 4, 16], placements: [cross-zone]}
""",
        "{factor: streams, baseline: 1, metrics: [throughput_bps], margin: 10 %}",
    ),
}
"""The questions: a title, the tests in YAML, and the family of contrasts."""


def starter(name: str, hosts: str = "lab", question: str = "placement", rounds: int = 10) -> str:
    """Return a commented experiment file, which `load_experiment` accepts as it is."""
    title, tests, family = QUESTIONS[question]
    pairs = _OWN_PAIRS if hosts == "inventory" else _CREATED_PAIRS
    return f"""\
# `npl plan FILE` shows time and cost, `npl run FILE` measures and reports.
name: {name}
title: {title}
{HOST_SOURCES[hosts]}
# Ordered pairs of hosts and the placement that each represents; any name is a placement.
pairs:
{pairs}
# Every pair runs every test, once in each round, in random order.
tests:
{tests}
rounds: {rounds}

# The comparisons, declared before the data: the first run freezes them. Differences within the margin are equivalent.
compare: {family}
"""
