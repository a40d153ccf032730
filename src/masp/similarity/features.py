"""Observations of any kind as a flat vector, for linear predictions from them (`outcomes.py`)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from masp import ops
from masp.environments.base import ObservationKind
from masp.environments.minigrid_cells import NUM_GRID_PLANES, NUM_PLANES, packed_cells, packed_grid

IMAGE_SIDE = 12
"""Images are averaged down to about this many cells a side."""


def flat_features(observation: Array, kind: ObservationKind) -> Array:
    """[B, F] of observations [B, ...], the first of them always 1."""
    if kind == "image":
        x = _averaged(observation) / 255.0
    elif kind in ("minigrid", "minigrid-mission"):
        x = ops.unpack_bits(packed_cells(observation, kind == "minigrid-mission"), NUM_PLANES)
    elif kind in ("minigrid-whole", "minigrid-whole-mission"):
        x = ops.unpack_bits(packed_grid(observation, kind == "minigrid-whole-mission"), NUM_GRID_PLANES)
    else:
        x = observation.astype(jnp.result_type(float))
    return jnp.concatenate([jnp.ones((len(x), 1), x.dtype), x.reshape(len(x), -1)], axis=1)


def _averaged(image: Array) -> Array:
    """[B, h, w, C] means over square blocks of [B, H, W, C]; incomplete blocks at the edges are dropped."""
    block = max(1, min(image.shape[1:3]) // IMAGE_SIDE)
    height, width = image.shape[1] // block, image.shape[2] // block
    cut = image[:, : height * block, : width * block].astype(jnp.result_type(float))
    return jnp.mean(cut.reshape(len(cut), height, block, width, block, -1), axis=(2, 4))
