"""Reading an experiment's YAML file: every error with its line, and what is wrong there."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import BaseModel, ValidationError

from .. import tools
from ..errors import CONTROL, ExperimentError, UsageError, did_you_mean
from .contrasts import expand_compare
from .factors import FACTORS, is_latency, is_reserved
from .model import OPTIONS, Experiment, as_mapping
from .schedule import (
    MOST_TRIALS,
    conditions,
    conditions_count,
    has_streams,
    load_trial,
)

MOST_BYTES = 256 * 1024
MOST_DEPTH = 20
MOST_DIGITS = 40
MOST_ERRORS = 20
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
    document, lines = _parsed(text, file)
    if rounds is not None:
        declared = document.get("rounds", Experiment.model_fields["rounds"].default)
        is_more = re.fullmatch(r"\+[0-9]{1,5}", str(rounds)) and isinstance(declared, int)
        document["rounds"] = declared + int(rounds) if is_more else rounds
    tests = document.get("tests")
    if duration_s is not None and isinstance(tests, list):
        for test in tests:
            if isinstance(test, dict):
                test["duration_s"] = duration_s
    try:
        experiment = Experiment.model_validate(document)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)[: 10 * MOST_ERRORS]
        wrong = [(error["loc"], sentence(error, Experiment)) for error in errors]
    else:
        wrong = list(_disagreements(experiment))
        if not wrong:
            experiment, wrong = expand_compare(experiment)
        if not wrong:
            return experiment
    places = sorted((_line(lines, loc), _dotted(loc), words) for loc, words in wrong)
    told = dict.fromkeys(f"{file}:{line}: {name}{words}" for line, name, words in places)
    raise ExperimentError("\n".join(list(told)[:MOST_ERRORS]))


def _dotted(loc: _Loc) -> str:
    """Return a place as people write it: ``tests[2].streams: ``."""
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return f"{text.lstrip('.')}: " if text else ""


def _line(lines: Mapping[_Loc, int], loc: _Loc) -> int:
    """Return the line of the deepest part of `loc` that is in the file."""
    while loc not in lines:
        loc = loc[:-1]
    return lines[loc]


def line_of(path: str | os.PathLike[str], loc: _Loc) -> int:
    """Return the line of an experiment file, from 1, of the deepest part of `loc` that is in it."""
    _, lines = _parsed(_text(Path(path)), str(path))
    return _line(lines, loc)


def _parsed(text: str, file: str) -> tuple[dict[str, Any], Mapping[_Loc, int]]:
    """Return the document, and the line of each place in it."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise ExperimentError(f"{file}: is larger than {MOST_BYTES // 1024} KiB")
    try:
        loader = _Loader(text, file)
        document = loader.get_single_data()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else file
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ExperimentError(f"{place}: this is not yaml ({problem})") from None
    except (ValueError, OverflowError) as error:  # for example an impossible date
        raise ExperimentError(
            f"{file}: {str(error)[:200]}; quote what is meant as text"
        ) from None
    if not isinstance(document, dict):
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(
            f"{file}:1: an experiment is a mapping with the keys {keys}"
        )
    return document, loader.lines


class _Loader(yaml.SafeLoader):
    """Reads a document, and refuses on the way what would take long or does not belong there.

    Attributes
    ----------
    lines : dict
        The line, from 1, of each place: the keys and numbers of items that lead there.
    """

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text)
        self.file = file
        self.place: _Loc = ()
        self.lines: dict[_Loc, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node; `index` is the number of an item, or the key of a value."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        outer = self.place
        mark = event.start_mark
        for words in _refusals(event, len(outer)):
            self.refuse(mark, words)
        if isinstance(index, yaml.ScalarNode):
            mark = index.start_mark
            self.place = (*outer, index.value)
            if self.place in self.lines:  # yaml would take the last
                self.refuse(mark, f"{index.value[:60]} occurs twice; keep one of them")
        elif index is not None:
            self.place = (*outer, index)
        elif parent is not None and not isinstance(event, yaml.ScalarEvent):
            self.refuse(mark, "a key must be a word")
        self.lines.setdefault(self.place, mark.line + 1)
        node = super().compose_node(parent, index)
        self.place = outer
        return node

    def refuse(self, mark: Any, words: str) -> NoReturn:
        """Raise the error of a place."""
        raise ExperimentError(f"{self.file}:{mark.line + 1}: {words}")


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
    yield from _levels_without_use(experiment)
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


def _levels_without_use(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Yield the levels of a test that its tool cannot set, which a plan would leave out."""
    for number, spec in enumerate(experiment.tests):
        if spec.streams != (1,) and not has_streams(spec):
            words = f"{spec.tool} has no parallel streams; leave this out, or use iperf3"
            yield ("tests", number, "streams"), words
        if spec.tcp_buffer_bytes != (None,) and is_latency(spec.test):
            words = (
                f"{spec.test} sets no TCP buffers; leave this out, or give it to a pair"
            )
            yield ("tests", number, "tcp_buffer_bytes"), words


def _wrong_tests(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Yield the errors that the tools find, and tests that are declared twice."""
    seen: set[tuple[Any, ...]] = set()
    for trial in conditions(experiment):
        spec, pair = trial.test, trial.pair
        loc: _Loc = ("tests", experiment.tests.index(spec))
        for one in filter(None, (trial, load_trial(trial))):
            module = tools.tool(one.test.tool)
            if one.test.test not in module.TESTS:
                what = f"{one.test.test!r} is not a test of {one.test.tool}"
                yield loc, f"{what}; legal are {', '.join(module.TESTS)}"
                continue
            try:
                module.commands(one.request, _address(experiment, pair.server), 20_000)
            except UsageError as error:
                yield loc, str(error)
        if trial.condition in seen:
            what = f"{spec.tool} {spec.test} from {pair.client} to {pair.server}"
            yield loc, f"{what} is declared twice with equal factors; remove one"
        seen.add(trial.condition)


def _address(experiment: Experiment, host: str) -> str:
    """Return the address that a host of an inventory has, else one for documentation (RFC 5737)."""
    hosts = as_mapping(experiment.hosts.options.get("hosts"))
    own = as_mapping(hosts.get(host))
    return str(own.get("data_address") or own.get("address") or "192.0.2.1")
