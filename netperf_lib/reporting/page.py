"""The parts of a page: what a notebook shows besides figures, as ``npl.page.*``."""

from __future__ import annotations

from ..metrics import format_value
from .blocks import callout, findings, say, table, verdicts
from .cover import caveats, cover, glance, proofs, provenance

__all__ = [
    "callout",
    "caveats",
    "cover",
    "findings",
    "format_value",
    "glance",
    "proofs",
    "provenance",
    "say",
    "table",
    "verdicts",
]


def __dir__() -> list[str]:
    return sorted(__all__)
