"""What limits a transfer, judged by runs in which the cause had been planted.

`limits/planted.jsonl.gz` holds samples of real transfers between two namespaces: each with the cause that was planted
(the lowest of the limits, each measured alone), and some with what came when that cause was raised.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netperf_lib.analysis.limits import KIND_OF_CAUSE, Evidence, Limit, held_back, of_run
from netperf_lib.data.connections import evidence, read_samples
from netperf_lib.metrics import EVIDENCE

PAYLOAD_OF_LINK = 0.962


@cache
def planted() -> list[dict[str, Any]]:
    with gzip.open(Path(__file__).parent / "limits" / "planted.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def limit(run: dict[str, Any], *, cap_bps: float | None = None) -> Limit:
    columns = evidence(run["sender"], run["receiver"], duration_s=3)
    row = {
        **columns,
        "throughput_bps": columns.get("limit_bps"),
        "streams": run["streams"],
        "limit_receive_max_bytes": run["receive_max_bytes"],
        "limit_send_max_bytes": run["send_max_bytes"],
        "tcp_buffer_bytes": run["receive_max_bytes"] if run["buffer_set"] else None,
        "advertised_bps": cap_bps,
        "bitrate": run["asked_bps"] / run["streams"] or None,
    }
    return of_run(row)


def test_planted_causes_are_named() -> None:
    verdicts: Counter[str] = Counter()
    for run in planted():
        result = limit(run)
        right = result.causes[:1] and result.causes[0] in run["truth"]
        verdicts["right" if right else "wrong" if result.causes else "not known"] += 1
    assert verdicts["right"] >= 0.93 * verdicts.total()
    assert verdicts["wrong"] <= 1


def test_ceilings_come_true_when_the_cause_is_raised() -> None:
    errors = [
        result.ceiling_bps / run["raised_bps"] - 1
        for run in planted()
        if "raised" in run
        and (
            result := limit(
                run,
                cap_bps=PAYLOAD_OF_LINK * run["link_bps"] if "rate" not in run["raised"] else None,
            )
        )
        and result.ceiling_bps
    ]
    assert len(errors) >= 8
    assert sorted(map(abs, errors))[math.ceil(0.85 * len(errors)) - 1] <= 0.1


def test_a_send_buffer_carries_at_least_what_was_in_flight() -> None:
    """A buffer of 128 KiB stands in the queue of a link of 40 Mbit/s: 118 kB are in flight. Alone it carried 100.7."""
    run = Evidence(
        bps=39.8e6, rtt_us=23_800, rtt_min_us=10_083, receive_window_share=0, send_buffer_share=0.73,
        send_max_bytes=2**17, receive_max_bytes=2**25, application_share=1, unsent_none_share=0.8, delivery_bps=41.3e6,
    )  # fmt: skip
    result = held_back(run)
    assert (result.causes[0], result.next) == ("link", "send buffer")
    assert result.ceiling_bps == pytest.approx(100.7e6, rel=0.1)


@pytest.mark.parametrize(
    ("cause", "run"),
    [
        # the lab's link of 8 Gbit/s, its queue standing; the kernel's rate of delivery is that of a burst
        ("link", {"bps": 7.57e9, "delivery_bps": 8.84e9, "rtt_us": 2575, "rtt_min_us": 1114, "unsent_none_share": 0.5}),
        # 4 MiB of send buffer, of which the kernel uses 2.5, over 2.7 ms on a link of 8 Gbit/s
        ("send buffer", {"bps": 4.73e9, "delivery_bps": 6.63e9, "rtt_us": 3553, "rtt_min_us": 2753,
                         "send_buffer_share": 0.4, "send_max_bytes": 2.5 * 2**20}),
    ],
)  # fmt: skip
def test_what_holds_a_fast_path_is_named_from_two_samples(
    cause: str, run: dict[str, float]
) -> None:
    fixed = {
        "receive_window_share": 0.0,
        "send_buffer_share": 0.0,
        "application_share": 1.0,
        "window_bytes": 3e6,
    }
    assert held_back(Evidence(**(fixed | run))).causes[0] == cause


@pytest.mark.parametrize("cause", ["receiver's CPU", "sender's CPU"])
def test_a_processor_is_blamed_only_on_the_evidence_of_the_process(cause: str) -> None:
    run = next(r for r in planted() if r["truth"] == [cause])
    assert limit(run).cause == "cpu"
    blind = run | {
        side: "\n".join(line for line in run[side].splitlines() if not line.startswith("task"))
        for side in ("sender", "receiver")
    }
    assert limit(blind).cause != "cpu"


def test_damaged_samples_lose_only_themselves() -> None:
    run = planted()[0]
    whole = read_samples(run["sender"])
    cut = read_samples(run["sender"][: len(run["sender"]) // 2])
    assert cut[:-1] == whole[: len(cut) - 1]
    assert read_samples("@abc\nESTAB nonsense\n@1.0\n0 0\ntask 1 x y\ncpu0 a") == read_samples(
        "@1.0"
    )
    assert evidence("", "") == {}
    assert evidence("", run["receiver"]) == {}
    assert set(evidence(run["sender"], run["receiver"])) < set(EVIDENCE)


shares = st.none() | st.floats(0, 1)
sizes = st.none() | st.floats(1e3, 1e9)
processes = st.none() | st.tuples(st.floats(0, 1), st.floats(0, 1))


@given(
    st.builds(
        Evidence,
        bps=st.floats(1e5, 1e11),
        streams=st.integers(1, 128),
        asked_bps=st.none() | st.floats(1e5, 1e11),
        cap_bps=st.none() | st.floats(1e6, 1e11),
        rtt_us=st.none() | st.floats(10, 1e6),
        rtt_min_us=st.none() | st.floats(10, 1e6),
        receive_window_share=shares,
        send_buffer_share=shares,
        sent_again_share=shares,
        window_bytes=sizes,
        congestion_bytes=sizes,
        receive_buffer_bytes=sizes,
        unread_bytes=sizes,
        sender=processes,
        receiver=processes,
        receive_max_bytes=sizes,
        send_max_bytes=sizes,
        buffer_set=st.booleans(),
    )
)
def test_any_evidence_gives_an_answer_whose_ceiling_is_not_below_what_was_reached(
    e: Evidence,
) -> None:
    result = held_back(e)
    assert {KIND_OF_CAUSE.get(c, c) for c in result.causes} <= {
        "link",
        "window",
        "loss",
        "cpu",
        "rate",
    }
    assert len(set(result.causes)) == len(result.causes)
    if result.ceiling_bps is not None:
        assert result.ceiling_bps >= e.bps
        assert result.next != result.causes[0]
    if not result.causes:
        assert result.ceiling_bps is None
    assert result.reason


def test_a_cap_explains_what_reaches_it_and_the_processor_comes_before_the_queue_that_it_makes() -> (
    None
):
    assert held_back(Evidence(bps=7.7e9, cap_bps=8e9)).name == "link"
    slow = Evidence(
        bps=1e9,
        receive_window_share=0.9,
        receiver=(0.5, 0.5),
        rtt_us=30_000,
        rtt_min_us=10_000,
        window_bytes=1e6,
    )
    assert held_back(slow).causes == ("receiver's CPU",)
    assert held_back(Evidence(bps=1e9)).cause == "not known"
    lossy = held_back(Evidence(bps=1e9, lost_share=0.499, rtt_min_us=100, send_max_bytes=1e4))
    assert lossy.cause == "not known"
    assert lossy.reason.startswith("50 % of its datagrams were lost")
