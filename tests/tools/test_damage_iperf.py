"""Cut, flipped and joined logs of iperf 2 and iperf3: no error but `ParseError`, and no number
changed in silence.

What "silent" means: the status is still `ok`, and a number differs from the intact log's, or is
gone without a warning.

What can be demanded is what the log says twice. JSON says a rate beside its bytes and seconds, a
sum beside its streams, a mean beside its rows: there every figure counts, to the digits in which
the two agree. A row of text says its throughput twice, each cut to three digits, so it counts to
the rounding of both; and it says loss, jitter, windows and latencies once: there, a digit in the
place of another is a number that only the tool could call wrong. Such flips, a digit for a digit in
a figure that is said once, are what the tests leave out, and nothing else.
"""

import json
from collections import Counter

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.tools import golden
from tests.tools.intact import FOLDER, content, intact, printed, read

LOGS = printed("iperf2", "iperf3")
NUMERIC = frozenset(b"0123456789. -+eE\t\n")

SAID_ONCE = {
    "json": {"out_of_order_count"},
    "text": {
        "cwnd_bytes",
        "cwnd_max_bytes",
        "jitter_us",
        "jitter_reverse_us",
        "packets_count",
        "lost_count",
        "lost_ratio",
        "retransmits_count",
        "retransmits_reverse_count",
        "rtt_loaded_us",
        "rtt_loaded_min_us",
        "rtt_loaded_max_us",
        "connect_us",
        "out_of_order_count",
        "duration_measured_s",
    },
}
"""Figures without a second one to check them."""


def kind(log):
    return "json" if b'"bits_per_second"' in content(log) else "text"


def slack(log, name, value):
    """How far two figures of a log may differ and still both be what was printed."""
    if name.startswith("cpu_"):
        return 5e-4 + 0.003 * value  # of three figures measured with three clocks
    if kind(log) == "json":
        return 1.0 if name.startswith("rtt_") else 1e-4 * value
    # rounding of rate, bytes and both times
    return 0.03 * value + 1e-9


def changed(run, truth, log):
    """Metric -> (true, read), of those that a reader would now take for something else without
    being told."""
    said = {w for w in run.warnings if w not in truth.warnings}
    found = {}
    for name in run.metrics.keys() | truth.metrics.keys():
        a, b = truth.metrics.get(name), run.metrics.get(name)
        if a is None or b is None:
            if b is not None or not said:
                found[name] = (a, b)
        elif abs(a - b) > slack(log, name, max(abs(a), abs(b))):
            found[name] = (a, b)
    return found


def least_changed(run, log):
    every = [changed(run, truth, log) for truth in intact(log) if truth.status == "ok"]
    return min(every, key=len) if every else {"a run that was none": (None, None)}


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(LOGS), st.floats(0, 1))
def test_any_prefix(log, share):
    data = content(log)
    cut = int(share * len(data))
    for run in read(data[:cut]):
        if run.status != "ok":
            continue
        wrong = least_changed(run, log)
        # iperf 2 prints datagrams out of order in a line of its own, after all else
        assert set(wrong) <= {"out_of_order_count"}, wrong


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(LOGS),
    st.floats(0, 1, exclude_max=True),
    st.one_of(st.sampled_from(b"0123456789. "), st.integers(0, 255)),
)
@example(
    next(log for log in LOGS if log.name == "pkb-tcp-3thread-intervals.txt"),
    0.5,
    ord("."),
)  # power 1.6.18
def test_any_flipped_byte(log, share, byte):
    data = content(log)
    place = int(share * len(data))
    in_a_number = data[place] in NUMERIC and byte in NUMERIC
    assume(in_a_number or kind(log) != "json")  # a key with another letter is another key
    for run in read(data[:place] + bytes([byte]) + data[place + 1 :]):
        if run.status == "ok":
            wrong = least_changed(run, log)
            once = SAID_ONCE[kind(log)] if in_a_number else set()
            if kind(log) != "json":
                for name in (
                    "out_of_order_count",
                    "connect_us",
                ):  # said in lines of their own
                    wrong.pop(name, None)
            if (
                "fK-n" in log.name
            ):  # over 0.01 s by a clock of 0.01 s no rate can be checked
                continue
            assert set(wrong) <= once, (
                wrong,
                data[max(place - 40, 0) : place + 20],
                bytes([byte]),
                run.warnings,
            )


LATENCY = [
    log
    for log in golden.small_logs()
    if log.parent.name in ("qperf", "sockperf", "ntttcp")
]


def figures(runs):
    return Counter(
        (r.tool, r.status, *sorted(r.metrics.items())) for r in runs if r.status == "ok"
    )


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([LOGS, LATENCY]).flatmap(
        lambda logs: st.tuples(*2 * [st.sampled_from(logs)])
    )
)
@example(
    (FOLDER / "iperf3/gen-stream-3.17.1-udp.jsonl", FOLDER / "iperf3/badarg_iperf3.txt")
)
def test_two_logs_in_one_file_are_the_runs_of_both(logs):
    first, second = logs
    assume(first != second)

    both = read(content(first) + b"\n" + content(second))

    expected = [*intact(first), *intact(second)]
    # a client of iperf 2 that connects to the client of a server above it is taken for that of -r
    assert not figures(both) - figures(expected)
    if not {"iperf2"} & {run.tool for run in both}:
        assert figures(both) == figures(expected)


KEYS = (
    "start end intervals streams sum sum_sent sum_received error bytes seconds sender udp socket "
    "bits_per_second "
    "retransmits test_start version event data jitter_ms packets"
).split()


@settings(max_examples=40, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(st.sampled_from(KEYS), x, max_size=5)
        ),
        max_leaves=25,
    )
)
@example(
    {
        "start": {"version": 3},
        "intervals": [{"streams": [{"socket": []}], "sum": {"bytes": "x"}}],
        "end": [],
    }
)
@example({"event": "end", "data": None})
def test_any_json(value):
    for text in (
        json.dumps(value),
        json.dumps(value, indent="\t"),
        '{"start":{},' + json.dumps(value)[1:],
    ):
        for run in read(text.encode()):
            assert run.status != "ok" or run.metrics
