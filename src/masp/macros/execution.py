"""Playing macros in a batch of environments, each at its own position in its own macro.

A macro is a semi-Markov step: its reward is the sum of gamma^i r_i over the steps that were played, its discount
gamma^steps, or 0 if the episode terminated (or a life was lost). A macro stops early when the episode ends, and before
a primitive that the environment's action mask forbids. All functions are pure and elementwise over [N] environments;
both training loops use them.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class MacroState(NamedTuple):
    """The decision that each environment is playing, and its progress."""

    action: Array  # [N] int32, the decision being played
    position: Array  # [N] int32, steps already played; 0 if a decision is due
    reward: Array  # [N], sum of gamma^i r_i so far
    discount: Array  # [N], gamma^position


class Decision(NamedTuple):
    """The decisions that ended in this tick; entries without `done` are meaningless."""

    done: Array  # [N] bool
    action: Array  # [N] int32
    reward: Array  # [N], sum of gamma^i r_i over the steps played
    discount: Array  # [N], gamma^steps, 0 where terminated
    steps: Array  # [N] int32
    last: Array  # [N] bool, later rewards do not belong to the same return


def init(num_envs: int) -> MacroState:
    """The initial state: a decision is due in every environment."""
    zeros = jnp.zeros(num_envs, jnp.int32)
    return MacroState(zeros, zeros, jnp.zeros(num_envs), jnp.ones(num_envs))


def begin(state: MacroState, choice: Array) -> MacroState:
    """Start the action `choice` [N] where a decision is due; macros in progress continue."""
    return state._replace(action=jnp.where(state.position == 0, choice, state.action))


def primitives(state: MacroState, table: Array) -> Array:
    """[N] the next primitive of each environment; `table` is `ActionSet.table` [A, longest]."""
    return table[state.action, state.position]


def allowed_actions(mask: Array, table: Array) -> Array:
    """[..., A] whether each action is allowed, as its first primitive is; `mask` [..., primitives]."""
    return mask[..., table[:, 0]]


def next_is_forbidden(state: MacroState, mask: Array, table: Array) -> Array:
    """[N] whether `mask` [N, primitives], of the state after a step, forbids the next primitive of the macro.

    After the last step of an action the answer is meaningless.
    """
    following = jnp.minimum(state.position + 1, table.shape[1] - 1)
    next_primitive = table[state.action, following]
    return ~jnp.take_along_axis(mask, next_primitive[:, None], axis=1)[:, 0]


def advance(
    state: MacroState,
    reward: Array,
    terminated: Array,
    truncated: Array,
    idle: Array,
    lengths: Array,
    gamma: float,
    forbidden: Array | bool = False,
) -> tuple[MacroState, Decision]:
    """Account for one step of each environment.

    Args:
      reward: [N] reward of the step just played.
      terminated: [N] bool, the return does not bootstrap (end of the episode, or a lost life where that counts).
      truncated: [N] bool, the episode was cut; the return bootstraps.
      idle: [N] bool, environments that were reset in this tick and played no step.
      lengths: [A] int32, `ActionSet.lengths`.
      forbidden: [N] bool, the macro cannot go on, see `next_is_forbidden`.
    """
    steps = state.position + 1
    cumulative_reward = state.reward + state.discount * reward
    discount = state.discount * gamma
    last = terminated | truncated
    done = (last | (steps >= lengths[state.action]) | forbidden) & ~idle
    decision = Decision(done, state.action, cumulative_reward, jnp.where(terminated, 0.0, discount), steps, last)
    restart = done | idle
    next_state = MacroState(
        action=state.action,
        position=jnp.where(restart, 0, steps),
        reward=jnp.where(restart, 0.0, cumulative_reward),
        discount=jnp.where(restart, 1.0, discount),
    )
    return next_state, decision
