"""n-step returns over decisions of different lengths.

A window opens with each decision and closes after n decisions or with the episode, whichever comes first. Rewards
are weighted by the product of the discounts of the decisions before them, so decisions of any length mix.

Windows of steps open at every step: with the action that is decided on there, or inside a macro with the primitive
that it plays. They close n - 1 steps after their first action would have come to its end.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from masp.macros.execution import Decision


class WindowState(NamedTuple):
    """The open windows of N environments, at most W each: n, or as many as steps can overlap."""

    open: Array  # [N, W] bool
    start: Array  # [N, W] int32, tick of the window's first decision
    action: Array  # [N, W] int32, that decision
    reward: Array  # [N, W], discounted return so far
    discount: Array  # [N, W], product of the discounts so far
    decisions: Array  # [N, W] int32, decisions (or steps) completed in it


class Windows(NamedTuple):
    """Windows that closed at this tick; entries that are not `closed` mean nothing."""

    closed: Array  # [N, W] bool
    start: Array  # [N, W] int32
    action: Array  # [N, W] int32
    reward: Array  # [N, W]
    discount: Array  # [N, W]


def init(num_envs: int, most: int) -> WindowState:
    """No window is open; at most `most` are at a time."""
    shape = (num_envs, most)
    integers = jnp.zeros(shape, jnp.int32)
    return WindowState(jnp.zeros(shape, bool), integers, integers, jnp.zeros(shape), jnp.ones(shape), integers)


def begin(state: WindowState, due: Array, action: Array, tick: Array) -> WindowState:
    """Open a window where one is `due` [N]; the first free slot takes it."""
    # A window outlives at most W - 1 later ones, so one of the W slots is always free here.
    fresh = due[:, None] & jax.nn.one_hot(jnp.argmin(state.open, axis=1), state.open.shape[1], dtype=bool)
    return WindowState(
        open=state.open | fresh,
        start=jnp.where(fresh, tick, state.start),
        action=jnp.where(fresh, action[:, None], state.action),
        reward=jnp.where(fresh, 0.0, state.reward),
        discount=jnp.where(fresh, 1.0, state.discount),
        decisions=jnp.where(fresh, 0, state.decisions),
    )


def extend(state: WindowState, decision: Decision, needed: Array | int) -> tuple[WindowState, Windows]:
    """Add the decisions that ended at this tick to all open windows; close those that have what is `needed`.

    Args:
      decision: of [N] environments; for windows of steps, each step is one.
      needed: decisions in a complete window: n, or [N, W] steps.
    """
    grows = state.open & decision.done[:, None]
    reward = jnp.where(grows, state.reward + state.discount * decision.reward[:, None], state.reward)
    discount = jnp.where(grows, state.discount * decision.discount[:, None], state.discount)
    decisions = state.decisions + grows
    closed = grows & ((decisions == needed) | decision.last[:, None])
    following = state._replace(open=state.open & ~closed, reward=reward, discount=discount, decisions=decisions)
    return following, Windows(closed, state.start, state.action, reward, discount)
