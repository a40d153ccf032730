"""A convolution of 0/1 planes with ReLU, fused with the linear layer behind it.

Few distinct patches occur at any one position of a batch of images, and the kernel multiplies each of them once: in
MinAtar's Breakout a seventh of all patches. For L lanes, the operands are

- packed [L, B, H, W, C]: integers whose lowest bits are the planes,
- kernel [L, F, size * size * C * bits] and bias [L, F] of the convolution,
- weights [L, I, O] of the linear layer, so that the weights of one position are contiguous,
- common [L, E]: the last E inputs of the linear layer, which all images share. Inputs between those of the convolution
  and these do not take part; the caller multiplies them,
- offset [L, O]: the bias of the linear layer, followed by ReLU where `rectified`.

The tangent is linear in the tangents of the weights, and its transpose is the gradient. Both need the output, which
says where ReLU passes. Second derivatives, which training does not use, are those of the two layers computed apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import ad

from masp_kernels import bits as layers
from masp_kernels.library import call
from masp_kernels.primitive import concrete, make, zero

VECTOR = 16
"""Numbers of features and outputs are multiples of the widest vector."""
MAX_PLANES = 64
MAX_COUNT = 2**16 - 1
"""The kernel counts images and distinct pixels in 16 bits; all pixels may be distinct."""
MAX_TAPS = 64
WEIGHTS = 5
"""Operands that have a gradient: kernel, bias, weights, common, offset."""
MIN_BATCH = 8
"""In a smaller batch few patches repeat."""


def fits(packed: Any, features: int, outputs: int, bits: int, size: int) -> bool:
    """Whether the kernel supports a batch [B, H, W, C] and layers of these sizes, and pays off."""
    whole_vectors = features % VECTOR == 0 and outputs % VECTOR == 0
    planes, batch = packed.shape[-1] * bits, packed.shape[0]
    direct = planes <= 7 and planes * size**2 <= 64  # as `planes_are_kinds` in csrc/patches.h
    countable = batch <= MAX_COUNT if direct else np.prod(packed.shape[:-1]) <= MAX_COUNT
    small = planes <= MAX_PLANES and size**2 <= MAX_TAPS
    return bool(whole_vectors and countable and small and batch >= MIN_BATCH)


def hidden(
    packed: Array,
    kernel: Array,
    bias: Array,
    weights: Array,
    offset: Array,
    bits: int,
    size: int,
    common: Array | None = None,
    rectified: bool = True,
) -> Array:
    """[B, O] offset + (ReLU(bias + planes * kernel), common) times weights, then ReLU where `rectified`.

    For operands [B, H, W, C], [F, size * size * C * bits], [F], [I, O], [O] and [E].
    """
    operands = (layers.as_integers(packed), kernel, bias, weights, jnp.zeros(0) if common is None else common, offset)
    return _hidden.bind(*[x[None] for x in operands], bits=bits, size=size, rectified=rectified)[0][0]


def _apart(packed: Array, *weights: Array, bits: int, size: int, rectified: bool) -> Array:
    """`hidden` as two separate layers, lane by lane."""

    def lane(packed: Array, kernel: Array, bias: Array, weights: Array, common: Array, offset: Array) -> Array:
        pixels = layers.convolve(packed, kernel, bias, bits, size)
        pixels = pixels.reshape(pixels.shape[0], -1)
        y = offset + pixels @ weights[: pixels.shape[1]] + common @ weights[len(weights) - len(common) :]
        return jax.nn.relu(y) if rectified else y

    return jax.vmap(lane)(packed, *weights)


def _tangent_apart(packed: Any, *weights: Any, **params: Any) -> list[Any]:
    primals, tangents = weights[:WEIGHTS], weights[WEIGHTS + 1 :]  # the output stands between them
    return [jax.jvp(lambda *w: _apart(packed, *w, **params), primals, tangents)[1]]


def _gradients_apart(packed: Any, *weights_and_gradient: Any, **params: Any) -> list[Any]:
    *weights, _, gradient = weights_and_gradient
    return list(jax.vjp(lambda *w: _apart(packed, *w, **params), *weights)[1](gradient))


def _out_shape(packed: Any, kernel: Any, bias: Any, weights: Any, *_: Any, **params: Any) -> list[Any]:
    return [(*packed.shape[:2], weights.shape[2])]


def _gradient_shapes(packed: Any, *weights_and_gradient: Any, **params: Any) -> list[Any]:
    return [weights.shape for weights in weights_and_gradient[:WEIGHTS]]


def _attributes(**params: Any) -> dict[str, Any]:
    return {name: np.int64(value) for name, value in params.items()}


def _forward(*operands: Any, **params: Any) -> list[Any]:
    return call("masp_cells", _out_shape(*operands, **params), *operands, **_attributes(**params))


def _backward(*operands: Any, **params: Any) -> list[Any]:
    return call("masp_cells_to_weights", _gradient_shapes(*operands, **params), *operands, **_attributes(**params))


def _hidden_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    results = _hidden.bind(*primals, **params)
    if all(map(zero, tangents[1:])):
        return results, [jnp.zeros_like(results[0])]
    return results, _tangent.bind(*primals, *results, *map(concrete, tangents[1:]), **params)


def _tangent_transpose(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    residuals, tangents = operands[: WEIGHTS + 2], operands[WEIGHTS + 2 :]
    gradients = _to_weights.bind(*residuals, concrete(cotangents[0]), **params)
    linear = map(ad.is_undefined_primal, tangents)
    return [None] * len(residuals) + [g if is_linear else None for g, is_linear in zip(gradients, linear, strict=True)]


def _to_weights_transpose(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    residuals = operands[: WEIGHTS + 2]
    return [None] * len(residuals) + _tangent.bind(*residuals, *map(concrete, cotangents), **params)


def _apart_jvp(primitive: Any, function: Any) -> Any:
    """The rule for second derivatives."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
        along = tuple(map(concrete, tangents[1:]))
        d_out = jax.jvp(lambda *operands: function(primals[0], *operands, **params), tuple(primals[1:]), along)[1]
        return primitive().bind(*primals, **params), d_out

    return jvp


_hidden: Any = make("masp_cells", _out_shape, _forward, _hidden_jvp, None)
_tangent: Any = make(
    "masp_cells_tangent", _out_shape, _forward, _apart_jvp(lambda: _tangent, _tangent_apart), _tangent_transpose
)
_to_weights: Any = make(
    "masp_cells_to_weights",
    _gradient_shapes,
    _backward,
    _apart_jvp(lambda: _to_weights, _gradients_apart),
    _to_weights_transpose,
)
