"""Planted tasks by id, with their constructors' arguments as options."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from masp.environments.base import JaxEnv
from masp.environments.family import Family, Option, require_known
from masp.environments.planted import PlantedBandit, PlantedGrid
from masp.errors import UserError

TASKS: dict[str, Callable[..., JaxEnv]] = {"planted-bandit": PlantedBandit, "planted-grid": PlantedGrid}


def make_jax(make: Callable[..., JaxEnv], env_id: str, options: dict[str, Option]) -> JaxEnv:
    """`make(**options)`, once the options are found to fit its signature."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    require_known(env_id, options, list(defaults))
    for name, value in options.items():
        # A whole number will do for a float, nothing else for an int.
        fitting = (int, float) if isinstance(defaults[name], float) else type(defaults[name])
        if isinstance(value, bool) != isinstance(defaults[name], bool) or not isinstance(value, fitting):
            expected = type(defaults[name]).__name__
            raise UserError(f"{env_id}: option {name} must be of type {expected}, got {value!r}")
    return make(**options)


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> JaxEnv:
    del num_envs
    return make_jax(TASKS[env_id], env_id, options)


FAMILY = Family(
    name="planted",
    knows=TASKS.__contains__,
    make=_make,
    examples=tuple(TASKS),
    names=lambda: list(TASKS),
    preset="planted",
)
