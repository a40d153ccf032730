"""Rows of a batch that learn and rows that only look, through one product.

The online network sees s_tm1, where it learns, and s_t, where it chooses the next action (double Q). As one batch the
weights are read, and noisy ones made, once for both; gradients are those of the first rows alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

Layer = Callable[..., Array]
"""[B, O] of x [B, I] and weights, each row by itself and linear in x, so that its derivative needs no result."""


def learning_rows(layer: Layer, rows: int | None) -> Layer:
    """The same layer, of which only the first `rows` rows have derivatives, those of the others are 0; None: all."""
    if rows is None:
        return layer
    through = jax.custom_jvp(layer)

    def derivative(primals: Any, tangents: Any) -> tuple[Array, Array]:
        known = [primals[0][:rows], *primals[1:]]
        along = [t if type(t) is SymbolicZero else t[:rows] for t in tangents[:1]] + list(tangents[1:])
        moved = [i for i, tangent in enumerate(along) if type(tangent) is not SymbolicZero]

        def first_rows(*values: Array) -> Array:
            given = dict(zip(moved, values, strict=True))
            return layer(*[given.get(i, value) for i, value in enumerate(known)])

        tangent = jax.jvp(first_rows, [known[i] for i in moved], [along[i] for i in moved])[1]
        y = through(*primals)
        return y, jnp.zeros_like(y).at[:rows].set(tangent)

    through.defjvp(derivative, symbolic_zeros=True)
    return through
