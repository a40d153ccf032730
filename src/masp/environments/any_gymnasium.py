"""Whatever Gymnasium knows: its own environments, and those that a user's module registers."""

from __future__ import annotations

from collections.abc import Sequence

from masp.environments.base import HostEnv
from masp.environments.family import Family, Option


def exists(env_id: str) -> bool:
    """Whether Gymnasium has the id; imports the module of `module:Name-v0`."""
    from masp.environments.gym_id import UnknownIdError, find_spec

    try:
        find_spec(env_id)
    except UnknownIdError:
        return False
    return True


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments.gym_id import maker
    from masp.environments.gym_vector import GymVector

    return GymVector(maker(env_id, options), num_envs)


def _names() -> Sequence[str]:
    import gymnasium

    return list(gymnasium.registry)


FAMILY = Family(
    name="Gymnasium",
    knows=lambda env_id: True,
    make=_make,
    examples=("CartPole-v1", "LunarLander-v3", "your_module:YourEnv-v0"),
    names=_names,
    preset="gymnasium",
)
