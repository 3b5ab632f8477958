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


def test_it_is_whole_and_small_and_labelled_as_an_emulation(recorded):
    files = [f.stat().st_size for f in npl.recorded().rglob("*") if f.is_file()]
    assert sum(files) <= 5_600_000
    assert "Emulated hosts" in npl.read(recorded).notice
    runs = npl.load(recorded)
    factors = "tool test placement accelerated streams tcp_buffer_bytes during".split()
    rounds = runs[runs["status"] == "ok"].groupby(factors, dropna=False)["round"]
    assert {*rounds.nunique()} == {declaration(recorded).experiment.rounds}


def test_its_tables_say_what_its_raw_logs_say(recorded):
    shipped = npl.load(recorded)
    shutil.rmtree(recorded / "tables", ignore_errors=True)
    anew = npl.load(recorded)
    assert anew.equals(shipped)


def test_its_verdicts_do_not_contradict_the_delays_of_the_lab(recorded):
    servers = {
        ("ppg", True): "ppg",
        ("same-zone", True): "zone",
        ("cross-zone", True): "xzone",
        ("cross-region", True): "region",
        ("same-zone", False): "plain",
    }

    def delay_us(side):
        server = servers[str(side["placement"]), bool(side.get("accelerated", True))]
        return Options().path("client", server).delay_us

    experiment = npl.read(recorded)
    judged = [*zip(experiment.contrasts, npl.compare(experiment), strict=True)]
    latency = [pair for pair in judged if pair[0].metric == "latency_oneway_us"]
    assert len(latency) == 4
    for contrast, c in latency:
        slower = delay_us(contrast.a) >= delay_us(contrast.b)
        assert c.verdict != ("better" if slower else "worse"), c


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0, reason="hiding /dev/net/tun from one process needs root"
)
def test_where_no_lab_can_run_the_report_is_made_from_it(tmp_path):
    hide = 'mount -t tmpfs none /dev/net && exec "$@"'
    experiment = REPO / "data" / "experiments" / "lab.yaml"
    words = ["unshare", "--mount", "sh", "-c", hide, "sh", sys.executable]
    words += ["-m", "netperf_lib", "run", experiment]
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
