"""Reading an experiment's YAML file: every error with its line, what is wrong there, and what is legal."""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from .. import tools
from ..errors import CONTROL, ExperimentError, UsageError, did_you_mean
from .contrasts import expand_compare, problems
from .factors import FACTORS, is_reserved
from .model import OPTIONS, Experiment, TestSpec
from .schedule import MOST_TRIALS, conditions, conditions_count, load_trial


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
        The file cannot be read or used: one line for each error, with its location and the legal values.
    """
    experiment = read_experiment(_text(Path(path)), file=str(path))
    changed: dict[str, Any] = {}
    if rounds is not None:
        changed["rounds"] = _rounds(str(rounds), experiment.rounds)
    if duration_s is not None:
        if not 0 < duration_s <= 3600:
            raise ExperimentError(f"duration {duration_s} s: must be above 0 and at most 3600")
        changed["tests"] = tuple(
            t.model_copy(update={"duration_s": duration_s}) for t in experiment.tests
        )
    experiment = experiment.model_copy(update=changed)
    if changed and (errors := dict.fromkeys(message for _, message in _disagreements(experiment))):
        raise ExperimentError(f"{path}: with these rounds and durations: {'; '.join(errors)}")
    return experiment


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            what = (
                "a folder"
                if path.is_dir()
                else "not a regular file"
                if path.exists()
                else "No such file"
            )
            raise ExperimentError(
                f"{path}: cannot be read ({what}); give the experiment's yaml file"
            )
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        return data.decode("utf-8")
    except OSError as error:
        raise ExperimentError(
            f"{path}: cannot be read ({error.strerror}); give the experiment's yaml file"
        ) from None
    except UnicodeDecodeError:
        raise ExperimentError(f"{path}: is not UTF-8 text; save the experiment as UTF-8") from None


def _rounds(text: str, declared: int) -> int:
    if not re.fullmatch(r"\+?[0-9]{1,5}", text):
        raise ExperimentError(
            f"rounds {text!r}: must be a number such as 12, or +6 for six more than declared"
        )
    number = declared + int(text) if text.startswith("+") else int(text)
    if not 1 <= number <= 10_000:
        raise ExperimentError(f"rounds {number}: must be from 1 to 10000")
    return number


def read_experiment(text: str, *, file: str = "experiment") -> Experiment:
    """Read an experiment from YAML text; see `load_experiment`."""
    node, document = _parsed(text, file)
    errors: list[tuple[int, _Loc, str]] = []
    try:
        experiment = Experiment.model_validate(document)
    except ValidationError as invalid:
        met = invalid.errors(include_url=False)[: 10 * MOST_ERRORS]
        inner = {e["loc"][:depth] for e in met for depth in range(1, len(e["loc"]))}
        # a list whose items were refused is reported as too short as well
        own = [e for e in met if e["type"] != "too_short" or e["loc"] not in inner]
        errors += [(_line(node, e["loc"]), e["loc"], sentence(e, Experiment)) for e in own]
    else:
        wrong = list(_disagreements(experiment))
        if not wrong:
            experiment, wrong = expand_compare(experiment)
            wrong += problems(experiment) if experiment.tests and not wrong else []
        errors += [(_line(node, loc), loc, message) for loc, message in wrong]
        if not errors:
            return experiment
    ordered = sorted(errors, key=lambda error: (error[0], str(error)))
    lines = []
    for line, loc, message in ordered:
        dotted = "".join(
            f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc
        ).lstrip(".")
        lines.append(f"{file}:{line}: {dotted}{': ' if dotted else ''}{message}")
    lines = list(dict.fromkeys(lines))
    more = [f"and {len(lines) - MOST_ERRORS} more errors"] if len(lines) > MOST_ERRORS else []
    raise ExperimentError("\n".join([*lines[:MOST_ERRORS], *more]))


MOST_BYTES = 256 * 1024
MOST_DEPTH = 20
MOST_NODES = 20_000
MOST_DIGITS = 40
MOST_ERRORS = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCALARS = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}


def _parsed(text: str, file: str) -> tuple[yaml.MappingNode, dict[str, Any]]:
    """Parse the document and its nodes, after refusing anything that would take long or does not belong."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise ExperimentError(
            f"{file}: is larger than {MOST_BYTES // 1024} KiB; an experiment has a few hundred lines"
        )
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_LOADER):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
                event, yaml.CollectionEndEvent
            )
            where = f"{file}:{event.start_mark.line + 1}" if event.start_mark else file
            if depth > MOST_DEPTH:
                raise ExperimentError(
                    f"{where}: nested more than {MOST_DEPTH} deep; an experiment needs five"
                )
            if tag := getattr(event, "tag", None):
                raise ExperimentError(
                    f"{where}: the tag {tag[:60]} does not belong in an experiment; remove it"
                )
        loader = _LOADER(text)
        try:
            node = loader.get_single_node()
            _bounded(node, file)
            document = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else file
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ExperimentError(
            f"{where}: this is not yaml ({problem}); check indents, quotes and brackets"
        ) from None
    except (ValueError, OverflowError) as error:  # for example an impossible date
        raise ExperimentError(
            f"{file}: {str(error)[:200]}; quote the value if it is meant as text"
        ) from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(document, dict):
        keys = ", ".join(Experiment.model_fields)
        raise ExperimentError(f"{file}:1: an experiment is a mapping with the keys {keys}")
    return node, document


def _bounded(node: yaml.Node | None, file: str) -> None:
    """Refuse anchors that multiply, keys that occur twice, overlong numbers and text that cannot be printed."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        where = f"{file}:{node.start_mark.line + 1}"
        if id(node) in sizes:
            if not sizes[id(node)]:
                raise ExperimentError(f"{where}: an anchor refers to itself; write the value out")
            return sizes[id(node)]
        sizes[id(node)] = 0
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.ScalarNode):
            if node.tag in _SCALARS and len(node.value) > MOST_DIGITS:
                raise ExperimentError(
                    f"{where}: a number of {len(node.value):,} digits; at most {MOST_DIGITS} are allowed"
                )
            if CONTROL.search(node.value):
                raise ExperimentError(
                    f"{where}: {node.value[:60]!a} contains control or invalid characters; remove them"
                )
        elif isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise ExperimentError(f"{where}: a key must be a word, not a list or mapping")
                if key.value in names:  # of which YAML would silently take the last
                    line = key.start_mark.line + 1
                    raise ExperimentError(
                        f"{file}:{line}: {key.value[:60]} occurs twice; keep one of them"
                    )
                names.add(key.value)
                parts += [key, value]
        else:
            parts = node.value
        total = 1 + sum(size(part) for part in parts)
        if total > MOST_NODES:
            raise ExperimentError(
                f"{where}: more than {MOST_NODES:,} values with its anchors expanded; list fewer"
            )
        sizes[id(node)] = total
        return total

    if node is not None:
        size(node)


_Loc = tuple[str | int, ...]


def _line(node: yaml.Node, loc: _Loc) -> int:
    """Line, from 1, of the deepest part of `loc` that is in the file."""
    line = node.start_mark.line
    for part in loc:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    line, child = key.start_mark.line, value
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            child = node.value[part]
            line = child.start_mark.line
        if child is None:
            break
        node = child
    return line + 1


def line_of(path: str | os.PathLike[str], loc: tuple[str | int, ...]) -> int:
    """Line of an experiment file, from 1, of the deepest part of `loc` that is in it."""
    node, _ = _parsed(_text(Path(path)), str(path))
    return _line(node, loc)


_QUOTED = reprlib.Repr()
_QUOTED.maxlevel, _QUOTED.maxstring, _QUOTED.maxother = 2, 60, 60

_SENTENCES = {
    # kind of an error of pydantic: what is wrong and what is legal
    "missing": "is missing; add it",
    "too_short": "is missing or empty; give at least one",
    "literal_error": "{} is not known; legal are {legal}",
    "string_type": "{} is not text; put it in quotes",
    "tuple_type": "{0} is not a list; write [{0}]",
    "model_type": "{} is not a mapping; write key: value lines under it",
    "dict_type": "{} is not a mapping; write key: value lines under it",
    "string_pattern_mismatch": (
        "{} is not a name; legal are 1 to 63 letters, digits, dots, underscores and hyphens, a letter or digit first"
    ),
}


def sentence(error: Any, model: type[BaseModel]) -> str:
    """Turn an error of pydantic about a model into one sentence: what is wrong and what is legal."""
    kind, value, loc, ctx = error["type"], error.get("input"), error["loc"], error.get("ctx", {})
    quoted = (
        str(value).lower()
        if isinstance(value, bool)
        else "null"
        if value is None
        else _QUOTED.repr(value)
    )
    part, examples = _at(model, loc)
    if kind == "extra_forbidden":
        fields = [*part.model_fields, *(OPTIONS if part is TestSpec else ())]
        return f"unknown key; {did_you_mean(loc[-1], fields)}known here are {', '.join(fields)}"
    if kind == "string_pattern_mismatch" and examples:
        return f"{quoted} does not look like {' or '.join(examples)}"
    if kind == "value_error":
        return str(ctx["error"])
    if words := _SENTENCES.get(kind):
        return words.format(quoted, legal=ctx.get("expected", "").replace(" or ", ", "))
    return f"{quoted} must be {str(error['msg']).removeprefix('Input should be ')}"


def _at(model: type[BaseModel], loc: _Loc) -> tuple[type[BaseModel], list[Any]]:
    """The innermost model that a location leads into, and the examples of its last field."""
    examples: list[Any] = []
    for name in loc:
        if field := model.model_fields.get(str(name)):
            types = list(_types(field.annotation))
            examples = next(
                (t.examples for t in (field, *types) if isinstance(t, FieldInfo) and t.examples), []
            )
            model = next(
                (t for t in types if isinstance(t, type) and issubclass(t, BaseModel)), model
            )
    return model, examples


def _types(annotation: Any) -> Iterator[Any]:
    """An annotation and everything inside of it."""
    yield annotation
    for inner in get_args(annotation):
        yield from _types(inner)


def _disagreements(experiment: Experiment) -> Iterator[tuple[_Loc, str]]:
    """Errors in parts that are each legal but do not fit together."""
    placements = list(dict.fromkeys(p.placement for p in experiment.pairs))
    for number, pair in enumerate(experiment.pairs):
        if pair.client == pair.server:
            yield (
                ("pairs", number, "server"),
                f"{pair.server!r} is also the client; a pair needs two different hosts",
            )
    for number, spec in enumerate(experiment.tests):
        for index, placement in enumerate(spec.placements or ()):
            if placement not in placements:
                yield (
                    ("tests", number, "placements", index),
                    f"no pair has the placement {placement!r}; legal are {', '.join(placements)}",
                )
    for number, pair in enumerate(experiment.pairs):
        for label in pair.labels:
            if is_reserved(label) or (label in FACTORS and label != "gateway_sku"):
                yield (
                    ("pairs", number, "labels", label),
                    "is a name that the library uses itself; rename the label",
                )
    total = conditions_count(experiment) * experiment.rounds * experiment.deployments
    if total > MOST_TRIALS:
        yield (
            ("rounds",),
            f"{total:,} trials are more than {MOST_TRIALS:,}; lower rounds, deployments or levels",
        )
        return
    seen: set[tuple[Any, ...]] = set()
    number_of = {id(spec): number for number, spec in enumerate(experiment.tests)}
    for trial in conditions(experiment):
        pair, spec, condition = trial.pair, trial.test, trial.condition
        loc: _Loc = ("tests", number_of[id(spec)])
        for one in filter(
            None, (trial, load_trial(trial))
        ):  # errors that the tools themselves find
            module = tools.tool(one.test.tool)
            if one.test.test not in module.TESTS:
                legal = ", ".join(module.TESTS)
                yield loc, f"{one.test.test!r} is not a test of {one.test.tool}; legal are {legal}"
                continue
            try:
                module.commands(one.request, _address(experiment, pair.server), 20_000)
            except UsageError as error:
                yield loc, str(error)
        if condition in seen:
            what = f"{spec.tool} {spec.test} from {pair.client} to {pair.server}"
            yield loc, f"{what} is declared twice with equal factors; remove one"
        seen.add(condition)


def _address(experiment: Experiment, host: str) -> str:
    """Return the address that tests with a host use, if it is declared; else one for documentation (RFC 5737)."""
    declared = experiment.hosts.options.get("hosts")
    options = declared.get(host) if isinstance(declared, Mapping) else None
    address = (
        (options.get("data_address") or options.get("address"))
        if isinstance(options, Mapping)
        else None
    )
    return str(address or "192.0.2.1")
