"""Existing logs and the labels that say under which conditions they were taken."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pypdf
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib.analysis.compare import compare
from netperf_lib.analysis.lead import lead_paragraph
from netperf_lib.analysis.observe import observe
from netperf_lib.cli import npl as command
from netperf_lib.data import imports, logs
from netperf_lib.data.imports import import_logs, labels_template, overview, understand, usable
from netperf_lib.errors import StoreError, UsageError
from netperf_lib.reporting import explorer
from netperf_lib.tools.parsed import ParsedRun

LOGS = Path(__file__).parents[1] / "logs"
PUBLISHED = Path(__file__).parents[2] / "data" / "published" / "azure-westeurope-d16v3"
IPERF2_16 = PUBLISHED / "iperf2-cross-region-P16.txt"
QPERF = PUBLISHED / "qperf-tcp_lat-ppg.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Logs in a naming of somebody's own: placement/tool-Pstreams-rround.txt."""
    for placement in ("ppg", "cross-zone"):
        for number in (1, 2):
            place = tmp_path / "logs" / placement / f"iperf2-P16-r{number}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            port = f"port 6{len(placement):02}{number}"
            place.write_text(IPERF2_16.read_text().replace("port 60", port))
    return tmp_path / "logs"


def test_a_path_pattern_gives_labels(folder: Path) -> None:
    runs = understand(folder, pattern="{placement}/{tool}-P{streams}-r{round}.txt")
    assert {(r.get("placement"), r.get("round")) for r in runs} == {
        (p, n) for p in ("ppg", "cross-zone") for n in (1, 2)
    }
    assert all(r.get("streams") == 16 and r.get("tool") == "iperf2" for r in runs)


def test_the_number_of_a_repetition_is_a_round_or_nothing(folder: Path) -> None:
    for name in ("run", "rep", "Iteration"):
        with pytest.raises(
            UsageError, match=rf"\{{{name}\}} in the pattern .*: write \{{round\}} if .* and \* if"
        ):
            understand(folder, pattern=f"{{placement}}/{{tool}}-P{{streams}}-r{{{name}}}.txt")
    labels = pd.DataFrame({"file": ["*r1.txt", "*r2.txt"], "iteration": [1, 2]})
    with pytest.raises(
        UsageError, match=r"column 'iteration': call it round if .*, and leave it out if"
    ):
        understand(folder, labels=labels)
    with pytest.raises(
        UsageError, match=r"does not match the pattern '.*'; import only the logs that match"
    ):
        understand(folder, pattern="{placement}/{tool}-P{streams}-r{round}.json")


def test_a_table_gives_labels_by_name_and_by_glob(folder: Path) -> None:
    labels = pd.DataFrame(
        {"file": ["ppg/*", "cross-zone/iperf2-P16-r1.txt", "cross-zone/iperf2-P16-r2.txt"]}
        | {
            "placement": ["ppg", "cross-zone", "cross-zone"],
            "accelerated": ["on", "off", None],
            "rack": ["a", "b", "c"],
        }
    )
    runs = {r.name: r for r in understand(folder, labels=labels)}
    assert runs["ppg/iperf2-P16-r2.txt"].get("placement") == "ppg"
    assert runs["ppg/iperf2-P16-r2.txt"].get("accelerated") is True
    assert runs["cross-zone/iperf2-P16-r1.txt"].get("accelerated") is False
    assert runs["cross-zone/iperf2-P16-r2.txt"].get("accelerated") is None
    assert runs["cross-zone/iperf2-P16-r2.txt"].get("rack") == "c"


def test_a_label_that_contradicts_its_log_is_quoted_with_what_the_log_says() -> None:
    labels = pd.DataFrame({"file": [IPERF2_16.name], "streams": [8]})
    with pytest.raises(UsageError, match=r"'8'.*16"):
        understand(IPERF2_16, labels=labels)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"file": ["*"], "placment": ["ppg"]}, "placement"),
        ({"placement": ["ppg"]}, "file"),
        ({"file": ["*", "nowhere.txt"], "placement": ["ppg", "ppg"]}, "nowhere.txt"),
        ({"file": [QPERF.name, QPERF.name], "placement": ["ppg", "same-zone"]}, "two rows"),
        ({"file": ["other*"]}, QPERF.name),
        ({"file": ["*"], "round": ["first"]}, "first"),
        ({"file": ["*"], "accelerated": ["maybe"]}, "maybe"),
        ({"file": ["*", None], "placement": ["ppg", "ppg"]}, "labels:3"),
    ],
)
def test_wrong_labels_are_refused(table: dict[str, list[object]], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("*", r"\*")):
        understand(QPERF, labels=pd.DataFrame(table))


SPREADSHEETS = {
    "utf-8 with a byte-order mark, semicolons": "\ufeffFile;Placement;Bandwidth Mbps;Rack\n*;ppg;8000,5;é1\n".encode(),
    "tabs": b"file\tPlacement\tbandwidth_mbps\tRack\n*\tppg\t8000.5\t\xc3\xa91\n",
    "windows": "FILE;PLACEMENT;bandwidth-mbps;Rack\n*;ppg;8000,5;é1\n".encode("cp1252"),
    "utf-16": "file\tplacement\tbandwidth_mbps\tRack\n*\tppg\t8000.5\té1\n".encode("utf-16"),
}


@pytest.mark.parametrize("data", SPREADSHEETS.values(), ids=SPREADSHEETS)
def test_labels_are_read_as_spreadsheets_write_them(tmp_path: Path, data: bytes) -> None:
    place = tmp_path / "labels.csv"
    place.write_bytes(data)
    (run,) = understand(QPERF, labels=place)
    assert run.labels == {"placement": "ppg", "advertised_bps": 8000.5e6, "Rack": "é1"}


def test_labels_are_read_from_a_workbook(tmp_path: Path) -> None:
    place = tmp_path / "labels.xlsx"
    pd.DataFrame(
        {"File": ["*"], "Placement": ["ppg"], "Round": [3], "Accelerated": [True], "Rack": ["a"]}
    ).to_excel(place, index=False)
    (run,) = understand(QPERF, labels=place)
    assert run.labels == {"placement": "ppg", "round": 3, "accelerated": True, "Rack": "a"}


def test_a_word_that_pandas_takes_for_nothing_is_a_label(folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("file,qdisc,zone,note\nppg/*,None,NA,\ncross-zone/*,fq,1,\n")
    runs = understand(folder, labels=table)
    assert {tuple(run.labels.items()) for run in runs} == {
        (("qdisc", "None"), ("zone", "NA")), (("qdisc", "fq"), ("zone", "1"))
    }  # fmt: skip


def test_runs_are_in_the_order_of_their_start_whatever_its_zone(
    folder: Path, tmp_path: Path
) -> None:
    starts = ["2026-11-03T13:00:00Z", "2026-11-03T14:05:00+02:00"]
    labels = pd.DataFrame({"file": ["*r1.txt", "*r2.txt"], "started_utc": starts})
    runs = import_logs(folder / "ppg", labels=labels, into=tmp_path / "exp").runs.sort_values(
        "order"
    )
    assert [f"{start:%H:%M}" for start in runs["started_utc"]] == ["12:05", "13:00"]


def test_a_number_that_has_two_readings_is_refused() -> None:
    with pytest.raises(UsageError, match="12,500"):
        understand(QPERF, labels=pd.DataFrame({"file": ["*"], "bandwidth_mbps": ["12,500"]}))


def test_a_name_and_an_address_are_no_contradiction(tmp_path: Path) -> None:
    log = (LOGS / "iperf3" / "aks-omit-we-az2az3.txt").read_text()
    address = (
        next(line for line in log.splitlines() if "Connecting to host" in line)
        .split()[3]
        .rstrip(",")
    )
    for name, other in (("a.txt", address), ("b.txt", address), ("c.txt", "10.9.9.9")):
        text = log.replace(address, other)
        (tmp_path / name).write_text(re.sub(r"port \d+ conn", f"port 400{ord(name[0])} conn", text))
    labels = pd.DataFrame({"file": ["a.txt", "b.txt", "c.txt"], "server": ["near", "far", "far"]})
    runs = {r.name: r for r in understand(tmp_path, labels=labels)}
    assert {n: r.get("server") for n, r in runs.items()} == {
        "a.txt": "near",
        "b.txt": "far",
        "c.txt": "far",
    }
    assert runs["c.txt"].warnings == [
        f"server 'far' has several addresses: {', '.join(sorted((address, '10.9.9.9')))}",
    ]
    assert runs["a.txt"].warnings == [f"the address {address} has several names: far, near"]
    mine = import_logs(tmp_path, labels=labels, into=tmp_path / "mine").runs
    assert set(mine["server"]) == {"near", "far"}
    assert all("several" in w for w in mine["warnings"])
    with pytest.raises(UsageError, match=r"10\.1\.1\.1"):  # two addresses do contradict each other
        understand(tmp_path / "a.txt", labels=pd.DataFrame({"file": ["*"], "server": ["10.1.1.1"]}))


def test_the_time_in_a_file_name_orders_the_runs(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for at, us in (
        ("20261103-1405", "41.0"),
        ("2026-11-03T09-30-15", "42.0"),
        ("2026-13-03T09-30", "43.0"),
    ):
        place = logs / f"ping_{at}.log"
        place.parent.mkdir(exist_ok=True)
        place.write_text(
            QPERF.read_text().replace("39.4", us).replace("25.3 K", f"{1e3 / float(us):.1f} K")
        )
    runs = import_logs(logs, into=tmp_path / "mine").runs.sort_values("order")
    assert runs["latency_oneway_us"].tolist() == [
        43.0,
        42.0,
        41.0,
    ]  # one without a time comes first
    assert runs["started_utc"].dropna().tolist() == [
        pd.Timestamp("2026-11-03T09:30:15Z"),
        pd.Timestamp("2026-11-03T14:05:00Z"),
    ]
    assert "name of the log" in runs["warnings"].iloc[1]


@pytest.mark.parametrize("name", ["status", "order", "throughput_bps"])
def test_a_label_called_like_a_column_of_the_runs_is_refused(folder: Path, name: str) -> None:
    for given in (
        {"labels": pd.DataFrame({"file": ["*"], name: ["x"]})},
        {"pattern": f"{{placement}}/{{{name}}}.txt"},
    ):
        with pytest.raises(UsageError, match=name):
            understand(folder, **given)  # type: ignore[arg-type]


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no benchmark here\n")
    shutil.copy(QPERF, tmp_path / "a.txt")
    labels = pd.DataFrame({"file": ["a.txt", "b.txt"], "round": ["x", 1]})
    with pytest.raises(UsageError) as caught:
        understand([tmp_path / "notes.txt", tmp_path / "a.txt"], labels=labels)
    text = str(caught.value)
    assert all(word in text for word in ("notes.txt", "b.txt", "'x'"))


def test_a_labels_file_to_fill_in_can_be_read_back(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "labels.csv"
    place.write_text(labels_template(folder))
    table = pd.read_csv(place)
    assert list(table["streams"]) == [16] * 4
    table["placement"] = "ppg"
    table.to_csv(place, index=False)
    runs = understand(folder, labels=place)
    assert {r.get("placement") for r in runs} == {"ppg"}


def test_the_overview_says_what_is_missing() -> None:
    row = overview(understand(QPERF)).iloc[0]
    assert row["tool"] == "qperf"
    assert row["test"] == "tcp_lat"
    assert "placement" in row["missing"]


def test_several_runs_in_one_log_are_labelled_one_by_one(tmp_path: Path) -> None:
    log = tmp_path / "two.txt"
    log.write_text(QPERF.read_text() + (PUBLISHED / "qperf-tcp_lat-same-zone.txt").read_text())
    labels = pd.DataFrame(
        {"file": ["two.txt"] * 2, "run": [1, 2], "placement": ["ppg", "same-zone"]}
    )
    runs = understand(log, labels=labels)
    assert [(r.index, r.get("placement")) for r in runs] == [(0, "ppg"), (1, "same-zone")]
    assert runs[0].parsed.metrics != runs[1].parsed.metrics


# -- into a data root --------------------------------------------------------------------------------------------------

PPG = {
    "metric": "latency_oneway_us",
    "a": {"placement": "ppg"},
    "b": {"placement": "same-zone"},
    "margin": 0.1,
}
LABELS = pd.DataFrame(
    {"file": ["*-ppg.txt", "*-same-zone.txt", "*-cross-zone.txt", "*-cross-region*.txt"]}
    | {"placement": ["ppg", "same-zone", "cross-zone", "cross-region"]}
)


def test_a_row_for_a_run_that_no_log_has_is_refused_and_a_number_may_be_a_float(
    tmp_path: Path,
) -> None:
    log = tmp_path / "twice.txt"
    log.write_bytes(QPERF.read_bytes() * 2)
    rows = {"file": ["twice.txt"] * 2, "run": [1, 2], "rack": ["a", "b"]}
    assert [
        r.get("rack") for r in understand(log, labels=pd.DataFrame(rows).astype({"run": float}))
    ] == ["a", "b"]
    with pytest.raises(
        UsageError, match=r"^labels:3 \('twice.txt'\): no such log has a run 3; .* round"
    ):
        understand(log, labels=pd.DataFrame(rows | {"run": [1, 3]}))


def test_logs_of_both_ends_of_a_test_are_named(tmp_path: Path) -> None:
    client, server = (
        LOGS / "iperf3" / f"bench-iperf-udp-{end}.txt" for end in ("client", "server")
    )
    both = import_logs([client, server], into=tmp_path / "both")
    assert f"counts as two runs: {client.name} and {server.name}; import one end." in str(
        both.notice
    )
    for one in (client, server):
        assert "twice" not in str(import_logs(one, into=tmp_path / one.stem).notice)


def test_published_logs_become_an_experiment(tmp_path: Path) -> None:
    mine = import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "mine", contrasts=[PPG])
    runs = mine.runs
    assert len(runs) == 9
    assert set(runs["status"]) == {"ok"}
    latency = runs.dropna(subset="latency_oneway_us").set_index("placement")["latency_oneway_us"]
    assert latency.to_dict() == {
        "cross-region": 9900.0,
        "cross-zone": 57.2,
        "ppg": 39.4,
        "same-zone": 58.2,
    }
    assert runs["round"].isna().all()
    assert mine.notice is not None
    assert "labelled" in mine.notice
    assert [c.metric for c in mine.contrasts] == ["latency_oneway_us"]
    raw = {p.read_bytes() for p in (tmp_path / "mine" / "raw").glob("*/client-*.out")}
    assert raw == {p.read_bytes() for p in PUBLISHED.glob("*.txt")}


def test_a_folder_with_a_readme_and_two_providers_has_the_figures_of_both(tmp_path: Path) -> None:
    mine = import_logs(
        PUBLISHED.parent, labels=PUBLISHED.parent / "labels.csv", into=tmp_path / "mine"
    )
    assert len(mine.runs) == 21
    assert "Left out, as no log or the same run again: README.md, figures.tsv." in str(mine.notice)
    paragraph = str(lead_paragraph(mine.runs))
    for words in (
        "Latency (Azure) is 39 µs on ppg (proximity placement group), 57 to 58 µs on same-zone and",
        "7.5 to 7.6 Gbit/s on ppg, same-zone and cross-zone, 721 Mbit/s on cross-region",
        "402 µs for zone ad1 → ad2, 386 µs for zone ad2 → ad3, 114 µs for zone ad3 → ad1. Throughput is 16",
        "(cross-region): 1 stream 721 Mbit/s, 16 streams 2.5 Gbit/s",
    ):
        assert words in paragraph, paragraph
    family = lead_paragraph(mine.runs).family
    assert not any("provider" in "".join(c.names) for c in family), "two providers are no contrast"


def test_a_folder_of_strangers_logs_compares_nothing_across_tools(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    for pattern in (
        "ntttcp/*",
        "iperf3/aks-*.txt",
        "qperf/gen-tcp*.txt",
    ):
        for log in LOGS.glob(pattern):
            (folder / log.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(log, folder / log.parent.name)
    (folder / "ntttcp" / "cut.txt").write_text("NTTTCP for Linux 1.4.0\n")
    (folder / "trace.pcap").write_bytes(bytes(range(256)))
    mine = import_logs(folder, into=tmp_path / "mine")
    assert "Left out" in str(mine.notice)
    assert mine.runs["status"].eq("ok").sum() >= 10
    paragraph = str(lead_paragraph(mine.runs))
    assert "omit we az2az3: 8.2, retr 5digits 12" in paragraph, paragraph
    assert "What only the names of the logs tell apart is not judged" in paragraph
    names = " ".join(map(str, observe(mine, "throughput_bps").conditions.index))
    assert not re.search(r"unknown|no protocol|default", f"{paragraph} {names}"), (
        f"{paragraph} {names}"
    )


def test_import_is_idempotent_and_another_import_adds(tmp_path: Path) -> None:
    first = [p for p in sorted(PUBLISHED.glob("*.txt")) if "ppg" in p.name]
    assert len(import_logs(first, labels=LABELS.iloc[:1], into=tmp_path / "mine").runs) == 2
    before = {p.name for p in (tmp_path / "mine" / "raw").iterdir()}
    assert len(import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "mine").runs) == 9
    assert before < {p.name for p in (tmp_path / "mine" / "raw").iterdir()}
    assert len(import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "mine").runs) == 9


def test_contrasts_of_a_later_import_get_no_verdict(tmp_path: Path) -> None:
    import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "mine")
    mine = import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "mine", contrasts=[PPG])
    assert mine.contrasts == ()
    assert [c.metric for c in mine.added] == ["latency_oneway_us"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"a": {"placement": "pgg"}}, "pgg"),
        ({"metric": "latency"}, "latency"),
        ({"margin": 3}, "margin"),
    ],
)
def test_contrasts_that_no_log_can_answer_are_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        import_logs(PUBLISHED, labels=LABELS, into=tmp_path / "mine", contrasts=[PPG | change])
    assert not (tmp_path / "mine").exists()


def test_other_labels_for_a_log_that_is_there_are_refused(tmp_path: Path) -> None:
    import_logs(QPERF, labels=LABELS.iloc[:1], into=tmp_path / "mine")
    other = pd.DataFrame({"file": ["*"], "placement": ["cross-zone"]})
    with pytest.raises(UsageError, match=QPERF.name):
        import_logs(QPERF, labels=other, into=tmp_path / "mine")


def test_a_measured_experiment_is_no_place_for_logs(tmp_path: Path) -> None:
    recorded = Path(__file__).parents[2] / "data" / "recorded" / "lab-full"
    place = tmp_path / "lab-full"
    place.mkdir()
    shutil.copy(recorded / "experiment.yaml", place)
    with pytest.raises(StoreError, match="measured"):
        import_logs(QPERF, into=place)


def test_each_run_of_a_log_has_its_own_figures(tmp_path: Path) -> None:
    log = tmp_path / "two.txt"
    log.write_text(QPERF.read_text() + (PUBLISHED / "qperf-tcp_lat-same-zone.txt").read_text())
    labels = pd.DataFrame(
        {
            "file": ["two.txt"] * 2,
            "run": [1, 2],
            "placement": ["ppg", "same-zone"],
            "rack": ["a", "b"],
        }
    )
    runs = import_logs(log, labels=labels, into=tmp_path / "mine").runs.set_index("placement")
    assert runs["latency_oneway_us"].to_dict() == {"ppg": 39.4, "same-zone": 58.2}
    assert runs["rack"].to_dict() == {"ppg": "a", "same-zone": "b"}


def test_the_command_line_imports_shows_and_writes_a_template(python: str, tmp_path: Path) -> None:
    def npl(*words: object) -> subprocess.CompletedProcess[str]:
        command = [python, "-m", "netperf_lib", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
        )

    template = npl("import", PUBLISHED, "--labels-template")
    assert template.returncode == 0, template.stderr
    table = pd.read_csv(io.StringIO(template.stdout))
    table["placement"] = [
        Path(f).stem.split("-", 1)[1].removeprefix("tcp_lat-") for f in table["file"]
    ]
    table.to_csv(tmp_path / "labels.csv", index=False)
    shown = npl("import", PUBLISHED, "--labels", tmp_path / "labels.csv", "--dry-run")
    assert "same-zone" in shown.stdout
    done = npl(
        "import", PUBLISHED, "--labels", tmp_path / "labels.csv", "--into", tmp_path / "mine"
    )
    assert done.stdout.startswith("9 runs"), done.stderr
    assert npl("import", PUBLISHED).returncode == 2
    missing = npl("import", tmp_path / "nowhere", "--into", tmp_path / "other")
    assert missing.returncode == 2
    assert "Traceback" not in missing.stderr


def test_logs_without_rounds_are_compared_unpaired(tmp_path: Path) -> None:
    text, labels = QPERF.read_text(), []
    for placement, level in (("ppg", 39.4), ("same-zone", 58.2)):
        for number in range(12):
            name = f"{placement}-{number}.txt"
            latency = level + number * 7 % 12 / 10
            messages = f"{1000 / latency:.1f}"  # what qperf prints beside it says the same
            (tmp_path / name).write_text(
                text.replace("39.4", f"{latency:.1f}").replace("25.3", messages)
            )
            labels.append({"file": name, "placement": placement})
    logs = sorted(tmp_path.glob("*.txt"))
    mine = import_logs(logs, labels=pd.DataFrame(labels), into=tmp_path / "mine", contrasts=[PPG])
    (found,) = compare(mine)
    assert found.verdict == "better"
    assert "unpaired" in found.method or any("unpaired" in w for w in found.warnings)


def test_labelled_logs_are_compared_with_their_notice_and_remarks_are_said_once(
    python: str, tmp_path: Path
) -> None:
    rows = [
        {"file": f"{p}-{n}.txt", "placement": p, "round": n, "remark": f"after lunch {n}{i}"}
        for n in range(1, 4)
        for i, p in enumerate(("ppg", "same-zone"))
    ]
    for row in rows:
        shutil.copy(QPERF, tmp_path / str(row["file"]))
    pd.DataFrame(rows).to_csv(tmp_path / "labels.csv", index=False)
    done = [
        subprocess.run(
            [python, "-m", "netperf_lib", *map(str, a)], capture_output=True, text=True, check=False
        )
        for a in (
            (
                "import",
                tmp_path,
                "--labels",
                tmp_path / "labels.csv",
                "--into",
                tmp_path / "into" / "mine",
            ),
            ("compare", tmp_path / "into" / "mine"),
            ("explore", tmp_path),
        )
    ]
    assert done[0].stdout.count("remark is free text, and no factor") == 1
    assert "1 compared" in done[1].stdout
    assert "order and rounds as labelled" in " ".join(done[1].stdout.split())
    assert "npl import LOGS" in done[2].stderr


@pytest.mark.parametrize("pattern", ["r{round}.txt", None])
def test_three_digits_of_qperf_are_two_runs_by_name(tmp_path: Path, pattern: str | None) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number in (1, 2):
        shutil.copy(QPERF, logs / f"r{number}.txt")
    for _ in range(2):  # the second import adds nothing
        mine = import_logs(logs, pattern=pattern, into=tmp_path / "mine")
        assert len(mine.runs) == 2


def qperf_log(path: Path, latency: float) -> None:
    """Write a log of qperf with this latency, and the rate of messages that goes with it."""
    rate = f"{1000 / latency:.1f}"
    path.write_text(QPERF.read_text().replace("39.4", f"{latency:.1f}").replace("25.3", rate))


def mixed_logs(folder: Path) -> Path:
    """A folder in which zones and acceleration stand in the names of the logs alone."""
    folder.mkdir()
    for number in range(1, 7):
        for zone, level in (("zone1", 58), ("zone2", 95)):
            for switch, more in (("", 0), (" no accnet", 100)):
                name = f"vm1-to-vm2 {zone}{switch} run{number}.txt"
                qperf_log(folder / name, level + more + number)
    return folder


def test_what_only_names_tell_apart_is_not_judged(tmp_path: Path) -> None:
    mine = import_logs(mixed_logs(tmp_path / "logs"), into=tmp_path / "mine")
    lead = lead_paragraph(mine)
    assert not lead.family
    assert "zone1: 61.5 µs, zone1 no accnet 162, zone2: 98.5, zone2 no accnet 198" in str(lead)
    assert "(zone1; zone1 no accnet; zone2; zone2 no accnet)" in str(mine.notice)
    with pytest.raises(UsageError, match="--labels-template"):
        CliRunner().invoke(command, ["compare", str(tmp_path / "logs")], catch_exceptions=False)


def test_a_running_number_tells_no_conditions_apart(tmp_path: Path) -> None:
    for number in range(1, 4):
        qperf_log(tmp_path / f"run{number}.txt", 40 + number)
    mine = import_logs(tmp_path, into=tmp_path / "mine")
    assert observe(mine, "latency_oneway_us").names == ["all runs"]


def test_the_proposed_pattern_imports_the_folder(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    for number in range(1, 7):
        for place, level in (("ppg", 40), ("same-zone", 60)):
            qperf_log(tmp_path / "logs" / f"{place}-r{number}.txt", level + number / 10)
    notice = str(import_logs(tmp_path / "logs", into=tmp_path / "bare").notice)
    pattern = re.search("--pattern '(.*)'", notice)
    assert pattern
    mine = import_logs(tmp_path / "logs", pattern=pattern[1], into=tmp_path / "mine")
    assert [c.verdict for c in compare(mine)] == ["better"]


def test_equal_labels_in_a_round_are_refused_by_name(tmp_path: Path) -> None:
    qperf_log(tmp_path / "a.txt", 58)
    qperf_log(tmp_path / "b.txt", 158)
    labels = pd.DataFrame({"file": ["*"], "placement": ["ppg"], "round": [1]})
    with pytest.raises(UsageError, match=r"a\.txt and b\.txt: equal labels in round 1"):
        import_logs(tmp_path, labels=labels, into=tmp_path / "mine")


def iperf3_document(cookie: str, start: int = 0) -> str:
    """The document of a run of iperf3 in compact form."""
    document = json.loads((LOGS / "iperf3" / "gen-3.12-tcp-R.json").read_text())
    document["start"]["cookie"] = f"{cookie:a>36}"
    document["start"]["timestamp"]["timesecs"] += start
    return json.dumps(document)


def test_six_copies_of_one_log_are_one_run_a_side(tmp_path: Path) -> None:
    for number in range(1, 7):
        for side in ("ppg", "zone"):
            (tmp_path / f"{side}-r{number}.json").write_text(iperf3_document(side))
    mine = import_logs(tmp_path, pattern="{placement}-r{round}.json", into=tmp_path / "mine")
    assert sorted(mine.runs["placement"]) == ["ppg", "zone"]
    assert "ppg-r2.json (the same run as ppg-r1.json)" in str(mine.notice)
    assert [c.verdict for c in compare(mine)] == ["no verdict"]


def test_an_appended_log_counts_each_run_in_its_round(tmp_path: Path) -> None:
    documents = [iperf3_document(f"run{number}") for number in range(1, 4)]
    for number in range(1, 4):
        (tmp_path / f"ppg-r{number}.json").write_text("\n".join(documents[:number]))
    runs = understand(tmp_path, pattern="{placement}-r{round}.json")
    assert [(run.get("round"), run.index) for run in runs] == [(1, 0), (2, 1), (3, 2)]


def test_another_print_of_a_document_is_the_same_run(tmp_path: Path) -> None:
    text = iperf3_document("one")
    (tmp_path / "a.json").write_text(f"{text}\n{json.dumps(json.loads(text), indent=2)}\n")
    assert len(understand(tmp_path)) == 1


def test_a_run_that_was_imported_is_not_added_again(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(iperf3_document("one"))
    import_logs(tmp_path / "a.json", into=tmp_path / "mine")
    (tmp_path / "b.json").write_text(iperf3_document("one") + "\n")
    mine = import_logs(tmp_path / "b.json", into=tmp_path / "mine")
    assert len(mine.runs) == 1


def test_two_folders_of_equal_names_are_told_by_content(tmp_path: Path) -> None:
    for day in ("monday", "friday"):
        (tmp_path / day).mkdir()
        for number in range(1, 4):
            log = tmp_path / day / f"run{number}.json"
            log.write_text(iperf3_document(f"{day}{number}"))
    found = compare(tmp_path / "monday", tmp_path / "friday")
    assert "measured at different times" in found.warnings[0]
    again = compare(tmp_path / "monday", tmp_path / "monday")
    assert "both sides are the same runs" in again.warnings[0]


def test_a_run_in_both_folders_counts_once(tmp_path: Path) -> None:
    for day, numbers in (("monday", (1, 2)), ("friday", (2, 3, 4))):
        (tmp_path / day).mkdir()
        for number in numbers:
            (tmp_path / day / f"{number}.json").write_text(iperf3_document(f"run{number}"))
    found = compare(tmp_path / "monday", tmp_path / "friday")
    assert {c.n for c in found} == {2}
    assert "1 run of friday are those of monday" in " ".join(found.warnings)


def test_what_the_library_observes_can_be_a_label(tmp_path: Path) -> None:
    labels = pd.DataFrame({"file": ["*"], "kernel": ["6.8"], "client_zone_physical": ["az2"]})
    (row,) = import_logs(QPERF, labels=labels, into=tmp_path / "mine").runs.to_dict("records")
    assert (row["kernel"], row["client_zone_physical"]) == ("6.8", "az2")


def own_logs(folder: Path, scale: float = 1.0) -> Path:
    """Sixty logs in a naming of one's own; latency in the near rack is multiplied."""
    random = np.random.default_rng(int(100 * scale))
    for rack, level in (("near", 39.4 * scale), ("far", 58.2)):
        for number in range(1, 31):
            place = folder / f"rack {rack}" / f"ping_run{number:02d}.log"
            place.parent.mkdir(parents=True, exist_ok=True)
            us = round(level * random.lognormal(0, 0.02), 1)
            text = QPERF.read_text().replace("39.4", f"{us}").replace("25.3 K", f"{1e3 / us:.1f} K")
            place.write_text(text)
    return folder


PUBLISHED_FIRST = [
    "Placement: Latency",
    "figures but no verdicts",
    "ppg 39.4 µs – 7.55 Gbit/s –",
    "cross-region 9.9 ms – 721 Mbit/s 2.55 Gbit/s",
    "cross-zone, provider Oracle 261 µs 16 Gbit/s – –",
    "Best is ad3 → ad1 with 114 µs, worst ad1 → ad2 with 402 µs",
]
"""What the first page of a report of the published logs says."""
OWN = "rack {rack}/*run{round}.log"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("logs", "options", "runs", "first", "said"),
    [
        (
            str(PUBLISHED.parent / "*" / "*.txt"),
            ["--labels", str(PUBLISHED.parent / "labels.csv")],
            21,
            PUBLISHED_FIRST,
            [
                "Placement: throughput at the sender",
                "measured by iperf2 tcp in 1 round of 1 deployment: 5 conditions, 1 complete run each.",
                "Every pair: throughput at the receiver",
                "3 of 15 conditions are complete in every one of 3 rounds",
            ],
        ),
        ("own", ["--pattern", OWN], 60, ["rack far 58.2 µs", "rack near 39.5 µs"], []),
    ],
    ids=["published", "own"],
)
def test_a_folder_of_logs_goes_to_a_pdf_in_one_command(
    python: str,
    tmp_path: Path,
    logs: str,
    options: list[str],
    runs: int,
    first: list[str],
    said: list[str],
) -> None:
    if logs == "own":
        logs = str(own_logs(tmp_path / "own"))
    command = [python, "-m", "netperf_lib", "import", logs, *options]
    done = subprocess.run(
        [*command, "--into", tmp_path / "mine", "--pdf", tmp_path / "mine.pdf"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{runs} runs")
    pages = [
        " ".join(p.extract_text().split()) for p in pypdf.PdfReader(tmp_path / "mine.pdf").pages
    ]
    for words in (f"{runs} ok", "as labelled, not as planned", *first):
        assert words in pages[0], words
    for words in (*said, "no verdict"):
        assert words.lower() in " ".join(pages).lower(), words
    assert "Placement: throughput at the receiver" not in " ".join(
        pages
    )  # iperf 2's client told the sender's only


def test_raw_logs_are_compared_without_an_import(tmp_path: Path) -> None:
    before, after = own_logs(tmp_path / "before"), own_logs(tmp_path / "after", 1.3)
    found = compare(str(before), str(after), pattern=OWN, margin=0.1)
    assert {c.context: str(c.verdict) for c in found} == {
        "rack far": "equivalent",
        "rack near": "worse",
    }
    kept = import_logs(before, pattern=OWN, into=tmp_path / "kept")
    assert "1 worse" in compare(kept, after, pattern=OWN, margin=0.1).summary
    assert sorted(p.name for p in tmp_path.iterdir()) == ["after", "before", "kept"]
    both = compare(before, by="rack", metric="latency_oneway_us", pattern=OWN)
    assert {c.verdict for c in both} == {"exploratory"}


def test_an_import_says_how_many_runs_are_usable_and_why_the_others_are_not(tmp_path: Path) -> None:
    shutil.copy(QPERF, tmp_path / "a.txt")
    shutil.copy(LOGS / "iperf3" / "busy_iperf3.txt", tmp_path / "b.txt")
    runs = import_logs(tmp_path, into=tmp_path / "mine").runs
    assert usable(runs).startswith("3 runs, 1 usable; 1 not: ")
    assert "busy" in usable(runs)
    assert usable(runs[runs["status"] == "ok"]) == "1 run, all usable"


def test_a_log_of_many_runs_is_stored_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "all.txt"
    log.write_text("".join(f"tcp_lat:\n    latency  =  {50 + i} us\n" for i in range(40)))
    reads: list[Path] = []
    real = logs.parse_ends

    def counted(client: Path) -> list[ParsedRun]:
        reads.append(client)
        return real(client)

    flushed: list[int] = []
    flush = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (flushed.append(number), flush(number)))
    monkeypatch.setattr(logs, "parse_ends", counted)
    mine = npl.import_logs(log, into=tmp_path / "mine")
    assert len(flushed) < 20  # not for each run
    assert sorted(mine.runs["latency_oneway_us"]) == [50.0 + i for i in range(40)]
    assert len(reads) == 1
    [stored] = Path(mine.path).glob("raw/*/client-*.out")
    assert npl.verify(mine.path) == []
    stored.write_bytes(stored.read_bytes().replace(b"50", b"10"))
    [problem] = npl.verify(mine.path)
    assert "was changed after it was measured" in problem
    shutil.rmtree(Path(mine.path, "tables"))
    changed = npl.load(mine.path)
    assert set(changed["status"]) == {"failed"}
    assert changed["latency_oneway_us"].isna().all()


def test_the_records_of_many_runs_are_small(tmp_path: Path) -> None:
    """The size is a function of the log alone; the folder of 10,000 runs is a tenth larger than their log."""
    log = tmp_path / "all.txt"
    text = (LOGS / "iperf3" / "pkb-win-tcp-P5.txt").read_text()
    log.write_text(
        "".join(text.replace("port 5396", f"port {number}") for number in range(1000, 1300))
    )
    mine = npl.import_logs(log, into=tmp_path / "mine")
    size = sum(f.stat().st_size for f in Path(mine.path).rglob("*") if f.is_file())
    assert len(mine.store.run_ids()) == 300
    assert size < 1.2 * log.stat().st_size
    assert len([*Path(mine.path, "raw").rglob("*")]) == 4


def test_the_page_to_explore_shows_the_lines_of_each_run_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "all.txt"
    log.write_text("".join(f"tcp_lat:\n    latency  =  {50 + i} us\n" for i in range(5)))
    exp = npl.import_logs(log, into=tmp_path / "mine")
    ids = exp.runs.sort_values("latency_oneway_us")["run_id"].tolist()
    assert list(explorer._logs(exp, ids)) == [
        f"tcp_lat:\n    latency  =  {50 + i} us\n" for i in range(5)
    ]


def test_a_link_out_of_a_given_folder_is_refused_and_one_inside_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("tcp_lat:\n    latency  =  50 us\n")
    given = tmp_path / "given"
    given.mkdir()
    (given / "a.txt").write_text("tcp_lat:\n    latency  =  51 us\n")
    (given / "b.txt").symlink_to("a.txt")
    assert len(understand(given)) == 2
    (given / "c.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(UsageError, match=r"c\.txt: a link to elsewhere"):
        npl.import_logs(given, into=tmp_path / "mine")
    (given / "c.txt").unlink()
    (given / "d.txt").symlink_to("/dev/zero")
    (given / "e.txt").symlink_to(tmp_path / "nothing")
    os.mkfifo(given / "f.txt")
    assert len(understand(given)) == 2  # none of these is a log
    (tmp_path / "link.txt").symlink_to(tmp_path / "secret.txt")
    assert len(understand(tmp_path / "link.txt")) == 1  # it was named
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    "records",
    [
        None,
        gzip.compress(b'[{"run_id": "../../x"}]'),
        gzip.compress(b'["x"]'),
        gzip.compress(b"[]")[:-4],
        b"[]",
    ],
    ids=["bomb", "path", "no record", "cut", "not packed"],
)
def test_records_of_a_stranger_are_one_sentence(tmp_path: Path, records: bytes | None) -> None:
    records = records or gzip.compress(
        bytes((1 << 28) + 1), 1
    )  # made here: every worker collects the tests
    (tmp_path / "a.txt").write_text("tcp_lat:\n    latency  =  50 us\n")
    mine = npl.import_logs(tmp_path / "a.txt", into=tmp_path / "mine").path
    next(Path(mine).glob("raw/*/runs.json.gz")).write_bytes(records)
    with pytest.raises(StoreError, match=r"runs\.json\.gz: cannot be read"):
        npl.load(mine)
    assert "cannot be read" in npl.verify(mine)[-1]


def test_problems_are_all_printed_where_records_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("tcp_lat:\n    latency  =  50 us\n")
    mine = Path(npl.import_logs(tmp_path / "a.txt", into=tmp_path / "mine").path)
    next(mine.glob("raw/*/runs.json.gz")).write_bytes(b"[]")
    (mine / "exclusions.json").write_text("[")
    done = CliRunner().invoke(command, ["verify", str(mine)], catch_exceptions=False)
    assert done.exit_code == 1
    assert "runs.json.gz: cannot be read" in done.output
    assert "exclusions.json" in done.output


def test_what_a_killed_import_left_is_removed_by_the_next(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(
            f"tcp_lat:\n    latency  =  {len(name)}0 us\n# {name}\n"
        )
    mine = Path(npl.import_logs(tmp_path / "one.txt", into=tmp_path / "mine").path)
    left = mine / "raw" / f".staging-{'0' * 32}"
    left.mkdir()
    npl.import_logs(
        tmp_path / "two.txt", into=mine, labels=pd.DataFrame({"file": ["two.txt"], "round": [2]})
    )
    assert not left.exists()
    assert len(list(mine.glob("raw/*/run.json"))) == 2


def test_a_column_of_times_is_when_the_runs_began(tmp_path: Path) -> None:
    names = [f"{n}.txt" for n in range(3)]
    for n, name in enumerate(names):
        (tmp_path / name).write_text(QPERF.read_text().replace("39", f"{39 + n}"))
    times = ["2026-11-02T06:00:00Z", "2026-11-02 06:01:00", "2026-11-02 06:02"]
    labels = pd.DataFrame({"file": names, "when": times, "shift": "2026-11-02 06:00"})
    runs = import_logs([tmp_path / n for n in names], labels=labels, into=tmp_path / "mine").runs
    assert runs["started_utc"].dt.minute.to_list() == [0, 1, 2]
    assert "when" not in runs
    assert set(runs["shift"]) == {"2026-11-02 06:00"}, "the same for several runs: a label"


def test_a_thousand_problems_are_not_printed(tmp_path: Path) -> None:
    labels = pd.DataFrame({"file": [f"absent-{n}.txt" for n in range(1000)]})
    with pytest.raises(UsageError, match="problems, nothing was imported") as error:
        understand(QPERF, labels=labels)
    assert str(error.value) == (
        "1,001 problems, nothing was imported:\n"
        f"{QPERF.name}: no row of labels matches this log; add one (its cells may be empty)\n"
        "labels:2 ('absent-0.txt'), labels:3 ('absent-1.txt'), labels:4 ('absent-2.txt') and 997 more: "
        "it matches no log"
    )


def test_placements_and_headings_are_read_as_people_write_them(tmp_path: Path) -> None:
    names = ["same-zone", "Same Zone", "same_zone", "Cross Zone"]
    for n in range(4):
        shutil.copy(QPERF, tmp_path / f"{n}.txt")
    labels = pd.DataFrame(
        {"File": [f"{n}.txt" for n in range(4)], "Placement": names, "Round": range(4)}
    )
    labels = labels.assign(
        **{"Accelerated Networking": "on", "Bandwidth (Mbps)": "8000", "Client's VM size": "D16"}
    )
    runs = understand(tmp_path, labels=labels)
    assert [run.get("placement") for run in runs] == ["same-zone"] * 3 + ["cross-zone"]
    assert {
        (r.get("accelerated"), r.get("advertised_bps"), r.get("client_vm_size")) for r in runs
    } == {(True, 8e9, "D16")}


@pytest.mark.parametrize("size", ["64K", "64k", "64 KiB", "64KB", "65536"])
def test_size_as_label_is_what_the_tool_sets(tmp_path: Path, size: str) -> None:
    log = tmp_path / f"{size}-r1.txt"
    log.write_text("tcp_lat:\n    latency  =  20 us\n")

    (run,) = npl.import_logs(
        log, pattern="{tcp_buffer_bytes}-r{round}.txt", into=tmp_path / "e"
    ).runs.itertuples()

    assert run.tcp_buffer_bytes == 65536


def test_direction_that_the_log_leaves_open_is_the_label(tmp_path: Path) -> None:
    log = tmp_path / "ppg-reverse-r1.txt"
    log.write_text(
        "[  5]   0.00-10.00  sec  1.10 GBytes   944 Mbits/sec    3             sender\n"
        "[  5]   0.00-10.00  sec  1.10 GBytes   943 Mbits/sec                  receiver\n"
    )

    (run,) = npl.import_logs(
        log, pattern="{placement}-{direction}-r{round}.txt", into=tmp_path / "e"
    ).runs.itertuples()

    assert run.direction == "reverse"


class CountedRow(dict[str, Any]):
    """A row of a table of labels that counts how often it is looked at."""

    looks = 0

    def get(self, *arguments: Any) -> Any:
        CountedRow.looks += 1
        return super().get(*arguments)


def test_each_row_of_labels_is_looked_at_once(tmp_path: Path) -> None:
    CountedRow.looks = 0
    table = [(f"labels:{n}", CountedRow(file=f"{n}.txt")) for n in range(300)]
    find = imports._row_finder([*table, ("labels:300", CountedRow(file="1*.txt"))])
    found = [find(f"{n}.txt", tmp_path / f"{n}.txt") for n in range(300)]
    assert found == [[row] for row in table]
    assert find("123456.txt", tmp_path / "x") == [("labels:300", {"file": "1*.txt"})]
    assert CountedRow.looks == 301
