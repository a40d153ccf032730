"""Any Gymnasium environment by id: Gymnasium's own, and those that a user's module registers.

Options are checked before an environment is made. Images are converted to the bytes [H, W, C] that the replay stores.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec, load_env_creator

from masp.environments.base import BOX2D, SMALLEST_IMAGE, HostEnv, Option, require_valid_options
from masp.environments.processes import make_vector
from masp.errors import UserError
from masp.importing import import_user_module, one_line
from masp.macros.wrapper import env_name

OWN_MODULES = ("gymnasium.envs.classic_control", "gymnasium.envs.toy_text", "gymnasium.envs.box2d")
"""Gymnasium's own environments, except those of MuJoCo, which all have continuous actions."""

CONTINUOUS = ("MountainCarContinuous", "Pendulum", "LunarLanderContinuous", "BipedalWalker", "CarRacing")
"""Those of them with continuous actions; an option gives CarRacing discrete ones."""


def make(env_id: str, options: dict[str, Option], num_envs: int, workers: int = 0) -> HostEnv:
    """`num_envs` environments with this id, stepped in turn or in processes."""
    if module_of(find_spec(env_id)).startswith("gymnasium.envs.box2d"):
        BOX2D.require_installed(env_id)
    return make_vector(partial(_make_with_byte_images, maker(env_id, options)), num_envs, workers)


def names() -> Sequence[str]:
    """Ids of Gymnasium's own environments that have discrete actions and are installed."""
    modules = OWN_MODULES if BOX2D.installed else OWN_MODULES[:-1]
    return [
        env_id
        for env_id, spec in gymnasium.registry.items()
        if module_of(spec).startswith(modules) and not env_id.startswith(CONTINUOUS)
    ]


def maker(env_id: str, options: dict[str, Option]) -> Callable[[], gymnasium.Env]:
    """A function that makes one environment; raises `UserError` for an unknown id or option."""
    with warnings.catch_warnings():
        # Gymnasium warns of old versions and of bounds that lose precision; neither is a mistake of the caller.
        warnings.filterwarnings("ignore", module="gymnasium")
        spec = find_spec(env_id)
        require_valid_options(env_id, options, _constructor_options(spec))
        return partial(_make_single, spec, options)


class UnknownIdError(UserError):
    """Gymnasium has no such id."""


def find_spec(env_id: str) -> EnvSpec:
    """Gymnasium's spec of `env_id`; `module:Name-v0` imports the module first."""
    module, colon, name = env_id.rpartition(":")
    if colon:
        import_user_module(module, env_id)
    if name in gymnasium.registry:
        return gymnasium.registry[name]
    if not colon:
        raise UnknownIdError(name)
    ids = [other for other, spec in gymnasium.registry.items() if module_of(spec).startswith(module)]
    hint = f"it has {', '.join(ids)}" if ids else f"it must call gymnasium.register, or define {name}"
    raise UserError(f"{env_id}: the module {module} registers no {name}; {hint}")


def module_of(spec: EnvSpec) -> str:
    """The module that defines an environment."""
    entry = spec.entry_point
    return entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")


def _constructor_options(spec: EnvSpec) -> Sequence[str] | None:
    """Names of the constructor's arguments; None: it accepts any."""
    entry = spec.entry_point
    if entry is None:
        raise UserError(f"{spec.id} exists as a batch only; masp needs single environments")
    try:
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
    except (ModuleNotFoundError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be imported: {error}") from None
    except Exception as error:
        raise UserError(f"{spec.id} cannot be imported: {one_line(error)}") from error
    names = ["max_episode_steps"]
    constructors = [base.__init__ for base in creator.__mro__] if inspect.isclass(creator) else [creator]
    for constructor in constructors:
        parameters = inspect.signature(constructor).parameters.values()
        names += [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if not any(p.kind == p.VAR_KEYWORD for p in parameters):
            return sorted(set(names) - {"self", "mission_space"})
    return None


def _make_single(spec: EnvSpec, options: dict[str, Any]) -> gymnasium.Env:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="gymnasium")
            # The checker compares each step with the spaces, which helps to write environments but slows down runs.
            return gymnasium.make(spec, disable_env_checker=True, **options)
    except (ModuleNotFoundError, gymnasium.error.Error) as error:
        raise UserError(f"{spec.id} cannot be made: {error}") from None
    except Exception as error:
        arguments = "".join(f" {name}={value}" for name, value in options.items())
        raise UserError(f"{spec.id} cannot be made{arguments and ' with' + arguments}: {one_line(error)}") from error


def _make_with_byte_images(make_single: Callable[[], gymnasium.Env]) -> gymnasium.Env:
    return with_byte_images(make_single())


class ByteImages(gymnasium.ObservationWrapper):
    """Converts images to uint8 [H, W, C]: moves the channels last and multiplies by `scale`."""

    def __init__(self, env: gymnasium.Env, channels_first: bool, scale: float):
        super().__init__(env)
        self._channels_first, self._scale = channels_first, scale
        shape = env.observation_space.shape
        assert shape is not None
        shape = (*shape[1:], shape[0]) if channels_first else shape
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)

    def observation(self, observation: Any) -> np.ndarray:
        image = np.moveaxis(observation, 0, -1) if self._channels_first else np.asarray(observation)
        return image if image.dtype == np.uint8 else np.rint(image * self._scale).astype(np.uint8)


def with_byte_images(env: gymnasium.Env) -> gymnasium.Env:
    """`env`, with its images converted to bytes [H, W, C]; raises `UserError` for images that cannot be converted."""
    space = env.observation_space
    if not isinstance(space, spaces.Box) or sum(side >= SMALLEST_IMAGE for side in space.shape) < 2:
        return env
    low, high = float(np.min(space.low)), float(np.max(space.high))
    scales = {1.0: 255.0, 255.0: 1.0}
    if len(space.shape) == 2 and (low != 0 or high not in scales):
        return env  # a table of numbers
    if len(space.shape) > 3:
        raise UserError(
            f"{env_name(env)} has images of shape {space.shape}; masp needs [height, width, channels], and stacks "
            "images itself (--stack)"
        )
    if low != 0 or high not in scales:
        raise UserError(
            f"{env_name(env)} has images of {space.dtype} in {low:g}..{high:g}; masp needs 0..1 or 0..255: wrap it "
            "with gymnasium.wrappers.TransformObservation"
        )
    channels_first = len(space.shape) == 3 and space.shape[0] < SMALLEST_IMAGE <= min(space.shape[1:])
    if space.dtype == np.uint8 and high == 255 and not channels_first:
        return env
    return ByteImages(env, channels_first, scales[high])
