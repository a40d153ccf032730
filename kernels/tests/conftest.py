"""Fixtures of the kernel tests. They compare kernels with the definitions in `masp.ops`, so both must be installed."""

from __future__ import annotations

import jax
import pytest

from masp.ops import kernels as door

INSTRUCTION_SETS = ("baseline", "AVX2", "AVX-512")
# The modules import `masp_kernels`, which need not be installed.
collect_ignore_glob = [] if door.available() else ["test_kernel_*.py"]


def pytest_report_header():
    return f"kernels: {door.kernels_status()}"


@pytest.fixture(params=range(len(INSTRUCTION_SETS)), ids=INSTRUCTION_SETS)
def instruction_set(request):
    """Run the test with the kernels of every instruction set that this processor has."""
    from masp_kernels import library

    library.limit_instruction_set(request.param)
    chosen = library.instruction_set()
    if chosen == INSTRUCTION_SETS[request.param]:
        yield chosen
    library.limit_instruction_set(len(INSTRUCTION_SETS) - 1)
    if chosen != INSTRUCTION_SETS[request.param]:
        pytest.skip(f"this processor has no {INSTRUCTION_SETS[request.param]}")


@pytest.fixture(autouse=True, scope="module")
def clear_compiled_programs():
    """Each compiled program takes several memory maps, of which Linux allows a process 65,530."""
    yield
    jax.clear_caches()
