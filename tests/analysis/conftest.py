"""What the tests of answers ask."""

import pytest

import netperf_lib as npl


@pytest.fixture(scope="session")
def exp():
    """The recorded experiment, read once: nobody changes its tables."""
    return npl.read(npl.recorded())


@pytest.fixture(scope="session")
def compared(exp):
    """Its declared comparisons, judged once."""
    return npl.compare(exp)
