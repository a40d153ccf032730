"""MiniGrid through the `minigrid` package: what the agent sees is cells of small codes.

An observation is the package's own partial view [7, 7, (object, colour, state)] with the agent's direction as a fourth
plane. A carried object stands in the agent's own cell, [3, 6]. Where the mission has a blank to fill in ("get the ...
key from the ... room"), its words are a fifth plane; a mission that is the same for every episode of a task tells
nothing, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import minigrid  # noqa: F401  (registers its environments)
import numpy as np

from masp.environments.base import EnvInfo
from masp.environments.gym_vector import GymVector, env_name, num_actions
from masp.environments.minigrid_mission import mission_plane
from masp.macros.actions import ActionSet

PREFIX = "MiniGrid-"

ACTION_NAMES = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
LEFT, RIGHT, FORWARD, PICKUP, DROP, TOGGLE, DONE = range(7)

MACROS = (
    (FORWARD, FORWARD),
    (FORWARD, FORWARD, FORWARD),
    (FORWARD, FORWARD, LEFT),
    (FORWARD, FORWARD, RIGHT),
    (LEFT, FORWARD, FORWARD),
    (RIGHT, FORWARD, FORWARD),
    (TOGGLE, FORWARD, FORWARD),  # through a door
    (PICKUP, LEFT, LEFT, FORWARD),  # take it and go back
)
"""The paper names one macro of its set, forward-forward-turn, and not the others; these are of the same kind."""


class CellsWithDirection(gymnasium.ObservationWrapper):
    """[width, height, 4 or 5] uint8: object, colour and state of visible cells, direction, words of the mission."""

    def __init__(self, env: gymnasium.Env):
        super().__init__(env)
        assert isinstance(env.observation_space, gymnasium.spaces.Dict)
        self._width, self._height, _ = env.observation_space["image"].shape  # type: ignore[misc]
        self.has_mission = bool(env.observation_space["mission"].ordered_placeholders)  # type: ignore[attr-defined]
        self._shape = (self._width, self._height, 5 if self.has_mission else 4)
        self.observation_space = gymnasium.spaces.Box(0, 255, self._shape, np.uint8)

    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        cells = np.empty(self._shape, np.uint8)
        cells[..., :3] = observation["image"]
        cells[..., 3] = observation["direction"]
        if self.has_mission:
            cells[..., 4] = mission_plane(observation["mission"], self._width, self._height)
        return cells


def full_id(name: str) -> str | None:
    """The id that `DoorKey-5x5`, `DoorKey-5x5-v0` or `MiniGrid-DoorKey-5x5` stands for; None: not a MiniGrid task."""
    return aliases().get(name.removeprefix(PREFIX))


def aliases() -> dict[str, str]:
    """Every short name, with and without its version, and its full id; without: the newest."""
    known: dict[str, str] = {}
    for env_id, spec in gymnasium.registry.items():
        if env_id.startswith(PREFIX):
            known[env_id.removeprefix(PREFIX)] = env_id
            short = spec.name.removeprefix(PREFIX)
            version = -1 if short not in known else gymnasium.registry[known[short]].version or 0
            if (spec.version or 0) > version:
                known[short] = env_id
    return known


def make_minigrid(make: Callable[[], gymnasium.Env], num_envs: int = 1) -> GymVector:
    """The environments that `make` builds, seen as cells."""
    return GymVector(lambda: CellsWithDirection(make()), num_envs, describe_minigrid)


def describe_minigrid(env: gymnasium.Env) -> EnvInfo:
    """A reward above 0 comes with success only; MiniGrid counts its own steps, apart from Gymnasium's limit."""
    assert isinstance(env, CellsWithDirection)
    shape = env.observation_space.shape
    assert shape is not None
    count = num_actions(env)
    macros = [macro for macro in MACROS if max(macro) < count]  # Dynamic-Obstacles has three actions
    limits = [env.unwrapped.max_steps]  # type: ignore[attr-defined]
    if env.spec is not None and env.spec.max_episode_steps is not None:
        limits.append(env.spec.max_episode_steps)
    return EnvInfo(
        env_id=env_name(env),
        observation_shape=shape,
        observation_dtype=np.dtype(np.uint8),
        observation_kind="minigrid-mission" if env.has_mission else "minigrid",
        actions=ActionSet(count, macros, ACTION_NAMES[:count], env_name(env)),
        success_above=0.0,
        max_episode_steps=min(limits),
    )
