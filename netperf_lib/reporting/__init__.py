"""Notebook and parameters in, executed notebook and PDF out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .execute import notebooks, parse_parameters, report

__all__ = ["notebooks", "parse_parameters", "report"]


def __getattr__(name: str) -> Any:
    """Load what only reports need when it is asked for: answers are made without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.execute"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
