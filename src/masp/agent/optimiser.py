"""One step of the optimiser: parameters, moments, and how large the gradient was; and its derivative."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array
from masp_kernels import adam as native
from masp_kernels.library import usable

from masp.ops.ordering import after
from masp.similarity.metagradient import EPS_ROOT, Params, adam

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

    if not _fits(gradient, params):
        return plainly(gradient, state, params)

    @jax.custom_jvp
    def at_once(gradient: Params, state: optax.OptState, params: Params) -> Any:
        clip, moments, scale = state
        count = optax.safe_increment(moments.count)
        corrections = after(done, _corrections(count))
        settings = _settings(learning_rate, eps, max_norm)
        mu, nu, params, norm = native.step(settings, corrections, gradient, moments.mu, moments.nu, params)
        return params, (clip, moments._replace(count=count, mu=mu, nu=nu), scale), norm

    @at_once.defjvp
    def _derivative(primals: Any, tangents: Any) -> Any:
        return jax.jvp(plainly, primals, tangents)

    return at_once(gradient, state, params)


def to_differentiate(learning_rate: float, eps: float, max_norm: float | None) -> optax.GradientTransformation:
    """`metagradient.adam` for those who want its updates' derivative in the gradient, in reverse."""
    plain = adam(learning_rate, eps, max_norm)

    @jax.custom_vjp
    def updates(gradient: Params, state: optax.OptState) -> Params:
        return plain.update(gradient, state)[0]

    def forward(gradient: Params, state: optax.OptState) -> Any:
        return updates(gradient, state), (gradient, state)

    def backward(kept: Any, cotangent: Params) -> tuple[Params, None]:
        gradient, (_, moments, _) = kept
        corrections = _corrections(optax.safe_increment(moments.count))
        settings = _settings(learning_rate, eps, max_norm)
        return native.pull_back(settings, corrections, gradient, moments.mu, moments.nu, cotangent), None

    updates.defvjp(forward, backward)

    def update(gradient: Params, state: optax.OptState, params: Params = None) -> tuple[Params, optax.OptState]:
        if not _fits(gradient, gradient):
            return plain.update(gradient, state, params)
        return updates(gradient, state), state

    return optax.GradientTransformation(plain.init, update)


def _fits(gradient: Params, params: Params) -> bool:
    leaves = jax.tree.leaves((gradient, params))
    return usable(*leaves) and len(leaves) <= 2 * native.MOST_LEAVES


def _corrections(count: Array) -> Array:
    """[2] by what the moments are too small after so many steps."""
    return 1 - jnp.array([B1, B2], jnp.float32) ** count


def _settings(learning_rate: float, eps: float, max_norm: float | None) -> native.Settings:
    return native.Settings(learning_rate, B1, B2, eps, EPS_ROOT, max_norm or 0.0)
