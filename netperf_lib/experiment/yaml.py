"""Reading an experiment's yaml file: every error with its line, what was wrong there, and what is legal."""

from __future__ import annotations

import difflib
import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from .. import tools
from ..errors import ExperimentError, UsageError
from ..metrics import METRICS
from .factors import sort_levels
from .model import Contrast, Experiment, HostsSpec, Pair, TestSpec, Trial
from .schedule import conditions, describe, load_trial

__all__ = ["load_experiment", "read_experiment"]


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


def _doubled(node: yaml.Node) -> Iterator[tuple[_Loc, str]]:
    """Yaml takes the last of two equal keys without a word; an experiment must not."""
    todo: list[tuple[yaml.Node, _Loc]] = [(node, ())]
    met: set[int] = set()  # an alias may stand in many places, and in itself
    while todo:
        here, loc = todo.pop()
        if id(here) in met:
            continue
        met.add(id(here))
        if isinstance(here, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in here.value:
                name = str(key.value)
                if name in seen:
                    yield (*loc, name), "stands here a second time; keep one of them"
                seen.add(name)
                todo.append((value, (*loc, name)))
        elif isinstance(here, yaml.SequenceNode):
            todo += [(item, (*loc, number)) for number, item in enumerate(here.value)]


_SHOWN = reprlib.Repr()
_SHOWN.maxlevel, _SHOWN.maxstring, _SHOWN.maxother = 2, 60, 60

_PARTS: dict[str, type[BaseModel]] = {"hosts": HostsSpec, "pairs": Pair, "tests": TestSpec, "contrasts": Contrast}


def _message(error: Any) -> str:
    """One sentence for an error of pydantic: what was wrong and what is legal."""
    kind, value, loc, ctx = error["type"], error.get("input"), error["loc"], error.get("ctx", {})
    shown = _SHOWN.repr(value)
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
            return "is missing or empty; give at least one"
        case "tuple_type":
            return f"{shown} is not a list; write [{shown}]"
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
    for trial in conditions(experiment):
        pair, spec, condition = trial.pair, trial.test, trial.condition
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
            yield from _side(experiment, ("contrasts", number, side), getattr(contrast, side) or {})


def _unrunnable(trial: Trial) -> Iterator[str]:
    """What the tools themselves have against a trial, and against the load that it runs under."""
    for one in filter(None, (trial, load_trial(trial))):
        module = tools.tool(one.test.tool)
        if one.test.test not in module.TESTS:
            yield f"{one.test.test!r} is no test of {one.test.tool}; legal are {', '.join(module.TESTS)}"
        else:
            try:
                module.commands(one, "192.0.2.1", 20_000)
            except UsageError as error:
                yield str(error)


def _side(experiment: Experiment, loc: _Loc, factors: Mapping[str, Any]) -> Iterator[tuple[_Loc, str]]:
    """A condition of a contrast must be one that is measured."""
    rows = [describe(trial) for trial in conditions(experiment)]
    for name, value in factors.items():
        if rows and name in rows[0]:
            levels = sort_levels(name, (r[name] for r in rows))
            if value not in levels:
                shown = ", ".join("null" if v is None else str(v) for v in levels)
                yield (*loc, name), f"{value!r} is not measured; measured are {shown}"
