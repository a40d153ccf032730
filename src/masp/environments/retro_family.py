"""Any game that stable-retro has an integration of, by its id or by `retro-` and the beginning of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from masp.environments.base import HostEnv
from masp.environments.family import Family, Option, make_with_options

CONSOLES = (
    "32x|Arcade|Atari2600|GameBoy|GameGear|GbAdvance|GbColor|Genesis|N64|Nes|NintendoDs|PCEngine|SCD|Saturn|Sms|Snes"
)
"""As the ids of stable-retro spell them."""


def _knows(env_id: str) -> bool:
    return env_id.startswith("retro-") or re.fullmatch(rf"\w+-({CONSOLES})(-v\d+)?", env_id) is not None


def _make(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments.retro_vector import make_retro

    return make_with_options(partial(make_retro, env_id, num_envs), env_id, options)


def _names() -> Sequence[str]:
    from masp.environments.retro_games import games_with_rom

    return games_with_rom()


FAMILY = Family(
    name="retro games",
    knows=_knows,
    make=_make,
    examples=("retro-Airstriker", "Airstriker-Genesis-v0"),
    names=_names,
    preset="retro",
    package="stable_retro",
    extra="retro",
)
