"""Which tests one of several workers runs, and in which order."""

from xdist.scheduler import LoadScopeScheduling

LONGEST = """
    measure/test_collector.py measure/test_faults.py data/test_faults.py test_checks.py
    test_pipeline.py studies/test_measured.py measure/test_gone.py notebooks/test_notebooks.py
    test_docs.py hosts/azure/test_end_to_end.py notebooks/test_browser.py hosts/test_lab.py
    test_end_to_end.py
    notebooks/test_every_experiment.py reporting/test_report.py data/test_links.py
    analysis/test_typed.py notebooks/test_workshop.py reporting/test_strangers.py
    measure/test_ssh.py notebooks/test_by_hand.py analysis/test_compare.py test_cli.py
    data/test_store_fleet.py test_answers.py analysis/test_prose.py analysis/test_examples.py
    test_recorded.py hosts/azure/test_place.py analysis/test_before_after.py analysis/test_lead.py
    data/test_store_remote.py data/test_imports.py tools/test_latency_tools.py test_project.py
    test_extend.py hosts/test_lab_requirements.py reporting/test_pages.py data/test_records.py
"""
"""Files of five seconds and more, longest first: one that came last would keep one worker when the
others are done."""
TOGETHER = (
    "measure/test_collector.py measure/test_faults.py data/test_faults.py",
    "test_pipeline.py studies/test_measured.py measure/test_gone.py",
)
"""These share a lab; those measure on this machine itself, where one collector refuses another."""


class Groups(LoadScopeScheduling):
    """Tests of a file share its fixtures, so one worker runs them all."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0].removeprefix("tests/")
        return next((group for group in TOGETHER if file in group.split()), file)


def pytest_xdist_make_scheduler(config, log):
    """With several workers: groups in the order in which they were collected, not those of most
    tests first."""
    config.option.loadscopereorder = False
    return Groups(config, log)
