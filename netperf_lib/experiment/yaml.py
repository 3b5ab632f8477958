"""Reading an experiment's YAML file: every error with its line, and what is wrong there."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from .. import tools
from ..errors import CONTROL, ExperimentError, UsageError, did_you_mean
from .contrasts import expand_compare
from .factors import FACTORS, is_reserved
from .model import OPTIONS, Experiment
from .schedule import MOST_TRIALS, conditions, conditions_count, load_trial

MOST_BYTES = 256 * 1024
MOST_DEPTH = 20
MOST_DIGITS = 40
MOST_ERRORS = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"[-+]?(0x)?[0-9a-fA-F_.]+")
_QUOTED = reprlib.Repr()
_QUOTED.maxlevel, _QUOTED.maxstring, _QUOTED.maxother = 2, 60, 60
_Loc = tuple[str | int, ...]


def load_experiment(
    path: str | os.PathLike[str],
    *,
    rounds: str | int | None = None,
    duration_s: float | None = None,
) -> Experiment:
    """Read an experiment from its YAML file.

    Parameters
    ----------
    path : path
        The file.
    rounds : int or str, optional
        Rounds to measure, instead of those declared; ``"+6"`` adds six to them.
    duration_s : float, optional
        Duration of every test in seconds, instead of those declared.

    Raises
    ------
    ExperimentError
        The file cannot be read or used: one line for each error, with its location.
    """
    text = _text(Path(path))
    return read_experiment(text, file=str(path), rounds=rounds, duration_s=duration_s)


def _text(path: Path) -> str:
    try:
        if not path.is_file():  # a pipe would keep us waiting
            raise ExperimentError(
                f"{path}: no such file; give an experiment's yaml file (`npl init {path}` writes "
                "one)"
            )
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(
            f"{path}: cannot be read ({error}); give an experiment's yaml file in UTF-8"
        ) from None


def read_experiment(
    text: str,
    *,
    file: str = "experiment",
    rounds: str | int | None = None,
    duration_s: float | None = None,
) -> Experiment:
    """Read an experiment from YAML text; see `load_experiment`."""
    node, document = _parsed(text, file)
    if rounds is not None:
        declared = document.get("rounds", Experiment.model_fields["rounds"].default)
        is_more = re.fullmatch(r"\+[0-9]{1,5}", str(rounds)) and isinstance(declared, int)
        document["rounds"] = declared + int(rounds) if is_more else rounds
    tests = document.get("tests")
    for test in tests if duration_s is not None and isinstance(tests, list) else ():
        if isinstance(test, dict):
            test["duration_s"] = duration_s
    try:
        experiment = Experiment.model_validate(document)
        wrong = list(_disagreements(experiment))
        if not wrong:
            experiment, wrong = expand_compare(experiment)
    except ValidationError as invalid:
        met = invalid.errors(include_url=False)[: 10 * MOST_ERRORS]
        wrong = [(e["loc"], sentence(e, Experiment)) for e in met]
    if not wrong:
        return experiment
    errors = sorted((_line(node, loc), _dotted(loc), message) for loc, message in wrong)
    lines = list(
        dict.fromkeys(f"{file}:{line}: {at}{message}" for line, at, message in errors)
    )
    raise ExperimentError("\n".join(lines[:MOST_ERRORS]))


def _dotted(loc: _Loc) -> str:
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc]
    return f"{''.join(parts).lstrip('.')}: " if parts else ""


def _parsed(text: str, file: str) -> tuple[yaml.MappingNode, dict[str, Any]]:
    """Parse the document and its nodes; refuse what would take long or does not belong."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise ExperimentError(f"{file}: is larger than {MOST_BYTES // 1024} KiB")
    depth = 0
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            for words in _refusals(event, depth):
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise ExperimentError(f"{file}:{line}: {words}")
        node = yaml.compose(text, Loader=_LOADER)
        _check(node, file)
        document = yaml.load(text, Loader=_LOADER)  # noqa: S506  a safe one
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else file
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ExperimentError(f"{place}: this is not yaml ({problem})") from None
    except (ValueError, OverflowError) as error:  # for example an impossible date
        raise ExperimentError(
            f"{file}: {str(error)[:200]}; quote what is meant as text"
        ) from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(document, dict):
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(
            f"{file}:1: an experiment is a mapping with the keys {keys}"
        )
    return node, document


def _refusals(event: Any, depth: int) -> Iterator[str]:
    """Say what of an event does not belong into an experiment."""
    value = getattr(event, "value", "")
    if isinstance(event, yaml.AliasEvent):
        yield "an anchor does not belong here; write the value out"
    if depth > MOST_DEPTH:
        yield f"nested more than {MOST_DEPTH} deep; an experiment needs five"
    if getattr(event, "tag", None):
        yield f"the tag {event.tag[:60]} does not belong here; remove it"
    if len(value) > MOST_DIGITS and _NUMBER.fullmatch(value):
        yield f"a number of {len(value):,} digits; at most {MOST_DIGITS} are allowed"
    if CONTROL.search(value):
        yield f"{value[:60]!a} contains control or invalid characters"


def _check(node: yaml.Node | None, file: str) -> None:
    """Refuse keys that are no words, or that occur twice, of which yaml would take the last."""
    inside = node.value if isinstance(node, yaml.CollectionNode) else ()
    names = set()
    for part in inside:
        key, value = part if isinstance(part, tuple) else (None, part)
        if key is not None:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise ExperimentError(f"{file}:{line}: a key must be a word")
            if key.value in names:
                words = f"{key.value[:60]} occurs twice; keep one of them"
                raise ExperimentError(f"{file}:{line}: {words}")
            names.add(key.value)
        _check(value, file)


def _line(node: yaml.Node, loc: _Loc) -> int:
    """Line, from 1, of the deepest part of `loc` that is in the file."""
    line = node.start_mark.line
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            inside = {
                key.value: (key.start_mark.line, value) for key, value in node.value
            }
        elif isinstance(node, yaml.SequenceNode):
            inside = {
                i: (value.start_mark.line, value) for i, value in enumerate(node.value)
            }
        else:
            break
        if part not in inside:
            break
        line, node = inside[part]
    return line + 1


def line_of(path: str | os.PathLike[str], loc: _Loc) -> int:
    """Return the line of an experiment file, from 1, of the deepest part of `loc` that is in it."""
    node, _ = _parsed(_text(Path(path)), str(path))
    return _line(node, loc)


def sentence(error: Any, model: type[BaseModel]) -> str:
    """Return the words of an error of pydantic about a model, with the value that it is about."""
    kind = error["type"]
    if kind == "value_error":
        return str(error["ctx"]["error"])
    words = str(error["msg"])
    if kind in ("missing", "too_short"):
        return words
    if kind != "extra_forbidden":
        return f"{_QUOTED.repr(error['input'])}: {words}"
    return f"unknown key; {did_you_mean(error['loc'][-1], _keys(model))}".rstrip("; ")


@cache  # a file may have hundreds of such errors
def _keys(model: type[BaseModel]) -> set[str]:
    """Return the keys of a model and its parts, and the options of tests."""
    schema = model.model_json_schema()
    keys = {*OPTIONS}
    for part in (schema, *schema.get("$defs", {}).values()):
        keys |= part.get("properties", {}).keys()
    return keys


def _disagreements(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Yield the errors in parts that are each legal but do not fit together."""
    yield from _wrong_pairs(experiment)
    total = conditions_count(experiment) * experiment.rounds * experiment.deployments
    if total > MOST_TRIALS:
        words = f"{total:,} trials are more than {MOST_TRIALS:,}"
        yield ("rounds",), f"{words}; lower rounds, deployments or levels"
    else:
        yield from _wrong_tests(experiment)


def _wrong_pairs(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Yield the errors of pairs, and of tests on pairs that are not there."""
    for number, pair in enumerate(experiment.pairs):
        if pair.client == pair.server:
            words = (
                f"{pair.server!r} is also the client; a pair needs two different hosts"
            )
            yield ("pairs", number, "server"), words
        for label in pair.labels:
            if is_reserved(label) or (label in FACTORS and label != "gateway_sku"):
                words = "is a name that the library uses itself; rename the label"
                yield ("pairs", number, "labels", label), words
    placements = list(dict.fromkeys(p.placement for p in experiment.pairs))
    for number, spec in enumerate(experiment.tests):
        for index, placement in enumerate(spec.placements or ()):
            if placement not in placements:
                known = ", ".join(placements)
                words = f"no pair has the placement {placement!r}; legal are {known}"
                yield ("tests", number, "placements", index), words


def _wrong_tests(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Yield the errors that the tools find, and tests that are declared twice."""
    seen: set[tuple[Any, ...]] = set()
    for trial in conditions(experiment):
        spec, server = trial.test, trial.pair.server
        loc: _Loc = ("tests", experiment.tests.index(spec))
        address = _address(experiment, server)
        for one in filter(None, (trial, load_trial(trial))):
            module = tools.tool(one.test.tool)
            if one.test.test not in module.TESTS:
                what = f"{one.test.test!r} is not a test of {one.test.tool}"
                yield loc, f"{what}; legal are {', '.join(module.TESTS)}"
                continue
            try:
                module.commands(one.request, address, 20_000)
            except UsageError as error:
                yield loc, str(error)
        if trial.condition in seen:
            what = f"{spec.tool} {spec.test} from {trial.pair.client} to {server}"
            yield loc, f"{what} is declared twice with equal factors; remove one"
        seen.add(trial.condition)


def _address(experiment: Experiment, host: str) -> str:
    """Return the address that a host of an inventory has, else one for documentation (RFC 5737)."""
    hosts = experiment.hosts.options.get("hosts")
    own = hosts.get(host) if isinstance(hosts, dict) else None
    if not isinstance(own, dict):
        return "192.0.2.1"
    return str(own.get("data_address") or own.get("address") or "192.0.2.1")
