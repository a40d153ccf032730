"""Street Fighter II by id: `street-fighter` is short for the game's id in stable-retro."""

from __future__ import annotations

from functools import partial

from masp.environments.base import HostEnv
from masp.environments.family import Family, Option, make_with_options

SHORT = "street-fighter"
NAMES = (SHORT, "StreetFighterIISpecialChampionEdition-Genesis-v0")


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments.street_fighter import make_street_fighter

    return make_with_options(partial(make_street_fighter, env_id, num_envs), env_id, options)


FAMILY = Family(
    name="Street Fighter II",
    knows=NAMES.__contains__,
    make=_make,
    examples=(SHORT,),
    names=lambda: NAMES,
    preset="paper-sf2",
    package="stable_retro",
    extra="retro",
    stated=("combos=I",),
)
