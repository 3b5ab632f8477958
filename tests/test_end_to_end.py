"""The main job as a user types it: hosts, real tools over real SSH, raw runs, tables, verdicts, a PDF; and kill -9."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import yaml

import netperf_lib as npl
from netperf_lib.data.layout import Store
from netperf_lib.errors import LabError
from netperf_lib.hosts.lab.requirements import check
from netperf_lib.hosts.lab.topology import Options


def _no_lab():
    try:
        check()
    except LabError as error:
        return str(error)
    return ""


pytestmark = pytest.mark.skipif(bool(_no_lab()), reason=f"no lab can run here: {_no_lab()}")

# five times the lab's own delays, between which it sleeps
LAB = {
    "links": {
        n: {"delay_us": us}
        for n, us in (("ppg", 2000), ("same-zone", 3000), ("cross-region", 50_000))
    }
}
# (server, placement, accelerated) from the lab's `client`
SERVERS = [
    ("ppg", "ppg", True),
    ("zone", "same-zone", True),
    ("region", "cross-region", True),
    ("plain", "plain", False),
]


def declare(folder, rounds, **more):
    """An experiment on latency alone; every pair of placements is a contrast."""
    pairs = [
        {"client": "client", "server": s, "placement": p, "accelerated": a} for s, p, a in SERVERS
    ]
    names = [p for _, p, _ in SERVERS]
    couples = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    experiment = {
        "name": "small",
        "hosts": {"source": "lab", "options": LAB},
        "pairs": pairs,
        "tests": [{"tool": "qperf", "test": "tcp_lat", "duration_s": 0.3}],
        "report": {"notebooks": ["summary", "07-quality"]},
        "rounds": rounds,
        "contrasts": [
            {
                "metric": "latency_oneway_us",
                "a": {"placement": a},
                "b": {"placement": b},
                "margin": 0.1,
            }
            for a, b in couples
        ],
    } | more
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump(experiment))
    return file


def command(*words):
    return [sys.executable, "-m", "netperf_lib", *map(str, words)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("measured")
    words = command(
        "run",
        declare(folder, 8),
        "--root",
        folder / "results",
        "--seed",
        "1",
        "--pdf",
        folder / "out.pdf",
    )
    done = subprocess.run(words, capture_output=True, text=True, timeout=840)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "out.pdf").read_bytes().startswith(b"%PDF")
    return Store(folder / "results", "small")


def test_every_trial_became_a_run_with_its_raw_logs(measured):
    runs = npl.load(measured.path)
    assert len(runs) >= 8 * len(SERVERS)
    good = runs[runs["status"] == "ok"]
    assert good.groupby("placement")["round"].nunique().to_dict() == dict.fromkeys(
        [p for _, p, _ in SERVERS], 8
    )
    assert (good["latency_oneway_us"] > 0).all()
    assert "Emulated" in (npl.read(measured.path).notice or "")
    for run_id in runs["run_id"]:
        held = {p.name for p in (measured.path / "raw" / run_id).iterdir()}
        assert {"run.json", "client.out", "client.err", "server.out", "server.err"} <= held


def test_the_order_of_conditions_differs_between_rounds(measured):
    runs = npl.load(measured.path).sort_values("order")
    orders = {tuple(group["placement"]) for _, group in runs[runs["attempt"] == 1].groupby("round")}
    assert len(orders) > 1


def test_verdicts_agree_with_the_delays_that_the_lab_was_given(measured):
    lab = Options.model_validate(LAB)
    truth = {placement: lab.path("client", server).delay_us for server, placement, _ in SERVERS}
    family = npl.compare(npl.read(measured.path))
    assert len(list(family)) == 6
    for contrast, result in zip(measured.declared().contrasts, family, strict=True):
        a, b = truth[str(contrast.a["placement"])], truth[str(contrast.b["placement"])]
        assert result.verdict != ("worse" if a < b else "better"), result
        if max(a, b) / min(a, b) > 20:  # far outside what a busy machine adds to a delay
            assert (result.high < 1 / 2) if a < b else (result.low > 2), (result.reason, result)
            if "not independent" not in str(
                result.reason
            ):  # as rounds on a busy machine are by chance, and get none
                assert result.verdict == ("better" if a < b else "worse"), (result.reason, result)


def test_tables_can_be_deleted_and_made_again(measured):
    import shutil

    before = npl.load(measured.path)
    shutil.rmtree(measured.path / "tables")
    assert npl.ingest(measured.path) == len(before)
    assert npl.load(measured.path).equals(before)


def _marked(marker):
    """Processes that carry `marker` in their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def _in_namespaces(names):
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "ns" / "net").readlink()) in names:
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def _within(seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


def test_kill_9_leaves_nothing_behind_and_the_same_command_goes_on(tmp_path):
    file, root = declare(tmp_path, 2, contrasts=[]), tmp_path / "results"
    store, marker = Store(root, "small"), f"NETPERF_TEST_MARK={uuid.uuid4()}"
    name, _, value = marker.partition("=")
    words = command("collect", file, "--root", root)
    process = subprocess.Popen(
        words, env={**os.environ, name: value}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        assert _within(180, lambda: len(store.run_ids()) >= 2)
        own = str(Path("/proc/self/ns/net").readlink())
        namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in _marked(marker)} - {
            own
        }
        assert namespaces, "the lab's hosts are in namespaces of their own"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert _within(30, lambda: not _marked(marker) and not _in_namespaces(namespaces))
    complete = set(store.run_ids())
    assert all((store.path / "raw" / i / "run.json").is_file() for i in complete)

    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert complete < set(store.run_ids())
    runs = npl.load(store.path)
    good = runs[runs["status"] == "ok"]
    assert len(good) == 2 * len(SERVERS)
    assert not list((store.path / "raw").glob(".*"))
