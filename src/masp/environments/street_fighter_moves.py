"""The 15 moves of Street Fighter II, and two sets of 24 combos, the macros.

The moves are nine positions of the stick and six buttons; the paper says only "reduced (15 discrete moves)". A stick
move releases all buttons. A button move presses one button and leaves the stick in its position, because crouching
kicks and throws need both.

Moves are relative: forward and back, not right and left. The side of the opponent is read from the game before each
step, not once per combo, because the game reads the stick of each frame relative to the opponent's side in that frame.
So a motion remains valid if the fighters pass each other in the middle of it. (Evidence: docs/street-fighter.md.)

The paper gives the number of combos, their length (2 to 6 moves), that set II is more complex, and that both sets are
used for all characters; it does not list them. Here set I has strikes that need one position of the stick, set II the
special moves of the twelve fighters. They are written as on a number pad: 2 3 6 HP rolls the stick from down to forward
and presses heavy punch. docs/street-fighter.md has the fighter of each combo, and what six moves cannot express.
"""

from __future__ import annotations

from collections.abc import Sequence

from masp.environments.retro import Variables
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro

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
"""Positions of the stick, named as on a number pad with the opponent to the right: 5 is neutral, 6 forward."""

BUTTONS = {"LP": "X", "MP": "Y", "HP": "Z", "LK": "A", "MK": "B", "HK": "C"}
"""Light, medium and heavy punch and kick, and their buttons on a six-button pad."""

MOVES = (*STICK, *BUTTONS)
"""The primitives; 0 is neutral."""

NAMES = ("neutral", "forward", "back", "up", "down", "up-forward", "up-back", "down-forward", "down-back", *BUTTONS)
"""Readable names of the primitives."""

RIGHT, LEFT = {"FORWARD": "RIGHT", "BACK": "LEFT"}, {"FORWARD": "LEFT", "BACK": "RIGHT"}
"""Forward and back if the opponent is to the right, and if to the left."""

ADDRESSES = {"x": (0xFF8006, ">u2"), "enemy_x": (0xFF8286, ">u2")}
"""Horizontal positions of the fighters, which the integration lacks; see docs/street-fighter.md for the evidence."""


class Pad:
    """Maps moves to the console's buttons."""

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
        """Start with a neutral stick."""
        self._stick, self._opponent_right = 0, True

    def press(self, action: int, variables: Variables) -> Sequence[str]:
        """Names of the console's buttons to hold for one step."""
        move = MOVES[action]
        if move in STICK:
            self._stick = action
        # At equal positions, the side does not change.
        if variables["x"] != variables["enemy_x"]:
            self._opponent_right = variables["x"] < variables["enemy_x"]
        sides = RIGHT if self._opponent_right else LEFT
        directions = [sides.get(direction, direction) for direction in STICK[MOVES[self._stick]]]
        return [*directions, BUTTONS[move]] if move in BUTTONS else directions


SIMPLE = {
    "crouch-lp": "2 LP",
    "crouch-mp": "2 MP",
    "crouch-hp": "2 HP",
    "crouch-lk": "2 LK",
    "crouch-mk": "2 MK",
    "sweep": "2 HK",
    "throw-forward-hp": "6 HP",  # also releases a charged Sonic Boom
    "throw-back-hp": "4 HP",
    "throw-forward-hk": "6 HK",
    "throw-back-hk": "4 HK",
    "step-in-mp": "6 6 MP",
    "step-in-mk": "6 6 MK",
    "double-lp": "LP 5 LP",
    "double-lk": "LK 5 LK",
    "double-crouch-lk": "2 LK 2 LK",
    "jump-in-hp": "9 9 9 HP",
    "jump-in-hk": "9 9 9 HK",
    "jump-up-hp": "8 8 8 HP",
    "jump-up-hk": "8 8 8 HK",
    "jump-back-hp": "7 7 7 HP",
    "jump-back-hk": "7 7 7 HK",
    "walk-in": "6 6 6 6",
    "guard-high": "4 4 4 4",
    "guard-low": "1 1 1 1",
}
"""Macro-Actions I."""

COMPLEX = {
    "hadouken-lp": "2 3 6 LP",
    "hadouken-mp": "2 3 6 MP",
    "hadouken-hp": "2 3 6 HP",
    "shoryuken-lp": "6 2 3 LP",
    "shoryuken-mp": "6 2 3 MP",
    "shoryuken-hp": "6 2 3 HP",
    "tatsumaki-lk": "2 1 4 LK",
    "tatsumaki-mk": "2 1 4 MK",
    "tatsumaki-hk": "2 1 4 HK",
    "low-tiger-shot": "2 3 6 HK",
    "tiger-knee": "2 3 6 9 HK",
    "kikoken": "4 1 2 3 6 LP",
    "yoga-flame": "4 1 2 3 6 HP",
    "spinning-piledriver": "6 2 4 8 HP",
    "sonic-boom-lp": "1 1 1 1 6 LP",
    "sonic-boom-hp": "1 1 1 1 6 HP",
    "flash-kick": "1 1 1 1 8 HK",
    "rolling-attack": "4 4 4 4 6 HP",
    "double-knee-press": "4 4 4 4 6 HK",
    "spinning-bird-kick": "2 2 2 2 8 LK",
    "hundred-hand-slap": "LP 5 LP 5 LP 5",
    "lightning-legs": "LK 5 LK 5 LK 5",
    "crouch-mk-hadouken": "2 MK 3 6 HP",
    "crouch-hp-shoryuken": "2 HP 6 2 3 HP",
}
"""Macro-Actions II."""

SETS = {"I": SIMPLE, "II": COMPLEX}


def combo_actions(which: str, env_id: str) -> ActionSet:
    """The 15 moves with the combos of set `which`."""
    if which not in SETS:
        raise UserError(f"{env_id}: option combos must be I or II, got {which!r}")
    macros = [Macro(tuple(MOVES.index(move) for move in moves.split()), name) for name, moves in SETS[which].items()]
    return ActionSet(len(MOVES), macros, NAMES, env_id)
