"""Which TCP buffer a rate needs and how to set it, and what loss alone would allow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from ..errors import StatsError
from ..metrics import format_value
from .result import percent

__all__ = ["BufferAdvice", "Ceiling", "buffer_needed", "mathis"]

_PAGE = 4096
_LARGEST = 2**31 - 1
"""The kernel keeps these limits in a signed 32-bit number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferAdvice:
    """Which TCP buffer a rate needs, and how to set it.

    Attributes
    ----------
    target_bps, rtt_us : float
        The rate wanted of one stream, and the round-trip time that it sees under load.
    eta : float
        Share of the buffer that is in flight.
    buffer_bytes : int
        Largest buffer to allow, in whole pages.
    sysctl : tuple of str
        Lines for ``/etc/sysctl.d``, for both ends.
    """

    target_bps: float
    rtt_us: float
    eta: float
    buffer_bytes: int
    sysctl: tuple[str, ...]

    @property
    def words(self) -> str:
        """The advice in a sentence."""
        return (
            f"one stream needs a TCP buffer of {format_value(self.buffer_bytes, 'bytes', 4)} for "
            f"{format_value(self.target_bps, 'bps')} at a round-trip time of {format_value(self.rtt_us, 'us')} "
            f"({percent(self.eta)} of a buffer is in flight)"
        )

    def _repr_html_(self) -> str:
        return f"<p><strong>{escape(self.words)}</strong></p><pre>{escape(chr(10).join(self.sysctl))}</pre>"


def buffer_needed(target_bps: float, rtt_us: float, eta: float = 0.5) -> BufferAdvice:
    """Say which TCP buffer one stream needs for a rate, and the sysctl lines that allow it.

    Parameters
    ----------
    target_bps : float
        Rate wanted, bits per second.
    rtt_us : float
        Round-trip time under load, microseconds.
    eta : float, default 0.5
        Share of the buffer that is in flight; measured by `buffers`. Linux keeps half a receive buffer for its own
        bookkeeping by default (``tcp_adv_win_scale`` = 1).

    Returns
    -------
    BufferAdvice

    Raises
    ------
    StatsError
        A value that is not above zero, or a buffer that no kernel takes.

    Examples
    --------
    >>> advice = buffer_needed(10e9, 30_000, eta=0.5)
    >>> advice.buffer_bytes
    75001856
    >>> advice.sysctl[2]
    'net.ipv4.tcp_rmem = 4096 131072 75001856'
    """
    for name, v in {"target_bps": target_bps, "rtt_us": rtt_us, "eta": eta}.items():
        if not (v > 0 and math.isfinite(v)):
            raise StatsError(f"{name} must be above zero; got {v!r}")
    size = math.ceil(target_bps * rtt_us * 1e-6 / 8 / eta / _PAGE) * _PAGE
    if size > _LARGEST:
        raise StatsError(
            f"{format_value(target_bps, 'bps')} at {format_value(rtt_us, 'us')} needs a buffer of "
            f"{format_value(size, 'bytes')}, more than Linux takes (2 GiB): use several streams"
        )
    return BufferAdvice(
        target_bps=target_bps,
        rtt_us=rtt_us,
        eta=eta,
        buffer_bytes=size,
        sysctl=(
            f"net.core.rmem_max = {size}",
            f"net.core.wmem_max = {size}",
            # least, default and largest; the first two are the kernel's own defaults
            f"net.ipv4.tcp_rmem = 4096 131072 {size}",
            f"net.ipv4.tcp_wmem = 4096 16384 {size}",
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What loss alone would allow: a plausibility check, not a measurement.

    Attributes
    ----------
    throughput_bps : float
    plausible : bool or None
        Whether the measured throughput lies below twice the ceiling; None where none was given.
    words : str
    """

    throughput_bps: float
    plausible: bool | None
    words: str


def mathis(rtt_us: float, loss_ratio: float, *, mss_bytes: int = 1448, measured_bps: float | None = None) -> Ceiling:
    """Ceiling of one Reno stream's throughput under random loss: MSS / RTT · sqrt(3/2) / sqrt(p).

    Parameters
    ----------
    rtt_us : float
        Round-trip time, microseconds.
    loss_ratio : float
        Share of segments lost, in 0 … 1 (0 excluded).
    mss_bytes : int
        Payload of a segment.
    measured_bps : float, optional
        Throughput to hold against it.

    Returns
    -------
    Ceiling

    Raises
    ------
    StatsError
        A loss outside 0 … 1, or a round-trip time that is not above zero.

    Notes
    -----
    Mathis, Semke, Mahdavi and Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", ACM CCR 27(3)
    (1997) 67-82. It holds for Reno with every segment acknowledged; CUBIC and BBR exceed it on long paths. A
    plausibility check only.
    """
    if not (0 < loss_ratio < 1 and rtt_us > 0 and mss_bytes > 0):
        raise StatsError(f"loss must lie between 0 and 1 and the round-trip time above 0; got {loss_ratio}, {rtt_us}")
    rate = 8 * mss_bytes / (rtt_us * 1e-6) * math.sqrt(1.5 / loss_ratio)
    said = (
        f"plausibility check (Mathis et al., Reno only): {percent(loss_ratio)} loss allows {format_value(rate, 'bps')}"
    )
    plausible = None
    if measured_bps is not None:
        plausible = measured_bps <= 2 * rate
        said += f"; {format_value(measured_bps, 'bps')} measured is {'plausible' if plausible else 'far above that'}"
    return Ceiling(throughput_bps=rate, plausible=plausible, words=said)
