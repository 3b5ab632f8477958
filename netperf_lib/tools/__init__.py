"""The tools: commands to run and readers of their output.

A tool is a file or a folder, listed in `registry`.
"""

from .interface import Commands as Commands
from .reading import connections as connections
from .reading import identity as identity
from .reading import parse as parse
from .registry import TOOLS as TOOLS
from .registry import readers as readers
from .registry import tool as tool
from .request import Request as Request
from .surroundings import clean as clean
from .surroundings import decode as decode
