"""The experiment in the box: measured on the lab with real tools, whole, small, and labelled for
what it is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pypdf
import pytest

import netperf_lib as npl
from netperf_lib.data.declaration import declaration
from netperf_lib.hosts.lab.topology import Options

from .conftest import REPO


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return Path(
        shutil.copytree(npl.recorded(), tmp_path_factory.mktemp("recorded") / "lab-full")
    )


def test_it_is_whole_and_small(recorded):
    assert (
        sum(f.stat().st_size for f in npl.recorded().rglob("*") if f.is_file())
        <= 5_600_000
    )
    runs = npl.load(recorded)
    declared = declaration(recorded).experiment
    assert declared.rounds >= 12
    ok = runs[runs["status"] == "ok"]
    rounds = ok.groupby(
        [
            "tool",
            "test",
            "placement",
            "accelerated",
            "streams",
            "tcp_buffer_bytes",
            "during",
        ],
        dropna=False,
    )
    assert set(rounds["round"].nunique()) == {declared.rounds}
    assert {"ppg", "same-zone", "cross-zone", "cross-region"} == set(runs["placement"])
    assert set(runs["accelerated"].dropna()) == {True, False}
    assert runs["streams"].nunique() >= 4
    assert runs["tcp_buffer_bytes"].nunique() >= 4
    assert runs["during"].notna().any()
    assert {"qperf", "sockperf", "iperf3"} == set(runs["tool"])


def test_its_tables_say_what_its_raw_logs_say(recorded):
    shipped = npl.load(recorded)
    shutil.rmtree(recorded / "tables", ignore_errors=True)
    anew = npl.load(recorded)
    assert anew.equals(shipped)


def test_it_is_labelled_as_an_emulation(recorded):
    assert "Emulated hosts" in npl.read(recorded).notice


def test_its_verdicts_do_not_contradict_the_delays_of_the_lab(recorded):
    lab = Options()
    truth = {
        ("ppg", True): lab.path("client", "ppg").delay_us,
        ("same-zone", True): lab.path("client", "zone").delay_us,
        ("cross-zone", True): lab.path("client", "xzone").delay_us,
        ("cross-region", True): lab.path("client", "region").delay_us,
        ("same-zone", False): lab.path("client", "plain").delay_us,
    }
    judged = 0
    family = npl.compare(npl.read(recorded))
    for contrast, result in zip(
        declaration(recorded).experiment.contrasts, family, strict=True
    ):
        if contrast.metric == "latency_oneway_us":
            a, b = (
                truth[str(s["placement"]), bool(s.get("accelerated", True))]
                for s in (contrast.a, contrast.b)
            )
            assert result.verdict != ("worse" if a < b else "better"), result
            judged += 1
    assert judged == 4


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0, reason="hiding /dev/net/tun from one process needs root"
)
def test_where_no_lab_can_run_the_report_is_made_from_it(tmp_path):
    hide = "mount -t tmpfs none /dev/net"
    hidden = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'{hide} && exec "$@"',
        "sh",
        sys.executable,
    ]
    words = [
        *hidden,
        "-m",
        "netperf_lib",
        "run",
        REPO / "data" / "experiments" / "lab.yaml",
    ]
    words += "--root results --or-recorded --pdf report.pdf".split()
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing can be measured here" in done.stderr
    assert "/dev/net/tun" in done.stderr
    report = pypdf.PdfReader(tmp_path / "report.pdf")
    outline = [c for c in report.outline if isinstance(c, pypdf.generic.Destination)]
    chapters = {report.get_destination_page_number(c) for c in outline}
    assert chapters
    for number in {0, *filter(None, chapters)}:
        assert "Emulated hosts" in report.pages[number].extract_text()
    assert len(npl.load(tmp_path / "results" / "lab-full-recorded")) > 200
