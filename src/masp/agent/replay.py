"""Prioritised replay that holds every observation once, in one ring per environment.

Row (tick, env) is the observation before a step. A window of n decisions that starts there also stores its
action, return, discount and the distance to the row it bootstraps from, so variable lengths, truncation and lost
lives need no rule at sampling time: the discount says it all. Why not a library: those we know store each stacked
observation, or derive the discount from gamma, and both are wrong here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from masp_kernels import library as native
from masp_kernels import sampling as native_sampling

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
    steps: Any  # intra_option.Steps of the same rows; () where only decisions teach


class Transition(NamedTuple):
    """A batch [B] of what the learner learns from."""

    s_tm1: Array  # [B, ...] observation, stacked
    a_tm1: Array  # [B] int32
    r_t: Array  # [B]
    discount_t: Array  # [B]
    s_t: Array  # [B, ...]


class Batch(NamedTuple):
    """R transitions to learn from: B windows, and behind them perhaps transitions from inside those windows."""

    transition: Transition  # [R]
    weight: Array  # [R] importance weights, the largest is 1
    leaf: Array  # [B] int32, the windows' rows in the replay, for `reprioritise`

    @property
    def num_windows(self) -> int:
        return self.leaf.shape[0]


def init(
    num_ticks: int, num_envs: int, observation_shape: tuple[int, ...], dtype: np.dtype, steps: Any = ()
) -> ReplayState:
    """An empty ring; `steps`: an empty ring of single steps, where they teach too."""
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
    )


def write_row(state: ReplayState, tick: Array, observation: Array, age: Array) -> ReplayState:
    """Store the observation [N, ...] of `tick` in the place of the oldest row (see `write_windows`)."""
    slot = tick % state.age.shape[0]
    flat = observation.reshape(1, observation.shape[0], -1).astype(state.observations.dtype)
    young = jnp.minimum(age, 255).astype(jnp.uint8)[None]
    return state._replace(
        observations=jax.lax.dynamic_update_slice(state.observations, flat, (slot, 0, 0)),
        age=jax.lax.dynamic_update_slice(state.age, young, (slot, 0)),
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
    """Draw a batch in proportion to the priorities; the weights undo the bias, as far as the exponent says."""
    leaf = priorities.sample(state.tree, key, batch_size)
    transition = _windows(state, leaf, observation_shape, stack)
    if isinstance(importance_exponent, float) and importance_exponent == 0:
        return Batch(transition, jnp.ones(batch_size), leaf)
    priority = state.tree[0][leaf]
    # w = (count * P)^-b / max w: the count and the total cancel, the rarest row of the batch has weight 1.
    weight = (priority / jnp.min(priority)) ** -importance_exponent
    return Batch(transition, weight, leaf)


def sample_each(
    state: ReplayState, keys: Array, batch_size: int, observation_shape: tuple[int, ...], stack: int
) -> Batch:
    """[U, B] what `sample` draws with each of the keys [U] and no importance weights, all at once."""
    leaf = priorities.sample_each(state.tree, keys, batch_size)
    drawn = Batch(_windows(state, leaf.reshape(-1), observation_shape, stack), jnp.ones(leaf.size), leaf.reshape(-1))
    return jax.tree.map(lambda column: column.reshape(*leaf.shape, *column.shape[1:]), drawn)


def _windows(state: ReplayState, leaf: Array, shape: tuple[int, ...], stack: int) -> Transition:
    """The windows that start at rows `leaf` [B]."""
    if native.usable(state.reward, state.discount):
        ring = (state.observations, state.age, state.action, state.reward, state.discount, state.span)
        found = native_sampling.drawn(*ring, leaf, stack, shape[-1])
        whole = (leaf.shape[0], *shape[:-1], stack * shape[-1])
        return Transition(
            found.s_tm1.reshape(whole), found.action, found.reward, found.discount, found.s_t.reshape(whole)
        )
    num_ticks, num_envs = state.age.shape
    row, env = leaf // num_envs, leaf % num_envs
    following = (row + state.span[row, env]) % num_ticks
    return Transition(
        s_tm1=stacked(state, row, env, shape, stack),
        a_tm1=state.action[row, env],
        r_t=state.reward[row, env],
        discount_t=state.discount[row, env],
        s_t=stacked(state, following, env, shape, stack),
    )


def reprioritise(state: ReplayState, leaf: Array, loss: Array, exponent: float) -> ReplayState:
    """Give the rows at `leaf` [B] the priority of their new `loss` [B]."""
    raised = (jnp.abs(loss) + 1e-6) ** exponent
    return state._replace(
        tree=priorities.write(state.tree, leaf, raised), largest=jnp.maximum(state.largest, jnp.max(raised))
    )


def forget_actions(state: ReplayState, forgotten: Array) -> ReplayState:
    """Never draw windows again that start with an action whose entry in `forgotten` [A] is true."""
    leaves = state.tree[0]
    gone = jnp.zeros(leaves.shape, bool).at[: state.action.size].set(forgotten[state.action].reshape(-1))
    return state._replace(tree=priorities.rebuild(state.tree, jnp.where(gone, 0.0, leaves)))


def stacked(state: ReplayState, row: Array, env: Array, shape: tuple[int, ...], stack: int) -> Array:
    """[B, *shape] with the last axis times `stack`: the newest frames, zeros before the episode began."""
    if native.available():
        frames = native_sampling.stacked(state.observations, state.age, row, env, stack, shape[-1])
        return frames.reshape(row.shape[0], *shape[:-1], stack * shape[-1])
    back = jnp.arange(stack - 1, -1, -1)
    frames = state.observations[(row[:, None] - back) % state.age.shape[0], env[:, None]]  # [B, stack, D]
    known = back <= state.age[row, env][:, None]
    frames = jnp.where(known[..., None], frames, 0).astype(frames.dtype)
    return join_stack(frames.reshape(*frames.shape[:2], *shape))


def join_stack(frames: Array) -> Array:
    """[B, stack, ..., C] to [B, ..., stack * C]: frames become channels, newest last."""
    moved = jnp.moveaxis(frames, 1, -2)
    return moved.reshape(*moved.shape[:-2], -1)
