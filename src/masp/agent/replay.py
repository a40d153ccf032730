"""Prioritised replay that holds every observation once, in one ring per environment.

Row (tick, env) is the observation before a step. A window of n decisions that starts there also stores its
action, return, discount and the distance to the row it bootstraps from, so variable lengths, truncation and lost
lives need no special case at sampling time: the discount is enough. Why not a library: those we know store each stacked
observation, or derive the discount from gamma, and both are wrong here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp import ops
from masp.agent import priorities
from masp.agent.nstep import Windows
from masp.agent.priorities import Tree


class ReplayState(NamedTuple):
    """A ring of T ticks of N environments."""

    observations: Array  # [T, N, D], one flat observation per row
    age: Array  # [T, N] uint8, rows since the first of the episode, saturating at 255
    action: Array  # [T, N] int32
    reward: Array  # [T, N]
    discount: Array  # [T, N]
    span: Array  # [T, N] int32, ticks to the row that the window bootstraps from
    tree: Tree  # T * N leaves, priority^exponent of the window that starts at a row
    largest: Array  # [], the largest priority^exponent so far: what a new window gets
    steps: Any  # credit.Steps of the same rows; () without intra-option learning
    masks: Any  # [T, N, P] bool, the action mask of each row; None where nothing is ever forbidden


class Transition(NamedTuple):
    """A batch [B] of what the learner learns from."""

    s_tm1: Array  # [B, ...] observation, stacked
    a_tm1: Array  # [B] int32
    r_t: Array  # [B]
    discount_t: Array  # [B]
    s_t: Array  # [B, ...]
    allowed_t: Any = None  # [B, A] bool, actions that the mask of s_t allows; None where nothing is ever forbidden


class Batch(NamedTuple):
    """R transitions to learn from: B windows, the last D of them demonstrated, and perhaps some from inside windows."""

    transition: Transition  # [R]
    weight: Array  # [R] importance weights, the largest is 1
    leaf: Array  # [B - D] int32, the windows' rows in the replay, for `reprioritise`
    demonstrated: Any = ()  # [D, A] bool, the actions that play as was demonstrated; () without demonstrations

    @property
    def num_windows(self) -> int:
        return self.leaf.shape[0] + len(self.demonstrated)


def init(
    num_ticks: int,
    num_envs: int,
    observation_shape: tuple[int, ...],
    dtype: np.dtype,
    steps: Any = (),
    masked_primitives: int = 0,
) -> ReplayState:
    """An empty ring.

    Args:
      steps: an empty ring of single steps, if they are learned from too.
      masked_primitives: number of primitives where the environment has action masks; 0: it has none.
    """
    grid = (num_ticks, num_envs)
    return ReplayState(
        observations=jnp.zeros((*grid, math.prod(observation_shape)), dtype),
        age=jnp.zeros(grid, jnp.uint8),
        action=jnp.zeros(grid, jnp.int32),
        reward=jnp.zeros(grid),
        discount=jnp.zeros(grid),
        span=jnp.zeros(grid, jnp.int32),
        tree=priorities.init(num_ticks * num_envs),
        largest=jnp.ones(()),
        steps=steps,
        masks=jnp.ones((*grid, masked_primitives), bool) if masked_primitives else None,
    )


def write_row(
    state: ReplayState, tick: Array, observation: Array, age: Array, mask: Array | None = None
) -> ReplayState:
    """Store the observation [N, ...] of `tick`, and its action mask, in place of the oldest row (`write_windows`)."""
    slot = tick % state.age.shape[0]
    flat = observation.reshape(1, observation.shape[0], -1).astype(state.observations.dtype)
    young = jnp.minimum(age, 255).astype(jnp.uint8)[None]
    return state._replace(
        observations=jax.lax.dynamic_update_slice(state.observations, flat, (slot, 0, 0)),
        age=jax.lax.dynamic_update_slice(state.age, young, (slot, 0)),
        masks=None if mask is None else jax.lax.dynamic_update_slice(state.masks, mask[None], (slot, 0, 0)),
    )


def write_windows(state: ReplayState, tick: Array, windows: Windows, stack: int) -> ReplayState:
    """Store the windows that closed before row `tick`, and forget the row whose stack that row overwrote."""
    num_ticks, num_envs = state.age.shape
    env = jnp.broadcast_to(jnp.arange(num_envs)[:, None], windows.start.shape)
    slot = jnp.where(windows.closed, windows.start % num_ticks, num_ticks)  # out of range: dropped
    at = (slot, env)
    # Row `tick - T + stack - 1` is the newest whose stack reaches back to the row that was just overwritten.
    stale = (tick + stack - 1) % num_ticks * num_envs + jnp.arange(num_envs)
    fresh = jnp.where(windows.closed, slot * num_envs + env, state.tree[0].size)
    leaves = jnp.concatenate([fresh.reshape(-1), stale])
    values = jnp.concatenate([jnp.full(slot.size, state.largest), jnp.zeros(num_envs)])
    return state._replace(
        action=state.action.at[at].set(windows.action, mode="drop"),
        reward=state.reward.at[at].set(windows.reward, mode="drop"),
        discount=state.discount.at[at].set(windows.discount, mode="drop"),
        span=state.span.at[at].set(tick - windows.start, mode="drop"),
        tree=priorities.write(state.tree, leaves, values),
    )


def sample(
    state: ReplayState,
    key: Array,
    batch_size: int,
    observation_shape: tuple[int, ...],
    stack: int,
    importance_exponent: Array | float,
) -> Batch:
    """A batch drawn in proportion to the priorities; the weights undo the bias to the degree of the exponent."""
    leaf = priorities.sample(state.tree, key, batch_size)
    ring = (state.observations, state.age, state.action, state.reward, state.discount, state.span)
    transition = Transition(*ops.gather_windows(*ring, leaf, observation_shape, stack))
    if isinstance(importance_exponent, float) and importance_exponent == 0:
        return Batch(transition, jnp.ones(batch_size), leaf)
    priority = state.tree[0][leaf]
    # w = (count * P)^-b / max w: the count and the total cancel, the rarest row of the batch has weight 1.
    weight = (priority / jnp.min(priority)) ** -importance_exponent
    return Batch(transition, weight, leaf)


def masks_after(state: ReplayState, leaf: Array) -> Array:
    """[B, P] action masks of the rows that the windows at rows `leaf` [B] bootstrap from."""
    num_ticks, num_envs = state.age.shape
    row, env = leaf // num_envs, leaf % num_envs
    return state.masks[(row + state.span[row, env]) % num_ticks, env]


def reprioritise(state: ReplayState, leaf: Array, loss: Array, exponent: float) -> ReplayState:
    """Give the rows at `leaf` [B] the priority of their new `loss` [B]; exponent 0 keeps all priorities at 1."""
    priority = (jnp.abs(loss) + 1e-6) ** exponent
    return state._replace(
        tree=priorities.write(state.tree, leaf, priority), largest=jnp.maximum(state.largest, jnp.max(priority))
    )


def stacked(state: ReplayState, row: Array, env: Array, shape: tuple[int, ...], stack: int) -> Array:
    """[B, *shape] with the last axis times `stack`: the newest frames, zeros before the episode began."""
    return ops.stack_frames(state.observations, state.age, row, env, shape, stack)
