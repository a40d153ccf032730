"""Learning the similarity by evidence: a pair moves as far as its meta-gradients agree, and stays where they do not.

Meta-gradients are mostly noise. An optimiser that takes a step of fixed size along each of them lets every entry of
the similarity walk at random, many times as far as the small value it starts with. Here each pair keeps the sum of its
meta-gradients and the sum of their squares, whose ratio

  z = - sum g / sqrt(sum g^2)

is near a standard normal number as long as nothing but noise comes in, and grows where something pulls. What exceeds
`THRESHOLD` in size moves the log-odds of the similarity, `GAIN` per unit. So a pair that nothing is known about stays
as it started, and there is no learning rate to choose. docs/does-it-work.md has the comparison with Adam.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

THRESHOLD = 1.5
"""Evidence below this, in standard deviations of noise, moves nothing."""
GAIN = 1.5
"""Log-odds per standard deviation beyond the threshold."""


class Evidence(NamedTuple):
    """What the meta-gradients so far say about each pair of actions."""

    total: Array  # [A, A] sum of meta-gradients, each step scaled to the same size
    squares: Array  # [A, A] sum of their squares


def nothing(similarity: Array) -> Evidence:
    """Before the first meta-gradient."""
    return Evidence(jnp.zeros_like(similarity), jnp.zeros_like(similarity))


def add(evidence: Evidence, gradient: Array) -> Evidence:
    """One meta-gradient [A, A] more.

    Steps count alike: their sizes span orders of magnitude over a run, and a few large ones would be all there is.
    """
    symmetric = jnp.fill_diagonal(gradient + gradient.T, 0.0, inplace=False)
    size = jnp.sqrt(jnp.mean(jnp.square(symmetric)))
    scaled = symmetric / jnp.where(size > 0, size, 1.0)
    return Evidence(evidence.total + scaled, evidence.squares + jnp.square(scaled))


def shift(evidence: Evidence) -> Array:
    """[A, A] by how much the log-odds of each pair are moved from where they started."""
    z = -evidence.total / jnp.sqrt(jnp.where(evidence.squares > 0, evidence.squares, 1.0))
    return GAIN * jnp.sign(z) * jnp.maximum(jnp.abs(z) - THRESHOLD, 0.0)


def moved(similarity: Array, before: Evidence, after: Evidence) -> Array:
    """[A, A] the similarity after `before` has become `after`; not projected.

    Only the difference counts, so a start of any kind needs no memory of its own. Entries of 0 and 1 have no log-odds;
    they are taken as just inside, which for 0 is a hundredth of an even share.
    """
    inside = jnp.minimum(jnp.where(similarity > 0, similarity, 0.01 / similarity.shape[0]), 1.0 - 1e-3)
    change = shift(after) - shift(before)
    stepped = jax.nn.sigmoid(jnp.log(inside) - jnp.log1p(-inside) + change)
    return jnp.where(change == 0, similarity, stepped)
