"""A wide sum tree for drawing rows in proportion to their priority.

Branching 32 keeps a million leaves four levels deep, so that drawing a batch is four small gathers instead of
twenty. Parents are recomputed from their children instead of being adjusted by differences: repeated leaves in one
write need no care and no rounding error accumulates.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from masp_kernels import library as native
from masp_kernels import sampling as native_sampling

BRANCHING = 32

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


def rebuild(tree: Tree, leaves: Array) -> Tree:
    """The tree of its shape whose leaves [L] are these, all at once."""
    levels = [leaves]
    for level in tree[1:]:
        sums = jnp.sum(levels[-1].reshape(-1, BRANCHING), axis=1)
        levels.append(jnp.zeros_like(level).at[: sums.size].set(sums))
    return tuple(levels)


def find(tree: Tree, mass: Array) -> Array:
    """The leaf [] at which the running sum of priorities first exceeds `mass` [], in [0, total)."""
    index = jnp.zeros((), jnp.int32)
    for level in reversed(tree):
        children = level.reshape(-1, BRANCHING)[index]
        ends = jnp.cumsum(children)
        some = children > 0
        beyond = (ends > mass) & some
        # Rounding may leave `mass` at the very end; the last child with any priority is then meant.
        last = BRANCHING - 1 - jnp.argmax(some[::-1])
        child = jnp.where(jnp.any(beyond), jnp.argmax(beyond), last)
        mass = jnp.clip(mass - (ends[child] - children[child]), 0.0)
        index = index * BRANCHING + child
    return index


def sample(tree: Tree, key: Array, batch_size: int) -> Array:
    """[B] leaves, one from each of B equal parts of the total (stratified)."""
    return sample_each(tree, key[None], batch_size)[0]


def sample_each(tree: Tree, keys: Array, batch_size: int) -> Array:
    """[U, B] leaves: what `sample` draws with each of the keys [U], all at once."""
    within = jax.vmap(lambda key: jax.random.uniform(key, (batch_size,)))(keys)
    mass = ((jnp.arange(batch_size) + within) / batch_size * total(tree)).reshape(-1)
    usable = native.usable(mass, *tree)
    leaves = native_sampling.find(tree, mass) if usable else jax.vmap(find, in_axes=(None, 0))(tree, mass)
    return leaves.reshape(within.shape)
