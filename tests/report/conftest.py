"""Reports of all tests share a kernel."""

from tests.notebooks.conftest import one_kernel

__all__ = ["one_kernel"]
