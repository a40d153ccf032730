"""Whether a meta-gradient can go through an optimiser: asked of the optimiser itself, by differentiating one step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from masp.errors import UserError
from masp.importing import one_line

Params = Any


def require_differentiable(optimiser: optax.GradientTransformation, params: Params) -> None:
    """Raise `UserError` unless the derivative of a first step in the gradient is finite, and not 0 everywhere.

    Half of the gradient's entries are 0, as those of dead units are. Only shapes of `params` are used, and the step is
    computed at once, also where this is called under `jit`.
    """
    with jax.ensure_compile_time_eval():
        like = jax.tree.map(lambda leaf: np.full(jnp.shape(leaf), 0.1, jnp.result_type(leaf)), params)
        gradient = jax.tree.map(_half_zero, like)
        try:
            opt_state = optimiser.init(like)
            _, pull_back = jax.vjp(lambda g: optimiser.update(g, opt_state, like)[0], gradient)
            (slope,) = pull_back(jax.tree.map(jnp.ones_like, gradient))
        except Exception as error:
            raise UserError(f"MetaSimilarity: the optimiser cannot be differentiated: {one_line(error)}") from error
        entries = [np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(slope)]
    if not all(np.isfinite(leaf).all() for leaf in entries):
        raise UserError(
            "MetaSimilarity: the optimiser's derivative is not finite where a gradient is 0, because of a square root; "
            "give it eps_root, as in optax.adam(3e-4, eps_root=1e-16)"
        )
    if not any(leaf.any() for leaf in entries):
        raise UserError(
            "MetaSimilarity: the optimiser's step does not change with the gradient (its derivative is 0, as that of a "
            "sign or of accumulated gradients is), so no similarity can be learned through it; use Adam, RMSProp or SGD"
        )


def _half_zero(leaf: np.ndarray) -> np.ndarray:
    """[...] entries 0, 1e-2, 0, 1e-2, ..."""
    return (1e-2 * (np.arange(leaf.size) % 2)).reshape(leaf.shape).astype(leaf.dtype)
