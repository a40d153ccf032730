"""The paper's corruption of a macro set."""

from __future__ import annotations

import numpy as np

from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro


def corrupt(actions: ActionSet, p: float, seed: int) -> ActionSet:
    """Replace each macro with probability p by a uniformly random sequence of the same length.

    Each macro draws from its own stream, seeded by (seed, its place): which macros are replaced at a smaller p
    is a subset of those at a larger p, and what replaces them is the same. A replaced macro loses its name and count.
    """
    if not 0 <= p <= 1:
        raise UserError(f"p must be a probability between 0 and 1, got {p}")
    if seed < 0:
        raise UserError(f"seed must not be negative, got {seed}")
    macros = list(actions.macros)
    for place in replaced_places(len(macros), p, seed):
        draw = _generator(seed, place, 1).integers(0, actions.num_primitives, len(macros[place].actions))
        macros[place] = Macro(tuple(draw.tolist()))
    return ActionSet(actions.num_primitives, macros, actions.primitive_names, actions.env_id)


def replaced_places(number: int, p: float, seed: int) -> list[int]:
    """Which of `number` macros `corrupt` replaces."""
    return [place for place in range(number) if _generator(seed, place, 0).random() < p]


def _generator(seed: int, place: int, use: int) -> np.random.Generator:
    return np.random.default_rng([seed, place, use])
