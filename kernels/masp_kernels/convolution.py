"""Convolutions without padding.

Three bilinear products whose derivatives are each other. Images are [L, B, H, W, C],
kernels [L, k, k, C, F], pixels [L, B, H', W', F], for L lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jax import Array
from jax.interpreters import ad

from masp_kernels.library import call
from masp_kernels.primitive import added, concrete, make, zero


def convolve(x: Array, kernel: Array, stride: int) -> Array:
    """[B, H', W', F] of [B, H, W, C] and [k, k, C, F]."""
    (pixels,) = _convolve.bind(x[None], kernel[None], stride=stride, sides=x.shape[1:3], size=kernel.shape[0])
    return pixels[0]


def _out(sides: tuple[int, int], size: int, stride: int) -> tuple[int, int]:
    return (sides[0] - size) // stride + 1, (sides[1] - size) // stride + 1


def _pixels_shape(x: Any, kernel: Any, stride: int, sides: tuple[int, int], size: int) -> list[tuple[int, ...]]:
    return [(*x.shape[:2], *_out(sides, size, stride), kernel.shape[-1])]


def _kernel_shape(x: Any, pixels: Any, stride: int, sides: tuple[int, int], size: int) -> list[tuple[int, ...]]:
    return [(x.shape[0], size, size, x.shape[-1], pixels.shape[-1])]


def _images_shape(pixels: Any, kernel: Any, stride: int, sides: tuple[int, int], size: int) -> list[tuple[int, ...]]:
    return [(*pixels.shape[:2], *sides, kernel.shape[-2])]


def _product(name: str, shapes: Any, to_left: Any, to_right: Any) -> Any:
    """A bilinear primitive; `to_left` and `to_right` map a cotangent and the other operand to the operand's own."""

    def evaluate(a: Any, b: Any, **params: Any) -> list[Any]:
        return [call(name, shapes(a, b, **params)[0], a, b, stride=np.int64(params["stride"]))]

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        (a, b), (da, db) = primals, tangents
        results = primitive.bind(a, b, **params)
        terms = [] if zero(da) else [primitive.bind(da, b, **params)]
        terms += [] if zero(db) else [primitive.bind(a, db, **params)]
        return results, added(terms, results)

    def transpose(cotangents: Any, a: Any, b: Any, **params: Any) -> list[Any]:
        cotangent = concrete(cotangents[0])
        if ad.is_undefined_primal(a):
            return [to_left(cotangent, b, **params)[0], None]
        return [None, to_right(cotangent, a, **params)[0]]

    primitive = make(name, shapes, evaluate, jvp, transpose)
    return primitive


_convolve: Any = _product(
    "masp_convolve",
    _pixels_shape,
    lambda pixels, kernel, **params: _to_images.bind(pixels, kernel, **params),
    lambda pixels, x, **params: _to_kernel.bind(x, pixels, **params),
)
_to_kernel: Any = _product(
    "masp_convolve_to_kernel",
    _kernel_shape,
    lambda kernel, pixels, **params: _to_images.bind(pixels, kernel, **params),
    lambda kernel, x, **params: _convolve.bind(x, kernel, **params),
)
_to_images: Any = _product(
    "masp_convolve_to_images",
    _images_shape,
    lambda x, kernel, **params: _convolve.bind(x, kernel, **params),
    lambda x, pixels, **params: _to_kernel.bind(x, pixels, **params),
)
