"""Says why the tests of this folder were skipped, where they were."""

from __future__ import annotations

import pytest

from masp.ops import kernels as door


def test_kernels_are_installed():
    if not door.available():
        pytest.skip(f"all kernel tests: {door.kernels_status()}")
