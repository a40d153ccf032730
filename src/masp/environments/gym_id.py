"""Single Gymnasium environments by id, with options that are checked before anything is made."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
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
        _import_users_module(module, env_id)
    if name in gymnasium.registry:
        return gymnasium.registry[name]
    if not colon:
        raise UnknownIdError(name)
    registered = [other for other, spec in gymnasium.registry.items() if module_of(spec).startswith(module)]
    has = f"it has {', '.join(registered)}" if registered else "it must call gymnasium.register"
    raise UserError(f"{env_id}: the module {module} registers no {name}; {has}")


def _import_users_module(module: str, env_id: str) -> None:
    """Import a module that may lie in the current directory, which a console script does not search."""
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # last: a file there must not hide an installed package
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(f"{env_id}: the module before the colon cannot be imported: {error}") from None
    except Exception as error:
        raise UserError(f"{env_id}: the module before the colon cannot be imported: {_said(error)}") from error


def module_of(spec: EnvSpec) -> str:
    """The module that holds an environment."""
    entry = spec.entry_point
    return entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")


def _said(error: BaseException) -> str:
    """An exception in someone else's code on one line, with the place where it was raised."""
    words = " ".join(str(error).split())
    said = f"{type(error).__name__}{words and ': ' + words}"
    if isinstance(error, SyntaxError):  # says its own place
        return said
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{said} ({Path(place.filename).name}, line {place.lineno})"


class UnknownIdError(UserError):
    """Gymnasium has no such id."""


def _constructor_options(spec: EnvSpec) -> Sequence[str] | None:
    """Names that the environment's constructor takes; None: it does not tell."""
    entry = spec.entry_point
    if entry is None:
        raise UserError(f"{spec.id} exists as a batch only; masp needs single environments")
    try:
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
    except (ModuleNotFoundError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be imported: {error}") from None
    except Exception as error:
        raise UserError(f"{spec.id} cannot be imported: {_said(error)}") from error
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
    except (ModuleNotFoundError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be made: {error}") from None
    except Exception as error:
        given = "".join(f" {name}={value}" for name, value in options.items())
        raise UserError(f"{spec.id} cannot be made{given and ' with' + given}: {_said(error)}") from error
