"""Sampling from a replay ring by kernels: descent of the sum tree, and the frames of the sampled rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class Windows(NamedTuple):
    """Contents of B windows."""

    s_tm1: Array  # [B, D / channels, stack, channels]
    s_t: Array
    action: Array  # [B]
    reward: Array
    discount: Array


def find_leaves(levels: tuple[Array, ...], mass: Array) -> Array:
    """[B] leaves at which the running sums of priorities first exceed `mass` [B].

    `levels`: of a sum tree with 32 children per node, from the leaves up to the root's children.
    """
    return _call("masp_find_leaves", [(mass.shape, jnp.int32)], mass, *levels)[0]


def stack_frames(observations: Array, age: Array, row: Array, env: Array, stack: int, channels: int) -> Array:
    """[B, D / channels, stack, channels] the newest frames of [T, N, D] up to (row, env) [B] each, newest last.

    `age` [T, N] bytes: rows since the first of the episode; frames before it are zeros.
    """
    frames = _frames(observations, row.shape[0], stack, channels)
    return _call("masp_stack_frames", [frames], observations, age, row, env, item_bytes=_item_bytes(observations))[0]


def gather_windows(
    observations: Array,
    age: Array,
    action: Array,
    reward: Array,
    discount: Array,
    span: Array,
    leaf: Array,
    stack: int,
    channels: int,
) -> Windows:
    """The windows that start at rows `leaf` [B] of a ring [T, N]; each ends `span` ticks later."""
    frames = _frames(observations, leaf.shape[0], stack, channels)
    outs = [frames, frames, *[(leaf.shape, column.dtype) for column in (action, reward, discount)]]
    ring = (observations, age, action, reward, discount, span)
    return Windows(*_call("masp_gather_windows", outs, *ring, leaf, item_bytes=_item_bytes(observations)))


def _frames(observations: Array, batch: int, stack: int, channels: int) -> tuple[tuple[int, ...], Any]:
    return (batch, observations.shape[-1] // channels, stack, channels), observations.dtype


def _item_bytes(observations: Array) -> np.int64:
    return np.int64(observations.dtype.itemsize)


def _call(name: str, outs: list[tuple[Any, Any]], *operands: Array, **attributes: Any) -> list[Array]:
    """Results of a kernel whose operands have a leading axis of lanes; `vmap` adds to that axis.

    `outs`: shape and type of each result, without the axis of lanes.
    """

    @jax.custom_batching.custom_vmap
    def single(*operands: Array) -> list[Array]:
        return [result[0] for result in lanes(*[x[None] for x in operands])]

    def lanes(*operands: Array) -> list[Array]:
        count = operands[0].shape[0]
        results = [jax.ShapeDtypeStruct((count, *shape), dtype) for shape, dtype in outs]
        return list(jax.ffi.ffi_call(name, results)(*operands, **attributes))

    @single.def_vmap
    def _batched(size: int, batched: list[bool], *operands: Array) -> tuple[list[Array], list[bool]]:
        folded = [x if b else jnp.broadcast_to(x, (size, *x.shape)) for x, b in zip(operands, batched, strict=True)]
        return lanes(*folded), [True] * len(outs)

    return single(*operands)
