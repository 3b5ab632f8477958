"""Odd, huge, broken and hostile yaml: one sentence each, within two seconds, and never a
traceback."""

import copy
import os
import random
import time
from contextlib import suppress

import pytest
import yaml

import netperf_lib as npl
from netperf_lib.errors import ExperimentError, UsageError
from netperf_lib.experiment.schedule import schedule
from netperf_lib.experiment.yaml import load_experiment, read_experiment
from netperf_lib.tools import tool

from ..conftest import REPO
from .declared import LATENCY, PING, TCP
from .test_schedule import SMALL

BASE = """\
name: x
hosts: {source: inventory}
pairs: [{client: a, server: b, placement: ppg}]
tests: [{tool: qperf, test: tcp_lat}]
"""
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGE = "m0: &m0 {k: 1}\n" + "".join(
    f"m{i}: &m{i} {{<<: [{', '.join([f'*m{i - 1}'] * 9)}]}}\n" for i in range(1, 12)
)


def refused(text):
    begun = time.process_time()
    with pytest.raises(ExperimentError) as error:
        schedule(read_experiment(text, file="x.yaml"), seed=1)
    assert time.process_time() - begun < 2
    said = str(error.value)
    assert len(said) < 10_000
    assert said.startswith("x.yaml")
    return said


@pytest.mark.parametrize(
    ("text", "datum"),
    [
        (BASE + "title: " + "[" * 500 + "]" * 500, "20 deep"),
        (BASE + "title: " + "[" * 50_000 + "]" * 50_000, "20 deep"),
        (BASE + BOMB, "anchor"),
        (BASE + MERGE, "anchor"),
        (BASE + "title: &a [*a]\n", "anchor"),
        (BASE + "".join(f"key{i}: 1\n" for i in range(100_000)), "256 KiB"),
        (BASE + "".join(f"k{i}: 1\n" for i in range(2_000)), "unknown key"),
        (BASE + "rounds: " + "9" * 5000, "5,000 digits"),
        (BASE + "seed: 0x" + "f" * 5000, "digits"),
        (BASE + "rounds: 1000000000\n", "10000"),
        (BASE + "rounds: 10000\ndeployments: 100\n", "1,000,000 trials"),
        (BASE + "rounds: !!bool 7\n", "bool"),
        (BASE + "title: !!python/object/apply:os.system [ls]\n", "python"),
        (BASE + "title: !!timestamp x\n", "timestamp"),
        (BASE + "title: !custom x\n", "custom"),
        (BASE + 'title: "\\ud800"\n', "characters"),
        (BASE + 'title: "\\0"\n', "characters"),
        (BASE + 'title: "\\u202e"\n', "x.yaml:5: "),
        (BASE + "? [a, b]\n: 1\n", "key"),
        (BASE + "duration: 2026-13-45\n", ""),
        (BASE.replace("test: tcp_lat", "test: tcp_lat, streams: []"), "at least 1 item"),
        (BASE.replace("test: tcp_lat", "test: tcp_lat, duration_s: .nan"), "duration_s"),
        (BASE + "budget: .inf\n", "budget"),
        (
            BASE.replace(
                "placement: ppg", "placement: ppg, tcp_buffer_bytes: 10000000000000000000"
            ),
            "tcp_buffer_bytes",
        ),
        (BASE.replace("placement: ppg", "placement: ppg, labels: {tool: x}"), "labels"),
        ("", "mapping"),
        ("--- a\n--- b\n", ""),
        ("%YAML 9.9\n---\n", ""),
        ("\t", ""),
    ],
)
def test_odd_yaml_is_refused_in_a_sentence(text, datum):
    assert datum in refused(text)


def test_what_is_no_file_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "pipe", tmp_path / "none", tmp_path / ("x" * 300)):
        with pytest.raises(ExperimentError):
            load_experiment(place)


FILES = sorted((REPO / "data" / "experiments").glob("*.yaml"))
ODD = "{}[]&*!|>'\"%@`-?:#,~=<\\\t\n 0179abxe._+\xe9\U0001f600\u2028\x7f\ufeff"


def test_generated_yaml_never_ends_in_a_traceback():
    rng = random.Random(7)
    sources = [BASE, *(p.read_text("utf-8") for p in FILES)]
    slowest = 0.0
    for _ in range(120):
        text = rng.choice(sources)
        for _ in range(rng.randint(1, 3)):
            begin = rng.randrange(len(text))
            end = begin + rng.choice([0, 1, 5, 40])
            odd = "".join(rng.choices(ODD, k=rng.randint(1, 6)))
            text = text[:begin] + odd + text[end:]
        begun = time.process_time()
        with suppress(ExperimentError):
            schedule(read_experiment(text), seed=1)
        slowest = max(slowest, time.process_time() - begun)
    assert slowest < 2


VALUES = [
    None,
    True,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    2**64,
    10**40,
    "",
    "-1",
    "nan",
    "../..",
    "a" * 5000,
    "\0",
    "\u202e",
    "😀",
    "$(touch X)",
    "{{7*7}}",
    "=1+1",
    "-oProxyCommand=x",
    "a\nb",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"x": {"y": [1]}},
    ["a"] * 300,
    "1e3",
    "0x10",
    "12:30:45",
    "2024-01-01",
]


def places(value):
    """Every container of a document with each of its keys."""
    keys = value if isinstance(value, dict) else ()
    if isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield value, key
        yield from places(value[key])


HOSTILE = "x; rm -rf / $(touch pwned) `touch pwned` | & > /tmp/pwned '\""
FULL = SMALL | {
    "title": "t",
    "tests": [
        TCP
        | {
            "options": {"congestion": "cubic", "bitrate": "1G"},
            "placements": ["ppg"],
        },
        {"tool": "iperf2", "test": "tcp"},
        PING
        | {
            "options": {"protocol": "tcp"},
            "during": {"tool": "iperf3"},
        },
        LATENCY,
    ],
    "contrasts": [
        {
            "question": "q",
            "metric": "latency_oneway_us",
            "a": {"placement": "ppg"},
            "b": {"placement": "same-zone"},
        }
    ],
}
TEXTS = [
    n for n, (holder, key) in enumerate(places(FULL)) if isinstance(holder[key], str)
]
"""Numbers of the places at which a text stands."""


@pytest.mark.parametrize("number", TEXTS)
def test_shell_syntax_in_any_text_is_refused_or_stays_one_literal_argument(number):
    document = copy.deepcopy(FULL)
    holder, key = [*places(document)][number]
    holder[key] = HOSTILE
    try:
        plan = schedule(read_experiment(yaml.safe_dump(document)), seed=1)
    except ExperimentError:
        return
    for trial in plan.trials:
        commands = tool(trial.test.tool).commands(trial.request, "192.0.2.1", 20_000)
        for word in (*commands.client, *(commands.server or ())):
            assert word == HOSTILE or "pwned" not in word


def changed(document, rng):
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        holder, key = rng.choice(list(places(document)))
        other, where = rng.choice(list(places(document)))
        odd = rng.choice(VALUES)
        moved = [odd, odd, {"a": holder[key]}, other[where]]
        holder[key] = copy.deepcopy(rng.choice(moved))
    return document


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))]
)
def test_a_plan_of_any_document_names_the_file_and_never_ends_in_a_traceback(
    tmp_path, seed
):
    """Documents whose structure is wrong get as far as their hosts, and are refused in words."""
    rng = random.Random(seed)
    sources = [yaml.safe_load(p.read_text("utf-8")) for p in FILES]
    file = tmp_path / "x.yaml"
    refusals = []
    for _ in range(40):
        document = changed(copy.deepcopy(rng.choice(sources)), rng)
        file.write_text(yaml.safe_dump(document, allow_unicode=True), "utf-8")
        try:
            npl.plan(file)
        except UsageError as error:
            refusals.append(str(error))
    assert len(refusals) > 20
    assert [text for text in refusals if str(file) not in text] == []
    assert [text for text in refusals if len(text) >= 10_000] == []


def test_a_size_that_is_a_mapping_is_refused_with_its_line(tmp_path):
    file = tmp_path / "x.yaml"
    text = (REPO / "data" / "experiments" / "azure-placement.yaml").read_text("utf-8")
    document = yaml.safe_load(text)
    document["hosts"]["options"]["vms"] = {
        document["pairs"][0]["client"]: {"vm_size": {"a": "Standard_D4s_v5"}}
    }
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ExperimentError, match=rf"{file}.*vm_size"):
        npl.plan(file)
