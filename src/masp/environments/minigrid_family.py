"""MiniGrid tasks by id: `DoorKey-5x5` is short for `MiniGrid-DoorKey-5x5-v0`."""

from __future__ import annotations

from collections.abc import Sequence

from masp.environments.base import HostEnv
from masp.environments.family import Family, Option


def _knows(env_id: str) -> bool:
    from masp.environments import minigrid

    return minigrid.full_id(env_id) is not None


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments import minigrid
    from masp.environments.gym_id import maker

    full_id = minigrid.full_id(env_id)
    assert full_id is not None
    return minigrid.make_minigrid(maker(full_id, options), num_envs)


def _names() -> Sequence[str]:
    from masp.environments import minigrid

    return list(minigrid.aliases())


FAMILY = Family(
    name="MiniGrid",
    knows=_knows,
    make=_make,
    examples=("DoorKey-5x5", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1"),
    names=_names,
    preset="minigrid",
    package="minigrid",
)
