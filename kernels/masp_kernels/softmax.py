"""Distributions over atoms and their means by our kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


def expected_values(logits: Array, support: Array) -> Array:
    """[...] means of the distributions with `logits` [..., atoms] on `support` [atoms]."""
    return _softmax(logits, support)[1]


@jax.custom_jvp
def expected_values_pushed(logits: Array, support: Array) -> Array:
    """The same for who asks for the change along a direction, forward: sums over atoms as products, which XLA is quick
    at. In reverse they would be slower than the other way."""
    return expected_values(logits, support)


@expected_values_pushed.defjvp
def _along(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
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
def _derivative(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Any, Any]:
    (logits, support), (d_logits, d_support) = primals, tangents
    p, mean = _softmax(logits, support)
    # The mean's own slope: its transpose is one pass without any sum.
    d_mean = jnp.sum(p * (support - mean[..., None]) * d_logits, axis=-1) + p @ d_support
    d_p = p * (d_logits - jnp.sum(p * d_logits, axis=-1, keepdims=True))
    return (p, mean), (d_p, d_mean)
