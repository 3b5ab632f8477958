"""Reading takes as long as the text is: ten times the lines, some ten times as long."""

import contextlib
import gc
import time

import pytest

from netperf_lib import tools
from netperf_lib.errors import ParseError

LINES = {
    "JSON": '  {"a": [1, 2],\n',
    "rows": "[  5]   0.00-1.00   sec  1.10 GBytes  9.44 Gbits/sec    0   1.12 MBytes\n",
    "connections": "[  5] local 10.0.0.5 port 40000 connected with 10.0.0.4 port 5001\n",
    "results": "[  5]   0.00-10.00  sec  1.10 GBytes   944 Mbits/sec                  receiver\n",
    "errors": "iperf3: error - unable to connect to server: Connection refused\n",
    "documents": '{"start": {}, "end": {}}\n',
    "events": '{"event": "start", "data": {}}\n',
    "qperf": "tcp_lat:\n    latency  =  20 us\n",
    "sockperf": "sockperf: Summary: Latency is 20.000 usec\n",
    "ntttcp": "NTTTCP for Linux 1.4.0\n",
    "words": "lorem ipsum dolor sit amet consectetur adipiscing\n",
}


def seconds(text):
    started = time.process_time()
    with contextlib.suppress(ParseError):
        tools.parse(text)
    return time.process_time() - started


@pytest.mark.parametrize("kind", LINES)
def test_time_grows_with_the_text_and_no_faster(kind):
    head = "{\n" if kind == "JSON" else ""
    lines = 5_000 if kind == "JSON" else 500
    short, long = (head + LINES[kind] * n for n in (lines, 10 * lines))

    ratio = seconds(long) / max(min(seconds(short) for _ in range(2)), 0.002)

    assert ratio < 30


def test_cycles_are_collected_again_after_a_refusal():
    gc.enable()

    with pytest.raises(ParseError):
        tools.parse(LINES["words"])

    assert gc.isenabled()
