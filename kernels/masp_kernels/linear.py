"""Linear layers, with factorised noise on the weights or without.

The weights are kernel + noise_out * sigma * noise_in, computed inside the product. Three bilinear products (kernel and
sigma are one factor) whose derivatives are each other. x is [L, B, I], kernel and sigma [L, O, I],
noise [L, I] and [L, O], for L lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import Array
from jax.interpreters import ad

from masp_kernels.library import call
from masp_kernels.primitive import added, concrete, make, zero


def linear(x: Array, kernel: Array) -> Array:
    """[B, O] of [B, I] and [O, I]."""
    return _linear.bind(x[None], kernel[None])[0][0]


def noisy_linear(x: Array, kernel: Array, sigma: Array, noise_in: Array, noise_out: Array) -> Array:
    """The same with weights kernel + noise_out * sigma * noise_in."""
    return _linear.bind(x[None], kernel[None], sigma[None], noise_in[None], noise_out[None])[0][0]


def _through_weights(name: str, shape: Any, to_first: Any, to_weights: Any) -> Any:
    """A primitive of (array, kernel[, sigma, noise_in, noise_out]) that is linear in the array and in the weights."""

    def shapes(*operands: Any) -> list[tuple[int, ...]]:
        return [shape(operands[0], operands[1])]

    def evaluate(*operands: Any) -> list[Any]:
        return [call(name, shapes(*operands)[0], *operands)]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        first, weights, noise = primals[0], tangents[1:3], primals[3:]
        results = primitive.bind(*primals)
        terms = [] if zero(tangents[0]) else [primitive.bind(tangents[0], *primals[1:])]
        if not all(map(zero, weights)):
            terms.append(primitive.bind(first, *map(concrete, weights), *noise))
        if not all(map(zero, tangents[3:])):
            terms.append(primitive.bind(first, primals[2] * _outer_tangent(noise, tangents[3:])))
        return results, added(terms, results)

    def transpose(cotangents: Any, *operands: Any) -> list[Any]:
        cotangent, first, noise = concrete(cotangents[0]), operands[0], operands[3:]
        none: list[Any] = [None] * len(operands)
        if ad.is_undefined_primal(first):
            return [to_first(cotangent, *operands[1:])[0], *none[1:]]
        gradients = to_weights(cotangent, first, *noise)
        linear = [g if ad.is_undefined_primal(w) else None for g, w in zip(gradients, operands[1:3], strict=True)]
        return [None, *linear, *none[3:]]

    primitive = make(name, shapes, evaluate, jvp, transpose)
    return primitive


def _outer(noise: Sequence[Any]) -> Any:
    """[L, O, I] the noise of every weight."""
    return noise[1][:, :, None] * noise[0][:, None, :]


def _outer_tangent(noise: Sequence[Any], tangents: Sequence[Any]) -> Any:
    d_in, d_out = map(concrete, tangents)
    return _outer([d_in, noise[1]]) + _outer([noise[0], d_out])


_linear: Any = _through_weights(
    "masp_linear",
    lambda x, kernel: (*x.shape[:2], kernel.shape[1]),
    lambda cotangent, *weights: _to_inputs.bind(cotangent, *weights),
    lambda cotangent, x, *noise: _to_weights.bind(cotangent, x, *noise),
)
_to_inputs: Any = _through_weights(
    "masp_linear_to_inputs",
    lambda gradient, kernel: (*gradient.shape[:2], kernel.shape[2]),
    lambda cotangent, *weights: _linear.bind(cotangent, *weights),
    lambda cotangent, gradient, *noise: _to_weights.bind(gradient, cotangent, *noise),
)


def _weights_shapes(gradient: Any, x: Any, *noise: Any) -> list[tuple[int, ...]]:
    return [(gradient.shape[0], gradient.shape[2], x.shape[2])] * (2 if noise else 1)


def _weights_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    (gradient, x, *noise), (d_gradient, d_x, *d_noise) = primals, tangents
    results = _to_weights.bind(*primals)
    terms = [] if zero(d_gradient) else [_to_weights.bind(d_gradient, x, *noise)]
    terms += [] if zero(d_x) else [_to_weights.bind(gradient, d_x, *noise)]
    if not all(map(zero, d_noise)):
        terms.append([0 * results[0], results[0] * _outer_tangent(noise, d_noise)])
    return results, added(terms, results)


def _weights_transpose(cotangents: Any, gradient: Any, x: Any, *noise: Any) -> list[Any]:
    weights = list(map(concrete, cotangents))
    none: list[Any] = [None] * len(noise)
    if ad.is_undefined_primal(gradient):
        return [_linear.bind(x, *weights, *noise)[0], None, *none]
    return [None, _to_inputs.bind(gradient, *weights, *noise)[0], *none]


def _weights(*operands: Any) -> list[Any]:
    """(gradient [L, B, O], x [L, B, I][, noise_in, noise_out]) to the gradients of kernel and sigma."""
    return call("masp_linear_to_weights", _weights_shapes(*operands), *operands)


_to_weights: Any = make("masp_linear_to_weights", _weights_shapes, _weights, _weights_jvp, _weights_transpose)
