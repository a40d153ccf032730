"""Which actions are alike in a state: those that are predicted to lead to the same place.

The paper's similarity is one matrix for all states, its first limitation. Whether two macros do the same depends on
the state: against a wall, "up, left" and "left" do. So each action learns a linear map from the observation to the one
after it, and in a state two actions are alike as far as their predictions agree:

  f_a(s) = M_a s,   S(s)[a, b] = exp(- sharpness |f_a(s) - f_b(s)|^2 / m)

where m is the mean square of how far actions lead from where they are, over the batch: the scale of observations plays
no part. Every map begins as the identity: what was never tried leads nowhere, and is like everything else that does.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from masp.replay import Transition

SHARPNESS = 5.0
"""Actions that lead as far from each other as from where they are, are alike by exp(-5)."""
RATE = 0.3
"""Share of an error that one transition corrects, as if its state were met again (normalised least mean squares)."""
STATES = 16
"""Of a batch that the penalty looks at: a matrix of all pairs for each of them is most of what this costs."""
MEMORY = 0.99
"""Of the mean over states, which is what is shown and carried to other tasks; per update."""


def init(num_actions: int, size: int) -> Array:
    """[A, D, D] maps that lead nowhere."""
    return jnp.tile(jnp.eye(size), (num_actions, 1, 1))


def predict(maps: Array, s: Array) -> Array:
    """[A, D] where each action leads from the observation s [D]."""
    return maps @ s


def alike(maps: Array, states: Array) -> Array:
    """[B, A, A] the similarity of actions in each of the states [B, D]; a constant, no gradient goes through it."""
    states = states.astype(maps.dtype)
    places = jax.vmap(predict, (None, 0))(maps, states)  # [B, A, D]
    away = jnp.sum(jnp.square(places - states[:, None]), axis=-1)  # [B, A]
    squares = jnp.sum(jnp.square(places), axis=-1)
    products = jnp.einsum("bad,bcd->bac", places, places)
    apart = jnp.maximum(squares[:, :, None] + squares[:, None, :] - 2 * products, 0.0)
    scale = jnp.maximum(jnp.mean(away), 1e-12)
    # Rounding leaves a little between equal places, which the first tiny steps away from the identity would magnify.
    apart = jnp.where(apart > 1e-5 * jnp.mean(squares), apart, 0.0)
    return jax.lax.stop_gradient(jnp.exp(-SHARPNESS * apart / scale))


def learn(maps: Array, seen: Transition) -> Array:
    """[A, D, D] the maps after a batch of transitions, each of exactly one decision.

    Transitions of the same action share a step, so that many of one are not many times a step.
    """
    s, a = seen.s_tm1.astype(maps.dtype), seen.a_tm1
    error = seen.s_t.astype(maps.dtype) - jnp.einsum("bij,bj->bi", maps[a], s)
    times = jnp.zeros(len(maps), maps.dtype).at[a].add(1.0)
    size = jnp.maximum(jnp.sum(jnp.square(s), axis=-1), 1e-12)
    rate = RATE / (times[a] * size)
    return maps.at[a].add(rate[:, None, None] * error[:, :, None] * s[:, None, :])


def remember(similarity: Array, alike: Array) -> Array:
    """[A, A] the running mean over states, one batch [B, A, A] on."""
    return MEMORY * similarity + (1 - MEMORY) * jnp.mean(alike, axis=0)
