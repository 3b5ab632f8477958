"""Everything between a host and a raw run."""

from __future__ import annotations

import sys

from ..errors import visible


def say_aloud(text: str) -> None:
    """Tell the user on standard error."""
    print(visible(text), file=sys.stderr, flush=True)
