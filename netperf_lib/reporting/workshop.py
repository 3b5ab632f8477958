"""The workshop: checks of learners' answers, and the folder that they work in.

The right answer is computed from the data that the learner sees, so a lesson works on any experiment of the lab.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..data.layout import Store
from ..data.load import load
from ..data.shipped import recorded, shipped
from ..errors import LabError, NetperfError, StoreError, UsageError, pip_install, unknown
from ..experiment.yaml import load_experiment
from ..metrics import rounds_required
from .blocks import Shown, callout

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check", "start"]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> NoReturn:
    raise unknown("netperf_lib.workshop", name, __all__)


# -- what is right ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """An exercise."""

    truth: Callable[[Any], Any]
    """Table of runs to the right answer: a number, a set of rounds, or the right texts (regular expressions)."""
    hint: str
    """A hint; never the answer."""
    because: str = ""
    """What the learner is told after a right answer."""
    unit: str = "count"
    """What a number counts: "us", "bytes", "Mbit/s", "ratio", "count". A learner may write a unit of the same kind."""
    tolerance: float = 0.0
    """Share by which a number may be off."""
    mistakes: Callable[[Any], dict[str, Any]] = lambda _: {}
    """Table of runs to numbers (or sets of rounds) that answer another question, each with its hint. An answer that is
    closer to one of them than to the truth is wrong, whatever the tolerance."""


def _lessons() -> Path:
    """Folder of the lessons."""
    folder = shipped("notebooks", "workshop")
    if not folder.is_dir():
        raise UsageError("this installation of netperf_lib has no lessons; reinstall it")
    return folder


@cache
def exercises() -> dict[str, Check]:
    """The exercises, by name: ``CHECKS`` of the file ``checks.py`` beside the lessons."""
    checks: dict[str, Check] = runpy.run_path(str(_lessons() / "checks.py"))["CHECKS"]
    return checks


# -- what a learner writes -------------------------------------------------------------------------------------------

UNITS: dict[str, dict[str, float]] = {
    "us": {"us": 1, "µs": 1, "μs": 1, "microseconds": 1, "ms": 1e3, "s": 1e6},
    "bytes": {
        "b": 1,
        "byte": 1,
        "bytes": 1,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "kib": 2**10,
        "mib": 2**20,
        "gib": 2**30,
    },
    "ratio": {"%": 0.01, "x": 1, "×": 1, "times": 1, "fold": 1},
    "Mbit/s": {
        "mbit/s": 1,
        "mbps": 1,
        "gbit/s": 1e3,
        "gbps": 1e3,
        "bit/s": 1e-6,
        "bps": 1e-6,
        "mbits/s": 1,
    },
    "count": {"rounds": 1, "runs": 1, "contrasts": 1, "questions": 1},
}
WORDS = {
    word: n
    for n, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
    )
}


def _number(answer: Any, unit: str) -> float:
    """A learner's number in the unit of the check: ``61.8``, "61.8 µs", "60%", "6/10"; NaN where it is none."""
    if not isinstance(answer, str):
        try:
            return math.nan if isinstance(answer, bool) else float(answer)
        except (TypeError, ValueError):
            return math.nan
    text = answer.strip().lower().removeprefix("×").strip()
    if text in WORDS:
        return WORDS[text]
    number, part = r"[~≈]?\s*([-+]?[\d.,]*\d(?:e[-+]?\d+)?)", r"(?:\s*(?:/|of|out of)\s*(\d+))?"
    match = re.fullmatch(rf"{number}{part}\s*([a-zµμ%×/]*)\.?", text)
    if not match or match[3] not in {"", *UNITS[unit]}:
        return math.nan
    digits = match[1].replace(",", "." if re.fullmatch(r"\d+,\d{1,2}", match[1]) else "")
    try:
        value = float(digits) * UNITS[unit].get(match[3], 1)
    except ValueError:
        return math.nan
    return value / float(match[2]) if match[2] and unit == "ratio" else value


def _round_numbers(answer: Any) -> set[int] | None:
    """Rounds as a learner gives them: a list, text, an index, or a column of yes and no by round."""
    try:
        if hasattr(answer, "dtype") and answer.dtype == bool:
            answer = answer[answer].index
        numbers = re.findall(r"\d+", answer) if isinstance(answer, str) else list(answer)
        return {int(each[-1] if isinstance(each, tuple) else each) for each in numbers}
    except (TypeError, ValueError, AttributeError):
        return None


def in_plain_words(answer: Any) -> str:
    """A learner's words without case, article, punctuation and the like: "b)", "The PPG", "same-zone"."""
    text = re.sub(r"[^\w]+", " ", str(answer).lower()).strip()
    return re.sub(r"^(the|it is|answer|option) ", "", text)


def _judged(exercise: Check, answer: Any, runs: Any) -> str | None:
    """None if the answer is right, else the hint."""
    truth = exercise.truth(runs)
    if isinstance(truth, str):
        return None if re.fullmatch(truth, in_plain_words(answer)) else exercise.hint
    mistakes = [
        (words, v)
        for words, some in exercise.mistakes(runs).items()
        for v in (some if isinstance(some, list) else [some])
    ]
    if isinstance(truth, set):
        rounds = _round_numbers(answer)
        return (
            None
            if rounds == truth
            else next((words for words, v in mistakes if rounds == v), exercise.hint)
        )
    value, truth = _number(answer, exercise.unit), float(truth)
    if not math.isfinite(value):
        return exercise.hint
    near = exercise.tolerance * abs(truth) + 1e-9
    off = abs(value - truth)
    for words, mistake in mistakes:
        if abs(value - mistake) <= max(near, 1e-6 * abs(mistake)) and abs(value - mistake) < off:
            return words
    return None if off <= near else exercise.hint


def check(name: str, answer: Any, runs: pd.DataFrame | str | None = None) -> Shown:
    """Check a learner's answer.

    Parameters
    ----------
    name : str
        The exercise.
    answer
        The learner's answer: a number with or without a unit, a word, or a list. An ellipsis is not an answer yet.
    runs : DataFrame or path, optional
        The table of runs that the exercise is about, or the folder of its experiment.

    Returns
    -------
    Shown
        Whether it is right, or a hint; never the solution.

    Raises
    ------
    UsageError
        There is no such exercise.

    Examples
    --------
    >>> npl.workshop.check("ping.basis", 2, exp.runs).title
    'Correct'
    """
    if name != "own.plan" and name not in exercises():
        raise UsageError(
            f"no exercise {name!r} (exercises: {', '.join([*exercises(), 'own.plan'])})"
        )
    if answer is ... or answer is None:
        return callout(
            "Replace the three dots with your answer, and run the cell again.",
            title="Not answered yet",
        )
    try:
        if name == "own.plan":
            because, wrong = "measure it now: the plan says how long it takes.", _plan(answer)
        else:
            exercise = exercises()[name]
            because = exercise.because
            wrong = _judged(
                exercise, answer, load(runs) if isinstance(runs, str | os.PathLike) else runs
            )
    except (NetperfError, KeyError) as error:
        return callout(
            f"This experiment cannot answer the question: {error}.",
            title="No check here",
        )
    if wrong is None:
        return callout(because[:1].upper() + because[1:] or "Continue.", title="Correct")
    return callout(wrong, title="Not yet")


def _plan(path: Any) -> str | None:
    """Say what a learner's own experiment lacks."""
    declared = load_experiment(path)
    if not declared.contrasts:
        return "It declares no contrast: write down what you want to know before you measure."
    need = rounds_required(declared.alpha, len(declared.contrasts))
    if declared.rounds < need:
        return f"It declares {declared.rounds} rounds and {len(declared.contrasts)} contrasts: enough for a verdict?"
    return None


# -- the desk ----------------------------------------------------------------------------------------------------------


def usual_experiment(named: str | os.PathLike[str] | None) -> Path:
    """Folder of a measured experiment: the one that was named, the lab's, or the recorded one."""
    if named is not None:
        return Store.at(named).path.resolve()
    repository = Path(__file__).resolve().parents[2]
    for folder in (Path("results", "lab"), repository / "results" / "lab", recorded()):
        with suppress(StoreError):
            return Store.at(folder).path.resolve()
    raise UsageError(
        "the workshop needs a measured experiment: run `npl run data/experiments/lab.yaml`, or name one"
    )


def lay_out(folder: Path, experiment: Path) -> list[Path]:
    """Copy the lessons into a folder to work in, with the experiment filled in; what a learner changed is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    copies = {folder / lesson.name: lesson for lesson in sorted(_lessons().glob("*.ipynb"))}
    for copy, lesson in copies.items():
        if not copy.exists():
            book = json.loads(lesson.read_text("utf-8"))
            for cell in book["cells"]:
                if "parameters" in cell["metadata"].get("tags", []):
                    cell["source"] = [
                        s.replace('"results/lab"', json.dumps(str(experiment)))
                        for s in cell["source"]
                    ]
            copy.write_text(json.dumps(book, ensure_ascii=False, indent=1) + "\n", "utf-8")
    return list(copies)


def start(
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
        Keep the local lab running meanwhile; if it cannot run, the lessons work without it.
    say : callable
        Called with a sentence about each step.

    Returns
    -------
    int
        Exit code of JupyterLab.

    Raises
    ------
    UsageError
        No measured experiment, or no JupyterLab.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError(f"JupyterLab is not installed: {pip_install('jupyterlab')}")
    desk = Path(folder).resolve()
    measured = usual_experiment(experiment)
    lay_out(desk, measured)
    say(f"The lessons are in {desk}; they look at {measured}")
    lab_folder = _hold_lab(say) if lab else None
    try:
        return _serve(desk, browser)
    finally:
        if lab_folder is not None:
            from ..hosts import lab as source

            source.stop(lab_folder)


def _serve(desk: Path, browser: bool) -> int:
    """Run JupyterLab in a folder until it is closed; its exit code."""
    settings = _lessons()  # without a question about news on the first screen
    quiet = "--Application.log_level=ERROR"  # the address to open is what is left
    options = [quiet, f"--LabApp.app_settings_dir={settings}", f"--ServerApp.root_dir={desk}"]
    options += [] if browser else ["--no-browser"]
    options += ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    # a kernel that does not report each time that it talks over loopback
    kernels = os.pathsep.join(
        filter(None, [str(settings / "jupyter"), os.environ.get("JUPYTER_PATH")])
    )
    environment = {**os.environ, "PATH": path, "JUPYTER_PATH": kernels}
    # a session of its own: Ctrl-C reaches this process alone, which then ends server and lab in order
    command = [sys.executable, "-m", "jupyterlab", *options]
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        _end(server)


def _end(server: subprocess.Popen[bytes]) -> None:
    """End JupyterLab and its kernels, at first by asking."""
    if server.poll() is None:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


SERVERS = ("qperf", "iperf3 --server")
"""Servers that run on every host of the lab for the lessons' own measurements."""


def _hold_lab(say: Callable[[str], None]) -> Path | None:
    """Start the default lab, which ends with this process, and servers in it; its folder, or None if it is not ours."""
    from ..hosts import lab

    folder = lab.default_folder()
    if lab.status(folder) is not None:
        say("A lab is already running; it is used.")
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
    if missing := [
        name for name in (server.split()[0] for server in SERVERS) if lab.program(name) is None
    ]:
        say(
            f"The lab is running, without {' and '.join(missing)}, which live cells need; see npl doctor"
        )
    else:
        say("The lab is running; try: npl lab shell client qperf ppg tcp_lat")
    return folder
