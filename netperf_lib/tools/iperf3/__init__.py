"""iperf3: throughput over TCP, UDP and SCTP, with the kernel's retransmits, windows and round-trip times.

Its JSON (3.0 and later), its JSON stream (3.17 and later) and its text are read.
"""

from .commands import LOAD_TESTS, OPTIONS, PACKAGE, TESTS, VERSION, commands, rate_bps
from .reader import MARKS, NAME, read, read_whole, sightings
