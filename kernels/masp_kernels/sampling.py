"""Drawing from the replay by our kernels: down the sum tree, and the frames of the rows that were drawn."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


class Drawn(NamedTuple):
    """What the windows at some leaves say."""

    s_tm1: Array  # [B, D / channels, stack, channels]
    s_t: Array
    action: Array  # [B]
    reward: Array
    discount: Array


def find(levels: tuple[Array, ...], mass: Array) -> Array:
    """[B] leaves at which the running sums of priorities first exceed `mass` [B]; `levels` as in `priorities.Tree`."""
    return _call("masp_find", [(mass.shape, jnp.int32)], mass, *levels)[0]


def stacked(observations: Array, age: Array, row: Array, env: Array, stack: int, channels: int) -> Array:
    """[B, D / channels, stack, channels] the newest frames of [T, N, D] up to (row, env) [B] each, newest last.

    `age` [T, N] bytes: rows since the first of the episode; frames before it are zeros.
    """
    frames = _frames(observations, row.shape[0], stack, channels)
    return _call("masp_stacked", [frames], observations, age, row, env, bytes=_bytes(observations))[0]


def drawn(
    observations: Array,
    age: Array,
    action: Array,
    reward: Array,
    discount: Array,
    span: Array,
    leaf: Array,
    stack: int,
    channels: int,
) -> Drawn:
    """The windows that start at rows `leaf` [B] of a ring [T, N]; `span` ticks after it is the row each ends at."""
    frames = _frames(observations, leaf.shape[0], stack, channels)
    outs = [frames, frames, *[(leaf.shape, column.dtype) for column in (action, reward, discount)]]
    ring = (observations, age, action, reward, discount, span)
    return Drawn(*_call("masp_drawn", outs, *ring, leaf, bytes=_bytes(observations)))


def _frames(observations: Array, batch: int, stack: int, channels: int) -> tuple[tuple[int, ...], Any]:
    return (batch, observations.shape[-1] // channels, stack, channels), observations.dtype


def _bytes(observations: Array) -> np.int64:
    return np.int64(observations.dtype.itemsize)


def _call(name: str, outs: list[tuple[Any, Any]], *operands: Array, **attributes: Any) -> list[Array]:
    """What the kernel makes of operands with a leading axis of lanes; under `vmap` the new axis becomes that one.

    `outs`: shape and type of each result.
    """

    @jax.custom_batching.custom_vmap
    def one(*operands: Array) -> list[Array]:
        return [found[0] for found in lanes(*[x[None] for x in operands])]

    def lanes(*operands: Array) -> list[Array]:
        count = operands[0].shape[0]
        found = [jax.ShapeDtypeStruct((count, *shape), dtype) for shape, dtype in outs]
        return list(jax.ffi.ffi_call(name, found)(*operands, **attributes))

    @one.def_vmap
    def _batched(size: int, batched: list[bool], *operands: Array) -> tuple[list[Array], list[bool]]:
        folded = [x if b else jnp.broadcast_to(x, (size, *x.shape)) for x, b in zip(operands, batched, strict=True)]
        return lanes(*folded), [True] * len(outs)

    return one(*operands)
