"""From a declared experiment to a schedule: rounds in which every condition is measured once, in random order.

The order is a function of the experiment and the seed alone: each round sorts its conditions by a keyed hash. A round's
order does not depend on how many rounds there are, so that an experiment can be extended, and a killed one goes on
where it stopped.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from pydantic import BaseModel, ValidationError

from . import tools
from .errors import ExperimentError, UsageError
from .metrics import METRICS, format_value, to_bps
from .model import Contrast, Experiment, HostsSpec, Pair, TestSpec, Trial
from .stats.planning import rounds_needed
from .stats.table import RunsTable

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Outlook", "Plan", "load_experiment", "read_experiment", "schedule"]

OVERHEAD_S = 0.3
"""Time that a trial takes beside its test: starting the server, waiting for it, reading the counters."""

ASSUMED_BPS = 10e9
"""Rate of a throughput test, for the estimate of its traffic, where none is asked for."""
ASSUMED_CV = 0.03
"""Variation between runs of a condition, for the outlook, where no pilot tells it."""

_LATENCY = re.compile(r"[a-z]+_lat|ping-pong|under-load|playback")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule.

    Parameters
    ----------
    experiment : Experiment
        As declared.
    seed : int
        What the random order was made from.
    trials : tuple of Trial
        In the order in which they are to run: by deployment, by round, then at random.
    """

    experiment: Experiment
    seed: int
    trials: tuple[Trial, ...]

    @cached_property
    def conditions(self) -> int:
        """How many conditions each round measures."""
        return len({t.condition for t in self.trials})

    @property
    def duration_s(self) -> float:
        """Seconds that measuring takes when nothing fails."""
        return sum(estimate_s(t, self.experiment) for t in self.trials)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON document; `from_dict` reads it back."""
        return {
            "experiment": self.experiment.model_dump(mode="json"),
            "seed": self.seed,
            "estimates": {
                "trials": len(self.trials),
                "conditions": self.conditions,
                "duration_s": round(self.duration_s, 1),
                "traffic_bytes": round(self.traffic_bytes),
            },
            "trials": [
                {"run_id": t.run_id, "deployment": t.deployment, "round": t.round, "order": t.order} | describe(t)
                for t in self.trials
            ],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` wrote.

        Raises
        ------
        ExperimentError
            The trials listed are not those that this experiment and seed give.
        """
        plan = schedule(Experiment.model_validate(document["experiment"]), seed=int(document["seed"]))
        if [t["run_id"] for t in document["trials"]] != [t.run_id for t in plan.trials]:
            raise ExperimentError(
                "the plan was changed by hand or made by another version: its trials are not those of its seed; "
                "schedule the experiment anew"
            )
        return plan

    @property
    def traffic_bytes(self) -> float:
        """Data that the throughput tests send: at the rate asked for, else at `ASSUMED_BPS`."""
        return sum(_rate(t) * (t.test.duration_s + t.test.omit_s) / 8 for t in self.trials)

    def outlook(self, pilot: pd.DataFrame | None = None) -> list[Outlook]:
        """Which contrasts will have enough rounds for their margin.

        Parameters
        ----------
        pilot : pandas.DataFrame, optional
            The table of runs of an earlier measurement; without one a variation between runs is assumed.
        """
        e = self.experiment
        found = []
        for contrast in e.contrasts:
            cv = None if pilot is None else _variation(pilot, contrast)
            needed = rounds_needed(
                ASSUMED_CV if cv is None else cv, margin=contrast.margin, alpha=e.alpha, family=len(e.contrasts)
            )
            found.append(
                Outlook(
                    question=contrast.question or contrast.metric,
                    rounds=needed.rounds,
                    enough=e.rounds >= needed.rounds,
                    words=f"{needed.words} ({'assumed' if cv is None else 'as in the pilot'})",
                )
            )
        return found

    def summary(self, pilot: pd.DataFrame | None = None) -> str:
        """Say in a few lines what would be measured, how long it takes and what it can decide."""
        e = self.experiment
        lines = [
            f"{e.name}: {e.title}" if e.title else e.name,
            f"{len(self.trials)} trials = {self.conditions} conditions × {e.rounds} rounds"
            + (f" × {e.deployments} deployments" if e.deployments > 1 else ""),
            f"about {_clock(self.duration_s)} of measuring, seed {self.seed}",
        ]
        if self.traffic_bytes:
            assumed = f"where no rate is given, at {format_value(ASSUMED_BPS, 'bps')} (assumed)"
            lines.append(f"up to {self.traffic_bytes / 1e9:,.0f} GB of traffic, {assumed}")
        lines += [f"{'enough' if o.enough else 'TOO FEW'} rounds: {o.question} {o.words}" for o in self.outlook(pilot)]
        lines += [f"note: {note}" for note in notes(e)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Whether the rounds planned can decide a contrast."""

    question: str
    rounds: int
    """So many are needed."""
    enough: bool
    words: str


def _rate(trial: Trial) -> float:
    """Bits per second that a trial puts on the network; 0 for a latency test without load."""
    spec = trial.test
    options = spec.options if not _LATENCY.fullmatch(spec.test) else spec.during.options if spec.during else None
    if options is None:
        return 0
    asked = re.fullmatch(r"([0-9.]+)([KMGT]?)", str(options.get("bitrate", "")), re.IGNORECASE)
    rate = to_bps(float(asked[1]), asked[2], "bit") * trial.streams if asked else ASSUMED_BPS
    return 2 * rate if options.get("bidir") else rate


def _variation(pilot: pd.DataFrame, contrast: Contrast) -> float | None:
    """Coefficient of variation of a condition's runs, beyond what a round's two sides share."""
    table = RunsTable(pilot)
    a, b = (
        table.runs[table.mask(side) & table.ok].groupby(["deployment", "round"])[contrast.metric].first().dropna()
        for side in (contrast.a, contrast.b)
    )
    a, b = a.astype(float).align(b.astype(float), join="inner")
    if len(a) < 4 or (a <= 0).any() or (b <= 0).any():
        return None
    # the spread of a ratio is that of two runs
    return max(1e-6, float(np.log(a / b).std()) / math.sqrt(2))


def describe(trial: Trial) -> dict[str, Any]:
    """Return what a trial's record says of it: its pair, its test and the levels of its factors."""
    return {
        "client": trial.pair.client,
        "server": trial.pair.server,
        "placement": trial.pair.placement,
        "accelerated": trial.pair.accelerated,
        "tool": trial.test.tool,
        "test": trial.test.test,
        "duration_s": trial.test.duration_s,
        "omit_s": trial.test.omit_s,
        "streams": trial.streams,
        "tcp_buffer_bytes": trial.tcp_buffer_bytes,
        "message_bytes": trial.message_bytes,
        "options": dict(trial.test.options),
        "during": str(trial.test.during) if trial.test.during else None,
    }


def estimate_s(trial: Trial, experiment: Experiment) -> float:
    """Seconds that a trial takes when nothing fails."""
    return trial.test.duration_s + trial.test.omit_s + OVERHEAD_S + experiment.pause_s


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


# -- the schedule ------------------------------------------------------------------------------------------------------


def schedule(experiment: Experiment, *, seed: int | None = None) -> Plan:
    """Schedule an experiment: deployments outermost, then rounds; in each round every condition once, at random.

    Parameters
    ----------
    experiment : Experiment
        What is to be measured.
    seed : int, optional
        Seed of the random order; default: the experiment's own, else a new one.

    Returns
    -------
    Plan
    """
    if seed is None:
        seed = experiment.seed if experiment.seed is not None else secrets.randbelow(2**31)
    conditions = list(_conditions(experiment))
    trials: list[Trial] = []
    for deployment in range(1, experiment.deployments + 1):
        for number in range(1, experiment.rounds + 1):
            key = f"{seed}/{deployment}/{number}/"
            for pair, spec, levels in sorted(conditions, key=lambda c: _draw(key, c)):
                trials.append(
                    Trial(deployment=deployment, round=number, order=len(trials), pair=pair, test=spec, **levels)
                )
    return Plan(experiment=experiment, seed=seed, trials=tuple(trials))


_Condition = tuple[Pair, TestSpec, dict[str, Any]]


def _conditions(experiment: Experiment) -> Iterator[_Condition]:
    for spec in experiment.tests:
        throughput = not _LATENCY.fullmatch(spec.test)
        streams = spec.streams if throughput and spec.tool.startswith("iperf") else (1,)
        buffers = spec.tcp_buffer_bytes if throughput else (None,)
        for pair in experiment.pairs:
            if spec.placements is None or pair.placement in spec.placements:
                for n in streams:
                    for buffer in buffers:
                        for size in spec.message_bytes:
                            yield (
                                pair,
                                spec,
                                {
                                    "streams": n,
                                    "tcp_buffer_bytes": pair.tcp_buffer_bytes if buffer is None else buffer,
                                    "message_bytes": size,
                                },
                            )


def _draw(key: str, condition: _Condition) -> bytes:
    pair, spec, levels = condition
    trial = Trial(deployment=0, round=0, order=0, pair=pair, test=spec, **levels)
    return hashlib.blake2s((key + repr(trial.condition)).encode(), digest_size=16).digest()


def notes(experiment: Experiment) -> list[str]:
    """What was declared and does not apply: such a factor is not crossed with the test."""
    found = []
    for number, spec in enumerate(experiment.tests, 1):
        latency = _LATENCY.fullmatch(spec.test) is not None
        for factor, default, applies in (
            ("streams", (1,), not latency and spec.tool.startswith("iperf")),
            ("tcp_buffer_bytes", (None,), not latency),
        ):
            if not applies and getattr(spec, factor) != default:
                found.append(f"{factor} does not apply to test {number}, {spec.tool} {spec.test}: not crossed with it")
    return found


# -- reading the file --------------------------------------------------------------------------------------------------


def load_experiment(
    path: str | os.PathLike[str], *, rounds: str | int | None = None, duration_s: float | None = None
) -> Experiment:
    """Read an experiment from its yaml file.

    Parameters
    ----------
    path : path
        The file.
    rounds : int or str, optional
        Rounds to measure instead; ``"+6"`` adds six to those declared.
    duration_s : float, optional
        Seconds for every test instead.

    Returns
    -------
    Experiment

    Raises
    ------
    ExperimentError
        The file cannot be read or used: a line for every error, with its place and the legal values.
    """
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise ExperimentError(f"{path}: cannot be read ({error.strerror}); give the experiment's yaml file") from None
    except UnicodeDecodeError:
        raise ExperimentError(f"{path}: is not UTF-8 text; save the experiment as UTF-8") from None
    experiment = read_experiment(text, file=str(path))
    changed: dict[str, Any] = {}
    if rounds is not None:
        changed["rounds"] = _rounds(str(rounds), experiment.rounds)
    if duration_s is not None:
        if not 0 < duration_s <= 3600:
            raise ExperimentError(f"duration {duration_s} s: must be above 0 and at most 3600")
        changed["tests"] = tuple(t.model_copy(update={"duration_s": duration_s}) for t in experiment.tests)
    return experiment.model_copy(update=changed)


def _rounds(text: str, declared: int) -> int:
    if not re.fullmatch(r"\+?[0-9]{1,5}", text):
        raise ExperimentError(f"rounds {text!r}: must be a number such as 12, or +6 for six more than declared")
    number = declared + int(text) if text.startswith("+") else int(text)
    if not 1 <= number <= 10_000:
        raise ExperimentError(f"rounds {number}: must be from 1 to 10000")
    return number


def read_experiment(text: str, *, file: str = "experiment") -> Experiment:
    """Read an experiment from yaml text; see `load_experiment`."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ExperimentError(f"{where}: this is not yaml ({problem}); check indents, quotes and brackets") from None
    except ValueError as error:  # for example an impossible date
        raise ExperimentError(f"{file}: {error}; quote the value if it is meant as text") from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(document, dict):
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(f"{file}:1: an experiment is a mapping with the keys {keys}")
    errors = [(_line(node, loc), loc, message) for loc, message in _doubled(node)]
    try:
        experiment = Experiment.model_validate(document)
    except ValidationError as invalid:
        errors += [(_line(node, e["loc"]), e["loc"], _message(e)) for e in invalid.errors()]
    else:
        errors += [(_line(node, loc), loc, message) for loc, message in _disagreements(experiment)]
        if not errors:
            return experiment
    said = dict.fromkeys(f"{file}:{line}: {_dotted(loc)}{message}" for line, loc, message in sorted(errors, key=str))
    raise ExperimentError("\n".join(sorted(said, key=lambda s: int(s[len(file) + 1 :].split(":")[0]))))


_Loc = tuple[str | int, ...]


def _dotted(loc: _Loc) -> str:
    text = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
    return f"{text}: " if text else ""


def _line(node: yaml.Node, loc: _Loc) -> int:
    """1-based line of the deepest part of `loc` that is in the file."""
    line = node.start_mark.line
    for part in loc:
        found: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, found = key.start_mark.line, value
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            found = node.value[part]
            line = found.start_mark.line
        if found is None:
            break
        node = found
    return line + 1


def _doubled(node: yaml.Node, loc: _Loc = ()) -> Iterator[tuple[_Loc, str]]:
    """Yaml takes the last of two equal keys without a word; an experiment must not."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            here = (*loc, str(key.value))
            if str(key.value) in seen:
                yield here, "stands here a second time; keep one of them"
            seen.add(str(key.value))
            yield from _doubled(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for number, item in enumerate(node.value):
            yield from _doubled(item, (*loc, number))


_PARTS: dict[str, type[BaseModel]] = {"hosts": HostsSpec, "pairs": Pair, "tests": TestSpec, "contrasts": Contrast}


def _message(error: Any) -> str:
    """One sentence for an error of pydantic: what was wrong and what is legal."""
    kind, value, loc, ctx = error["type"], error.get("input"), error["loc"], error.get("ctx", {})
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "…"
    match kind:
        case "extra_forbidden":
            part = Experiment if len(loc) == 1 else _PARTS.get(str(loc[0]), Experiment)
            known = list(part.model_fields)
            near = difflib.get_close_matches(str(loc[-1]), known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            return f"unknown key; {hint}known here are {', '.join(known)}"
        case "missing":
            return "is missing; add it"
        case "literal_error":
            return f"{shown} is not known; legal are {ctx['expected']}"
        case "string_pattern_mismatch":
            return (
                f"{shown} is no name; legal are 1 to 63 letters, digits, dots, underscores and hyphens, "
                "a letter or digit first"
            )
        case "string_type":
            return f"{shown} is not text; put it in quotes"
        case "too_short":
            return "is empty; give at least one"
        case "tuple_type":
            return f"{shown} is not a list; write [{value}]" if not isinstance(value, dict) else "must be a list"
        case "model_type" | "dict_type":
            return f"{shown} is not a mapping; write key: value lines under it"
        case _:
            said = str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
            return f"{shown} must be {said}"


def _disagreements(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Parts that are legal each by itself and do not fit together."""
    placements = list(dict.fromkeys(p.placement for p in experiment.pairs))
    for number, pair in enumerate(experiment.pairs):
        if pair.client == pair.server:
            yield ("pairs", number, "server"), f"{pair.server!r} is the client too; a pair joins two hosts"
    for number, spec in enumerate(experiment.tests):
        for place, placement in enumerate(spec.placements or ()):
            if placement not in placements:
                yield (
                    ("tests", number, "placements", place),
                    f"no pair has the placement {placement!r}; legal are {', '.join(placements)}",
                )
    seen: set[tuple[Any, ...]] = set()
    for pair, spec, levels in _conditions(experiment):
        trial = Trial(deployment=0, round=0, order=0, pair=pair, test=spec, **levels)
        condition = trial.condition
        yield from ((("tests", experiment.tests.index(spec)), message) for message in _unrunnable(trial))
        if condition in seen:
            what = f"{spec.tool} {spec.test} from {pair.client} to {pair.server}"
            yield ("tests", experiment.tests.index(spec)), f"{what} is declared twice with equal factors; leave one out"
        seen.add(condition)
    for number, contrast in enumerate(experiment.contrasts):
        if contrast.metric not in METRICS:
            near = difflib.get_close_matches(contrast.metric, METRICS, n=3, cutoff=0.4) or list(METRICS)[:3]
            yield ("contrasts", number, "metric"), f"{contrast.metric!r} is no metric; did you mean {', '.join(near)}?"
        for side in ("a", "b"):
            yield from _side(experiment, ("contrasts", number, side), getattr(contrast, side))


def _unrunnable(trial: Trial) -> Iterator[str]:
    """What the tools themselves have against a trial, and against the load that it runs under."""
    asked = [trial]
    if during := trial.test.during:
        spec = TestSpec(tool=during.tool, test=during.test, options=during.options)
        asked.append(replace(trial, test=spec, streams=during.streams, tcp_buffer_bytes=None, message_bytes=None))
    for one in asked:
        module = tools.tools().get(one.test.tool)
        legal = getattr(module, "TESTS", None)
        if module is None or legal is None or not hasattr(module, "commands"):
            yield f"{one.test.tool} cannot be run by this project"
        elif one.test.test not in legal:
            yield f"{one.test.test!r} is no test of {one.test.tool}; legal are {', '.join(map(str, legal))}"
        else:
            try:
                module.commands(one, "192.0.2.1", 20_000)
            except UsageError as error:
                yield str(error)


def _side(experiment: Experiment, loc: _Loc, factors: Mapping[str, Any]) -> Iterator[tuple[_Loc, str]]:
    """A condition of a contrast must be one that is measured."""
    rows = [
        describe(Trial(deployment=0, round=0, order=0, pair=p, test=t, **levels))
        for p, t, levels in _conditions(experiment)
    ]
    for name, value in factors.items():
        if rows and name in rows[0] and name != "options":
            levels = sorted({r[name] for r in rows}, key=str)
            if value not in levels:
                shown = ", ".join("null" if v is None else str(v) for v in levels)
                yield (*loc, name), f"{value!r} is not measured; measured are {shown}"
