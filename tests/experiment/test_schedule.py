"""The schedule: complete, random within rounds, and a function of the declaration and the seed
alone."""

from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netperf_lib.errors import ExperimentError
from netperf_lib.experiment.model import Experiment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment, read_experiment

from .declared import LATENCY, PING, TCP

SMALL = {
    "name": "small",
    "hosts": {"source": "inventory"},
    "pairs": [
        {"client": "a", "server": "b", "placement": "ppg"},
        {
            "client": "a",
            "server": "c",
            "placement": "same-zone",
            "tcp_buffer_bytes": 1 << 26,
        },
    ],
    "tests": [
        LATENCY | {"message_bytes": [1, 64]},
        TCP
        | {
            "streams": [1, 4, 16],
            "tcp_buffer_bytes": [None, 1 << 20],
        },
        PING | {"placements": ["ppg"]},
    ],
    "rounds": 4,
}


def experiment(**changed):
    return Experiment.model_validate(SMALL | changed)


def test_every_round_measures_every_condition_once():
    plan = schedule(experiment(deployments=2), seed=1)
    per_round = Counter((t.deployment, t.round, t.condition) for t in plan.trials)
    assert set(per_round.values()) == {1}
    assert plan.conditions == 2 * 2 + 2 * 3 * 2 + 1
    assert len(plan.trials) == plan.conditions * 4 * 2
    assert [t.order for t in plan.trials] == list(range(len(plan.trials)))
    assert [(t.deployment, t.round) for t in plan.trials] == sorted(
        (t.deployment, t.round) for t in plan.trials
    )
    assert len({t.run_id for t in plan.trials}) == len(plan.trials)


def test_the_seed_gives_the_order_and_nothing_else_does():
    a, b = schedule(experiment(), seed=7), schedule(experiment(), seed=7)
    assert a == b
    assert schedule(experiment(), seed=8).trials != a.trials
    # more rounds leave those before as they were; so does another order of declaring
    longer = schedule(experiment(rounds=9), seed=7)
    assert [t.run_id for t in longer.trials[: len(a.trials)]] == [
        t.run_id for t in a.trials
    ]
    turned = schedule(
        experiment(tests=SMALL["tests"][::-1], pairs=SMALL["pairs"][::-1]), seed=7
    )
    assert [t.condition for t in turned.trials] == [t.condition for t in a.trials]


def test_a_seed_is_drawn_once_and_kept():
    assert schedule(experiment(seed=5)).seed == 5
    assert schedule(experiment(seed=5), seed=6).seed == 6
    drawn = schedule(experiment())
    assert schedule(experiment(), seed=drawn.seed) == drawn


def conditions(count, rounds, seed):
    """Return the trials of so many conditions, which differ in their number of streams."""
    streams = list(range(1, count + 1))
    test = TCP | {"streams": streams, "placements": ["ppg"]}
    return schedule(experiment(tests=[test], rounds=rounds), seed=seed).trials


def test_every_order_is_as_likely_as_any_other():
    flat = [t.streams for t in conditions(3, rounds=3000, seed=3)]
    orders = Counter(tuple(flat[i : i + 3]) for i in range(0, len(flat), 3))
    assert len(orders) == 6
    # chi-square with 5 degrees of freedom: above 20.5 once in a thousand
    assert sum((n - 500) ** 2 / 500 for n in orders.values()) < 20.5


def test_factors_that_do_not_apply_are_not_crossed():
    given = experiment(
        tests=[
            LATENCY
            | {
                "streams": [1, 8],
                "tcp_buffer_bytes": [1 << 20],
            }
        ]
    )
    plan = schedule(given, seed=1)
    assert plan.conditions == 2
    assert {t.streams for t in plan.trials} == {1}


def test_a_buffer_of_the_hosts_stands_unless_the_test_says_otherwise():
    found = {}
    for t in schedule(experiment(), seed=1).trials:
        found.setdefault((t.pair.server, t.test.tool), set()).add(t.tcp_buffer_bytes)
    assert found["c", "qperf"] == {1 << 26}
    assert found["c", "iperf3"] == {1 << 26, 1 << 20}
    assert found["b", "qperf"] == {None}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**63 - 1), st.integers(3, 9))
def test_every_condition_follows_each_one_about_equally_often(seed, k):
    flat = [t.streams for t in conditions(k, rounds=12 * k, seed=seed)]
    orders = [flat[i : i + k] for i in range(0, len(flat), k)]
    assert all(one[-1] == other[0] for one, other in pairwise(orders))
    follows = Counter(pairwise(flat))  # across rounds: itself included
    assert set(follows) == set(product(range(1, k + 1), repeat=2))
    assert max(abs(n - 12) for n in follows.values()) <= 7


def two_conditions(seed, rounds=12):
    """Return the order of two conditions, a letter for each run."""
    trials = conditions(2, rounds, seed)
    return "".join(("ab" if t.leading else "AB")[t.streams - 1] for t in trials)


def test_chance_decides_the_order_of_two_conditions_in_balanced_blocks():
    assert len({two_conditions(seed) for seed in range(60)}) > 30
    order = "".join(filter(str.isupper, two_conditions(seed=3, rounds=400)))
    blocks = Counter(order[i : i + 4] for i in range(0, len(order), 4))
    assert set(blocks) == {"ABBA", "BAAB"}
    assert abs(blocks["ABBA"] - 100) < 40


def test_each_of_two_conditions_follows_both_as_often():
    order = two_conditions(seed=3, rounds=400)
    follows = Counter(
        (before.upper(), after) for before, after in pairwise(order) if after.isupper()
    )
    assert set(follows.values()) == {200}
    # a run leads where the coin breaks the chain alone
    assert 60 < len(list(filter(str.islower, order))) < 140


def test_more_rounds_keep_the_order_of_two_conditions():
    assert two_conditions(seed=5, rounds=20).startswith(two_conditions(seed=5, rounds=13))


# -- reading ---------------------------------------------------------------------------------------

GOOD = """\
name: small
hosts:
  source: inventory
pairs:
  - {client: a, server: b, placement: ppg}
  - client: a
    server: c
    placement: same-zone
tests:
  - {tool: qperf, test: tcp_lat}
  - tool: iperf3
    test: tcp
    streams: [1, 4]
contrasts:
  - metric: latency_oneway_us
    a: {placement: ppg}
    b: {placement: same-zone}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("tool: iperf3", "tool: iperf4", 11, "'iperf2', 'iperf3'"),
        ("test: tcp\n", "test: tcpp\n", 11, "legal are tcp, udp"),
        ("streams: [1, 4]", "streams: [0]", 13, "greater than or equal to 1"),
        ("streams: [1, 4]", "streams: 4", 13, "valid tuple"),
        ("streams: [1, 4]", "steams: [1, 4]", 13, "did you mean streams"),
        ("tcp_lat}", "tcp_bw, streams: [8]}", 10, "qperf has no parallel streams"),
        ("tcp_lat}", "tcp_lat, tcp_buffer_bytes: [8M]}", 10, "sets no TCP buffers"),
        ("streams: [1, 4]", "streams: [1, 1]", 11, "declared twice"),
        ("client: a\n", "client: 'a; rm -rf /'\n", 6, "match pattern"),
        ("client: a\n", "client: c\n", 7, "also the client"),
        ("source: inventory", "source: vsphere", 3, "'lab', 'inventory'"),
        (
            "metric: latency_oneway_us",
            "metric: latency_one_way",
            15,
            "did you mean latency_oneway",
        ),
        ("name: small", "name: 2024-01-01", 1, "valid string"),
        ("name: small\n", "", 1, "name: Field required"),
        (
            "    placement: same-zone",
            "    placement: same-zone\n    placement: ppg",
            9,
            "occurs twice",
        ),
        ("tests:\n", "tests:\n  - {tool: [}\n", 10, "not yaml"),
        (
            "test: tcp\n",
            "test: tcp\n    placements: [zone]\n",
            13,
            "legal are ppg, same-zone",
        ),
        ("test: tcp\n", "test: tcp\n    options: {reverze: true}\n", 11, "reverse"),
        (
            "test: tcp\n",
            "test: tcp\n    during: {tool: iperf3, test: lat}\n",
            11,
            "not a test of iperf3",
        ),
    ],
)
def test_every_error_has_its_line_and_what_is_legal(old, new, line, said):
    assert old in GOOD
    with pytest.raises(ExperimentError, match=said) as error:
        read_experiment(GOOD.replace(old, new, 1), file="x.yaml")
    assert str(error.value).startswith(f"x.yaml:{line}: ")


def test_an_address_that_a_tool_cannot_use_is_refused_when_planned():
    hosts = "  source: inventory\n  options: {hosts: {a: {}, b: {address: 'fd00::5'}, c: {}}}\n"
    text = GOOD.replace("  source: inventory\n", hosts)
    assert read_experiment(text).pairs[0].server == "b"  # qperf and iperf3 can
    text = text.replace("tool: qperf, test: tcp_lat", "tool: sockperf, test: ping-pong")
    text = text.replace("latency_oneway_us", "throughput_bps")
    with pytest.raises(
        ExperimentError, match=r"11: .*sockperf cannot use an IPv6 address \(fd00::5\)"
    ):
        read_experiment(text, file="x.yaml")


def test_all_errors_are_told_at_once():
    text = GOOD.replace("tool: iperf3", "tool: x").replace("client: a, ", "")
    with pytest.raises(ExperimentError) as error:
        read_experiment(text, file="x.yaml")
    assert [line.split(":")[1] for line in str(error.value).splitlines()] == ["5", "11"]


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ExperimentError, match=r"npl init .* writes one"):
        load_experiment(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"title: caf\xe9")
    with pytest.raises(ExperimentError, match="UTF-8"):
        load_experiment(tmp_path / "latin.yaml")


def test_rounds_and_durations_can_be_given_instead(tmp_path):
    place = tmp_path / "x.yaml"
    place.write_text(GOOD + "rounds: 4\n")
    assert load_experiment(place, rounds="+6").rounds == 10
    assert load_experiment(place, rounds=3).rounds == 3
    assert {t.duration_s for t in load_experiment(place, duration_s=2).tests} == {2}
    with pytest.raises(ExperimentError, match="whole seconds"):
        load_experiment(place, duration_s=0.5)
    for wrong in ("-1", "6+", "x", "0", "+99999", "1e3"):
        with pytest.raises(ExperimentError, match="rounds"):
            load_experiment(place, rounds=wrong)


@pytest.mark.parametrize(
    "value", ["[]", "[bbr, bbr]", "[[bbr]]", "{a: 1}", "[bbr, 'a b']"]
)
def test_values_of_an_option_that_are_no_conditions_are_refused(value):
    text = f"""
name: algorithms
hosts: {{source: lab}}
pairs: [{{client: client, server: zone, placement: same-zone}}]
tests:
  - {{tool: iperf3, test: tcp, options: {{congestion: {value}}}}}
"""
    with pytest.raises(ExperimentError, match=r"experiment:\d+: tests\[1\]"):
        read_experiment(text)
