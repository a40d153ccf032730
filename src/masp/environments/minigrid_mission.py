"""The text of a MiniGrid mission as one plane of an observation: one word code per cell, in row-major order.

So an observation remains a single array of bytes for the replay. The vocabulary has every word of every mission of the
`minigrid` package, which a test checks. Its order must never change, because trained networks depend on the codes.

This module does not import the `minigrid` package, because the networks of all tasks import this module.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from masp.errors import UserError

VOCABULARY = (
    *("red", "green", "blue", "purple", "yellow", "grey"),
    *("key", "ball", "box", "door", "goal", "lava", "object", "room", "rooms", "square", "hallway", "opening", "maze"),
    *("get", "go", "pick", "up", "put", "open", "unlock", "find", "fetch", "reach", "avoid", "traverse", "use", "must"),
    *("a", "and", "at", "end", "from", "matching", "near", "of", "the", "then", "to", "you"),
)
NO_WORD, UNKNOWN_WORD = 0, 1
NUM_CODES = len(VOCABULARY) + 2
MOST_WORDS = 24
"""Upper bound on the words of a mission; the longest mission of the package has 17."""

_CODES = {word: code for code, word in enumerate(VOCABULARY, UNKNOWN_WORD + 1)}


@lru_cache(4096)  # called at every step, but a mission changes only with the episode
def mission_plane(mission: str, width: int, height: int) -> np.ndarray:
    """[width, height] uint8 codes of the words of `mission`; the cells after the last word are `NO_WORD`."""
    words = mission.lower().replace(",", " ").replace(".", " ").split()
    capacity = min(width * height, MOST_WORDS)
    if len(words) > capacity:
        raise UserError(
            f"the mission {mission!r} has {len(words)} words, but {width}x{height} cells have room for {capacity}; "
            + ("choose a larger agent_view_size" if capacity < MOST_WORDS else "shorten it")
        )
    plane = np.full(width * height, NO_WORD, np.uint8)
    plane[: len(words)] = [_CODES.get(word, UNKNOWN_WORD) for word in words]
    plane.flags.writeable = False
    return plane.reshape(width, height)
