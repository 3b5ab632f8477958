"""Reports are made as notebooks are executed."""

from tests.notebooks.conftest import in_warm_kernels

__all__ = ["in_warm_kernels"]
