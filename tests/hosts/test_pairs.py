"""Pairs fit the hosts that the experiment declares, or the plan is refused, with the line."""

import pytest

import netperf_lib as npl
from netperf_lib.errors import ExperimentError

LAB = (
    "source: lab, options: {hosts: [{name: a, ppg: one}, {name: b, ppg: one}, {name: far, "
    "region: r2}]}"
)
INVENTORY = "source: inventory, options: {hosts: {a: {address: 10.0.0.1}, b: {address: 10.0.0.2}}}"


def plan(folder, hosts, server, placement):
    file = folder / "e.yaml"
    file.write_text(
        f"name: e\nrounds: 1\nhosts: {{{hosts}}}\npairs: [{{client: a, server: {server}, "
        f"placement: {placement}}}]\n"
        "tests: [{tool: qperf, test: tcp_lat, duration_s: 1}]\n"
    )
    return npl.plan(file)


@pytest.mark.parametrize(
    ("hosts", "server", "placement"),
    [
        (LAB, "b", "ppg"),
        (LAB, "far", "cross-region"),
        (LAB, "far", "vpn"),
        (INVENTORY, "b", "cross-zone"),
    ],
)
def test_pairs_that_fit(tmp_path, hosts, server, placement):
    assert plan(tmp_path, hosts, server, placement)


@pytest.mark.parametrize(
    ("hosts", "server", "placement", "said"),
    [
        (
            LAB,
            "far",
            "ppg",
            "the pair a and far is declared 'ppg', but its hosts are 'cross-region'",
        ),
        (
            LAB,
            "b",
            "same-zone",
            "the pair a and b is declared 'same-zone', but its hosts are 'ppg'",
        ),
        (
            LAB,
            "gone",
            "ppg",
            "a pair names host 'gone', which is not in the lab (known: a, b, far)",
        ),
        (
            INVENTORY,
            "gone",
            "ppg",
            "a pair names host 'gone', which is not in the inventory (known: a, b)",
        ),
        (
            LAB.replace("hosts:", "hots:"),
            "b",
            "ppg",
            "unknown key; did you mean hosts?",
        ),
    ],
)
def test_pairs_that_do_not(tmp_path, hosts, server, placement, said):
    with pytest.raises(ExperimentError, match=r"e\.yaml:3: hosts\.options") as error:
        plan(tmp_path, hosts, server, placement)
    assert said in str(error.value)
