"""Designs that are not complete: each is answered, or refused with an error of ours."""

from contextlib import suppress

import matplotlib.pyplot as plt
import numpy as np
import pytest

import netperf_lib as npl
from netperf_lib.analysis.contents import pages
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.observe import observe
from netperf_lib.errors import NetperfError
from netperf_lib.reporting.answer import describe
from netperf_lib.reporting.blocks import verdicts

from .planted import design

METRICS = ["throughput_bps", "latency_oneway_us"]
PLOTS = ("rounds", "levels", "over_time")


def asked(seed):
    """Ask what a person, a report and a plot ask of the runs of a design, one after the other."""
    rng = np.random.default_rng(seed)
    runs, names = design(rng, gaps=0.6)
    latency = rng.random(len(runs)) < 0.3
    runs.loc[latency, ["tool", "test", METRICS[0]]] = ["qperf", "tcp_lat", np.nan]
    runs[METRICS[1]] = np.where(latency, rng.lognormal(4, 1, len(runs)), np.nan)
    if seed % 2:  # one side has no run that is complete
        failed = (runs[names[0]] == runs[names[0]][0]).to_numpy(bool, na_value=False)
        runs.loc[failed, ["status", *METRICS]] = ["failed", np.nan, np.nan]
    if seed % 4 == 2:
        runs = runs.drop(columns="round")
    yield lambda: verdicts(*page_one(runs))
    yield lambda: repr(npl.compare(runs))
    yield lambda: pages(runs)
    yield lambda: npl.limits(runs)
    yield lambda: npl.ask(runs, names[0]).parts()
    for metric in METRICS:
        yield lambda m=metric: describe(observe(runs, m))
        yield lambda m=metric: getattr(npl.plots, PLOTS[seed % 3])(runs, m)
        for name in names:
            options = {"metric": metric, "by": name}
            yield lambda o=options: repr(npl.levels(runs, **o))
            yield lambda o=options: repr(npl.compare(runs, **o))
            yield lambda o=options: observe(runs, **o).wide


def page_one(runs):
    lead = lead_paragraph(runs)
    return lead.family, lead.contrasts


OTHERS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3)]


@pytest.mark.parametrize("seed", [1, *OTHERS])
def test_a_design_with_gaps_ends_in_no_error_from_inside(seed):
    for question in asked(seed):
        with suppress(NetperfError):
            question()
    plt.close("all")
