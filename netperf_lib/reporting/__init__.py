"""Notebook and parameters in, executed notebook and PDF out."""

from .execute import notebooks as notebooks
from .execute import parse_parameters as parse_parameters
from .execute import report as report

__all__ = ["notebooks", "parse_parameters", "report"]
