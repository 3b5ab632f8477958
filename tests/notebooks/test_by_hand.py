"""The section By hand of each notebook: its ratios are those of page one."""

import nbformat
import numpy as np
import pytest

import netperf_lib as npl
from netperf_lib.analysis.observe import Observations
from netperf_lib.data.imports import import_logs
from netperf_lib.reporting import notebooks
from tests.studies.kept import kept

from .cells import executed

RECORDED = npl.recorded().parent
OWN = ("placement", "paths", "ladder")
"""Studies that are kept as logs."""
CHECKED = [
    ("01-placement", "lab-full", {"metric": "latency_oneway_us"}),
    pytest.param("03-streams", "lab-full", {}, marks=pytest.mark.slow),
]
CHECKED_OF_LOGS = [
    ("01-placement", "placement", {}),
    ("02-accelerated", "paths", {}),
    ("03-streams", "ladder", {}),
    ("05-paths", "paths", {}),
    ("factor", "placement", {"metric": "throughput_sent_bps"}),
    ("before-after", "placement", {"before": "placement"}),
]


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Return the folders of imported logs."""
    made = {}
    for name in OWN:
        folder = tmp_path_factory.mktemp(name)
        logs, labels = kept(f"study-{name}", folder / "logs", rounds=6)
        import_logs(logs, labels=labels, into=folder / name)
        made[name] = folder / name
    return made


def names_of(name, experiment, parameters):
    """Execute the cells of a notebook here, and return its names."""
    given = {"experiment": str(experiment), **parameters}
    names, _ = executed(notebooks()[name], given)
    assert len(names["page_one"]) > 0
    return names


@pytest.mark.parametrize(("name", "data", "parameters"), CHECKED)
def test_the_ratio_by_hand_is_that_of_page_one(name, data, parameters):
    assert np.all(names_of(name, RECORDED / data, parameters)["same"])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "data", "parameters"), CHECKED_OF_LOGS)
def test_the_ratio_by_hand_of_logs_is_that_of_page_one(name, data, parameters, own):
    given = {key: str(own.get(value, value)) for key, value in parameters.items()}
    assert np.all(names_of(name, own[data], given)["same"])


def test_page_one_has_the_ratios_that_are_checked(monkeypatch):
    """And a wrong value is seen."""
    data, given = RECORDED / "after", {"before": str(RECORDED / "before")}
    right = Observations.wide.fget

    def wrong(obs):
        wide = right(obs)
        wide.iloc[:, 0] *= 1.001
        return wide

    names = names_of("before-after", data, given)
    assert names["same"]
    front = {c.ratio for c in npl.compare(given["before"], data)}
    assert set(names["page_one"]["ratio"]) <= front
    monkeypatch.setattr(Observations, "wide", property(wrong))
    assert not names_of("before-after", data, given)["same"]


HAND = sorted(n for n, p in notebooks().items() if "## By hand" in p.read_text("utf-8"))


@pytest.mark.parametrize("name", HAND)
def test_by_hand_uses_no_name_of_the_library(name):
    cells = nbformat.read(notebooks()[name], as_version=4).cells
    start = next(i for i, c in enumerate(cells) if c.source.startswith("## By hand"))
    code = [c.source for c in cells[start:] if c.cell_type == "code"]
    assert "wide" in code[0]
    assert not any("npl." in source for source in code)
