"""Intra-option learning: a step inside a macro also teaches every action that would have played the same.

From a row of the replay on, an action is *consistent* if its primitives equal those that were played, up to its length
or to the end of the episode (or life), where every macro stops, or to the first row whose action mask forbids its next
primitive, where it stops too. Its return is then known exactly, although the agent decided on another action: this
holds for the first step of a macro, for its prefixes, for the steps in its middle, and for every macro that begins the
same way (Sutton, Precup & Singh 1998). Consistency is judged by the run's own macros.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from masp.agent import replay
from masp.agent.replay import Batch, ReplayState, Transition
from masp.environments.base import Step
from masp.macros import execution

CONTINUES, TRUNCATED, TERMINATED = 0, 1, 2
"""What follows a step: another step; a value that is bootstrapped; nothing (a lost life counts as termination)."""


class Steps(NamedTuple):
    """The single steps of T ticks of N environments, a ring beside the replay's; rows of reset ticks are never read."""

    primitive: Array  # [T, N] int32
    reward: Array  # [T, N], clipped where learning clips
    end: Array  # [T, N] uint8: CONTINUES, TRUNCATED or TERMINATED


class Continuations(NamedTuple):
    """The transition of each action from each row on; entries that are not `consistent` are meaningless."""

    consistent: Array  # [B, A] bool
    reward: Array  # [B, A], sum of gamma^i r_i
    discount: Array  # [B, A], gamma^steps, 0 where terminated
    steps: Array  # [B, A] int32, steps to the end of the action or of the episode, or to a forbidden primitive


def init(num_ticks: int, num_envs: int) -> Steps:
    """An empty ring."""
    grid = (num_ticks, num_envs)
    return Steps(jnp.zeros(grid, jnp.int32), jnp.zeros(grid), jnp.zeros(grid, jnp.uint8))


def write(steps: Steps, tick: Array, primitives: Array, reward: Array, step: Step) -> Steps:
    """Store the steps of N environments at `tick` in place of the oldest row; `reward` [N] as it is learned from."""
    slot = (tick % steps.end.shape[0], 0)
    end = jnp.where(step.terminated | step.life_lost, TERMINATED, jnp.where(step.truncated, TRUNCATED, CONTINUES))

    def row(ring: Array, values: Any) -> Array:
        return jax.lax.dynamic_update_slice(ring, jnp.asarray(values)[None].astype(ring.dtype), slot)

    return Steps(row(steps.primitive, primitives), row(steps.reward, reward), row(steps.end, end))


def continuations(
    steps: Steps,
    tick: Array,
    row: Array,
    env: Array,
    table: Array,
    lengths: Array,
    gamma: float,
    masks: Array | None = None,
    more_steps: int = 0,
) -> Continuations:
    """All actions, compared with the steps played from rows (`row`, `env`) [B] on; each row has at least one step.

    Args:
      tick: [] ticks played so far: the row of the newest observation, which has no step yet.
      table: [A, longest] primitives of every action.
      lengths: [A] int32.
      masks: [T, N, P] bool, the action mask of each row; None: nothing is ever forbidden.
      more_steps: steps after the action that also count for its return.
    """
    num_ticks, longest = steps.end.shape[0], table.shape[1]
    offsets = jnp.arange(longest + more_steps)
    indices = ((row[:, None] + offsets) % num_ticks, env[:, None])
    primitive, reward, end = steps.primitive[indices], steps.reward[indices], steps.end[indices]  # [B, longest + more]
    available = (tick - row) % num_ticks  # [B] steps played since the row; rows beyond them are the oldest of the ring
    ended = (end != CONTINUES) & (offsets < available[:, None])
    steps_to_end = jnp.where(jnp.any(ended, axis=1), jnp.argmax(ended, axis=1) + 1, longest + more_steps)
    played = jnp.minimum(lengths, steps_to_end[:, None])  # [B, A] steps of the action
    if masks is not None:
        played = jnp.minimum(played, _steps_to_forbidden(masks[indices], table))
    after_end = offsets[:longest] >= played[..., None]  # [B, A, longest]
    same = jnp.all((table == primitive[:, None, :longest]) | after_end, axis=2)
    count = jnp.minimum(played + more_steps, steps_to_end[:, None])  # [B, A]
    # Sums over 1, 2, ... steps; those that reach beyond the available steps belong to no consistent action.
    returns = jnp.cumsum(gamma**offsets * reward, axis=1)
    last = count - 1
    terminated = jnp.take_along_axis(end, last, axis=1) == TERMINATED
    return Continuations(
        consistent=same & (count <= available[:, None]),
        reward=jnp.take_along_axis(returns, last, axis=1),
        discount=jnp.where(terminated, 0.0, gamma ** count.astype(returns.dtype)),
        steps=count,
    )


def _steps_to_forbidden(masks: Array, table: Array) -> Array:
    """[B, A] steps of each action before the first primitive that is forbidden; `masks` [B, longest, P] from a row on.

    A first primitive counts as allowed: where it is not, it was not played, so the action is not consistent.
    """
    longest = table.shape[1]
    forbidden = ~masks[:, jnp.arange(longest), table]  # [B, A, longest]
    forbidden = forbidden.at[..., 0].set(False)
    return jnp.where(jnp.any(forbidden, axis=2), jnp.argmax(forbidden, axis=2), longest)


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
    """`batch` with one more transition of a single decision from inside each of its windows in the replay.

    A row is drawn uniformly from those of the window, then an action uniformly from those consistent there, of which
    the primitive played is always one. The transition has the importance weight of its window, which corrects for how
    the window was drawn.
    """
    num_ticks, num_envs = memory.age.shape
    key_row, key_action = jax.random.split(key)
    start, env = batch.leaf // num_envs, batch.leaf % num_envs
    row = (start + _uniform_below(memory.span[start, env], key_row)) % num_ticks
    options = continuations(memory.steps, tick, row, env, table, lengths, gamma, memory.masks)
    action = choose(options.consistent, key_action)
    next_row = (row + of_action(options.steps, action)) % num_ticks
    transition = Transition(
        s_tm1=replay.stacked(memory, row, env, observation_shape, stack),
        a_tm1=action,
        r_t=of_action(options.reward, action),
        discount_t=of_action(options.discount, action),
        s_t=replay.stacked(memory, next_row, env, observation_shape, stack),
        allowed_t=None if memory.masks is None else execution.allowed_actions(memory.masks[next_row, env], table),
    )
    both = jax.tree.map(lambda *rows: jnp.concatenate(rows), batch.transition, transition)
    weight = jnp.concatenate([batch.weight, batch.weight[: len(batch.leaf)]])
    return batch._replace(transition=both, weight=weight)


def choose(consistent: Array, key: Array) -> Array:
    """[B] int32, an action uniformly from those that are `consistent` [B, A]."""
    rank = _uniform_below(jnp.sum(consistent, axis=1), key)
    return jnp.argmax(jnp.cumsum(consistent, axis=1) > rank[:, None], axis=1).astype(jnp.int32)


def of_action(values: Array, action: Array) -> Array:
    """[B] the entries of `values` [B, A] at `action` [B]."""
    return jnp.take_along_axis(values, action[:, None], axis=1)[:, 0]


def _uniform_below(limit: Array, key: Array) -> Array:
    """[B] integers, each uniform in 0..limit-1 for its own `limit` [B]."""
    integers = (jax.random.uniform(key, limit.shape) * limit).astype(jnp.int32)
    return jnp.minimum(integers, limit - 1)
