"""TD losses of one transition: categorical (C51) or scalar, with or without double Q-learning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

FEW_ACTIONS = 64
"""Up to this many actions, XLA is faster with a masked sum than with a gather, whose gradient is a scatter."""


def td_loss(
    outputs_tm1: Array,
    a_tm1: Array,
    r_t: Array,
    discount_t: Array,
    target_outputs_t: Array,
    selector_t: Array,
    support: Array,
) -> Array:
    """[] loss of one transition; only `outputs_tm1` receives gradient.

    Args:
      outputs_tm1: [A, atoms] online network at s_tm1.
      target_outputs_t: [A, atoms] target network at s_t.
      selector_t: [A] values that choose the action at s_t: the online network's (double Q) or the target's own.
      support: [atoms] values of the atoms; one atom means scalar values and Huber's loss.
    """
    a_t = jnp.argmax(selector_t)
    if support.shape[0] == 1:
        q_t = jax.lax.stop_gradient(_value_of(target_outputs_t[:, 0], a_t))
        return huber(r_t + discount_t * q_t - _value_of(outputs_tm1[:, 0], a_tm1))
    p_t = jax.nn.softmax(target_outputs_t[a_t])
    target = jax.lax.stop_gradient(project(r_t + discount_t * support, p_t, support))
    return -jnp.sum(target * jax.nn.log_softmax(outputs_tm1[a_tm1]))


def huber(x: Array) -> Array:
    """[] x^2 / 2 for |x| <= 1, |x| - 1/2 beyond."""
    quadratic = jnp.minimum(jnp.abs(x), 1.0)
    return 0.5 * quadratic**2 + (jnp.abs(x) - quadratic)


def project(atoms: Array, probabilities: Array, support: Array) -> Array:
    """[K] probabilities on `support` [K] with the mean of `probabilities` [M] on `atoms` [M] (Bellemare et al. 2017).

    Every atom is clipped to the support, and its probability divided between the two nearest support points in
    proportion to how near they are. `support` is evenly spaced and increasing.
    """
    spacing = (support[-1] - support[0]) / (len(support) - 1)
    clipped = jnp.clip(atoms, support[0], support[-1])
    share = jnp.clip(1.0 - jnp.abs(clipped[None, :] - support[:, None]) / spacing, 0.0, 1.0)  # [K, M]
    return jnp.sum(share * probabilities, axis=1)


def _value_of(values: Array, action: Array) -> Array:
    """[] the value of one action of [A]."""
    if len(values) > FEW_ACTIONS:
        return values[action]
    return jnp.sum(jnp.where(jnp.arange(len(values)) == action, values, 0))
