"""Which actions are alike in a state: those that are predicted to bring the same.

The paper's similarity is one matrix for all states, its first limitation. Whether two macros do the same depends on
the state: against a wall, "up, left" and "left" do. So what an action brings is predicted, linearly in the features x
of the state (`features.py`). Outcomes are of three kinds: the place (how the features change), the reward, and whether
the episode ends.

  f_a(s) = (M + M_a) x(s)
  S(s)[a, b] = exp(- sharpness * sum over kinds k of r_k |f_a(s) - f_b(s)|_k^2 )

M is shared by all actions, M_a, what is particular to one, begins at nothing: what was never tried is like everything
else. r_k is one over the variance of the outcomes of the kind, so that no scale plays a part, times the share of it
that is predicted, so that what cannot be told does not tell actions apart. (The sharpness of each kind can be learned
by meta-gradient: tried, and no better, docs/does-it-work.md.)
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.replay import Transition

SHARPNESS = 5.0
"""Actions whose outcomes differ by as much as outcomes vary are alike by exp(-5)."""
LEAST_SHARE = 0.01
"""Of an outcome that counts as predicted. Where rewards are mostly noise the share is a few hundredths; were its
estimate 0 for a while, what is known of the order of actions would be forgotten (docs/does-it-work.md)."""
STATES = 16
"""Of a batch that the penalty looks at: a matrix of all pairs for each of them is most of what this costs."""
SLOWEST = 1e-3
"""Rate of the running means and variances, once they know more than that many batches."""
MEMORY = 0.99
"""Of the mean over states, which is what is shown and carried to other tasks; per update."""
WIDEST = 64
"""Up to so many features of a state are predicted one by one."""
MIXED = 24
"""So many random mixtures of them are predicted instead, where there are more: these keep distances about right."""


class Outcomes(NamedTuple):
    """What is known of where actions lead; F features, O outcomes: places, reward, end."""

    shared: Array  # [O, F]
    own: Array  # [A, O, F], what is particular to each action
    shared_seen: Array  # [3, F] how much was seen of each weight: the inverse of its variance, without the prior
    own_seen: Array  # [A, 3, F]
    mix: Array  # [F, O - 2] from features to places: the identity, or random directions
    weight: Array  # [] of all transitions
    usual: Array  # [F] mean square of the features
    mean: Array  # [O] of outcomes
    square: Array  # [O] mean square of outcomes
    error: Array  # [O] mean square of what was predicted wrongly


def init(key: Array, num_actions: int, size: int) -> Outcomes:
    """Nothing was seen of any action; states have `size` features."""
    width = size if size <= WIDEST else MIXED
    mix = jnp.eye(size) if width == size else jax.random.normal(key, (size, width)) / width**0.5
    outcomes = jnp.zeros(width + 2)
    return Outcomes(
        shared=jnp.zeros((width + 2, size)),
        own=jnp.zeros((num_actions, width + 2, size)),
        shared_seen=jnp.zeros((3, size)),
        own_seen=jnp.zeros((num_actions, 3, size)),
        mix=mix,
        weight=jnp.zeros(()),
        usual=jnp.zeros(size),
        mean=outcomes,
        square=outcomes,
        error=outcomes,
    )


def alike(known: Outcomes, x: Array) -> Array:
    """[B, A, A] the similarity of actions in states with features x [B, F]; a constant, no gradient goes through it."""
    scaled = _own_parts(known, x) * jnp.sqrt(_relevance(known))  # what is shared tells no two apart
    squares = jnp.sum(jnp.square(scaled), axis=-1)
    products = jnp.einsum("bao,bco->bac", scaled, scaled)
    apart = jnp.maximum(squares[:, :, None] + squares[:, None, :] - 2 * products, 0.0)
    apart = jnp.where(jnp.eye(len(known.own), dtype=bool), 0.0, apart)
    return jax.lax.stop_gradient(jnp.exp(-SHARPNESS * apart))


def _own_parts(known: Outcomes, x: Array) -> Array:
    """[B, A, O] M_a x of all actions, as one product."""
    actions, outcomes, features = known.own.shape
    return (x @ known.own.reshape(-1, features).T).reshape(-1, actions, outcomes)


def _relevance(known: Outcomes) -> Array:
    """[O] what a squared difference counts: one over the variance of outcomes, times the share that is predicted."""
    variance = _variance(known)
    explained = jnp.clip(1 - _by_kind(known, known.error) / jnp.maximum(variance, 1e-12), LEAST_SHARE, 1.0)
    return _for_each(known, jnp.where(variance > 1e-12, explained / jnp.maximum(variance, 1e-12), 0.0))


def learn(known: Outcomes, x_tm1: Array, x_t: Array, seen: Transition, weight: Array) -> Outcomes:
    """After a batch of transitions, each of exactly one decision.

    A Kalman filter that keeps the variance of every weight but no covariances. Where features come one at a time
    (one-hot) it is a running mean; where several are to blame for an error, they share it by how uncertain they are.
    All transitions of a batch are taken in at once, so each counts in the shares of the others.

    Args:
      x_tm1: [B, F] features before the action, `x_t` after it.
      weight: [B] importance of each transition: what is drawn more often for its surprise counts less.
    """
    a = seen.a_tm1
    led = jnp.concatenate([(x_t - x_tm1) @ known.mix, seen.r_t[:, None], (seen.discount_t == 0)[:, None]], axis=1)
    wrong = led - x_tm1 @ known.shared.T - _own_parts(known, x_tm1)[jnp.arange(len(a)), a]
    all_weight = known.weight + jnp.sum(weight)
    rate = jnp.maximum(jnp.sum(weight) / jnp.maximum(all_weight, 1e-12), SLOWEST)

    def towards(mean: Array, values: Array) -> Array:
        return mean + rate * (jnp.average(values, axis=0, weights=weight) - mean)

    known = known._replace(
        weight=all_weight,
        usual=towards(known.usual, jnp.square(x_tm1)),
        mean=towards(known.mean, led),
        square=towards(known.square, jnp.square(led)),
        error=towards(known.error, jnp.square(wrong)),
    )
    noise = _by_kind(known, known.error) / jnp.maximum(_variance(known), 1e-12)  # [3] share that is not explained
    noise = jnp.clip(noise, 1e-3, 1.0)
    size = jnp.square(x_tm1)  # [B, F]
    chosen = jax.nn.one_hot(a, len(known.own), dtype=x_tm1.dtype)  # [B, A]: products are quicker than scattering
    there = weight[:, None] * (size > 0)
    times_shared, times_own = jnp.sum(there, axis=0), chosen @ (chosen.T @ there)  # [F], [B, F]
    ours, mine = _uncertainty(known, known.shared_seen), _uncertainty(known, known.own_seen)[a]  # [3, F], [B, 3, F]
    ours_part = size[:, None] * ours * times_shared  # [B, 3, F]
    mine_part = size[:, None] * mine * times_own[:, None]
    total = jnp.sum(ours_part + mine_part, axis=-1, keepdims=True) + noise[:, None]  # [B, 3, 1]
    evidence = weight[:, None, None] * size[:, None]
    step = weight[:, None, None] * x_tm1[:, None] / total  # [B, 3, F]

    def moved(which: int, errors: Array) -> tuple[Array, Array]:
        """[O', F] and [A, O', F] steps of the weights of one kind of outcome, for errors [B, O']."""
        by_action = (chosen[:, :, None] * errors[:, None]).reshape(len(a), -1)
        own = by_action.T @ (mine * step)[:, which]
        return ours[which] * (errors.T @ step[:, which]), own.reshape(len(known.own), -1, x_tm1.shape[1])

    parts = jnp.split(wrong, np.cumsum(_kinds(known))[:-1], axis=1)
    shared, own = zip(*(moved(which, errors) for which, errors in enumerate(parts)), strict=True)
    return known._replace(
        shared=known.shared + jnp.concatenate(shared),
        own=known.own + jnp.concatenate(own, axis=1),
        shared_seen=known.shared_seen + jnp.sum(evidence / (total - ours_part), axis=0),
        own_seen=known.own_seen + jnp.einsum("ba,bkf->akf", chosen, evidence / (total - mine_part)),
    )


def _kinds(known: Outcomes) -> tuple[int, int, int]:
    """How many outcomes there are of each kind."""
    return known.mean.shape[-1] - 2, 1, 1


def _for_each(known: Outcomes, by_kind: Array, axis: int = 0) -> Array:
    """[.., O, ..] the values of every outcome's kind [.., 3, ..]."""
    return jnp.repeat(by_kind, np.array(_kinds(known)), axis=axis, total_repeat_length=known.mean.shape[-1])


def _by_kind(known: Outcomes, values: Array) -> Array:
    """[3] sums of [O]."""
    return jnp.array([jnp.sum(values[:-2]), values[-2], values[-1]])


def _variance(known: Outcomes) -> Array:
    """[3] of outcomes; for places, how far they are from their mean."""
    return _by_kind(known, jnp.maximum(known.square - jnp.square(known.mean), 0.0))


def _uncertainty(known: Outcomes, seen: Array) -> Array:
    """[..., F] variance of weights, in units of the variance of outcomes; all of it is prior at first.

    The prior is such that features explain, together, as much as there is.
    """
    prior = known.usual.size * known.usual
    return jnp.where(known.usual > 0, 1.0 / jnp.maximum(prior + seen, 1e-12), 0.0)


def forget(known: Outcomes, forgotten: Array) -> Outcomes:
    """As if the actions `forgotten` [A] had never been tried."""
    return known._replace(
        own=jnp.where(forgotten[:, None, None], 0.0, known.own),
        own_seen=jnp.where(forgotten[:, None, None], 0.0, known.own_seen),
    )


def remember(similarity: Array, alike: Array) -> Array:
    """[A, A] the running mean over states, one batch [B, A, A] on."""
    return MEMORY * similarity + (1 - MEMORY) * jnp.mean(alike, axis=0)
