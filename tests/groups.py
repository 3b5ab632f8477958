"""Which tests one of several workers runs, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LONGEST = """
    measure/test_collector.py measure/test_faults.py test_pipeline.py studies/test_measured.py
    data/test_faults.py
    hosts/azure/test_end_to_end.py hosts/azure/test_place.py notebooks/test_notebooks.py test_end_to_end.py
    notebooks/test_browser.py hosts/test_lab.py
    notebooks/test_every_experiment.py data/test_store_fleet.py test_docs.py
    data/test_store_remote.py measure/test_ssh.py notebooks/test_workshop.py hosts/azure/test_shipped.py
    reporting/test_report.py studies/test_reported.py data/test_imports.py tools/test_latency_tools.py
    hosts/test_lab_requirements.py reporting/test_pages.py test_recorded.py test_cli.py data/test_records.py
    analysis/test_fleet.py analysis/test_before_after.py reporting/test_typeset.py test_project.py data/test_logs.py
"""
"""Files of five seconds and more, longest first: one that came last would keep one worker when the others are done."""
ONE_AFTER_ANOTHER = [f"tests/{name}" for name in LONGEST.split()[:5]]
"""These share a lab, or measure on this machine itself, where one collector refuses another."""


class Groups(LoadScopeScheduling):
    """Tests of a file share its fixtures, so one worker runs them all."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return ONE_AFTER_ANOTHER[0] if file in ONE_AFTER_ANOTHER else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """With several workers: groups in the order in which they were collected, not those of most tests first."""
    config.option.loadscopereorder = False
    return Groups(config, log)
