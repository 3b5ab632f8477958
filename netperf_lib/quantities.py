"""One parser for quantities, wherever a person writes them.

Experiment files, labels, ``where``, thresholds, options.

Sizes are in powers of 1024, as iperf3 reads them: ``64K``, ``64 KB`` and ``64 KiB`` are 65536
bytes. Rates are in powers of 1000: ``1G`` and ``1 Gbit/s`` are 1e9 bit/s. The number may have a
decimal comma.
"""

from __future__ import annotations

import re

from .metrics import to_bps, to_bytes, to_us

_NUMBER = re.compile(
    r"\s*([0-9]+(?:[.,][0-9]+)?(?:e[+-]?[0-9]+)?|\.[0-9]+)\s*(.*?)\s*", re.IGNORECASE
)
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2},[0-9]{3}")
"""Twelve and a half or twelve thousand five hundred: refused."""
_RATE = re.compile(r"([kmgt]?)(?:b|bit|bits)?(?:/s|/sec|ps)?", re.IGNORECASE)
_SIZE = re.compile(r"([kmgt]?)i?(?:b|bytes?)?", re.IGNORECASE)
_EXAMPLES = {
    "us": "'1 ms'",
    "s": "'2 s'",
    "bps": "'900 Mbit/s'",
    "bytes": "'64 MiB'",
    "ratio": "'5 %'",
}


def read_quantity(text: str | float, unit: str) -> float:
    """Read a quantity in the stored `unit`; a number is in that unit already.

    Parameters
    ----------
    text : str or float
        What a person wrote, such as ``1 ms``, ``900 Mbit/s``, ``64K`` or ``12,5 MiB``.
    unit : str
        The unit of the stored number: ``us``, ``s``, ``bps``, ``bytes``, ``ratio``, ``per_s``, or
        empty.

    Raises
    ------
    ValueError
        The text is not a quantity of this unit.
    """
    if isinstance(text, int | float):
        return float(text)
    m = _NUMBER.fullmatch(text) if len(text) < 100 else None
    factor = None
    if m and not _THOUSANDS.fullmatch(m[1]):
        factor = _factor(m[2], unit)
    if m is None or factor is None:
        example = _EXAMPLES.get(unit, "a number")
        raise ValueError(f"{text[:60]!r} is not a quantity; write e.g. {example}")
    return float(m[1].replace(",", ".")) * factor


def _factor(suffix: str, unit: str) -> float | None:
    """Return how many of the stored units one of these is; None if there is no such unit."""
    if not suffix:
        return 1.0
    if unit in ("us", "s"):
        try:
            return to_us(1, suffix) * (1.0 if unit == "us" else 1e-6)
        except ValueError:
            return None
    if unit == "bps" and (m := _RATE.fullmatch(suffix)):
        return to_bps(1, m[1], "bit")
    if unit == "bytes" and (m := _SIZE.fullmatch(suffix)):
        return to_bytes(1, m[1] and f"{m[1]}i")
    return {("ratio", "%"): 0.01, ("per_s", "/s"): 1.0}.get((unit, suffix))
