"""Environments by id, with options.

The table of families imports none of their packages: a family's module is imported when one of its ids is made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from masp.environments import own
from masp.environments.atari_scores import game_of, known_games
from masp.environments.base import BOX2D, ENVPOOL, OPENCV, Family, HostEnv, JaxEnv, Option
from masp.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from typing_extensions import TypeIs

PLANTED_IDS = ("planted-bandit", "planted-grid")
MINATAR_IDS = tuple(f"minatar-{game}" for game in ("asterix", "breakout", "freeway", "seaquest", "space_invaders"))
STREET_FIGHTER_IDS = ("street-fighter", "StreetFighterIISpecialChampionEdition-Genesis-v0")
RETRO_CONSOLES = (
    "32x|Arcade|Atari2600|GameBoy|GameGear|GbAdvance|GbColor|Genesis|N64|Nes|NintendoDs|PCEngine|SCD|Saturn|Sms|Snes"
)
"""As stable-retro spells them in its ids."""


def _is_minigrid(env_id: str) -> bool:
    from masp.environments.minigrid import full_id

    return full_id(env_id) is not None


def _is_retro(env_id: str) -> bool:
    return env_id.startswith("retro-") or re.fullmatch(rf"\w+-({RETRO_CONSOLES})(-v\d+)?", env_id) is not None


GYMNASIUM = Family(
    name="Gymnasium",
    contains=lambda env_id: True,
    module="gymnasium_env",
    examples=("CartPole-v1", "LunarLander-v3", "your_module:YourEnv-v0"),
    preset="gymnasium",
    workers=True,
    optional=(BOX2D,),
)

FAMILIES: tuple[Family, ...] = (
    Family(
        name="planted",
        contains=PLANTED_IDS.__contains__,
        module="planted",
        examples=PLANTED_IDS,
        preset="planted",
        ids=PLANTED_IDS,
    ),
    Family(
        name="MinAtar",
        contains=MINATAR_IDS.__contains__,
        module="minatar",
        examples=("minatar-breakout", "minatar-freeway"),
        preset="minatar",
        ids=MINATAR_IDS,
        package="pgx",
        extra="minatar",
    ),
    Family(
        name="MiniGrid",
        contains=_is_minigrid,
        module="minigrid",
        examples=("DoorKey-5x5", "FourRooms", "LockedRoom", "ObstructedMaze-Full-v1"),
        preset="minigrid",
        package="minigrid",
        explicit_options=("backend=minigrid",),
        workers=True,
        backends=(ENVPOOL,),
    ),
    Family(
        name="Atari",
        contains=lambda env_id: game_of(env_id) is not None,
        module="atari",
        examples=("Breakout", "Pong", "MsPacman", "ALE/Tetris-v5"),
        preset="atari",
        ids=known_games(),
        package="ale_py",
        extra="atari",
        dependencies=(OPENCV,),
        explicit_options=("backend=ale",),
        backends=(ENVPOOL,),
    ),
    Family(
        name="Street Fighter II",
        contains=STREET_FIGHTER_IDS.__contains__,
        module="street_fighter",
        examples=STREET_FIGHTER_IDS[:1],
        preset="paper-sf2",
        ids=STREET_FIGHTER_IDS,
        package="stable_retro",
        extra="retro",
        explicit_options=("combos=I",),
    ),
    Family(
        name="retro games",
        contains=_is_retro,
        module="retro",
        examples=("retro-Airstriker", "Airstriker-Genesis-v0"),
        preset="retro",
        package="stable_retro",
        extra="retro",
    ),
    GYMNASIUM,  # contains every id, so it is the last
)

OWN = Family(
    name="own",
    contains=own.contains,
    module="own",
    examples=("your_module:make_env",),
    preset="gymnasium",
    workers=True,
)
"""Environments that a user registers in this process or keeps as functions in a module; `masp envs` does not list it.
"""


def register(env_id: str, env: own.EnvSource) -> None:
    """Make an environment of one's own available as `env_id` in this process.

    Args:
      env_id: any name that is not yet an id of masp.
      env: a function or class that makes one Gymnasium environment or a JAX environment, or a JAX environment. Options
        of the environment become keyword arguments of the function.
    """
    family = next(family for family in FAMILIES if family.contains(env_id))
    if family is not GYMNASIUM:
        raise UserError(f"{env_id} is already an environment of the family {family.name}; choose another id")
    own.register(env_id, env)


def make_env(env_id: str, options: Sequence[str] = (), num_envs: int = 1, workers: int = 0) -> JaxEnv | HostEnv:
    """The environment with the id `env_id`.

    Args:
      env_id: an id of one of the `FAMILIES`; see `masp envs`.
      options: arguments of the environment, each as `name=value`.
      num_envs: number of environments in a host environment; a JAX environment is always one, the loop maps it.
      workers: processes that play them, where the family allows it; 0: they are stepped in turn in this process.
    """
    parsed_options = parse_options(options)
    family = family_of(env_id)
    family.require_installed(env_id)
    if family is GYMNASIUM:
        _require_gymnasium_id(env_id)
    return family.make(env_id, parsed_options, num_envs, workers)


def stated_options(env_id: str, options: Sequence[str]) -> tuple[str, ...]:
    """`options` and the defaults that a run records explicitly, because a later version may change them."""
    names = {option.partition("=")[0] for option in options}
    defaults = family_of(env_id).explicit_options
    return (*options, *(option for option in defaults if option.partition("=")[0] not in names))


def family_of(env_id: str) -> Family:
    """The first family that contains the id."""
    return next(family for family in (OWN, *FAMILIES) if family.contains(env_id))


def is_jax(env: JaxEnv | HostEnv) -> TypeIs[JaxEnv]:
    """Whether `env` runs inside the compiled loop."""
    return not hasattr(env, "num_envs")


def parse_options(options: Sequence[str]) -> dict[str, Option]:
    """`["size=5", "slippery=true"]` to `{"size": 5, "slippery": True}`."""
    parsed: dict[str, Option] = {}
    for option in options:
        name, equals, text = option.partition("=")
        if not name.isidentifier() or not equals:
            raise UserError(f"environment option {option!r}: expected name=value, for example size=5")
        if name in parsed:
            raise UserError(f"environment option {name} is given twice")
        parsed[name] = _parse_value(text)
    return parsed


def _parse_value(text: str) -> Option:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def _require_gymnasium_id(env_id: str) -> None:
    """Raise `UserError` with the most similar ids of all families if Gymnasium has no such id."""
    from masp.environments.gymnasium_env import UnknownIdError, find_spec

    try:
        find_spec(env_id)
    except UnknownIdError:
        names = [name for family in FAMILIES if family.installed for name in family.names()]
        hint = did_you_mean(env_id.rpartition(":")[2], names, "see `masp envs`")
        raise UserError(f"unknown environment {env_id!r}; {hint}") from None
