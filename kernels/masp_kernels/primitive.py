"""Kernels as JAX primitives: batching, evaluation and lowering, which all of them share.

A kernel takes arrays with a leading axis of lanes. `vmap` folds its axis into that one, so all seeds of a compiled run
are one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

Shapes = Callable[..., list[tuple[int, ...]]]


def make(
    name: str, shapes: Shapes, evaluate: Callable[..., list[Any]], jvp: Any, transpose: Any, lanes: bool = True
) -> Primitive:
    """A primitive with several float32 results.

    Args:
      shapes: maps operands and parameters to the shapes of the results.
      evaluate: computes the results by calls of kernels.
      jvp, transpose: JAX's rules for differentiation; a symbolic zero tangent is an `ad.Zero`.
      lanes: whether the kernel has an axis of lanes; otherwise it is called once for each.
    """
    primitive = Primitive(name)
    primitive.multiple_results = True

    def abstract(*operands: Any, **params: Any) -> list[Any]:
        return [jax.core.ShapedArray(shape, jnp.float32) for shape in shapes(*operands, **params)]

    def batch(operands: Sequence[Any], axes: Sequence[Any], **params: Any) -> tuple[list[Any], list[int]]:
        if not lanes:
            return _one_by_one(lambda *lane: primitive.bind(*lane, **params), operands, axes)
        count = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
        folded = [_fold(x, axis, count) for x, axis in zip(operands, axes, strict=True)]
        results = primitive.bind(*folded, **params)
        return [r.reshape(count, r.shape[0] // count, *r.shape[1:]) for r in results], [0] * len(results)

    @cache
    def compiled(params: tuple[tuple[str, Any], ...]) -> Any:
        return jax.jit(lambda *operands: primitive.bind(*operands, **dict(params)))

    def run(*operands: Any, **params: Any) -> list[Any]:
        return compiled(tuple(params.items()))(*operands)

    primitive.def_impl(run)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(evaluate, multiple_results=True), platform="cpu")
    batching.primitive_batchers[primitive] = batch
    ad.primitive_jvps[primitive] = jvp
    ad.primitive_transposes[primitive] = transpose
    return primitive


def _one_by_one(function: Any, operands: Sequence[Any], axes: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """The results of all lanes, computed one lane at a time."""
    mapped = [None if axis is None else jnp.moveaxis(x, axis, 0) for x, axis in zip(operands, axes, strict=True)]

    def one(lane: list[Any]) -> list[Any]:
        return function(*[x if axis is None else y for x, y, axis in zip(operands, lane, axes, strict=True)])

    results = jax.lax.map(one, mapped)
    return results, [0] * len(results)


def _fold(x: Any, axis: int | None, count: int) -> Any:
    """[count * L, ...] of lanes [L, ...] that `vmap` gave another axis, or gave none."""
    x = jnp.broadcast_to(x, (count, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def zero(tangent: Any) -> bool:
    """Whether a tangent is a symbolic zero."""
    return type(tangent) is ad.Zero


def concrete(tangent: Any) -> Any:
    """A tangent or cotangent as an array."""
    return ad.instantiate_zeros(tangent)


def added(terms: Sequence[list[Any]], results: Sequence[Any]) -> list[Any]:
    """The tangents of `results`: the sum of all terms."""
    if not terms:
        return [jnp.zeros_like(result) for result in results]
    return [sum(parts[1:], parts[0]) for parts in zip(*terms, strict=True)]
