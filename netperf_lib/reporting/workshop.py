"""The workshop: checks that tell a learner at once whether an answer is right, and the desk to work at.

The right answer is computed from the data that the learner looks at, so a lesson works on any experiment of the lab.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.layout import Store
from ..data.load import load
from ..data.shipped import shipped
from ..errors import LabError, NetperfError, NothingToReport, StoreError, UsageError, pip_install
from ..experiment.yaml import load_experiment
from ..metrics import ALPHA
from ..questions.compare import compare_declared
from ..questions.limits import limits
from ..questions.observe import observe
from ..questions.published_figures import published
from ..questions.words import contrasts
from ..stats import rounds_required
from .blocks import Shown, callout

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check", "start"]


def __dir__() -> list[str]:
    return sorted(__all__)


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


def _values(runs: Any, metric: str, by: str, tool: str, of: str | None = None) -> Any:
    """Values by level of a factor, with every other factor at one level, of one metric or of another one."""
    rows = observe(runs, metric, by=by, where={"tool": tool}).main().runs
    return rows.groupby(by, dropna=False, observed=True)[of or metric]


def _one_way(runs: pd.DataFrame, statistic: str = "median") -> Any:
    """One-way latency by placement, as qperf measures it."""
    return _values(runs, "latency_oneway_us", "placement", "qperf").agg(statistic).astype(float)


def _step(runs: pd.DataFrame, statistic: str = "median") -> float:
    """How much longer same-zone takes than ppg, one way."""
    levels = _one_way(runs, statistic)
    return float(levels["same-zone"] - levels["ppg"])


def _timed(runs: pd.DataFrame, metric: str, statistic: str = "median") -> Any:
    """A percentile of the packets that sockperf timed, by placement, idle."""
    return _values(runs, "latency_oneway_p99_us", "placement", "sockperf", metric).agg(statistic).astype(float)


def _queue(runs: pd.DataFrame, metric: str = "latency_oneway_p99_us", statistic: str = "median") -> float:
    """By how much a percentile to the other region is larger while another tool fills the path."""
    levels = _values(runs, "latency_oneway_p99_us", "during", "sockperf", metric).agg(statistic).astype(float)
    return float(levels[levels.index.notna()].iloc[0] - levels[levels.index.isna()].iloc[0])


def _printed(path: str, metric: str, accelerated: bool = True) -> float:
    """The first such figure of the study in East Asia, in the unit in which it was printed."""
    figures = published("azure-eastasia-d8sv3")
    rows = figures[figures["path"].eq(path) & figures["metric"].str.startswith(metric)]
    rows = rows[rows["accelerated"].fillna(accelerated) == accelerated]
    return float(rows["value"].iloc[0])


def _window(bits: int = 8) -> float:
    """Mbit/s that the window of the published VPN path allows."""
    return bits * _printed("cross-region-vpn", "cwnd") / (_printed("cross-region-vpn", "round-trip") * 1e-3)


def _rounds(runs: pd.DataFrame, faster: bool | None = None) -> Any:
    """Rounds with both same-zone and cross-zone; of those, where cross-zone was the faster one, or was not."""
    chosen = observe(runs, "latency_oneway_us", by="placement", where={"tool": "qperf"}).main().runs
    wide = chosen.pivot_table(index="round", columns="placement", values="latency_oneway_us", observed=True)
    wide = wide[["cross-zone", "same-zone"]].dropna()
    nearer = wide["cross-zone"] < wide["same-zone"]
    return set(wide.index if faster is None else wide.index[nearer == faster])


def _verdict(runs: pd.DataFrame, factor: str, a: Any, b: Any) -> str:
    for contrast in contrasts(runs, factor, "latency_oneway_us"):
        if (contrast.a.get(factor), (contrast.b or {}).get(factor)) == (a, b):
            return str(compare_declared(runs, contrasts=[contrast])[0].verdict)
    raise NothingToReport(f"the experiment declares no contrast of {factor}: {a} against {b}")


def _rate(runs: pd.DataFrame) -> Any:
    """Throughput to the other region with the default buffers, by number of streams; not that of a load."""
    obs = observe(runs, "throughput_bps", by="streams", where={"placement": "cross-region"})
    rates = obs.main().runs.groupby("streams")["throughput_bps"].median().astype(float)
    if len(rates) < 2:
        raise NothingToReport("the experiment holds no transfers to another region with one and with many streams")
    return rates


def _flight(runs: pd.DataFrame) -> float:
    """Bytes in flight of a single stream to the other region, by Little's law with the idle round trip."""
    return float(_rate(runs).iloc[0] * 2 * _one_way(runs)["cross-region"] * 1e-6 / 8)


def _cause(runs: pd.DataFrame) -> str:
    """What holds a single stream to the other region back, in one word."""
    held = limits(runs, where={"placement": "cross-region", "streams": 1, "tcp_buffer_bytes": None})
    return next(one.limit.cause for one in held if one.levels.get("during") is None)


def _answered(runs: pd.DataFrame, *verdicts: str) -> int:
    return sum(c.verdict in verdicts for c in compare_declared(runs))


def _scope(runs: pd.DataFrame) -> str:
    return r"pair|(these )?vms" if runs["deployment"].nunique() < 2 else "placement"


ADVERTISED = 4.0
"""Gbit/s that the VM of the published study in East Asia is sold with."""
NAMES: dict[str, str] = {"ppg": "ppg|(proximity )?placement group"}
"""Names of placements that learners may write out."""
CHECKS: dict[str, Check] = {
    "ping.basis": Check(
        lambda _: 2,
        "ping times the way there and back; what does qperf's tcp_lat print?",
        "qperf prints half a round trip: convert numbers of different bases before you compare them.",
    ),
    "ping.protocol": Check(
        lambda _: r"icmp(v\d)?( echo)?( requests?)?( over ip)?|internet control message protocol",
        "Which protocol do the echo requests of ping use? Your applications use another one.",
        "ICMP may be answered by another part of the path than TCP, dropped first, or not let through at all.",
    ),
    "runs.rounds": Check(
        lambda runs: _rounds(runs, faster=True),
        "Compare the two columns of `wide` row by row: which rounds are left? The faster one has the smaller latency.",
        "a single run would have said that the other zone is nearer in each of these rounds.",
        mistakes=lambda runs: {
            "Those are the other rounds: which latency is smaller there?": _rounds(runs, faster=False)
        },
    ),
    "runs.size": Check(
        lambda runs: len(_rounds(runs)),
        "Packets and seconds within a run depend on each other. What is repeated independently?",
        "the round is the unit: more seconds in a run do not make more observations.",
    ),
    "runs.needed": Check(
        lambda runs: rounds_required(ALPHA, max(1, len(contrasts(runs)))),
        "See npl.rounds_required: it asks for alpha and for how many contrasts share it.",
        "below that no exact paired test can be convincing, whatever the numbers are.",
        mistakes=lambda runs: {
            "That is enough for a single contrast. How many share the error?": rounds_required(ALPHA, 1)
        },
    ),
    "placement.nearest": Check(
        lambda runs: NAMES.get(name := str(_one_way(runs).idxmin()), _text(name)),
        "Which row of the table of levels has the smallest median?",
    ),
    "placement.median": Check(
        lambda runs: _one_way(runs)["same-zone"],
        "The median over the runs of same-zone. The table above has a column for it.",
        unit="us",
        tolerance=0.01,
        mistakes=lambda runs: {
            "That is nearer to the mean, which one slow run moves: take the median, with more digits.": _one_way(
                runs, "mean"
            )["same-zone"],
            "That is half of it or twice it: the values in the table are one-way already.": [
                _one_way(runs)["same-zone"] * k for k in (0.5, 2)
            ],
        },
    ),
    "placement.verdict": Check(
        lambda runs: _text(_verdict(runs, "placement", "cross-zone", "same-zone")),
        "Look the contrast up in the family: one of better, worse, equivalent, inconclusive, no verdict.",
        "not seeing a difference is not enough to say that there is none: that is what the margin is for.",
    ),
    "window.bytes": Check(
        _flight,
        "What is sent in one round trip is in flight. Mind what `one_way` measures, and the units of both numbers.",
        "compare it with the largest buffer that the hosts allow a sender (the third number of tcp_wmem).",
        unit="bytes",
        tolerance=0.1,
        mistakes=lambda runs: {
            "A factor of two: how many one-way trips pass until an acknowledgement is back?": _flight(runs) / 2,
            "A factor of eight: the rate counts bits.": [_flight(runs) * 8, _flight(runs) * 4],
        },
    ),
    "window.gain": Check(
        lambda runs: _rate(runs).iloc[-1] / _rate(runs).iloc[0],
        "How many times the rate of one stream does the largest number of streams carry together?",
        "every stream has a window of its own; their sum fills the path.",
        unit="ratio",
        tolerance=0.05,
        mistakes=lambda runs: {"That is the other way round.": _rate(runs).iloc[0] / _rate(runs).iloc[-1]},
    ),
    "window.cause": Check(
        lambda runs: _text(_cause(runs)),
        "Compare the bytes in flight with the largest buffer, and ask what two streams would change.",
        "two streams have two windows, and carry twice as much: neither the path nor a processor was full.",
    ),
    "verdict.answered": Check(
        lambda runs: _answered(runs, "better", "worse", "equivalent"),
        "Which verdicts are an answer, and which say that these data do not decide?",
        "equivalent is an answer too.",
    ),
    "verdict.scope": Check(
        _scope,
        "How many times were the VMs placed? See the words 'for …' in the findings. Answer 'pair' or 'placement'.",
        "placement is drawn anew at every deployment; one draw says something about these VMs only.",
    ),
    "verdict.inconclusive": Check(
        lambda _: r"b",
        "Read the section on how to read a verdict again. Answer with a letter.",
        "inconclusive claims nothing: neither that there is a difference nor that there is none.",
    ),
    "accelerated.factor": Check(
        lambda _: _printed("direct", "one-way", False) / _printed("direct", "one-way"),
        "Two rows of the table print a one-way latency. How many times does the smaller fit into the larger?",
        "the virtual switch of the host costs more time than the whole way through the data centre.",
        unit="ratio",
        tolerance=0.02,
        mistakes=lambda _: {
            "That is the other way round.": _printed("direct", "one-way") / _printed("direct", "one-way", False),
            "That is the throughput; the exercise asks for the latency.": _printed("direct", "throughput")
            / _printed("direct", "throughput", False),
        },
    ),
    "accelerated.room": Check(
        lambda _: _printed("direct", "throughput", False) / ADVERTISED,
        "The note of the row gives the rate that the VM is sold with. Mind which of the rows is without acceleration.",
        "the rate that the VM is sold with limits both, so there was little to gain. Latency has no such limit.",
        unit="ratio",
        tolerance=0.01,
        mistakes=lambda _: {
            "That is the row with acceleration.": _printed("direct", "throughput") / ADVERTISED,
            "That is the share that was missing.": 1 - _printed("direct", "throughput", False) / ADVERTISED,
        },
    ),
    "accelerated.verdict": Check(
        lambda runs: _text(_verdict(runs, "accelerated", True, False)),
        "Look at the finding: one of better, worse, equivalent, inconclusive, no verdict.",
        "here every condition was measured in every round: the published pair of single figures cannot say as much.",
    ),
    "tails.p99": Check(
        lambda runs: _timed(runs, "latency_oneway_p99_us")["ppg"],
        "Each run has a 99th percentile; the exercise asks for the median of these over the runs. The table has it.",
        "a percentile of a run is one number of that run: it is compared over rounds like any other metric.",
        unit="us",
        tolerance=0.01,
        mistakes=lambda runs: {
            "That is nearer to the mean over the runs: take their median.": _timed(
                runs, "latency_oneway_p99_us", "mean"
            )["ppg"],
            "That is the median packet; the exercise asks for the slowest hundredth.": [
                _timed(runs, "latency_oneway_p50_us")["ppg"],
                _timed(runs, "latency_oneway_us")["ppg"],
            ],
            "That is the slowest thousandth.": _timed(runs, "latency_oneway_p999_us")["ppg"],
        },
    ),
    "tails.calls": Check(
        lambda _: 1 - 0.99**100,
        "How likely is it that none of the calls is among the slowest hundredth? The rest of the pages meet one.",
        "the slowest hundredth of the packets is what most of the pages feel.",
        unit="ratio",
        tolerance=0.02,
        mistakes=lambda _: {
            "Adding up counts a page with two slow calls twice.": 1.0,
            "That is the share of pages that meet none.": 0.99**100,
            "That is the share of calls, not of pages.": 0.01,
        },
    ),
    "tails.load": Check(
        _queue,
        "Take the level under load and the level of the idle path from the table. What is left between them?",
        "this time is spent in a queue: it depends on how full the path is, not on how long it is.",
        unit="us",
        tolerance=0.02,
        mistakes=lambda runs: {
            "That is nearer to the difference of the means: take the medians.": _queue(runs, statistic="mean"),
            "That is the difference of the median packets.": _queue(runs, "latency_oneway_p50_us"),
            "That is the other way round.": -_queue(runs),
        },
    ),
    "tails.published": Check(
        lambda _: r"c",
        "Is any of the printed numbers a percentile? Answer with a letter.",
        "averages hide the tail, however many there are of them.",
    ),
    "paths.balancer": Check(
        lambda _: _printed("standard-lb", "one-way") - _printed("direct", "one-way"),
        "The direct path with acceleration is what the load balancer is compared with.",
        "one run each: another day may show another difference, and how much the runs scatter is not known.",
        unit="us",
        tolerance=0.01,
        mistakes=lambda _: {
            "That is the basic load balancer.": _printed("basic-lb", "one-way") - _printed("direct", "one-way"),
            "That is the path itself; what does the load balancer add?": _printed("standard-lb", "one-way"),
            "That is there and back; the latency in the table is one-way.": 2
            * (_printed("standard-lb", "one-way") - _printed("direct", "one-way")),
            "That is the path without acceleration.": _printed("direct", "one-way", False)
            - _printed("standard-lb", "one-way"),
        },
    ),
    "paths.window": Check(
        lambda _: _window(),
        "What is in flight is sent once in each round trip. Mind the units of the window and of the rate.",
        "the measured rate is close to it: this stream was limited by its window, which its gateway kept from growing.",
        unit="Mbit/s",
        tolerance=0.02,
        mistakes=lambda _: {
            "That is what was measured; the window gives what to expect.": _printed("cross-region-vpn", "throughput"),
            "That is what the gateway is sold with.": _printed("cross-region-vpn", "advertised"),
            "A factor of eight: the window counts bytes.": _window(1),
            "A factor of two: the table prints a round trip already.": [_window(4), _window(16)],
        },
    ),
    "paths.step": Check(
        _step,
        "Take the medians of both placements from the table. What is left between them?",
        "a placement can cost as much as a load balancer: compare paths only between VMs with the same placement.",
        unit="us",
        tolerance=0.03,
        mistakes=lambda runs: {
            "That is nearer to the difference of the means, which one slow run moves.": _step(runs, "mean"),
            "That is the other way round.": -_step(runs),
        },
    ),
    "own.verdict": Check(
        lambda runs: _text(compare_declared(runs)[0].verdict),
        "Look at the verdict of your contrast: one of better, worse, equivalent, inconclusive, no verdict.",
        "you declared, measured and judged; say what it holds for, and show it to your neighbour.",
    ),
}

# -- what a learner writes -------------------------------------------------------------------------------------------

UNITS: dict[str, dict[str, float]] = {
    "us": {"us": 1, "µs": 1, "μs": 1, "microseconds": 1, "ms": 1e3, "s": 1e6},
    "bytes": {"b": 1, "byte": 1, "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2**10, "mib": 2**20, "gib": 2**30},
    "ratio": {"%": 0.01, "x": 1, "×": 1, "times": 1, "fold": 1},
    "Mbit/s": {"mbit/s": 1, "mbps": 1, "gbit/s": 1e3, "gbps": 1e3, "bit/s": 1e-6, "bps": 1e-6, "mbits/s": 1},
    "count": {"rounds": 1, "runs": 1, "contrasts": 1, "questions": 1},
}
WORDS = {word: n for n, word in enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight"))}


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


def _text(answer: Any) -> str:
    """A learner's words without case, article, punctuation and the like: "b)", "The PPG", "same-zone"."""
    text = re.sub(r"[^\w]+", " ", str(answer).lower()).strip()
    return re.sub(r"^(the|it is|answer|option) ", "", text)


def _judged(exercise: Check, answer: Any, runs: Any) -> str | None:
    """None if the answer is right, else the hint."""
    truth = exercise.truth(runs)
    if isinstance(truth, str):
        return None if re.fullmatch(truth, _text(answer)) else exercise.hint
    mistakes = [
        (words, v)
        for words, some in exercise.mistakes(runs).items()
        for v in (some if isinstance(some, list) else [some])
    ]
    if isinstance(truth, set):
        given = _round_numbers(answer)
        return None if given == truth else next((words for words, v in mistakes if given == v), exercise.hint)
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
    """Tell a learner whether an answer is right.

    Parameters
    ----------
    name : str
        The exercise.
    answer
        The learner's answer: a number with or without a unit, a word, a list; an ellipsis is not an answer yet.
    runs : DataFrame or path, optional
        The table of runs that the exercise is about, or the folder of its experiment.

    Returns
    -------
    Shown
        Right, or a hint; never the answer.

    Raises
    ------
    UsageError
        There is no such exercise.

    Examples
    --------
    >>> npl.workshop.check("ping.basis", 2, exp.runs).content["title"]
    'That holds'
    """
    if name != "own.plan" and name not in CHECKS:
        raise UsageError(f"no exercise {name!r} (exercises: {', '.join([*CHECKS, 'own.plan'])})")
    if answer is ... or answer is None:
        return callout("Replace the three dots with your answer, and run the cell again.", title="Not answered yet")
    try:
        if name == "own.plan":
            because, wrong = "measure it now: the plan says how long it takes.", _plan(answer)
        else:
            exercise = CHECKS[name]
            because = exercise.because
            wrong = _judged(exercise, answer, load(runs) if isinstance(runs, str | os.PathLike) else runs)
    except (NetperfError, KeyError) as error:
        return callout(f"This experiment cannot answer the question: {error}.", title="No check here", level="warning")
    if wrong is None:
        return callout(because[:1].upper() + because[1:] or "Continue.", title="That holds", level="tip")
    return callout(wrong, title="Not yet", level="caution")


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


def usual_experiment(wanted: str | os.PathLike[str] | None) -> Path:
    """Folder of a measured experiment: the one that was named, the lab's, or the recorded one."""
    from ..data.shipped import recorded

    repository = Path(__file__).resolve().parents[2]
    usual = [Path("results", "lab"), repository / "results" / "lab", recorded()]
    for place in [Path(wanted)] if wanted is not None else usual:
        try:
            return Path(Store.at(place).path).resolve()
        except StoreError:
            if wanted is not None:
                raise
    raise UsageError("the workshop needs a measured experiment: run `npl run data/experiments/lab.yaml`, or name one")


def lay_out(folder: Path, experiment: Path) -> list[Path]:
    """Copy the lessons into a folder to work in, with the experiment filled in; what a learner changed is kept."""
    import json

    made = []
    lessons = shipped("notebooks", "workshop")
    if not lessons.is_dir():
        raise UsageError("this installation of netperf_lib has no lessons; reinstall it")
    for lesson in sorted(lessons.glob("*.ipynb")):
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
    import importlib.util

    if importlib.util.find_spec("jupyterlab") is None:
        raise UsageError(f"JupyterLab is not installed: {pip_install('jupyterlab')}")
    desk = Path(folder).resolve()
    measured = usual_experiment(experiment)
    lay_out(desk, measured)
    say(f"The lessons are in {desk}; they look at {measured}")
    shown = [] if browser else ["--no-browser"]
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={desk}", *shown, *_as_root()]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    lab_folder = _hold_lab(say) if lab else None
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
        if lab_folder is not None:
            from ..hosts import lab as source

            source.stop(lab_folder)


def _as_root() -> list[str]:
    """What JupyterLab must be told where it is started by root."""
    return ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


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
    say("The lab is running; try: npl lab shell client qperf ppg tcp_lat")
    return folder
