"""The furniture of a page: what a notebook shows besides figures, as ``npl.page.*``."""

from __future__ import annotations

from .blocks import callout, findings, measured, say, table, verdicts
from .cover import caveats, cover, glance, proofs, provenance

__all__ = [
    "callout",
    "caveats",
    "cover",
    "findings",
    "glance",
    "measured",
    "proofs",
    "provenance",
    "say",
    "table",
    "verdicts",
]
