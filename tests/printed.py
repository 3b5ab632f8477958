"""A document as iperf3 prints it, of figures that are given."""

import numpy as np


def iperf3(
    sent,
    rtt_us,
    *,
    lost=0,
    window=1448000,
    step_s=1.0,
    at,
):
    """Return the document of a run; arrays have a row an interval and a column a stream."""
    rows, streams = sent.shape
    lost, window = (np.broadcast_to(values, sent.shape) for values in (lost, window))

    def moved(size, start, end, **more):
        seconds = float(end - start)
        times = {"start": start, "end": end, "seconds": seconds, "sender": True}
        return (
            times
            | {"bytes": int(size), "bits_per_second": 8.0 * int(size) / seconds}
            | more
        )

    intervals, end = [], rows * step_s
    for i in range(rows):
        span = i * step_s, (i + 1) * step_s
        each = []
        for k in range(streams):
            again, size, rtt = int(lost[i, k]), int(window[i, k]), int(rtt_us[i, k])
            state = {
                "snd_cwnd": size,
                "snd_wnd": 3145728,
                "rtt": rtt,
                "rttvar": 12,
                "pmtu": 1500,
            }
            row = moved(
                sent[i, k], *span, retransmits=again, omitted=False, socket=5 + 2 * k
            )
            each.append(row | state)
        total = moved(sent[i].sum(), *span, retransmits=int(lost[i].sum()), omitted=False)
        intervals.append({"streams": each, "sum": total})
    ends = []
    for k in range(streams):
        times = rtt_us[:, k]
        rtts = {"max_rtt": int(times.max()), "min_rtt": int(times.min())}
        rtts |= {"mean_rtt": int(times.mean()), "max_snd_cwnd": int(window[:, k].max())}
        whole = moved(sent[:, k].sum(), 0, end, socket=5 + 2 * k)
        again = {"retransmits": int(lost[:, k].sum()), "max_snd_wnd": 3145728}
        ends.append({"sender": whole | again | rtts, "receiver": whole})
    hosts = {"local_host": "10.0.0.4", "remote_host": "10.0.0.5", "remote_port": 5201}
    ports = [
        hosts | {"socket": 5 + 2 * k, "local_port": 40000 + k} for k in range(streams)
    ]
    test = {
        "protocol": "TCP",
        "num_streams": streams,
        "blksize": 131072,
        "omit": 0,
        "bytes": 0,
    }
    test |= {
        "duration": round(end),
        "blocks": 0,
        "reverse": 0,
        "tos": 0,
        "target_bitrate": 0,
    }
    stamp = {"time": f"{at:%a, %d %b %Y %H:%M:%S} GMT", "timesecs": int(at.timestamp())}
    start = {
        "version": "iperf 3.12",
        "system_info": "Linux vm 6.8.0 x86_64",
        "timestamp": stamp,
    }
    start |= {"connecting_to": {"host": "10.0.0.5", "port": 5201}, "connected": ports}
    start |= {
        "cookie": "x",
        "tcp_mss_default": 1448,
        "sock_bufsize": 0,
        "test_start": test,
    }
    whole = moved(sent.sum(), 0, end)
    sums = {"sum_sent": whole | {"retransmits": int(lost.sum())}, "sum_received": whole}
    return {"start": start, "intervals": intervals, "end": {"streams": ends, **sums}}
