"""The exception tree. Every message is one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import ast
import difflib
import errno
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from inspect import BoundArguments, Parameter, Signature, isfunction, signature
from numbers import Integral, Real
from typing import Any

CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200e\\u200f"
    "\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ud800-\\udfff\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff]"
    "|(?<![^\\x00-\\x7f])[\\u200c\\u200d\\ufe00-\\ufe0f](?!\\u20e3)|[\\u200c\\u200d](?![^\\x00-\\x7f])"
)
"""Characters that a terminal acts on, or that nobody sees: controls (but tab and line feed), overrides of the direction
of writing, halves of surrogates, and what Unicode calls ignorable (but joiners and selectors of a form, where they
belong: after a letter of a script that has them, or in an emoji)."""
_FORMULA, _QUOTED_FORMULA = (
    re.compile(rf"(^|[;\t\n]){quote}(?=[ \xa0]*[=+\-@\uff0b\uff0d\uff1d\uff20])")
    for quote in ("", "'")
)


def visible(text: str) -> str:
    """Show control characters as escapes, so that a terminal does not act on them."""
    if text.isascii() and text.isprintable():  # as nearly all texts are
        return text
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def as_cell(text: str) -> str:
    """Text for a cell of a spreadsheet, which takes ``=…``, ``+…``, ``-…`` and ``@…`` for formulas and runs them.

    An apostrophe before it says that it is text, also after what a spreadsheet may split a line of CSV at, whatever its
    quotes; control characters, which a workbook cannot hold, are left out.

    Examples
    --------
    >>> as_cell("=HYPERLINK(1)"), as_cell("x;=CMD()")
    ("'=HYPERLINK(1)", "x;'=CMD()")
    """
    return _FORMULA.sub(r"\1'", CONTROL.sub("", text))


def of_cell(text: str) -> str:
    """The text that `as_cell` was given."""
    return _QUOTED_FORMULA.sub(r"\1", text)


@contextmanager
def naming(file: object) -> Iterator[None]:
    """Have an error of writing, such as that of a full disk, name the file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(file)
        raise


def explain(error: Exception) -> str | None:
    """Explain in one sentence an error of the machine or a damaged file; None for a defect of the code."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(error).__mro__}
    text = " ".join(str(error).split())[:300]
    if isinstance(error, OSError):
        where = " to ".join(str(n) for n in (error.filename, error.filename2) if n is not None)
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if is_full else error.strerror or text or type(error).__name__
        remedy = {
            errno.ENOSPC: "; free some space and run the same command again",
            errno.EDQUOT: "; free some space and run the same command again",
            errno.EROFS: "; choose a writable location",
            errno.EACCES: "; choose another location, or get permission to use this one",
            errno.EPERM: "; choose another location, or get permission to use this one",
            errno.ENAMETOOLONG: "; choose a shorter name",
            errno.ELOOP: "; remove the symbolic links that lead back to themselves",
        }.get(error.errno or 0, "")
        return f"{f'{where}: ' if where else ''}{why}{remedy}"
    if "pyarrow.ArrowException" in kinds:
        return f"a table cannot be read or written ({text}); remove the folder `tables`; it is rebuilt from the raw runs"
    if kinds & {
        "json.JSONDecodeError",
        "pydantic_core.ValidationError",
        "yaml.YAMLError",
        "builtins.UnicodeError",
    }:
        return f"a file has unexpected content ({text}); restore it from a copy, or remove it"
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop"):
        return f"{text}; remove the symbolic links that lead back to themselves"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this; process less data at once, or use a larger machine"
    if isinstance(error, RecursionError):
        return "a file is nested too deeply to be read"
    return None


def did_you_mean(name: object, names: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> str:
    """Ask whether one of the names that are most like this one was meant; nothing where none is.

    Examples
    --------
    >>> did_you_mean("placment", ["placement", "streams"])
    'did you mean placement? '
    """
    near = difflib.get_close_matches(str(name), list(names), n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(near)}? " if near else ""


def unknown(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have, which says which ones are near."""
    names = sorted(names)
    inside = [n for n in names if n.endswith(f".{name}")]
    hint = did_you_mean(
        inside[0] if inside else name, inside or names, count=3, cutoff=0.5
    ).rstrip()
    hint = hint or f"it offers {', '.join(names)}"
    return AttributeError(f"module {module!r} has no attribute {name!r}; {hint}")


class NetperfError(Exception):
    """Anything that a user can cause or must know; the command line shows its text, never a traceback."""

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        # IPython shows this instead of the source of the library; `%debug` still leads to it
        return [f"\x1b[31m{type(self).__name__}: {visible(str(self))}\x1b[0m"]


class UsageError(NetperfError):
    """The call itself is wrong: an unknown name, an impossible value."""

    exit_code = 2


ANNOTATIONS: Mapping[str, tuple[Any, str]] = {
    "str": (str, "text"),
    "bytes": (bytes, "bytes"),
    "bool": (None, "True or False"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "TableName": (str, "the name of a table, such as 'intervals'"),
    "Mapping": (Mapping, "a mapping"),
    "Sequence": (Iterable, "a list"),
    "Iterable": (Iterable, "a list"),
    "PathLike": (str, "a path such as 'results/my'"),
    "Location": (str, "a path or URL such as 'results/my'"),
    "Locations": (Iterable, "paths or URLs such as 'results/my'"),
    "Axes": (None, "axes of matplotlib such as plt.gca()"),
    "Comparison": (None, "a comparison such as npl.compare(exp)[0]"),
    "Contrast": (None, "a contrast such as exp.contrasts[0]"),
    "DataFrame": (None, "a table"),
    "Family": (None, "comparisons, as npl.compare returns them"),
    "Fleet": (None, "experiments, as npl.read returns them"),
    "Held": (None, "what npl.limits returns"),
    "Observations": (None, "observations, as npl.observe returns them"),
    "Quantiles": (None, "what npl.questions.tail_shift returns"),
    "Results": (None, "an experiment, as npl.read returns it"),
    "Streams": (None, "what npl.stats.streams returns"),
}
"""By the name in an annotation what `typed` compares a value with, and what that is; None: the class of that name."""
SAMPLE_ARGUMENTS = {
    "advertised_bps": "12.5e9",
    "alpha": "0.05",
    "by": "'placement'",
    "confidence": "0.95",
    "contrasts": "exp.contrasts",
    "figures": "npl.questions.published()",
    "fits": "npl.questions.saturation(exp)",
    "held": "npl.limits(exp)",
    "intervals": "exp.intervals",
    "margin": "0.05 or '5 %'",
    "metric": "'throughput_bps'",
    "metrics": "['throughput_bps']",
    "percentiles": "exp.percentiles",
    "pool": "'pairs'",
    "where": "{'placement': 'ppg'}",
    "where_after": "{'placement': 'ppg'}",
}
"""What may be given for a parameter."""


@cache
def typed(function: Any) -> Any:
    """Return a function that refuses a wrong type in one sentence, before anything inside of it meets one.

    The annotations of its parameters say what it takes; what is no function is given back. This is the one check of
    types: all functions that people type pass through it where they are looked up.
    """
    if not isfunction(function):
        return function
    takes = signature(function)
    kinds = {
        name: ast.parse(p.annotation, mode="eval").body for name, p in takes.parameters.items()
    }

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        bound = _bound(function.__name__, takes, args, options)
        for name, value in [*bound.arguments.items()]:
            parameter = takes.parameters[name]
            if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) or _fits(
                kinds[name], value
            ):
                continue
            if value is None and parameter.default is not Parameter.empty:
                del bound.arguments[name]  # None stands for the default
                continue
            example = f", for example {SAMPLE_ARGUMENTS[name]}" if name in SAMPLE_ARGUMENTS else ""
            kinds_in_words = " or ".join(dict.fromkeys(_in_words(kinds[name]))) + example
            words = repr(value) if isinstance(value, str | int | float) else type(value).__name__
            raise UsageError(f"{function.__name__}: {name} takes {kinds_in_words}; got {words}")
        return function(*bound.args, **bound.kwargs)

    return call


def _bound(
    function: str, takes: Signature, args: Sequence[Any], options: Mapping[str, Any]
) -> BoundArguments:
    """The arguments of a call by name; raises UsageError if they are too many or too few, or one is not known."""
    try:
        return takes.bind(*args, **options)
    except TypeError as error:
        strange = next((name for name in options if name not in takes.parameters), "")
        near = did_you_mean(strange, takes.parameters)
        raise UsageError(f"{function}: {error}{'; ' if near else ''}{near.rstrip()}") from None


def _in_words(kind: ast.expr) -> list[str]:
    """What an annotation allows, in words; None is not said, for it stands for the default."""
    if isinstance(kind, ast.BinOp):
        return [*_in_words(kind.left), *_in_words(kind.right)]
    if isinstance(kind, ast.Constant):
        return []
    name = _name(kind)
    return [ANNOTATIONS[name][1] if name in ANNOTATIONS else name]


def _name(kind: ast.expr) -> str:
    """The last name in an annotation: ``DataFrame`` of ``pd.DataFrame``, ``Sequence`` of ``Sequence[str]``."""
    kind = kind.value if isinstance(kind, ast.Subscript) else kind
    return (
        kind.attr
        if isinstance(kind, ast.Attribute)
        else kind.id
        if isinstance(kind, ast.Name)
        else ""
    )


def _fits(kind: ast.expr, value: Any) -> bool:
    """Whether a value is of the kind that an annotation names; of a name that is not known anything is."""
    if isinstance(kind, ast.BinOp):
        return _fits(kind.left, value) or _fits(kind.right, value)
    if isinstance(kind, ast.Constant):
        return value is None
    if isinstance(kind, ast.Subscript):  # PathLike[str] holds nothing, and so does Literal["csv"]
        inside = kind.slice.elts[-1] if isinstance(kind.slice, ast.Tuple) else kind.slice
        held = (
            value.values()
            if isinstance(value, Mapping)
            else value
            if isinstance(value, list | tuple)
            else ()
        )
        return _fits(kind.value, value) and all(_fits(inside, v) for v in held)
    name = _name(kind)
    if name in ("Sequence", "Iterable") and isinstance(value, str | bytes):
        return False
    expected, _ = ANNOTATIONS.get(name, (object, ""))
    if expected is None:
        return name in {one.__name__.rstrip("_") for one in type(value).__mro__}
    path = name in ("PathLike", "Location", "Locations") and hasattr(value, "__fspath__")
    return path or isinstance(value, expected)


class ExperimentError(UsageError):
    """An experiment file that cannot be used; the text names the line and the legal values."""


class ParseError(NetperfError):
    """A log that cannot be read as the output of any known tool.

    Parameters
    ----------
    message : str
        What was wrong and what is expected.
    file : str or None
        Where the text came from.
    """

    def __init__(self, message: str, *, file: str | None) -> None:
        super().__init__(f"{file}: {message}" if file else message)


class StatsError(UsageError):
    """Data or options that allow no statement."""


class HostError(NetperfError):
    """A host cannot be created, reached or used."""


class SSHError(HostError):
    """A command could not be run on a host."""


class UnreachableError(SSHError):
    """There is no connection to a host, or the connection broke.

    Parameters
    ----------
    message : str
        What was wrong.
    lasting : bool
        Trying again will not help: a key was refused, a name is unknown.
    """

    def __init__(self, message: str, *, lasting: bool = False) -> None:
        self.lasting = lasting
        super().__init__(message)


class InUseError(UnreachableError):
    """Another collector measures on a host."""


class LabError(HostError):
    """The local lab cannot run here, or stopped."""


class AzureError(HostError):
    """The cloud refused; the text gives the cause and the remedy."""


class CollectError(NetperfError):
    """A measurement could not continue."""


class StoreError(NetperfError):
    """The data folder contains something that it should not, or lacks something that it should contain."""


class NotMeasured(StoreError):  # noqa: N818 (not an error: a state of the data)
    """The experiment has no run yet; in a data root that is no reason to hide the others."""


class ReportError(NetperfError):
    """A notebook or its report could not be produced."""

    reports: Sequence[Any] = ()
    """Paths of the reports that were made anyway."""


class NothingToReport(UsageError, ReportError):  # noqa: N818 (not an error: a state of the data)
    """The experiment lacks the data that a question needs: a page ends here and says why."""

    def _render_traceback_(self) -> list[str]:
        # IPython shows this instead of a traceback: it is not a mistake
        return [f"Not in this experiment: {self}"]


def pip_install(packages: str) -> str:
    """Return the command that installs packages for this Python; Debian refuses a plain ``pip``."""
    return f"{shlex.quote(sys.executable)} -m pip install {packages}"
