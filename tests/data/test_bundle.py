"""One file holds an experiment: it is read like the folder, gives the same verdicts, and names nobody if asked to."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import tarfile
import tracemalloc
from pathlib import Path
from typing import Any

import pypdf
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib import pipeline
from netperf_lib.cli import npl as command
from netperf_lib.data import connections
from netperf_lib.data.anonymous import StandIns, anonymous_copy
from netperf_lib.data.bundle import SUFFIX, pack
from netperf_lib.data.files import sha256_of
from netperf_lib.data.layout import RawFolder, Store, new_record
from netperf_lib.errors import NetperfError, StoreError, UsageError
from netperf_lib.experiment.model import Deployment, Experiment, Host, Proof

from ..unpacked import unpack

SECRETS = (
    "0b1f6471-1bf0-4dda-aec3-cb9272f09590", "rg-payments-prod", "vnet-payments", "ppg-payments", "kschmidt",
    "contoso-web-01", "contoso-sql-01", "contoso-sql-02", "CONTOSOWIN7", "contoso.com", "cloudapp", "20.50.1.6",
    "20.50.1.7", "20.50.1.8", "51.124.9.44", "2603:1020:206:2::41", "00:0d:3a:1b:2c:3d", "Fabrikam", "k.schmidt@",
)  # fmt: skip
"""What must not be in an anonymous bundle, in any spelling."""
HOSTS = {
    "contoso-web-01": "20.50.1.6",
    "contoso-sql-01": "20.50.1.7",
    "contoso-sql-02": "20.50.1.8",
}
DECLARED: dict[str, Any] = {
    "name": "payments",
    "title": "Is contoso-sql-02 slower, asks k.schmidt@contoso.com?",
    "hosts": {
        "source": "azure",
        "options": {
            "subscription": SECRETS[0],
            "resource_group": SECRETS[1],
            "subnet": SECRETS[2],
            "ppg": SECRETS[3],
        },
    },
    "pairs": [
        {
            "client": "contoso-web-01",
            "server": "contoso-sql-01",
            "placement": "ppg",
            "labels": {"rack": "r7"},
        },
        {
            "client": "contoso-web-01",
            "server": "contoso-sql-02",
            "placement": "cross-zone",
            "labels": {"rack": "r8"},
        },
    ],
    "tests": [
        {"tool": "qperf", "test": "tcp_lat", "duration_s": 1},
        {"tool": "iperf3", "test": "tcp", "duration_s": 1},
    ],
    "rounds": 8,
    "contrasts": [
        {
            "metric": metric,
            "a": {"tool": tool, "server": "contoso-sql-02", "placement": "cross-zone"},
            "b": {"tool": tool, "server": "contoso-sql-01", "placement": "ppg"},
        }
        for metric, tool in (("latency_oneway_us", "qperf"), ("throughput_bps", "iperf3"))
    ],
    "report": {"notebooks": ["summary"]},
}
IPERF3 = """\
iperf 3.12
Linux contoso-web-01 5.15.0-1053-azure #61-Ubuntu SMP Mon Jan 15 18:32:08 UTC 2024 x86_64
Control connection MSS 1448
Time: Mon, 23 Nov 2026 19:37:13 GMT
Connecting to host {host}.contoso.com, port 5201
      Cookie: yk5d5yrdw3qkqjyyyfnbfnl2pcmqgcwkzcyp
      TCP MSS: 1448 (default)
[  5] local 20.50.1.6 port 41234 connected to {address} port 5201
Starting Test: protocol: TCP, 1 streams, 131072 byte blocks, omitting 0 seconds, 1 second test, tos 0
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec  {mb} MBytes  {mbit} Mbits/sec    0   3.00 MBytes
- - - - - - - - - - - - - - - - - - - - - - - - -
Test Complete. Summary Results:
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-1.00   sec  {mb} MBytes  {mbit} Mbits/sec    0             sender
[  5]   0.00-1.00   sec  {mb} MBytes  {mbit} Mbits/sec                  receiver
CPU Utilization: local/sender 1.3% (0.1%u/1.2%s), remote/receiver 3.4% (0.2%u/3.2%s)
snd_tcp_congestion cubic
rcv_tcp_congestion cubic

iperf Done.
"""
ASIDE = (
    "/subscriptions/0B1F6471-1bf0-4dda-aec3-cb9272f09590/resourceGroups/rg-payments-prod/providers/Microsoft.Network/"
    "virtualNetworks/vnet-payments\nwarning: 51.124.9.44 and 2603:1020:206:2::41 (00:0d:3a:1b:2c:3d) answered\n"
    "vm.westeurope.cloudapp.azure.com: /"  # no path of a machine stands in the project
    "home/kschmidt/.ssh/config: Fabrikam, FabrikamVPN\n"
    'computername="CONTOSOWIN7" at contosowin7, rate 10.1.2.3, version 1.2.3\n'
)


@pytest.fixture(scope="module")
def payments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measured experiment whose every file names its owner."""
    from netperf_lib.experiment.schedule import schedule

    experiment = Experiment.model_validate(DECLARED)
    store = Store(tmp_path_factory.mktemp("owner"), "payments")
    store.declare(experiment)
    plan = schedule(experiment, seed=4)
    store.write_plan(plan.to_dict())
    proof = Proof(
        claim="contoso-sql-01 is in ppg-payments",
        holds=True,
        evidence="asked 51.124.9.44 as kschmidt",
    )
    hosts = {
        name: Host(
            name=name,
            address=address,
            data_address=address,
            user="kschmidt",
            identity="/" + "home/kschmidt/.ssh/id_ed25519",
            region="westeurope",
            zone="1",
            ppg="ppg-payments",
            vm_size="Standard_D4s_v5",
            proofs=(proof,),
        )
        for name, address in HOSTS.items()
    }
    where = Deployment(
        deployment_id="rg-payments-prod-1", source="azure", hosts=tuple(hosts.values())
    )
    store.write_deployment(1, where)
    plain = {name: json.loads(json.dumps(host, default=vars_of)) for name, host in hosts.items()}
    for trial in plan.trials:
        far = trial.pair.placement == "cross-zone"
        run_id = f"{trial.run_id}-a1"
        with store.new_run(run_id, durable=False) as folder:
            if trial.test.tool == "qperf":
                text = f"tcp_lat:\n    latency  =  {(90 if far else 60) + trial.round} us\n"
            else:
                mbit = 900 + trial.round - 300 * far
                text = IPERF3.format(
                    host=trial.pair.server,
                    address=HOSTS[trial.pair.server],
                    mb=f"{mbit / 8.388608:.0f}",
                    mbit=mbit,
                )
            (folder / "client.out").write_text(text)
            (folder / "client.err").write_text(ASIDE)
            (folder / "server.err").write_bytes(gzip.compress(ASIDE.encode()))
            (folder / "server.out").write_bytes(b"\xff\xfe" + ASIDE.encode("utf-16-le"))
            store.write_record(
                folder,
                new_record(
                    run_id=run_id,
                    experiment="payments",
                    deployment=1,
                    deployment_id="rg-payments-prod-1",
                    round=trial.round,
                    order=trial.order,
                    trial=next(t for t in plan.to_dict()["trials"] if t["run_id"] == trial.run_id),
                    hosts={"client": plain[trial.pair.client], "server": plain[trial.pair.server]},
                    commands={"client": [trial.test.tool, HOSTS[trial.pair.server]], "server": []},
                    warnings=["contoso-web-01 has 00:0d:3a:1b:2c:3d"],
                ),
            )
    return store.path


def vars_of(value: Any) -> Any:
    from dataclasses import asdict, is_dataclass

    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else dict(value)


@pytest.fixture(scope="module")
def anonymous(payments: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("sent")
    words = [
        "export",
        str(payments),
        "--bundle",
        "--anonymous",
        "--hide",
        "Fabrikam",
        "--into",
        str(into),
    ]
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert "contoso-web-01 is now host-1" in done.output
    [file] = into.iterdir()
    return file


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine: nothing is unpacked here yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def texts(file: Path) -> dict[str, str]:
    """Every text in an archive, decompressed, in each encoding that it could have."""
    found = {}
    with tarfile.open(file) as archive:
        for member in archive:
            data = archive.extractfile(member).read()  # type: ignore[union-attr]
            if data.startswith(b"\x1f\x8b"):
                data = gzip.decompress(data)
            text = (
                member.name
                + "\n"
                + data.decode("utf-8", "replace")
                + data.decode("utf-16-le", "replace")
            )
            if member.name.endswith(".pdf"):
                pdf = pypdf.PdfReader(io.BytesIO(data))
                text += str(pdf.metadata) + "\n".join(page.extract_text() for page in pdf.pages)
            if member.name.endswith(".parquet"):
                import pyarrow.parquet as pq

                text += str(pq.read_table(io.BytesIO(data)).to_pydict())
            found[member.name] = text
    return found


def test_an_anonymous_bundle_holds_none_of_the_names(payments: Path, anonymous: Path) -> None:
    inside = texts(anonymous)
    assert {name.split("/")[1] for name in inside} >= {
        "raw",
        "tables",
        "reports",
        "hosts",
        "digests",
        "plan.json",
    }
    for secret in SECRETS:
        assert [name for name, text in inside.items() if secret.casefold() in text.casefold()] == []
    logs = "".join(text for name, text in inside.items() if "/raw/" in name)
    assert "10.1.2.3" in logs  # a private address says nothing
    assert "version 1.2.3" in logs
    original = "".join(
        p.read_text("latin-1")
        for p in payments.rglob("*")
        if p.suffix in (".out", ".json", ".yaml")
    )
    assert sum(secret in original for secret in SECRETS) > 10  # the search can find


def verdicts(place: Path) -> list[tuple[Any, ...]]:
    return [
        (c.metric, c.verdict, c.ratio, c.low, c.high, c.n, c.medians)
        for c in npl.compare(npl.read(place))
    ]


def test_an_anonymous_bundle_gives_the_same_verdicts(payments: Path, anonymous: Path) -> None:
    assert verdicts(anonymous) == verdicts(payments)
    assert [c.verdict for c in npl.compare(npl.read(anonymous))] == ["worse", "worse"]
    assert set(npl.load(anonymous)["server"]) <= {"host-2", "host-3"}
    assert set(
        npl.load(anonymous)["server_rack" if "server_rack" in npl.load(anonymous) else "rack"]
    ) == {"r7", "r8"}


def test_a_bundle_verifies_and_names_the_root_of_its_report(anonymous: Path) -> None:
    assert npl.verify(anonymous) == []
    done = CliRunner().invoke(command, ["verify", str(anonymous)], catch_exceptions=False)
    assert f"no problems found in {len(npl.load(anonymous))} runs" in done.output
    root = re.search(r"root ([0-9a-f]{64})", done.output)
    assert root
    assert anonymous.name == f"payments-{root[1][:8]}{SUFFIX}"
    assert npl.verify(anonymous, root=root[1]) == []
    assert root[1] in re.sub(r"\s", "", texts(anonymous)["payments/reports/summary.pdf"])
    assert len(npl.verify(anonymous, root="0" * 64)) == 1


def test_a_bundle_is_read_by_the_commands_like_the_folder(anonymous: Path, tmp_path: Path) -> None:
    for words in (
        ["compare", "{}"],
        ["export", "{}", "--into", str(tmp_path / "out")],
        ["limits", "{}"],
    ):
        done = CliRunner().invoke(
            command, [w.format(anonymous) for w in words], catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
    [page] = npl.report(anonymous, to="html")
    assert "host-2" in page.read_text("utf-8")


def test_the_same_folder_gives_the_same_bytes_and_its_own_root(
    payments: Path, tmp_path: Path
) -> None:
    npl.ingest(payments)
    root = Store.at(payments).root_digest()
    one, other = (pack(payments, "payments", root, tmp_path / f"{n}{SUFFIX}") for n in "ab")
    assert one.read_bytes() == other.read_bytes()
    assert npl.verify(one, root=root) == []
    assert verdicts(one) == verdicts(payments)


def test_a_log_of_many_runs_is_packed_once(tmp_path: Path) -> None:
    log = tmp_path / "all.txt"
    log.write_text("".join(f"tcp_lat:\n    latency  =  {50 + i % 7} us\n" for i in range(40)))
    mine = Path(npl.import_logs(log, into=tmp_path / "mine").path)
    npl.ingest(mine)
    packed = pack(mine, "mine", Store.at(mine).root_digest(), tmp_path / f"mine{SUFFIX}")
    with tarfile.open(packed) as archive:
        assert len([m for m in archive if m.name.endswith(".out")]) == 1
    assert npl.verify(packed) == []
    copy, _ = anonymous_copy(Store.at(mine), tmp_path / "other")
    assert len([*copy.path.glob("raw/*/client-*.out")]) == 1
    assert npl.verify(copy.location) == []
    assert sorted(npl.load(copy.path)["latency_oneway_us"]) == sorted(
        npl.load(mine)["latency_oneway_us"]
    )
    assert {record["imported"]["file"] for _, record in copy.runs()}.isdisjoint({"all.txt"})


@pytest.mark.parametrize("name", ["client.out", "server.err", "run.json"])
def test_what_was_changed_since_it_was_measured_is_not_copied(
    payments: Path, tmp_path: Path, name: str
) -> None:
    """Nobody vouches for it, and the copy, with new digests, would."""
    place = Path(shutil.copytree(payments, tmp_path / "payments"))
    file = sorted(place.glob(f"raw/*/{name}"))[3]
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(
        StoreError, match=f"{file.parent.name}: {name} was changed .* as it was measured is copied"
    ):
        anonymous_copy(Store.at(place), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_copy_of_its_log_for_each_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(Path(__file__).parent / "releases" / "imported-2026-11-24.tgz", tmp_path)
    place = next(tmp_path.glob("*/experiment.yaml")).parent
    said: list[str] = []
    monkeypatch.setattr(pipeline, "report_to", lambda _: [])
    file = npl.bundle(place, into=tmp_path, say=said.append)
    assert said[0].endswith(
        "with a copy of its log for each run; import into a new folder to send one"
    )
    assert npl.verify(file) == []
    said.clear()
    (tmp_path / "a.txt").write_text("tcp_lat:\n    latency  =  50 us\n" * 2)
    npl.bundle(
        npl.import_logs(tmp_path / "a.txt", into=tmp_path / "mine").path,
        into=tmp_path,
        say=said.append,
    )
    assert said == []


def tar(place: Path, *members: tuple[str, bytes, bytes, str]) -> Path:
    with tarfile.open(place, "w:gz") as archive:
        for name, data, kind, link in members:
            member = tarfile.TarInfo(name)
            member.size, member.type, member.linkname = len(data), kind, link
            archive.addfile(member, io.BytesIO(data))
    return place


REG, LNK, SYM, FIFO = tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE
YAML = ("x/experiment.yaml", b"name: x\nhosts: {source: imported}\n", REG, "")


@pytest.mark.parametrize(
    "members",
    [
        [("../x/experiment.yaml", b"", REG, "")],
        [("/x/experiment.yaml", b"", REG, "")],
        [YAML, ("x/raw/../../../evil", b"", REG, "")],
        [YAML, ("x/raw/r/client.out", b"", SYM, "/etc/passwd")],
        [YAML, ("x/raw/r/client.out", b"", LNK, "/etc/passwd")],
        [YAML, ("x/raw/r/client.out", b"", LNK, "x/../../evil")],
        [YAML, ("x/raw/r/client.out", b"", FIFO, "")],
        [YAML, ("x/hosts/ssh_config", b"Match exec x", REG, "")],
        [YAML, ("x/raw/r/.bashrc", b"", REG, "")],
        [YAML, ("y/plan.json", b"", REG, "")],
        [YAML, YAML],
        [("x/plan.json", b"", REG, "")],
        [],
    ],
    ids=range(13),
)
def test_an_archive_of_a_stranger_writes_nothing_but_an_experiment(
    tmp_path: Path, members: list[Any]
) -> None:
    file = tar(tmp_path / f"x{SUFFIX}", *members)
    with pytest.raises(StoreError, match=re.escape(str(file))):
        npl.read(file)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file() or p.is_symlink()] == [file.name]


def test_an_archive_that_would_fill_the_disk_is_refused(tmp_path: Path) -> None:
    file = tar(tmp_path / f"x{SUFFIX}", YAML, ("x/raw/r/client.out", bytes((1 << 28) + 1), REG, ""))
    assert file.stat().st_size < 1 << 20
    with pytest.raises(StoreError, match="would unpack to more than"):
        npl.read(file)
    assert sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) < 1 << 20


def test_a_cut_archive_and_a_header_that_asks_for_memory_are_refused(
    anonymous: Path, tmp_path: Path
) -> None:
    cut = tmp_path / f"cut{SUFFIX}"
    cut.write_bytes(anonymous.read_bytes()[:5000])
    bomb = tmp_path / f"bomb{SUFFIX}"
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 8 << 30
    bomb.write_bytes(gzip.compress(header.tobuf() + bytes(1 << 20)))
    for file in (cut, bomb):
        with pytest.raises(StoreError, match="not the archive of an experiment, or damaged"):
            npl.verify(file)


def test_a_name_that_is_a_word_of_the_logs_is_refused(payments: Path, tmp_path: Path) -> None:
    with pytest.raises(NetperfError, match="is also a word of the logs"):
        anonymous_copy(Store.at(payments), tmp_path, ["latency"])


@pytest.mark.parametrize(
    "text",
    [
        "12:30:45",
        "2026-11-23T19:37:13Z",
        "10.0.0.4",
        "fe80::1",
        "::1",
        "kernel 5.15.0-1053",
        "0.123, 0.124",
        "a::b",
    ],
)
def test_what_names_nobody_stays(text: str) -> None:
    assert StandIns().text(text) == text


@pytest.mark.parametrize("word", ["Lab", "10.0.0.4", ""])
def test_a_word_that_would_stay_is_refused_rather_than_left(word: str) -> None:
    with pytest.raises(UsageError, match=f"'{word}' cannot be hidden"):
        StandIns([word])


def test_an_anonymous_copy_of_tables_alone_is_refused(tmp_path: Path) -> None:
    tables = Store.at(npl.recorded().parent / "before")
    with pytest.raises(StoreError, match="before: no raw logs"):
        anonymous_copy(tables, tmp_path)


def test_a_stand_in_is_the_same_everywhere_and_is_itself_no_name() -> None:
    ins = StandIns()
    ins.name("host", "Contoso-1")
    once = ins.text("contoso-1 8.8.8.8 2a00:1450::1 CONTOSO-1 8.8.4.4 8.8.8.8 contoso-10")
    assert once == "host-1 192.0.2.1 2001:db8::1 host-1 192.0.2.2 192.0.2.1 contoso-10"
    assert ins.text(once) == once


def test_samples_of_others_unpack_to_no_more_than_a_log_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST", 1 << 20)
    name = f"client{connections.SAMPLES}"
    (tmp_path / name).write_bytes(gzip.compress(bytes(1 << 26)))
    record: dict[str, Any] = {"trial": {}, "commands": {"client": [], "server": []}}
    record["files"] = {name: sha256_of(tmp_path / name)}
    tracemalloc.start()
    try:
        assert connections.of_record(RawFolder("run", tmp_path), record) == {}
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
