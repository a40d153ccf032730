"""Telling XLA what comes first."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")


def after(done: Any, values: T) -> T:
    """The same `values`, but XLA must compute them after all leaves [] of `done`.

    Where something is read and then overwritten, as the replay by learning and by the next step, or the parameters by
    what a meta-step keeps and by Adam, XLA copies the whole of it unless the one visibly comes before the other.
    """
    if not jax.tree.leaves(done):
        return values
    never = sum(jax.tree.leaves(done)) > jnp.inf  # also for NaN
    return jax.tree.map(lambda leaf: jnp.where(never, jnp.zeros_like(leaf), leaf), values)
