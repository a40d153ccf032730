"""What tests of our own kernels share."""

from __future__ import annotations

import pytest
from masp_kernels import library


@pytest.fixture(params=range(len(library.INSTRUCTIONS)), ids=library.INSTRUCTIONS)
def instructions(request):
    """The test runs with the kernels of every instruction set that this processor has."""
    if not library.available():
        pytest.skip(library.status())
    library.limit_instructions(request.param)
    used = library.status().split(",")[0]
    yield used
    library.limit_instructions(len(library.INSTRUCTIONS) - 1)


@pytest.fixture
def kernels():
    """The test needs kernels."""
    if not library.available():
        pytest.skip(library.status())
