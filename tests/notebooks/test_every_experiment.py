"""Every page of every experiment that can be declared: no traceback, no empty figure. Cells run in
this process."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import netperf_lib as npl
from netperf_lib.analysis.runs import measurement
from netperf_lib.data.load import Results
from netperf_lib.data.tables import SCHEMAS
from netperf_lib.experiment.origin import Measured
from netperf_lib.metrics import METRICS
from netperf_lib.reporting import notebooks
from tests.reporting import made

from .cells import executed

NOT_HERE = ("summary", "explore")


def pages(runs, *only):
    """Run the code of a page of each notebook, or of `only` some pages, on runs in memory; return
    what it shows."""
    source = measurement(runs)
    # in one piece, as what is read
    exp = Results(given=Measured(source.runs.copy(), source.origin))
    vars(exp)["percentiles"] = pd.DataFrame(columns=SCHEMAS["percentiles"].names)
    found = {}
    planned = npl.analysis.pages(runs)
    assert len({p.key for p in planned}) == len(planned)
    first = {page.notebook: page.key for page in reversed(planned)}
    for page in planned:
        if page.notebook not in NOT_HERE and page.key in (only or first.values()):
            given = {"experiment": exp, **page.parameters}
            found[page.key] = shown(notebooks()[page.notebook], given)
    return found


def shown(book, parameters):
    """Execute a notebook; return what it shows, whose figures are complete."""
    _, outputs = executed(book, parameters)
    for chart in outputs:
        if isinstance(chart, npl.plots.Chart):
            assert all(axes.has_data() for axes in chart.drawn.axes), book.name
            assert chart.drawn.caption
            chart.drawn.svg()
    return outputs


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return npl.read(made.experiment(tmp_path_factory.mktemp("lab")))


def changed(runs, change, **declared):
    declaration = {**runs.origin.declared, "contrasts": [], **declared}
    changed_runs = change(measurement(runs).runs.copy())
    return Measured(changed_runs, replace(runs.origin, declared=declaration))


def round_trips(runs):
    kept = runs[runs["latency_oneway_us"].notna()].copy()
    kept["rtt_us"] = 2 * kept["latency_oneway_us"]
    kept[[c for c in kept if str(c).startswith("latency_oneway")]] = np.nan
    return kept


def imported(runs):
    """Logs of somebody else's: neither clock nor facts nor zones."""
    nothing = [
        c for c in runs if str(c).endswith(("_zone", "_region", "_vm_size", "_physical"))
    ]
    runs[[*nothing, "kernel", "nic_driver", "accelerated", "tool_version"]] = None
    runs["started_utc"] = pd.Series(pd.NaT, index=runs.index).dt.tz_localize("UTC")
    runs["rack"] = runs["placement"].map({"ppg": "a1"}).fillna("b2")
    return runs


def unlabelled(runs, share):
    """Logs of which nobody wrote down placement, round and hosts."""
    runs = imported(runs).drop(columns="rack")
    hit = np.arange(len(runs)) % share == 0
    for name in ("placement", "client", "server", "round"):
        runs[name] = runs[name].mask(hit)
    return runs


def deployments(runs):
    return pd.concat(
        [runs.assign(deployment=d, run_id=f"d{d}-" + runs["run_id"]) for d in (1, 2, 3)]
    )


def of(**levels):
    """Return what keeps the runs with these levels."""
    return lambda runs: runs[(runs[[*levels]] == [*levels.values()]).all(axis=1)]


EXPERIMENTS = {
    "only-round-trips": round_trips,
    "only-sent": lambda runs: of(tool="iperf3")(runs).assign(throughput_bps=np.nan),
    "one-condition": of(placement="ppg", tool="qperf"),
    "one-round": of(round=2),
    "failures-only": lambda runs: runs.assign(status="failed", error="timeout").assign(
        **{column: np.nan for column in runs if column in METRICS}
    ),
    "imported": imported,
    "half-labelled": lambda runs: unlabelled(runs, 2),
    "three-deployments": deployments,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_page_of_every_experiment(name, lab):
    found = pages(changed(lab, EXPERIMENTS[name]))
    assert "07-quality" in found
    # of runs that all failed there is a list, and no more
    ended = {key for key, some in found.items() if "Not in this experiment" in str(some)}
    assert ended == ({"07-quality"} if name == "failures-only" else set())


def test_a_label_of_the_users_own_is_a_question(lab):
    runs = changed(
        lab,
        # not a rack for each placement: that would be the placement's page
        lambda r: of(tool="qperf")(r).assign(
            rack=lambda r: np.where(r["round"] % 2, "b7", "c1")
        ),
    )
    key = "factor-rack-latency"
    shown = "\n".join(map(str, pages(runs, key)[key]))
    assert "b7" in shown
    assert "c1" in shown


@pytest.mark.slow
def test_pairs_of_one_placement_are_a_matrix_of_both_ways():
    """Six pairs of three availability zones."""
    zones = npl.load(npl.recorded().parent / "zones").assign(placement="cross-zone")
    found = pages(zones, "pairs-latency", "pairs-throughput")
    assert {"pairs-latency", "pairs-throughput"} == set(found)
    given = {"experiment": zones, "metric": "latency_oneway_us"}
    names, _ = executed(notebooks()["pairs"], given)
    assert {"114", "115"} <= {text.get_text() for text in names["ax"].texts}


def test_a_long_experiment_has_a_page_over_time_with_its_change():
    day = npl.recorded().with_name("day")
    [page] = [p for p in npl.analysis.pages(npl.read(day)) if p.key == "time-rtt"]
    found = shown(notebooks()["time"], {"experiment": str(day), **page.parameters})
    assert sum(isinstance(o, npl.plots.Chart) for o in found) == 1
    assert "from 02 November 2026, 15:00 to 19:00 UTC" in "\n".join(map(str, found))
