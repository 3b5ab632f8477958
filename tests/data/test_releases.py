"""Experiments that older releases collected: read, reported, extended and verified without loss.

Each archive is one experiment of 12 runs that a release measured on its local lab.
"""

import shutil
from pathlib import Path

import pytest

import netperf_lib as npl
from netperf_lib import pipeline
from netperf_lib.data.layout import Store
from netperf_lib.experiment.yaml import load_experiment

ARCHIVES = sorted((Path(__file__).parent / "releases").glob("*.tar.gz"))


@pytest.fixture(params=ARCHIVES, ids=lambda p: p.name.removesuffix(".tar.gz"))
def store(request, tmp_path):
    shutil.unpack_archive(request.param, tmp_path)
    return Store(tmp_path, "older")


def rows(store):
    return {row["run_id"]: row for row in (store.read_plan() or {})["trials"]}


def extend(store, rounds):
    declared = load_experiment(store.path / "experiment.yaml", rounds=rounds)
    pipeline._schedule(store, declared, seed=None, looked=False)


JUDGED = {
    "0.1": (1.95, "904005f301e5c6f8"),
    "2026-11-23": (1.039, "91868ff607c2704a"),
}
"""Ratio of the one contrast, which six rounds do not decide, and the digest of the experiment."""


def test_it_is_read_and_judged_as_ever(store, request):
    ratio, digest = JUDGED[request.node.callspec.id]
    runs = npl.load(store.path)
    assert list(runs["status"]) == ["ok"] * 12
    assert (
        runs["latency_oneway_us"].notna().sum()
        == runs["throughput_bps"].notna().sum()
        == 6
    )
    [judged] = npl.compare(npl.read(store.path))
    assert judged.ratio == pytest.approx(ratio, rel=0.01)
    assert judged.verdict == "no verdict"
    assert npl.verify(store.path) == []
    assert store.root_digest().startswith(digest)


def test_rounds_come_and_go_and_what_was_measured_keeps_its_rows(store):
    measured = rows(store)
    extend(store, "+1")
    extended = rows(store)
    assert {run_id: extended[run_id] for run_id in measured} == measured
    assert sorted(r["order"] for r in extended.values()) == list(range(16))
    extend(store, 2)
    assert rows(store) == measured
    assert npl.verify(store.path) == []
