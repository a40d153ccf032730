"""N Gymnasium environments, stepped in turn, as a `HostEnv`; and the description of a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.environments.base import SMALLEST_IMAGE, EnvInfo, ObservationKind, Step
from masp.environments.episode_env import EpisodeEnv
from masp.environments.episode_vector import EpisodeVector, Request
from masp.errors import UserError
from masp.macros.actions import default_macros
from masp.macros.wrapper import env_name, num_actions

Describe = Callable[[gymnasium.Env], EnvInfo]


class GymVector(EpisodeVector):
    """All environments are in this process."""

    def __init__(self, make: Callable[[], gymnasium.Env], num_envs: int = 1, describe: Describe | None = None):
        """`make` builds one environment; `describe` describes it, by default from its spaces and spec."""
        first = make()
        super().__init__(num_envs, (describe or describe_env)(first))
        envs = [first, *[make() for _ in range(num_envs - 1)]]
        self._envs = [EpisodeEnv(env, self._observation[i, ...], i) for i, env in enumerate(envs)]

    def close(self) -> None:
        for env in self._envs:
            env.close()

    @property
    def envs(self) -> list[gymnasium.Env]:
        """The environments themselves, for planners that read their internal state."""
        return [env.env for env in self._envs]

    def replay(self, seed: int, actions: Sequence[int]) -> tuple[np.ndarray, Step]:
        """Play the episode with this seed again, in the first environment, as far as `actions` [L] lead.

        Returns [L + 1, ...] observations and the steps [L], without observations.
        """
        self._seed = None  # the vector has left its own episodes and needs a reset
        self._envs[0].reset(seed)
        observations, steps = [self._observation[0].copy()], []
        for action in actions:
            outcome = self._envs[0].step(action)
            steps.append((outcome.reward, outcome.terminated, outcome.truncated, outcome.life_lost))
            observations.append(self._observation[0].copy())
            if outcome.terminated or outcome.truncated:
                break
        reward, *flags = np.array(steps, np.float32).T
        return np.stack(observations), Step(None, reward, *(flag.astype(bool) for flag in flags))

    def _request(self, requests: list[Request]) -> list[Any]:
        return [getattr(env, name)(argument) for env, (name, argument) in zip(self._envs, requests, strict=False)]


def describe_env(env: gymnasium.Env) -> EnvInfo:
    """The description of a Gymnasium environment from its spaces and spec, with repeats of its actions as macros."""
    env_id = env_name(env)
    num_primitives = num_actions(env)
    meanings: Sequence[str] = getattr(env.unwrapped, "get_action_meanings", tuple)()
    names = meanings if len(meanings) == num_primitives else ()
    shape, dtype, kind = _observations(env.observation_space, env_id)
    limit = None if env.spec is None else env.spec.max_episode_steps
    return EnvInfo(
        env_id=env_id,
        observation_shape=shape,
        observation_dtype=np.dtype(dtype),
        observation_kind=kind,
        actions=default_macros(num_primitives, names, env_id),
        max_episode_steps=EnvInfo.max_episode_steps if limit is None else limit,
    )


def _observations(space: spaces.Space, env_id: str) -> tuple[tuple[int, ...], type, ObservationKind]:
    """Shape, dtype and kind of the observations of `space` after flattening."""
    if _is_image(space):
        assert space.shape is not None
        shape = space.shape if len(space.shape) == 3 else (*space.shape, 1)
        if min(shape[:2]) < SMALLEST_IMAGE:
            raise UserError(
                f"{env_id} has images of shape {space.shape}; masp needs [height, width, channels] with height and "
                f"width of at least {SMALLEST_IMAGE}"
            )
        return shape, np.uint8, "image"
    if not _is_numeric(space):
        raise UserError(
            f"{env_id} has observations that masp cannot read ({_summary(space)}); wrap it so that they are one "
            "image, or a Box or Discrete, or a Dict or Tuple of these without images"
        )
    return (spaces.flatdim(space),), np.float32, "vector"


def _summary(space: spaces.Space) -> str:
    parts = [f"{name}: {type(part).__name__}" for name, part in space.items()] if isinstance(space, spaces.Dict) else []
    return f"{type(space).__name__} of {', '.join(parts)}" if parts else type(space).__name__


def _is_image(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def _is_numeric(space: spaces.Space) -> bool:
    """Whether `space` can be flattened to a vector."""
    if isinstance(space, spaces.Dict):
        return all(_is_numeric(part) for part in space.values())
    if isinstance(space, spaces.Tuple):
        return all(_is_numeric(part) for part in space)
    numeric_spaces = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    return isinstance(space, numeric_spaces) and not _is_image(space)
