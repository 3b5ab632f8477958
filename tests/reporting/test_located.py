"""Which experiment a notebook looks at: the one it names, looked for upwards, else the recorded one, and it says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import nbformat
import pytest

import netperf_lib as npl
from netperf_lib.data import load
from netperf_lib.data.layout import Store
from netperf_lib.data.shipped import located
from netperf_lib.errors import StoreError

from . import made

REPO = Path(__file__).parents[2]


def test_a_relative_experiment_is_found_from_the_working_directory_upwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made.experiment(tmp_path / "results", name="mine", rounds=6)
    deep = tmp_path / "notebooks" / "workshop"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert located("results/mine") == (folder, None)
    assert len(npl.load("results/mine")) == len(npl.load(folder))


def test_outside_of_a_notebook_nothing_takes_the_place_of_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("results/lab", "results/typo"):
        with pytest.raises(StoreError, match="no experiment here"):
            npl.load(name)


def test_a_figure_begins_with_what_the_data_are_and_not_where_they_were_found() -> None:
    runs = load._frame(
        Store.at(npl.recorded()), "runs", "There is no results/lab yet, so this page shows another."
    )
    assert (
        npl.plots.rounds(runs, "latency_oneway_us")
        .figure.get_supxlabel()
        .rpartition("\n")[2]
        .startswith("Emulated hosts")
    )


def test_a_notebook_that_names_another_experiment_never_gets_the_recorded_one(
    python: str, tmp_path: Path
) -> None:
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("import netperf_lib as npl\nnpl.load('results/typo')")]
    )
    book.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    nbformat.write(book, tmp_path / "mine.ipynb")
    words = [python, "-m", "papermill", str(tmp_path / "mine.ipynb"), str(tmp_path / "o.ipynb")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no experiment here" in done.stderr


@pytest.mark.parametrize(
    "place", sorted((REPO / "notebooks").rglob("*.ipynb")), ids=lambda p: p.stem
)
def test_every_notebook_names_the_default_experiment(place: Path) -> None:
    (cell,) = [
        c
        for c in nbformat.read(place, as_version=4).cells
        if "parameters" in c.metadata.get("tags", [])
    ]
    (named,) = re.findall(r'^experiment = "(.+?)"', cell.source, re.MULTILINE)
    examples = {
        "pairs": "zones",
        "time": "day",
        "05-paths": "paths",
        "before-after": "after",
    }  # the lab has no such data
    example = f"data/recorded/{examples.get(place.stem)}"
    assert named == (example if place.stem in examples else "results/lab")
