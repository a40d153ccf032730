"""MiniGrid tasks. `DoorKey-5x5` is short for `MiniGrid-DoorKey-5x5-v0`.

An observation is the partial view of the `minigrid` package, [7, 7, (object, colour, state)], with the agent's
direction as a fourth plane. A carried object is shown in the agent's own cell, [3, 6]. If the mission text has
placeholders ("get the ... key from the ... room"), its words are a fifth plane; a constant mission has no information.

With the option `view=whole` the agent sees the whole grid (`minigrid_whole.py`).

Two backends implement the tasks. The `minigrid` package is the default although envpool is faster: it is the original
and always installed, so the same command gives the same run everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import minigrid  # noqa: F401  (registers its environments)
import numpy as np

from masp.environments.base import ENVPOOL, EnvInfo, HostEnv, Option
from masp.environments.gymnasium_env import maker
from masp.environments.minigrid_mission import mission_plane
from masp.environments.minigrid_whole import WholeView
from masp.environments.processes import make_vector
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.wrapper import env_name, num_actions

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
    (PICKUP, LEFT, LEFT, FORWARD),  # pick up and go back
)
"""The paper names one macro of its set, forward-forward-turn, and does not list the others; these are similar."""


def make(env_id: str, options: dict[str, Option], num_envs: int, workers: int = 0) -> HostEnv:
    """`num_envs` environments of one task, by the backend of the option `backend`."""
    task_id = full_id(env_id)
    assert task_id is not None
    task_options = {name: value for name, value in options.items() if name not in ("backend", "view")}
    backend, view = options.get("backend", "minigrid"), options.get("view", "partial")
    if view not in VIEWS:
        raise UserError(f"{env_id}: view must be partial or whole, got {view!r}")
    make_task, seen = maker(task_id, task_options), VIEWS[view]
    if backend == "minigrid":
        return make_vector(partial(_make_view, seen, make_task), num_envs, workers, describe_minigrid)
    if backend != "envpool":
        raise UserError(f"{env_id}: backend must be minigrid or envpool, got {backend!r}")
    if workers:
        raise UserError(f"{env_id}: backend=envpool needs no --env-workers; leave out one of the two")
    ENVPOOL.require_installed("backend=envpool")
    from masp.environments.minigrid_envpool import EnvPoolMiniGrid

    return EnvPoolMiniGrid(task_id, seen(make_task()), task_options, num_envs)


def _make_view(view: type[CellsWithDirection] | type[WholeView], make_task: Callable[[], gymnasium.Env]) -> Any:
    return view(make_task())


def names() -> Sequence[str]:
    """Short names of all tasks, with and without their version."""
    return list(aliases())


def full_id(name: str) -> str | None:
    """The full id of `DoorKey-5x5`, `DoorKey-5x5-v0` or `MiniGrid-DoorKey-5x5`; None: not a MiniGrid task."""
    return aliases().get(name.removeprefix(PREFIX))


def aliases() -> dict[str, str]:
    """From each short name, with and without its version, to the full id; without version: the newest."""
    full_ids: dict[str, str] = {}
    for env_id, spec in gymnasium.registry.items():
        if env_id.startswith(PREFIX):
            full_ids[env_id.removeprefix(PREFIX)] = env_id
            short = spec.name.removeprefix(PREFIX)
            newest = -1 if short not in full_ids else gymnasium.registry[full_ids[short]].version or 0
            if (spec.version or 0) > newest:
                full_ids[short] = env_id
    return full_ids


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


VIEWS: dict[Option, type[CellsWithDirection] | type[WholeView]] = {"partial": CellsWithDirection, "whole": WholeView}
"""What the agent sees, by the option `view`."""


def describe_minigrid(env: gymnasium.Env) -> EnvInfo:
    """The description of a task. Only a success has a reward above 0. The stricter of two step limits holds."""
    assert isinstance(env, (CellsWithDirection, WholeView))
    kind = "minigrid" if isinstance(env, CellsWithDirection) else "minigrid-whole"
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
        observation_kind=f"{kind}-mission" if env.has_mission else kind,  # type: ignore[arg-type]
        actions=ActionSet(count, macros, ACTION_NAMES[:count], env_name(env)),
        success_above=0.0,
        max_episode_steps=min(limits),
    )
