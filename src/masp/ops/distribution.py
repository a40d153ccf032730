"""Means of categorical distributions over a fixed support (C51)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from masp.ops import kernels


def expected_values(logits: Array, support: Array, forward_mode: bool = False) -> Array:
    """[..., A] means of the distributions with `logits` [..., A, atoms] on `support` [atoms].

    A single atom means that the network outputs the values themselves. `forward_mode` only chooses the faster kernel
    for callers that take a Jacobian-vector product instead of a gradient.
    """
    if support.shape[0] == 1:
        return logits[..., 0]
    if kernels.usable(logits, support):
        softmax = kernels.module("softmax")
        return (softmax.expected_values_forward if forward_mode else softmax.expected_values)(logits, support)
    return jnp.sum(jax.nn.softmax(logits) * support, axis=-1)
