"""Playing macros in a batch of environments, each at its own position in its own macro.

A macro is a semi-Markov step: its reward is the sum of gamma^i r_i over the steps really played, its discount
gamma^steps, or 0 where the episode (or a life) was lost. It ends early with the episode. Everything here is pure and
elementwise over [N] environments; both training loops use it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class MacroState(NamedTuple):
    """What every environment is in the middle of."""

    action: Array  # [N] int32, the decision being played
    position: Array  # [N] int32, steps of it already played; 0 means that a decision is due
    reward: Array  # [N], sum of gamma^i r_i so far
    discount: Array  # [N], gamma^position


class Decision(NamedTuple):
    """What the decisions that ended at this tick brought; entries that are not `done` mean nothing."""

    done: Array  # [N] bool
    action: Array  # [N] int32
    reward: Array  # [N], sum of gamma^i r_i over the steps played
    discount: Array  # [N], gamma^steps, 0 where terminated
    steps: Array  # [N] int32
    last: Array  # [N] bool, nothing after it belongs to the same return


def init(num_envs: int) -> MacroState:
    """Every environment is due for a decision."""
    zeros = jnp.zeros(num_envs, jnp.int32)
    return MacroState(zeros, zeros, jnp.zeros(num_envs), jnp.ones(num_envs))


def begin(state: MacroState, chosen: Array) -> MacroState:
    """Where a decision is due, take the `chosen` [N] one; macros under way go on."""
    return state._replace(action=jnp.where(state.position == 0, chosen, state.action))


def primitives(state: MacroState, table: Array) -> Array:
    """[N] the next primitive of every environment; `table` is `ActionSet.table` [A, longest]."""
    return table[state.action, state.position]


def advance(
    state: MacroState,
    reward: Array,
    terminated: Array,
    truncated: Array,
    idle: Array,
    lengths: Array,
    gamma: float,
) -> tuple[MacroState, Decision]:
    """Account for one step of every environment.

    Args:
      reward: [N] reward of the step just played.
      terminated: [N] bool, no value follows (end of the episode, or a lost life where that counts).
      truncated: [N] bool, the episode was cut; its value goes on.
      idle: [N] bool, environments that only reset in this tick and played nothing.
      lengths: [A] int32, `ActionSet.lengths`.
    """
    steps = state.position + 1
    total = state.reward + state.discount * reward
    discount = state.discount * gamma
    last = terminated | truncated
    done = (last | (steps >= lengths[state.action])) & ~idle
    decision = Decision(done, state.action, total, jnp.where(terminated, 0.0, discount), steps, last)
    stopped = done | idle
    following = MacroState(
        action=state.action,
        position=jnp.where(stopped, 0, steps),
        reward=jnp.where(stopped, 0.0, total),
        discount=jnp.where(stopped, 1.0, discount),
    )
    return following, decision


def single(
    primitives: Array, reward: Array, terminated: Array, truncated: Array, idle: Array, gamma: float
) -> Decision:
    """The step just played as a decision of its own for `primitives` [N], whatever macro it is part of."""
    discount = jnp.where(terminated, 0.0, jnp.full_like(reward, gamma))
    return Decision(~idle, primitives, reward, discount, jnp.ones_like(primitives), terminated | truncated)
