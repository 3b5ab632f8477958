"""Existing logs and the labels that say under which conditions they were taken."""

import gzip
import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.compare import compare
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.observe import observe
from netperf_lib.cli import npl as command
from netperf_lib.data import imports, logged, logs
from netperf_lib.data.imports import import_logs, usable
from netperf_lib.data.log_names import proposed_pattern
from netperf_lib.errors import NetperfError, StoreError, UsageError
from netperf_lib.reporting import explorer

from ..checksums import changed_files

LOGS = Path(__file__).parents[1] / "logs"
PUBLISHED = Path(__file__).parents[2] / "data" / "published" / "azure-westeurope-d16v3"
IPERF2_16 = PUBLISHED / "iperf2-cross-region-P16.txt"
QPERF = PUBLISHED / "qperf-tcp_lat-ppg.txt"
PATTERN = "{placement}/{tool}-P{streams}-r{round}.txt"


def understand(*files, **labels):
    return logged.understand(*files, **labels).runs


def table(**columns):
    return pd.DataFrame(columns)


@pytest.fixture
def folder(tmp_path):
    """Logs in a naming of somebody's own: placement/tool-Pstreams-rround.txt."""
    for placement in ("ppg", "cross-zone"):
        for number in (1, 2):
            place = tmp_path / "logs" / placement / f"iperf2-P16-r{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            port = f"port 6{len(placement):02}{number}"
            place.write_text(IPERF2_16.read_text().replace("port 60", port))
    return tmp_path / "logs"


def qperf_log(path, latency):
    """Write a log of qperf with this latency, and the rate of messages that goes with it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rate = f"{1000 / latency:.1f}"
    path.write_text(
        QPERF.read_text().replace("39.4", f"{latency:.1f}").replace("25.3", rate)
    )


def short(path, *latencies):
    """Write a log of a run for each latency, in microseconds."""
    path.write_text("".join(f"tcp_lat:\n    latency  =  {us} us\n" for us in latencies))
    return path


# -- labels ----------------------------------------------------------------------------------------


def test_a_path_pattern_gives_labels(folder):
    runs = understand(folder, pattern=PATTERN)
    assert {(r.get("placement"), r.get("round")) for r in runs} == {
        (p, n) for p in ("ppg", "cross-zone") for n in (1, 2)
    }
    assert all(r.get("streams") == 16 and r.get("tool") == "iperf2" for r in runs)


WRONG = {
    "misspelled": ({"file": ["*"], "placment": ["ppg"]}, "did you mean placement"),
    "no file": ({"placement": ["ppg"]}, "needs one column 'file'"),
    "no log": (
        {"file": ["*", "nowhere.txt"]},
        r"labels:3 \('nowhere.txt'\): it matches no log",
    ),
    "two rows": ({"file": [QPERF.name] * 2, "rack": ["a", "b"]}, "two rows for one run"),
    "no row": ({"file": ["other*"]}, f"it matches no log; without a row: {QPERF.name}"),
    "no number": ({"file": ["*"], "round": ["first"]}, "'first'; write a whole number"),
    "no flag": ({"file": ["*"], "accelerated": ["maybe"]}, "'maybe'; write on or off"),
    "no name": (
        {"file": ["*", None], "placement": ["ppg", "ppg"]},
        "labels:3: the cell 'file'",
    ),
    "no run": ({"file": [QPERF.name], "run": [3]}, "matches no run 3 of a log; round"),
    "two readings": ({"file": ["*"], "bandwidth_mbps": ["12,500"]}, "12,500"),
    "a repetition": (
        {"file": ["*"], "iteration": [1]},
        "call it round if .* leave it out",
    ),
    "a column": ({"file": ["*"], "order": ["x"]}, "a name that the library uses itself"),
    "a contradiction": (
        {"file": ["*"], "tool": ["iperf3"]},
        "'iperf3', but .* says 'qperf'",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_labels_are_refused(kind):
    columns, said = WRONG[kind]
    with pytest.raises(UsageError, match=said):
        understand(QPERF, labels=pd.DataFrame(columns))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (
            "{placement}/{tool}-P{streams}-r{run}.txt",
            r"\{run\} in the pattern .*: call it round",
        ),
        ("{placement}/{status}.txt", "a name that the library uses itself"),
        ("logs/*.txt", "contains no label"),
        (
            "{placement}/{tool}.json",
            "does not match the pattern .*import only the logs that match",
        ),
    ],
)
def test_wrong_patterns_are_refused(folder, pattern, said):
    with pytest.raises(UsageError, match=said):
        understand(folder, pattern=pattern)


SHEET = "file;placement;bandwidth_mbps;Rack\n*;ppg;8000,5;é1\n"


def test_labels_are_read_as_spreadsheets_write_them(tmp_path):
    place = tmp_path / "labels.csv"
    place.write_text(SHEET, "utf-8-sig")
    (run,) = understand(QPERF, labels=place)
    assert run.labels == {"placement": "ppg", "advertised_bps": 8000.5e6, "Rack": "é1"}
    place.write_bytes(SHEET.encode("cp1252"))
    found = logged.understand(QPERF, labels=place)
    assert found.runs[0].labels["Rack"] == "é1"
    assert "read as Windows-1252" in found.notice


def test_a_word_that_pandas_takes_for_nothing_is_a_label(folder, tmp_path):
    place = tmp_path / "labels.csv"
    place.write_text("file,qdisc,zone,note\nppg/*,None,NA,\ncross-zone/*,fq,1,\n")
    runs = understand(folder, labels=place)
    assert {tuple(run.labels.items()) for run in runs} == {
        (("qdisc", "None"), ("zone", "NA")), (("qdisc", "fq"), ("zone", "1"))
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "pattern", "value"),
    [
        ("Same Zone-r1", "{placement}-r{round}", "same-zone"),
        ("same_zone-r1", "{placement}-r{round}", "same-zone"),
        ("64K-r1", "{tcp_buffer_bytes}-r{round}", 65536),
        ("default-r1", "{tcp_buffer_bytes}-r{round}", None),
        ("64 KiB-r1", "{tcp_buffer_bytes}-r{round}", 65536),
        ("ping_20261103-1405", "ping_{started_utc}", "2026-11-03T14:05:00"),
    ],
)
def test_a_label_in_a_path_has_its_kind(tmp_path, name, pattern, value):
    (run,) = understand(short(tmp_path / name, 20), pattern=pattern)
    assert value in run.labels.values()


def test_direction_that_the_log_leaves_open_is_the_label(tmp_path):
    log = tmp_path / "ppg-reverse-r1.txt"
    log.write_text(
        "[  5]   0.00-10.00  sec  1.10 GBytes   944 Mbits/sec    3             sender\n"
        "[  5]   0.00-10.00  sec  1.10 GBytes   943 Mbits/sec                  receiver\n"
    )
    (run,) = understand(log, pattern="{placement}-{direction}-r{round}.txt")
    assert run.get("direction") == "reverse"


def test_a_name_and_an_address_are_no_contradiction(tmp_path):
    log = LOGS / "iperf3" / "aks-omit-we-az2az3.txt"
    labels = table(file=["*"], server=["near"])
    mine = import_logs(log, labels=labels, into=tmp_path / "mine")
    assert set(mine.runs["server"]) == {"near"}


def test_rows_are_about_names_and_patterns_and_a_name_goes_first(folder):
    names = [
        f"{place}/iperf2-P16-r{n}.txt" for place in ("ppg", "cross-zone") for n in (1, 2)
    ]
    rows = ["*r2.txt", "ppg/*r1.txt", names[2], names[1]]
    labels = table(file=rows, Accelerated=["on", "on", "off", None], Round=[2, 1, 1, 3])
    found = {run.name: run.labels for run in understand(folder, labels=labels)}
    assert [found[name] for name in names] == [
        {"accelerated": True, "round": 1},
        {"round": 3},
        {"accelerated": False, "round": 1},
        {"accelerated": True, "round": 2},
    ]
    last = table(file=["iperf2-P16-r2.txt"], rack=["b"])
    assert understand(folder / names[1], labels=last)[0].labels == {"rack": "b"}


# -- into a data root ------------------------------------------------------------------------------

LABELS = table(
    file=["*-ppg.txt", "*-same-zone.txt", "*-cross-zone.txt", "*-cross-region*.txt"],
    placement=["ppg", "same-zone", "cross-zone", "cross-region"],
)


def test_a_folder_with_a_readme_and_two_providers_has_the_figures_of_both(tmp_path):
    labels = PUBLISHED.parent / "labels.csv"
    mine = import_logs(PUBLISHED.parent, labels=labels, into=tmp_path / "mine")
    assert len(mine.runs) == 21
    assert changed_files(mine.path) == []
    raw = {log.read_bytes() for log in mine.folder.glob("raw/*/client-*.out")}
    assert raw == {log.read_bytes() for log in PUBLISHED.parent.glob("*/*.txt")}
    assert "Left out: 2 files, no log (README.md, figures.tsv)." in str(mine.notice)
    lead = lead_paragraph(mine)
    for words in (
        "39.4 µs (ppg), 58.2 µs (same-zone)",
        "402 µs (zone ad1 → ad2), 386 µs (zone ad2 → ad3), 114 µs (zone ad3 → ad1)",
        "(cross-region) is 721 Mbit/s (1 stream), 2.55 Gbit/s (16 streams)",
    ):
        assert words in str(lead)
    assert not any("provider" in "".join(c.names) for c in lead.family)


def test_contrasts_of_a_later_import_get_no_verdict(tmp_path):
    sides = {"a": {"placement": "ppg"}, "b": {"placement": "same-zone"}}
    contrasts = [{"metric": "latency_oneway_us"} | sides]
    first = import_logs(
        PUBLISHED, labels=LABELS, into=tmp_path / "one", contrasts=contrasts
    )
    assert [c.metric for c in first.contrasts] == ["latency_oneway_us"]
    import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "two")
    later = import_logs(
        PUBLISHED, labels=LABELS, into=tmp_path / "two", contrasts=contrasts
    )
    assert later.contrasts == ()  # these came after the data
    assert [c.metric for c in later.added] == ["latency_oneway_us"]


def test_other_labels_for_a_log_that_is_there_are_refused(tmp_path):
    import_logs(QPERF, labels=LABELS.iloc[:1], into=tmp_path / "mine")
    other = table(file=["*"], placement=["cross-zone"])
    with pytest.raises(UsageError, match="before with other labels") as raised:
        import_logs(QPERF, labels=other, into=tmp_path / "mine")
    assert f"import into another folder, or remove {tmp_path / 'mine'}" in str(
        raised.value
    )


def test_a_measured_experiment_is_no_place_for_logs(tmp_path):
    place = tmp_path / "lab-full"
    place.mkdir()
    shutil.copy(npl.recorded() / "experiment.yaml", place)
    with pytest.raises(StoreError, match="measured"):
        import_logs(QPERF, into=place)


def test_each_run_of_a_log_has_its_own_labels_and_figures(tmp_path):
    log = short(tmp_path / "two.txt", 39, 58)
    labels = table(file=["two.txt"] * 2, run=[1.0, 2.0], placement=["ppg", "same-zone"])
    runs = import_logs(log, labels=labels, into=tmp_path / "mine").runs.set_index(
        "placement"
    )
    assert runs["latency_oneway_us"].to_dict() == {"ppg": 39, "same-zone": 58}


def test_runs_are_in_the_order_of_their_start_whatever_its_zone(folder, tmp_path):
    starts = ["2026-11-03T13:00:00Z", "2026-11-03T14:05:00+02:00"]
    labels = table(file=["*r1.txt", "*r2.txt"], started_utc=starts)
    mine = import_logs(folder / "ppg", labels=labels, into=tmp_path / "exp")
    runs = mine.runs.sort_values("order")
    assert [f"{start:%H:%M}" for start in runs["started_utc"]] == ["12:05", "13:00"]


def test_a_template_numbers_the_runs_of_a_log(tmp_path):
    short(tmp_path / "a.txt", 40)
    short(tmp_path / "b.txt", 50, 60)
    rows = imports.labels_template(tmp_path).splitlines()[1:]
    assert [row.split(",")[:2] for row in rows] == [
        ["a.txt", ""],
        ["b.txt", "1"],
        ["b.txt", "2"],
    ]


def test_a_remark_is_no_factor_and_that_is_said_once(tmp_path):
    rows = [
        {
            "file": f"{p}{n}.txt",
            "placement": p,
            "round": n,
            "remark": f"after lunch {p} {n}",
        }
        for n in range(1, 4)
        for p in ("ppg", "same-zone")
    ]
    for row in rows:
        shutil.copy(QPERF, tmp_path / str(row["file"]))
    pd.DataFrame(rows).to_csv(tmp_path / "labels.csv", index=False)
    words = [
        "import",
        tmp_path,
        "--labels",
        tmp_path / "labels.csv",
        "--into",
        tmp_path / "mine",
    ]
    done = CliRunner().invoke(command, list(map(str, words)), catch_exceptions=False)
    assert "No factor: remark (" in done.output
    assert done.output.replace(str(tmp_path), "").count("remark") == 1


def test_an_import_says_how_many_runs_are_usable_and_why_the_others_are_not(tmp_path):
    shutil.copy(QPERF, tmp_path / "a.txt")
    shutil.copy(LOGS / "iperf3" / "busy_iperf3.txt", tmp_path / "b.txt")
    runs = import_logs(tmp_path, into=tmp_path / "mine").runs
    assert "round" not in runs
    assert usable(runs).startswith("3 runs, 1 usable; 1 not: ")
    assert "busy" in usable(runs)
    assert usable(runs[runs["status"] == "ok"]) == "1 run, all usable"


# -- what names tell apart -------------------------------------------------------------------------


def test_what_only_names_tell_apart_is_not_judged(tmp_path):
    for number in range(1, 4):  # a running number alone tells nothing apart
        qperf_log(tmp_path / "plain" / f"run{number}.txt", 40 + number)
    plain = import_logs(tmp_path / "plain", into=tmp_path / "other")
    assert observe(plain, "latency_oneway_us").names == ["all runs"]
    for number in range(1, 7):
        for zone, level in (("zone1", 58), ("zone2", 95)):
            for switch, more in (("", 0), (" no accnet", 100)):
                name = f"vm1-to-vm2 {zone}{switch} run{number}.txt"
                qperf_log(tmp_path / "logs" / name, level + more + number)
    mine = import_logs(tmp_path / "logs", into=tmp_path / "mine")
    lead = lead_paragraph(mine)
    assert not lead.family
    figures = (
        "61.5 µs ({0}1), 162 µs ({0}1 no accnet), 98.5 µs ({0}2), 198 µs ({0}2 no accnet)"
    ).format("vm1-to-vm2 zone")
    assert figures in str(lead)
    assert "(vm1-to-vm2 zone1; vm1-to-vm2 zone1 no accnet; " in str(mine.notice)
    with pytest.raises(UsageError, match="--labels-template"):
        CliRunner().invoke(
            command, ["compare", str(tmp_path / "logs")], catch_exceptions=False
        )


def test_a_folder_of_strangers_logs_compares_nothing_across_tools(tmp_path):
    for pattern in ("ntttcp/*", "iperf3/aks-*.txt", "qperf/gen-tcp*.txt"):
        for log in LOGS.glob(pattern):
            (tmp_path / "logs" / log.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(log, tmp_path / "logs" / log.parent.name)
    (tmp_path / "logs" / "trace.pcap").write_bytes(bytes(range(256)))
    mine = import_logs(tmp_path / "logs", into=tmp_path / "mine")
    assert mine.runs["status"].eq("ok").sum() >= 10
    paragraph = str(lead_paragraph(mine))
    assert "What only the names of the logs tell apart is not judged" in paragraph
    names = " ".join(map(str, observe(mine, "throughput_bps").conditions.index))
    assert not re.search(
        r"unknown|no protocol|default (streams|TCP)", f"{paragraph} {names}"
    )


def test_the_proposed_pattern_imports_the_folder(tmp_path):
    for number in range(1, 7):
        for place, level in (("ppg", 40), ("same-zone", 60)):
            qperf_log(tmp_path / "logs" / f"{place}-r{number}.txt", level + number / 10)
    notice = str(import_logs(tmp_path / "logs", into=tmp_path / "bare").notice)
    pattern = re.search("--pattern '(.*)'", notice)
    assert pattern
    mine = import_logs(tmp_path / "logs", pattern=pattern[1], into=tmp_path / "mine")
    assert [c.verdict for c in compare(mine)] == ["better"]


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (["wmem=4M r1", "wmem=16M r1", "wmem=4M r2"], "wmem={wmem} r{round}.*"),
        (["qperf_ppg_7", "qperf_cross-zone_8"], "qperf_{placement}_{round}.*"),
        (["ppg-r1", "dublin-r1"], "{part1}-r1.*"),
        (["run1", "run2"], None),
        (["a b", "a"], None),
    ],
)
def test_a_pattern_is_proposed_of_the_words_that_differ(names, pattern):
    assert proposed_pattern([f"{name}.json" for name in names]) == pattern


# -- what is a factor ------------------------------------------------------------------------------


def labelled(folder, **columns):
    """Import six logs of two racks in three rounds, with further labels."""
    names = [f"{rack}{n}.txt" for n in (1, 2, 3) for rack in "ab"]
    for number, name in enumerate(names):
        short(folder / name, 40 + number)
    own = {"file": names, "Rack Name": list("ab") * 3, "ROUND": [1, 1, 2, 2, 3, 3]}
    pd.DataFrame(own | columns).to_csv(folder / "labels.csv", index=False)
    labels = folder / "labels.csv"
    return import_logs(folder, labels=labels, into=folder.parent / "mine")


def test_an_import_writes_its_factors_which_a_person_may_edit(tmp_path):
    (tmp_path / "logs").mkdir()
    more = {"temp_c": [f"2{n},1" for n in range(6)], "crew": ["x", "y"] * 3}
    mine = labelled(tmp_path / "logs", **more)
    assert set(mine.runs["temp_c"]) == {f"2{n}.1" for n in range(6)}
    assert mine.declaration.factors == ("Rack Name", "crew")
    assert "temp_c (another value for each run)" in imports.factors_in_words(mine)
    written = Path(mine.path, "experiment.yaml")
    written.write_text(written.read_text().replace("- crew\n", ""))
    short(tmp_path / "logs" / "c1.txt", 50)
    labels = table(file=["c1.txt"], crew=["z"], zone=["1"])
    more = import_logs(tmp_path / "logs" / "c1.txt", labels=labels, into=mine.path)
    assert more.declaration.factors == ("Rack Name", "zone")
    assert len(more.runs) == 7


def test_what_is_left_out_has_one_of_three_reasons(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "README.md").write_text("These are my logs.")
    (logs / "cut.json").write_text(iperf3_document("x")[:900])
    for name in ("a.json", "b.json"):
        (logs / name).write_text(iperf3_document("one"))
    notice = str(import_logs(logs, into=tmp_path / "mine").notice)
    assert "Left out: 1 file, no log (README.md)." in notice
    assert "Left out: 1 run, there again: b.json (the same run as a.json)." in notice
    short(logs / "dump.txt", 40)
    lines = (logs / "dump.txt").read_text().splitlines(keepends=True)
    (logs / "dump.txt").write_text("".join(f"eth0 | {line}" for line in lines))
    notice = str(import_logs(logs, into=tmp_path / "other").notice)
    assert re.search(r"Left out: 1 log, unreadable or damaged \(dump.txt: ", notice)


def test_the_progress_of_an_import_ends_with_its_tables(tmp_path):
    calls = []
    log = short(tmp_path / "all.txt", *range(50, 90))
    import_logs(log, into=tmp_path / "mine", progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]
    assert calls[0][0] < calls[-1][0]
    assert npl.ingest(tmp_path / "mine") == 0


# -- the same run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["r{round}.txt", None])
def test_three_digits_of_qperf_are_two_runs_by_name(tmp_path, pattern):
    for number in (1, 2):
        qperf_log(tmp_path / "logs" / f"r{number}.txt", 39.4)
    for _ in range(2):  # the second import adds nothing
        mine = import_logs(tmp_path / "logs", pattern=pattern, into=tmp_path / "mine")
        assert len(mine.runs) == 2


def test_equal_labels_in_a_round_are_refused_by_name(tmp_path):
    qperf_log(tmp_path / "a.txt", 58)
    qperf_log(tmp_path / "b.txt", 158)
    labels = table(file=["*"], placement=["ppg"], round=[1])
    with pytest.raises(UsageError, match=r"a\.txt and b\.txt: equal labels in round 1"):
        import_logs(tmp_path, labels=labels, into=tmp_path / "mine")


def iperf3_document(cookie):
    """The document of a run of iperf3 in compact form."""
    document = json.loads((LOGS / "iperf3" / "gen-3.12-tcp-R.json").read_text())
    document["start"]["cookie"] = f"{cookie:a>36}"
    return json.dumps(document)


def both_ends(folder, name, port):
    """Write the logs of both ends of a test of iperf3 in text."""
    here, there = f"10.0.0.1 port {port}", "10.0.0.2 port 5201"
    text = (LOGS / "iperf3" / "gen-3.12-title.txt").read_text()
    client = re.sub(r"(local) .* (connected to) .*", rf"\1 {here} \2 {there}", text)
    (folder / f"{name}-client.txt").write_text(client)
    mirrored = client.replace(
        f"{here} connected to {there}", f"{there} connected to {here}"
    )
    rows = (
        mirrored[mirrored.index("[  5] local") :].replace("Retr", "").replace("Cwnd", "")
    )
    received = "".join(row for row in rows.splitlines(True) if "sender" not in row)
    accepted = f"Accepted connection from 10.0.0.1, port {port - 1}\n"
    (folder / f"{name}-server.txt").write_text(accepted + received)


def test_logs_of_both_ends_in_text_are_one_run(tmp_path):
    for number in (1, 2):
        both_ends(tmp_path, f"r{number}", 40000 + 10 * number)

    mine = import_logs(tmp_path, pattern="r{round}-{side}.txt", into=tmp_path / "mine")

    assert sorted(mine.runs["side"]) == ["client", "client"]
    assert "r1-server.txt (the other end of r1-client.txt)" in str(mine.notice)


def test_what_only_the_server_received_is_in_the_tables(tmp_path):
    ends = tmp_path / "ends"
    ends.mkdir()
    client = (LOGS / "iperf2" / "gen-tcp.txt").read_text()
    client = client.replace("58084", "37976").replace("35951", "35952")
    (ends / "client.txt").write_text(client)
    server = shutil.copy(LOGS / "iperf2" / "gen-tcp-e-server.txt", ends / "server.txt")
    mine = import_logs(ends, into=tmp_path / "mine")
    [received] = mine.runs["throughput_bps"]
    assert received == npl.parse(server)[0].metrics["throughput_bps"]
    assert changed_files(mine.folder) == []


def test_an_appended_log_counts_each_run_in_its_round(tmp_path):
    documents = [iperf3_document(f"run{number}") for number in range(1, 4)]
    for number in range(1, 4):
        (tmp_path / f"ppg-r{number}.json").write_text("\n".join(documents[:number]))
    runs = understand(tmp_path, pattern="{placement}-r{round}.json")
    assert [(run.get("round"), run.index) for run in runs] == [(1, 0), (2, 1), (3, 2)]


def test_another_print_or_name_of_a_document_is_the_same_run(tmp_path):
    text = iperf3_document("one")
    (tmp_path / "a.json").write_text(
        f"{text}\n{json.dumps(json.loads(text), indent=2)}\n"
    )
    (tmp_path / "b.json").write_text(text + "\n")
    for log in ("a.json", "b.json"):
        mine = import_logs(tmp_path / log, into=tmp_path / "mine")
        assert len(mine.runs) == 1


def test_two_folders_are_told_apart_by_content(tmp_path):
    for day, numbers in (("monday", (1, 2)), ("friday", (2, 3, 4)), ("sunday", (1, 2))):
        (tmp_path / day).mkdir()
        for number in numbers:
            cookie = f"sunday{number}" if day == "sunday" else f"run{number}"
            (tmp_path / day / f"{number}.json").write_text(iperf3_document(cookie))
    found = compare(tmp_path / "monday", tmp_path / "friday")
    assert {c.n for c in found} == {2}
    assert "1 run of friday are those of monday" in " ".join(found.warnings)
    other = compare(tmp_path / "monday", tmp_path / "sunday")
    assert "measured at different times" in other.warnings[0]
    again = compare(tmp_path / "monday", tmp_path / "monday")
    assert "both sides are the same runs" in again.warnings[0]


# -- to a report -----------------------------------------------------------------------------------

OWN = "rack {rack}/*run{round}.log"


def own_logs(folder, near):
    """Two dozen logs in a naming of one's own, with this latency in the near rack."""
    random = np.random.default_rng(int(near))
    for rack, level in (("near", near), ("far", 58.2)):
        for number in range(1, 13):
            us = level * random.lognormal(0, 0.02)
            qperf_log(folder / f"rack {rack}" / f"ping_run{number:02d}.log", us)
    return folder


def test_raw_logs_are_compared_without_an_import(tmp_path):
    before, after = own_logs(tmp_path / "before", 39), own_logs(tmp_path / "after", 51)
    found = compare(str(before), str(after), pattern=OWN, margin=0.1)
    verdicts = {c.context: str(c.verdict) for c in found}
    assert verdicts == {"rack far": "equivalent", "rack near": "worse"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["after", "before"]
    kept = import_logs(before, pattern=OWN, into=tmp_path / "kept")
    assert "1 worse" in compare(kept, after, pattern=OWN, margin=0.1).summary


# -- the folder of an import -----------------------------------------------------------------------


def test_a_log_of_many_runs_is_stored_and_read_once(tmp_path, monkeypatch):
    log = short(tmp_path / "all.txt", *range(50, 90))
    reads = []
    real = logs.parse_ends

    def counted(client):
        reads.append(client)
        return real(client)

    monkeypatch.setattr(logs, "parse_ends", counted)
    mine = npl.import_logs(log, into=tmp_path / "mine")
    assert sorted(mine.runs["latency_oneway_us"]) == [50.0 + i for i in range(40)]
    assert len(reads) == 1
    assert len([*Path(mine.path, "raw").rglob("*")]) == 3
    ids = mine.runs.sort_values("latency_oneway_us")["run_id"].tolist()
    assert [*explorer._logs(mine, ids)][3] == "tcp_lat:\n    latency  =  53 us\n"
    [stored] = Path(mine.path).glob("raw/*/client-*.out")
    stored.write_bytes(stored.read_bytes().replace(b"50", b"10"))
    assert changed_files(mine.path) == [str(stored.relative_to(mine.path))]
    shutil.rmtree(Path(mine.path, "tables"))
    changed = npl.load(mine.path)
    assert set(changed["status"]) == {"failed"}
    assert changed["latency_oneway_us"].isna().all()


def test_a_link_out_of_a_given_folder_is_refused_and_one_inside_is_read(tmp_path):
    secret = short(tmp_path / "secret.txt", 50)
    given = tmp_path / "given"
    given.mkdir()
    short(given / "a.txt", 51)
    (given / "b.txt").symlink_to("a.txt")
    assert len(understand(given)) == 2
    (given / "c.txt").symlink_to(secret)
    with pytest.raises(UsageError, match=r"c\.txt: a link to elsewhere"):
        npl.import_logs(given, into=tmp_path / "mine")
    (given / "c.txt").unlink()
    (given / "d.txt").symlink_to("/dev/zero")
    (given / "e.txt").symlink_to(tmp_path / "nothing")
    os.mkfifo(given / "f.txt")
    assert len(understand(given)) == 2  # none of these is a log
    (tmp_path / "link.txt").symlink_to(secret)
    assert len(understand(tmp_path / "link.txt")) == 1  # it was named
    assert not (tmp_path / "mine").exists()


def test_a_folder_of_an_earlier_release_is_read(tmp_path):
    """It had a document that named the file of records, and one list of digests for all."""
    mine = import_logs(short(tmp_path / "a.txt", 50, 60), into=tmp_path / "mine")
    [folder] = mine.folder.glob("raw/import-*")
    records = hashlib.sha256((folder / "runs.json.gz").read_bytes()).hexdigest()
    (folder / "run.json").write_text(f'{{"files": {{"runs.json.gz": "{records}"}}}}')
    digest = hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()
    [listed] = mine.folder.glob("digests/import-*")
    listed.write_text(f"{digest}  raw/{folder.name}/run.json\n")
    listed.rename(listed.with_name("d00-r0001-0064.sha256"))
    shutil.rmtree(mine.folder / "tables")
    assert sorted(npl.load(mine.folder)["latency_oneway_us"]) == [50.0, 60.0]
    again = import_logs(short(tmp_path / "b.txt", 70), into=mine.folder)
    assert len(again.runs) == 3
    assert changed_files(mine.folder) == []


def test_records_that_an_earlier_release_listed_are_checked(tmp_path):
    mine = import_logs(short(tmp_path / "a.txt", 50, 60), into=tmp_path / "mine")
    [listed] = mine.folder.glob("digests/import-*")
    listed.rename(listed.with_name("d00-r0001-0064.sha256"))
    [records] = mine.folder.glob("raw/import-*/runs.json.gz")
    text = gzip.decompress(records.read_bytes())
    records.write_bytes(gzip.compress(text.replace(b'"attempt":1', b'"attempt":2')))
    shutil.rmtree(mine.folder / "tables")
    with pytest.raises(StoreError, match="digest differs"):
        npl.load(mine.folder)


RECORDS = {
    "bomb": lambda: gzip.compress(bytes(1 << 20)) * 257,
    "path": lambda: gzip.compress(b'[{"run_id": "../../x"}]'),
    "no record": lambda: gzip.compress(b'["x"]'),
    "cut": lambda: gzip.compress(b"[]")[:-4],
    "not packed": lambda: b"[]",
}


@pytest.mark.parametrize("kind", RECORDS)
def test_records_of_a_stranger_are_one_sentence(tmp_path, kind):
    mine = Path(
        npl.import_logs(short(tmp_path / "a.txt", 50), into=tmp_path / "mine").path
    )
    next(mine.glob("raw/*/runs.json.gz")).write_bytes(RECORDS[kind]())
    for made in ("tables", "digests"):
        shutil.rmtree(mine / made)
    with pytest.raises(NetperfError, match=r"cannot be read|unexpected content"):
        npl.load(mine)


def test_logs_without_a_start_are_in_the_overview(tmp_path):
    for name, latency in (("one", 40), ("two", 50)):
        import_logs(
            short(tmp_path / f"{name}.txt", latency), into=tmp_path / "mine" / name
        )
    assert "started_utc" not in npl.read(tmp_path / "mine/*").runs
    lines = npl.analysis.opening(tmp_path / "mine/*").lines
    assert [line.split(":")[0] for line in lines] == ["one", "two"]
