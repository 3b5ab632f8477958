"""Numbers and words that statistical results have in common."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import StatsError
from ..metrics import METRICS, format_value

Floats = npt.NDArray[np.float64]


def as_json(value: Any) -> Any:
    """Return `value` as JSON types; a float that is not finite becomes None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(k): as_json(v) for k, v in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(v) for v in value]
    return value


def numbers(values: npt.ArrayLike, what: str = "values") -> Floats:
    """Return one-dimensional `values` as floats; missing values (None, pandas' NA) become NaN."""
    try:
        if hasattr(
            values, "to_numpy"
        ):  # pandas: its nullable types need to know what a missing value becomes
            values = values.to_numpy(dtype=float, na_value=np.nan)
        x = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise StatsError(
            f"{what} must be numbers, one per run; got {type(values).__name__}"
        ) from None
    if x.ndim != 1:
        raise StatsError(
            f"{what} must be one row of numbers, one per run; got an array of shape {x.shape}"
        )
    return x


def check_share(
    value: Any, name: str, *, below: float = 1.0, above: float = 0.0
) -> float:
    """Return `value` when it lies strictly between `above` and `below`; StatsError otherwise."""
    if not isinstance(value, int | float | np.number) or not above < value < below:
        raise StatsError(
            f"{name} must lie between {above:g} and {below:g}; got {value!r}"
        )
    return float(value)


def percent(share: float) -> str:
    """Write a share as a percentage: ``95 %``, ``96.9 %``, ``4.2 %``."""
    p = 100 * share
    if 0 < abs(p) < 1:
        return f"{p:.2g} %"
    digits = 0 if abs(p - round(p)) < 0.05 else 1 if abs(p) < 99.95 else 2
    return f"{p:.{digits}f} %"


def rounded(size: float, digits: int, outward: int = 0) -> str:
    """Write a number with `digits` decimals.

    The nearest, or never above (outward −1) or below it (1).
    """
    scaled = size * 10**digits
    units = (
        round(scaled)
        if not outward
        else math.floor(scaled + 1e-9)
        if outward < 0
        else math.ceil(scaled - 1e-9)
    )
    return f"{units / 10**digits:,.{digits}f}"


def log_size(ratio: float) -> float:
    """Return how far a ratio is from 1, upwards or downwards, as a logarithm.

    0 for one without a value.
    """
    return abs(math.log(ratio)) if 0 < ratio < math.inf else 0.0


def size_words(ratio: float, outward: int = 0, *, times: bool | None = None) -> str:
    """Return the size of a ratio without its direction: ``32 %``, ``4.2 times``.

    The low (−1) or high (1) end of an interval.

    `times` says which of the two: an interval is written like its ratio, which is ``times`` from 3
    on.
    """
    if ratio >= 3 if times is None else times:
        return (
            f"{rounded(ratio, 2 if ratio < 1 else 1 if ratio < 20 else 0, outward)} times"
        )
    size = 100 * abs(ratio - 1)
    digits = 1 if size < 9.95 or (ratio < 1 and size >= 98.5) else 0
    return f"{rounded(size, digits, outward if ratio > 1 else -outward)} %"


def quantity(metric: str) -> str:
    """Name of a metric for a sentence: ``one-way latency (99th percentile)``.

    An unknown name is returned as it is.
    """
    if metric not in METRICS:
        return metric
    name, _, statistic = METRICS[metric].label.partition(", ")
    name = name.removesuffix(
        " at the receiver"
    )  # the headline: the sender's view says so
    if name[1:2].islower():
        name = name[0].lower() + name[1:]
    return f"{name} ({statistic})" if statistic not in ("", "mean") else name


def unit_of(metric: str) -> str:
    """Return the unit of a metric's stored numbers, empty when it is not known."""
    return METRICS[metric].unit if metric in METRICS else ""


def value_words(value: float, unit: str) -> str:
    """Write a value with its unit."""
    return format_value(value, unit, 4) if unit else f"{value:.4g}"
