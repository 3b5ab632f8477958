"""Logs as the tools print them, of figures that are given."""

from typing import Any

import numpy as np

PERCENTILES = (99.999, 99.99, 99.9, 99.0, 90.0, 75.0, 50.0, 25.0)
LINE = "-" * 30
Whole = np.ndarray[Any, np.dtype[np.int64]]


def qperf(latency_us):
    """Return what a run of tcp_lat prints."""
    rate = 1e6 / latency_us  # the messages of both ends
    return (
        "tcp_lat:\n"
        f"    latency   =  {latency_us * 1e3:.0f} ns\n"
        f"    msg_rate  =  {rate:.0f} /sec\n"
        "    msg_size  =  1 bytes\n"
        "    time      =  2 sec\n"
    )


def sockperf(
    basis,
    percentiles,
    *,
    mean,
    least,
    most,
    n=1000,
    deviation=3.1,
    seconds=0.55,
):
    """Return the lines of a summary; `basis` is "latency" or "rtt"."""
    word = "Latency" if basis == "latency" else "Round trip"
    counts = f"SentMessages={n}; ReceivedMessages={n}"
    rows = [f"percentile {p:.3f} = {value:8.3f}" for p, value in percentiles.items()]
    told = [
        f"<MAX> observation = {most:8.3f}",
        *rows,
        f"<MIN> observation = {least:8.3f}",
    ]
    whole = (
        f"RunTime={seconds + 0.45:.3f} sec; Warm up time=400 msec; SentMessages={n + 1}"
    )
    return [
        f"sockperf: [Total Run] {whole}; ReceivedMessages={n}",
        "sockperf: ========= Printing statistics for Server No: 0",
        f"sockperf: [Valid Duration] RunTime={seconds:.3f} sec; {counts}",
        f"sockperf: ====> avg-{basis}={mean:.3f} (std-dev={deviation:.3f})",
        "sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0",
        f"sockperf: Summary: {word} is {mean:.3f} usec",
        f"sockperf: Total {n} observations; each percentile contains {n / 100:.2f} observations",
        *(f"sockperf: ---> {words}" for words in told),
    ]


def iperf3(
    sent,
    rtt_us,
    *,
    lost=0,
    window=1448000,
    step_s=1.0,
    at,
    cookie="x",
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
        "cookie": cookie,
        "tcp_mss_default": 1448,
        "sock_bufsize": 0,
        "test_start": test,
    }
    whole = moved(sent.sum(), 0, end)
    sums = {"sum_sent": whole | {"retransmits": int(lost.sum())}, "sum_received": whole}
    return {"start": start, "intervals": intervals, "end": {"streams": ends, **sums}}
