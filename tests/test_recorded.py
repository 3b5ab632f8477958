"""The experiment in the box: measured on the lab with real tools, whole, small, and labelled for what it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import netperf_lib as npl
from netperf_lib import pipeline
from netperf_lib.errors import LabError
from netperf_lib.hosts.lab.topology import Options
from netperf_lib.store import Store


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(npl.recorded(), tmp_path_factory.mktemp("recorded") / "lab-full"))


def test_it_is_whole_and_small(recorded: Path) -> None:
    assert sum(f.stat().st_size for f in npl.recorded().rglob("*") if f.is_file()) <= 5_000_000
    runs = npl.load(recorded)
    declared = Store.at(recorded).declared()
    assert declared.rounds >= 12
    ok = runs[runs["status"] == "ok"]
    rounds = ok.groupby(
        ["tool", "test", "placement", "accelerated", "streams", "tcp_buffer_bytes", "during"], dropna=False
    )
    assert set(rounds["round"].nunique()) == {declared.rounds}
    assert {"ppg", "same-zone", "cross-zone", "cross-region"} == set(runs["placement"])
    assert set(runs["accelerated"].dropna()) == {True, False}
    assert runs["streams"].nunique() >= 4
    assert runs["tcp_buffer_bytes"].nunique() >= 4
    assert runs["during"].notna().any()
    assert {"qperf", "sockperf", "iperf3"} == set(runs["tool"])


def test_its_tables_say_what_its_raw_logs_say(recorded: Path) -> None:
    shipped = npl.load(recorded)
    shutil.rmtree(recorded / "tables", ignore_errors=True)
    anew = npl.load(recorded)
    assert anew.equals(shipped)


def test_it_is_labelled_as_an_emulation(recorded: Path) -> None:
    assert "Emulated hosts" in npl.load(recorded).attrs["notice"]


def test_its_verdicts_do_not_contradict_the_delays_that_the_lab_was_given(recorded: Path) -> None:
    lab = Options()
    truth = {
        ("ppg", True): lab.path("client", "ppg").delay_us,
        ("same-zone", True): lab.path("client", "zone").delay_us,
        ("cross-zone", True): lab.path("client", "xzone").delay_us,
        ("cross-region", True): lab.path("client", "region").delay_us,
        ("same-zone", False): lab.path("client", "plain").delay_us,
    }
    judged = 0
    family = npl.compare(npl.load(recorded))
    for contrast, result in zip(Store.at(recorded).declared().contrasts, family, strict=True):
        if contrast.metric == "latency_oneway_us":
            a, b = (truth[str(s["placement"]), bool(s.get("accelerated", True))] for s in (contrast.a, contrast.b))
            assert result.verdict != ("worse" if a < b else "better"), result
            judged += 1
    assert judged == 4


def test_where_no_lab_can_run_the_report_is_made_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*_: object, **__: object) -> None:
        raise LabError("no /dev/net/tun here")

    said: list[str] = []
    monkeypatch.setattr(pipeline, "collect", cannot)
    monkeypatch.setattr("netperf_lib.report.report", lambda url: [Path(url) / "reports" / "report.pdf"])
    with pytest.raises(LabError):
        pipeline.run("lab.yaml", root=tmp_path, say=said.append)
    [made] = pipeline.run("lab.yaml", root=tmp_path, or_recorded=True, say=said.append)
    assert made == tmp_path / "lab-full-recorded" / "reports" / "report.pdf"
    assert "no /dev/net/tun here" in said[0]
    assert len(npl.load(tmp_path / "lab-full-recorded")) > 200
