"""Macros for an environment of which no play is recorded."""

from __future__ import annotations

from collections.abc import Sequence

from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro
from masp.macros.mining.names import noop_action


def default_macros(
    num_primitives: int, primitive_names: Sequence[str] = (), env_id: str = "", lengths: Sequence[int] = (2, 4)
) -> ActionSet:
    """Repeats of each primitive, of each length; an action named NOOP is not repeated."""
    if any(length < 2 for length in lengths):
        raise UserError(f"a repeat plays an action at least twice, got lengths {tuple(lengths)}")
    primitives = ActionSet(num_primitives, (), primitive_names, env_id)
    noop = noop_action(primitives.primitive_names)
    names = primitives.names
    macros = [
        Macro((action,) * length, name=f"{names[action]}x{length}")
        for length in lengths
        for action in range(num_primitives)
        if action != noop
    ]
    return ActionSet(num_primitives, macros, primitive_names, env_id)
