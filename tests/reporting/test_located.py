"""Which experiment a notebook looks at: the one it names, looked for upwards, else the recorded."""

import re
import subprocess

import nbformat
import pytest

import netperf_lib as npl
from netperf_lib.data import load
from netperf_lib.data.layout import experiment_folder
from netperf_lib.data.shipped import located
from netperf_lib.errors import StoreError

from ..conftest import REPO
from . import made

EXAMPLES = {"pairs": "zones", "time": "day", "05-paths": "paths", "before-after": "after"}
"""Notebooks for whose questions the lab has no data."""


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


def test_outside_of_a_notebook_nothing_takes_the_place_of_an_experiment(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="no experiment here"):
        npl.load("results/lab")


def test_a_notebook_that_names_another_experiment_never_gets_the_recorded_one(
    python, tmp_path
):
    code = "import netperf_lib as npl\nnpl.load('results/typo')"
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    file = tmp_path / "mine.ipynb"
    nbformat.write(book, file)
    words = [
        "papermill",
        str(file),
        str(tmp_path / "o.ipynb"),
        "-k",
        "python3",
        "-l",
        "python",
    ]
    done = subprocess.run(
        [python, "-m", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "no experiment here" in done.stderr


@pytest.mark.parametrize(
    "file", sorted((REPO / "notebooks").rglob("*.ipynb")), ids=lambda p: p.stem
)
def test_every_notebook_names_its_parameters(file):
    cells = nbformat.read(file, as_version=4).cells
    (cell,) = [c for c in cells if "parameters" in c.metadata.get("tags", [])]
    example = EXAMPLES.get(file.stem)
    named = f"data/recorded/{example}" if example else "results/lab"
    assert re.findall(r'(?m)^experiment = "(.+?)"', cell.source) == [named]
    commented = ["  # " in line for line in cell.source.splitlines()]
    assert all(commented) or file.parent.name != "notebooks"
