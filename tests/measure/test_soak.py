"""Every verb killed at random moments: nothing stays behind, and repeated it ends as if nothing
had happened."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from functools import partial
from pathlib import Path

import pytest

from netperf_lib.data.layout import trial_of
from netperf_lib.data.raw import run_ids
from netperf_lib.data.raw import runs as stored_runs

from ..sshd import processes, wait_until

KILLS = 10
ROUNDS = 12
DECLARED = f"""
name: soak
hosts: {{source: lab, options: {{hosts: [{{name: a}}, {{name: b, zone: "2"}}]}}}}
pairs: [{{client: a, server: b, placement: cross-zone}}]
tests: [{{tool: qperf, test: tcp_lat, duration_s: 0.3}}]
rounds: {ROUNDS}
"""
VERBS = {
    "collect": ("collect", "soak.yaml"),
    "ingest": ("ingest", "results/soak"),
    "report": ("report", "results/soak", "--notebook", "07-quality"),
    "run": ("run", "soak.yaml", "--pdf", "soak.pdf"),
    "lab up": ("lab", "up", "--folder", "lab"),
}


@pytest.mark.slow
@pytest.mark.timeout(1800 + 60 * KILLS)
def test_every_verb_killed_at_any_moment(tmp_path, request):
    mark, rng = uuid.uuid4().hex, random.Random(1)
    (tmp_path / "soak.yaml").write_text(DECLARED, "utf-8")
    temporary = Path(
        tempfile.mkdtemp(prefix="npl-")
    )  # a kernel's socket needs a short path
    request.addfinalizer(partial(shutil.rmtree, temporary))
    environment = {**os.environ, "SOAK": mark, "TMPDIR": str(temporary)}

    def npl(verb):
        command = [sys.executable, "-m", "netperf_lib", *VERBS[verb]]
        with (tmp_path / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=tmp_path, env=environment, stdout=log, stderr=log
            )

    def ours(place):
        return f"SOAK={mark}".encode() in (place / "environ").read_bytes()

    for verb in VERBS:
        longest_s = {"report": 12, "run": 15}.get(verb, 6)
        for _ in range(max(1, KILLS // len(VERBS))):
            process = npl(verb)
            time.sleep(rng.uniform(0.3, longest_s))
            process.kill()
            process.wait()
            assert wait_until(lambda: not processes(ours), 60), verb
            if (tmp_path / "results" / "soak" / "raw").exists():
                assert all(
                    r.status == "ok"
                    for r in stored_runs(Path(tmp_path / "results", "soak"))
                ), verb
        if verb != "lab up":
            process = npl(verb)
            assert process.wait(300) == 0, (tmp_path / "log").read_text("utf-8")[-3000:]
            assert wait_until(lambda: not processes(ours), 60), verb
    store = Path(tmp_path / "results", "soak")
    runs = run_ids(store)
    assert len(set(map(trial_of, runs))) == len(runs) == ROUNDS
    assert {p.name for p in (store / "raw").iterdir()} == set(runs)
    assert (tmp_path / "soak.pdf").read_bytes().startswith(b"%PDF")
    assert "Traceback" not in (tmp_path / "log").read_text("utf-8")
    assert list(temporary.iterdir()) == []
