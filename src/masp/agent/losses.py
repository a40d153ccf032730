"""TD targets and losses of one transition: categorical (C51) or scalar; the caller maps them over a batch.

Network outputs are [A, atoms]: logits of a distribution over `support` [atoms], or the value itself for one atom.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jax import Array

FEW_ACTIONS = 64
"""Up to this many actions, XLA selects one faster by a masked sum than by gathering it and scattering its gradient."""


def td_target(r_t: Array, discount_t: Array, target_outputs_t: Array, selector_t: Array, support: Array) -> Array:
    """[atoms] the bootstrapped target of one transition: probabilities, or one value; receives no gradient.

    Args:
      target_outputs_t: [A, atoms] target network at s_t.
      selector_t: [A] values that select the action at s_t: the online network's (double Q) or the target's own; -inf
        where an action may not be chosen.
    """
    best = target_outputs_t[jnp.argmax(selector_t)]  # [atoms]
    if support.shape[0] == 1:
        return jax.lax.stop_gradient(r_t + discount_t * best)
    projected = project_distribution(r_t + discount_t * support, jax.nn.softmax(best), support)
    return jax.lax.stop_gradient(projected)


def project_distribution(locations: Array, probabilities: Array, support: Array) -> Array:
    """[atoms] the distribution with mass `probabilities` [n] at `locations` [n], on an evenly spaced `support`.

    Each mass is shared between the two nearest atoms in proportion to its distance from them; what lies beyond the ends
    goes to the last atom (Bellemare et al. 2017, algorithm 1).
    """
    spacing = support[1] - support[0]
    inside = jnp.clip(locations, support[0], support[-1])
    share = jnp.clip(1 - jnp.abs(inside[None, :] - support[:, None]) / spacing, 0.0, 1.0)  # [atoms, n]
    return share @ probabilities


def td_loss(outputs_tm1: Array, a_tm1: Array, target: Array) -> Array:
    """[] loss of the chosen action's output against `target` [atoms]; `outputs_tm1` [A, atoms] receives gradient.

    Cross-entropy of distributions, or Huber's loss of the TD error for scalar values.
    """
    if target.shape[0] > 1:
        return -jnp.sum(target * jax.nn.log_softmax(outputs_tm1[a_tm1]))
    values = outputs_tm1[:, 0]
    if len(values) > FEW_ACTIONS:
        value = values[a_tm1]
    else:
        value = jnp.sum(jnp.where(jnp.arange(len(values)) == a_tm1, values, 0))
    return optax.losses.huber_loss(value, target[0])


def margin_loss(q: Array, action: Array, demonstrated: Array, choosable: Array, margin: float) -> Array:
    """[] how far `action` is from being better by `margin` than every action that was not demonstrated.

    The large-margin loss of Hester et al. 2018, for several demonstrated actions: a macro that plays as was
    demonstrated is no rival of its first primitive.

    Args:
      q: [A] action values of one state; receives gradient.
      demonstrated: [A] bool, the actions that play as was demonstrated; `action` is one of them.
      choosable: [A] bool, the actions that greedy decisions may choose.
    """
    rivals = jnp.where(choosable & ~demonstrated, q, -jnp.inf)
    return jnp.maximum(jnp.max(rivals) + margin - q[action], 0.0)
