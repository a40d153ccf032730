"""Drawing from the replay by our kernels: down the sum tree, and the frames of the rows that were drawn."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array


def find(levels: tuple[Array, ...], mass: Array) -> Array:
    """[B] leaves at which the running sums of priorities first exceed `mass` [B]; `levels` as in `priorities.Tree`."""
    out = jax.ShapeDtypeStruct((1, *mass.shape), jnp.int32)
    return _call("masp_find", out, mass, *levels)


def stacked(observations: Array, age: Array, row: Array, env: Array, stack: int, channels: int) -> Array:
    """[B, D / channels, stack, channels] the newest frames of [T, N, D] up to (row, env) [B] each, newest last.

    `age` [T, N] bytes: rows since the first of the episode; frames before it are zeros.
    """
    shape = (1, row.shape[0], observations.shape[-1] // channels, stack, channels)
    out = jax.ShapeDtypeStruct(shape, observations.dtype)
    return _call("masp_stacked", out, observations, age, row, env, bytes=np.int64(observations.dtype.itemsize))


def _call(name: str, out: jax.ShapeDtypeStruct, *operands: Array, **attributes: Any) -> Array:
    """What the kernel makes of operands with a leading axis of lanes; under `vmap` the new axis becomes that one."""

    @jax.custom_batching.custom_vmap
    def one(*operands: Array) -> Array:
        return lanes(*[x[None] for x in operands])[0]

    def lanes(*operands: Array) -> Array:
        found = jax.ShapeDtypeStruct((operands[0].shape[0], *out.shape[1:]), out.dtype)
        return jax.ffi.ffi_call(name, found)(*operands, **attributes)

    @one.def_vmap
    def _batched(size: int, batched: list[bool], *operands: Array) -> tuple[Array, bool]:
        folded = [x if b else jnp.broadcast_to(x, (size, *x.shape)) for x, b in zip(operands, batched, strict=True)]
        return lanes(*folded), True

    return one(*operands)
