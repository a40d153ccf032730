"""A similarity for every state: actions are alike where they are predicted to have the same effect.

The paper's similarity is one matrix for all states, its first limitation. Whether two macros do the same depends on
the state: next to a wall, "up, left" and "left" do. So the outcome of an action is predicted, linearly in the
features x of the state (`features.py`). Outcomes are of three kinds: the change of the features, the reward, and
whether the episode ends.

  f_a(s) = (M + M_a) x(s)
  S(s)[a, b] = exp(- sharpness * sum over kinds k of r_k |f_a(s) - f_b(s)|_k^2 )

M is shared by all actions. M_a, the part of one action, starts at 0: an action that was never tried is like all others.
r_k is one over the variance of the outcomes of the kind, so that scales do not matter, times the explained share of
that variance, so that what cannot be predicted does not separate actions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.similarity.kinds import Evidence
from masp.similarity.matrix import Form, batch_penalty
from masp.similarity.metagradient import InnerStep

SHARPNESS = 5.0
"""Actions whose outcomes differ by as much as outcomes vary have a similarity of exp(-5)."""
MIN_EXPLAINED = 0.01
"""Smallest explained share of an outcome's variance. Where rewards are mostly noise the share is a few hundredths; an
estimate of 0 would for a while erase the order of actions (docs/log/2026-11-16-outcomes.md)."""
PENALTY_STATES = 16
"""States per batch that the penalty is computed on: the [A, A] matrix of each of them is most of the cost."""
MIN_RATE = 1e-3
"""Lowest rate of the running means and variances."""
MEAN_DECAY = 0.99
"""Decay per update of the mean over states, which is what is shown and exported."""
MAX_PREDICTED_FEATURES = 64
"""Up to this many features of a state are predicted one by one."""
NUM_PROJECTIONS = 24
"""With more features, this many random projections are predicted instead, which about preserve distances."""


class Model(NamedTuple):
    """A linear prediction of outcomes per action; F features, O outcomes: changes of features, reward, end."""

    shared: Array  # [O, F]
    own: Array  # [A, O, F], the part of each action
    shared_precision: Array  # [3, F] evidence for each weight: its inverse variance, without the prior
    own_precision: Array  # [A, 3, F]
    projection: Array  # [F, O - 2] from features to predicted features: the identity, or random directions
    total_weight: Array  # [] of all transitions
    feature_square: Array  # [F] mean square of the features
    mean: Array  # [O] of outcomes
    square: Array  # [O] mean square of outcomes
    error: Array  # [O] mean square of the prediction errors


class OutcomesState(NamedTuple):
    """The model, and the mean over states of the similarity that it predicts."""

    model: Model
    mean: Array  # [A, A]


@dataclass(frozen=True)
class Outcomes:
    """The kind of similarity (see `kinds.py`)."""

    features: Callable[[Array], Array]
    """[B, F] of observations [B, ...]."""
    num_actions: int
    form: Form
    windows_are_single: bool
    """Whether n-step windows are single decisions (n = 1), so that they teach the model too."""

    def init(self, key: Array, start: Array, step: InnerStep) -> OutcomesState:
        size = self.features(step.observations[:1]).shape[1]
        return OutcomesState(init(key, self.num_actions, size), start)

    def context(self, state: OutcomesState) -> Array:
        return state.mean

    def penalty(self, state: OutcomesState, q: Array, s_tm1: Array) -> Array:
        alike = predicted_similarity(state.model, self.features(s_tm1[:PENALTY_STATES]))
        return batch_penalty(q[:PENALTY_STATES], alike, self.form)

    def learn(self, state: OutcomesState, evidence: Evidence) -> tuple[OutcomesState, Array]:
        """The model learns from the single decisions of the batch."""
        first = 0 if self.windows_are_single else evidence.num_windows
        rows, weight = jax.tree.map(lambda column: column[first:], (evidence.transition, evidence.weight))
        model = learn(state.model, self.features(rows.s_tm1), self.features(rows.s_t), rows, weight)
        windows = evidence.transition.s_tm1[: evidence.num_windows]
        alike = predicted_similarity(model, self.features(windows[:PENALTY_STATES]))
        mean = MEAN_DECAY * state.mean + (1 - MEAN_DECAY) * jnp.mean(alike, axis=0)
        return OutcomesState(model, mean), jnp.zeros(())

    def keep(self, state: OutcomesState, step: InnerStep, updates: Array) -> OutcomesState:
        del step, updates
        return state


def init(key: Array, num_actions: int, size: int) -> Model:
    """A model that has seen nothing, for states with `size` features."""
    projection = outcome_projection(key, size)
    width = projection.shape[1]
    outcomes = jnp.zeros(width + 2)
    return Model(
        shared=jnp.zeros((width + 2, size)),
        own=jnp.zeros((num_actions, width + 2, size)),
        shared_precision=jnp.zeros((3, size)),
        own_precision=jnp.zeros((num_actions, 3, size)),
        projection=projection,
        total_weight=jnp.zeros(()),
        feature_square=jnp.zeros(size),
        mean=outcomes,
        square=outcomes,
        error=outcomes,
    )


def outcome_projection(key: Array, size: int) -> Array:
    """[F, O - 2] from features to predicted features: the identity, or random directions where there are many."""
    if size <= MAX_PREDICTED_FEATURES:
        return jnp.eye(size)
    return jax.random.normal(key, (size, NUM_PROJECTIONS)) / NUM_PROJECTIONS**0.5


def observed_outcomes(x_tm1: Array, x_t: Array, transition: Any, projection: Array) -> Array:
    """[B, O] changes of the projected features, reward and whether the episode ended."""
    ended = (transition.discount_t == 0)[:, None]
    return jnp.concatenate([(x_t - x_tm1) @ projection, transition.r_t[:, None], ended], axis=1)


def predicted_similarity(model: Model, x: Array) -> Array:
    """[B, A, A] similarity of actions in states with features x [B, F]; a constant, no gradient goes through it."""
    scaled = _own_outcomes(model, x) * jnp.sqrt(_relevance(model))  # the shared part cancels in every difference
    squares = jnp.sum(jnp.square(scaled), axis=-1)
    products = jnp.einsum("bao,bco->bac", scaled, scaled)
    distance = jnp.maximum(squares[:, :, None] + squares[:, None, :] - 2 * products, 0.0)
    distance = jnp.where(jnp.eye(len(model.own), dtype=bool), 0.0, distance)
    return jax.lax.stop_gradient(jnp.exp(-SHARPNESS * distance))


def _own_outcomes(model: Model, x: Array) -> Array:
    """[B, A, O] M_a x of all actions, as one product."""
    actions, outcomes, features = model.own.shape
    return (x @ model.own.reshape(-1, features).T).reshape(-1, actions, outcomes)


def _relevance(model: Model) -> Array:
    """[O] weight of a squared difference: one over the variance of outcomes, times its explained share."""
    variance = _variance(model)
    explained = jnp.clip(1 - _by_kind(model, model.error) / jnp.maximum(variance, 1e-12), MIN_EXPLAINED, 1.0)
    return _per_outcome(model, jnp.where(variance > 1e-12, explained / jnp.maximum(variance, 1e-12), 0.0))


def learn(model: Model, x_tm1: Array, x_t: Array, transition: Any, weight: Array) -> Model:
    """The model after a batch of transitions, each of exactly one decision.

    A Kalman filter with a diagonal covariance. Where features are one-hot it is a running mean; where several features
    share an error, they do so in proportion to their uncertainty. All transitions of a batch are taken in at once, so
    each counts in the shares of the others.

    Args:
      x_tm1: [B, F] features before the action, `x_t` after it.
      transition: with `a_tm1`, `r_t` and `discount_t`, all [B].
      weight: [B] importance weights.
    """
    a = transition.a_tm1
    outcome = observed_outcomes(x_tm1, x_t, transition, model.projection)
    error = outcome - x_tm1 @ model.shared.T - _own_outcomes(model, x_tm1)[jnp.arange(len(a)), a]
    model = _with_moments(model, x_tm1, outcome, error, weight)
    noise = jnp.clip(_by_kind(model, model.error) / jnp.maximum(_variance(model), 1e-12), 1e-3, 1.0)  # [3]
    size = jnp.square(x_tm1)  # [B, F]
    one_hot = jax.nn.one_hot(a, len(model.own), dtype=x_tm1.dtype)  # [B, A]: products are quicker than scattering
    active = weight[:, None] * (size > 0)
    count_shared, count_own = jnp.sum(active, axis=0), one_hot @ (one_hot.T @ active)  # [F], [B, F]
    var_shared, var_own = _uncertainty(model, model.shared_precision), _uncertainty(model, model.own_precision)[a]
    shared_part = size[:, None] * var_shared * count_shared  # [B, 3, F]
    own_part = size[:, None] * var_own * count_own[:, None]
    total = jnp.sum(shared_part + own_part, axis=-1, keepdims=True) + noise[:, None]  # [B, 3, 1]
    evidence = weight[:, None, None] * size[:, None]
    gain = weight[:, None, None] * x_tm1[:, None] / total  # [B, 3, F]

    def steps(kind: int, errors: Array) -> tuple[Array, Array]:
        """[O', F] and [A, O', F] changes of the weights of one kind of outcome, for errors [B, O']."""
        by_action = (one_hot[:, :, None] * errors[:, None]).reshape(len(a), -1)
        own = by_action.T @ (var_own * gain)[:, kind]
        return var_shared[kind] * (errors.T @ gain[:, kind]), own.reshape(len(model.own), -1, x_tm1.shape[1])

    parts = jnp.split(error, np.cumsum(_kind_sizes(model))[:-1], axis=1)
    shared, own = zip(*(steps(kind, errors) for kind, errors in enumerate(parts)), strict=True)
    return model._replace(
        shared=model.shared + jnp.concatenate(shared),
        own=model.own + jnp.concatenate(own, axis=1),
        shared_precision=model.shared_precision + jnp.sum(evidence / (total - shared_part), axis=0),
        own_precision=model.own_precision + jnp.einsum("ba,bkf->akf", one_hot, evidence / (total - own_part)),
    )


def _with_moments(model: Model, x: Array, outcome: Array, error: Array, weight: Array) -> Model:
    """The model with its running means and squares one batch further."""
    total_weight = model.total_weight + jnp.sum(weight)
    rate = jnp.maximum(jnp.sum(weight) / jnp.maximum(total_weight, 1e-12), MIN_RATE)

    def towards(mean: Array, values: Array) -> Array:
        return mean + rate * (jnp.average(values, axis=0, weights=weight) - mean)

    return model._replace(
        total_weight=total_weight,
        feature_square=towards(model.feature_square, jnp.square(x)),
        mean=towards(model.mean, outcome),
        square=towards(model.square, jnp.square(outcome)),
        error=towards(model.error, jnp.square(error)),
    )


def _kind_sizes(model: Model) -> tuple[int, int, int]:
    """Number of outcomes of each kind."""
    return model.mean.shape[-1] - 2, 1, 1


def _per_outcome(model: Model, by_kind: Array) -> Array:
    """[O] the value [3] of every outcome's kind."""
    return jnp.repeat(by_kind, np.array(_kind_sizes(model)), total_repeat_length=model.mean.shape[-1])


def _by_kind(model: Model, values: Array) -> Array:
    """[3] sums of [O]."""
    return jnp.array([jnp.sum(values[:-2]), values[-2], values[-1]])


def _variance(model: Model) -> Array:
    """[3] variance of outcomes by kind; that of features is the sum over features."""
    return _by_kind(model, jnp.maximum(model.square - jnp.square(model.mean), 0.0))


def _uncertainty(model: Model, precision: Array) -> Array:
    """[..., F] variance of weights, in units of the variance of outcomes.

    The prior is such that all features together explain as much variance as there is.
    """
    prior = model.feature_square.size * model.feature_square
    return jnp.where(model.feature_square > 0, 1.0 / jnp.maximum(prior + precision, 1e-12), 0.0)
