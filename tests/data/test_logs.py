"""Logs on disk: one, many at a time, as JSON, as tables; and those that others published."""

import gzip
import json
import math
import os
import shutil
import subprocess
import tarfile
import tempfile
import tracemalloc
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib import tools
from netperf_lib.cli import npl as command
from netperf_lib.data import logs
from netperf_lib.data.logs import parse_ends, parse_files
from netperf_lib.data.shipped import shipped
from netperf_lib.errors import NetperfError, ParseError

PUBLISHED = shipped("data", "published")
LOGS = Path(__file__).parents[1] / "logs"
ONE = LOGS / "iperf3" / "gen-3.12-bidir-P2.json"


def test_a_path_a_text_and_bytes_are_the_same_log():
    (of_path,) = npl.parse(ONE)
    (of_name,) = npl.parse(str(ONE))
    (of_text,) = npl.parse_text(ONE.read_text())
    (of_bytes,) = npl.parse_text(ONE.read_bytes())
    assert of_path.metrics == of_name.metrics == of_text.metrics == of_bytes.metrics
    assert of_path.file == str(ONE)
    assert of_text.file is None


def test_a_missing_file_is_one_sentence():
    with pytest.raises(FileNotFoundError, match=r"no-such\.log"):
        npl.parse("no-such.log")


def test_what_is_no_log_names_the_tools(tmp_path):
    (tmp_path / "a.txt").write_text("Dear diary, the network was slow.\n")
    with pytest.raises(ParseError) as refusal:
        npl.parse(tmp_path / "a.txt")
    assert all(name in str(refusal.value) for name in tools.readers())
    assert str(refusal.value).startswith(str(tmp_path / "a.txt"))


def test_the_verb_prints_one_list_of_json(tmp_path):
    two = LOGS / "iperf3" / "gen-3.12-server-3tests-concatenated.json"
    done = CliRunner().invoke(command, ["parse", "--json", str(ONE), str(two)])
    assert done.exit_code == 0
    found = json.loads(done.output)
    assert [(r["file"], r["line"]) for r in found] == [
        (str(ONE), 1),
        *((str(two), n) for n in (1, 109, 217, 325)),
    ]
    assert set(found[0]) == {
        "file", "line", "tool", "tool_version", "test", "status", "error", "warnings",
        "parameters", "metrics", "intervals", "percentiles",
    }  # fmt: skip


def test_the_verb_tells_what_it_could_not_read_and_reads_the_rest(tmp_path):
    done = CliRunner().invoke(command, ["parse", str(ONE), str(tmp_path / "gone.log")])
    assert done.exit_code == 1
    assert "gone.log: No such file or directory" in done.output
    assert "597 Mbit/s" in done.output or "598 Mbit/s" in done.output
    assert "Traceback" not in done.output


SCALE = {"us": 1.0, "ms": 1e3, "Gbit/s": 1e9, "Mbit/s": 1e6}


def test_published_logs_parse_to_the_printed_figures():
    figures = pd.read_csv(PUBLISHED / "figures.tsv", sep="\t", dtype=str)
    checked = 0
    for _, row in figures[figures["raw_log"].notna()].iterrows():
        runs = [run for log in PUBLISHED.glob(row["raw_log"]) for run in npl.parse(log)]
        metrics = pd.DataFrame([run.metrics for run in runs if run.status == "ok"])
        # the logs of iperf 2 are the clients': what they print is what was sent
        names = ["latency_oneway_us", "throughput_bps", "throughput_sent_bps"]
        values = metrics[next(name for name in names if name in metrics)]
        mean, digits = (
            values.mean() / SCALE[row["unit"]],
            len(row["value"].partition(".")[2]),
        )
        if "truncated" in str(row["note"]):
            mean = math.floor(mean)
        assert round(mean, digits) == float(row["value"]), row["raw_log"]
        checked += len(values)
    assert checked == len([p for p in PUBLISHED.glob("*/*") if p.is_file()])


IPERF2 = LOGS / "iperf2"
DIFFERENT = (LOGS / "iperf3" / "gen-3.12-udp.json").read_text()


def test_what_arrived_comes_from_the_server_where_the_client_cannot_know_it():
    ends = IPERF2 / "gen-tcp.txt", IPERF2 / "gen-tcp-e-server.txt"
    (alone,), (told,) = map(npl.parse, ends)
    (both,) = parse_ends(*ends)
    received = {
        name: told.metrics[name] for name in ("throughput_bps", "transferred_bytes")
    }
    assert both.metrics.items() >= received.items()
    assert both.metrics.items() >= alone.metrics.items()  # the client's own figures stay
    assert not received.keys() & alone.metrics.keys()
    reverse = IPERF2 / "gen-reverse-e.txt"  # needs nothing of its server
    assert parse_ends(reverse, ends[1])[0].metrics == npl.parse(reverse)[0].metrics


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("Segmentation fault\n", "no run of a known tool"),
        (DIFFERENT, "another test"),
    ],
    ids=["empty", "crashed", "another"],
)
def test_a_server_that_does_not_tell_what_arrived_is_a_warning(tmp_path, text, why):
    (tmp_path / "server.out").write_text(text)
    client = IPERF2 / "gen-tcp.txt"
    (run,) = parse_ends(client, tmp_path / "server.out")
    assert (run.status, run.metrics) == ("ok", npl.parse(client)[0].metrics)
    [warning] = [w for w in run.warnings if "server.out does not tell what arrived" in w]
    assert why in warning


def test_a_packed_log_is_read_and_another_packer_is_named(tmp_path):
    data = (LOGS / "qperf" / "gen-v.txt").read_bytes()
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(data))
    assert [r.metrics for r in npl.parse(packed)] == [
        r.metrics for r in npl.parse_text(data)
    ]
    packed.write_bytes(gzip.compress(data)[:-20])
    with pytest.raises(ParseError, match="packed by gzip and damaged"):
        npl.parse(packed)
    packed.write_bytes(b"PK\x03\x04....")
    with pytest.raises(ParseError, match="packed by zip; unpack it first"):
        npl.parse(packed)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_of_a_stranger_is_named_and_nothing_of_it_is_written(tmp_path, mode):
    inside = tmp_path / "inside"
    inside.mkdir()
    with tarfile.open(inside / "logs", mode) as archive:
        archive.add(LOGS / "qperf" / "gen-v.txt", "../../evil.txt")
    for read in (npl.parse, lambda place: npl.import_logs(place, into=tmp_path / "mine")):
        with pytest.raises(NetperfError, match="packed by tar; unpack it first"):
            read(inside / "logs")
    assert [p.name for p in tmp_path.rglob("*")] == ["inside", "logs"]


def test_a_packed_log_that_unpacks_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_BYTES", 32 << 20)
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(b"0" * (64 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(ParseError, match="when it is unpacked"):
            npl.parse(packed)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20  # nothing is held, of 64 MiB
    finally:
        tracemalloc.stop()


def test_a_log_too_large_for_the_memory_is_refused_at_once(tmp_path, monkeypatch):
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(4 << 30)  # a hole
    with pytest.raises(ParseError, match="larger than 1 GiB: split it"):
        npl.parse(large)
    monkeypatch.setattr(tools.reading, "LARGEST", 1 << 10)
    document = (LOGS / "iperf3" / "gen-3.12-udp.json").read_bytes()
    assert npl.parse_text(document)[0].status == "ok"
    with pytest.raises(
        ParseError, match=r"larger than .* not a complete iperf3 JSON document"
    ):
        npl.parse_text(document[:-100])


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    place = tmp_path / "pipe"
    if kind == "fifo":
        os.mkfifo(place)
    else:
        place = Path("/dev/zero")
    with pytest.raises(ParseError, match="not a regular file"):
        npl.parse(place)


def test_what_may_not_be_read_in_a_folder_is_told_and_the_rest_is_read():
    with (
        tempfile.TemporaryDirectory() as name
    ):  # not below pytest's folder, which is root's alone
        folder = Path(name)
        for inside, mode in (("open", 0o755), ("closed", 0), ("listed", 0o444)):
            (folder / inside).mkdir()
            shutil.copy(LOGS / "qperf" / "gen-v.txt", folder / inside / "a.txt")
            (folder / inside).chmod(
                mode
            )  # of the last its names may be read, the files not
        folder.chmod(0o755)
        parse_files(
            [folder / "open"]
        )  # imports what another user might not be allowed to read
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)  # root may read everything
            runs, errors = parse_files([folder])
            matched = parse_files([folder / "listed" / "*.txt"])
        finally:
            os.seteuid(user)
    assert {r["file"] for r in runs} == {str(folder / "open" / "a.txt")}
    closed, listed = (
        f"{folder / place}: Permission denied; choose another location, or get permission to "
        "use this one"
        for place in ("closed", "listed/a.txt")
    )
    assert sorted(errors) == [closed, listed]
    assert matched == ([], [listed])


def test_a_folder_a_pattern_and_the_standard_input_are_logs(tmp_path, python):
    (tmp_path / "deep").mkdir()
    shutil.copy(LOGS / "qperf" / "gen-v.txt", tmp_path / "b.txt")
    shutil.copy(
        LOGS / "sockperf" / "gen-lowrate-few-obs.txt", tmp_path / "deep" / "a.txt"
    )
    (tmp_path / ".hidden").write_text("no log")
    runs, errors = parse_files([tmp_path])
    assert (sorted({r["tool"] for r in runs}), errors) == (["qperf", "sockperf"], [])
    assert parse_files([tmp_path / "*.txt"])[0] == parse_files([tmp_path / "b.txt"])[0]
    (tmp_path / "empty").mkdir()
    assert "Is a directory" in parse_files([tmp_path / "empty"])[1][0]
    with (tmp_path / "b.txt").open("rb") as log:
        done = subprocess.run(
            [python, "-m", "netperf_lib", "parse", "-", "--json"],
            stdin=log,
            capture_output=True,
            check=True,
        )
    assert {r["tool"] for r in json.loads(done.stdout)} == {"qperf"}
