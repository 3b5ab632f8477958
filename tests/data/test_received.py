"""A folder that somebody sent may hold anything: it is read, or refused in a sentence, at once."""

import errno
import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import netperf_lib as npl
from netperf_lib import cli
from netperf_lib.errors import NetperfError, explain
from netperf_lib.reporting import explorer

SECRET = "PRIVATE KEY OF THE READER"
DOCUMENTS = (
    "experiment.yaml plan.json hosts/deployment-01.json excluded/x.json "
    "digests/d01-r0001-0064.sha256 run.json client.out"
).split()


@pytest.fixture
def place(first_round, tmp_path):
    """The runs of one tool in a round: every command reads them."""
    others = shutil.ignore_patterns("*-iperf3-*", "*-sockperf-*")
    received = tmp_path / "received" / "mine"
    return Path(shutil.copytree(first_round, received, ignore=others))


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        # an address is short
        before = Path.cwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


def endless(path):
    path.symlink_to("/dev/zero")


def secret(path):
    kept = path.parents[4] / "secret.txt"
    kept.write_text(f"- {SECRET}\n")
    path.symlink_to(kept)


def folder(path):
    path.mkdir()


OTHERS = [
    pipe,
    secret,
    *(pytest.param(o, marks=pytest.mark.slow) for o in (unix_socket, endless, folder)),
]


def outputs(place):
    """What each command that reads a folder prints; an error of the code is raised."""
    for words in (
        ["show"],
        ["ingest", "--workers", "1"],
        ["compare", "--by", "placement"],
    ):
        done = CliRunner().invoke(cli.npl, [*words, str(place)])
        error = done.exception
        known = isinstance(error, NetperfError | SystemExit | None)
        if not known and explain(error) is None:
            raise error
        yield f"{done.output} {error or ''}"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("other", OTHERS, ids=lambda made: made.__name__)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_no_plain_file_is_never_read(place, name, other):
    run = next(place.glob("raw/*qperf*"))
    path = (run if name in ("run.json", "client.out") else place) / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    other(path)
    said = "\n".join(outputs(place))
    assert SECRET not in said
    if path.parent != run:
        assert str(path) in said
    else:
        with suppress(NetperfError):
            runs = npl.load(place).set_index("run_id")
            assert runs.loc[run.name, "status"] == "failed"
            [log] = explorer._logs(npl.read(place), [run.name])
            assert log == "" or name == "run.json"


@pytest.mark.timeout(20)
def test_aliases_of_yaml_are_refused(place):
    unfolding = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]", *unfolding]
    (place / "experiment.yaml").write_text("\n".join(lines))
    with pytest.raises(NetperfError, match="line 2: an alias of yaml"):
        npl.load(place)


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_run_that_cannot_be_looked_at_now_is_not_left_out(place, code, monkeypatch):
    runs, lstat, failed = len(npl.load(place)), os.lstat, []

    def once(path, **options):
        if str(path).endswith("run.json") and not failed:
            failed.append(path)
            raise OSError(code, os.strerror(code), str(path))
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", once)
    with pytest.raises((NetperfError, OSError), match=r"run\.json"):
        npl.ingest(place)
    assert failed
    assert len(npl.load(place)) == runs


def with_column(change):
    def rewrite(part):
        found = pq.read_table(part)
        meta = pq.read_metadata(part).metadata
        kept = {b"netperf_part": meta[b"netperf_part"]}
        pq.write_table(change(found).replace_schema_metadata(kept), part)

    return rewrite


def many(part):
    with_column(lambda t: pa.concat_tables([t] * 50))(part)


ODD = {
    "without a column": with_column(lambda table: table.drop_columns(["status"])),
    "another type": with_column(
        lambda t: t.set_column(
            t.column_names.index("round"), "round", t["round"].cast(pa.string())
        )
    ),
    "too many rows": many,
    "no table": lambda part: part.write_bytes(b"PAR1"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("has_raw", [True, False])
def test_an_odd_part_is_one_error_that_says_what_to_do(place, kind, has_raw):
    npl.ingest(place)
    [part] = (place / "tables" / "runs").glob("*.parquet")
    ODD[kind](part)
    if not has_raw:
        shutil.rmtree(place / "raw")
    if kind == "no table" and has_raw:
        assert set(npl.load(place)["status"]) == {"ok"}  # it was made anew
        return
    if kind == "too many rows" and not has_raw:
        return  # nobody knows how many there were
    with pytest.raises(NetperfError, match=f"{part}: .*remove the folder `tables`"):
        npl.load(place)
