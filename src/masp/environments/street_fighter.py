"""Street Fighter II, Special Champion Edition, as the paper's table has it. The ROM is the user's own."""

from __future__ import annotations

from functools import partial

import numpy as np

from masp.environments.base import EnvInfo
from masp.environments.process_vector import ProcessVector
from masp.environments.retro import RetroGame, Setting
from masp.environments.retro_controls import Variables
from masp.environments.retro_games import find_game, find_states
from masp.environments.retro_view import View
from masp.environments.street_fighter_combos import combo_actions
from masp.environments.street_fighter_moves import ADDRESSES, Pad
from masp.errors import UserError

GAME = "StreetFighterIISpecialChampionEdition-Genesis-v0"

VIEW = View(128, grey=False)
"""The paper's (128, 128, 3)."""
REPEAT = 2
"""The paper's action repeat; special moves need inputs that short."""


class Rounds:
    """The episode goes on while rounds are won and is over with the first that is lost.

    A round is lost when the health falls below zero, or, where the time ran out, when the opponent's count of rounds
    rises. One in which both fall is not won, so it ends the episode too. Rounds won are counted by the game itself,
    anew with every opponent.
    """

    def __init__(self, pays: str = "score") -> None:
        """`pays`: `score`, the points as they come, or `rounds`, 1 for every round won."""
        self._pays_score = pays == "score"
        self.memory = [0, 0, 0]

    @property
    def won(self) -> int:
        """Rounds won in this episode."""
        return self.memory[2]

    def begin(self, variables: Variables) -> None:
        self.memory = [*_counts(variables), 0]

    def judge(self, variables: Variables, paid: float) -> tuple[float, bool]:
        ours, theirs, before = self.memory
        our_count, their_count = _counts(variables)
        lost = variables["health"] < 0 or their_count > theirs
        won = before + int(our_count > ours and not lost)
        self.memory = [our_count, their_count, won]
        return paid if self._pays_score else float(won - before), lost


def _counts(variables: Variables) -> tuple[int, int]:
    """Rounds that the fighters won against each other; of the integration's four bytes the last is the opponent's."""
    return variables["matches_won"], variables["enemy_matches_won"] & 0xFF


def make_street_fighter(
    env_id: str,
    num_envs: int,
    combos: str = "I",
    state: str = "",
    character: str = "",
    reward: str = "score",
    noops: int = 10,
    max_steps: int = 18_000,
    integrations: str = "",
) -> ProcessVector:
    """So many emulators, each in its process.

    Args:
      combos: `I` or `II`, which macros the environment brings.
      state: where fights begin: a state's name, several by `*`, or the path of state files; empty: Ryu against Guile.
      character: who fights; short for all states named `*.CHARACTERVs*`.
      reward: `score`, the game's points as they come, or `rounds`, 1 for every round won; then an episode with a round
        won is a success.
      noops: an episode begins after 0 to so many steps without buttons (paper: 10).
      max_steps: steps after which an episode is cut (paper: 18,000).
      integrations: a folder with games of one's own, looked at before those of stable-retro.
    """
    if reward not in ("score", "rounds"):
        raise UserError(f"{env_id}: option reward must be score or rounds, got {reward!r}")
    if character and state:
        raise UserError(f"{env_id}: give state or character, not both")
    actions = combo_actions(combos, env_id)
    game = find_game(GAME, integrations)
    game.require_rom()
    states = find_states(game, f"*.{character}Vs*" if character else state)
    setting = Setting(game, states, VIEW, REPEAT, noops, max_steps, ADDRESSES)
    info = EnvInfo(
        env_id=env_id,
        observation_shape=VIEW.shape,
        observation_dtype=np.dtype(np.uint8),
        observation_kind="image",
        actions=actions,
        frames_per_step=REPEAT,
        success_above=0.0 if reward == "rounds" else None,  # how many points a round is worth varies
        max_episode_steps=max_steps,
    )
    return ProcessVector(partial(RetroGame, setting, Pad(), Rounds(reward)), num_envs, info)
