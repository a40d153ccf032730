"""Settings for all tests."""

from __future__ import annotations

import os
import shutil
import tempfile

import hypothesis
import pytest

# Examples are drawn from a fixed seed and no time is measured: the same tests everywhere, on slow machines too.
hypothesis.settings.register_profile("masp", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("masp")

WORKER = "PYTEST_XDIST_WORKER" in os.environ


def pytest_configure(config):
    if not WORKER:
        # Most of the suite's time would go into compiling the same small programs in every process that it starts.
        config.compiled_programs = tempfile.mkdtemp(prefix="masp-tests-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = config.compiled_programs
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    import jax

    # Only processes that tests start keep programs. In this one, with every optional package loaded beside it, jaxlib
    # 0.10.2 once crashed while it wrote a program down.
    jax.config.update("jax_enable_compilation_cache", False)


def pytest_unconfigure(config):
    if not WORKER:
        shutil.rmtree(config.compiled_programs, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def programs_go():
    """Each compiled program takes several maps of memory, of which Linux lets a process have 65,530; XLA crashes at the
    end of them, and the tests of one folder had come to 57,628."""
    yield
    import gc

    import jax

    jax.clear_caches()
    gc.collect()


@pytest.fixture(autouse=True, scope="module")
def quick_compilation(request):
    """Whole runs are compiled without most optimisations, in half the time; what checks numbers is left alone."""
    if request.path.parent.name not in ("training", "library", "learning", "cli", "experiments", "tuning"):
        yield
        return
    import jax

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # for the processes that a test starts
        jax.config.update("jax_disable_most_optimizations", True)
        yield
        jax.config.update("jax_disable_most_optimizations", False)
