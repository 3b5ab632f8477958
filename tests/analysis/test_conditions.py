"""Which runs make one condition of a report."""

import shutil

import netperf_lib as npl
from netperf_lib.analysis.observe import describe
from netperf_lib.data.raw import exclude
from netperf_lib.experiment.origin import Measured
from netperf_lib.plots.figure import each


def test_tcp_and_udp_are_never_one_condition(tmp_path):
    runs = npl.load(shutil.copytree(npl.recorded(), tmp_path / "lab-full"))
    tool = {"tool": "sockperf"}
    alone = (
        npl.observe(runs, "latency_oneway_us", where=tool).runs["condition"].astype(str)
    )
    assert not alone.str.contains("TCP|UDP").any()  # what does not vary is not said
    runs.loc[(runs["tool"] == "sockperf") & (runs["round"] % 2 == 0), "protocol"] = "udp"
    mixed = npl.observe(runs, "latency_oneway_us", where=tool).runs
    assert mixed.groupby("condition", observed=True)["protocol"].nunique().max() == 1
    assert mixed["condition"].nunique() == 2 * alone.nunique()


def test_one_run_of_each_condition_is_not_called_runs():
    runs = npl.load(npl.recorded())
    obs = npl.observe(
        runs[runs["round"] == 1], "latency_oneway_us", where={"tool": "qperf"}
    )
    assert "5 conditions, 1 round, 1 deployment and 5 complete runs" in describe(obs)


def test_an_ordinary_level_and_one_that_is_not_known_are_two_conditions():
    runs = npl.load(npl.recorded())
    runs.loc[(runs["placement"] == "ppg") & (runs["round"] % 2 == 0), "accelerated"] = (
        None
    )
    chosen = npl.observe(runs, "latency_oneway_us", where={"tool": "qperf"}).runs
    assert (
        chosen.groupby("condition", observed=True)["accelerated"]
        .nunique(dropna=False)
        .max()
        == 1
    )


def test_a_run_that_is_excluded_is_in_no_level(tmp_path):
    place = shutil.copytree(npl.recorded(), tmp_path / "lab-full")
    counts = []
    for _ in range(2):
        results = npl.read(place)
        counts.append(npl.levels(results, "latency_oneway_us")["n"].sum())
        exclude(
            results.folder,
            results.runs.loc[results.runs["tool"] == "qperf", "run_id"].iloc[0],
            "a cable was pulled",
        )
    assert counts[1] == counts[0] - 1


def test_the_caption_of_ratios_says_what_was_counted_and_each_comparison_its_method():
    exp = npl.read(npl.recorded())
    methods = set()
    for deployments, unit in ((1, "12 rounds"), (4, "4 deployments")):
        runs = exp.runs.assign(deployment=1 + exp.runs["round"] % deployments)
        family = npl.compare(Measured(runs, exp.origin))
        assert f"n = {unit} per comparison" in repr(npl.plots.forest(family))
        methods |= {c.method for c in family}
    assert len(methods) == 2


def test_each_of_no_counts():
    assert each([]) == "no runs"
    assert each([], "deployment") == "no deployments"
