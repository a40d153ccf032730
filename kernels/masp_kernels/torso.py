"""Convolutions with ReLU over images of bytes, all layers at once, by our kernels.

Three kernels: forward, its tangent for tangents of the weights, and the gradient of the weights. What is beyond that
(second derivatives) is taken of the same thing written with single convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import ad

from masp_kernels.convolution import convolve
from masp_kernels.library import call, usable
from masp_kernels.primitive import concrete, make

MOST_LAYERS = 4  # as in kernels/shapes.h
WHOLE_PANEL = 32  # features come in multiples of this

Weights = Sequence[tuple[Array, Array]]
"""Kernel [k, k, C, F] and bias [F] of every layer."""


def fits(x: Array, weights: Weights) -> bool:
    """Whether there are kernels for these images and layers."""
    whole = all(bias.shape[0] % WHOLE_PANEL == 0 for _, bias in weights)
    return x.dtype == jnp.uint8 and whole and len(weights) <= MOST_LAYERS and usable(*_flat(weights))


def torso(x: Array, weights: Weights, strides: Sequence[int]) -> Array:
    """[B, H', W', F] the last activation of images [B, H, W, C], bytes that stand for 0 to 1."""
    return _torso.bind(x, *_flat(weights), strides=tuple(strides), keep=False)[0]


def by_layers(x: Array, weights: Weights, strides: Sequence[int]) -> list[Array]:
    """The same by single convolutions: all activations."""
    y, found = x.astype(jnp.float32) / 255.0, []
    for (kernel, bias), stride in zip(weights, strides, strict=True):
        y = jax.nn.relu(convolve(y, kernel, stride) + bias)
        found.append(y)
    return found


def _flat(weights: Weights) -> list[Array]:
    return [part for layer in weights for part in layer]


def _pairs(flat: Sequence[Array]) -> list[tuple[Array, Array]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _numbers(strides: tuple[int, ...]) -> dict[str, Any]:
    return {f"stride_{i}": np.int64(stride) for i, stride in enumerate(strides)}


def _shapes(x: Any, *flat: Any, strides: tuple[int, ...], keep: bool) -> list[tuple[int, ...]]:
    sides, found = x.shape[1:3], []
    for (kernel, bias), stride in zip(_pairs(flat), strides, strict=True):
        sides = [(side - kernel.shape[0]) // stride + 1 for side in sides]
        found.append((x.shape[0], *sides, bias.shape[0]))
    return found if keep else found[-1:]


def _forward(x: Any, *flat: Any, strides: tuple[int, ...], keep: bool) -> list[Any]:
    return call("masp_torso", _shapes(x, *flat, strides=strides, keep=keep), x, *flat, **_numbers(strides))


def _forward_jvp(primals: Any, tangents: Any, strides: tuple[int, ...], keep: bool) -> tuple[list[Any], list[Any]]:
    (x, *flat), along = primals, list(map(concrete, tangents[1:]))
    if keep:
        return jax.jvp(lambda *flat: by_layers(x, _pairs(flat), strides), flat, along)
    activations = _torso.bind(x, *flat, strides=strides, keep=True)
    return activations[-1:], _tangent.bind(x, *flat, *activations, *along, strides=strides)


def _tangent_by_layers(strides: tuple[int, ...], x: Any, *operands: Any) -> list[Any]:
    """(images, weights, activations, tangents of the weights) to the tangent of the last activation."""
    n = len(strides)
    weights, activations, along = _pairs(operands[: 2 * n]), operands[2 * n : 3 * n], _pairs(operands[3 * n :])
    before: Any = x.astype(jnp.float32) / 255.0
    tangent = None
    for (kernel, _), y, (d_kernel, d_bias), stride in zip(weights, activations, along, strides, strict=True):
        moved = convolve(before, d_kernel, stride) + d_bias
        moved = moved if tangent is None else moved + convolve(tangent, kernel, stride)
        before, tangent = y, jnp.where(y > 0, moved, 0.0)
    return [tangent]


def _to_weights_by_layers(strides: tuple[int, ...], x: Any, *operands: Any) -> list[Any]:
    """(images, weights, activations, gradient of the last one) to the gradients of the weights."""
    *known, gradient = operands
    flat = known[: 2 * len(strides)]
    _, pull_back = jax.vjp(lambda *along: _tangent_by_layers(strides, x, *known, *along)[0], *map(jnp.zeros_like, flat))
    return list(pull_back(gradient))


def _jvp_of(by_layers: Any) -> Any:
    def jvp(primals: Any, tangents: Any, strides: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
        x, *rest = primals
        return jax.jvp(lambda *rest: by_layers(strides, x, *rest), rest, list(map(concrete, tangents[1:])))

    return jvp


def _tangent_shapes(x: Any, *operands: Any, strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [operands[3 * len(strides) - 1].shape]


def _tangent_now(*operands: Any, strides: tuple[int, ...]) -> list[Any]:
    return call("masp_torso_tangent", _tangent_shapes(*operands, strides=strides), *operands, **_numbers(strides))


def _tangent_transpose(cotangents: Any, *operands: Any, strides: tuple[int, ...]) -> list[Any]:
    known, along = operands[: 1 + 3 * len(strides)], operands[1 + 3 * len(strides) :]
    found = _to_weights.bind(*known, concrete(cotangents[0]), strides=strides)
    wanted = [f if ad.is_undefined_primal(d) else None for f, d in zip(found, along, strict=True)]
    return [*[None] * len(known), *wanted]


def _weights_shapes(x: Any, *operands: Any, strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [weights.shape for weights in operands[: 2 * len(strides)]]


def _to_weights_now(*operands: Any, strides: tuple[int, ...]) -> list[Any]:
    return call("masp_torso_to_weights", _weights_shapes(*operands, strides=strides), *operands, **_numbers(strides))


def _never(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    raise NotImplementedError("its derivatives are made of single convolutions, so nothing transposes it")


_torso: Any = make("masp_torso", _shapes, _forward, _forward_jvp, _never, lanes=False)
_tangent: Any = make(
    "masp_torso_tangent",
    _tangent_shapes,
    _tangent_now,
    _jvp_of(_tangent_by_layers),
    _tangent_transpose,
    lanes=False,
)
_to_weights: Any = make(
    "masp_torso_to_weights",
    _weights_shapes,
    _to_weights_now,
    _jvp_of(_to_weights_by_layers),
    _never,
    lanes=False,
)
