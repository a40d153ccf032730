"""TD losses of one transition: categorical (C51) or scalar, with or without double Q-learning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import rlax
from jax import Array
from masp_kernels import library as native
from masp_kernels import softmax as native_softmax


def expected_values(outputs: Array, support: Array, pushed: bool = False) -> Array:
    """[..., A] values from network outputs [..., A, atoms]; a single atom is the value itself.

    `pushed`: their change along a direction is asked for, rather than their gradient; the same numbers, quicker.
    """
    if support.shape[0] == 1:
        return outputs[..., 0]
    if native.usable(outputs, support):
        by = native_softmax.expected_values_pushed if pushed else native_softmax.expected_values
        return by(outputs, support)
    return jnp.sum(jax.nn.softmax(outputs) * support, axis=-1)


FEW = 64
"""Actions up to which XLA is quicker to look at all than to gather one and to scatter its gradient."""


def _chosen(values: Array, action: Array) -> Array:
    """[] the value [A] of an action."""
    if len(values) > FEW:
        return values[action]
    return jnp.sum(jnp.where(jnp.arange(len(values)) == action, values, 0))


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
    if support.shape[0] == 1:
        q_t = jax.lax.stop_gradient(_chosen(target_outputs_t[:, 0], jnp.argmax(selector_t)))
        td = r_t + discount_t * q_t - _chosen(outputs_tm1[:, 0], a_tm1)
        return rlax.huber_loss(td, 1.0)
    return rlax.categorical_double_q_learning(
        support, outputs_tm1, a_tm1, r_t, discount_t, support, target_outputs_t, selector_t, stop_target_gradients=True
    )
