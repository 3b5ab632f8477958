"""Notebook and parameters in, executed notebook and PDF out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .execute import notebooks, parse_parameters, report

if TYPE_CHECKING:
    from .exporters import TypstExporter, TypstPDFExporter

__all__ = ["TypstExporter", "TypstPDFExporter", "notebooks", "parse_parameters", "report"]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    # nbconvert takes a while to import: only where it converts
    if name in ("TypstExporter", "TypstPDFExporter"):
        from . import exporters

        return getattr(exporters, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
