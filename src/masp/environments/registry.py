"""Environments by id, with options.

Packages that hold environments are imported when one of theirs is asked for, not before.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from masp.environments import (
    any_gymnasium,
    atari_family,
    minatar_family,
    minigrid_family,
    planted_family,
    retro_family,
    street_fighter_family,
)
from masp.environments.base import HostEnv, JaxEnv
from masp.environments.family import Family, Option
from masp.errors import UserError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

FAMILIES: tuple[Family, ...] = (
    planted_family.FAMILY,
    minatar_family.FAMILY,
    minigrid_family.FAMILY,
    atari_family.FAMILY,
    street_fighter_family.FAMILY,
    retro_family.FAMILY,
    any_gymnasium.FAMILY,  # knows every id, so it comes last
)


def make_env(env_id: str, options: Sequence[str] = (), num_envs: int = 1) -> JaxEnv | HostEnv:
    """The environment called `env_id`.

    Args:
      env_id: an id of one of the `FAMILIES`; see `masp envs`.
      options: `name=value` each, arguments of the environment.
      num_envs: how many a host environment steps together; a JAX environment is one, the loop maps it.
    """
    given = parse_options(options)
    family = family_of(env_id)
    family.require_installed(env_id)
    if family is any_gymnasium.FAMILY and not any_gymnasium.exists(env_id):
        raise UserError(f"unknown environment {env_id!r}; {_hint(env_id)}")
    return family.make(env_id, given, num_envs)


def stated_options(env_id: str, options: Sequence[str]) -> tuple[str, ...]:
    """`options` with those added whose value a run must write down, given or not: a default may change one day."""
    given = {option.partition("=")[0] for option in options}
    return (*options, *(option for option in family_of(env_id).stated if option.partition("=")[0] not in given))


def family_of(env_id: str) -> Family:
    """The first family that knows the id."""
    return next(family for family in FAMILIES if family.knows(env_id))


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
        parsed[name] = _value(text)
    return parsed


def _value(text: str) -> Option:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def _hint(env_id: str) -> str:
    """The names nearest to a mistaken one."""
    known = {name.lower(): name for family in FAMILIES if family.installed for name in family.names()}
    near = [known[match] for match in difflib.get_close_matches(env_id.rpartition(":")[2].lower(), known, 3)]
    return f"did you mean {' or '.join(near)}?" if near else "`masp envs` lists what there is"
