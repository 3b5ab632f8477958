"""``python -m netperf_lib``."""

from .cli import main

main()
