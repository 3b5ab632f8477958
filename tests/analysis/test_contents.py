"""Which pages a report has, and what is in an experiment, from the recorded data and tables with
planted truth."""

import math
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.contents import at_a_glance, pages, pages_of_several
from netperf_lib.analysis.lead import lead_paragraph, opening
from netperf_lib.cli import npl as command_line
from netperf_lib.data.imports import import_logs
from netperf_lib.data.layout import experiment_folders
from netperf_lib.data.load import load
from netperf_lib.errors import NetperfError, StoreError
from netperf_lib.experiment.origin import Measured, Origin

from .test_planted import BPS, runs

RECORDED = Path(__file__).parents[2] / "data" / "recorded"
PUBLISHED = RECORDED.parent / "published"


def test_several_experiments_have_a_line_for_each_experiment_and_pages_of_those_over_time(
    tmp_path,
):
    names = {"day", "zones"}
    for name in names:
        (tmp_path / name).symlink_to(RECORDED / name)
    found = pages_of_several(experiment_folders(f"{tmp_path}/*"))
    assert [(p.notebook, p.parameters) for p in found] == [
        ("summary", {}), ("time", {"name": "day", "metric": "rtt_us"})
    ]  # fmt: skip
    lead = opening(f"{tmp_path}/*")
    assert {line.split(" ")[0] for line in lead.lines} == names
    assert not lead.judged
    assert {one["experiment"] for one in at_a_glance(f"{tmp_path}/*")} == names
    (lab,) = at_a_glance(RECORDED / "lab-full")
    assert (
        lab["factors"]["parallel streams"] == "1 stream, 2 streams, 4 streams, 16 streams"
    )
    assert lab["contrasts"] == "10"


def part_of_a_measurement(folder, runs):
    """Leave the first runs of the recorded experiment, as an interruption does."""
    whole = RECORDED / "lab-full"
    later = sorted(run.name for run in (whole / "raw").iterdir())[runs:]

    def others(place, names):
        return later if place == str(whole / "raw") else {"tables"} & {*names}

    return shutil.copytree(whole, folder, ignore=others)


def without_rounds(folder):
    logs = folder / "logs"
    logs.mkdir(parents=True)
    for number, log in enumerate(PUBLISHED.glob("oci*/*qperf*")):
        shutil.copy(log, logs / f"run{number}.txt")
    return Path(import_logs(logs, into=folder / "mine").path)


def only_failed(folder):
    place = part_of_a_measurement(folder, 2)
    for log in place.glob("raw/*/client.out"):
        log.write_text("cut")
    return place


@pytest.mark.parametrize(
    ("make", "rounds"),
    [
        (without_rounds, "not known"),
        pytest.param(
            lambda folder: part_of_a_measurement(folder, 30),
            "2 of 12",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            lambda folder: part_of_a_measurement(folder, 1),
            "1 of 12",
            marks=pytest.mark.slow,
        ),
        (only_failed, "1 of 12"),
    ],
    ids=["no rounds and starts", "interrupted", "one run", "only failed"],
)
def test_every_reading_command_answers_on_incomplete_data(
    tmp_path, monkeypatch, make, rounds
):
    place = make(tmp_path / "place")
    (shown,) = at_a_glance(place)
    assert rounds in shown["rounds"]
    monkeypatch.chdir(tmp_path)
    by = "--by placement --metric latency_oneway_us"
    for words in ("show", "compare", f"compare {by}", "limits", "explore -o out.html"):
        verb, *options = words.split()
        error = CliRunner().invoke(command_line, [verb, str(place), *options]).exception
        assert isinstance(error, NetperfError | SystemExit | None), repr(error)


def test_an_interrupted_measurement_says_what_is_missing(tmp_path):
    (shown,) = at_a_glance(part_of_a_measurement(tmp_path / "lab", 30))
    assert shown["runs"].endswith("; incomplete: 234 of 264 trials were not measured")


def test_where_no_run_is_complete_the_first_line_says_so():
    failed = runs({"ppg": math.nan, "vpn": math.nan}, status="failed")
    assert lead_paragraph(failed).lines == ("No run is complete.",)


def test_an_experiment_that_was_not_measured_yet_hides_no_other_one(
    tmp_path,
):
    begun, day = tmp_path / "begun", tmp_path / "day"
    day.symlink_to(RECORDED / "day")
    begun.mkdir()
    shutil.copy(RECORDED / "zones" / "experiment.yaml", begun)
    several = f"{tmp_path}/*"
    found = pages_of_several(experiment_folders(several))
    assert [p.notebook for p in found] == ["summary", "time"]
    assert opening(several).lines[0] == "begun: Nothing was measured yet."
    assert [one["runs"][:7] for one in at_a_glance(several)] == ["nothing", "288 (28"]
    assert len(load([begun, day])) == 288
    for read in (load, opening):
        with pytest.raises(StoreError, match="nothing was measured here yet"):
            read(begun)


@pytest.mark.parametrize(
    ("placements", "notebooks"),
    [
        ("ppg same-zone", "summary 01-placement 07-quality"),
        ("ppg Dublin", "summary 01-placement 07-quality"),
        ("ppg vpn", "summary 05-paths 07-quality"),
        ("ppg", "summary 07-quality"),
    ],
)
def test_the_pages_of_places_and_of_paths(placements, notebooks):
    table = runs(dict.fromkeys(placements.split(), 1e9))
    assert [p.notebook for p in pages(table)] == notebooks.split()


def test_a_user_of_a_slice_gets_its_contrasts():
    where = {"placement": "cross-region"}
    lead = lead_paragraph(RECORDED / "lab-full", where=where, metric=BPS)
    assert {c.metric for c in lead.family} == {BPS}
    assert all("cross-region" in c.context for c in lead.family)


CONTRAST = {"metric": BPS, "a": {"placement": "vpn"}, "b": {"placement": "ppg"}}


def test_what_was_measured_beyond_the_plan_is_not_used_in_a_fixed_design():
    table = runs({"ppg": 1e9, "vpn": 2e9}, rounds=10)
    planned = Origin({"contrasts": [CONTRAST], "rounds": 8})
    family = npl.compare(Measured(table, planned))
    assert family[0].n == 8
    assert "2 rounds beyond the 8 planned are not used" in family.warnings[0]
    sequential = Origin({**planned.declared, "design": "sequential"})
    assert npl.compare(Measured(table, sequential))[0].n == 10
