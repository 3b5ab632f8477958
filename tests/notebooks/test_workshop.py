"""The workshop as a class meets it: JupyterLab and the lab come up, live cells measure, both go."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest

from netperf_lib.hosts import lab
from tests.sshd import wait_until

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("lab_runs"),
]


@dataclass
class Class:
    """A workshop that was started."""

    desk: Path
    runtime: Path
    env: dict
    process: subprocess.Popen

    def answer(self, path="api/status"):
        """Return what JupyterLab answers."""
        [file] = self.runtime.glob("jpserver-*.json")
        server = json.loads(file.read_text())
        headers = {"Authorization": f"token {server['token']}"}
        request = urllib.request.Request(server["url"] + path, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def up(self):
        """Return whether JupyterLab answers; it writes down its address before it listens there."""
        assert self.process.poll() is None, self.process.communicate()[0]
        try:
            return bool(self.answer())
        except (OSError, ValueError):
            return False

    def live(self, lesson, python):
        """Type the lines of the live cell of a lesson; return what they print."""
        [place] = self.desk.glob(f"{lesson}-*.ipynb")
        book = nbformat.read(place, as_version=4)
        [cell] = [c for c in book.cells if "live" in c.metadata.get("tags", [])]
        script = re.sub(r"(?m)^!", "", cell.source)
        # a second of two busy processors, not two
        script = script.replace("qperf -t 2", "qperf -t 1")
        paths = os.pathsep.join([str(Path(python).parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-ec", script],
            env=self.env | {"PATH": paths},
            cwd=self.desk,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def started(recorded, tmp_path_factory):
    home = tmp_path_factory.mktemp("class")
    runtime = home / "run"
    runtime.mkdir(mode=0o700)
    # no tool is on PATH but the system's: the workshop itself finds what stands beside its Python
    folders = {"XDG_RUNTIME_DIR": runtime, "JUPYTER_RUNTIME_DIR": runtime, "HOME": home}
    env = (
        os.environ
        | {k: str(v) for k, v in folders.items()}
        | {"JUPYTER_CONFIG_DIR": str(home)}
    )
    words = ["-m", "netperf_lib", "workshop", "start", str(home / "desk"), "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, *words, "--experiment", str(recorded)],
        env=env,
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # a shell that starts jobs in the background has them ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    found = Class(home / "desk", runtime, env, process)
    try:
        assert wait_until(found.up, 120), "JupyterLab did not come up"
        yield found
        # here and in no test, as nobody knows which test is the last
        _both_are_gone_at_the_end(found)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        lab.stop(found.runtime)


def _both_are_gone_at_the_end(started):
    started.process.send_signal(signal.SIGINT)
    said, _ = started.process.communicate(timeout=180)
    assert started.process.returncode == 0, said
    assert "The lab is running" in said
    assert "Traceback" not in said
    assert lab.status(started.runtime) is None
    assert not list(started.runtime.glob("jpserver-*.json"))
    assert (started.desk / "1-why-not-ping.ipynb").is_file(), "what learners wrote stays"


def test_jupyterlab_shows_the_lessons_and_the_lab_runs(started):
    names = {file["name"] for file in started.answer("api/contents")["content"]}
    assert {p.name for p in started.desk.glob("*.ipynb")} <= names
    assert len(names) >= 5
    assert lab.status(started.runtime).deployment is not None


def microseconds(text):
    units = {"us": 1, "ms": 1e3}
    found = re.findall(r"latency\s+=\s+([\d.]+) (us|ms)", text)
    return [float(number) * units[unit] for number, unit in found]


def test_ping_and_qperf_are_compared_in_the_first_lesson(started, python):
    printed = started.live(1, python)
    assert "5 packets transmitted, 5 received" in printed
    ping = re.search(r"min/avg/max/\w+ = [\d.]+/([\d.]+)/", printed)
    # the lab's way to ppg is tens of microseconds: neither may have left it
    assert float(ping[1]) < 50
    assert microseconds(printed)[0] > 0


def test_a_stream_to_the_other_region_is_measured_in_the_fourth(started, python):
    printed = started.live(4, python)
    assert re.search(r"Mbits/sec.*receiver", printed), printed
    assert re.search(r"(?m)^\d+\t\d+\t\d+\s*$", printed), printed


def test_both_network_cards_are_measured_in_the_seventh(started, python):
    fast, slow = microseconds(started.live(7, python))
    assert min(fast, slow) > 0, "which is longer is a question of many measurements"
