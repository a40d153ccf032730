"""Environments of users that are not ids: functions that make Gymnasium environments, and JAX environments.

Each gets an id. A function or class that can be imported again has the id `module:name`, by which any process finds it.
All others are kept in this process only; their ids begin with `local-`.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from masp.environments.base import EnvInfo, HostEnv, JaxEnv, Option, require_valid_options
from masp.errors import UserError
from masp.importing import import_object, importable_name, one_line

LOCAL = "local-"

EnvSource = Callable[..., Any] | JaxEnv

_SOURCES: dict[str, EnvSource] = {}


def register(env_id: str, source: EnvSource) -> None:
    """Keep `source` under an id in this process, in place of an earlier one with this id."""
    if not callable(source) and hasattr(source, "reset") and hasattr(source, "step") and not _is_jax_env(source):
        raise UserError(
            f"{env_id}: expected a function that makes environments, because several are played side by side, got one "
            f"{type(source).__name__} that is made already; pass its class, or a function that returns a new one"
        )
    if not _is_jax_env(source) and not callable(source):
        raise UserError(
            f"{env_id}: expected a function that makes an environment, or a JAX environment with info, reset and step, "
            f"got {type(source).__name__}; masp.environments.adapters has from_gymnax and from_pgx"
        )
    _SOURCES[env_id] = source


def id_of(source: EnvSource) -> str:
    """The id of an environment that a user passes to `masp.train`; it is registered if it has none yet."""
    for env_id, registered in _SOURCES.items():
        if registered is source:
            return env_id
    name = None if _is_jax_env(source) else importable_name(source)
    if name is None:
        label = source.info.env_id if _is_jax_env(source) else getattr(source, "__name__", type(source).__name__)  # type: ignore[union-attr]
        name = _unused_id(LOCAL + re.sub(r"[^\w.-]+", "", label))
    register(name, source)
    return name


def contains(env_id: str) -> bool:
    """Whether `env_id` is registered here, belongs to another process, or names a function or class of a module."""
    return env_id in _SOURCES or env_id.startswith(LOCAL) or _imported(env_id) is not None


def make(env_id: str, options: dict[str, Option], num_envs: int, workers: int = 0) -> JaxEnv | HostEnv:
    """The environment with this id; `num_envs` of them, in turn or in processes, if it is a Gymnasium environment."""
    source = _SOURCES[env_id] if env_id in _SOURCES else _imported(env_id)
    if source is None:
        raise UserError(
            f"{env_id}: this environment existed only in the process that trained in it, because it has no name that "
            "can be imported; define the function that makes it at the top level of a module, or register it here: "
            f"masp.environments.registry.register({env_id!r}, make)"
        )
    if _is_jax_env(source):
        require_valid_options(env_id, options, ())
        _require_no_workers(env_id, workers)
        return source  # type: ignore[return-value]
    assert callable(source)
    require_valid_options(env_id, options, _arguments(source))
    first = _call(source, env_id, options)
    if _is_jax_env(first):
        _require_no_workers(env_id, workers)
        return first
    return _vector(source, first, env_id, options, num_envs, workers)


def _require_no_workers(env_id: str, workers: int) -> None:
    if workers:
        raise UserError(
            f"{env_id} is a JAX environment and is compiled together with training: leave out --env-workers"
        )


def _vector(
    source: Callable[..., Any], first: Any, env_id: str, options: dict[str, Option], num_envs: int, workers: int
) -> HostEnv:
    import gymnasium

    from masp.environments.gymnasium_env import with_byte_images
    from masp.environments.gymnasium_vector import GymVector, describe_env
    from masp.environments.processes import ProcessVector

    if not isinstance(first, gymnasium.Env):
        raise UserError(f"{env_id}: expected a Gymnasium or JAX environment from it, got {type(first).__name__}")

    def describe(env: gymnasium.Env) -> EnvInfo:
        return dataclasses.replace(describe_env(env), env_id=env_id)

    waiting = [with_byte_images(first)]
    if workers:
        info = describe(waiting[0])
        first.close()
        return ProcessVector(partial(_make_single, source, env_id, options), num_envs, info, workers)
    return GymVector(lambda: waiting.pop() if waiting else _make_single(source, env_id, options), num_envs, describe)


def _make_single(source: Callable[..., Any], env_id: str, options: dict[str, Option]) -> Any:
    from masp.environments.gymnasium_env import with_byte_images

    return with_byte_images(_call(source, env_id, options))


def _call(source: Callable[..., Any], env_id: str, options: dict[str, Option]) -> Any:
    try:
        return source(**options)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{env_id} cannot be made: {one_line(error)}") from error


def _arguments(source: Callable[..., Any]) -> list[str] | None:
    """Names of the options of `source`; None: it takes any."""
    parameters = inspect.signature(source).parameters.values()
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _imported(env_id: str) -> EnvSource | None:
    """The function, class or JAX environment with the name `module:name`; None if there is none."""
    _, colon, name = env_id.partition(":")
    if not colon or not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        source = import_object(env_id)
    except UserError:
        return None  # Gymnasium's family says why
    import gymnasium

    is_source = callable(source) or _is_jax_env(source)
    return source if is_source and name not in gymnasium.registry else None


def _is_jax_env(value: Any) -> bool:
    """Whether `value` follows the protocol `JaxEnv`; a class that does so is a function that makes one."""
    return not isinstance(value, type) and all(hasattr(value, name) for name in ("info", "reset", "step"))


def _unused_id(env_id: str) -> str:
    number, candidate = 1, env_id
    while candidate in _SOURCES:
        number += 1
        candidate = f"{env_id}-{number}"
    return candidate
