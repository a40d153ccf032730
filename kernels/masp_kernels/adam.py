"""Clipping and Adam in one pass over memory, in place; and their vector-Jacobian product."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

MAX_LEAVES = 256  # kMaxLeaves in csrc/library.cpp


class Settings(NamedTuple):
    """Hyper-parameters of a step; `max_norm` 0: no clipping."""

    learning_rate: float
    b1: float
    b2: float
    eps: float
    eps_root: float
    max_norm: float


def step(
    settings: Settings, corrections: Array, gradients: Any, means: Any, squares: Any, params: Any
) -> tuple[Any, Any, Any, Array]:
    """Means, squares and parameters after the step, and the norm [] of the gradient; all trees have one structure.

    Args:
      corrections: [2] Adam's bias corrections 1 - b1^t and 1 - b2^t, t counting this step.
    """
    leaves = jax.tree.leaves((gradients, means, squares, params))
    count = len(leaves) // 4
    out = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves[count:]]
    *results, norm = jax.ffi.ffi_call(
        "masp_adam",
        [*out, jax.ShapeDtypeStruct((), jnp.float32)],
        input_output_aliases={1 + count + i: i for i in range(3 * count)},
        vmap_method="broadcast_all",
    )(corrections, *leaves, **_attributes(settings))
    parts = [results[i * count : (i + 1) * count] for i in range(3)]
    tree = jax.tree.structure(gradients)
    return (*map(partial(jax.tree.unflatten, tree), parts), norm)


def vjp(settings: Settings, corrections: Array, gradients: Any, means: Any, squares: Any, cotangents: Any) -> Any:
    """Cotangents of the gradients for cotangents of the updates; means and squares are those before the step."""
    leaves = jax.tree.leaves((gradients, means, squares, cotangents))
    count = len(leaves) // 4
    results = jax.ffi.ffi_call(
        "masp_adam_vjp",
        [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves[:count]],
        input_output_aliases={1 + 3 * count + i: i for i in range(count)},
        vmap_method="broadcast_all",
    )(corrections, *leaves, **_attributes(settings))
    return jax.tree.unflatten(jax.tree.structure(gradients), results)


def _attributes(settings: Settings) -> dict[str, np.float32]:
    return {name: np.float32(value) for name, value in settings._asdict().items()}
