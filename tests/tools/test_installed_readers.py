"""Readers of other packages: the one that the documentation shows, installed and used."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_extend import blocks

SECTION = "A reader of another tool"
[MODULE] = blocks("py", SECTION)
[PROJECT] = blocks("toml", SECTION)
LOG = """PING 10.0.0.5 (10.0.0.5) 56(84) bytes of data.
64 bytes from 10.0.0.5: icmp_seq=1 ttl=64 time=0.036 ms
64 bytes from 10.0.0.5: icmp_seq=3 ttl=64 time=0.052 ms

--- 10.0.0.5 ping statistics ---
3 packets transmitted, 2 received, 33.3333% packet loss, time 2031ms
rtt min/avg/max/mdev = 0.036/0.044/0.052/0.008 ms
"""


def install(folder, module):
    """Write what an installer writes: the module, and the metadata with its entry points."""
    project = tomllib.loads(PROJECT)["project"]
    (folder / "ping_reader.py").write_text(module)
    metadata = (
        folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    )
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1\n"
    )
    points = project["entry-points"]["netperf_lib.readers"]
    (metadata / "entry_points.txt").write_text(
        "[netperf_lib.readers]\n"
        + "".join(f"{name} = {module}\n" for name, module in points.items())
    )


def python(folder, *words, text=None):
    return subprocess.run(
        [sys.executable, *words],
        input=text,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(folder)},
        check=False,
    )


def parse(folder, text):
    return python(folder, "-m", "netperf_lib", "parse", "-", text=text)


def test_the_reader_of_the_documentation_reads_logs_of_ping(tmp_path):
    install(tmp_path, MODULE)
    result = parse(tmp_path, LOG * 2)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("ping icmp: ok") == 2
    assert re.search(r"Round-trip time +44 µs", result.stdout)
    assert re.search(r"Lost .* +1\n", result.stdout)
    assert (
        "ping icmp: failed: the log ends before its summary"
        in parse(tmp_path, LOG.partition("3 packets")[0]).stdout
    )
    assert len(MODULE.splitlines()) <= 40


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("raise RuntimeError('not today')", "RuntimeError: not today"),
        ("NAME = 'ping'", "has no attribute 'MARKS'"),
        (
            "from netperf_lib.tools.ntttcp import MARKS, NAME, find_runs, read",
            "there is another reader called ntttcp",
        ),
    ],
)
def test_a_reader_that_cannot_be_used_is_left_out_with_a_warning(
    tmp_path, module, message
):
    install(tmp_path, module)
    result = parse(
        tmp_path, (Path(__file__).parents[1] / "logs/qperf/aks-vvs-gb.txt").read_text()
    )
    assert result.returncode == 0
    assert "is left out" in result.stderr
    assert message in result.stderr


def test_a_metric_that_no_table_has_is_left_out_with_a_warning(tmp_path):
    install(tmp_path, MODULE.replace('"rtt_min_us"', '"rtt_least_us"'))
    result = parse(tmp_path, LOG)
    assert result.returncode == 0, result.stderr
    assert "ping icmp: ok" in result.stdout
    assert (
        "left out, since netperf_lib.metrics does not have it: rtt_least_us"
        in result.stdout
    )


def test_a_reader_may_be_imported_before_the_library(tmp_path):
    install(tmp_path, MODULE)
    code = "import ping_reader, netperf_lib.tools as t; print(t.readers()['ping'] is ping_reader)"
    result = python(tmp_path, "-W", "error", "-c", code)
    assert result.stdout == "True\n", result.stderr
