"""n-step returns over decisions of different lengths.

A window opens with each decision and closes after n decisions or with the episode, whichever comes first. Rewards
are weighted by the product of the discounts of the decisions before them, so decisions of any length mix.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from masp.macros.execution import Decision


class WindowState(NamedTuple):
    """The open windows of N environments, at most n each."""

    open: Array  # [N, n] bool
    start: Array  # [N, n] int32, tick of the window's first decision
    action: Array  # [N, n] int32, that decision
    reward: Array  # [N, n], discounted return so far
    discount: Array  # [N, n], product of the discounts so far
    decisions: Array  # [N, n] int32, decisions completed in it


class Windows(NamedTuple):
    """Windows that closed at this tick; entries that are not `closed` are meaningless."""

    closed: Array  # [N, n] bool
    start: Array  # [N, n] int32
    action: Array  # [N, n] int32
    reward: Array  # [N, n]
    discount: Array  # [N, n]


def init(num_envs: int, n: int) -> WindowState:
    """No window is open."""
    shape = (num_envs, n)
    integers = jnp.zeros(shape, jnp.int32)
    return WindowState(jnp.zeros(shape, bool), integers, integers, jnp.zeros(shape), jnp.ones(shape), integers)


def begin(state: WindowState, due: Array, action: Array, tick: Array) -> WindowState:
    """Open a window where one is `due` [N]; the first free slot takes it."""
    # A window stays open for at most n - 1 later decisions, so one of the n slots is always free here.
    fresh = due[:, None] & jax.nn.one_hot(jnp.argmin(state.open, axis=1), state.open.shape[1], dtype=bool)
    return WindowState(
        open=state.open | fresh,
        start=jnp.where(fresh, tick, state.start),
        action=jnp.where(fresh, action[:, None], state.action),
        reward=jnp.where(fresh, 0.0, state.reward),
        discount=jnp.where(fresh, 1.0, state.discount),
        decisions=jnp.where(fresh, 0, state.decisions),
    )


def extend(state: WindowState, decision: Decision) -> tuple[WindowState, Windows]:
    """Add the decisions that ended at this tick, in [N] environments, to all open windows; close complete ones."""
    n = state.open.shape[1]
    grows = state.open & decision.done[:, None]
    reward = jnp.where(grows, state.reward + state.discount * decision.reward[:, None], state.reward)
    discount = jnp.where(grows, state.discount * decision.discount[:, None], state.discount)
    decisions = state.decisions + grows
    closed = grows & ((decisions == n) | decision.last[:, None])
    following = state._replace(open=state.open & ~closed, reward=reward, discount=discount, decisions=decisions)
    return following, Windows(closed, state.start, state.action, reward, discount)
