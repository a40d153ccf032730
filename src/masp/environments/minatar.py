"""MinAtar (Young & Tian 2019): five Atari games on 10 x 10 cells, in JAX through the port in pgx.

An observation is [10, 10, C] boolean planes, one per kind of object. All games have the six actions of MinAtar in the
same order, whether or not they use them, so that macros and similarities transfer between games. `corrected_seaquest`
mends the Seaquest of pgx. One difference from the original package remains: at the first step of an episode the sticky
action is NOOP, not the last action of the previous episode.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.environments.base import EnvInfo, JaxEnv, Option, make_with_options
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
"""Each game, which is also the name of its module in pgx, and its class in that module."""

FREEWAY_STEPS = 2501
"""Freeway terminates by its own clock."""

OXYGEN_GAUGE = 7
"""The plane of Seaquest's observation with the oxygen gauge, in row 9."""


def make(env_id: str, options: dict[str, Option], num_envs: int) -> JaxEnv:
    """One game; `num_envs` has no effect, because the compiled loop maps the environment."""
    del num_envs
    return make_with_options(partial(MinAtar, env_id.removeprefix("minatar-")), env_id, options)


class MinAtar:
    """One game. Only Freeway has a time limit of its own; in Seaquest an agent can wait at the surface for ever."""

    def __init__(self, game: str, sticky: float = 0.1, full_actions: bool = True, max_steps: int = 10_000):
        """The game with its options.

        Args:
          sticky: probability that the previous action is repeated, inside macros too.
          full_actions: all six actions in all games, so that bundles transfer, or only those that the game uses.
          max_steps: steps after which an episode is truncated; MinAtar has no such limit.
        """
        if not 0 <= sticky <= 1:
            raise UserError(f"minatar-{game}: option sticky must be at least 0 and at most 1, got {sticky}")
        if max_steps < 1:
            raise UserError(f"minatar-{game}: option max_steps must be at least 1, got {max_steps}")
        game_class = getattr(importlib.import_module(f"pgx.minatar.{game}"), GAMES[game])
        self._game = game_class(use_minimal_action_set=not full_actions, sticky_action_prob=float(sticky))
        self._seaquest, self._max_steps = game == "seaquest", max_steps
        actions = range(len(ACTION_NAMES)) if full_actions else self._game.minimal_action_set.tolist()
        names = [ACTION_NAMES[action] for action in actions]
        self.info = EnvInfo(
            env_id=f"minatar-{game}",
            # The property of pgx for this runs a whole reset, operation by operation.
            observation_shape=jax.eval_shape(self._game.init, jax.random.PRNGKey(0)).observation.shape,
            observation_dtype=np.dtype(bool),
            observation_kind="planes",
            actions=default_macros(len(names), names, f"minatar-{game}"),
            max_episode_steps=min(max_steps, FREEWAY_STEPS) if game == "freeway" else max_steps,
        )

    def reset(self, key: Array) -> tuple[Any, Array]:
        """State and first observation of a new episode."""
        state = self._game.init(key)
        return state, state.observation

    def step(self, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array, Array]:
        """State, observation, reward, terminated and truncated after one primitive action."""
        before, state = state, self._game.step(state, action, key)
        if self._seaquest:
            state = corrected_seaquest(before, state)
        truncated = (state._step_count >= self._max_steps) & ~state.terminated
        return state, state.observation, jnp.squeeze(state.rewards, 0), state.terminated, truncated


def corrected_seaquest(before: Any, after: Any) -> Any:
    """The state of MinAtar 1.0.15 after a step in which pgx 2.6 went from `before` to `after`.

    1. pgx never removes an enemy bullet that has left the board. A bullet at x = -1 is then taken for an empty slot and
       stops all bullets after it; bullets that left on the right fill the list.
    2. The enemies' speed rises every second time the submarine surfaces: in pgx from the first time on, in MinAtar from
       the second.
    3. When the oxygen is used up, MinAtar terminates one step earlier, and shows an empty gauge instead of a full one.

    One difference remains: pgx removes an enemy submarine that moves into a bullet in the step in which it shoots
    before its shot.
    """
    surfaced = after._ramp_index > before._ramp_index
    speeds_up = (before._move_speed > 2) & (before._ramp_index % 2 == 1)
    terminal = after._terminal | (before._oxygen <= 0)
    gauge = after.observation[9, :, OXYGEN_GAUGE] & (after._oxygen >= 0)
    return after.replace(
        _e_bullets=_bullets_on_board(after._e_bullets),
        _move_speed=jnp.where(surfaced, before._move_speed - speeds_up, after._move_speed),
        _terminal=terminal,
        terminated=terminal,
        observation=after.observation.at[9, :, OXYGEN_GAUGE].set(gauge),
    )


def _bullets_on_board(bullets: Array) -> Array:
    """[25, 3] the bullets (x, y, direction) with 0 <= x <= 9 in their order, then empty slots of -1."""
    outside = (bullets[:, 0] < 0) | (bullets[:, 0] > 9)
    order = jnp.argsort(outside, stable=True)
    return jnp.where(outside[:, None], -1, bullets)[order]
