"""The exception tree.

Every message is one sentence that says what is wrong, where, and what to do.
"""

from __future__ import annotations

import difflib
import errno
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

CONTROL = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5"
    "\\u180b-\\u180f\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164"
    "\\ud800-\\udfff\\ufeff\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff"
    "\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a\\U000e0000-\\U000e0fff]"
    "|(?<![^\\x00-\\x7f])[\\u200c\\u200d\\ufe00-\\ufe0f](?!\\u20e3)"
    "|[\\u200c\\u200d](?![^\\x00-\\x7f])"
)
"""Characters that a terminal acts on, or that nobody sees: controls (but tab and line feed),
overrides of the direction of writing, halves of surrogates, and what Unicode calls ignorable
(but joiners and selectors of a form, where they belong: after a letter of a script that has
them, or in an emoji)."""
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
    """Return the text for a cell of a spreadsheet, which takes ``=…``, ``+…``.

    ``-…`` and ``@…`` for formulas and runs them.

    An apostrophe before it says that it is text, also after what a spreadsheet may split a line of
    CSV at, whatever its quotes; control characters, which a workbook cannot hold, are left out.

    Examples
    --------
    >>> as_cell("=HYPERLINK(1)"), as_cell("x;=CMD()")
    ("'=HYPERLINK(1)", "x;'=CMD()")
    """
    return _FORMULA.sub(r"\1'", CONTROL.sub("", text))


def of_cell(text: str) -> str:
    """Return the text that `as_cell` was given."""
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


_SPACE = "; free some space and run the same command again"
_PLACE = "; choose another location, or get permission to use this one"
_LINKS = "; remove the symbolic links that lead back to themselves"
_REMEDIES = {
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EIO: "; the disk or network drive fails: what was written is safe, try another disk",
    errno.EROFS: "; choose a writable location",
    errno.EACCES: _PLACE,
    errno.EPERM: _PLACE,
    errno.ENAMETOOLONG: "; choose a shorter name",
    errno.ELOOP: _LINKS,
}
_CONTENT = "a file has unexpected content ({text}); restore it from a copy, or remove it"
_FAULTS = {
    "pyarrow.ArrowException": "a table cannot be read or written ({text}); remove the folder "
    "`tables`; it is rebuilt from the raw runs",
    "json.JSONDecodeError": _CONTENT,
    "pydantic_core.ValidationError": _CONTENT,
    "yaml.YAMLError": _CONTENT,
    "builtins.UnicodeError": _CONTENT,
    "builtins.MemoryError": "there is not enough memory for this; process less data at once, or "
    "use a larger machine",
    "builtins.RecursionError": "a file is nested too deeply to be read",
}
"""What errors of others mean, by package and name; a name, as few of them are loaded here."""


def explain(error: Exception) -> str | None:
    """Explain in one sentence an error of the machine or a damaged file.

    None for a defect of the code.
    """
    text = " ".join(str(error).split())[:300]
    if isinstance(error, OSError):
        return _explain_os(error, text)
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop"):
        return f"{text}{_LINKS}"
    for kind in type(error).__mro__:
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        if name in _FAULTS:
            return _FAULTS[name].format(text=text)
    return None


def _explain_os(error: OSError, text: str) -> str:
    """Say where a system call failed, why, and what to do."""
    files = [str(n) for n in (error.filename, error.filename2) if n is not None]
    why = error.strerror or text or type(error).__name__
    remedy = _REMEDIES.get(error.errno or 0, "")
    if remedy == _SPACE:
        why = "the disk is full"
    return ": ".join([*filter(None, [" to ".join(files)]), f"{why}{remedy}"])


def did_you_mean(
    name: object, names: Iterable[str], *, count: int = 1, cutoff: float = 0.6
) -> str:
    """Ask whether one of the names that are most like this one was meant; nothing where none is.

    Examples
    --------
    >>> did_you_mean("placment", ["placement", "streams"])
    'did you mean placement? '
    """
    near = difflib.get_close_matches(str(name), list(names), n=count, cutoff=cutoff)
    return f"did you mean {' or '.join(near)}? " if near else ""


class NetperfError(Exception):
    """Anything that a user can cause or must know.

    The command line shows its text, never a traceback.
    """

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        # IPython shows this instead of the source of the library; `%debug` still leads to it
        return [f"\x1b[31m{type(self).__name__}: {visible(str(self))}\x1b[0m"]


class UsageError(NetperfError):
    """The call itself is wrong: an unknown name, an impossible value."""

    exit_code = 2


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
        self.message = message
        super().__init__(f"{file}: {message}" if file else message)


class NoLogError(ParseError):
    """A text without a run of any known tool: a readme, a table of something else."""


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
    """The data folder contains what it should not, or lacks what it should contain."""


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
