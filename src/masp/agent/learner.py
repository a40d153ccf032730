"""One update of the agent and of the similarity: Algorithm 1 of the paper, line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from masp import ops
from masp.agent import losses
from masp.agent.networks import Noise, QNetwork, draw_noise
from masp.agent.replay import Batch
from masp.config import TrainConfig
from masp.similarity.embedded import Embedded
from masp.similarity.features import flat_features
from masp.similarity.kinds import Evidence, Fixed, Nothing, Similarity
from masp.similarity.meta_learned import MetaLearned
from masp.similarity.metagradient import InnerStep, Params
from masp.similarity.outcomes import Outcomes


class Hyper(NamedTuple):
    """Numbers that a sweep may vary without compiling again."""

    penalty_weight: Array
    meta_learning_rate: Array


class LearnerState(NamedTuple):
    """All that an update reads or writes; a checkpoint holds exactly this."""

    params: Params
    target_params: Params
    opt_state: optax.OptState
    similarity: Any  # state of the kind of similarity
    noise_template: Noise  # shapes of the noise; None for plain layers
    hyper: Hyper
    updates: Array  # [] int32


class Metrics(NamedTuple):
    """Figures of one update, all []."""

    td_loss: Array
    penalty: Array
    q_mean: Array
    q_max: Array
    q_spread: Array  # standard deviation over actions of the values of one state
    gradient_norm: Array
    meta_gradient_norm: Array


@dataclass(frozen=True)
class Learner:
    """The fixed parts of learning; all state is in `LearnerState`."""

    network: QNetwork
    config: TrainConfig
    choosable: tuple[bool, ...]
    """[A] which actions greedy decisions and targets may choose where the action mask allows them."""

    @property
    def support(self) -> Array:
        """[atoms] values of the C51 atoms; one atom for scalar values."""
        return jnp.linspace(*self.config.agent.value_range, self.config.agent.num_atoms)

    @property
    def adam(self) -> ops.Adam:
        a = self.config.agent
        return ops.Adam(a.learning_rate, a.adam_eps, a.max_gradient_norm)

    @property
    def similarity(self) -> Similarity:
        """The kind of similarity that the variant asks for."""
        s = self.config.similarity
        if not self.config.penalised:
            return Nothing()
        if self.config.variant == "outcomes":
            features = partial(flat_features, kind=self.network.observation_kind)
            return Outcomes(features, self.network.num_actions, s.penalty_form, self.config.agent.n_step == 1)
        if s.frozen:
            return Fixed(s.penalty_form)
        if self.config.embeds(self.network.num_actions):
            return Embedded(
                partial(flat_features, kind=self.network.observation_kind),
                self._inner_values,
                self.adam.transformation,
                self.network.num_actions,
                s.penalty_form,
                s.meta_optimiser,
                s.meta_period_updates,
                self.config.agent.n_step == 1,
            )
        return MetaLearned(
            self._inner_values,
            self.adam.transformation,
            s.penalty_form,
            s.meta_optimiser,
            s.meta_period_updates,
            s.trace_length,
            s.entropy_weight,
        )

    def init(
        self, key: Array, observation: Array, similarity: Array, hyper: Hyper, given: Mapping[str, Array] | None = None
    ) -> LearnerState:
        """A fresh learner; `observation` [1, ...] gives the shape, `similarity` [A, A] or factors the start.

        `given`: parameters by path, in place of the initial ones.
        """
        variables = self.network.init(key, observation, similarity)
        noise = variables.get("noise")
        params = jax.tree_util.tree_map_with_path(
            lambda path, leaf: (given or {}).get(jax.tree_util.keystr(path), leaf), variables["params"]
        )
        opt_state = self.adam.init(params)
        states = jnp.zeros((self.config.agent.batch_size, *observation.shape[1:]), observation.dtype)
        step = InnerStep(params, opt_state, params, states, similarity, noise, similarity)
        return LearnerState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params),
            opt_state=opt_state,
            similarity=self.similarity.init(jax.random.fold_in(key, 1), similarity, step),
            noise_template=noise,
            hyper=hyper,
            updates=jnp.zeros((), jnp.int32),
        )

    def update(
        self, state: LearnerState, batch: Batch, draw_held_out: Callable[[], Batch], key: Array
    ) -> tuple[LearnerState, Array, Metrics]:
        """One step of Algorithm 1 on `batch`; also the losses of its windows in the replay, for their priorities.

        `draw_held_out` is called under tracing where the similarity learns from a sample of its own.
        """
        key, key_held_out = jax.random.split(key)
        noise = self.draw_noise(state, key)
        targets = self.td_targets(state, batch, noise)
        outputs, pull_back = jax.vjp(partial(self._outputs_at, state, batch, noise[0]), state.params)

        def held_out_gradient() -> Params:
            if self.config.similarity.held_out == "separate":
                return self.td_gradient(state, draw_held_out(), self.draw_noise(state, key_held_out))
            return pull_back(jax.grad(lambda o: self.td_loss(o, batch, targets)[0])(outputs))[0]

        evidence = self._evidence(state, batch, held_out_gradient)
        similarity, meta_norm = self.similarity.learn(state.similarity, evidence)  # lines 14-18

        def objective(outputs: Array) -> tuple[Array, tuple[Array, Array, Array, Array]]:
            td, td_losses = self.td_loss(outputs, batch, targets)  # line 9
            q = ops.expected_values(outputs[: batch.num_windows], self.support)
            s_tm1 = batch.transition.s_tm1[: batch.num_windows]
            penalty = state.hyper.penalty_weight * self.similarity.penalty(similarity, q, s_tm1)  # line 10
            return td + penalty + self.demonstration_loss(q, batch), (td, penalty, td_losses, q)

        cotangent, (td, penalty, td_losses, q) = jax.grad(objective, has_aux=True)(outputs)
        (gradient,) = pull_back(cotangent)  # line 11
        step = self._inner_step(state, batch, noise[0], gradient, similarity)
        similarity = self.similarity.keep(similarity, step, state.updates)
        params, opt_state, norm = self.adam.step(gradient, state.opt_state, state.params, after=similarity)  # line 12
        state = state._replace(params=params, opt_state=opt_state, similarity=similarity, updates=state.updates + 1)
        metrics = _metrics(td, penalty, q, norm, meta_norm)
        return self._sync_target(state), td_losses[: len(batch.leaf)], metrics  # lines 20-22

    def draw_noise(self, state: LearnerState, key: Array) -> list[Noise]:
        """Noise of the online and of the target network; Nones for plain layers."""
        return draw_noise(key, state.noise_template, 2) if self.config.agent.noisy else [None] * 2

    def outputs(self, params: Params, observations: Array, context: Array, noise: Noise) -> Array:
        """[B, A, atoms] network outputs; without noise the noisy layers use their means."""
        variables = {"params": params} if noise is None else {"params": params, "noise": noise}
        return self.network.apply(variables, observations, context)  # type: ignore[return-value]

    def values(self, params: Params, observations: Array, context: Array, noise: Noise) -> Array:
        """[B, A] expected values."""
        return ops.expected_values(self.outputs(params, observations, context, noise), self.support)

    def td_targets(self, state: LearnerState, batch: Batch, noise: list[Noise]) -> Array:
        """[R, atoms] bootstrapped targets; double Q-learning selects the next action by the online network."""
        s_t, context = batch.transition.s_t, self.similarity.context(state.similarity)
        target_outputs = self.outputs(state.target_params, s_t, context, noise[1])
        if self.config.agent.double:
            selector = self.values(state.params, s_t, context, noise[0])
        else:
            selector = ops.expected_values(target_outputs, self.support)
        allowed = batch.transition.allowed_t
        choosable = jnp.asarray(self.choosable) if allowed is None else jnp.asarray(self.choosable) & allowed
        selector = jnp.where(choosable, selector, -jnp.inf)
        per_row = jax.vmap(losses.td_target, in_axes=(0, 0, 0, 0, None))
        return per_row(batch.transition.r_t, batch.transition.discount_t, target_outputs, selector, self.support)

    def td_loss(self, outputs: Array, batch: Batch, targets: Array) -> tuple[Array, Array]:
        """[] importance-weighted TD loss, and the [R] losses of all rows.

        Transitions from inside the windows are added to those of the windows: the sum over rows is divided by the
        number of windows.
        """
        per_row = jax.vmap(losses.td_loss)(outputs, batch.transition.a_tm1, targets)
        return jnp.sum(batch.weight * per_row) / batch.num_windows, per_row

    def demonstration_loss(self, q: Array, batch: Batch) -> Array | float:
        """[] weighted margin loss of the demonstrated windows, over the number of all windows; `q` [B, A]."""
        d, demonstrated = self.config.demonstration, batch.demonstrated
        if not len(demonstrated) or not d.margin_weight:
            return 0.0
        own = slice(len(batch.leaf), batch.num_windows)
        per_row = jax.vmap(losses.margin_loss, in_axes=(0, 0, 0, None, None))
        rows = per_row(q[own], batch.transition.a_tm1[own], demonstrated, jnp.asarray(self.choosable), d.margin)
        return d.margin_weight * jnp.sum(rows) / batch.num_windows

    def td_gradient(self, state: LearnerState, batch: Batch, noise: list[Noise]) -> Params:
        """Gradient of the TD loss of `batch` at the current parameters."""
        targets = self.td_targets(state, batch, noise)

        def objective(params: Params) -> Array:
            return self.td_loss(self._outputs_at(state, batch, noise[0], params), batch, targets)[0]

        return jax.grad(objective)(state.params)

    def _outputs_at(self, state: LearnerState, batch: Batch, noise: Noise, params: Params) -> Array:
        """[R, A, atoms] outputs at s_tm1 for any parameters."""
        return self.outputs(params, batch.transition.s_tm1, self.similarity.context(state.similarity), noise)

    def _evidence(self, state: LearnerState, batch: Batch, held_out_gradient: Callable[[], Params]) -> Evidence:
        return Evidence(
            batch.transition, batch.weight, batch.num_windows, held_out_gradient, *state.hyper, state.updates
        )

    def _inner_step(
        self, state: LearnerState, batch: Batch, noise: Noise, gradient: Params, similarity: Any
    ) -> InnerStep:
        """What the meta-gradient must know of this update; the penalty is computed on the windows' states."""
        observations = batch.transition.s_tm1[: batch.num_windows]
        contexts = self.similarity.context(state.similarity), self.similarity.context(similarity)
        return InnerStep(state.params, state.opt_state, gradient, observations, contexts[0], noise, contexts[1])

    def _inner_values(self, params: Params, step: InnerStep) -> Array:
        """[B, A] values of an inner step's observations, to be differentiated forward."""
        outputs = self.outputs(params, step.observations, step.context, step.noise)
        return ops.expected_values(outputs, self.support, forward_mode=True)

    def _sync_target(self, state: LearnerState) -> LearnerState:
        """Copy the parameters to the target network every `target_period_updates`."""
        due = state.updates % self.config.agent.target_period_updates == 0
        return state._replace(target_params=jax.lax.cond(due, lambda: state.params, lambda: state.target_params))


def _metrics(td: Array, penalty: Array, q: Array, norm: Array, meta_norm: Array) -> Metrics:
    best, spread = jnp.mean(jnp.max(q, axis=1)), jnp.mean(jnp.std(q, axis=1))
    return Metrics(td, penalty, jnp.mean(q), best, spread, norm, meta_norm)
