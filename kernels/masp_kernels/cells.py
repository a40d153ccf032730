"""A convolution of planes of zeros and ones with ReLU, and the linear layer after it, by one kernel.

In a batch few patches differ at any one place of the image, and the kernel multiplies those that do: in MinAtar's
Breakout a seventh of all. The planes are the lowest bits of integers [L, B, H, W, C], the weights of the convolution
[L, F, size * size * C * bits], its bias [L, F], those of the linear layer [L, I, O] for L lanes: the weights of a place
lie together. Its last inputs are common [L, E] to all images; those in between are for whoever else multiplies with the
same weights. Then comes its bias, called offset here, [L, O], and ReLU where that is wanted. Its derivative is linear,
and the transpose of that is the gradient; both are told the values, which say where ReLU lets through. Derivatives of
those, which training has no use for, are made of the two layers by themselves.
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

WHOLE = 16
"""Features and outputs come in vectors of the widest instructions."""
MOST_PLANES = 64
MOST = 2**16 - 1
"""What the kernel counts with: images, and kinds of pixels, which may be as many as pixels."""
MOST_TAPS = 64
WEIGHTS = 5
"""Operands that have a gradient: kernel, bias, weights, what is common, offset."""
LEAST_BATCH = 8
"""With fewer images, few patches are the same."""


def fits(numbers: Any, features: int, outputs: int, bits: int, size: int) -> bool:
    """Whether the kernel can take a batch [B, H, W, C] through a convolution and a linear layer, and is worth it."""
    whole = features % WHOLE == 0 and outputs % WHOLE == 0
    planes, batch = numbers.shape[-1] * bits, numbers.shape[0]
    few_kinds = planes <= 7 and planes * size**2 <= 64  # as `are_kinds` in patches.h
    counted = batch <= MOST if few_kinds else np.prod(numbers.shape[:-1]) <= MOST
    return bool(whole and planes <= MOST_PLANES and counted and size**2 <= MOST_TAPS and batch >= LEAST_BATCH)


def hidden(
    numbers: Array,
    kernel: Array,
    bias: Array,
    weights: Array,
    offset: Array,
    bits: int,
    size: int,
    common: Array | None = None,
    rectified: bool = True,
) -> Array:
    """[B, O] offset + (ReLU(bias + planes * kernel), common) times weights, and ReLU of it where it is `rectified`.

    Of [B, H, W, C], [F, size * size * C * bits], [F], [I, O], [O] and [E].
    """
    operands = (layers.as_numbers(numbers), kernel, bias, weights, jnp.zeros(0) if common is None else common, offset)
    return _hidden.bind(*[x[None] for x in operands], bits=bits, size=size, rectified=rectified)[0][0]


def _apart(numbers: Array, *weights: Array, bits: int, size: int, rectified: bool) -> Array:
    """`hidden` by its two layers, lane by lane."""

    def lane(numbers: Array, kernel: Array, bias: Array, weights: Array, common: Array, offset: Array) -> Array:
        pixels = layers.convolve(numbers, kernel, bias, bits, size)
        pixels = pixels.reshape(pixels.shape[0], -1)
        made = offset + pixels @ weights[: pixels.shape[1]] + common @ weights[len(weights) - len(common) :]
        return jax.nn.relu(made) if rectified else made

    return jax.vmap(lane)(numbers, *weights)


def _change_apart(numbers: Any, *weights: Any, **params: Any) -> list[Any]:
    before, _, after = weights[:WEIGHTS], weights[WEIGHTS], weights[WEIGHTS + 1 :]
    return [jax.jvp(lambda *w: _apart(numbers, *w, **params), before, after)[1]]


def _gradients_apart(numbers: Any, *weights_and_gradient: Any, **params: Any) -> list[Any]:
    *weights, _, gradient = weights_and_gradient
    return list(jax.vjp(lambda *w: _apart(numbers, *w, **params), *weights)[1](gradient))


def _out_shape(numbers: Any, kernel: Any, bias: Any, weights: Any, *_: Any, **params: Any) -> list[Any]:
    return [(*numbers.shape[:2], weights.shape[2])]


def _gradient_shapes(numbers: Any, *weights_and_gradient: Any, **params: Any) -> list[Any]:
    return [weights.shape for weights in weights_and_gradient[:WEIGHTS]]


def _attributes(**params: Any) -> dict[str, Any]:
    return {name: np.int64(value) for name, value in params.items()}


def _forward(*operands: Any, **params: Any) -> list[Any]:
    return call("masp_cells", _out_shape(*operands, **params), *operands, **_attributes(**params))


def _backward(*operands: Any, **params: Any) -> list[Any]:
    return call("masp_cells_back", _gradient_shapes(*operands, **params), *operands, **_attributes(**params))


def _hidden_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    results = _hidden.bind(*primals, **params)
    if all(map(zero, tangents[1:])):
        return results, [jnp.zeros_like(results[0])]
    return results, _change.bind(*primals, *results, *map(concrete, tangents[1:]), **params)


def _change_transpose(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    known, changes = operands[: WEIGHTS + 2], operands[WEIGHTS + 2 :]
    gradients = _to_weights.bind(*known, concrete(cotangents[0]), **params)
    wanted = map(ad.is_undefined_primal, changes)
    return [None] * len(known) + [g if w else None for g, w in zip(gradients, wanted, strict=True)]


def _to_weights_transpose(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    known = operands[: WEIGHTS + 2]
    return [None] * len(known) + _change.bind(*known, *map(concrete, cotangents), **params)


def _apart_jvp(primitive: Any, function: Any) -> Any:
    """The rule for what is differentiated once more."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
        given, changes = tuple(primals[1:]), tuple(map(concrete, tangents[1:]))
        moved = jax.jvp(lambda *weights: function(primals[0], *weights, **params), given, changes)[1]
        return primitive().bind(*primals, **params), moved

    return jvp


_hidden: Any = make("masp_cells", _out_shape, _forward, _hidden_jvp, None)
_change: Any = make(
    "masp_cells_change", _out_shape, _forward, _apart_jvp(lambda: _change, _change_apart), _change_transpose
)
_to_weights: Any = make(
    "masp_cells_to_weights",
    _gradient_shapes,
    _backward,
    _apart_jvp(lambda: _to_weights, _gradients_apart),
    _to_weights_transpose,
)
