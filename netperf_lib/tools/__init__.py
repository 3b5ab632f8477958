"""The tools: what to run, beside how to read what it printed; a tool is a file or a folder, listed in `registry`."""

from .interface import Commands, Reader, Tool
from .reading import LARGE, parse, parse_stream
from .registry import READERS, TOOLS, tool
from .wrapping import clean, decode

__all__ = [
    "LARGE",
    "READERS",
    "TOOLS",
    "Commands",
    "Reader",
    "Tool",
    "clean",
    "decode",
    "parse",
    "parse_stream",
    "tool",
]
