"""The exercises of the workshop: what is right is computed from the data that a learner looks at.

`netperf_lib.workshop.check` reads this file; learners get a copy of the lessons alone.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from netperf_lib.analysis import rounds_required
from netperf_lib.analysis.compare import compare, contrasts
from netperf_lib.analysis.limits import limits
from netperf_lib.analysis.observe import observe
from netperf_lib.analysis.runs import measurement
from netperf_lib.data.shipped import shipped
from netperf_lib.errors import NothingToReport
from netperf_lib.metrics import ALPHA
from netperf_lib.reporting.workshop import Check, in_plain_words


def _values(runs: Any, metric: str, by: str, tool: str, of: str | None = None) -> Any:
    """Values by level of a factor, with every other factor at one level.

    Of one metric or of another one.
    """
    rows = observe(runs, metric, by=by, where={"tool": tool}).main().runs
    return rows.groupby(by, dropna=False, observed=True)[of or metric]


def _one_way(runs: pd.DataFrame, statistic: str = "median") -> Any:
    """One-way latency by placement, as qperf measures it."""
    return (
        _values(runs, "latency_oneway_us", "placement", "qperf")
        .agg(statistic)
        .astype(float)
    )


def _step(runs: pd.DataFrame, statistic: str = "median") -> float:
    """How much longer same-zone takes than ppg, one way."""
    levels = _one_way(runs, statistic)
    return float(levels["same-zone"] - levels["ppg"])


def _timed(runs: pd.DataFrame, metric: str, statistic: str = "median") -> Any:
    """A percentile of the packets that sockperf timed, by placement, idle."""
    return (
        _values(runs, "latency_oneway_p99_us", "placement", "sockperf", metric)
        .agg(statistic)
        .astype(float)
    )


def _queue(
    runs: pd.DataFrame, metric: str = "latency_oneway_p99_us", statistic: str = "median"
) -> float:
    """By how much a percentile to the other region is larger while another tool fills the path."""
    levels = (
        _values(runs, "latency_oneway_p99_us", "during", "sockperf", metric)
        .agg(statistic)
        .astype(float)
    )
    return float(
        levels[levels.index.notna()].iloc[0] - levels[levels.index.isna()].iloc[0]
    )


def _printed(path: str, metric: str, accelerated: bool = True) -> float:
    """The first such figure of the study in East Asia, in the unit in which it was printed."""
    figures = pd.read_csv(shipped("data", "published") / "figures.tsv", sep="\t")
    figures = figures[
        figures["source"].eq("azure-eastasia-d8sv3") & figures["path"].eq(path)
    ]
    rows = figures[figures["metric"].str.startswith(metric)]
    rows = rows[rows["accelerated"].isin(["on" if accelerated else "off", None])]
    return float(rows["value"].iloc[0])


def _window(bits: int = 8) -> float:
    """Mbit/s that the window of the published VPN path allows."""
    return (
        bits
        * _printed("cross-region-vpn", "cwnd")
        / (_printed("cross-region-vpn", "round-trip") * 1e-3)
    )


def _rounds(runs: pd.DataFrame, faster: bool | None = None) -> Any:
    """Rounds with both same-zone and cross-zone.

    Of those, where cross-zone was the faster one, or was not.
    """
    chosen = (
        observe(runs, "latency_oneway_us", by="placement", where={"tool": "qperf"})
        .main()
        .runs
    )
    wide = chosen.pivot_table(
        index="round", columns="placement", values="latency_oneway_us", observed=True
    )
    wide.index = wide.index.astype(int)  # as a table of observations shows them
    wide = wide[["cross-zone", "same-zone"]].dropna()
    nearer = wide["cross-zone"] < wide["same-zone"]
    return set(wide.index if faster is None else wide.index[nearer == faster])


def _verdict(runs: pd.DataFrame, factor: str, a: Any, b: Any) -> str:
    for contrast in contrasts(runs, factor, "latency_oneway_us"):
        if (contrast.a.get(factor), (contrast.b or {}).get(factor)) == (a, b):
            return str(compare(runs, contrasts=[contrast])[0].verdict)
    raise NothingToReport(
        f"the experiment declares no contrast of {factor}: {a} against {b}"
    )


def _rate(runs: pd.DataFrame) -> Any:
    """Throughput to the other region with the default buffers, by number of streams.

    Not that of a load.
    """
    obs = observe(
        runs, "throughput_bps", by="streams", where={"placement": "cross-region"}
    )
    rates = obs.main().runs.groupby("streams")["throughput_bps"].median().astype(float)
    if len(rates) < 2:
        raise NothingToReport(
            "the experiment holds no transfers to another region with one and with many streams"
        )
    return rates


def _flight(runs: pd.DataFrame) -> float:
    """Bytes in flight of a single stream to the other region.

    By Little's law with the idle round trip.
    """
    return float(_rate(runs).iloc[0] * 2 * _one_way(runs)["cross-region"] * 1e-6 / 8)


def _cause(runs: pd.DataFrame) -> str:
    """What limits a single stream to the other region: in one word, or which window it is."""
    held = limits(
        runs, where={"placement": "cross-region", "streams": 1, "tcp_buffer_bytes": None}
    )
    idle = held.reindex(columns=["during"])["during"].isna()
    return f"{in_plain_words(held.loc[idle, 'cause'].iloc[0])}|window"


def _answered(runs: pd.DataFrame, *verdicts: str) -> int:
    return sum(c.verdict in verdicts for c in compare(runs))


def _scope(runs: pd.DataFrame) -> str:
    return (
        r"pair|(these )?vms"
        if measurement(runs).runs["deployment"].nunique() < 2
        else "placement"
    )


ADVERTISED = 4.0
"""Advertised bandwidth of the VM of the published study in East Asia, Gbit/s."""
NAMES: dict[str, str] = {"ppg": "ppg|(proximity )?placement group"}
"""Names of placements that learners may write out."""
CHECKS: dict[str, Check] = {
    "ping.basis": Check(
        lambda _: 2,
        "ping times the way there and back; what does qperf's tcp_lat print?",
        "qperf prints half a round trip: convert numbers of different bases before you compare "
        "them.",
    ),
    "ping.protocol": Check(
        lambda _: (
            r"icmp(v\d)?( echo)?( requests?)?( over ip)?|internet control message protocol"
        ),
        "Which protocol do the echo requests of ping use? Your applications use another one.",
        "ICMP may be answered by another part of the path than TCP, dropped first, or not let "
        "through at all.",
    ),
    "runs.rounds": Check(
        lambda runs: _rounds(runs, faster=True),
        "Compare the two columns of `wide` row by row: which rounds are left? The faster one has "
        "the smaller latency.",
        "a single run would have said that the other zone is nearer in each of these rounds.",
        mistakes=lambda runs: {
            "Those are the other rounds: which latency is smaller there?": _rounds(
                runs, faster=False
            )
        },
    ),
    "runs.size": Check(
        lambda runs: len(_rounds(runs)),
        "Packets and seconds within a run depend on each other. What is repeated independently?",
        "the round is the unit: more seconds in a run do not make more observations.",
    ),
    "runs.needed": Check(
        lambda runs: rounds_required(ALPHA, max(1, len(contrasts(runs)))),
        "See npl.analysis.rounds_required: it takes alpha and the number of contrasts that share "
        "it.",
        "with fewer rounds no exact paired test can give a verdict, whatever the numbers are.",
        mistakes=lambda runs: {
            "That is enough for a single contrast. How many share the error?": rounds_required(
                ALPHA, 1
            )
        },
    ),
    "placement.nearest": Check(
        lambda runs: NAMES.get(
            name := str(_one_way(runs).idxmin()), in_plain_words(name)
        ),
        "Which row of the table of levels has the smallest median?",
    ),
    "placement.median": Check(
        lambda runs: _one_way(runs)["same-zone"],
        "The median over the runs of same-zone. The table above has a column for it.",
        unit="us",
        tolerance=0.01,
        mistakes=lambda runs: {
            "That is nearer to the mean, which one slow run moves: take the median, with more "
            "digits.": _one_way(runs, "mean")["same-zone"],
            "That is half of it or twice it: the values in the table are one-way already.": [
                _one_way(runs)["same-zone"] * k for k in (0.5, 2)
            ],
        },
    ),
    "placement.verdict": Check(
        lambda runs: in_plain_words(
            _verdict(runs, "placement", "cross-zone", "same-zone")
        ),
        "Look the contrast up in the family: one of better, worse, equivalent, inconclusive, no "
        "verdict.",
        "not seeing a difference is not enough to say that there is none: that is what the margin "
        "is for.",
    ),
    "window.bytes": Check(
        _flight,
        "What is sent in one round trip is in flight. Mind what `one_way` measures, and the units "
        "of both numbers.",
        "compare it with the largest buffer that the hosts allow a sender (the third number of "
        "tcp_wmem).",
        unit="bytes",
        tolerance=0.1,
        mistakes=lambda runs: {
            "A factor of two: how many one-way trips pass until an acknowledgement is back?": (
                _flight(runs) / 2
            ),
            "A factor of eight: the rate counts bits.": [
                _flight(runs) * 8,
                _flight(runs) * 4,
            ],
        },
    ),
    "window.gain": Check(
        lambda runs: _rate(runs).iloc[-1] / _rate(runs).iloc[0],
        "How many times the rate of one stream do the most streams reach together?",
        "every stream has a window of its own; their sum fills the path.",
        unit="ratio",
        tolerance=0.05,
        mistakes=lambda runs: {
            "That is the other way round.": _rate(runs).iloc[0] / _rate(runs).iloc[-1]
        },
    ),
    "window.cause": Check(
        _cause,
        "Compare the bytes in flight with the largest buffer, and ask what more streams change.",
        "many streams have many windows, and carry more: neither the path nor a processor was "
        "full.",
    ),
    "verdict.answered": Check(
        lambda runs: _answered(runs, "better", "worse", "equivalent"),
        "Which verdicts are an answer, and which say that these data do not decide?",
        "equivalent is an answer too.",
    ),
    "verdict.scope": Check(
        _scope,
        "How many times were the VMs placed? See the words 'for …' in the findings. Answer 'pair' "
        "or 'placement'.",
        "every deployment places the VMs anew; a single one describes only these VMs.",
    ),
    "verdict.inconclusive": Check(
        lambda _: r"b",
        "Read the section on how to read a verdict again. Answer with a letter.",
        "inconclusive claims nothing: neither that there is a difference nor that there is none.",
    ),
    "accelerated.factor": Check(
        lambda _: _printed("direct", "one-way", False) / _printed("direct", "one-way"),
        "Two rows of the table give a one-way latency. How many times is the larger one the "
        "smaller?",
        "the virtual switch of the host costs more time than the whole way through the data "
        "centre.",
        unit="ratio",
        tolerance=0.02,
        mistakes=lambda _: {
            "That is the other way round.": _printed("direct", "one-way")
            / _printed("direct", "one-way", False),
            "That is the throughput; the exercise asks for the latency.": _printed(
                "direct", "throughput"
            )
            / _printed("direct", "throughput", False),
        },
    ),
    "accelerated.room": Check(
        lambda _: _printed("direct", "throughput", False) / ADVERTISED,
        "The note of the row gives the VM's advertised bandwidth. Mind which of the rows is "
        "without acceleration.",
        "the VM's advertised bandwidth limits both, so there was little to gain. Latency has no "
        "such limit.",
        unit="ratio",
        tolerance=0.01,
        mistakes=lambda _: {
            "That is the row with acceleration.": _printed("direct", "throughput")
            / ADVERTISED,
            "That is the share that was missing.": 1
            - _printed("direct", "throughput", False) / ADVERTISED,
        },
    ),
    "accelerated.verdict": Check(
        lambda runs: in_plain_words(_verdict(runs, "accelerated", True, False)),
        "Look at the finding: one of better, worse, equivalent, inconclusive, no verdict.",
        "here every condition was measured in every round: the published pair of single figures "
        "cannot say as much.",
    ),
    "tails.p99": Check(
        lambda runs: _timed(runs, "latency_oneway_p99_us")["ppg"],
        "Each run has a 99th percentile; the exercise asks for the median of these over the runs. "
        "The table has it.",
        "a percentile of a run is one number of that run: it is compared over rounds like any "
        "other metric.",
        unit="us",
        tolerance=0.01,
        mistakes=lambda runs: {
            "That is nearer to the mean over the runs: take their median.": _timed(
                runs, "latency_oneway_p99_us", "mean"
            )["ppg"],
            "That is the median packet; the exercise asks for the slowest hundredth.": [
                _timed(runs, "latency_oneway_p50_us")["ppg"],
                _timed(runs, "latency_oneway_us")["ppg"],
            ],
            "That is the slowest thousandth.": _timed(runs, "latency_oneway_p999_us")[
                "ppg"
            ],
        },
    ),
    "tails.calls": Check(
        lambda _: 1 - 0.99**100,
        "How likely is it that none of the calls is among the slowest hundredth? The rest of the "
        "pages meet one.",
        "most pages meet at least one packet of the slowest hundredth.",
        unit="ratio",
        tolerance=0.02,
        mistakes=lambda _: {
            "Adding up counts a page with two slow calls twice.": 1.0,
            "That is the share of pages that meet none.": 0.99**100,
            "That is the share of calls, not of pages.": 0.01,
        },
    ),
    "tails.load": Check(
        _queue,
        "Take the level under load and the level of the idle path from the table. What is left "
        "between them?",
        "this time is spent in a queue: it depends on how full the path is, not on how long it is.",
        unit="us",
        tolerance=0.02,
        mistakes=lambda runs: {
            "That is nearer to the difference of the means: take the medians.": _queue(
                runs, statistic="mean"
            ),
            "That is the difference of the median packets.": _queue(
                runs, "latency_oneway_p50_us"
            ),
            "That is the other way round.": -_queue(runs),
        },
    ),
    "tails.published": Check(
        lambda _: r"c",
        "Is any of the printed numbers a percentile? Answer with a letter.",
        "averages hide the tail, however many there are of them.",
    ),
    "paths.balancer": Check(
        lambda _: _printed("standard-lb", "one-way") - _printed("direct", "one-way"),
        "The direct path with acceleration is what the load balancer is compared with.",
        "one run each: another day may show another difference, and nobody knows how much the "
        "runs vary.",
        unit="us",
        tolerance=0.01,
        mistakes=lambda _: {
            "That is the basic load balancer.": _printed("basic-lb", "one-way")
            - _printed("direct", "one-way"),
            "That is the path itself; what does the load balancer add?": _printed(
                "standard-lb", "one-way"
            ),
            "That is there and back; the latency in the table is one-way.": 2
            * (_printed("standard-lb", "one-way") - _printed("direct", "one-way")),
            "That is the path without acceleration.": _printed("direct", "one-way", False)
            - _printed("standard-lb", "one-way"),
        },
    ),
    "paths.window": Check(
        lambda _: _window(),
        "What is in flight is sent once in each round trip. Mind the units of the window and of "
        "the rate.",
        "the measured rate is close to it: this stream was limited by its window, which its "
        "gateway kept from growing.",
        unit="Mbit/s",
        tolerance=0.02,
        mistakes=lambda _: {
            "That is what was measured; the window gives what to expect.": _printed(
                "cross-region-vpn", "throughput"
            ),
            "That is the advertised bandwidth of the gateway.": _printed(
                "cross-region-vpn", "advertised"
            ),
            "A factor of eight: the window counts bytes.": _window(1),
            "A factor of two: the table prints a round trip already.": [
                _window(4),
                _window(16),
            ],
        },
    ),
    "paths.step": Check(
        _step,
        "Take the medians of both placements from the table. What is left between them?",
        "a placement can cost as much as a load balancer: compare paths only between VMs with the "
        "same placement.",
        unit="us",
        tolerance=0.03,
        mistakes=lambda runs: {
            "That is nearer to the difference of the means, which one slow run moves.": _step(
                runs, "mean"
            ),
            "That is the other way round.": -_step(runs),
        },
    ),
    "own.verdict": Check(
        lambda runs: in_plain_words(compare(runs)[0].verdict),
        "Look at the verdict of your contrast: one of better, worse, equivalent, inconclusive, no "
        "verdict.",
        "you declared, measured and judged; say what it holds for, and show it to your neighbour.",
    ),
}
