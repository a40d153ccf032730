"""Telling XLA which computation comes first."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")


def after(scalars: Any, values: T) -> T:
    """The same `values`, but XLA must compute them after all leaves [] of `scalars`.

    XLA copies a buffer that is read and then overwritten, unless the read visibly comes first. This concerns the replay
    (read by learning, overwritten by the next step) and the parameters (kept for a meta-step, overwritten by Adam).
    """
    if not jax.tree.leaves(scalars):
        return values
    never = sum(jax.tree.leaves(scalars)) > jnp.inf  # false also for NaN, but XLA cannot know
    return jax.tree.map(lambda leaf: jnp.where(never, jnp.zeros_like(leaf), leaf), values)
