"""Convolutions of 0/1 planes with ReLU; the kernels add up the weights of the ones only.

The planes are the lowest bits of integers [L, B, H, W, C], the weights [L, F, size * size * C * bits], bias [L, F],
pixels [L, B, H', W', F], for L lanes. The derivative of ReLU is a gate, open where the pixels are positive. The gated
convolution is linear in weights and bias, and its transpose is the gradient of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.interpreters import ad

from masp_kernels.library import call
from masp_kernels.primitive import added, concrete, make, zero


def convolve(packed: Array, kernel: Array, bias: Array, bits: int, size: int) -> Array:
    """[B, H', W', F] ReLU(bias + planes * kernel) of [B, H, W, C], [F, size * size * C * bits] and [F]."""
    return _convolve.bind(as_integers(packed)[None], kernel[None], bias[None], bits=bits, size=size)[0][0]


def as_integers(x: Array) -> Array:
    """Packed planes as the kernels read them: bytes or 32-bit integers."""
    return x if x.dtype in (jnp.bool_, jnp.uint8) else x.astype(jnp.int32)


def _pixels_shape(packed: Any, kernel: Any, bias: Any, *_: Any, bits: int, size: int) -> list[tuple[int, ...]]:
    lanes, batch, height, width, _ = packed.shape
    return [(lanes, batch, height - size + 1, width - size + 1, kernel.shape[1])]


def _weights_shapes(packed: Any, pixels: Any, gate: Any, *, bits: int, size: int) -> list[tuple[int, ...]]:
    features = (pixels.shape[0], pixels.shape[-1])
    return [(*features, size * size * packed.shape[-1] * bits), features]


def _pixels(*operands: Any, bits: int, size: int) -> list[Any]:
    shapes = _pixels_shape(*operands, bits=bits, size=size)
    return call("masp_bits_convolve", shapes, *operands, bits=np.int64(bits), size=np.int64(size))


def _weights(*operands: Any, bits: int, size: int) -> list[Any]:
    shapes = _weights_shapes(*operands, bits=bits, size=size)
    return call("masp_bits_to_kernel", shapes, *operands, bits=np.int64(bits), size=np.int64(size))


def _relu_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    pixels = _convolve.bind(*primals, **params)
    return pixels, _gated_tangent(primals[0], tangents[1:], pixels[0], params, pixels)


def _gated_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    pixels = _gated.bind(*primals, **params)
    return pixels, _gated_tangent(primals[0], tangents[1:3], primals[3], params, pixels)


def _gated_tangent(packed: Any, weights: Sequence[Any], gate: Any, params: Any, results: list[Any]) -> list[Any]:
    if all(map(zero, weights)):
        return added([], results)
    return _gated.bind(packed, *map(concrete, weights), gate, **params)


def _gated_transpose(cotangents: Any, packed: Any, kernel: Any, bias: Any, gate: Any, **params: Any) -> list[Any]:
    gradients = _to_weights.bind(packed, concrete(cotangents[0]), gate, **params)
    linear = map(ad.is_undefined_primal, (kernel, bias))
    return [None, *[g if is_linear else None for g, is_linear in zip(gradients, linear, strict=True)], None]


def _weights_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[list[Any], list[Any]]:
    packed, _, gate = primals
    results = _to_weights.bind(*primals, **params)
    terms = [] if zero(tangents[1]) else [_to_weights.bind(packed, tangents[1], gate, **params)]
    return results, added(terms, results)


def _weights_transpose(cotangents: Any, packed: Any, pixels: Any, gate: Any, **params: Any) -> list[Any]:
    return [None, _gated.bind(packed, *map(concrete, cotangents), gate, **params)[0], None]


_convolve: Any = make("masp_bits_relu", _pixels_shape, _pixels, _relu_jvp, None)
_gated: Any = make("masp_bits_gated", _pixels_shape, _pixels, _gated_jvp, _gated_transpose)
_to_weights: Any = make("masp_bits_to_weights", _weights_shapes, _weights, _weights_jvp, _weights_transpose)
