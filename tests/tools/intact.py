"""What an undamaged log holds, to hold a damaged one against it."""

from functools import cache

from netperf_lib import tools
from netperf_lib.errors import ParseError


@cache
def content(log):
    return log.read_bytes()


def read(data):
    """Read every run, and none where there is none: any other error is a fault of the reader."""
    try:
        return tools.parse(data)
    except ParseError:
        return []


@cache
def intact(log):
    return read(content(log))
