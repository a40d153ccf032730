"""The penalty and its exact meta-gradient for anybody's JAX agent: any Q-function, any differentiable optimiser.

    meta = masp.MetaSimilarity(network.apply, optimiser, actions)
    similarity = meta.init(params, observations)

    loss = td_loss(params, batch) + meta.penalty(similarity, q)                # q [B, A], in the loss of the agent
    ...                                                                        # gradient, optimiser, new_params
    held_out = jax.grad(td_loss)(new_params, other_batch)                      # without the penalty
    similarity = meta.learn(similarity, params, opt_state, gradient, batch.observations, held_out)

All methods are pure: they work under `jit`, `vmap` (over seeds) and `scan`.
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

from masp.errors import UserError
from masp.importing import one_line
from masp.macros.actions import ActionSet
from masp.similarity import requirements
from masp.similarity.bundle import Bundle
from masp.similarity.descent import Descent
from masp.similarity.matrix import Form, batch_penalty, project
from masp.similarity.metagradient import InnerStep, Params, meta_gradient
from masp.similarity.optimisers import require_differentiable


class SimilarityState(NamedTuple):
    """What changes while the similarity learns."""

    similarity: Array  # [A, A], symmetric, in [0, 1], ones on the diagonal
    opt_state: optax.OptState  # of the meta-optimiser, Adam
    skipped: Array  # [] int32, meta-steps left out because the meta-gradient was not finite


@dataclass(frozen=True)
class MetaSimilarity:
    """A similarity between the actions of an agent, learned by meta-gradient while the agent learns.

    Whole agents with it are examples/dqn_cleanrl_jax.py and examples/dqn_purejaxrl.py.
    """

    q_function: Callable[[Params, Any], Array]
    """`q_function(params, inputs)` gives action values [B, A]; `inputs` is what the methods below are given: the
    observations [B, ...], or any pytree, such as observations with a noise key."""
    optimiser: optax.GradientTransformation
    """The whole optimiser step of the agent, clipping included. Adam needs `eps_root` above 0, such as 1e-16: the slope
    of its square root is infinite where a gradient is 0."""
    actions: ActionSet | int
    """The actions, in the order of the network's outputs; or their number, if nothing else is known."""
    penalty_weight: float | Array = 1.0
    """Weight of the penalty in the loss."""
    learning_rate: float | Array = 0.01
    """Size of a meta-step; most entries move by about as much in one. 0 keeps the similarity as it starts."""
    penalty_form: Form = "mean"
    """Mean or sum over actions; `literal` is the paper's equation as printed, which collapses."""
    entropy_weight: float = 0.0

    def __post_init__(self) -> None:
        requirements.require_settings(self.penalty_weight, self.learning_rate, self.penalty_form, self.entropy_weight)
        if not callable(self.q_function):
            raise UserError("MetaSimilarity: q_function must be a function (params, inputs) -> action values [B, A]")
        if not isinstance(self.optimiser, optax.GradientTransformation):
            kind = type(self.optimiser).__name__
            raise UserError(f"MetaSimilarity: the optimiser must be an optax.GradientTransformation, got {kind}")
        requirements.action_set(self.actions)

    @property
    def action_set(self) -> ActionSet:
        """The actions; without names if only their number is known."""
        return requirements.action_set(self.actions)

    def init(self, params: Params, inputs: Any, start: str | Bundle | Array | np.ndarray = "constant") -> Any:
        """The state before the first update.

        Args:
          params: parameters of the Q-function; only their shapes are used.
          inputs: one batch for the Q-function; only shapes are used.
          start: `constant` (all pairs equally, slightly similar), `overlap` of the macros, `identity` (a stationary
            point: only for use without `learn`), a `Bundle`, or a similarity [A, A].
        """
        values = self._require_values(params, inputs)
        if not _has_gradient(lambda params: self.q_function(params, inputs), params):
            raise UserError(
                "MetaSimilarity: the values of q_function do not depend on params, or lie behind a stop_gradient, so "
                "that a penalty would change nothing"
            )
        require_differentiable(self.optimiser, params)
        matrix = requirements.starting_similarity(start, self.action_set, not isinstance(self.actions, ActionSet))
        similarity = project(jnp.asarray(matrix, jnp.promote_types(values.dtype, jnp.float32)))
        return SimilarityState(similarity, self._descent.init(similarity), jnp.zeros((), jnp.int32))

    def penalty(self, state: SimilarityState, q: Array) -> Array:
        """[] the weighted penalty of action values [B, A], to be added to the TD loss; `q` receives gradient."""
        requirements.require_outputs(jnp.shape(q), None, self.action_set, "penalty: q")
        return self._weighted_penalty(q, jax.lax.stop_gradient(state.similarity))

    def meta_gradient(
        self,
        state: SimilarityState,
        params: Params,
        opt_state: optax.OptState,
        gradient: Params,
        inputs: Any,
        held_out_gradient: Params,
    ) -> Array:
        """[A, A] derivative of the held-out TD loss after an update in the similarity that its penalty used.

        Args:
          params: parameters before the update.
          opt_state: state of the optimiser before the update.
          gradient: what the optimiser was given: gradient of TD loss plus penalty, before clipping.
          inputs: of the Q-function, as in the penalty of the update.
          held_out_gradient: gradient of the TD loss alone, on other data, at the parameters after the update.
        """
        for name, tree in (("gradient", gradient), ("held_out_gradient", held_out_gradient)):
            _require_like(params, tree, name)
        right_state = jax.eval_shape(self.optimiser.init, params)
        if jax.tree.structure(right_state) != jax.tree.structure(opt_state):  # type: ignore[operator]
            raise UserError("learn: opt_state is not a state of this optimiser: the trees differ")
        self._require_values(params, inputs)
        step = InnerStep(params, opt_state, gradient, inputs, None, None, state.similarity)  # type: ignore[arg-type]

        def values(params: Params, step: InnerStep) -> Array:
            return self.q_function(params, step.observations)

        return meta_gradient(values, self._weighted_penalty, self.optimiser, step, held_out_gradient)

    def learn(
        self,
        state: SimilarityState,
        params: Params,
        opt_state: optax.OptState,
        gradient: Params,
        inputs: Any,
        held_out_gradient: Params,
    ) -> SimilarityState:
        """The state after one step down the meta-gradient, lines 14-18 of Algorithm 1; arguments as there.

        A meta-gradient that is not finite changes nothing and is counted in `skipped`: optax's clipping by the global
        norm has no derivative where the whole gradient is 0.
        """
        slope = self.meta_gradient(state, params, opt_state, gradient, inputs, held_out_gradient)
        finite = jnp.all(jnp.isfinite(slope))
        moved = self._descent.step(state.similarity, state.opt_state, slope, self.learning_rate)
        similarity, meta_state = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old), moved, (state.similarity, state.opt_state)
        )
        return SimilarityState(similarity, meta_state, state.skipped + ~finite)

    def bundle(self, state: SimilarityState) -> Bundle:
        """Actions and similarity, to save with `masp.save_bundle` and to start another agent from."""
        return Bundle(self.action_set, np.asarray(state.similarity, np.float32))

    def _require_values(self, params: Params, inputs: Any) -> jax.ShapeDtypeStruct:
        """The shape of the action values, or one line why they cannot be those of the actions."""
        values = _shape_of("q_function", self.q_function, params, inputs)
        requirements.require_outputs(values.shape, None, self.action_set, "q_function's output")
        return values

    @property
    def _descent(self) -> Descent:
        return Descent(entropy_weight=self.entropy_weight)

    def _weighted_penalty(self, q: Array, similarity: Array) -> Array:
        return self.penalty_weight * batch_penalty(q, similarity, self.penalty_form)


def _shape_of(name: str, function: Callable[..., Any], *args: Any) -> jax.ShapeDtypeStruct:
    """Shape of an output, or one line about the function of the user."""
    try:
        shape = jax.eval_shape(function, *args)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name}(params, inputs) failed: {one_line(error)}") from error
    if not hasattr(shape, "shape"):
        raise UserError(f"{name} must return one array of action values [B, A], got {type(shape).__name__}")
    return shape


def _has_gradient(function: Callable[[Params], Array], params: Params) -> bool:
    """Whether the derivative of `function` in `params` is more than 0 by construction; no value is computed."""
    jaxpr = jax.make_jaxpr(lambda tangent: jax.jvp(function, (params,), (tangent,))[1])(params).jaxpr
    needed = {id(variable) for variable in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in needed for variable in equation.outvars):
            needed.update(id(variable) for variable in equation.invars)
    return any(id(variable) in needed for variable in jaxpr.invars)


def _require_like(params: Params, tree: Params, name: str) -> None:
    """Raise `UserError` unless a gradient has the structure and the shapes of the parameters."""
    if jax.tree.structure(params) != jax.tree.structure(tree):  # type: ignore[operator]
        raise UserError(f"learn: {name} is not a gradient of these parameters: the trees differ")
    for (path, leaf), other in zip(jax.tree.leaves_with_path(params), jax.tree.leaves(tree), strict=True):
        if jnp.shape(leaf) != jnp.shape(other):
            place = jax.tree_util.keystr(path)
            raise UserError(f"learn: {name}{place} has shape {jnp.shape(other)}, the parameter {jnp.shape(leaf)}")
