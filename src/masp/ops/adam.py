"""Gradient clipping and Adam: one step, and its derivative for the meta-gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from masp.ops import kernels
from masp.ops.ordering import after as order_after

Params = Any

B1, B2 = 0.9, 0.999
EPS_ROOT = 1e-16
"""Added under Adam's square root, whose slope is infinite at 0, where the moments of dead units stay. The derivative is
then exactly that of the step taken; 1e-16 changes the denominator by at most 1e-8."""


@dataclass(frozen=True)
class Adam:
    """Clipping by global norm, then Adam; differentiable in the gradient everywhere."""

    learning_rate: float
    eps: float
    max_gradient_norm: float | None = None
    """None or 0: no clipping."""

    def init(self, params: Params) -> optax.OptState:
        """Zero moments."""
        return self._optax.init(params)

    def step(
        self, gradient: Params, opt_state: optax.OptState, params: Params, after: Any = ()
    ) -> tuple[Params, optax.OptState, Array]:
        """Parameters and state after one step, and the norm [] of the gradient before clipping.

        Parameters and moments are overwritten in place: what else reads them must be computed earlier, and is given as
        `after`, a record of which XLA is told to compute all scalars first (see `ordering.after`).
        """
        after = [leaf for leaf in jax.tree.leaves(after) if leaf.ndim == 0]
        if _kernel_fits(gradient, params):
            return self._step_by_kernel(gradient, opt_state, params, after)
        return self._step_by_optax(gradient, opt_state, params, after)

    @property
    def transformation(self) -> optax.GradientTransformation:
        """The same step as an optax transformation with a fast vector-Jacobian product in the gradient."""
        return optax.GradientTransformation(self._optax.init, self._update)

    @property
    def _optax(self) -> optax.GradientTransformation:
        """The reference implementation, from optax."""
        clip = clip_by_global_norm(self.max_gradient_norm) if self.max_gradient_norm else optax.identity()
        adam = optax.scale_by_adam(B1, B2, eps=self.eps, eps_root=EPS_ROOT)
        return optax.chain(clip, adam, optax.scale(-self.learning_rate))

    def _step_by_optax(self, gradient: Params, opt_state: optax.OptState, params: Params, after: Any) -> Any:
        gradient = order_after(after, gradient)
        updates, opt_state = self._optax.update(gradient, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, optax.global_norm(gradient)

    def _step_by_kernel(self, gradient: Params, opt_state: optax.OptState, params: Params, after: Any) -> Any:
        kernel = kernels.module("adam")

        @jax.custom_jvp
        def step(gradient: Params, opt_state: Any, params: Params) -> Any:
            clip, moments, scale = opt_state
            count = optax.safe_increment(moments.count)
            corrections = order_after(after, _bias_corrections(count))
            mu, nu, params, norm = kernel.step(self._settings, corrections, gradient, moments.mu, moments.nu, params)
            return params, (clip, moments._replace(count=count, mu=mu, nu=nu), scale), norm

        @step.defjvp
        def _derivative(primals: Any, tangents: Any) -> Any:
            return jax.jvp(lambda g, state, p: self._step_by_optax(g, state, p, after), primals, tangents)

        return step(gradient, opt_state, params)

    def _update(self, gradient: Params, opt_state: Any, params: Params = None) -> tuple[Params, optax.OptState]:
        if not _kernel_fits(gradient, gradient):
            return self._optax.update(gradient, opt_state, params)

        @jax.custom_vjp
        def updates(gradient: Params, opt_state: Any) -> Params:
            return self._optax.update(gradient, opt_state)[0]

        def forward(gradient: Params, opt_state: Any) -> Any:
            return updates(gradient, opt_state), (gradient, opt_state)

        def backward(residuals: Any, cotangent: Params) -> tuple[Params, None]:
            gradient, (_, moments, _) = residuals
            corrections = _bias_corrections(optax.safe_increment(moments.count))
            kernel = kernels.module("adam")
            return kernel.vjp(self._settings, corrections, gradient, moments.mu, moments.nu, cotangent), None

        updates.defvjp(forward, backward)
        return updates(gradient, opt_state), self._optax.update(gradient, opt_state)[1]

    @property
    def _settings(self) -> Any:
        settings = kernels.module("adam").Settings
        return settings(self.learning_rate, B1, B2, self.eps, EPS_ROOT, self.max_gradient_norm or 0.0)


def clip_by_global_norm(max_norm: float) -> optax.GradientTransformation:
    """optax's, but with a finite derivative where the whole gradient is 0."""

    def update(updates: Params, state: optax.EmptyState, params: Params = None) -> tuple[Params, optax.EmptyState]:
        del params
        squared = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(updates))
        scale = max_norm / jnp.sqrt(jnp.maximum(squared, max_norm**2))
        return jax.tree.map(lambda leaf: leaf * scale, updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _kernel_fits(gradient: Params, params: Params) -> bool:
    leaves = jax.tree.leaves((gradient, params))
    return kernels.usable(*leaves) and len(leaves) <= 2 * kernels.module("adam").MAX_LEAVES


def _bias_corrections(count: Array) -> Array:
    """[2] Adam's bias corrections 1 - beta^t."""
    return 1 - jnp.array([B1, B2], jnp.float32) ** count
