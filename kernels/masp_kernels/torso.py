"""Several convolutions with ReLU over images of bytes, fused.

Three kernels: the forward pass, its tangent for tangents of the weights, and the gradient of the weights. Second
derivatives are those of the same computation written with single convolutions.
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
from masp_kernels.library import call
from masp_kernels.primitive import concrete, make

MAX_LAYERS = 4  # kMaxLayers in csrc/shapes.h
PANEL = 32  # the number of features of a layer is a multiple of this

Weights = Sequence[tuple[Array, Array]]
"""Kernel [k, k, C, F] and bias [F] of every layer."""


def fits(x: Array, weights: Weights) -> bool:
    """Whether the kernels support these images and layers."""
    whole_panels = all(bias.shape[0] % PANEL == 0 for _, bias in weights)
    return x.dtype == jnp.uint8 and whole_panels and len(weights) <= MAX_LAYERS


def torso(x: Array, weights: Weights, strides: Sequence[int]) -> Array:
    """[B, H', W', F] the last activation of images [B, H, W, C], whose bytes stand for 0 to 1."""
    return _torso.bind(x, *_flat(weights), strides=tuple(strides), keep=False)[0]


def by_layers(x: Array, weights: Weights, strides: Sequence[int]) -> list[Array]:
    """All activations, by single convolutions."""
    y, activations = x.astype(jnp.float32) / 255.0, []
    for (kernel, bias), stride in zip(weights, strides, strict=True):
        y = jax.nn.relu(convolve(y, kernel, stride) + bias)
        activations.append(y)
    return activations


def _flat(weights: Weights) -> list[Array]:
    return [part for layer in weights for part in layer]


def _pairs(flat: Sequence[Array]) -> list[tuple[Array, Array]]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def _attributes(strides: tuple[int, ...]) -> dict[str, Any]:
    return {f"stride_{i}": np.int64(stride) for i, stride in enumerate(strides)}


def _shapes(x: Any, *flat: Any, strides: tuple[int, ...], keep: bool) -> list[tuple[int, ...]]:
    sides, shapes = x.shape[1:3], []
    for (kernel, bias), stride in zip(_pairs(flat), strides, strict=True):
        sides = [(side - kernel.shape[0]) // stride + 1 for side in sides]
        shapes.append((x.shape[0], *sides, bias.shape[0]))
    return shapes if keep else shapes[-1:]


def _forward(x: Any, *flat: Any, strides: tuple[int, ...], keep: bool) -> list[Any]:
    return call("masp_torso", _shapes(x, *flat, strides=strides, keep=keep), x, *flat, **_attributes(strides))


def _forward_jvp(primals: Any, tangents: Any, strides: tuple[int, ...], keep: bool) -> tuple[list[Any], list[Any]]:
    (x, *flat), d_flat = primals, list(map(concrete, tangents[1:]))
    if keep:
        return jax.jvp(lambda *flat: by_layers(x, _pairs(flat), strides), flat, d_flat)
    activations = _torso.bind(x, *flat, strides=strides, keep=True)
    return activations[-1:], _tangent.bind(x, *flat, *activations, *d_flat, strides=strides)


def _tangent_by_layers(strides: tuple[int, ...], x: Any, *operands: Any) -> list[Any]:
    """(images, weights, activations, tangents of the weights) to the tangent of the last activation."""
    n = len(strides)
    weights, activations, d_weights = _pairs(operands[: 2 * n]), operands[2 * n : 3 * n], _pairs(operands[3 * n :])
    before: Any = x.astype(jnp.float32) / 255.0
    tangent = None
    for (kernel, _), y, (d_kernel, d_bias), stride in zip(weights, activations, d_weights, strides, strict=True):
        d_y = convolve(before, d_kernel, stride) + d_bias
        d_y = d_y if tangent is None else d_y + convolve(tangent, kernel, stride)
        before, tangent = y, jnp.where(y > 0, d_y, 0.0)
    return [tangent]


def _to_weights_by_layers(strides: tuple[int, ...], x: Any, *operands: Any) -> list[Any]:
    """(images, weights, activations, gradient of the last one) to the gradients of the weights."""
    *residuals, gradient = operands
    zeros = map(jnp.zeros_like, residuals[: 2 * len(strides)])
    _, pull_back = jax.vjp(lambda *d_flat: _tangent_by_layers(strides, x, *residuals, *d_flat)[0], *zeros)
    return list(pull_back(gradient))


def _jvp_of(by_layers: Any) -> Any:
    def jvp(primals: Any, tangents: Any, strides: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
        x, *rest = primals
        return jax.jvp(lambda *rest: by_layers(strides, x, *rest), rest, list(map(concrete, tangents[1:])))

    return jvp


def _tangent_shapes(x: Any, *operands: Any, strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [operands[3 * len(strides) - 1].shape]


def _evaluate_tangent(*operands: Any, strides: tuple[int, ...]) -> list[Any]:
    return call("masp_torso_tangent", _tangent_shapes(*operands, strides=strides), *operands, **_attributes(strides))


def _tangent_transpose(cotangents: Any, *operands: Any, strides: tuple[int, ...]) -> list[Any]:
    residuals, d_flat = operands[: 1 + 3 * len(strides)], operands[1 + 3 * len(strides) :]
    gradients = _to_weights.bind(*residuals, concrete(cotangents[0]), strides=strides)
    linear = [g if ad.is_undefined_primal(d) else None for g, d in zip(gradients, d_flat, strict=True)]
    return [*[None] * len(residuals), *linear]


def _weights_shapes(x: Any, *operands: Any, strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [weights.shape for weights in operands[: 2 * len(strides)]]


def _evaluate_to_weights(*operands: Any, strides: tuple[int, ...]) -> list[Any]:
    return call("masp_torso_to_weights", _weights_shapes(*operands, strides=strides), *operands, **_attributes(strides))


def _no_transpose(cotangents: Any, *operands: Any, **params: Any) -> list[Any]:
    raise NotImplementedError("second derivatives use single convolutions, so JAX never transposes this primitive")


_torso: Any = make("masp_torso", _shapes, _forward, _forward_jvp, _no_transpose, lanes=False)
_tangent: Any = make(
    "masp_torso_tangent",
    _tangent_shapes,
    _evaluate_tangent,
    _jvp_of(_tangent_by_layers),
    _tangent_transpose,
    lanes=False,
)
_to_weights: Any = make(
    "masp_torso_to_weights",
    _weights_shapes,
    _evaluate_to_weights,
    _jvp_of(_to_weights_by_layers),
    _no_transpose,
    lanes=False,
)
