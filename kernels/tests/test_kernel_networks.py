"""Networks compute the same with kernels and without."""

from __future__ import annotations

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp import ops
from masp.agent.networks import QNetwork
from masp.ops import kernels as door
from masp.training import array_file
from masp_kernels import library

KINDS = {
    "image": ((36, 36, 4), jnp.uint8),
    "planes": ((10, 10, 6), jnp.bool_),
    "minigrid": ((7, 7, 4), jnp.uint8),
    "vector": ((5,), jnp.float32),
}


def adapted(params, template):
    """`params` with the weight orientation of `template`."""
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(template)]
    leaves = jax.tree_util.tree_leaves_with_path(params)
    arrays = ops.adapt_layout({jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}, names)
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in names])


@pytest.mark.parametrize("batch", [6, 16])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_networks_and_their_gradients(monkeypatch, kind, noisy, batch):
    shape, dtype = KINDS[kind]
    network = QNetwork(kind, 3, 5, 32, dueling=True, noisy=noisy, embedding=2)
    x = jnp.asarray(np.random.default_rng(0).integers(0, 2, (batch, *shape)), dtype)
    similarity = jnp.eye(3)
    params, results = {}, {}
    for switch in ("0", "1"):
        monkeypatch.setenv("MASP_NATIVE", switch)
        variables = network.init(jax.random.PRNGKey(0), x, similarity)
        noise = jax.tree.map(lambda leaf: jnp.cos(jnp.arange(leaf.size, dtype=leaf.dtype)), variables.get("noise", {}))
        rest = {"noise": noise} if noisy else {}

        def loss(params, rest=rest):
            return jnp.sum(jnp.sin(5 * network.apply({**rest, "params": params}, x, similarity)))

        params[switch] = variables["params"]
        program = jax.jit(jax.value_and_grad(loss)).lower(params[switch])
        assert ("masp_" in program.as_text()) == (switch == "1")
        results[switch] = program.compile()(params[switch])
    jax.tree.map(np.testing.assert_array_equal, adapted(params["0"], params["1"]), params["1"])
    np.testing.assert_allclose(results["0"][0], results["1"][0], rtol=1e-3)
    gradient = adapted(results["0"][1], params["1"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-5), gradient, results["1"][1])


@pytest.mark.parametrize(("saved", "loaded"), [("1", "0"), ("0", "1")])
def test_a_policy_opens_on_either_kind_of_machine(monkeypatch, tmp_path, saved, loaded):
    network, x, similarity = QNetwork("planes", 3, 5, 32, True, False, 2), jnp.ones((9, 5, 5, 4), bool), jnp.eye(3)
    monkeypatch.setenv("MASP_NATIVE", saved)
    params = network.init(jax.random.PRNGKey(0), x, similarity)
    expected = network.apply(params, x, similarity)
    file = tmp_path / "policy.safetensors"
    array_file.save(file, array_file.named_arrays({"policy": params, "mu": params}), {"format": "test"})
    monkeypatch.setenv("MASP_NATIVE", loaded)
    template = network.init(jax.random.PRNGKey(1), x, similarity)
    restored = array_file.fill({"policy": template, "mu": template}, array_file.read(file)[0], file)
    np.testing.assert_allclose(network.apply(restored["policy"], x, similarity), expected, rtol=1e-4, atol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, restored["mu"], restored["policy"])


def test_status():
    assert door.kernels_status().startswith("on: ")
    assert door.kernels_used() == f"masp-kernels 0.2.0 {library.instruction_set()}"


def test_a_broken_library_is_reported(monkeypatch, tmp_path):
    broken = tmp_path / "_kernels.so"
    broken.write_bytes(b"not a library")
    spec = importlib.util.spec_from_file_location("masp_kernels._kernels", broken)
    monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: spec)
    loaded, error = library._load.__wrapped__()
    assert loaded is None and "OSError" in error


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.int32])
def test_only_float32_is_usable(dtype):
    assert door.usable(jnp.zeros(3)) and not door.usable(jnp.zeros(3), jnp.zeros(3, dtype))
