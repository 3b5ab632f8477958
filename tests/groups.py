"""Which tests one of several workers runs, and in which order."""

from xdist.scheduler import LoadScopeScheduling

LONGEST = """
    data/test_faults.py notebooks/test_notebooks.py measure/test_collector.py test_checks.py
    measure/test_faults.py hosts/azure/test_end_to_end.py test_pipeline.py studies/test_measured.py
    measure/test_gone.py hosts/test_lab.py reporting/test_report.py notebooks/test_browser.py
    test_end_to_end.py measure/test_ssh.py measure/test_soak.py notebooks/test_every_experiment.py
    data/test_links.py hosts/test_lab_requirements.py notebooks/test_workshop.py test_answers.py
    hosts/azure/test_place.py notebooks/test_by_hand.py reporting/test_strangers.py
    analysis/test_compare.py analysis/test_typed.py tools/test_latency_tools.py test_recorded.py
    reporting/test_explorer.py reporting/test_figures.py analysis/test_validate.py test_docs.py
"""
"""Files of ten seconds and more, longest first: one that came last would keep one worker when the
others are done."""
TOGETHER = ("test_pipeline.py studies/test_measured.py measure/test_gone.py",)
"""These measure on this machine itself, where one collector refuses another."""


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
