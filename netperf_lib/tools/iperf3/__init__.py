"""iperf3: throughput over TCP, UDP and SCTP, with the kernel's retransmits, windows and round-trip times.

Its JSON (3.0 and later), its JSON stream (3.17 and later) and its text are read.
"""

from .commands import LOAD_TESTS as LOAD_TESTS
from .commands import OPTIONS as OPTIONS
from .commands import PACKAGE as PACKAGE
from .commands import TESTS as TESTS
from .commands import VERSION as VERSION
from .commands import commands as commands
from .commands import rate_bps as rate_bps
from .reader import MARKS as MARKS
from .reader import NAME as NAME
from .reader import read as read
from .reader import read_whole as read_whole
from .reader import sightings as sightings
