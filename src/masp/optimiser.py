"""One step of the optimiser: parameters, moments, and how large the gradient was."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from masp.metagradient import EPS_ROOT, Params, adam
from masp.native import adam as native
from masp.native.library import usable
from masp.ordering import after

B1, B2 = 0.9, 0.999  # optax's defaults, which `metagradient.adam` takes


def descend(
    learning_rate: float,
    eps: float,
    max_norm: float | None,
    gradient: Params,
    state: optax.OptState,
    params: Params,
    done: Any = (),
) -> tuple[Params, optax.OptState, Array]:
    """Parameters and state after a step of `metagradient.adam`, and the norm [] of the gradient before clipping.

    It overwrites parameters and moments in place; whatever reads them before must be in `done`, leaves [] (see
    `ordering.after`).
    """

    def plainly(gradient: Params, state: optax.OptState, params: Params) -> Any:
        gradient = after(done, gradient)
        updates, moved = adam(learning_rate, eps, max_norm).update(gradient, state, params)
        return optax.apply_updates(params, updates), moved, optax.global_norm(gradient)

    leaves = jax.tree.leaves((gradient, params))
    if not usable(*leaves) or len(leaves) > 2 * native.MOST_LEAVES:
        return plainly(gradient, state, params)

    @jax.custom_jvp
    def at_once(gradient: Params, state: optax.OptState, params: Params) -> Any:
        clip, moments, scale = state
        count = optax.safe_increment(moments.count)
        corrections = after(done, 1 - jnp.array([B1, B2], jnp.float32) ** count)
        settings = native.Settings(learning_rate, B1, B2, eps, EPS_ROOT, max_norm or 0.0)
        mu, nu, params, norm = native.step(settings, corrections, gradient, moments.mu, moments.nu, params)
        return params, (clip, moments._replace(count=count, mu=mu, nu=nu), scale), norm

    @at_once.defjvp
    def _derivative(primals: Any, tangents: Any) -> Any:
        return jax.jvp(plainly, primals, tangents)

    return at_once(gradient, state, params)
