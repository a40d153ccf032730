"""MiniGrid tasks by id: `DoorKey-5x5` is short for `MiniGrid-DoorKey-5x5-v0`.

Two programs can play them. The `minigrid` package is the default although envpool is faster: it is always installed, so
the same command gives the same run everywhere, and it is the original.
"""

from __future__ import annotations

from collections.abc import Sequence

from masp.environments.base import HostEnv
from masp.environments.family import Family, Option, Package
from masp.errors import UserError

ENVPOOL = Package("envpool", "envpool")


def _knows(env_id: str) -> bool:
    from masp.environments import minigrid

    return minigrid.full_id(env_id) is not None


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments import minigrid
    from masp.environments.gym_id import maker

    full_id = minigrid.full_id(env_id)
    assert full_id is not None
    of_task = {name: value for name, value in options.items() if name != "backend"}
    backend = options.get("backend", "minigrid")
    make = maker(full_id, of_task)
    if backend == "minigrid":
        return minigrid.make_minigrid(make, num_envs)
    if backend != "envpool":
        raise UserError(f"{env_id}: backend must be minigrid or envpool, got {backend!r}")
    ENVPOOL.require_installed("backend=envpool")
    from masp.environments.minigrid_envpool import EnvPoolMiniGrid

    return EnvPoolMiniGrid(full_id, minigrid.CellsWithDirection(make()), of_task, num_envs)


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
    stated=("backend=minigrid",),
    backends=(ENVPOOL,),
)
