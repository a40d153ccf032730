"""Single Gymnasium environments by id, with options that are checked before anything is made."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from masp.environments.family import Option, require_known
from masp.errors import UserError


def maker(env_id: str, options: dict[str, Option]) -> Callable[[], gymnasium.Env]:
    """A function that makes one environment; raises `UserError` for an unknown id or option."""
    with warnings.catch_warnings():
        # Gymnasium warns of old versions and of bounds that lose digits; neither is the caller's mistake.
        warnings.filterwarnings("ignore", module="gymnasium")
        spec = find_spec(env_id)
        require_known(env_id, options, _constructor_options(spec))
        return partial(_make_one, spec, options)


def find_spec(env_id: str) -> EnvSpec:
    """What Gymnasium has under `env_id`; `module:Name-v0` imports the module first."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise UserError(f"{env_id}: the module before the colon cannot be imported: {error}") from None
    if name not in gymnasium.registry:
        raise UnknownIdError(name)
    return gymnasium.registry[name]


class UnknownIdError(UserError):
    """Gymnasium has no such id."""


def _constructor_options(spec: EnvSpec) -> Sequence[str] | None:
    """Names that the environment's constructor takes; None: it does not tell."""
    entry = spec.entry_point
    if entry is None:
        raise UserError(f"{spec.id} exists as a batch only; masp needs single environments")
    try:
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
    except (ImportError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be imported: {error}") from None
    names = ["max_episode_steps"]
    makers = [base.__init__ for base in creator.__mro__] if inspect.isclass(creator) else [creator]
    for make in makers:
        parameters = inspect.signature(make).parameters.values()
        names += [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            return sorted(set(names) - {"self", "mission_space"})
    return None


def _make_one(spec: EnvSpec, options: dict[str, Any]) -> gymnasium.Env:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="gymnasium")
            # The checker compares every step with the spaces: for those who write environments, not for runs.
            return gymnasium.make(spec, disable_env_checker=True, **options)
    except (ImportError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be made: {error}") from None
    except Exception as error:
        if not options:
            raise
        given = " ".join(f"{name}={value}" for name, value in options.items())
        raise UserError(f"{spec.id} cannot be made with {given}: {str(error) or type(error).__name__}") from error
