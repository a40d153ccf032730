"""The door to the kernels: switched off, absent or broken, nothing but speed is lost."""

import jax
import jax.numpy as jnp
import pytest

from masp.agent.networks import QNetwork
from masp.ops import kernels


@pytest.fixture(autouse=True)
def fresh_cache():
    kernels._problem.cache_clear()
    yield
    kernels._problem.cache_clear()


def test_switched_off_by_the_environment(monkeypatch):
    monkeypatch.setenv("MASP_NATIVE", "0")
    assert not kernels.available() and not kernels.built()
    assert kernels.kernels_status() == "off: MASP_NATIVE=0" and kernels.kernels_used() == "none"


def test_not_installed(monkeypatch):
    monkeypatch.delenv("MASP_NATIVE", raising=False)
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    assert not kernels.usable(jnp.zeros(3)) and not kernels.built()
    assert kernels.kernels_status() == "off: masp-kernels is not installed" and kernels.kernels_used() == "none"
    network = QNetwork("image", 2, 1, 8, dueling=False, noisy=False, embedding=0)
    assert network.init(jax.random.PRNGKey(0), jnp.zeros((1, 36, 36, 4), jnp.uint8), jnp.eye(2))


def test_a_library_that_cannot_be_imported(monkeypatch):
    monkeypatch.delenv("MASP_NATIVE", raising=False)
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: object())

    def fail(name):
        raise AttributeError("jax.interpreters has no attribute 'ad'")

    monkeypatch.setattr(kernels.importlib, "import_module", fail)
    assert kernels.kernels_status() == "off: AttributeError: jax.interpreters has no attribute 'ad'"
    assert kernels.kernels_used() == "none"
