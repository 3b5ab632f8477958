"""Which experiment a notebook looks at: the one it names, looked for upwards, else the recorded."""

import netperf_lib as npl
from netperf_lib.data import load
from netperf_lib.data.layout import experiment_folder
from netperf_lib.data.shipped import located

from . import made


def test_a_relative_experiment_is_found_from_the_working_directory_upwards(
    tmp_path, monkeypatch
):
    folder = made.experiment(tmp_path / "results", name="mine", rounds=6)
    deep = tmp_path / "notebooks" / "workshop"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert located("results/mine") == (folder, None)
    assert len(npl.load("results/mine")) == len(npl.load(folder))


def test_a_figure_says_what_the_data_are_and_not_where_they_were_found():
    missing = "There is no results/lab yet, so this page shows another."
    exp = load.Results(experiment_folder(npl.recorded()), missing)
    caption = npl.plots.rounds(exp, "latency_oneway_us").figure.get_supxlabel()
    assert caption.rpartition("\n")[2].startswith("Emulated hosts")
