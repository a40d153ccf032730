"""The paper's corruption of a macro set."""

from __future__ import annotations

import numpy as np

from masp.actions import ActionSet, Macro
from masp.errors import UserError


def corrupt(actions: ActionSet, p: float, seed: int) -> ActionSet:
    """Replace each macro with probability p by a uniformly random sequence of the same length.

    Each macro draws from its own stream, seeded by (seed, its place): which macros are replaced at a smaller p
    is a subset of those at a larger p, and what replaces them is the same. A replaced macro loses its name and count.
    """
    if not 0 <= p <= 1:
        raise UserError(f"p must be a probability between 0 and 1, got {p}")
    if seed < 0:
        raise UserError(f"seed must not be negative, got {seed}")
    macros = []
    for place, macro in enumerate(actions.macros):
        rng = np.random.default_rng([seed, place])
        replace = rng.random() < p
        random_sequence = rng.integers(0, actions.num_primitives, len(macro.actions))
        macros.append(Macro(tuple(random_sequence.tolist())) if replace else macro)
    return ActionSet(actions.num_primitives, macros, actions.primitive_names, actions.env_id)
