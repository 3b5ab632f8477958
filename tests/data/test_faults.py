"""Every read and every write can fail: nothing is lost, and a passing fault is no fact of a run."""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import netperf_lib as npl
from netperf_lib.data import logs
from netperf_lib.data.ingest import make_part, read_part, tables_of
from netperf_lib.data.layout import trial_of
from netperf_lib.errors import NetperfError, explain

from ..checksums import changed_files
from ..measure.conftest import deployment
from ..measure.test_collector import NEAR, experiment, measure
from ..reporting.test_report import notebook
from .faulty import fault

__all__ = ["deployment"]  # a fixture

QPERF = "tcp_lat:\n    latency  =  {} us\n"
EVERY = "NETPERF_FAULTS" in os.environ
REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EIO: "try another disk",
    errno.EACCES: "get permission",
}


@pytest.fixture(scope="session")
def few(tmp_path_factory):
    """Logs of four runs."""
    folder = tmp_path_factory.mktemp("logs")
    for number in (1, 2):
        for placement in ("ppg", "zone"):
            name = folder / f"{placement}-r{number}.txt"
            name.write_text(QPERF.format(40 + number + 9 * (placement == "zone")))
    return folder


@pytest.fixture
def book(tmp_path_factory):
    """A small notebook: what its kernel reads is no operation of this process."""
    return notebook(tmp_path_factory.mktemp("book"), "print(1)")


Command = Callable[[pytest.FixtureRequest, Path], Any]


def import_few(request, place):
    few = request.getfixturevalue("few")
    npl.import_logs(few, pattern="{placement}-r{round}.txt", into=place)


def ingest(_request, place):
    npl.ingest(place)


def report(request, place):
    npl.report(place, [request.getfixturevalue("book")], to="html")


def collect(request, place):
    hosts = request.getfixturevalue("deployment")
    declared = experiment(pairs=[NEAR], name=place.name, attempts=4)
    measure(declared, hosts, place)


def state(place):
    """The names of all files but the raw ones, also of drafts, and the runs that are complete."""
    assert changed_files(place) == []
    tables_agree(place)
    names = {str(path.relative_to(place)) for path in place.rglob("*")}
    runs = npl.load(place).query("status == 'ok'")
    ids = map(trial_of, runs["run_id"])
    kept = {name for name in names if not name.startswith(("raw/d", "tables"))}
    return kept, sorted(zip(ids, runs["placement"], runs["round"], strict=True))


def tables_agree(place):
    """Tables that are not known to be behind are those that the logs give."""
    found = tables_of(place, place)
    with tempfile.TemporaryDirectory() as folder:
        for block in found.blocks.keys() - found.behind.keys():
            make_part(place, Path(folder), block, "")
        fresh = Path(folder, "tables")
        for part in fresh.glob("*/*.parquet"):
            ours = place / "tables" / part.relative_to(fresh)
            table = part.parent.name
            assert read_part(ours, table).equals(read_part(part, table))


def outcome(command, request, place):
    """What the command line prints of an error; nothing if there was none."""
    try:
        command(request, place)
    except NetperfError as error:
        return str(error)
    except (OSError, MemoryError) as error:
        return explain(error) or repr(error)
    return ""


def kinds_of_ingest(start, folder):
    """What a report does before it is one."""
    place = Path(shutil.copytree(start, folder / "read")) / "mine"
    with fault(place.parent, 0, 0) as counted:
        ingest(None, place)
    return {*counted.kinds}


@pytest.mark.slow
@pytest.mark.parametrize("command", [import_few, ingest, collect, report])
def test_each_operation_may_fail_once(command, tmp_path, request):
    start = tmp_path / "start" / "mine"
    start.parent.mkdir()
    if command in (ingest, report):
        import_few(request, start)
        shutil.rmtree(start / "tables", ignore_errors=True)
    good = Path(shutil.copytree(start.parent, tmp_path / "good")) / "mine"
    with fault(tmp_path, 0, 0) as counted:
        command(request, good)
    assert len(counted.kinds) > 20
    expected = state(good)
    met = kinds_of_ingest(start.parent, tmp_path) if command is report else set()
    first = {}
    for number, kind in enumerate(counted.kinds, 1):
        # `make faults` tries every operation, and here the first of each kind fails
        if EVERY or kind not in met:
            first.setdefault(number if EVERY else kind, number)
    for number in first.values():
        code = list(REMEDIES)[number % 3]
        place = (
            Path(shutil.copytree(start.parent, tmp_path / "try" / f"{number}")) / "mine"
        )
        with fault(place.parent, number, code):
            said = outcome(command, request, place)
        if said:
            assert REMEDIES[code] in said, (number, code)
            assert str(place.parent) in said, (number, code)
        command(request, place)
        assert state(place) == expected, (number, code)


@pytest.fixture
def place(first_round, tmp_path):
    return Path(shutil.copytree(first_round, tmp_path / "place"))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        MemoryError(),
        FileNotFoundError(2, "gone"),
    ],
)
def test_a_passing_read_error_is_no_row(place, error, monkeypatch):
    read = logs._unpacked
    calls = []

    def once(*arguments):
        calls.append(1)
        if len(calls) == 10:
            raise error
        return read(*arguments)

    monkeypatch.setattr(logs, "_unpacked", once)
    with pytest.raises(NetperfError):
        npl.ingest(place)
    assert npl.ingest(place) == 22
    assert set(npl.load(place)["status"]) == {"ok"}


def test_a_log_that_was_restored_is_read_again(place):
    log = next(place.glob("raw/*/client.out"))
    data = log.read_bytes()
    log.unlink()
    assert "failed" in set(npl.load(place)["status"])
    log.write_bytes(data)
    assert set(npl.load(place)["status"]) == {"ok"}


def test_an_old_draft_is_removed_and_a_new_one_stays(place):
    folder = place / "tables" / "runs"
    folder.mkdir(parents=True)
    old, new = (folder / f".d01-r0001-0064.parquet.{n * 32}" for n in ("0", "1"))
    for draft in (old, new):
        draft.touch()
    os.utime(old, (0, 0))
    npl.ingest(place)
    assert [p.name for p in folder.glob(".*")] == [new.name]
