"""What the agent played lately: its primitives and the scores of its finished episodes, a ring beside the replay's.

The replay holds decisions where windows start, which is not enough to mine from; here every step has one row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.acting import Episodes as Ended
from masp.macros.episodes import Episodes

IDLE, PLAYED, LAST = 0, 1, 2
"""A row in which nothing was played (a reset, or not yet written), a step, the last step of an episode."""


class Journal(NamedTuple):
    """A ring of T ticks of N environments."""

    primitive: Any  # [T, N] uint16
    kind: Any  # [T, N] uint8: IDLE, PLAYED or LAST
    score: Any  # [T, N] undiscounted return of the episode that this step ended


def init(num_ticks: int, num_envs: int) -> Journal:
    """Nothing played."""
    grid = (num_ticks, num_envs)
    return Journal(jnp.zeros(grid, jnp.uint16), jnp.zeros(grid, jnp.uint8), jnp.zeros(grid))


def write(journal: Journal, tick: Array, primitives: Array, idle: Array, ended: Ended) -> Journal:
    """Add what N environments played at `tick`, in the place of the oldest row."""
    at = (tick % journal.kind.shape[0], 0)
    kind = jnp.where(idle, IDLE, jnp.where(ended.ended, LAST, PLAYED))

    def row(ring: Array, values: Array) -> Array:
        return jax.lax.dynamic_update_slice(ring, values[None].astype(ring.dtype), at)

    return Journal(row(journal.primitive, primitives), row(journal.kind, kind), row(journal.score, ended.score))


def finished_episodes(journal: Journal, tick: int, success_above: float | None) -> Episodes:
    """The episodes that ended within the ring, in the order in which they ended, for mining.

    Of one that began before the ring, it is the part that is left.

    Args:
      journal: as NumPy arrays.
      tick: how many rows were ever written.
      success_above: an episode with a higher score is a success; None: not known.
    """
    oldest = tick % len(journal.kind)
    # One environment after the other, each from its oldest row.
    primitive, kind, score = (np.roll(ring, -oldest, axis=0).T for ring in journal)
    played, ended = primitive[kind != IDLE], (kind == LAST)[kind != IDLE]
    # What follows the last end of an environment is not finished; it is a piece without an end of its own.
    piece_ends = ended | _last_rows(kind != IDLE)
    pieces = np.split(played, np.flatnonzero(piece_ends)[:-1] + 1) if len(played) else []
    finished = [piece for piece, whole in zip(pieces, ended[piece_ends], strict=True) if whole]
    env, row = np.nonzero(kind == LAST)
    order = np.argsort(row, kind="stable")
    scores = score[env, row][order].astype(np.float64)
    success = None if success_above is None else (scores > success_above).astype(np.int8)
    return Episodes.of([finished[i] for i in order], scores.tolist(), success)


def _last_rows(used: np.ndarray) -> np.ndarray:
    """Of the rows used [N, T], flat: which are the last of their environment."""
    counts = used.sum(axis=1)
    last = np.zeros(int(counts.sum()), bool)
    last[np.cumsum(counts)[counts > 0] - 1] = True
    return last
