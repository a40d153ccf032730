"""Whatever Gymnasium knows: its own environments, and those that a user's module registers."""

from __future__ import annotations

from collections.abc import Sequence

from masp.environments.base import HostEnv
from masp.environments.family import Family, Option, Package

BOX2D = Package("Box2D", "box2d", "LunarLander-v3 and CarRacing-v3")

OWN_MODULES = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text", "gymnasium.envs.box2d")
"""Gymnasium's own environments, without MuJoCo's, which all have continuous actions."""

CONTINUOUS = ("MountainCarContinuous", "Pendulum", "LunarLanderContinuous", "BipedalWalker", "CarRacing")
"""Those of them with continuous actions; CarRacing has discrete ones by option."""


def exists(env_id: str) -> bool:
    """Whether Gymnasium has the id; imports the module of `module:Name-v0`."""
    from masp.environments.gym_id import UnknownIdError, find_spec

    try:
        find_spec(env_id)
    except UnknownIdError:
        return False
    return True


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments.byte_images import with_byte_images
    from masp.environments.gym_id import find_spec, maker, module_of
    from masp.environments.gym_vector import GymVector

    if module_of(find_spec(env_id)).startswith("gymnasium.envs.box2d"):
        BOX2D.require_installed(env_id)
    make = maker(env_id, options)
    return GymVector(lambda: with_byte_images(make()), num_envs)


def _names() -> Sequence[str]:
    """Gymnasium's own with discrete actions, as far as they can be made here."""
    import gymnasium

    from masp.environments.gym_id import module_of

    modules = OWN_MODULES if BOX2D.installed else OWN_MODULES[:-1]
    return [
        env_id
        for env_id, spec in gymnasium.registry.items()
        if module_of(spec).startswith(modules) and not env_id.startswith(CONTINUOUS)
    ]


FAMILY = Family(
    name="Gymnasium",
    knows=lambda env_id: True,
    make=_make,
    examples=("CartPole-v1", "LunarLander-v3", "your_module:YourEnv-v0"),
    names=_names,
    preset="gymnasium",
    optional=(BOX2D,),
)
