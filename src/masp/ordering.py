"""Telling XLA what comes first."""

from __future__ import annotations

from typing import Any, TypeVar

import jax
import jax.numpy as jnp

T = TypeVar("T")


def after(done: Any, values: T) -> T:
    """The same `values`, but XLA must compute them after all leaves [] of `done`.

    Learning reads the replay, and then something is written to it. Unless the one visibly comes before the other, XLA
    copies the whole replay instead of writing in place, which took half of the time of some runs.
    """
    never = sum(jax.tree.leaves(done)) > jnp.inf  # also for NaN
    return jax.tree.map(lambda leaf: jnp.where(never, jnp.zeros_like(leaf), leaf), values)
