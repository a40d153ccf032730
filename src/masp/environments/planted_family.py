"""Planted tasks by id, with their constructors' arguments as options."""

from __future__ import annotations

from collections.abc import Callable

from masp.environments.base import JaxEnv
from masp.environments.family import Family, Option, make_with_options

NAMES = ("planted-bandit", "planted-grid")


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> JaxEnv:
    del num_envs
    from masp.environments.planted import PlantedBandit, PlantedGrid

    make: Callable[..., JaxEnv] = PlantedBandit if env_id == "planted-bandit" else PlantedGrid
    return make_with_options(make, env_id, options)


FAMILY = Family(
    name="planted",
    knows=NAMES.__contains__,
    make=_make,
    examples=NAMES,
    names=lambda: NAMES,
    preset="planted",
)
