"""Street Fighter II, Special Champion Edition, with the settings of the paper's table. Users bring their own ROM."""

from __future__ import annotations

from functools import partial

import numpy as np

from masp.environments.base import EnvInfo, HostEnv, Option, make_with_options
from masp.environments.processes import ProcessVector
from masp.environments.retro import RetroGame, Setting, Variables, View
from masp.environments.retro_games import find_game, find_states
from masp.environments.street_fighter_moves import ADDRESSES, Pad, combo_actions
from masp.errors import UserError

GAME = "StreetFighterIISpecialChampionEdition-Genesis-v0"

VIEW = View(128, grey=False)
"""The paper's (128, 128, 3)."""
REPEAT = 2
"""The paper's action repeat; special moves need such short inputs."""


def make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    """`num_envs` emulators of the game."""
    return make_with_options(partial(make_street_fighter, env_id, num_envs), env_id, options)


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
    """`num_envs` emulators, each in its own process.

    Args:
      combos: `I` or `II`, the environment's own macros.
      state: start of the fights: name of a state, a pattern with `*`, or path of state files; empty: Ryu against Guile.
      character: the agent's fighter; short for all states named `*.CHARACTERVs*`.
      reward: `score`, the game's points, or `rounds`, 1 per round won; then an episode with a round won is a success.
      noops: an episode starts with 0 to `noops` steps without buttons (paper: 10).
      max_steps: steps after which an episode is truncated (paper: 18,000).
      integrations: folder with the user's own integrations, searched before those of stable-retro.
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
        success_above=0.0 if reward == "rounds" else None,  # the points of a round vary
        max_episode_steps=max_steps,
    )
    return ProcessVector(partial(RetroGame, setting, Pad(), Rounds(reward)), num_envs, info)


class Rounds:
    """The episode goes on while the agent wins rounds and terminates with the first round that it does not win.

    A round is lost when the health falls below zero, or, if the time runs out, when the opponent's count of rounds
    rises. A round in which both fighters fall is not won, so it terminates the episode too. The game itself counts the
    rounds, from 0 for each opponent.
    """

    def __init__(self, reward: str = "score") -> None:
        """`reward`: `score`, the game's points, or `rounds`, 1 per round won."""
        self._reward_is_score = reward == "score"
        self.memory = [0, 0, 0]  # the game's count of rounds of the agent and of the opponent, rounds won

    @property
    def won(self) -> int:
        """Rounds won in this episode."""
        return self.memory[2]

    def begin(self, variables: Variables) -> None:
        self.memory = [*_round_counts(variables), 0]

    def judge(self, variables: Variables, integration_reward: float) -> tuple[float, bool]:
        agent_count_before, opponent_count_before, won_before = self.memory
        agent_count, opponent_count = _round_counts(variables)
        lost = variables["health"] < 0 or opponent_count > opponent_count_before
        won = won_before + int(agent_count > agent_count_before and not lost)
        self.memory = [agent_count, opponent_count, won]
        return integration_reward if self._reward_is_score else float(won - won_before), lost


def _round_counts(variables: Variables) -> tuple[int, int]:
    """Rounds of the agent and of the opponent; only the last of the integration's four bytes is the opponent's."""
    return variables["matches_won"], variables["enemy_matches_won"] & 0xFF
