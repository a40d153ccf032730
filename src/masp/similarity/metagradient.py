"""The exact gradient of the held-out TD loss with respect to the similarity, through one whole optimiser step.

With theta' = theta + U(g), g = g_TD + g_penalty(S), and g' the TD gradient on held-out data at theta', the chain rule
gives dJ'/dS = g'^T (dU/dg) (d g_penalty / dS). Read from the left it needs no second-order backpropagation:

  v = (dU/dg)^T g'                      one vector-Jacobian product through clipping and Adam
  dJ'/dS = d/dS [ d penalty(theta + t v, S) / dt at t = 0 ]

and the derivative along v is one Jacobian-vector product through the network, whose result (q and its tangent, both
[B, A]) is all that the derivative in S needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

Params = Any


class InnerStep(NamedTuple):
    """One update of the agent, as far as its dependence on the similarity goes."""

    params: Params  # theta, before the update
    opt_state: optax.OptState  # before the update
    gradient: Params  # g = g_TD + g_penalty
    observations: Array  # [B, ...] states of the penalty
    context: Array  # [A, A] similarity that the network saw; a constant here
    noise: Any  # the noise sample of the pass
    similarity: Array  # [A, A] S in the penalty: what the derivative is taken in


def meta_gradient(
    values: Callable[[Params, InnerStep], Array],
    penalty: Callable[[Array, Array], Array],
    optimiser: optax.GradientTransformation,
    step: InnerStep,
    held_out_gradient: Params,
) -> Array:
    """[A, A] dJ'/dS through `step`.

    Args:
      values: action values [B, A] of the step's observations, under its noise and context, for any parameters.
      penalty: the weighted penalty [] of values [B, A] under a similarity [A, A].
      held_out_gradient: g', at the parameters after the step.
    """
    _, pull_back = jax.vjp(lambda g: optimiser.update(g, step.opt_state, step.params)[0], step.gradient)
    (direction,) = pull_back(held_out_gradient)
    q, tangent = jax.jvp(lambda params: values(params, step), (step.params,), (direction,))
    return jax.grad(lambda s: jax.jvp(lambda q: penalty(q, s), (q,), (tangent,))[1])(step.similarity)


TRACE_DECAY = 0.9
"""Weight of each further step of the trace."""


def traced_meta_gradient(
    gradient_of: Callable[[InnerStep], Array], steps: InnerStep, decay: float = TRACE_DECAY
) -> Array:
    """[A, A] decayed sum over the last K steps (leading axis of `steps`, newest first), as in Xu et al. (2018).

    How an earlier step changed later ones is summarised by `decay`, as there. Their trace is |theta| x A^2 numbers;
    keeping the steps instead needs K copies of theta.
    """
    count = jax.tree.leaves(steps)[0].shape[0]
    if count == 1:
        return gradient_of(jax.tree.map(lambda leaf: leaf[0], steps))
    gradients = jax.lax.map(gradient_of, steps)  # one at a time: K tangents of theta at once would not fit
    return jnp.tensordot(decay ** jnp.arange(count), gradients, axes=1)
