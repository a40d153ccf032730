"""Two sets of 24 combos, the macros of Street Fighter II.

The paper gives their number, their length (2 to 6 moves), that set II is the more complex, and that they are those of
all characters, whoever fights; it does not list them. Set I here is strikes that need one position of the stick, II the
special moves of the twelve fighters. They are written as on a number pad (see `street_fighter_moves`): 2 3 6 HP rolls
the stick from down to forward and presses heavy punch there. docs/street-fighter.md says whose each is, and what six
moves cannot do.
"""

from __future__ import annotations

from masp.environments.street_fighter_moves import MOVES, NAMES
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro

SIMPLE = {
    "crouch-lp": "2 LP",
    "crouch-mp": "2 MP",
    "crouch-hp": "2 HP",
    "crouch-lk": "2 LK",
    "crouch-mk": "2 MK",
    "sweep": "2 HK",
    "throw-forward-hp": "6 HP",  # also lets a charged Sonic Boom go
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
    """The 15 moves with one of the two sets."""
    if which not in SETS:
        raise UserError(f"{env_id}: option combos must be I or II, got {which!r}")
    macros = [Macro(tuple(MOVES.index(move) for move in moves.split()), name) for name, moves in SETS[which].items()]
    return ActionSet(len(MOVES), macros, NAMES, env_id)
