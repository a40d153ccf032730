"""How an observation of MiniGrid encodes its cells; needs no MiniGrid installed."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from masp import ops
from masp.environments.minigrid_whole import GRID_CARDINALITIES

MINIGRID_CARDINALITIES = (11, 6, 4, 4)
"""Numbers of objects, colours, states (three of doors, and 'held', which is ours) and directions of a cell."""
NUM_PLANES = sum(MINIGRID_CARDINALITIES)
NUM_GRID_PLANES = sum(GRID_CARDINALITIES)


def packed_cells(observation: Array, mission: bool) -> Array:
    """[B, H, W, stack] the one-hot codes of every cell as the lowest `NUM_PLANES` bits of an integer.

    `observation` [B, H, W, codes * stack] has the four codes of a cell per frame, and a fifth channel with the words of
    the mission where `mission` is set; the words are not part of the result.
    """
    channels = len(MINIGRID_CARDINALITIES) + mission
    frames = range(0, observation.shape[-1], channels)
    packed = [ops.pack_one_hot(observation[..., i : i + channels], MINIGRID_CARDINALITIES) for i in frames]
    return jnp.stack(packed, axis=-1)


def packed_grid(observation: Array, mission: bool) -> Array:
    """[B, S, S, stack] the same for whole grids [B, S, S, stack], with one byte per cell (`minigrid_whole.py`)."""
    codes = observation[..., :: 1 + mission].astype(jnp.int32)
    _, colours, states = GRID_CARDINALITIES
    parts = jnp.stack([codes // (colours * states), codes // states % colours, codes % states], axis=-1)
    return ops.pack_one_hot(parts, GRID_CARDINALITIES)
