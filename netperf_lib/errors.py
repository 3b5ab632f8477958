"""The exception tree. Every message is one sentence that says what was wrong, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "AzureError",
    "CollectError",
    "ExperimentError",
    "HostError",
    "InUseError",
    "LabError",
    "NetperfError",
    "NothingToReport",
    "ParseError",
    "ReportError",
    "SSHError",
    "StatsError",
    "StoreError",
    "UnreachableError",
    "UsageError",
]


class NetperfError(Exception):
    """Anything that a user can cause or must know; the command line shows its text, never a traceback."""

    exit_code = 1


class UsageError(NetperfError):
    """The call itself is wrong: an unknown name, an impossible value."""

    exit_code = 2


class ExperimentError(UsageError):
    """An experiment file that cannot be used; the text names the line and the legal values."""


class ParseError(NetperfError):
    """A log that cannot be read as any known tool's.

    Parameters
    ----------
    message : str
        What was wrong and what is expected.
    file : str, optional
        Where the text came from.
    line : int, optional
        1-based line in that file.
    """

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        self.file, self.line = file, line
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else f"line {line}: " if line else ""
        super().__init__(where + message)


class StatsError(UsageError):
    """Data or options from which no statement can be made."""


class HostError(NetperfError):
    """A host cannot be made, reached or used."""


class SSHError(HostError):
    """A command could not be run on a host."""


class UnreachableError(SSHError):
    """There is no connection to a host, or it broke.

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
    """A measurement could not go on."""


class StoreError(NetperfError):
    """The data folder holds something it should not, or lacks something it should hold."""


class ReportError(NetperfError):
    """A notebook or its report could not be made."""

    made: Sequence[Any] = ()
    """Paths of the reports that were made nevertheless."""


class NothingToReport(ReportError):  # noqa: N818 (not an error: a state of the data)
    """The experiment does not hold what a notebook asks about: its page ends here and says why."""

    def _render_traceback_(self) -> list[str]:
        # IPython shows this in place of a traceback: nobody made a mistake
        return [f"Not in this experiment: {self}"]
