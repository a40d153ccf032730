"""A wide sum tree for sampling rows in proportion to their priority.

Branching 32 keeps a million leaves four levels deep, so that sampling a batch is four small gathers instead of
twenty. Parents are recomputed from their children instead of being adjusted by differences: repeated leaves in one
write need no care and no rounding error accumulates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from masp import ops
from masp.ops.sampling import BRANCHING

Tree = tuple[Array, ...]
"""Levels from the leaves [L] (padded with zeros) up to the root's children; each a multiple of 32 long."""


def init(num_leaves: int) -> Tree:
    """All priorities 0."""
    levels = []
    size = num_leaves
    while True:
        size = -(-size // BRANCHING)
        levels.append(jnp.zeros(size * BRANCHING))
        if size == 1:
            return tuple(levels)


def total(tree: Tree) -> Array:
    """Sum of all priorities."""
    return jnp.sum(tree[-1])


def write(tree: Tree, leaves: Array, priorities: Array) -> Tree:
    """Set `priorities` [K] at `leaves` [K]; those out of range are ignored, a repeated one takes one of its values."""
    levels = [tree[0].at[leaves].set(priorities, mode="drop")]
    parents = leaves
    for level in tree[1:]:
        families = levels[-1].reshape(-1, BRANCHING)
        parents = jnp.clip(parents // BRANCHING, 0, len(families) - 1)
        levels.append(level.at[parents].set(jnp.sum(families[parents], axis=1)))
    return tuple(levels)


def sample(tree: Tree, key: Array, batch_size: int) -> Array:
    """[B] leaves, one from each of B equal parts of the total (stratified)."""
    within = jax.random.uniform(key, (batch_size,))
    mass = (jnp.arange(batch_size) + within) / batch_size * total(tree)
    return ops.find_leaves(tree, mass)
