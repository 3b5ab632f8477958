"""What lessons, checks and the teacher's guide claim is computed from what they are about."""

import json
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

import netperf_lib as npl
from netperf_lib.reporting.workshop import SERVERS, exercises

REPO = Path(__file__).parents[2]
WORKSHOP = REPO / "notebooks" / "workshop"
LAB = "data/experiments/lab.yaml"


@cache
def recorded():
    return npl.read(npl.recorded())


@cache
def printed(path, metric, accelerated="on"):
    """Return a figure of the study in East Asia as it was printed."""
    figures = pd.read_csv(REPO / "data/published/figures.tsv", sep="\t")
    figures = figures.query("source == 'azure-eastasia-d8sv3' and path == @path")
    figures = figures[
        figures["condition"].isin(["128 MB buffers"]) | figures["condition"].isna()
    ]
    figures = figures.query("metric == @metric and accelerated == @accelerated")
    [value] = figures["value"]
    return float(value)


def allowed(path):
    """Return the bits a second that the window of a published path allows."""
    return printed(path, "cwnd") * 8e6 / (printed(path, "round-trip latency") / 1e3)


def median(metric, **levels):
    """Return the median of the complete runs with these levels, by nothing but pandas."""
    rows = recorded().runs.query("status == 'ok'")
    for name, level in levels.items():
        if name in rows:
            rows = rows[rows[name].isna() if level is None else rows[name] == level]
    return float(rows[metric].median())


def far(streams):
    levels = {"placement": "cross-region", "tcp_buffer_bytes": None, "during": None}
    return median("throughput_bps", streams=streams, **levels)


def one_way(placement):
    return median(
        "latency_oneway_us", tool="qperf", placement=placement, accelerated=True
    )


def minutes(session):
    tables = (WORKSHOP / "TEACHER.md").read_text("utf-8").split("| minutes |")
    return sum(map(int, re.findall(r"(?m)^\| (\d+) \|", tables[session])))


def measured_in_every_round():
    runs = recorded().runs.query(
        "tool == 'qperf' and placement == 'same-zone' and status == 'ok'"
    )
    both = runs.groupby("round")["accelerated"].nunique() == 2
    return len(both) == runs["round"].max() and bool(both.all())


def waits_under_load():
    rows = recorded().runs.query("tool == 'sockperf' and placement == 'cross-region'")
    p99 = rows.groupby(rows["during"].notna())["latency_oneway_p99_us"].median()
    return bool(p99[True] > 1.2 * p99[False])


def beside_zone():
    """Return whether `plain` is in the zone of `zone`, and without acceleration."""
    pairs = yaml.safe_load((REPO / LAB).read_text("utf-8"))["pairs"]
    near, plain = (
        next(p for p in pairs if p["server"] == name) for name in ("zone", "plain")
    )
    same = near["placement"] == plain["placement"]
    return same and near["accelerated"] and not plain["accelerated"]


def cwnd_paths():
    figures = pd.read_csv(REPO / "data/published/figures.tsv", sep="\t")
    figures = figures.query("source == 'azure-eastasia-d8sv3' and metric == 'cwnd'")
    return int(figures["path"].str.startswith("cross-region-").sum())


def studies_are_declared():
    """Return whether there are as many experiments as studies; one has two regions of OCI."""
    sources = pd.read_csv(REPO / "data/published/figures.tsv", sep="\t")["source"]
    studies = sources.str.replace("oci-.*", "oci", regex=True).nunique()
    return len(list((REPO / "data/experiments").glob("study-*.yaml"))) == studies


def lab_hosts():
    pairs = recorded().declaration.pairs
    return {host for pair in pairs for host in (pair.client, pair.server)}


def hint(name, answer):
    return str(npl.workshop.check(name, answer, recorded()).text)


def flight():
    return far(1) * 2 * one_way("cross-region") * 1e-6 / 8


CLAIMS = {
    ("README", "nine lessons"): lambda: len(list(WORKSHOP.glob("*.ipynb"))) == 9,
    ("README", "ninety minutes"): lambda: minutes(1) == 90,
    ("TEACHER", "Six lessons take 90 minutes"): lambda: minutes(1) == 90,
    ("TEACHER", "A second session, 50 minutes"): lambda: minutes(2) == 50,
    ("TEACHER", "the hint mentions both"): lambda: (
        "factor of eight" in hint("window.bytes", 8 * flight())
        and "factor of two" in hint("window.bytes", flight() / 2)
    ),
    ("TEACHER", "a qperf and an iperf3 server on every host"): lambda: (
        [server.split()[0] for server in SERVERS] == ["qperf", "iperf3"]
    ),
    ("4", "On a long path there are two remedies: more streams, or larger buffers"): lambda: (
        min(far(16), median("throughput_bps", tcp_buffer_bytes=67108864, streams=1)) > 1.5 * far(1)
    ),
    ("window.cause", "many streams have many windows, and carry more"): lambda: far(16) > far(1),
    ("6", "`client`, `ppg`, `zone`, `xzone`, `region` and `plain`"): lambda: (
        lab_hosts() == {"client", "ppg", "zone", "xzone", "region", "plain"}
    ),
    ("7", "Latency fell to less than a third"): lambda: (
        printed("direct", "one-way latency") < printed("direct", "one-way latency", "off") / 3
    ),
    ("7", "throughput hardly changed"): lambda: (
        printed("direct", "throughput at the receiver")
        < 1.05 * printed("direct", "throughput at the receiver", "off")
    ),
    ("7", "`plain` of the lab is in the same zone as `zone`, without"): beside_zone,
    ("7", "measured both in every round"): measured_in_every_round,
    ("accelerated.factor", "costs more time than the whole way"): lambda: (
        printed("direct", "one-way latency", "off") > 2 * printed("direct", "one-way latency")
    ),
    ("accelerated.room", "there was little to gain"): lambda: (
        printed("direct", "throughput at the receiver", "off") > 0.9 * 4
    ),
    ("tails.calls", "most pages meet at least one"): lambda: 1 - 0.99**100 > 0.5,
    ("tails.load", "this time is spent in a queue"): waits_under_load,
    ("9", "Four ways from East Asia to the United States"): lambda: cwnd_paths() == 4,
    ("9", "is twice what its window allows"): lambda: (
        1.9 < printed("cross-region-pip", "throughput at the receiver") * 1e9
        / allowed("cross-region-pip") < 2.1
    ),
    ("9", "has one for each published study"): studies_are_declared,
    ("paths.window", "the measured rate is close to it"): lambda: (
        0.9 < printed("cross-region-vpn", "throughput at the receiver") * 1e6
        / allowed("cross-region-vpn") < 1.1
    ),
    ("paths.step", "a placement can cost as much as a load balancer"): lambda: (
        one_way("same-zone") - one_way("ppg")
        > printed("standard-lb", "one-way latency") - printed("direct", "one-way latency")
    ),
}  # fmt: skip
"""What is claimed, where (a page, a lesson by its number, or a check), and whether it is so."""


def texts(place):
    if place in ("README", "TEACHER"):
        folder = REPO if place == "README" else WORKSHOP
        yield (folder / f"{place}.md").read_text("utf-8")
    elif place in exercises():
        yield exercises()[place].because
    else:
        [lesson] = WORKSHOP.glob(f"{place}-*.ipynb")
        yield from (
            "".join(c["source"]) for c in json.loads(lesson.read_text("utf-8"))["cells"]
        )


@pytest.mark.parametrize(("place", "claim"), CLAIMS)
def test_what_is_claimed_is_so(place, claim):
    assert claim in " ".join(" ".join(texts(place)).split())
    assert CLAIMS[place, claim]()


@pytest.mark.parametrize("answer", ["window", "send buffer", "the send buffer"])
def test_the_window_of_lesson_4_may_be_named(answer):
    assert npl.workshop.check("window.cause", answer, recorded()).title == "Correct"
