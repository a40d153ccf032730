"""MinAtar games by id: `minatar-breakout` and four more."""

from __future__ import annotations

from functools import partial

from masp.environments.base import JaxEnv
from masp.environments.family import Family, Option, make_with_options

NAMES = tuple(f"minatar-{game}" for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders"))


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> JaxEnv:
    del num_envs
    from masp.environments.minatar import MinAtar

    return make_with_options(partial(MinAtar, env_id.removeprefix("minatar-")), env_id, options)


FAMILY = Family(
    name="MinAtar",
    knows=NAMES.__contains__,
    make=_make,
    examples=("minatar-breakout", "minatar-freeway"),
    names=lambda: NAMES,
    preset="minatar",
    package="pgx",
    extra="minatar",
)
