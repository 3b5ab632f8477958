"""sockperf: latency of single messages, with the whole distribution (2.x to 3.10).

Without ``--full-rtt`` every printed latency is half a round trip. In ``throughput`` mode the server sends nothing back,
so the bandwidth is the sender's. "MBps" are 2^20 bytes and "Mbps" are 2^20 bits. With ``--giga-size``, "GBps" are 1000
of them; with 3.7's ``--increase_output_precision``, which shows nine decimals, "GBps" is a wrong label for "MBps".
"""

from .commands import LOAD_TESTS, OPTIONS, PACKAGE, TESTS, VERSION, commands, rate_bps
from .reader import MARKS, NAME, read, sightings
