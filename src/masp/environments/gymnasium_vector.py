"""N Gymnasium environments, stepped in turn, as a `HostEnv`.

Gymnasium's own vector environments seed the first reset only. An episode then depends on all previous episodes, and a
run could only be resumed by a replay from its start. Here each episode has its own seed, so a checkpoint needs only
the seed and the actions of the current episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from masp.environments.base import SMALLEST_IMAGE, EnvInfo, ObservationKind, Step, episode_seed
from masp.errors import UserError
from masp.macros.actions import default_macros
from masp.macros.wrapper import env_name, num_actions

_STEP_VALUES = "observation, reward, terminated, truncated, info"


class GymVector:
    """Exact resume needs environments that are deterministic given the seed of their reset."""

    def __init__(
        self,
        make: Callable[[], gymnasium.Env],
        num_envs: int = 1,
        describe: Callable[[gymnasium.Env], EnvInfo] | None = None,
    ):
        """`make` builds one environment; `describe` describes it, by default from its spaces and spec."""
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self._envs = [make()]
        self.info = (describe or describe_env)(self._envs[0])
        self._envs += [make() for _ in range(num_envs - 1)]
        self._space = self._envs[0].observation_space
        self._flattens = self._space.shape != self.info.observation_shape
        self._observation = np.zeros((num_envs, *self.info.observation_shape), self.info.observation_dtype)
        self._seed: int | None = None
        self._episode = np.zeros(num_envs, np.int64)
        self._actions: list[list[int]] = [[] for _ in range(num_envs)]
        self._resetting = np.zeros(num_envs, bool)

    @property
    def num_envs(self) -> int:
        return len(self._envs)

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes; [N, ...] first observations. The same seed gives the same episodes."""
        self._seed = int(seed)
        self._episode[:] = 0
        for i in range(self.num_envs):
            self._begin_episode(i)
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] in each environment; one whose episode ended in the last tick only resets."""
        self._require_reset()
        reward = np.zeros(self.num_envs, np.float32)
        terminated, truncated, life_lost = np.zeros((3, self.num_envs), bool)
        for i, action in enumerate(np.asarray(actions).tolist()):
            if self._resetting[i]:
                self._episode[i] += 1
                self._begin_episode(i)
            else:
                reward[i], terminated[i], truncated[i], life_lost[i] = self._play(i, action)
        # A copy, because the caller may keep it, or pass it to a device that reads it later.
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """The current episode of each environment; `restore` with the seed of the run recovers it."""
        self._require_reset()
        return {
            "episode": self._episode.copy(),  # [N] number of earlier episodes
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "lengths": np.array([len(actions) for actions in self._actions], np.int64),  # [N]
            "actions": np.array([a for actions in self._actions for a in actions], np.int32),  # [sum of lengths]
            "observation": self._observation.copy(),  # [N, ...] the newest, to verify the replay
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Recover the state of `snapshot` in a run with this seed, by a replay of the current episodes."""
        saved_envs = len(snapshot["episode"])
        if saved_envs != self.num_envs:
            raise UserError(f"the checkpoint holds {saved_envs} environments, but the run has {self.num_envs}")
        self._seed = int(seed)
        self._episode[:] = snapshot["episode"]
        actions = np.split(snapshot["actions"], np.cumsum(snapshot["lengths"])[:-1])
        same = all([self._replay_episode(i, actions[i].tolist()) for i in range(self.num_envs)])
        same = same and np.array_equal(self._resetting, snapshot["resetting"])
        if not (same and np.array_equal(self._observation, snapshot["observation"], equal_nan=True)):
            raise UserError(
                f"{self.info.env_id} does not repeat an episode when its seed and actions are repeated, "
                "so a run of it cannot be resumed"
            )

    def render(self) -> np.ndarray | None:
        """A picture of the first environment; None if its render mode is not rgb_array."""
        picture = self._envs[0].render() if self._envs[0].render_mode == "rgb_array" else None
        return picture if isinstance(picture, np.ndarray) else None

    def close(self) -> None:
        for env in self._envs:
            env.close()

    def _begin_episode(self, i: int) -> None:
        assert self._seed is not None
        result = self._envs[i].reset(seed=episode_seed(self._seed, i, int(self._episode[i])))
        observation, _ = self._require_values("reset", i, result, "observation, info")
        self._actions[i] = []
        self._resetting[i] = False
        self._observe(i, observation)

    def _replay_episode(self, i: int, actions: list[int]) -> bool:
        """Replay the current episode of environment i; False if it ends before the last action."""
        self._begin_episode(i)
        for action in actions:
            if self._resetting[i]:
                return False
            self._play(i, action)
        return True

    def _play(self, i: int, action: int) -> tuple[float, bool, bool, bool]:
        """Reward, terminated, truncated and life lost of one step of environment i."""
        result = self._require_values("step", i, self._envs[i].step(action), _STEP_VALUES)
        observation, reward, terminated, truncated, info = result
        self._actions[i].append(action)
        self._resetting[i] = terminated or truncated
        self._observe(i, observation)
        # A termination in the last allowed step is not a truncation.
        return float(reward), bool(terminated), bool(truncated and not terminated), bool(info.get("life_lost", False))

    def _observe(self, i: int, observation: Any) -> None:
        if self._flattens:
            flat = spaces.flatten(self._space, observation)
            observation = np.reshape(flat, self.info.observation_shape)  # type: ignore[arg-type]
        elif np.shape(observation) != self.info.observation_shape:  # assigning would broadcast it
            expected = self.info.observation_shape
            raise UserError(f"environment {i} returned an observation of {np.shape(observation)}, expected {expected}")
        self._observation[i] = observation

    def _require_values(self, method: str, i: int, result: Any, names: str) -> Any:
        """`result`, or a `UserError` if it is not a tuple of these."""
        number = len(names.split(", "))
        if not isinstance(result, tuple) or len(result) != number:
            returned = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            raise UserError(f"{method} of environment {i} returned {returned}, expected {number}: {names}")
        return result

    def _require_reset(self) -> None:
        if self._seed is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")


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
