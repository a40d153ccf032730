"""Sampling from a replay ring: descent of the sum tree, and the frames of the sampled rows.

The ring has T ticks of N environments. Row (tick, env) holds one observation [D], flattened from [..., C].
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from masp.ops import kernels

BRANCHING = 32
"""Children per node of the sum tree."""


def find_leaves(tree: tuple[Array, ...], mass: Array) -> Array:
    """[B] leaves at which the running sum of priorities first exceeds `mass` [B], each in [0, total).

    `tree`: levels from the leaves up to the root's children, each a multiple of `BRANCHING` long.
    """
    if kernels.usable(mass, *tree):
        return kernels.module("sampling").find_leaves(tree, mass)
    return jax.vmap(_find_leaf, in_axes=(None, 0))(tree, mass)


def _find_leaf(tree: tuple[Array, ...], mass: Array) -> Array:
    index = jnp.zeros((), jnp.int32)
    for level in reversed(tree):
        children = level.reshape(-1, BRANCHING)[index]
        ends = jnp.cumsum(children)
        positive = children > 0
        beyond = (ends > mass) & positive
        # Rounding may leave `mass` at the very end; then the last child with a positive priority is chosen.
        last = BRANCHING - 1 - jnp.argmax(positive[::-1])
        child = jnp.where(jnp.any(beyond), jnp.argmax(beyond), last)
        mass = jnp.clip(mass - (ends[child] - children[child]), 0.0)
        index = index * BRANCHING + child
    return index


def gather_windows(
    observations: Array,
    age: Array,
    action: Array,
    reward: Array,
    discount: Array,
    span: Array,
    leaf: Array,
    shape: tuple[int, ...],
    stack: int,
) -> tuple[Array, Array, Array, Array, Array]:
    """The windows that start at rows `leaf` [B]: observation, action, reward, discount, next observation.

    Both observations are stacked as by `stack_frames`.

    Args:
      observations, age: as in `stack_frames`.
      action, reward, discount: [T, N] of the window that starts at each row.
      span: [T, N] ticks to the row that the window bootstraps from.
      leaf: [B] tick * N + env.
    """
    num_ticks, num_envs = age.shape
    if kernels.usable(reward, discount):
        ring = (observations, age, action, reward, discount, span)
        s_tm1, s_t, *columns = kernels.module("sampling").gather_windows(*ring, leaf, stack, shape[-1])
        stacked_shape = (leaf.shape[0], *shape[:-1], stack * shape[-1])
        return s_tm1.reshape(stacked_shape), *columns, s_t.reshape(stacked_shape)
    row, env = leaf // num_envs, leaf % num_envs
    following = (row + span[row, env]) % num_ticks
    return (
        stack_frames(observations, age, row, env, shape, stack),
        action[row, env],
        reward[row, env],
        discount[row, env],
        stack_frames(observations, age, following, env, shape, stack),
    )


def stack_frames(observations: Array, age: Array, row: Array, env: Array, shape: tuple[int, ...], stack: int) -> Array:
    """[B, *shape] with the last axis times `stack`: the newest frames of rows (row, env) [B], newest last.

    Args:
      observations: [T, N, D].
      age: [T, N] uint8, rows since the first of the episode; frames before that are zeros.
      shape: of one observation, D numbers.
    """
    if kernels.available():
        frames = kernels.module("sampling").stack_frames(observations, age, row, env, stack, shape[-1])
        return frames.reshape(row.shape[0], *shape[:-1], stack * shape[-1])
    back = jnp.arange(stack - 1, -1, -1)
    frames = observations[(row[:, None] - back) % age.shape[0], env[:, None]]  # [B, stack, D]
    in_episode = back <= age[row, env][:, None]
    frames = jnp.where(in_episode[..., None], frames, 0).astype(frames.dtype)
    return frames_to_channels(frames.reshape(*frames.shape[:2], *shape))


def frames_to_channels(frames: Array) -> Array:
    """[B, ..., stack * C] of [B, stack, ..., C]; the newest frame comes last."""
    channels = jnp.moveaxis(frames, 1, -2)
    return channels.reshape(*channels.shape[:-2], -1)
