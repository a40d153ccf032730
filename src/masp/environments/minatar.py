"""MinAtar (Young & Tian 2019): five Atari games on 10 x 10 cells, in JAX through pgx's port of them.

An observation is planes [10, 10, C] of truth values, one per kind of object. All games take MinAtar's six actions in
its order, whether or not they use them, so macros and similarities can move from one game to another. pgx's Seaquest
is corrected in `minatar_seaquest`. One difference from the original package stays: at the first step of an episode the
sticky action is NOOP, not the last action of the episode before.
"""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.environments.base import EnvInfo
from masp.environments.minatar_seaquest import corrected
from masp.errors import UserError
from masp.macros.actions import default_macros

ACTION_NAMES = ("NOOP", "LEFT", "UP", "RIGHT", "DOWN", "FIRE")

GAMES = {
    "asterix": "MinAtarAsterix",
    "breakout": "MinAtarBreakout",
    "freeway": "MinAtarFreeway",
    "seaquest": "MinAtarSeaquest",
    "space_invaders": "MinAtarSpaceInvaders",
}
"""Every game, which is also its module in pgx, and its class there."""

FREEWAY_STEPS = 2501
"""Freeway ends by its own clock, and MinAtar calls that a termination."""


class MinAtar:
    """One game. Apart from Freeway the games know no limit, and in Seaquest one can wait at the surface for ever."""

    def __init__(self, game: str, sticky: float = 0.1, full_actions: bool = True, max_steps: int = 10_000):
        """`sticky`: chance that the last action is played again; `max_steps`: an episode is cut after so many."""
        if not 0 <= sticky <= 1:
            raise UserError(f"minatar-{game}: option sticky must be at least 0 and at most 1, got {sticky}")
        if max_steps < 1:
            raise UserError(f"minatar-{game}: option max_steps must be at least 1, got {max_steps}")
        make = getattr(importlib.import_module(f"pgx.minatar.{game}"), GAMES[game])
        self._game = make(use_minimal_action_set=not full_actions, sticky_action_prob=float(sticky))
        self._seaquest, self._max_steps = game == "seaquest", max_steps
        actions = range(len(ACTION_NAMES)) if full_actions else self._game.minimal_action_set.tolist()
        names = [ACTION_NAMES[action] for action in actions]
        self.info = EnvInfo(
            env_id=f"minatar-{game}",
            # pgx has a property for it, which plays a reset, one compiled operation after the other.
            observation_shape=jax.eval_shape(self._game.init, jax.random.PRNGKey(0)).observation.shape,
            observation_dtype=np.dtype(bool),
            observation_kind="planes",
            actions=default_macros(len(names), names, f"minatar-{game}"),
            max_episode_steps=min(max_steps, FREEWAY_STEPS) if game == "freeway" else max_steps,
        )

    def reset(self, key: Array) -> tuple[Any, Array]:
        """A new episode: its state and first observation."""
        state = self._game.init(key)
        return state, state.observation

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        """State, observation, reward, terminated and truncated after one primitive action."""
        before, state = state, self._game.step(state, action, key)
        if self._seaquest:
            state = corrected(before, state)
        cut = (state._step_count >= self._max_steps) & ~state.terminated
        return state, state.observation, jnp.squeeze(state.rewards, 0), state.terminated, cut
