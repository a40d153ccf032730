"""Networks are the same with our kernels and without; whatever they cannot take goes another way."""

from __future__ import annotations

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from masp_kernels import library

from masp.agent.networks import QNetwork

KINDS = {
    "image": ((36, 36, 4), jnp.uint8),
    "planes": ((10, 10, 6), jnp.bool_),
    "minigrid": ((7, 7, 4), jnp.uint8),
    "vector": ((5,), jnp.float32),
}


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_networks_and_their_gradients(kernels, monkeypatch, kind, noisy):
    shape, dtype = KINDS[kind]
    network = QNetwork(kind, 3, 5, 24, dueling=True, noisy=noisy, embedding=2)
    x = jnp.asarray(np.random.default_rng(0).integers(0, 2, (6, *shape)), dtype)
    similarity = jnp.eye(3)
    variables = network.init(jax.random.PRNGKey(0), x, similarity)
    noise = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)), variables.get("noise", {}))
    variables = {**variables, "noise": noise} if noisy else variables

    def loss(params):
        return jnp.sum(jnp.sin(5 * network.apply({**variables, "params": params}, x, similarity)))

    found = {}
    for switch in ("0", "1"):
        monkeypatch.setenv("MASP_NATIVE", switch)
        program = jax.jit(jax.value_and_grad(loss)).lower(variables["params"])
        assert ("masp_" in program.as_text()) == (switch == "1")
        found[switch] = program.compile()(variables["params"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5), found["0"], found["1"])


def test_off_by_environment(monkeypatch):
    monkeypatch.setenv("MASP_NATIVE", "0")
    assert not library.available() and "MASP_NATIVE=0" in library.status()


def test_without_a_library(monkeypatch):
    """A machine without a compiler: nothing breaks, and it is said why."""
    monkeypatch.setattr(library, "_load", lambda: (None, "not built"))
    monkeypatch.delenv("MASP_NATIVE", raising=False)
    assert not library.usable(jnp.zeros(3)) and library.status() == "off: not built"
    layer = QNetwork("image", 2, 1, 8, dueling=False, noisy=False, embedding=0)
    assert layer.init(jax.random.PRNGKey(0), jnp.zeros((1, 36, 36, 4), jnp.uint8), jnp.eye(2))


def test_a_broken_library_is_no_library(monkeypatch, tmp_path):
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"not a library")
    spec = library.importlib.util.spec_from_file_location("masp_kernels._kernels", broken)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: spec)
    found, problem = library._load.__wrapped__()
    assert found is None and "OSError" in problem


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.int32])
def test_other_numbers(dtype):
    assert not library.usable(jnp.zeros(3), jnp.zeros(3, dtype))


def test_status_of_a_process():
    code = "from masp_kernels.library import status; print(status())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.startswith(("on: ", "off: "))
