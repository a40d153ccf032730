"""The paper's similarity: one matrix for all states, learned by meta-gradient while the agent learns.

At the beginning of an update, the similarity takes one step down the gradient of the held-out TD loss, taken through
the inner steps that led to the current parameters (lines 14-18 of Algorithm 1). The inner step of the update is kept
for the next time. Both kinds of held-out data, a sample of its own and the update's batch, have this one timing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from masp.similarity.descent import Descent
from masp.similarity.kinds import Evidence
from masp.similarity.matrix import Form, batch_penalty
from masp.similarity.metagradient import InnerStep, Params, meta_gradient, traced_meta_gradient


class MetaState(NamedTuple):
    """A similarity and what its learning must remember."""

    similarity: Array  # [A, A], symmetric, in [0, 1], ones on the diagonal; or factors [A, R] of that
    opt_state: optax.OptState
    recent: InnerStep  # the last K inner steps that were kept, on a leading axis, newest first
    kept: Array  # [] int32, inner steps kept so far


@dataclass(frozen=True)
class MetaLearned:
    """A similarity that follows the meta-gradient."""

    values: Callable[[Params, InnerStep], Array]
    """Action values [B, A] of an inner step's observations for any parameters, under its noise and context."""
    optimiser: optax.GradientTransformation
    """The optimiser of the agent, differentiable in the gradient."""
    form: Form
    meta_optimiser: str = "adam"
    period: int = 1
    """Updates per meta-update."""
    trace_length: int = 1
    entropy_weight: float = 0.0

    @property
    def _descent(self) -> Descent:
        return Descent(self.meta_optimiser, self.entropy_weight)

    def init(self, key: Array, start: Array, step: InnerStep) -> MetaState:
        del key
        recent = jax.tree.map(lambda leaf: jnp.zeros((self.trace_length, *leaf.shape), leaf.dtype), step)
        return MetaState(start, self._descent.init(start), recent, jnp.zeros((), jnp.int32))

    def context(self, state: MetaState) -> Array:
        return state.similarity

    def penalty(self, state: MetaState, q: Array, s_tm1: Array) -> Array:
        del s_tm1
        return batch_penalty(q, state.similarity, self.form)

    def learn(self, state: MetaState, evidence: Evidence) -> tuple[MetaState, Array]:
        """One meta-step, if one is due."""
        due = (evidence.updates % self.period == 0) & (evidence.updates >= self.trace_length)

        def step() -> tuple[Array, optax.OptState, Array]:
            gradient = self._meta_gradient(state, evidence)
            moved, opt_state = self._descent.step(
                state.similarity, state.opt_state, gradient, evidence.meta_learning_rate
            )
            return moved, opt_state, jnp.linalg.norm(gradient)

        def skip() -> tuple[Array, optax.OptState, Array]:
            return state.similarity, state.opt_state, jnp.zeros(())

        similarity, opt_state, norm = jax.lax.cond(due, step, skip)
        return state._replace(similarity=similarity, opt_state=opt_state), norm

    def keep(self, state: MetaState, step: InnerStep, updates: Array) -> MetaState:
        """Remember `step` if the next meta-update reaches back to it: it holds four copies of the parameters."""
        updates_until_due = -(updates + 1) % self.period
        recent, kept = jax.lax.cond(
            updates_until_due < self.trace_length,
            lambda: (_pushed(state.recent, step), state.kept + 1),
            lambda: (state.recent, state.kept),
        )
        return state._replace(recent=recent, kept=kept)

    def _meta_gradient(self, state: MetaState, evidence: Evidence) -> Array:
        """[A, A] derivative of the held-out TD loss in the similarity, through the last inner steps."""
        held_out_gradient = evidence.held_out_gradient()

        def penalty(q: Array, similarity: Array) -> Array:
            return evidence.penalty_weight * batch_penalty(q, similarity, self.form)

        def through(step: InnerStep) -> Array:
            return meta_gradient(self.values, penalty, self.optimiser, step, held_out_gradient)

        return traced_meta_gradient(through, state.recent)


def _pushed(recent: Any, step: InnerStep) -> Any:
    """The newest inner steps, `step` first."""
    return jax.tree.map(lambda old, new: jnp.concatenate([new[None], old[:-1]]), recent, step)
