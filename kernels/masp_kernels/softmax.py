"""Categorical distributions and their means by a kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def expected_values(logits: Array, support: Array) -> Array:
    """[...] means of the distributions with `logits` [..., atoms] on `support` [atoms]."""
    return _softmax(logits, support)[1]


@jax.custom_jvp
def expected_values_forward(logits: Array, support: Array) -> Array:
    """The same for forward-mode differentiation: the tangent sums over atoms by matrix products, which are fast in XLA.

    Their transpose would be slower than that of `expected_values`.
    """
    return expected_values(logits, support)


@expected_values_forward.defjvp
def _forward_tangent(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (logits, support), (d_logits, d_support) = primals, tangents
    p, mean = _softmax(logits, support)
    sums = (p * d_logits) @ jnp.stack([support, jnp.ones_like(support)], axis=1)  # [..., 2]
    return mean, sums[..., 0] - mean * sums[..., 1] + p @ d_support


@jax.custom_jvp
def _softmax(logits: Array, support: Array) -> tuple[Array, Array]:
    """[..., atoms] probabilities and [...] means."""
    shapes = (
        jax.ShapeDtypeStruct(logits.shape, jnp.float32),
        jax.ShapeDtypeStruct(logits.shape[:-1], jnp.float32),
    )
    p, mean = jax.ffi.ffi_call("masp_softmax", shapes, vmap_method="broadcast_all")(logits, support)
    return p, mean


@_softmax.defjvp
def _softmax_tangent(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Any, Any]:
    (logits, support), (d_logits, d_support) = primals, tangents
    p, mean = _softmax(logits, support)
    # The derivative of the mean itself: its transpose is one pass without any sum.
    d_mean = jnp.sum(p * (support - mean[..., None]) * d_logits, axis=-1) + p @ d_support
    d_p = p * (d_logits - jnp.sum(p * d_logits, axis=-1, keepdims=True))
    return (p, mean), (d_p, d_mean)
