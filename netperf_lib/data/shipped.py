"""Files that come with the library: notebooks, recorded and published measurements, example experiments."""

from __future__ import annotations

from pathlib import Path

__all__ = ["shipped"]

PACKAGE = Path(__file__).resolve().parent.parent


def shipped(*parts: str) -> Path:
    """Return the path of a file or folder that comes with the library.

    Parameters
    ----------
    *parts
        Path below the repository: ``"notebooks", "workshop"`` or ``"data", "published"``. A checkout has it beside
        the package; a wheel carries a copy inside.
    """
    beside = PACKAGE.parent.joinpath(*parts)
    return beside if beside.exists() else PACKAGE.joinpath(f"_{parts[0]}", *parts[1:])
