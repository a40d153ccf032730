"""Seaquest as MinAtar 1.0.15 plays it: what pgx 2.6 does otherwise, put right after each of its steps.

1. pgx never removes an enemy bullet that has left the board. One at x = -1 then passes for an empty slot and stops all
   bullets after it; those that left on the right fill the list.
2. The enemies' speed rises every second time the submarine surfaces; pgx begins with the first time, MinAtar with the
   second.
3. MinAtar ends the episode one step earlier when the oxygen is used up, and then shows an empty gauge, not a full one.

One difference stays: an enemy submarine that moves into a bullet in the very step in which it shoots is removed
without shooting.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

OXYGEN_GAUGE = 7
"""Its plane in an observation; row 9."""


def corrected(before: Any, after: Any) -> Any:
    """The state that MinAtar has where pgx went from `before` to `after`."""
    surfaced = after._ramp_index > before._ramp_index
    faster = (before._move_speed > 2) & (before._ramp_index % 2 == 1)
    terminal = after._terminal | (before._oxygen <= 0)
    gauge = after.observation[9, :, OXYGEN_GAUGE] & (after._oxygen >= 0)
    return after.replace(
        _e_bullets=_on_board(after._e_bullets),
        _move_speed=jnp.where(surfaced, before._move_speed - faster, after._move_speed),
        _terminal=terminal,
        terminated=terminal,
        observation=after.observation.at[9, :, OXYGEN_GAUGE].set(gauge),
    )


def _on_board(bullets: Array) -> Array:
    """[25, 3] the bullets (x, y, direction) with 0 <= x <= 9 in their order, then empty slots of -1."""
    gone = (bullets[:, 0] < 0) | (bullets[:, 0] > 9)
    kept_first = jnp.argsort(gone, stable=True)
    return jnp.where(gone[:, None], -1, bullets)[kept_first]
