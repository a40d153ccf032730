"""A similarity of a thousand actions: actions are alike where their embeddings are, and an embedding says what an
action does.

The paper's matrix has A^2 numbers, and the meta-gradient has evidence about few of them at a time. Here every action
has an embedding z of `SIZE` numbers, learned by predicting the outcomes of decisions from the features x of the state
(`features.py`). Outcomes are of three kinds k: the change of the features, the reward, and whether the episode ends.

  f_a(x)  = M x + sum_r z_a[r] V_r x                         prediction; M and V are shared by all actions
  d_k     = (z_a - z_b)^T G_k (z_a - z_b)                    mean squared difference of what a and b do
  u_a[l]  = exp(- SHARPNESS * sum_k w_k d_k(a, l))           how near an action is to a landmark, itself an action
  S       = U U^T off the diagonal, rows of U not longer than 1

The meta-gradient learns w: how much each kind of outcome matters. Nothing of size A x A is built. An embedding is near
0 until its action was tried, so an action that was never tried is like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from masp.similarity.factored import inside_unit_ball
from masp.similarity.kinds import Evidence
from masp.similarity.matrix import Form, batch_penalty
from masp.similarity.metagradient import InnerStep, Params, meta_gradient
from masp.similarity.outcomes import observed_outcomes, outcome_projection

SIZE = 8
"""Numbers per action. Of 4, 8 and 16, 4 tells the eight groups of the bandit apart less well, and 16 learns slower."""
LANDMARKS = 32
"""Actions that all others are compared with; the cost of the penalty is proportional to their number."""
SHARPNESS = 5.0
"""Actions whose outcomes differ by as much as outcomes vary are exp(-5) near, as in `outcomes.py`."""
PENALTY_STATES = 16
"""States per batch that the penalty is computed on."""
RATE, EMBEDDING_RATE = 3e-3, 1e-2
"""Adam's step sizes for the shared weights and for the embeddings."""
FEATURE_SUM = 5.0
"""Mean sum of the absolute features after scaling: a step of Adam moves a prediction by about `RATE` times this."""
WEIGHT_RATE = 10.0
"""Step of the logarithms of w per unit of the meta-learning rate, which is meant for entries of a matrix."""
MEAN_RATE = 0.01
"""Rate of the running means, after the first hundred of these batches."""
PREDICTION_PERIOD_UPDATES = 4
"""Updates between steps of the predictions, which need fewer of them than values do."""
RENEWAL_PERIOD_UPDATES = 16
"""Updates after which the similarity is made anew from the embeddings."""
MIN_META_PERIOD_UPDATES = 64
"""Fewest updates between meta-steps: three numbers need fewer of them than a matrix."""
MIN_EXPLAINED = 0.01
"""Smallest explained share of the variance of a kind of outcome, as in `outcomes.py`."""


class Moments(NamedTuple):
    """Running means over rows, which give every kind of outcome its scale."""

    batches: Array  # []
    feature_sum: Array  # [] sum of the absolute features of a state
    mean: Array  # [O] of outcomes
    square: Array  # [O] mean square of outcomes
    error: Array  # [O] mean square of the prediction errors
    gram: Array  # [3, SIZE, SIZE] G of every kind, of outcomes divided by their variance


class Map(NamedTuple):
    """Where actions are, and how far that is apart."""

    embedding: Array  # [A, SIZE] z
    metric: Array  # [3, SIZE, SIZE] G of every kind, times the explained share of the kind


class EmbeddedState(NamedTuple):
    """The predictions, and the similarity made from them the last time."""

    model: Params  # shared [F, O], effects [F, SIZE * O], embedding [A, SIZE]
    opt_state: optax.OptState
    projection: Array  # [F, O - 2] from features to predicted features
    moments: Moments
    log_weights: Array  # [3] logarithms of w
    meta_opt_state: optax.OptState
    map: Map  # what the similarity was made from the last time
    factors: Array  # [A, LANDMARKS] U
    recent: InnerStep  # the last inner step before the next meta-step; its similarity is `log_weights`


class _Learned(NamedTuple):
    """The part of the state that learning to predict changes."""

    model: Params
    opt_state: optax.OptState
    moments: Moments


@dataclass(frozen=True)
class Embedded:
    """The kind of similarity (see `kinds.py`)."""

    features: Callable[[Array], Array]
    """[B, F] of observations [B, ...]."""
    values: Callable[[Params, InnerStep], Array]
    """Action values [B, A] of an inner step's observations for any parameters, under its noise and context."""
    optimiser: optax.GradientTransformation
    """The optimiser of the agent, differentiable in the gradient."""
    num_actions: int
    form: Form
    meta_optimiser: str
    meta_period: int
    """Updates per meta-step that were asked for."""
    windows_are_single: bool
    """Whether n-step windows are single decisions (n = 1)."""

    def init(self, key: Array, start: Array, step: InnerStep) -> EmbeddedState:
        del start
        key_model, key_projection = jax.random.split(key)
        size = self.features(step.observations[:1]).shape[1]
        projection = outcome_projection(key_projection, size)
        model = _new_model(key_model, size, projection.shape[1] + 2, self.num_actions)
        outcomes = jnp.zeros(projection.shape[1] + 2)
        moments = Moments(jnp.zeros(()), jnp.ones(()), outcomes, outcomes, outcomes, jnp.zeros((3, SIZE, SIZE)))
        log_weights = jnp.zeros(3)
        place = Map(jnp.zeros((self.num_actions, SIZE)), jnp.zeros((3, SIZE, SIZE)))
        return EmbeddedState(
            model,
            _OPTIMISER.init(model),
            projection,
            moments,
            log_weights,
            self._descent.init(log_weights),
            place,
            memberships(place, log_weights),
            _penalised_part(step, log_weights),
        )

    def context(self, state: EmbeddedState) -> Array:
        return state.factors

    def penalty(self, state: EmbeddedState, q: Array, s_tm1: Array) -> Array:
        del s_tm1
        return batch_penalty(q[:PENALTY_STATES], state.factors, self.form)

    def learn(self, state: EmbeddedState, evidence: Evidence) -> tuple[EmbeddedState, Array]:
        """Predictions, their weights and the similarity made from both, each in its own rhythm."""
        learned = _Learned(state.model, state.opt_state, state.moments)
        due = evidence.updates % PREDICTION_PERIOD_UPDATES == 0
        learned = jax.lax.cond(due, lambda: self._predict_better(state, evidence), lambda: learned)
        state = state._replace(**learned._asdict())

        def meta_step() -> tuple[Array, optax.OptState, Array]:
            gradient = self._meta_gradient(state, evidence)
            direction, opt_state = self._descent.update(gradient, state.meta_opt_state)
            rate = WEIGHT_RATE * evidence.meta_learning_rate
            return state.log_weights - rate * direction, opt_state, jnp.linalg.norm(gradient)

        def skip() -> tuple[Array, optax.OptState, Array]:
            return state.log_weights, state.meta_opt_state, jnp.zeros(())

        meta_due = (evidence.updates % self.period == 0) & (evidence.updates > 0)
        log_weights, opt_state, norm = jax.lax.cond(meta_due, meta_step, skip)

        def renewed() -> tuple[Map, Array]:
            explained = _explained(state.moments)[:, None, None]
            now = Map(state.model["embedding"], explained * state.moments.gram)
            return now, memberships(now, log_weights)

        renewal_due = (evidence.updates % RENEWAL_PERIOD_UPDATES == 0) | meta_due
        latest, factors = jax.lax.cond(renewal_due, renewed, lambda: (state.map, state.factors))
        changes: dict[str, Any] = dict(log_weights=log_weights, meta_opt_state=opt_state, map=latest, factors=factors)
        return state._replace(**changes), norm

    def keep(self, state: EmbeddedState, step: InnerStep, updates: Array) -> EmbeddedState:
        """Remember `step` if the next update makes a meta-step: it holds four copies of the parameters."""
        due = (updates + 1) % self.period == 0
        part = _penalised_part(step, state.log_weights)
        return state._replace(recent=jax.lax.cond(due, lambda: part, lambda: state.recent))

    @property
    def period(self) -> int:
        """Updates per meta-step."""
        return max(self.meta_period, MIN_META_PERIOD_UPDATES)

    @property
    def _descent(self) -> optax.GradientTransformation:
        return optax.scale_by_adam() if self.meta_optimiser == "adam" else optax.identity()

    def _predict_better(self, state: EmbeddedState, evidence: Evidence) -> _Learned:
        """One step of Adam on the squared prediction errors, from single decisions where the batch has some."""
        rows = len(evidence.weight)
        inside_only = not self.windows_are_single and rows > evidence.num_windows
        first = evidence.num_windows if inside_only else 0
        transition, weight = jax.tree.map(lambda column: column[first:], (evidence.transition, evidence.weight))
        x, x_next = self.features(transition.s_tm1), self.features(transition.s_t)
        outcome = observed_outcomes(x, x_next, transition, state.projection)
        moments = _with_outcomes(state.moments, x, outcome)
        x, scale = x * FEATURE_SUM / moments.feature_sum, _scale(moments)

        def loss(model: Params) -> tuple[Array, tuple[Array, Array]]:
            predicted, effects = predict(model, x, transition.a_tm1)
            error = jnp.square(outcome - predicted)
            return jnp.mean(weight * (error @ scale)), (error, effects)

        gradient, (error, effects) = jax.grad(loss, has_aux=True)(state.model)
        update, opt_state = _OPTIMISER.update(gradient, state.opt_state)
        moments = _with_predictions(moments, error, effects, scale)
        return _Learned(optax.apply_updates(state.model, update), opt_state, moments)

    def _meta_gradient(self, state: EmbeddedState, evidence: Evidence) -> Array:
        """[3] derivative of the held-out TD loss in the logarithms of w, through the last inner step."""

        def penalty(q: Array, log_weights: Array) -> Array:
            factors = memberships(state.map, log_weights)
            return evidence.penalty_weight * batch_penalty(q, factors, self.form)

        return meta_gradient(self.values, penalty, self.optimiser, state.recent, evidence.held_out_gradient())


_OPTIMISER = optax.multi_transform(
    {"shared": optax.adam(RATE), "embedding": optax.adam(EMBEDDING_RATE)},
    {"shared": "shared", "effects": "shared", "embedding": "embedding"},
)


def num_landmarks(num_actions: int) -> int:
    """How many actions serve as landmarks; fewer than there are actions, so that factors never look like a matrix."""
    return min(LANDMARKS, num_actions - 1)


def start(num_actions: int) -> np.ndarray:
    """[A, LANDMARKS] factors before anything was learned: all actions are alike."""
    count = num_landmarks(num_actions)
    return np.full((num_actions, count), count**-0.5, np.float32)


def predict(model: Params, x: Array, action: Array) -> tuple[Array, Array]:
    """[B, O] predicted outcomes of actions [B] in states with features x [B, F], and [B, SIZE, O] the effects V x."""
    effects = (x @ model["effects"]).reshape(len(x), SIZE, -1)
    return x @ model["shared"] + jnp.einsum("br,bro->bo", model["embedding"][action], effects), effects


def memberships(place: Map, log_weights: Array) -> Array:
    """[A, LANDMARKS] factors U of the similarity; an action far from all landmarks is like no other."""
    embedding, count = place.embedding, len(place.embedding)
    landmarks = np.linspace(0, count - 1, num_landmarks(count)).round().astype(int)
    towards = embedding @ jnp.tensordot(jnp.exp(log_weights), place.metric, axes=1)  # [A, SIZE]
    lengths = jnp.sum(towards * embedding, axis=1)
    distances = lengths[:, None] + lengths[landmarks] - 2 * towards @ embedding[landmarks].T
    return inside_unit_ball(jnp.exp(-SHARPNESS * jnp.maximum(distances, 0.0)))


def _new_model(key: Array, size: int, outcomes: int, num_actions: int) -> dict[str, Array]:
    key_effects, key_embedding = jax.random.split(key)
    scale = 3 * (size * SIZE * outcomes) ** -0.5
    return {
        "shared": jnp.zeros((size, outcomes)),
        "effects": scale * jax.random.normal(key_effects, (size, SIZE * outcomes)),
        "embedding": 0.1 * jax.random.normal(key_embedding, (num_actions, SIZE)),
    }


def _penalised_part(step: InnerStep, log_weights: Array) -> InnerStep:
    """The inner step as the meta-gradient needs it: the states of the penalty, and w as what is learned."""
    return step._replace(observations=step.observations[:PENALTY_STATES], similarity=log_weights)


def _with_outcomes(moments: Moments, x: Array, outcome: Array) -> Moments:
    """The running means that predictions depend on, one batch further."""
    moments = moments._replace(batches=moments.batches + 1)
    rate = _rate(moments)
    return moments._replace(
        feature_sum=_towards(moments.feature_sum, jnp.mean(jnp.sum(jnp.abs(x), axis=1)), rate),
        mean=_towards(moments.mean, jnp.mean(outcome, axis=0), rate),
        square=_towards(moments.square, jnp.mean(jnp.square(outcome), axis=0), rate),
    )


def _with_predictions(moments: Moments, error: Array, effects: Array, scale: Array) -> Moments:
    """The running means of squared errors [B, O] and of products of effects [B, SIZE, O]."""
    rate = _rate(moments)
    scaled = effects * jnp.sqrt(scale)
    by_kind = [jnp.einsum("bro,bso->rs", part, part) / len(error) for part in _split(scaled)]
    return moments._replace(
        error=_towards(moments.error, jnp.mean(error, axis=0), rate),
        gram=_towards(moments.gram, jnp.stack(by_kind), rate),
    )


def _rate(moments: Moments) -> Array:
    return jnp.maximum(1 / jnp.maximum(moments.batches, 1.0), MEAN_RATE)


def _towards(mean: Array, value: Array, rate: Array) -> Array:
    return mean + rate * (value - mean)


def _split(values: Array) -> list[Array]:
    """Parts of [..., O] by kind: changes of features, reward, end."""
    return [values[..., :-2], values[..., -2:-1], values[..., -1:]]


def _variances(moments: Moments) -> list[Array]:
    """[] variance of every kind of outcome."""
    variance = jnp.maximum(moments.square - jnp.square(moments.mean), 0.0)
    return [jnp.sum(part) for part in _split(variance)]


def _scale(moments: Moments) -> Array:
    """[O] one over the variance of the outcome's kind; 0 where it never varied."""
    parts = zip(_split(moments.mean), _variances(moments), strict=True)
    return jnp.concatenate(
        [jnp.where(variance > 1e-9, 1 / jnp.maximum(variance, 1e-9), 0.0) * jnp.ones_like(p) for p, variance in parts]
    )


def _explained(moments: Moments) -> Array:
    """[3] explained share of the variance of every kind: what cannot be predicted does not separate actions."""
    errors = [jnp.sum(part) for part in _split(moments.error)]
    shares = [1 - e / jnp.maximum(v, 1e-9) for e, v in zip(errors, _variances(moments), strict=True)]
    return jnp.clip(jnp.stack(shares), MIN_EXPLAINED, 1.0)
