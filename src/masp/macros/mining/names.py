"""Names of primitive actions, and macros spelled with them."""

from collections.abc import Sequence
from itertools import groupby

ALE_ACTIONS = (
    "NOOP",
    "FIRE",
    "UP",
    "RIGHT",
    "LEFT",
    "DOWN",
    "UPRIGHT",
    "UPLEFT",
    "DOWNRIGHT",
    "DOWNLEFT",
    "UPFIRE",
    "RIGHTFIRE",
    "LEFTFIRE",
    "DOWNFIRE",
    "UPRIGHTFIRE",
    "UPLEFTFIRE",
    "DOWNRIGHTFIRE",
    "DOWNLEFTFIRE",
)
"""The full action set of the Arcade Learning Environment, in its order."""


def noop_action(primitive_names: tuple[str, ...]) -> int | None:
    """The action named NOOP, if there is one."""
    upper = [name.upper() for name in primitive_names]
    return upper.index("NOOP") if "NOOP" in upper else None


def spelled(sequence: Sequence[int], primitive_names: Sequence[str]) -> str:
    """A macro for people, repeats shortened: `RIGHT×3 FIRE`."""
    runs = [(action, len(list(run))) for action, run in groupby(sequence)]
    named = [(primitive_names[action] if primitive_names else str(action), n) for action, n in runs]
    return " ".join(name if n == 1 else f"{name}×{n}" for name, n in named)
