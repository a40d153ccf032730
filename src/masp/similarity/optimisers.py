"""Whether a meta-gradient can go through an optimiser: asked of the optimiser itself, by differentiating its steps."""

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
    """Raise `UserError` unless the derivative of a step in the gradient is finite, and not 0 everywhere.

    Half of the gradient's entries are 0, as those of dead units are. Only shapes of `params` are used, and the steps
    are computed at once, also where this is called under `jit`. A schedule may begin with a step size of 0, so that
    the next two count where the first has no derivative; of accumulated gradients, one of the two has none.
    """
    with jax.ensure_compile_time_eval():
        like = jax.tree.map(lambda leaf: np.full(jnp.shape(leaf), 0.1, jnp.result_type(leaf)), params)
        gradient = jax.tree.map(_half_zero, like)
        try:
            opt_state = optimiser.init(like)
            slopes = [_slope(optimiser, gradient, opt_state, like)]
            while not _moves(slopes[0]) and len(slopes) < 3:
                _, opt_state = optimiser.update(gradient, opt_state, like)
                slopes.append(_slope(optimiser, gradient, opt_state, like))
        except Exception as error:
            raise UserError(f"MetaSimilarity: the optimiser cannot be differentiated: {one_line(error)}") from error
    if not all(np.isfinite(leaf).all() for slope in slopes for leaf in slope):
        raise UserError(
            "MetaSimilarity: the optimiser's derivative is not finite where a gradient is 0, because of a square root; "
            "give it eps_root, as in optax.adam(3e-4, eps_root=1e-16)"
        )
    if not all(_moves(slope) for slope in slopes[1:] or slopes):
        raise UserError(
            "MetaSimilarity: the optimiser's step does not change with the gradient (its derivative is 0, as that of a "
            "sign or of accumulated gradients is), so no similarity can be learned through it; use Adam, RMSProp or SGD"
        )


def _slope(
    optimiser: optax.GradientTransformation, gradient: Params, opt_state: Any, params: Params
) -> list[np.ndarray]:
    """The leaves of the derivative of a step's sum of entries in the gradient."""
    _, pull_back = jax.vjp(lambda g: optimiser.update(g, opt_state, params)[0], gradient)
    (slope,) = pull_back(jax.tree.map(jnp.ones_like, gradient))
    return [np.asarray(leaf, np.float32) for leaf in jax.tree.leaves(slope)]


def _moves(slope: list[np.ndarray]) -> bool:
    return any(leaf.any() for leaf in slope)


def _half_zero(leaf: np.ndarray) -> np.ndarray:
    """[...] entries 0, 1e-2, 0, 1e-2, ..."""
    return (1e-2 * (np.arange(leaf.size) % 2)).reshape(leaf.shape).astype(leaf.dtype)
