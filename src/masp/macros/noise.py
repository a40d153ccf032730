"""The paper's noise experiment: replace macros at random."""

from __future__ import annotations

import numpy as np

from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro


def corrupt(actions: ActionSet, p: float, seed: int) -> ActionSet:
    """Replace each macro with probability p by a uniformly random sequence of the same length.

    Each macro has its own random stream, seeded by (seed, its index). The macros replaced at a smaller p are
    therefore a subset of those replaced at a larger p, with the same replacements. A replacement has no name or count.
    """
    if not 0 <= p <= 1:
        raise UserError(f"p must be a probability between 0 and 1, got {p}")
    if seed < 0:
        raise UserError(f"seed must not be negative, got {seed}")
    macros = list(actions.macros)
    for index in replaced_indices(len(macros), p, seed):
        sequence = _generator(seed, index, 1).integers(0, actions.num_primitives, len(macros[index].actions))
        macros[index] = Macro(tuple(sequence.tolist()))
    return ActionSet(actions.num_primitives, macros, actions.primitive_names, actions.env_id)


def replaced_indices(num_macros: int, p: float, seed: int) -> list[int]:
    """The macros that `corrupt` replaces."""
    return [index for index in range(num_macros) if _generator(seed, index, 0).random() < p]


def _generator(seed: int, index: int, purpose: int) -> np.random.Generator:
    """The random stream of one macro; purpose 0 decides whether it is replaced, 1 draws the replacement."""
    return np.random.default_rng([seed, index, purpose])
