"""What holds each run and each condition of throughput back, from the table of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..experiment.factors import plain, read_rate
from ..stats.limits import Evidence, Limit, held_back

SEGMENT = 1448
"""Payload of a segment where the log does not tell, bytes."""


def of_run(row: Mapping[str, Any], *, rtt_idle_us: float | None = None) -> Limit:
    """Return what holds one run of throughput back.

    Parameters
    ----------
    row : mapping
        A row of the table of runs.
    rtt_idle_us : float, optional
        Round-trip time of the idle path, for a run without samples of its connections.
    """
    sampled = _number(row, "limit_receive_window_ratio") is not None
    bps = _number(row, "limit_bps") or _number(row, "throughput_bps")
    if bps is None:
        return Limit(reason="there is no throughput")
    streams = _number(row, "limit_connections") or _number(row, "streams") or 1
    rate = read_rate(row["bitrate"]) if plain(row.get("bitrate")) is not None else None
    common = Evidence(
        bps=bps,
        streams=streams,
        asked_bps=rate * streams if rate else None,
        cap_bps=_number(row, "advertised_bps"),
        receive_max_bytes=_number(row, "limit_receive_max_bytes"),
        send_max_bytes=_number(row, "limit_send_max_bytes"),
        buffer_set=_number(row, "tcp_buffer_bytes") is not None,
    )
    return held_back(_from_samples(row, common) if sampled else _from_log(row, common, rtt_idle_us))


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = plain(row.get(name))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _pair(row: Mapping[str, Any], *names: str) -> tuple[float, float] | None:
    one, two = (_number(row, f"limit_{name}_ratio") for name in names)
    return None if one is None or two is None else (one, two)


def _from_samples(row: Mapping[str, Any], common: Evidence) -> Evidence:
    return replace(
        common,
        rtt_us=_number(row, "limit_rtt_us"),
        rtt_min_us=_number(row, "limit_rtt_min_us"),
        receive_window_share=_number(row, "limit_receive_window_ratio"),
        send_buffer_share=_number(row, "limit_send_buffer_ratio"),
        busy_share=_number(row, "limit_busy_ratio") or 0.0,
        application_share=_number(row, "limit_application_ratio") or 0.0,
        unsent_none_share=_number(row, "limit_unsent_none_ratio") or 0.0,
        sent_again_share=_number(row, "limit_sent_again_ratio"),
        sent_again_count=_number(row, "limit_sent_again_count"),
        delivery_bps=_number(row, "limit_delivery_bps"),
        bbr_bps=_number(row, "limit_bbr_bps"),
        window_bytes=_number(row, "limit_window_bytes"),
        receive_buffer_bytes=_number(row, "limit_receive_buffer_bytes"),
        unread_bytes=_number(row, "limit_unread_bytes"),
        sender=_pair(row, "sender_on", "sender_waiting"),
        receiver=_pair(row, "receiver_on", "receiver_waiting"),
        receiver_core=_pair(row, "receiver_core", "receiver_softirq"),
    )


def _from_log(row: Mapping[str, Any], common: Evidence, rtt_idle_us: float | None) -> Evidence:
    hosts = ("server", "client") if row.get("direction") == "reverse" else ("client", "server")
    processors = [_number(row, f"cpu_{host}_ratio") for host in hosts]
    again, sent = _number(row, "retransmits_count"), _number(row, "sent_bytes") or _number(row, "transferred_bytes")
    congestion = _number(row, "cwnd_bytes")
    return replace(
        common,
        rtt_us=_number(row, "rtt_loaded_us"),
        rtt_min_us=rtt_idle_us,
        sent_again_share=again / max(1.0, sent / SEGMENT) if again is not None and sent else None,
        sent_again_count=again,
        congestion_bytes=congestion / common.streams if congestion else None,
        sender=None if processors[0] is None else (processors[0], 0.0),
        receiver=None if processors[1] is None else (processors[1], 0.0),
    )
