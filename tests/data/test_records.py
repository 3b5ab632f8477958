"""What was declared before the data stays so; records are what they were; what was tampered with
is found."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

import netperf_lib as npl
from netperf_lib.analysis.contents import at_a_glance
from netperf_lib.data.declaration import (
    declaration,
    declare,
    read_plan,
    set_aside_unless_open,
    write_deployment,
    write_plan,
)
from netperf_lib.data.layout import lock
from netperf_lib.data.load import Results
from netperf_lib.data.raw import digest_of, new_run
from netperf_lib.data.raw import runs as stored_runs
from netperf_lib.errors import NetperfError, StoreError
from netperf_lib.experiment.deployment import Deployment, Host
from netperf_lib.experiment.model import Contrast
from netperf_lib.reporting import explorer

from ..checksums import COMMAND, changed_files
from ..copies import copies

FOUND_LATER = Contrast(
    metric="latency_oneway_us",
    a={"tool": "qperf", "placement": "cross-zone"},
    b={"tool": "qperf", "placement": "ppg"},
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    root = tmp_path_factory.mktemp("measured")
    copies(root, runs=24)
    store = Path(root, "copy-1")
    hosts = [
        Host(
            name=n,
            address="192.0.2.1",
            data_address="10.0.0.4",
            region="r",
            zone=None,
            accelerated=True,
        )
        for n in ("a", "b")
    ]
    write_deployment(
        store,
        1,
        Deployment(deployment_id="1", source="azure", hosts=tuple(hosts)),
    )
    npl.ingest(store)
    return store


@pytest.fixture
def place(measured, tmp_path):
    return Path(shutil.copytree(measured, tmp_path / "root" / "copy-1"))


# -- the declaration -------------------------------------------------------------------------------


def test_a_contrast_declared_after_the_first_run_gets_no_verdict(place):
    """The one that looked best, in place of the one that was declared."""
    store = place
    before = declaration(store).experiment
    declare(store, before.model_copy(update={"contrasts": (FOUND_LATER,)}))
    exp = npl.read(place)
    assert isinstance(exp, Results)
    assert exp.contrasts == before.contrasts
    assert exp.added == (FOUND_LATER,)
    assert exp.origin.declared["contrasts"] == [
        c.model_dump(mode="json") for c in before.contrasts
    ]
    assert {c.verdict for c in npl.compare(exp, contrasts=exp.added)} == {"exploratory"}
    assert npl.compare(exp).declared == len(before.contrasts)
    assert [c.verdict for c in npl.compare(exp)][-1] == "exploratory"
    declare(store, before.model_copy(update={"contrasts": (FOUND_LATER,)}))
    assert len(declaration(place).added) == 1  # the same command again adds nothing
    assert changed_files(place) == []


@pytest.mark.parametrize("change", [{"margin": 0.5}, {"metric": "latency_oneway_p99_us"}])
def test_a_changed_margin_is_another_contrast_and_wording_is_not(place, change):
    store = place
    declared = declaration(store).experiment
    worded = declared.contrasts[0].model_copy(update={"question": "Is it faster?"})
    changed = worded.model_copy(update=change)
    declare(
        store, declared.model_copy(update={"contrasts": (worded, changed), "rounds": 50})
    )
    found = declaration(store)
    assert found.experiment.contrasts == declared.contrasts
    assert found.added == (changed,)
    assert found.experiment.rounds == 50


def test_contrasts_written_into_the_kept_files_get_no_verdict_either(place):
    declared = yaml.safe_load((place / "experiment.yaml").read_text())
    declared["contrasts"].append(FOUND_LATER.model_dump(mode="json"))
    (place / "experiment.yaml").write_text(yaml.safe_dump(declared))
    exp = npl.read(place)
    assert isinstance(exp, Results)
    assert FOUND_LATER in exp.added
    plan = json.loads((place / "plan.json").read_text())
    plan["frozen"]["contrasts"].append(FOUND_LATER.model_dump(mode="json"))
    (place / "plan.json").write_text(json.dumps(plan))
    exp = npl.read(place)
    assert isinstance(exp, Results)
    assert exp.contrasts == ()  # the runs were measured under others
    assert FOUND_LATER in exp.added
    assert exp.origin.declared["contrasts"] == []


def test_before_the_first_run_everything_may_change(tmp_path, measured):
    store = Path(tmp_path, "new")
    declared = declaration(measured).experiment.model_copy(update={"name": "new"})
    declare(store, declared)
    declare(
        store, declared.model_copy(update={"contrasts": (FOUND_LATER,), "pause_s": 3})
    )
    assert declaration(store).experiment.contrasts == (FOUND_LATER,)
    assert declaration(store).added == ()
    assert declaration(store).frozen_utc is None
    frozen = (read_plan(measured) or {})["frozen"]
    said = [record.declaration for record in stored_runs(measured)]
    assert said == [{"sha256": frozen["sha256"], "utc": frozen["utc"]}] * 24


# -- tampering -------------------------------------------------------------------------------------


def run(place, number=0):
    return sorted(place.glob("raw/*"))[number]


def record(place, number=0, **changes):
    file = run(place, number) / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def redigested(place, number, **changes):
    """A record is changed, and its digest with it."""
    file = run(place, number) / "run.json"
    old = sha256(file)
    record(place, number, **changes)
    for digests in place.glob("digests/*"):
        digests.write_text(digests.read_text().replace(old, sha256(file)))


def forged_log(place):
    """A log is changed; return the digests of the files of its run."""
    log = run(place) / "client.out"
    log.write_text(log.read_text().replace("1", "2"))
    return {f.name: sha256(f) for f in run(place).iterdir() if f.name != "run.json"}


TAMPERED = {
    "the status of a record": lambda p: record(p, status="failed"),
    "a record without its files": lambda p: record(p, files={}),
    "a log": lambda p: (run(p) / "client.out").write_text(
        "tcp_lat:\n    latency  =  1 us\n"
    ),
    "a log and its hash": lambda p: record(p, files=forged_log(p)),
    "a log removed": lambda p: (run(p) / "client.out").unlink(),
    "a run removed": lambda p: shutil.rmtree(run(p)),
    "the plan": lambda p: (p / "plan.json").write_text("{}"),
    "the declaration": lambda p: declared(p, "title: Azure production\n"),
}


def declared(place, text):
    (place / "experiment.yaml").write_text((place / "experiment.yaml").read_text() + text)


def link(place, target):
    log = run(place) / "client.out"
    log.unlink()
    log.symlink_to(target)


def linked(place, file):
    """A file or folder is a link to where it was moved."""
    shutil.move(file, place.parent / "elsewhere")
    file.symlink_to(place.parent / "elsewhere")


LINKED = {
    "a log that is a link to itself": lambda p: link(p, "client.out"),
    "a log that is a link to nothing": lambda p: link(p, "nothing"),
    "a folder of a run that is a link": lambda p: linked(p, run(p)),
    "a log of another folder named in a record": lambda p: redigested(
        p, 0, files={"../../plan.json": "0" * 64}
    ),
    "a device named in a record": lambda p: redigested(
        p, 0, files={"/dev/zero": "0" * 64}
    ),
}
"""What leads from the folder of a run to elsewhere."""


@pytest.mark.parametrize("kind", TAMPERED)
def test_checksums_find_what_was_changed(place, kind):
    documented = (Path(npl.__file__).parents[1] / "docs/how-to/data.md").read_text()
    assert f"&& {COMMAND}\n" in documented
    assert changed_files(place) == []
    before = digest_of(place)
    TAMPERED[kind](place)
    changed = changed_files(place)
    if kind == "a log":
        assert changed == [str((run(place) / "client.out").relative_to(place))]
    assert changed
    assert digest_of(place) == before


def test_the_digest_finds_what_was_changed_everywhere(place):
    store = place
    before = digest_of(store)
    printed = subprocess.run(
        ["bash", "-c", "cat digests/*.sha256 | sha256sum"],
        cwd=place,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed.split()[0] == before
    redigested(place, 0, files=forged_log(place))
    assert digest_of(store) != before


def test_further_rounds_are_listed_again(place):
    store = place
    declare(store, declaration(store).experiment.model_copy(update={"rounds": 50}))
    write_plan(store, (read_plan(store) or {}) | {"seed": 5})
    assert changed_files(place) == []


SHAPES = [
    ("hosts/deployment-01.json", ["hosts"], [{}]),
    ("hosts/deployment-01.json", ["proofs"], [1e308]),
    ("plan.json", [], []),
    ("plan.json", ["frozen"], "x"),
    ("plan.json", ["frozen", "contrasts"], [{"metric": 5}]),
    ("plan.json", ["trials"], 7),
    ("excluded/x.json", [], [1]),
]


@pytest.mark.parametrize(("name", "path", "value"), SHAPES, ids=str)
def test_a_document_of_any_shape_is_read_or_refused(place, name, path, value):
    """A folder of others may hold anything where a document is expected; each command says so in
    one sentence."""
    file = place / name
    document = json.loads(file.read_text()) if file.exists() else {}
    at = {"": document}
    inside, *path = [at, "", *path]
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(at[""]))
    for read in (
        npl.load,
        at_a_glance,
        lambda where: npl.compare(npl.read(where)),
    ):
        with suppress(NetperfError):
            read(str(place))


CHANGED = ["the status of a record", "a log", "a log and its hash", "a log removed"]


@pytest.mark.parametrize("kind", [*CHANGED, *LINKED])
def test_what_was_changed_or_is_a_link_gives_no_numbers(place, kind):
    name = run(place).name
    shutil.rmtree(place / "tables")
    (TAMPERED | LINKED)[kind](place)
    (place.parent / "nothing").write_text("secret")
    runs = npl.load(place).set_index("run_id")
    assert runs.loc[name, "status"] == "failed"
    assert (runs["status"] == "ok").sum() == len(runs) - 1
    if kind in CHANGED:
        assert "damaged" in runs.loc[name, "error"]
    else:
        [log] = explorer._logs(npl.read(place), [name])
        assert "record" in kind or log == ""


def test_a_log_that_the_record_does_not_name_is_not_read(place):
    before = npl.load(place)
    for folder in place.glob("raw/*qperf*"):
        (folder / "client-0.out").write_text("tcp_lat:\n    latency  =  1 us\n")
    shutil.rmtree(place / "tables")
    after = npl.load(place)
    assert before["latency_oneway_us"].equals(after["latency_oneway_us"])


def test_a_linked_or_renamed_folder_is_the_same(place):
    (place.parent / "link").symlink_to(place)
    assert npl.ingest(place.parent / "link") == 0
    assert npl.read(place.parent / "link").name == "copy-1"
    other = place.rename(place.with_name("another-name"))
    assert set(npl.load(other)["experiment"]) == {"another-name"}
    assert changed_files(other) == []


def test_a_measurement_set_aside_is_unchanged_also_where_no_run_started(place):
    other = Path(shutil.copytree(place, place.with_name("other")))
    changed = declaration(place).experiment.model_copy(update={"rounds": 1})
    aside = set_aside_unless_open(place, changed)
    assert changed_files(aside) == []
    for number in range(24):
        record(other, number, started_utc=None, status="failed")
    assert set_aside_unless_open(other, changed)


# -- reading ---------------------------------------------------------------------------------------


def test_rounds_of_several_experiments_stay_apart(place):
    shutil.copytree(place, place.with_name("other"))
    fleet = npl.read([place, place.with_name("other")])
    assert fleet.name == "copy-1, other"
    assert len(fleet.runs) == 48
    assert npl.read(f"{place.parent}/[co]*").runs.equals(fleet.runs)
    assert len(npl.load(f"{place.parent}/[co]*")) == 48
    both, one = (
        npl.observe(runs, "latency_oneway_us").table
        for runs in (fleet.runs, fleet.parts[0].runs)
    )
    assert len(both[["replicate", "round"]].drop_duplicates()) == 2 * len(
        one[["replicate", "round"]].drop_duplicates()
    )


def test_stray_files_and_half_copied_runs_are_left_out(place):
    (place / "raw" / "notes.txt").write_text("x")
    (place / "raw" / "half").mkdir()
    (run(place) / "run.json").rename(place / "kept.json")
    assert len(npl.load(place)) == 23
    with pytest.raises(StoreError, match="never overwritten"):
        new_run(place, run(place).name).__enter__()


def without_rights(code, *arguments):
    """Run Python as root without the right to write and to enter everywhere.

    It stays root, as modules are imported from folders that may be closed to others.
    """
    drop = [
        "setpriv",
        "--bounding-set=-dac_override,-dac_read_search,-fowner",
        "--inh-caps=-all",
    ]
    command = [
        *drop,
        sys.executable,
        "-Bc",
        "import sys, netperf_lib as npl\n" + code,
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=360)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to drop its rights")
def test_a_reader_that_may_not_write(measured):
    with (
        tempfile.TemporaryDirectory() as folder
    ):  # pytest closes its own to others whenever it starts
        place = Path(shutil.copytree(measured, Path(folder, "root", "copy-1")))
        shutil.rmtree(place / "tables")
        for own in (Path(folder), *Path(folder).rglob("*")):
            own.chmod(0o755 if own.is_dir() else 0o644)
            os.chown(own, 65534, 65534)
        done = without_rights(
            "print(len(npl.load(sys.argv[1])), len(npl.load(sys.argv[1], 'intervals')))",
            place,
        )
        assert done.stdout.split() == ["24", "167"], done.stderr
        assert "cannot be written" in done.stderr
        assert not (place / "tables").exists()


# -- faults ----------------------------------------------------------------------------------------


def loop(place):
    (place.parent / "loop").symlink_to(place.parent / "loop")
    return place.parent / "loop"


def file_for(folder):
    shutil.rmtree(folder)
    folder.write_text("")


FAULTS = {
    "a link to itself": loop,
    "a long name": lambda p: p.parent / ("x" * 300),
    "a file for a folder": lambda p: p / "plan.json",
    "a file for the tables": lambda p: file_for(p / "tables"),
    "a damaged declaration": lambda p: (p / "experiment.yaml").write_text("\xff["),
    "a plan that is a list": lambda p: (p / "plan.json").write_text("[]"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_one_sentence_with_the_path(place, kind):
    made = FAULTS[kind](place)
    broken = made if isinstance(made, Path) else place
    with pytest.raises(NetperfError) as caught:
        assert npl.read(broken).origin
    assert str(broken)[:100] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_lock_ends_with_its_process(place):
    code = (
        "import os, sys, pathlib; from netperf_lib.data.layout import lock\n"
        "with lock(pathlib.Path(sys.argv[1])): os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, place])
    assert done.returncode == -signal.SIGKILL
    assert "process" in (place / "collector.lock").read_text()
    with lock(place):
        pass


def test_windows_has_no_lock(place):
    code = (
        "import sys; sys.modules['fcntl'] = None\n"
        "import pathlib, netperf_lib as npl; from netperf_lib.data.layout import lock\n"
        "with lock(pathlib.Path(sys.argv[1])): print(len(npl.load(sys.argv[1])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, place], capture_output=True, text=True
    )
    assert done.stdout == "24\n", done.stderr
