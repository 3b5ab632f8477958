"""The workshop: checks of learners' answers, and the folder that they work in.

The right answer is computed from the data that the learner sees, so a lesson works on any
experiment of the lab.
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
from typing import Any

from ..analysis.words import capital
from ..data.door import Readable, read
from ..data.layout import experiment_folder
from ..data.shipped import recorded, shipped
from ..errors import LabError, NetperfError, StoreError, UsageError, pip_install
from ..experiment.yaml import load_experiment
from ..metrics import rounds_required
from ..quantities import read_quantity
from .blocks import Shown, callout

__all__ = ["check", "start"]


def __dir__() -> list[str]:
    return sorted(__all__)


# -- what is right ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Check:
    """An exercise."""

    truth: Callable[[Any], Any]
    """Table of runs to the right answer: a number, a set of rounds, or the right texts (regular
    expressions)."""
    hint: str
    """A hint; never the answer."""
    because: str = ""
    """What the learner is told after a right answer."""
    unit: str = "count"
    """What a number counts: "us", "bytes", "Mbit/s", "ratio", "count". A learner may write a
    unit of the same kind."""
    tolerance: float = 0.0
    """Share by which a number may be off."""
    mistakes: Callable[[Any], dict[str, Any]] = lambda _: {}
    """Table of runs to numbers (or sets of rounds) that answer another question, each with its
    hint. An answer that is closer to one of them than to the truth is wrong, whatever the
    tolerance."""


def _lessons() -> Path:
    """Folder of the lessons."""
    folder = shipped("notebooks", "workshop")
    if not folder.is_dir():
        raise UsageError("this installation of netperf_lib has no lessons; reinstall it")
    return folder


@cache
def exercises() -> dict[str, Check]:
    """Return the exercises, by name: ``CHECKS`` of the file ``checks.py`` beside the lessons."""
    checks: dict[str, Check] = runpy.run_path(str(_lessons() / "checks.py"))["CHECKS"]
    return checks


# -- what a learner writes -------------------------------------------------------------------------

LEAST_DIFFERENCE = 5e-4
"""Share by which a mistake has to differ from the truth: with less both print the same digits."""
COUNTED = re.compile(r"\s*(x|×|times|fold|rounds|runs|contrasts|questions)$")


def _number(answer: Any, unit: str) -> float:
    """A learner's number in the unit of the check: ``61.8``, "61.8 µs", "60%".

    NaN if it is none.
    """
    text = COUNTED.sub("", str(answer).strip().lower().strip("~≈×. "))
    with suppress(ValueError):
        return float(text)
    rate = unit == "Mbit/s"
    with suppress(ValueError):
        if not (rate and text.endswith("b")):  # a size
            return read_quantity(text, "bps" if rate else unit) / (1e6 if rate else 1)
    return math.nan


def _round_numbers(answer: Any) -> set[int] | None:
    """Rounds as a learner gives them: a list, an index, or text."""
    with suppress(TypeError, ValueError):
        given = re.findall(r"\d+", answer) if isinstance(answer, str) else answer
        return {int(number) for number in given}
    return None


def in_plain_words(answer: Any) -> str:
    """Return a learner's words without case, article, punctuation and the like.

    "b)", "The PPG", "same-zone".
    """
    text = re.sub(r"[^\w]+", " ", str(answer).lower()).strip()
    return re.sub(r"^(the|it is|answer|option) ", "", text)


def _judged(exercise: Check, answer: Any, runs: Any) -> str | None:
    """None if the answer is right, else the hint."""
    truth = exercise.truth(runs)
    if isinstance(truth, str):
        return None if re.fullmatch(truth, in_plain_words(answer)) else exercise.hint
    mistakes: list[tuple[str, Any]] = []
    for words, some in exercise.mistakes(runs).items():
        mistakes += [(words, one) for one in (some if isinstance(some, list) else [some])]
    if isinstance(truth, set):
        rounds = _round_numbers(answer)
        hints = (words for words, mistake in mistakes if mistake == rounds)
        return None if rounds == truth else next(hints, exercise.hint)
    value, truth = _number(answer, exercise.unit), float(truth)
    near = exercise.tolerance * abs(truth) + 1e-9
    off = abs(value - truth)
    for words, mistake in mistakes:
        distance = abs(value - mistake)
        apart = abs(mistake - truth) > LEAST_DIFFERENCE * abs(truth)
        if apart and distance <= max(near, 1e-6 * abs(mistake)) and distance < off:
            return words
    return None if off <= near else exercise.hint


def check(name: str, answer: Any, data: Readable | None = None) -> Shown:
    """Check a learner's answer.

    Parameters
    ----------
    name : str
        The exercise.
    answer
        The learner's answer: a number with or without a unit, a word, or a list. An ellipsis is not
        an answer yet.
    data : Results or path, optional
        The experiment that the exercise is about, or its folder.

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
    >>> npl.workshop.check("ping.basis", 2, exp).title
    'Correct'
    """
    known = [*exercises(), "own.plan"]
    if name not in known:
        raise UsageError(f"no exercise {name!r} (exercises: {', '.join(known)})")
    if answer is ... or answer is None:
        words = "Replace the three dots with your answer, and run the cell again."
        return callout(words, title="Not answered yet")
    because = "Measure it now: the plan says how long it takes."
    try:
        if name == "own.plan":
            wrong = _plan(answer)
        else:
            exercise = exercises()[name]
            because = exercise.because
            exp = data if data is None else read(data)
            wrong = _judged(exercise, answer, exp)
    except (NetperfError, KeyError) as error:
        words = f"This experiment cannot answer the question: {error}."
        return callout(words, title="No check here")
    if wrong is None:
        return callout(capital(because) or "Continue.", title="Correct")
    return callout(wrong, title="Not yet")


def _plan(path: Any) -> str | None:
    """Say what a learner's own experiment lacks."""
    declared = load_experiment(path)
    questions, rounds = len(declared.contrasts), declared.rounds
    if not questions:
        return "It declares no contrast: write down what you want to know before you measure."
    if rounds < rounds_required(declared.alpha, questions):
        return f"It declares {rounds} rounds and {questions} contrasts: enough for a verdict?"
    return None


# -- the desk --------------------------------------------------------------------------------------


def usual_experiment(named: str | os.PathLike[str] | None) -> Path:
    """Return the folder of a measured experiment: the one named, the lab's, or the recorded one."""
    if named is not None:
        return experiment_folder(named)
    repository = Path(__file__).resolve().parents[2]
    for folder in (Path("results", "lab"), repository / "results" / "lab", recorded()):
        with suppress(StoreError):
            return experiment_folder(folder)
    raise UsageError(
        "the workshop needs a measured experiment: run `npl run data/experiments/lab.yaml`, or "
        "name one"
    )


def lay_out(folder: Path, experiment: Path) -> list[Path]:
    """Copy the lessons into a folder to work in; what a learner changed is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    place = json.dumps(json.dumps(str(experiment)))[1:-1]
    copies = []
    for lesson in sorted(_lessons().glob("*.ipynb")):
        copy = folder / lesson.name
        copies.append(copy)
        if not copy.exists():
            book = lesson.read_text("utf-8").replace(r"\"results/lab\"", place)
            copy.write_text(book, "utf-8")
    return copies


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


def _before(folder: Path, name: str) -> str:
    """A path of the environment with a folder before it."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get(name)]))


def _serve(desk: Path, browser: bool) -> int:
    """Run JupyterLab in a folder until it is closed; its exit code."""
    settings = _lessons()  # without a question about news on the first screen
    options = [
        "--Application.log_level=ERROR",  # the address to open is what is left
        f"--LabApp.app_settings_dir={settings}",
        f"--ServerApp.root_dir={desk}",
        f"--ServerApp.open_browser={browser}",
        "--ServerApp.allow_root=True",
    ]
    # a kernel that does not report each time that it talks over loopback
    env = {**os.environ}
    env["PATH"] = _before(Path(sys.executable).parent, "PATH")
    env["JUPYTER_PATH"] = _before(settings / "jupyter", "JUPYTER_PATH")
    # a session of its own: Ctrl-C reaches this process alone, which ends server and lab in order
    command = [sys.executable, "-m", "jupyterlab", *options]
    server = subprocess.Popen(command, env=env, start_new_session=True)
    try:
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


SERVERS = ("qperf", "iperf3 --server")
"""Servers that run on every host of the lab for the lessons' own measurements."""


def _hold_lab(say: Callable[[str], None]) -> Path | None:
    """Start the default lab with servers in it; its folder, or None if it is not ours."""
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
        subprocess.run(
            lab.ssh_command(host, wait), check=False, stdout=subprocess.DEVNULL
        )
    say("The lab is running; try: npl lab shell client qperf ppg tcp_lat")
    return folder
