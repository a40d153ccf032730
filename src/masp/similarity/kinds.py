"""The interface that every kind of similarity has, and the two kinds that learn nothing.

    none          no penalty (`rainbow`, `macros`)
    fixed         a given matrix
    meta-learned  one matrix for all states, by meta-gradient: the paper (`meta_learned.py`)
    outcomes      one matrix per state, from the predicted effects of actions (`outcomes.py`)

A kind is a frozen object; everything that changes during training is in the record that its `init` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from masp.similarity.matrix import Form, batch_penalty
from masp.similarity.metagradient import InnerStep, Params


class Evidence(NamedTuple):
    """What one update of the agent offers a similarity to learn from."""

    transition: Any  # of R rows: s_tm1, a_tm1, r_t, discount_t, s_t; the rows of windows come first
    weight: Array  # [R] importance weights
    num_windows: int  # how many rows are n-step windows; the others are single decisions
    held_out_gradient: Callable[[], Params]
    """Gradient of the TD loss of held-out data at the current parameters; computed only if it is called."""
    penalty_weight: Array  # []
    meta_learning_rate: Array  # [], 0: frozen
    updates: Array  # [] int32, updates before this one


class Similarity(Protocol):
    """One kind of similarity between actions."""

    def init(self, key: Array, start: Array, step: InnerStep) -> Any:
        """The state before the first update; `start` is [A, A] or factors, `step` an inner step of the right shapes."""
        ...

    def context(self, state: Any) -> Array:
        """[A, A] (or factors) what the network's embedding sees; also what a policy file holds."""
        ...

    def penalty(self, state: Any, q: Array, s_tm1: Array) -> Array:
        """[] mean penalty, not weighted, of the values [B, A] in states [B, ...]; `q` receives gradient."""
        ...

    def learn(self, state: Any, evidence: Evidence) -> tuple[Any, Array]:
        """The state after learning, at the beginning of an update, and the norm [] of the meta-gradient."""
        ...

    def keep(self, state: Any, step: InnerStep, updates: Array) -> Any:
        """The state that remembers the inner step which an update makes, after so many others."""
        ...


class FixedState(NamedTuple):
    """A similarity that does not change."""

    similarity: Array  # [A, A], or factors [A, R]


@dataclass(frozen=True)
class Fixed:
    """A given similarity with its penalty."""

    form: Form

    def init(self, key: Array, start: Array, step: InnerStep) -> FixedState:
        del key, step
        return FixedState(start)

    def context(self, state: FixedState) -> Array:
        return state.similarity

    def penalty(self, state: FixedState, q: Array, s_tm1: Array) -> Array:
        del s_tm1
        return batch_penalty(q, state.similarity, self.form)

    def learn(self, state: FixedState, evidence: Evidence) -> tuple[FixedState, Array]:
        del evidence
        return state, jnp.zeros(())

    def keep(self, state: FixedState, step: InnerStep, updates: Array) -> FixedState:
        del step, updates
        return state


@dataclass(frozen=True)
class Nothing(Fixed):
    """No penalty; the start, the identity, is kept to be shown."""

    form: Form = "mean"

    def penalty(self, state: FixedState, q: Array, s_tm1: Array) -> Array:
        return jnp.zeros(())
