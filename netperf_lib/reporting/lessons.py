"""The workshop: checks that tell a learner at once whether an answer holds, and the desk to work at.

What is right is computed from the data that the learner looks at, so a lesson works on any experiment of the lab.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.layout import Store
from ..data.shipped import shipped
from ..errors import LabError, NothingToReport, StoreError, UsageError
from ..questions.conditions import select
from ..questions.words import contrasts
from ..stats import rounds_required
from ..stats.verdict import compare
from .blocks import Shown, callout

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check", "workshop"]


@dataclass(frozen=True, slots=True)
class _Check:
    """An exercise: what is right, how near is near enough, and what to think of when it is not."""

    truth: Callable[[Any], Any]
    hint: str
    tolerance: float = 0.0
    because: str = ""


def _placement(runs: pd.DataFrame, metric: str, **where: Any) -> Any:
    chosen = select(runs, metric, about="placement", **where)
    return chosen.groupby("placement")[metric].median().astype(float)


def _pair(runs: pd.DataFrame) -> Any:
    """One-way latencies of cross-zone and same-zone by round."""
    chosen = select(runs, "latency_oneway_us", about="placement", tool="qperf")
    wide = chosen.pivot_table(index=["deployment", "round"], columns="placement", values="latency_oneway_us")
    return wide[["cross-zone", "same-zone"]].dropna().astype(float)


def _faster_across(runs: pd.DataFrame) -> float:
    pairs = _pair(runs)
    return float((pairs["cross-zone"] < pairs["same-zone"]).mean())


def _verdict(runs: pd.DataFrame, a: str, b: str) -> str:
    asked = [
        c
        for c in contrasts(runs, "placement", "latency_oneway_us")
        if (c.a.get("placement"), (c.b or {}).get("placement")) == (a, b)
    ]
    if not asked:
        raise NothingToReport(f"the experiment declares no contrast of {a} against {b}")
    return str(compare(runs, contrasts=asked)[0].verdict)


def _far(runs: pd.DataFrame, streams: int) -> Any:
    """Runs of so many streams to the other region, with the default buffers."""
    kept = runs[
        (runs["status"] == "ok")
        & (runs["placement"] == "cross-region")
        & runs["tcp_buffer_bytes"].isna()
        & (runs["streams"] == streams)
        & runs["throughput_bps"].notna()
    ]
    if kept.empty:
        raise NothingToReport(f"the experiment holds no run of {streams} streams to another region")
    return kept


def _window(runs: pd.DataFrame) -> float:
    """Bytes in flight of a single stream to the other region, by Little's law with the idle round trip."""
    rate = float(_far(runs, 1)["throughput_bps"].median())
    round_trip = 2 * float(_placement(runs, "latency_oneway_us", tool="qperf")["cross-region"])
    return rate * round_trip * 1e-6 / 8


def _gain(runs: pd.DataFrame) -> float:
    most = int(runs["streams"].max())
    return float(_far(runs, most)["throughput_bps"].median() / _far(runs, 1)["throughput_bps"].median())


CHECKS: dict[str, _Check] = {
    "ping.basis": _Check(
        lambda _: 2,
        "ping times the way there and back; what does qperf's tcp_lat print?",
        because="qperf prints half a round trip: numbers of different bases are converted first, and then compared.",
    ),
    "ping.protocol": _Check(
        lambda _: "icmp",
        "Which protocol do the echo requests of ping use? Your applications use another one.",
        because="ICMP may be answered by another part of the path than TCP, dropped first, or not let through at all.",
    ),
    "runs.share": _Check(
        _faster_across,
        "In how many of the rounds is the cross-zone value the smaller one? Divide by the number of rounds.",
        tolerance=0.02,
        because="a single run would have said that the other zone is nearer in this share of all rounds.",
    ),
    "runs.size": _Check(
        lambda runs: len(_pair(runs)),
        "Packets and seconds within a run depend on each other. What is repeated independently?",
        because="the round is the unit: more seconds in a run do not make more observations.",
    ),
    "runs.needed": _Check(
        lambda runs: rounds_required(0.05, max(1, len(contrasts(runs)))),
        "See npl.rounds_required: it asks for alpha and for how many contrasts share it.",
        because="below that no exact paired test can be convincing, whatever the numbers are.",
    ),
    "placement.nearest": _Check(
        lambda runs: str(_placement(runs, "latency_oneway_us", tool="qperf").idxmin()),
        "Which row of the table of levels has the smallest median?",
    ),
    "placement.median": _Check(
        lambda runs: float(_placement(runs, "latency_oneway_us", tool="qperf")["same-zone"]),
        "The median over the runs of same-zone, in microseconds.",
        tolerance=0.01,
    ),
    "placement.verdict": _Check(
        lambda runs: _verdict(runs, "cross-zone", "same-zone"),
        "Look the contrast up in the family: one of better, worse, equivalent, inconclusive, no verdict.",
        because="not to see a difference is not enough to say that there is none: that is what the margin is for.",
    ),
    "window.bytes": _Check(
        _window,
        "Bytes in flight = throughput in bits per second · round trip in seconds / 8; the round trip is twice one way.",
        tolerance=0.1,
        because="compare it with the largest buffer that the hosts allow a sender (the third number of tcp_wmem).",
    ),
    "window.gain": _Check(
        _gain,
        "Divide the median throughput of the most streams by that of one stream.",
        tolerance=0.05,
        because="every stream has a window of its own; their sum fills the path.",
    ),
    "verdict.answered": _Check(
        lambda runs: sum(c.verdict in ("better", "worse", "equivalent") for c in compare(runs)),
        "Count the contrasts whose verdict is better, worse or equivalent.",
        because="equivalent is an answer too.",
    ),
    "verdict.scope": _Check(
        lambda runs: "pair" if runs["deployment"].nunique() < 2 else "placement",
        "How many times were the VMs placed? See the words 'for this …' in the findings. Answer 'pair' or 'placement'.",
        because="placement is drawn anew at every deployment; one draw tells of these VMs alone.",
    ),
    "verdict.inconclusive": _Check(
        lambda _: "b",
        "Read the section on how to read a verdict again.",
        because="inconclusive claims nothing: neither that there is a difference nor that there is none.",
    ),
}


def _right(wanted: Any, answer: Any, tolerance: float) -> bool:
    if isinstance(wanted, str):
        return isinstance(answer, str) and answer.strip().lower() == wanted.lower()
    try:
        given = float(answer)
    except (TypeError, ValueError):
        return False
    return math.isclose(given, float(wanted), rel_tol=tolerance, abs_tol=tolerance if abs(wanted) <= 1 else 0)


def check(name: str, answer: Any, runs: pd.DataFrame | None = None) -> Shown:
    """Tell a learner whether an answer holds.

    Parameters
    ----------
    name : str
        The exercise.
    answer
        The learner's; an ellipsis is no answer yet.
    runs : DataFrame, optional
        The table of runs that the exercise is about.

    Returns
    -------
    Shown
        Right, or a hint; never the answer.

    Raises
    ------
    UsageError
        There is no such exercise.
    """
    if name not in CHECKS:
        raise UsageError(f"no exercise {name!r} (exercises: {', '.join(CHECKS)})")
    asked = CHECKS[name]
    if answer is ... or answer is None:
        return callout("Replace the three dots by your answer, and run the cell again.", title="Not answered yet")
    try:
        wanted = asked.truth(runs)
    except (NothingToReport, KeyError) as error:
        return callout(f"This experiment cannot tell: {error}.", title="No check here", level="warning")
    if _right(wanted, answer, asked.tolerance):
        return callout(asked.because[:1].upper() + asked.because[1:] or "Go on.", title="That holds", level="tip")
    return callout(asked.hint, title="Not yet", level="caution")


# -- the desk ----------------------------------------------------------------------------------------------------------


def _lessons() -> Path:
    folder = shipped("notebooks", "workshop")
    if folder.is_dir():
        return folder
    raise UsageError("the lessons did not come with this installation of netperf_lib; install it again")


def _experiment(wanted: str | os.PathLike[str] | None) -> Path:
    """Folder of a measured experiment: the one that was named, the lab's, or the recorded one."""
    from ..pipeline import recorded

    repository = Path(__file__).resolve().parents[2]
    usual = [Path("results", "lab"), repository / "results" / "lab", recorded()]
    for place in [Path(wanted)] if wanted is not None else usual:
        try:
            return Path(Store.at(place).path).resolve()
        except StoreError:
            if wanted is not None:
                raise
    raise UsageError("the workshop needs a measured experiment: `npl run data/experiments/lab.yaml` first, or name one")


def lay_out(folder: Path, experiment: Path) -> list[Path]:
    """Copy the lessons into a folder to work in, with the experiment filled in; what a learner changed is kept."""
    import json

    made = []
    for lesson in sorted(_lessons().glob("*.ipynb")):
        place = folder / lesson.name
        made.append(place)
        if place.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        book = json.loads(lesson.read_text("utf-8"))
        for cell in book["cells"]:
            if "parameters" in cell["metadata"].get("tags", []):
                cell["source"] = [s.replace('"results/lab"', json.dumps(str(experiment))) for s in cell["source"]]
        place.write_text(json.dumps(book, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return made


def workshop(
    folder: str | os.PathLike[str] = "workshop",
    *,
    experiment: str | os.PathLike[str] | None = None,
    browser: bool = True,
    lab: bool = True,
    say: Callable[[str], None] = print,
) -> int:
    """Open JupyterLab on the lessons, with the local lab running, until it is closed.

    Parameters
    ----------
    folder : path
        Where to work; lessons that are there already are left as they are.
    experiment : path, optional
        A measured experiment for the lessons; default: the lab's, or the recorded one.
    browser : bool
        Open a browser.
    lab : bool
        Hold the local lab open meanwhile; where it cannot run, the lessons go on without it.
    say : callable
        Told in a sentence what happens.

    Returns
    -------
    int
        Exit code of JupyterLab.

    Raises
    ------
    UsageError
        No measured experiment, or no JupyterLab.
    """
    import importlib.util

    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError("JupyterLab is not installed: pip install 'netperf_lib[lab]'")
    desk = Path(folder).resolve()
    measured = _experiment(experiment)
    lay_out(desk, measured)
    say(f"The lessons are in {desk}; they look at {measured}")
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={desk}"]
    command += [] if browser else ["--no-browser"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    held = _hold_lab(say) if lab else None
    try:
        # a session of its own: Ctrl-C reaches this process alone, which then ends both in order
        server = subprocess.Popen(command, env={**os.environ, "PATH": path}, start_new_session=True)
        try:
            return server.wait()
        except KeyboardInterrupt:
            return 0
        finally:
            _end(server)
    finally:
        if held is not None:
            from ..hosts import lab as source

            source.stop(held)


def _end(server: subprocess.Popen[bytes]) -> None:
    """End JupyterLab and its kernels, politely at first."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


SERVERS = ("qperf", "iperf3 --server")
"""What waits on every host of the lab for the lessons' own measurements."""


def _hold_lab(say: Callable[[str], None]) -> Path | None:
    """Start the default lab, which ends with this process, and servers in it; its folder, or None if it is not ours."""
    from ..hosts import lab

    folder = lab.default_folder()
    if lab.status(folder) is not None:
        say("The lab that is running already is used.")
        return None
    try:
        deployment = lab.start(lab.Options(), folder)
    except LabError as error:
        say(f"The lab cannot run here: {error}")
        say("The lessons work on recorded data; their live cells can be skipped.")
        return None
    wait = " ".join(f"setsid {server} >/dev/null 2>&1 </dev/null &" for server in SERVERS)
    for host in deployment.hosts:
        subprocess.run(lab.ssh_command(host, wait), check=False, stdout=subprocess.DEVNULL)
    say("The lab is running; try: npl lab shell client qperf ppg tcp_lat")
    return folder
