"""Environments by id, with options.

Packages that hold environments are imported when one of theirs is asked for, not before.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from masp.environments.base import HostEnv, JaxEnv
from masp.environments.planted import PlantedBandit, PlantedGrid
from masp.errors import UserError

if TYPE_CHECKING:
    import gymnasium
    from typing_extensions import TypeIs

Option = bool | int | float | str

JAX_ENVS: dict[str, Callable[..., JaxEnv]] = {"planted-bandit": PlantedBandit, "planted-grid": PlantedGrid}


def make_env(env_id: str, options: Sequence[str] = (), num_envs: int = 1) -> JaxEnv | HostEnv:
    """The environment called `env_id`.

    Args:
      env_id: one of `JAX_ENVS`, a MiniGrid task (`DoorKey-5x5` is short for `MiniGrid-DoorKey-5x5-v0`), or any id
        that Gymnasium knows (`module:Name-v0` imports the module first).
      options: `name=value` each, arguments of the environment.
      num_envs: how many a host environment steps together; a JAX environment is one, the loop maps it.
    """
    given = parse_options(options)
    if env_id in JAX_ENVS:
        return _make_jax(env_id, given)
    return _make_gymnasium(env_id, given, num_envs)


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


def _make_jax(env_id: str, options: dict[str, Option]) -> JaxEnv:
    make = JAX_ENVS[env_id]
    defaults = {name: parameter.default for name, parameter in inspect.signature(make).parameters.items()}
    _require_known(env_id, options, list(defaults))
    for name, value in options.items():
        # A whole number will do for a float, nothing else for an int.
        fitting = (int, float) if isinstance(defaults[name], float) else type(defaults[name])
        if isinstance(value, bool) or not isinstance(value, fitting):
            expected = type(defaults[name]).__name__
            raise UserError(f"{env_id}: option {name} must be of type {expected}, got {value!r}")
    return make(**options)


def _make_gymnasium(env_id: str, options: dict[str, Option], num_envs: int) -> HostEnv:
    from masp.environments import minigrid
    from masp.environments.gym_vector import GymVector

    minigrid_id = minigrid.full_id(env_id)
    full_id = minigrid_id or env_id
    with warnings.catch_warnings():
        # Gymnasium warns of old versions and of bounds that lose digits; neither is the caller's mistake.
        warnings.filterwarnings("ignore", module="gymnasium")
        spec = _find_spec(full_id)
        _require_known(full_id, options, _constructor_options(spec))
        make = partial(_make_one, spec, options)
        return minigrid.make_minigrid(make, num_envs) if minigrid_id else GymVector(make, num_envs)


def _find_spec(env_id: str) -> gymnasium.envs.registration.EnvSpec:
    """What Gymnasium has under `env_id`, or a `UserError` with the nearest names."""
    import gymnasium

    from masp.environments import minigrid

    module, colon, name = env_id.rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UserError(f"{env_id}: the module before the colon cannot be imported: {error}") from None
    if name in gymnasium.registry:
        return gymnasium.registry[name]
    known = {name.lower(): name for name in (*minigrid.aliases(), *gymnasium.registry, *JAX_ENVS)}
    near = [known[match] for match in difflib.get_close_matches(name.lower(), known, 3)]
    hint = f"did you mean {' or '.join(near)}?" if near else "it is none of Gymnasium's, MiniGrid's or planted-*"
    raise UserError(f"unknown environment {env_id!r}; {hint}")


def _constructor_options(spec: gymnasium.envs.registration.EnvSpec) -> list[str] | None:
    """Names that the environment's constructor takes; None: it does not tell."""
    import gymnasium
    from gymnasium.envs.registration import load_env_creator

    entry = spec.entry_point
    if entry is None:
        raise UserError(f"{spec.id} exists as a batch only; masp needs single environments")
    try:
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
    except (ImportError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be imported: {error}") from None
    names = ["max_episode_steps"]
    makers = [base.__init__ for base in creator.__mro__] if inspect.isclass(creator) else [creator]
    for maker in makers:
        parameters = inspect.signature(maker).parameters.values()
        names += [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            return sorted(set(names) - {"self", "mission_space"})
    return None


def _require_known(env_id: str, options: dict[str, Option], valid: list[str] | None) -> None:
    for name in options:
        if valid is not None and name not in valid:
            raise UserError(f"{env_id} has no option {name!r}; it has {', '.join(valid) or 'none'}")


def _make_one(spec: gymnasium.envs.registration.EnvSpec, options: dict[str, Any]) -> gymnasium.Env:
    import gymnasium

    try:
        # The checker compares every step with the spaces: for those who write environments, not for runs.
        return gymnasium.make(spec, disable_env_checker=True, **options)
    except (ImportError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be made: {error}") from None
    except Exception as error:
        if not options:
            raise
        given = " ".join(f"{name}={value}" for name, value in options.items())
        raise UserError(f"{spec.id} cannot be made with {given}: {str(error) or type(error).__name__}") from error
