"""The 15 moves of Street Fighter II: nine positions of the stick and six buttons, as a player's two hands have them.

The paper says "reduced (15 discrete moves)" and no more. A stick move lets go of all buttons; a button move presses
one and leaves the stick where it is, for without that nobody could crouch and kick, or throw.

Moves know forward and back, not right and left. Which is which is asked of the game before every step, and not kept for
the length of a combo: the game reads the stick of every frame relative to the side that the opponent is on in that
frame, so a motion asked for anew in every step stays whole, as the game reads it, when the two pass each other in its
middle. Left and right fixed at its start would break it. (Evidence: docs/street-fighter.md.)
"""

from __future__ import annotations

from collections.abc import Sequence

from masp.environments.retro_controls import Variables

STICK = {
    "5": (),
    "6": ("FORWARD",),
    "4": ("BACK",),
    "8": ("UP",),
    "2": ("DOWN",),
    "9": ("UP", "FORWARD"),
    "7": ("UP", "BACK"),
    "3": ("DOWN", "FORWARD"),
    "1": ("DOWN", "BACK"),
}
"""Positions of the stick, named as on a number pad when the opponent is to the right: 5 is neutral, 6 forward."""

BUTTONS = {"LP": "X", "MP": "Y", "HP": "Z", "LK": "A", "MK": "B", "HK": "C"}
"""Light, middle and heavy punch and kick, and where they are on a pad with six buttons."""

MOVES = (*STICK, *BUTTONS)
"""The primitives; 0 does nothing."""

NAMES = ("neutral", "forward", "back", "up", "down", "up-forward", "up-back", "down-forward", "down-back", *BUTTONS)
"""What people call the primitives."""

RIGHT, LEFT = {"FORWARD": "RIGHT", "BACK": "LEFT"}, {"FORWARD": "LEFT", "BACK": "RIGHT"}
"""Forward and back where the opponent is to the right, and where to the left."""

ADDRESSES = {"x": (0xFF8006, ">u2"), "enemy_x": (0xFF8286, ">u2")}
"""Where the fighters are. The integration does not tell; see docs/street-fighter.md for the evidence."""


class Pad:
    """Turns moves into buttons of the console."""

    num_actions = len(MOVES)

    def __init__(self) -> None:
        self._stick, self._opponent_right = 0, True

    @property
    def memory(self) -> list[int]:
        return [self._stick, int(self._opponent_right)]

    @memory.setter
    def memory(self, memory: list[int]) -> None:
        self._stick, self._opponent_right = memory[0], bool(memory[1])

    def begin(self, variables: Variables) -> None:
        """The stick is neutral."""
        self._stick, self._opponent_right = 0, True

    def press(self, action: int, variables: Variables) -> Sequence[str]:
        """Names of the console's buttons to hold for one step."""
        move = MOVES[action]
        if move in STICK:
            self._stick = action
        # Right above one another they face as they did before.
        if variables["x"] != variables["enemy_x"]:
            self._opponent_right = variables["x"] < variables["enemy_x"]
        sides = RIGHT if self._opponent_right else LEFT
        held = [sides.get(direction, direction) for direction in STICK[MOVES[self._stick]]]
        return [*held, BUTTONS[move]] if move in BUTTONS else held
