"""A folder of others may hold links: nothing outside of it is written or removed.

A link stands at every place, and leads to one of its kind, to another, to nothing, to itself.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib import cli
from netperf_lib.data.declaration import declaration
from netperf_lib.data.layout import hosts_dir
from netperf_lib.data.shipped import report_folder
from netperf_lib.errors import NetperfError, explain
from netperf_lib.experiment.deployment import Deployment
from netperf_lib.experiment.schedule import schedule
from netperf_lib.measure.collector import collect as measure

LOG = "tcp_lat:\n    latency  =  {} us\n"


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """An experiment with tables, of four runs."""
    folder = tmp_path_factory.mktemp("sent")
    (folder / "logs").mkdir()
    for number in range(4):
        name = f"{'ab'[number % 2]}-r{1 + number // 2}.txt"
        (folder / "logs" / name).write_text(LOG.format(40 + number))
    npl.import_logs(
        folder / "logs", pattern="{placement}-r{round}.txt", into=folder / "mine"
    )
    npl.ingest(folder / "mine")
    return folder / "mine"


@pytest.fixture
def received(sent, tmp_path):
    return Path(shutil.copytree(sent, tmp_path / "received"))


@pytest.fixture
def thesis(tmp_path):
    """What belongs to the reader of the folder."""
    (tmp_path / "mydata" / "photos").mkdir(parents=True)
    (tmp_path / "mydata" / "photos" / "one.jpg").write_text("a photo")
    (tmp_path / "mydata" / "part-1.parquet").write_text("a table of mine")
    return tmp_path / "mydata"


def content(folder):
    return {
        str(p): p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))
    }


def commands(place):
    """Every command that takes a folder, but those that need hosts or a kernel."""
    run_id = "d01-r001-qperf-tcp_lat-0"
    where = str(place)
    return [
        ["show", where],
        ["ingest", where, "--workers", "1"],
        ["compare", where, "--by", "placement"],
        ["limits", where],
        ["exclude", where, run_id, "--because", "x"],
        ["explore", where, "--no-browser"],
        ["import", str(place.parent / "more"), "--into", where],
    ]


def collect(place):
    """What a collector writes before it meets a host."""
    store = place
    plan = replace(schedule(declaration(store).experiment, seed=1), trials=())
    nowhere = Deployment(deployment_id="x", source="inventory", hosts=())
    measure(plan, nowhere, store, say=lambda _: None)
    (hosts_dir(store) / "state").touch()


def report(place):
    (report_folder(str(place), "received") / "report.pdf").touch()


def call(function, place):
    try:
        function(place)
    except Exception as error:
        if not isinstance(error, NetperfError) and explain(error) is None:
            raise


PLACES = (
    "reports collector.lock hosts hosts/host-keys excluded excluded/x.json "
    "reports/explorer.html tables/intervals exclusions.json"
).split()
"""What an experiment may hold, besides what this one does."""
TARGETS = {
    "file": "mydata/part-1.parquet",
    "folder": "mydata",
    "nothing": "mydata/absent",
    "itself": None,
}


def links(sent):
    """Return where links stand."""
    inside = [str(p.relative_to(sent)) for p in sorted(sent.rglob("*"))]
    return list(dict.fromkeys([*inside, *PLACES]))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_command_touches_what_a_link_leads_to(sent, thesis, tmp_path, target):
    before = content(thesis)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a-r3.txt").write_text(LOG.format(77))
    for name in links(sent):
        place = Path(shutil.copytree(sent, tmp_path / "received"))
        link = place / name
        if link.is_dir():
            shutil.rmtree(link)
        link.unlink(missing_ok=True)
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(tmp_path / str(TARGETS[target]) if TARGETS[target] else link)
        for words in commands(place):
            done = CliRunner().invoke(cli.npl, words)
            error = done.exception
            known = error is None or isinstance(error, NetperfError | SystemExit)
            assert known or explain(error), (name, words)
        call(collect, place)
        call(report, place)
        assert content(thesis) == before, name
        shutil.rmtree(place)


@pytest.mark.parametrize("name", ["tables", "tables/runs", "tables/intervals"])
def test_linked_tables_are_refused(received, thesis, name):
    shutil.rmtree(received / "tables")
    (received / name).parent.mkdir(exist_ok=True)
    (received / name).symlink_to(thesis)
    with pytest.raises(NetperfError, match=f"{received / name}: a link to elsewhere"):
        npl.load(received)


def test_only_parts_are_removed_from_the_tables(received):
    runs = received / "tables" / "runs"
    for name in ("notes.txt", "mine.parquet", "d07-r0001-0064.parquet"):
        (runs / name).write_text("x")
    [part] = runs.glob("import-*")
    part.unlink()
    npl.ingest(received)
    assert {p.name for p in runs.iterdir()} == {
        "notes.txt",
        "mine.parquet",
        part.name,
    }
