"""Notebook and parameters in, executed notebook and PDF out."""

from __future__ import annotations

from .execute import notebooks, parse_parameters, report

__all__ = ["notebooks", "parse_parameters", "report"]


def __dir__() -> list[str]:
    return sorted(__all__)
