"""Atari games by name: `Breakout` is short for `ALE/Breakout-v5`; games without a short name go by the long one."""

from __future__ import annotations

import re

from masp.environments.atari_scores import known_games
from masp.environments.base import HostEnv
from masp.environments.family import Family, Option, Package, make_with_options
from masp.errors import UserError

OPENCV = Package("cv2", "atari")
ENVPOOL = Package("envpool", "envpool")


def game_of(env_id: str) -> str | None:
    """The game that an id stands for; None: it is not one of Atari."""
    long = re.fullmatch(r"ALE/(\w+)-v5", env_id)
    if long:
        return long[1]
    return env_id if env_id in known_games() else None


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    OPENCV.require_installed(env_id)
    from masp.environments.atari import AtariSettings, make_atari

    game = game_of(env_id)
    assert game is not None
    settings = make_with_options(AtariSettings, env_id, options)
    if settings.backend == "ale":
        return make_atari(game, settings, num_envs)
    if settings.backend != "envpool":
        raise UserError(f"{env_id}: backend must be ale or envpool, got {settings.backend!r}")
    ENVPOOL.require_installed("backend=envpool")
    from masp.environments.atari_envpool import EnvPoolAtari

    return EnvPoolAtari(game, settings, num_envs)


FAMILY = Family(
    name="Atari",
    knows=lambda env_id: game_of(env_id) is not None,
    make=_make,
    examples=("Breakout", "Pong", "MsPacman", "ALE/Tetris-v5"),
    names=known_games,
    preset="atari",
    package="ale_py",
    extra="atari",
    stated=("backend=ale",),
    backends=(ENVPOOL,),
)
