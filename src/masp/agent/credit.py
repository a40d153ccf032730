"""Credit inside macros: what was played also teaches every other action that would have played the same.

From a row on, an action is *consistent* with what was played if its primitives are those that followed, up to its
length or to the end of the episode (or life), where any macro stops. What it would have brought is then known exactly,
although the agent decided on something else: the first step of a macro, its prefixes, the steps in its middle, and
every macro that begins the same way (intra-option learning: Sutton, Precup & Singh 1998).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from masp.agent import replay
from masp.agent.replay import Batch, ReplayState, Transition
from masp.environments.base import Step

GOES_ON, CUT, TERMINATED = 0, 1, 2
"""What follows a step: another one; a value, though nothing was seen (truncation); nothing (a lost life counts)."""


class Steps(NamedTuple):
    """The single steps of T ticks of N environments, a ring beside the replay's; rows of ticks that only reset are
    never looked at."""

    primitive: Array  # [T, N] int32
    reward: Array  # [T, N], clipped where learning clips
    end: Array  # [T, N] uint8: GOES_ON, CUT or TERMINATED


class Continuations(NamedTuple):
    """What each action would have brought from each row on; entries that are not `consistent` mean nothing."""

    consistent: Array  # [B, A] bool
    reward: Array  # [B, A], sum of gamma^i r_i
    discount: Array  # [B, A], gamma^steps, 0 where terminated
    steps: Array  # [B, A] int32, steps until its end or the episode's


def init(num_ticks: int, num_envs: int) -> Steps:
    """Nothing played."""
    grid = (num_ticks, num_envs)
    return Steps(jnp.zeros(grid, jnp.int32), jnp.zeros(grid), jnp.zeros(grid, jnp.uint8))


def write(steps: Steps, tick: Array, primitives: Array, reward: Array, step: Step) -> Steps:
    """Add what N environments played at `tick`, in the place of the oldest row; `reward` [N] as it is learned from."""
    at = (tick % steps.end.shape[0], 0)
    end = jnp.where(step.terminated | step.life_lost, TERMINATED, jnp.where(step.truncated, CUT, GOES_ON))

    def row(ring: Array, values: Any) -> Array:
        return jax.lax.dynamic_update_slice(ring, jnp.asarray(values)[None].astype(ring.dtype), at)

    return Steps(row(steps.primitive, primitives), row(steps.reward, reward), row(steps.end, end))


def continuations(
    steps: Steps, tick: Array, row: Array, env: Array, table: Array, lengths: Array, gamma: float
) -> Continuations:
    """All actions, judged by what was played from rows `row`, `env` [B] on; something was played in each of them.

    Args:
      tick: [] how many ticks were played: the row of the newest observation, where no step was played yet.
      table: [A, longest] primitives of every action.
      lengths: [A] int32.
    """
    num_ticks, longest = steps.end.shape[0], table.shape[1]
    ahead = jnp.arange(longest)
    at = ((row[:, None] + ahead) % num_ticks, env[:, None])
    primitive, reward, end = steps.primitive[at], steps.reward[at], steps.end[at]  # [B, longest]
    known = (tick - row) % num_ticks  # [B] steps that were played from there on; beyond lie the oldest rows
    over = (end != GOES_ON) & (ahead < known[:, None])
    until_over = jnp.where(jnp.any(over, axis=1), jnp.argmax(over, axis=1) + 1, longest)
    count = jnp.minimum(lengths, until_over[:, None])  # [B, A]
    beyond = ahead >= count[..., None]  # [B, A, longest]
    same = jnp.all((table == primitive[:, None]) | beyond, axis=2)
    # Sums over 1, 2, ... steps; those that reach beyond what is known belong to no consistent action.
    returns = jnp.cumsum(gamma**ahead * reward, axis=1)
    last = count - 1
    terminated = jnp.take_along_axis(end, last, axis=1) == TERMINATED
    return Continuations(
        consistent=same & (count <= known[:, None]),
        reward=jnp.take_along_axis(returns, last, axis=1),
        discount=jnp.where(terminated, 0.0, gamma ** count.astype(returns.dtype)),
        steps=count,
    )


def draw(
    memory: ReplayState,
    batch: Batch,
    key: Array,
    tick: Array,
    table: Array,
    lengths: Array,
    gamma: float,
    observation_shape: tuple[int, ...],
    stack: int,
) -> Batch:
    """`batch` with one more transition of a single decision from inside each of its windows [B].

    A row is drawn uniformly from those of the window, of whichever decision; then an action from those consistent
    there, of which the primitive played is always one. The transition has the importance weight of its window, which
    corrects for how the window was drawn.
    """
    num_ticks, num_envs = memory.age.shape
    key_row, key_action = jax.random.split(key)
    start, env = batch.leaf // num_envs, batch.leaf % num_envs
    row = (start + _below(memory.span[start, env], key_row)) % num_ticks
    told = continuations(memory.steps, tick, row, env, table, lengths, gamma)
    which = _below(jnp.sum(told.consistent, axis=1), key_action)
    action = jnp.argmax(jnp.cumsum(told.consistent, axis=1) > which[:, None], axis=1).astype(jnp.int32)

    def chosen(values: Array) -> Array:
        return jnp.take_along_axis(values, action[:, None], axis=1)[:, 0]

    following = (row + chosen(told.steps)) % num_ticks
    transition = Transition(
        s_tm1=replay.stacked(memory, row, env, observation_shape, stack),
        a_tm1=action,
        r_t=chosen(told.reward),
        discount_t=chosen(told.discount),
        s_t=replay.stacked(memory, following, env, observation_shape, stack),
    )
    both = jax.tree.map(lambda *rows: jnp.concatenate(rows), batch.transition, transition)
    return Batch(both, jnp.concatenate([batch.weight, batch.weight]), batch.leaf)


def _below(limit: Array, key: Array) -> Array:
    """[B] whole numbers, each uniform below its own `limit` [B]."""
    drawn = (jax.random.uniform(key, limit.shape) * limit).astype(jnp.int32)
    return jnp.minimum(drawn, limit - 1)
