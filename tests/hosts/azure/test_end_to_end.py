"""The real az over HTTPS against the emulated cloud, and real SSH to a stand-in for every VM.

Nothing here was ever run against Azure itself; `make test-azure` does that, with the experiment of
`test_real.py`.
"""

import json
import re
import signal
import subprocess
import sys

import pytest
import yaml

from netperf_lib import pipeline
from netperf_lib.data.load import load
from netperf_lib.experiment.placements import PLACED
from netperf_lib.hosts import azure
from netperf_lib.hosts.azure import az as az_module
from netperf_lib.hosts.azure.failures import AzError

from ...conftest import REPO
from ...sshd import wait_until
from . import test_real
from .cloud import BASE, SUBSCRIPTION, Fault
from .conftest import PRICES, experiment, nothing_is_left
from .direct import DirectAz
from .test_checks import SUBJECTS
from .test_place import EVERY, outside
from .transcript import program, typed, whole_way


def write(declared, folder):
    place = folder / f"{declared.name}.yaml"
    document = declared.model_dump(mode="json", exclude_defaults=True)
    place.write_text(yaml.safe_dump(document), "utf-8")
    return place


@pytest.mark.slow
def test_every_placement_is_measured_once_and_removed(world, tmp_path):
    assert {p.split()[2] for p in EVERY} == set(PLACED)
    kept = outside(world.cloud)
    world.machines.without_vf.add("z")
    root, file = tmp_path / "data", write(experiment(*EVERY, **world.options()), tmp_path)
    pipeline.collect(file, root=root, rounds=1, duration_s=0.3, anyway=True)
    nothing_is_left(world.cloud, tmp_path)
    assert world.cloud.resources == kept
    runs = load(root / "probe").set_index("server")
    assert sorted(runs["placement"]) == sorted(p.split()[2] for p in EVERY)
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert runs.loc["x", "server_zone_physical"] == "westeurope-az2"
    assert runs.loc["r", "server_region"] == "northeurope"
    assert not runs.loc["y", "accelerated"]
    record = json.loads(next((root / "probe" / "raw").glob("*/run.json")).read_text())
    proofs = [p for host in record["hosts"].values() for p in host["proofs"]]
    doubtful = {proof["claim"] for proof in proofs if not proof["holds"]}
    assert doubtful <= {"virtual function present and up in the guest"}


def npl(world, folder, python=None):
    """Return an environment whose `npl` asks the emulator, and waits for nothing."""
    base = world.emulator.base
    pace = (
        "from netperf_lib.hosts.azure import az, groups, prices; "
        "az.POLL_S, az.LAG_S, groups.LOOKS_S = 0.2, 0, 0; "
        f"prices.PRICES_URL, prices.ADDRESS_URL = '{base}/prices', '{base}/address'"
    )
    return program(folder, pace, python or world.python)


@pytest.mark.slow
def test_what_make_test_azure_runs_goes_the_whole_way(world, tmp_path):
    declared = test_real.declared()
    more = {k: v for k, v in world.options(prices=PRICES).items() if v is not None}
    declared.hosts.options.update(more)
    shown, codes = whole_way(declared, tmp_path, npl(world, tmp_path))
    assert not any(codes), shown
    assert re.findall(r"^ok +(.+?)  ", shown, re.MULTILINE) == list(SUBJECTS)
    assert "NOT TRUE" not in shown
    assert "claims are proven" in shown
    assert SUBSCRIPTION not in shown
    assert "203.0.113" not in shown
    nothing_is_left(world.cloud, tmp_path)


@pytest.mark.slow
def test_the_tutorial_as_it_is_typed(world, tmp_path):
    """With one round of short tests."""
    file = tmp_path / "data" / "experiments" / "azure-first.yaml"
    file.parent.mkdir(parents=True)
    declared = yaml.safe_load((REPO / file.relative_to(tmp_path)).read_text("utf-8"))
    declared["rounds"] = 1
    qperf, iperf3 = declared["tests"]
    qperf["duration_s"] = 0.3
    # as fast as loopback can it would keep two processors busy
    iperf3 |= {"duration_s": 1, "omit_s": 0, "options": {"bitrate": "5M"}}
    file.write_text(yaml.safe_dump(declared), "utf-8")
    text = (REPO / "docs" / "tutorials" / "azure.md").read_text("utf-8")
    for line in re.findall(r"^\$ (npl .*)", text, re.MULTILINE):
        code, shown = typed(line, tmp_path, npl(world, tmp_path))
        assert code == 0, shown
    runs = load(tmp_path / "results" / "azure-first")
    assert set(runs["status"]) == {"ok"}, runs["error"].to_list()
    assert (tmp_path / "azure-first-template" / "template.json").exists()
    nothing_is_left(world.cloud, tmp_path / "results")


@pytest.mark.slow
def test_the_az_of_the_fast_tests_answers_as_the_real_one(world, tmp_path):
    """As far as anybody reads it."""
    declared = experiment("a b ppg", "a r cross-region", **world.options())
    made = azure.up(declared, number=1, state=tmp_path)
    ours, real = DirectAz(world.cloud), az_module.Az()
    kind = "Microsoft.Compute/proximityPlacementGroups"
    ppg = world.cloud.alike(kind)["ppg-westeurope-1"]["id"]
    within = f"--resource-group {made.deployment_id}"
    for command in (
        f"rest --method get --url {BASE}/locations?api-version=2022-12-01",
        "group list --tag netperf-experiment",
        f"deployment group list {within}",
        f"deployment group show {within} --name npl-1",
        f"vm list {within} --show-details",
        f"network nic list {within}",
        f"ppg show --include-colocation-status --ids {ppg}",
    ):
        words = command.split()
        assert set(facts(ours(*words))) <= set(facts(real(*words))), command
    azure.down(declared, state=tmp_path)
    nothing_is_left(world.cloud, tmp_path)


IGNORED = {"etag", "provisioningState", "parameters", "type", "properties"}


def facts(node, where=""):
    """Every value in a document, with its place."""
    if not isinstance(node, (dict, list)):
        if node not in (None, ""):
            yield where, str(node).lower()
        return
    for name, entry in node.items() if isinstance(node, dict) else enumerate(node):
        if name not in IGNORED:
            yield from facts(entry, f"{where}.{name}")


@pytest.mark.slow
def test_passing_trouble_is_got_over(world, tmp_path):
    world.cloud.faults += [
        Fault("request", "PUT .*resourcegroups/[^/]*$", 503, times=2, body=""),
        Fault("request", "PUT .*deployments/npl-1$", 429, "TooManyRequests", times=2),
    ]
    declared = experiment(**world.options())
    assert len(azure.up(declared, number=1, state=tmp_path).hosts) == 2
    assert not any(f.times for f in world.cloud.faults)
    azure.down(declared, state=tmp_path)
    nothing_is_left(world.cloud, tmp_path)


def test_nobody_logged_in(world, tmp_path):
    world.emulator.logout()
    with pytest.raises(AzError, match="nobody is logged in to az; run `az login`"):
        azure.up(experiment(**world.options()), number=1, state=tmp_path)
    assert not world.cloud.groups


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("verb", "moment"),
    [
        ("up", "/whatIf"),
        ("up", "PUT .*/resourceGroups/[^/]*$"),
        ("up", "PUT .*/deployments/"),
        ("up", "GET .*/deployments/"),
        ("up", "/virtualMachines"),
        ("down", "GET .*/resourceGroups/[^/]*$"),
        ("down", "DELETE"),
    ],
)
def test_a_real_signal_leaves_nothing_in_silence(
    world, tmp_path, monkeypatch, verb, moment, number
):
    """Sent to a process of its own, once it has made a request."""
    file = write(experiment("a b ppg", **world.options()), tmp_path)
    if verb == "down":
        pipeline.up(file, root=tmp_path / "results")
        # what is deleted is still there when the signal comes
        monkeypatch.setattr(world.cloud, "step_s", 2)
    seen = world.cloud.requests
    seen.clear()
    environment = npl(world, tmp_path, sys.executable)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    words = [tmp_path / "bin" / "npl", verb, file.name]
    with subprocess.Popen(words, cwd=tmp_path, env=environment, **pipes) as process:
        assert wait_until(lambda: re.search(moment, "\n".join(seen), re.I | re.M), 120)
        process.send_signal(number)
        shown, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + number
    assert "Traceback" not in shown
    assert set(world.cloud.groups) <= {"net"} or "may exist and cost money" in shown
    code, shown = typed(f"npl down {file.name}", tmp_path, npl(world, tmp_path))
    assert code == 0, shown
    nothing_is_left(world.cloud, tmp_path)
