"""The command line as a user types it: real processes, exit codes, one line for an error and never
a traceback."""

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import click
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib import cli
from netperf_lib.cli import npl as command_line
from netperf_lib.errors import NetperfError
from netperf_lib.hosts import lab
from netperf_lib.hosts.prerequisites import doctor
from netperf_lib.measure.collector import collect
from netperf_lib.terminal import text, verdict_blocks

from .conftest import REPO

RECORDED = REPO / "data" / "recorded" / "lab-full"
STUDY = REPO / "data" / "experiments" / "study-paths.yaml"


def shown(*words, code=0, **env):
    """Return what a command prints, in this process, to be quick."""
    done = CliRunner().invoke(command_line, [str(word) for word in words], env=env)
    found = (
        done.exception.exit_code
        if isinstance(done.exception, NetperfError)
        else done.exit_code
    )
    assert found == code, done.output + repr(done.exception)
    return done.output


def test_a_plan_says_what_it_costs():
    words = "plan", RECORDED / "experiment.yaml"
    cost = "nothing: the lab is this machine"
    assert f"\ncost: {cost}\n" in shown(*words)
    assert json.loads(shown(*words, "--json"))["estimates"]["cost"] == cost


def test_a_plan_says_that_an_ssh_config_can_run_programs(tmp_path):
    declared = yaml.safe_load((RECORDED / "experiment.yaml").read_text("utf-8"))
    names = {
        name for pair in declared["pairs"] for name in (pair["client"], pair["server"])
    }
    machines = {name: {"address": "192.0.2.1"} for name in names}
    options = {"ssh_config": "theirs", "hosts": machines}
    declared["hosts"] = {"source": "inventory", "options": options}
    (tmp_path / "theirs").write_text("")
    (tmp_path / "e.yaml").write_text(yaml.safe_dump(declared), "utf-8")
    assert "theirs can run programs on this machine" in shown("plan", tmp_path / "e.yaml")


def test_doctor_says_what_is_missing_and_how_to_get_it(tmp_path):
    python = Path(sys.executable)
    (tmp_path / "python").symlink_to(python)
    told = shown("doctor", code=1, PATH=str(tmp_path))
    assert re.search("^ok +Python", told)
    remedies = re.findall(r"^(\S+) \([\w ]+\): (.*)$", told, re.MULTILINE)
    missing = {what: shlex.split(remedy) for what, remedy in remedies}
    assert missing["qperf"][-3:] == ["apt-get", "install", "qperf"]
    pip = missing.get(
        "az", [sys.executable, *"-m pip install azure-cli".split()]
    )  # az may lie beside the Python
    assert Path(pip[0]).samefile(python), "Debian refuses a plain pip"
    assert pip[1:5] == ["-m", "pip", "install", "azure-cli"]


def test_doctor_finds_the_az_that_would_be_run(tmp_path, monkeypatch):
    (tmp_path / "az").touch(0o755)
    monkeypatch.setattr(lab, "check", lambda: None)  # which starts this Python
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    findings = {finding.what: finding for finding in doctor()}
    assert (findings["az"].ok, findings["az"].found) == (True, str(tmp_path / "az"))
    assert {"qperf", "iperf3", "iperf", "sockperf", "ssh", "sshd"} <= set(findings)
    assert all(bool(finding.remedy) != finding.ok for finding in findings.values())


def test_a_verb_stays_a_function_whatever_was_imported_before():
    """A module of the same name would take its place as soon as anything imports it."""
    verbs = [name for name in npl.__all__ if inspect.isfunction(getattr(npl, name))]
    assert {"doctor", "plan", "report"} <= {*verbs}
    assert [name for name in verbs if find_spec(f"netperf_lib.{name}")] == []


PLACES = {
    "absent": "no-such",
    "folder": "folder",
    "file": "empty",
    "below a file": "empty/below",
    "binary": "binary",
    "loop": "loop",
    "long": "x" * 300,
    "nothing": "",
    "dash": "-",
    "braces": "{}",
    "not UTF-8": "\udcff",
    "newline": "a\nb",
    "text": "text",
}
"""What may stand where a file or a folder is expected."""
TAKING_ONE = """
    plan {}
    collect {}
    collect good.yaml --root {}
    run {}
    up {}
    down {}
    ingest {} --workers 1
    compare {}
    report {}
    lab shell a true --folder {}
    lab up {}
"""
ODD = f"""
    plan good.yaml --seed -1
    plan good.yaml --seed {2**70}
    plan good.yaml --rounds 0
    plan good.yaml --rounds -3
    plan good.yaml --rounds +x
    plan good.yaml --rounds 1e9
    plan good.yaml --duration nan
    plan good.yaml --duration inf
    compare good.yaml --margin much
    collect good.yaml --seed x
    ingest folder --workers 0
    report folder -p x
    report folder --to docx
    lab shell
    lab
    ''
    --nothing
"""
LINES = {line.strip(): shlex.split(line) for line in ODD.strip().splitlines()}
for _number, _line in enumerate(TAKING_ONE.strip().splitlines()):
    # each command with four places, and each place with five commands
    for _place in list(PLACES)[_number % 3 :: 3]:
        LINES[f"{_line.strip()}, {_place}"] = [
            w.replace("{}", PLACES[_place]) for w in _line.split()
        ]


GOOD = """
name: odd
rounds: 1
hosts:
  source: inventory
  options: {hosts: {a: {address: 127.0.0.1, port: 1}, b: {address: 127.0.0.1, port: 1}}}
pairs: [{client: a, server: b, placement: ppg}]
tests: [{tool: qperf, test: tcp_lat, duration_s: 1}]
"""


@pytest.fixture
def odd_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 50)
    (tmp_path / "text").write_text("not: [an experiment")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "good.yaml").write_text(GOOD)


@pytest.mark.usefixtures("odd_places")
@pytest.mark.parametrize("words", LINES.values(), ids=LINES)
def test_an_odd_command_line_is_one_clear_error(words, monkeypatch, capfd):
    """In this process, to be quick: what `main` lets through would be a traceback."""
    monkeypatch.setattr(sys, "argv", ["npl", *words])
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setitem(
        collect.__kwdefaults__, "patience_s", 0.0
    )  # hosts that refuse are not waited for
    code = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code
    out, err = capfd.readouterr()
    assert code in (0, 1, 2), (code, out, err)
    assert code == 0 or len(err + out) > 10
    assert "Traceback" not in out + err


def test_an_interrupt_while_a_library_is_imported_has_its_exit_code(tmp_path):
    """Libraries write code as they are imported: `dataclass` does, and executes it."""
    (tmp_path / "started.py").write_text(
        "from netperf_lib import cli\n"
        "cli.npl.main = lambda **_: exec('raise KeyboardInterrupt')\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-m", "started"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "npl: interrupted\n"


def verbs(group, path=()):
    for name, command in group.commands.items():
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from verbs(command, (*path, name))


def test_every_command_shows_an_example_that_it_takes():
    for path, command in verbs(command_line):
        examples = (command.epilog or "").partition("Example:\n")[2].split("\n")
        assert examples[0].strip(), path
        for line in examples:
            words = shlex.split(line.partition("npl ")[2].partition(" > ")[0])
            assert tuple(words[: len(path)]) == path
            if not isinstance(command, click.Group):
                command.make_context(command.name, words[len(path) :])


def test_the_shell_completes_files():
    words = {
        "_NPL_COMPLETE": "bash_complete",
        "COMP_WORDS": "npl compare data/",
        "COMP_CWORD": "2",
    }
    command = Path(sys.executable).parent / "npl"
    done = subprocess.run(
        [command], capture_output=True, text=True, timeout=60, env={**os.environ, **words}
    )
    assert done.stdout.strip() == "file,data/"


def test_show_says_what_is_in_an_experiment():
    text = shown("show", RECORDED)
    assert "264 (264 ok)" in text
    assert "cross-region" in text
    assert "throughput_bps: Throughput at the receiver" in text
    (one,) = json.loads(shown("show", RECORDED, "--json"))
    assert one["factors"]["placement"] == "ppg, same-zone, cross-zone, cross-region"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """What a comparison prints on 80 columns, and its table."""
    file = tmp_path_factory.mktemp("compared") / "out.csv"
    return shown("compare", RECORDED, "--csv", file, COLUMNS="80"), pd.read_csv(file)


def test_what_is_compared_by_rule_says_first_that_it_is_no_measurement(compared):
    assert compared[0].startswith("Emulated hosts: network namespaces")


@pytest.mark.parametrize(
    "words",
    [
        ["compare", RECORDED, "--by", "placement", "--metric", "latency_oneway_us"],
        ["compare", RECORDED, RECORDED.with_name("paths")],
        ["limits", RECORDED],
    ],
    ids=["by", "two", "limits"],
)
def test_what_is_no_measurement_says_so_first(words):
    assert shown(*words).startswith("Emulated hosts: network namespaces")


def test_an_emulated_experiment_says_so_below_its_title():
    below = shown("show", RECORDED).splitlines()[1]
    assert below.split(maxsplit=1)[1].startswith("Emulated hosts")


def test_a_mistyped_level_names_the_levels():
    words = ["compare", str(RECORDED), "--where", "placement=pgp"]
    done = CliRunner().invoke(command_line, words)
    assert str(done.exception) == (
        "placement is never 'pgp' in runs of latency_oneway_us; "
        "it is ppg, same-zone, cross-zone, cross-region"
    )


def test_a_folder_of_experiments_names_them():
    done = CliRunner().invoke(command_line, ["compare", str(RECORDED.parent)])
    named = "no experiment.yaml); it holds the experiments after, before, day, lab-full,"
    assert named in str(done.exception)


def test_a_table_is_as_wide_as_the_terminal(compared):
    printed = compared[0], shown("compare", RECORDED, COLUMNS="160")
    narrow, wide = (max(map(len, lines.splitlines())) for lines in printed)
    assert narrow <= 80 < wide <= 160


def test_a_table_of_a_narrow_terminal_breaks_no_word():
    family = npl.compare(RECORDED)
    limits = "the rate that was asked for", "advertised bandwidth"
    odd = replace(
        family[1],
        verdict="inconclusive",
        names=("16 MiB TCP buffer", "no accelerated networking"),
        warnings=("one", "two", "three"),
        limited_by=limits,
        low=0.2,
        high=5,
    )
    shown = text(verdict_blocks(replace(family, comparisons=(odd,))), 80)
    assert {*" ".join([*limits, *odd.names]).split()} <= {*shown.split()}
    assert max(map(len, shown.splitlines())) <= 80


def test_a_margin_is_a_percentage():
    words = "compare", RECORDED, "--by", "placement", "--metric", "latency_oneway_us"
    assert "exploratory" in shown(*words, "--margin", "5%")
    done = CliRunner().invoke(command_line, [*map(str, words), "--margin", "5"])
    assert "write a share above 0 and below 1" in str(done.exception)


def test_verdicts_can_be_written_as_csv(compared):
    assert list(compared[1]["verdict"]).count("equivalent") == 3


def test_what_is_shown_can_be_written_as_csv(tmp_path):
    shown("show", RECORDED, "--csv", tmp_path / "out.csv")
    assert set(pd.read_csv(tmp_path / "out.csv")["what"]) > {"factors", "metrics"}


@pytest.mark.parametrize(
    "line", ["compare data --where-after tool=qperf", "down mine.yaml --expired"]
)
def test_an_option_that_would_mislead_is_refused(line):
    shown(*(w if w != "data" else RECORDED for w in line.split()), code=2)
