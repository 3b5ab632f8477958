"""sockperf: latency of single messages, with the whole distribution (2.x to 3.10).

Without ``--full-rtt`` every latency it prints is half of a round trip. In ``throughput`` mode nothing comes back: the
bandwidth is the sender's. Its "MBps" are 2^20 bytes and its "Mbps" are 2^20 bits; "GBps" are 1000 of them with
``--giga-size``, and still "MBps" (mislabelled) with 3.7's ``--increase_output_precision``, which shows nine decimals.
"""

from .commands import LOAD_TESTS, OPTIONS, PACKAGE, TESTS, VERSION, commands, rate_bps
from .reader import MARKS, NAME, read, read_stream, sightings

__all__ = ["LOAD_TESTS", "OPTIONS", "PACKAGE", "TESTS", "VERSION", "commands", "rate_bps"]
__all__ += ["MARKS", "NAME", "read", "read_stream", "sightings"]
