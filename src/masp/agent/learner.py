"""One update of the agent and of the similarity: Algorithm 1 of the paper, line by line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from masp import ops
from masp.agent import losses
from masp.agent.networks import Noise, QNetwork, draw_noise
from masp.agent.replay import Sample
from masp.config import AgentConfig, SimilarityConfig
from masp.similarity import matrix as sim
from masp.similarity import outcomes
from masp.similarity.features import flat_features
from masp.similarity.metagradient import InnerStep, Params, meta_gradient, traced_meta_gradient


class Hyper(NamedTuple):
    """Numbers that a sweep may vary without compiling again."""

    penalty_weight: Array
    meta_learning_rate: Array


class LearnerState(NamedTuple):
    """All that an update reads or writes; a checkpoint holds exactly this."""

    params: Params
    target_params: Params
    opt_state: optax.OptState
    similarity: Array  # [A, A], symmetric, in [0, 1], ones on the diagonal; or factors [A, R] of that
    similarity_opt_state: optax.OptState
    outcomes: Any  # Outcomes, what each action brings; () where the similarity does not come from it
    recent: Any  # InnerStep with a leading axis, newest first; () where the meta-gradient needs none
    noise_template: Noise  # shapes of the noise; None for plain layers
    hyper: Hyper
    updates: Array  # [] int32


class Metrics(NamedTuple):
    """What one update says about itself, all []."""

    td_loss: Array
    penalty: Array
    q_mean: Array
    q_max: Array
    q_spread: Array  # standard deviation of the values of one state, over actions
    gradient_norm: Array
    meta_gradient_norm: Array


@dataclass(frozen=True)
class Learner:
    """The fixed parts of learning; all state is in `LearnerState`."""

    network: QNetwork
    agent: AgentConfig
    similarity: SimilarityConfig
    num_primitives: int = 0
    """The first so many actions are no macros; 0: all."""

    @property
    def support(self) -> Array:
        """[atoms] values of the C51 atoms; one atom for scalar values."""
        return jnp.linspace(self.agent.v_min, self.agent.v_max, self.agent.num_atoms)

    @property
    def optimiser(self) -> ops.Adam:
        return ops.Adam(self.agent.learning_rate, self.agent.adam_eps, self.agent.max_gradient_norm)

    @property
    def meta_optimiser(self) -> optax.GradientTransformation:
        """Gives a direction; the learning rate is in `Hyper`."""
        return optax.scale_by_adam() if self.similarity.meta_optimiser == "adam" else optax.identity()

    @property
    def _kept_steps(self) -> int:
        """How many inner steps must outlive their update."""
        if not self.similarity.learns:
            return 0
        return self.similarity.trace_length - (self.similarity.held_out == "separate")

    def init(self, key: Array, observation: Array, similarity: Array, hyper: Hyper | None = None) -> LearnerState:
        """A fresh learner; `observation` [1, ...] gives the shape, `hyper` the settings of a sweep."""
        variables = self.network.init(key, observation, similarity)
        params, noise = variables["params"], variables.get("noise")
        opt_state = self.optimiser.init(params)
        recent: Any = ()
        if self._kept_steps:
            states = jnp.zeros((self.agent.batch_size, *observation.shape[1:]), observation.dtype)
            step = InnerStep(
                params, opt_state, jax.tree.map(jnp.zeros_like, params), states, similarity, noise, similarity
            )
            recent = jax.tree.map(lambda leaf: jnp.stack([jnp.zeros_like(leaf)] * self._kept_steps), step)
        return LearnerState(
            params=params,
            target_params=jax.tree.map(jnp.copy, params),
            opt_state=opt_state,
            similarity=similarity,
            similarity_opt_state=self.meta_optimiser.init(similarity),
            outcomes=self._no_outcomes(key, observation) if self.similarity.from_outcomes else (),
            recent=recent,
            noise_template=noise,
            hyper=hyper
            or Hyper(*map(jnp.asarray, (self.similarity.penalty_weight, self.similarity.meta_learning_rate))),
            updates=jnp.zeros((), jnp.int32),
        )

    def features(self, observations: Array) -> Array:
        """[B, F] what outcomes are predicted from."""
        return flat_features(observations, self.network.observation_kind)

    def _no_outcomes(self, key: Array, observation: Array) -> outcomes.Outcomes:
        size = self.features(observation).shape[1]
        return outcomes.init(jax.random.fold_in(key, 1), self.network.num_actions, size)

    def noise(self, state: LearnerState, key: Array, passes: int) -> list[Noise]:
        """Independent noise for some passes through the network; Nones for plain layers."""
        return draw_noise(key, state.noise_template, passes) if self.agent.noisy else [None] * passes

    def outputs(self, params: Params, observations: Array, similarity: Array, noise: Noise) -> Array:
        """[B, A, atoms] network outputs; without noise the noisy layers use their means."""
        variables = {"params": params} if noise is None else {"params": params, "noise": noise}
        return self.network.apply(variables, observations, similarity)  # type: ignore[return-value]

    def values(self, params: Params, observations: Array, similarity: Array, noise: Noise) -> Array:
        """[B, A] expected values."""
        return ops.expected_values(self.outputs(params, observations, similarity, noise), self.support)

    def penalty(self, q: Array, similarity: Array, weight: Array) -> Array:
        """[] eq. (2): weight times the mean penalty of values [B, A]."""
        return weight * sim.batch_penalty(q, similarity, self.similarity.penalty_form)

    def target_outputs(self, state: LearnerState, observations: Array, noise: Noise = None) -> Array:
        """[B, A, atoms] of the target network."""
        return self.outputs(state.target_params, observations, state.similarity, noise)

    def td_losses(
        self,
        outputs: Array,
        state: LearnerState,
        sample: Sample,
        noise: Sequence[Noise],
    ) -> Array:
        """[B] TD losses of online `outputs` [B, A, atoms] at s_tm1, the only ones to receive gradient.

        `state.params` choose the next action (double Q), the target network values it; `noise` is for the online and
        the target network.
        """
        batch = sample.transition
        target_t = self.target_outputs(state, batch.s_t, noise[1])
        if self.agent.double:
            selector_t = self.values(state.params, batch.s_t, state.similarity, noise[0])
        else:
            selector_t = ops.expected_values(target_t, self.support)
        if self.agent.macros_for == "exploring" and self.num_primitives:
            # Deciding at every step is never worse than a macro: with right values the best of all is a primitive.
            selector_t = selector_t.at[:, self.num_primitives :].set(-jnp.inf)
        per_transition = jax.vmap(losses.td_loss, in_axes=(0, 0, 0, 0, 0, 0, None))
        return per_transition(outputs, batch.a_tm1, batch.r_t, batch.discount_t, target_t, selector_t, self.support)

    def td_gradient(self, state: LearnerState, sample: Sample, noise: Sequence[Noise]) -> Params:
        """g': gradient of the importance-weighted TD loss of `sample` at `state.params`."""

        def objective(params: Params) -> Array:
            outputs = self.outputs(params, sample.transition.s_tm1, state.similarity, noise[0])
            return jnp.mean(sample.weight * self.td_losses(outputs, state, sample, noise))

        return jax.grad(objective)(state.params)

    def update(
        self,
        state: LearnerState,
        sample: Sample,
        key: Array,
        draw_held_out: Callable[[], Sample],
        inside: Sample | None = None,
    ) -> tuple[LearnerState, Array, Metrics]:
        """One gradient step on TD loss + penalty, then the similarity's; also the [B] losses for the priorities.

        `draw_held_out` is called under tracing where `held_out` is `separate` and a meta-update may be due.
        `inside` are transitions from inside the sample's windows (`intra_option`); their TD loss is added to its own.
        """
        # Both passes of the online network have one noise sample. Two more are for held-out data of its own.
        noise = self.noise(state, key, 4 if self.similarity.learns and self.similarity.held_out == "separate" else 2)
        seen = state.similarity  # what the network sees in this update, even where a meta-update comes in between
        states = sample.transition.s_tm1
        outputs, pull_back = jax.vjp(lambda p: self.outputs(p, states, state.similarity, noise[0]), state.params)
        q, pull_back_values = jax.vjp(lambda outputs: ops.expected_values(outputs, self.support), outputs)

        def td_objective(outputs: Array) -> tuple[Array, Array]:
            per_transition = self.td_losses(outputs, state, sample, noise[:2])
            return jnp.mean(sample.weight * per_transition), per_transition

        (td, per_transition), td_cotangent = jax.value_and_grad(td_objective, has_aux=True)(outputs)
        meta_norm = jnp.zeros(())
        if self.similarity.learns and self.similarity.held_out == "next":
            # The TD gradient of this batch is the held-out gradient of the updates before it.
            state, meta_norm = self._meta_update(state, state.recent, lambda: pull_back(td_cotangent)[0])

        alike = None
        if self.similarity.from_outcomes:
            alike = outcomes.alike(state.outcomes, self.features(states[: outcomes.STATES]))

        def penalty_objective(q: Array) -> Array:
            weight = state.hyper.penalty_weight
            if alike is not None:
                return weight * sim.state_penalty(q[: len(alike)], alike)
            return self.penalty(q, state.similarity, weight)

        penalty, cotangent = jnp.zeros(()), td_cotangent
        if self.similarity.active:
            penalty, q_cotangent = jax.value_and_grad(penalty_objective)(q)
            cotangent = td_cotangent + pull_back_values(q_cotangent)[0]
        (gradient,) = pull_back(cotangent)
        if inside is not None:
            # The same noise: it is one objective, on twice as many transitions.
            credit = self.td_gradient(state._replace(similarity=seen), inside, noise[:2])
            gradient = jax.tree.map(jnp.add, gradient, credit)
        step = InnerStep(state.params, state.opt_state, gradient, states, seen, noise[0], state.similarity)
        kept: Any = ()
        if self.similarity.learns and self.similarity.held_out == "next":
            state = self._keep(state, step, next_look=state.updates + 1)
            # Adam then writes in place. Otherwise XLA copied what is kept at every update, not once per meta-update.
            kept = state.recent.context.reshape(-1)[0]
        params, opt_state, norm = self.optimiser.step(gradient, state.opt_state, state.params, after=kept)
        state = state._replace(params=params, opt_state=opt_state, updates=state.updates + 1)

        if self.similarity.learns and self.similarity.held_out == "separate":
            steps = _push(state.recent, step, self.similarity.trace_length)
            state, meta_norm = self._meta_update(
                state, steps, lambda: self.td_gradient(state, draw_held_out(), noise[2:])
            )
            if self._kept_steps:
                state = self._keep(state, step, next_look=state.updates + 1)
        if alike is not None:
            state = self._learn_outcomes(state, alike, sample, inside)
        state = self._sync_target(state)
        metrics = Metrics(
            td,
            penalty,
            jnp.mean(q),
            jnp.mean(jnp.max(q, axis=1)),
            jnp.mean(jnp.std(q, axis=1)),
            norm,
            meta_norm,
        )
        return state, per_transition, metrics

    def _keep(self, state: LearnerState, step: InnerStep, next_look: Array) -> LearnerState:
        """Remember `step`, if a meta-update will reach back to it: it holds four copies of the parameters.

        `next_look`: what `updates` will be when the next meta-update may be due.
        """
        steps_before_due = -next_look % self.similarity.meta_period_updates
        recent = jax.lax.cond(
            steps_before_due < self._kept_steps,
            lambda: _push(state.recent, step, self._kept_steps),
            lambda: state.recent,
        )
        return state._replace(recent=recent)

    def _meta_update(
        self, state: LearnerState, steps: InnerStep, held_out_gradient: Callable[[], Params]
    ) -> tuple[LearnerState, Array]:
        """The similarity after one meta-step, where one is due; and the norm of its gradient."""
        period = self.similarity.meta_period_updates
        due = (state.updates % period == 0) & (state.updates >= self.similarity.trace_length)

        def step() -> tuple[Array, optax.OptState, Array]:
            g = held_out_gradient()

            def through(inner: InnerStep) -> Array:
                return meta_gradient(
                    lambda params, inner: ops.expected_values(
                        self.outputs(params, inner.observations, inner.context, inner.noise),
                        self.support,
                        forward_mode=True,
                    ),
                    lambda q, s: self.penalty(q, s, state.hyper.penalty_weight),
                    self.optimiser.transformation,
                    inner,
                    g,
                )

            gradient = traced_meta_gradient(through, steps, self.similarity.trace_decay)
            direction, opt_state = self.meta_optimiser.update(gradient, state.similarity_opt_state)
            if self.similarity.entropy_weight:
                # Added to the direction, not to the gradient: Adam would otherwise rescale the two together, and the
                # meta-gradient is smaller than any weight one would write down.
                direction = direction - self.similarity.entropy_weight * jax.grad(sim.row_entropy)(state.similarity)
            moved = sim.project(state.similarity - state.hyper.meta_learning_rate * direction)
            return moved, opt_state, jnp.linalg.norm(gradient)

        def skip() -> tuple[Array, optax.OptState, Array]:
            return state.similarity, state.similarity_opt_state, jnp.zeros(())

        similarity, opt_state, norm = jax.lax.cond(due, step, skip)
        return state._replace(similarity=similarity, similarity_opt_state=opt_state), norm

    def _learn_outcomes(self, state: LearnerState, alike: Array, sample: Sample, inside: Sample | None) -> LearnerState:
        """Where actions lead, from transitions of one decision; and the mean over states of who is alike."""
        known = state.outcomes
        for batch in (sample if self.agent.n_step == 1 else None, inside):
            if batch is not None:  # windows have the whole macros, of which few are drawn from inside
                seen = batch.transition
                before, behind = self.features(seen.s_tm1), self.features(seen.s_t)
                known = outcomes.learn(known, before, behind, seen, batch.weight)
        return state._replace(outcomes=known, similarity=outcomes.remember(state.similarity, alike))

    def has_new_target(self, state: LearnerState) -> Array:
        """[] whether the last update replaced the target network."""
        return state.updates % self.agent.target_period_updates == 0

    def _sync_target(self, state: LearnerState) -> LearnerState:
        """Copy the parameters to the target network every `target_period_updates`."""
        target = jax.lax.cond(self.has_new_target(state), lambda: state.params, lambda: state.target_params)
        return state._replace(target_params=target)


def _push(recent: Any, step: InnerStep, length: int) -> InnerStep:
    """The newest `length` inner steps, `step` first."""
    newest = jax.tree.map(lambda leaf: leaf[None], step)
    if recent == ():
        return newest
    return jax.tree.map(lambda new, old: jnp.concatenate([new, old])[:length], newest, recent)
