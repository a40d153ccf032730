"""MiniGrid through envpool: the same games in C++, more than ten times faster than the `minigrid` package.

One environment of the package is made beside it and says what the task is: its limits, its actions, its view. envpool
plays it. An environment of envpool has one stream of random numbers, seeded when it is made, from which only resets
draw. The n-th episode is therefore the n-th reset, and an episode is its number and its actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import envpool
import gymnasium
import numpy as np
from envpool.minigrid import decode_mission

from masp.environments.base import Step
from masp.environments.family import Option
from masp.environments.minigrid import CellsWithDirection, describe_minigrid
from masp.environments.minigrid_mission import mission_plane
from masp.errors import UserError

MAPPED = ("max_steps", "max_episode_steps")
"""Options that envpool knows by another name, or not at all."""


def settings_of(env_id: str, reference: gymnasium.Env, options: Mapping[str, Option]) -> dict[str, Any]:
    """What makes envpool's `env_id` the task that `reference` is, with `options` that the package took."""
    if env_id not in envpool.list_all_envs():
        raise UserError(f"envpool has no {env_id}; leave out backend=envpool")
    if "Dynamic-Obstacles" in env_id:
        raise UserError(
            f"{env_id} draws random numbers in play, so envpool's cannot be resumed; leave out backend=envpool"
        )
    known = envpool.make_spec(env_id).config._fields
    for name in options:
        if name not in (*known, *MAPPED):
            raise UserError(f"{env_id} with backend=envpool has no option {name!r}; leave out one of the two")
    task: Any = reference.unwrapped
    settings = {name: value for name, value in options.items() if name not in MAPPED}
    # One more than allowed, and cut here: envpool calls an episode that ends by itself in its last allowed step cut.
    settings["max_episode_steps"] = task.max_steps + 1
    if hasattr(task, "agent_room"):
        settings["agent_room"] = task.agent_room  # envpool's own start of ObstructedMaze-Full is another room
    return settings


class EnvPoolMiniGrid:
    """N environments as a `HostEnv`; sees, ends and pays as the package does."""

    def __init__(self, env_id: str, reference: CellsWithDirection, options: Mapping[str, Option], num_envs: int = 1):
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self._env_id, self._settings = env_id, settings_of(env_id, reference, options)
        self.info = describe_minigrid(reference)
        self._has_mission = reference.has_mission
        self._max_steps: int = reference.unwrapped.max_steps  # type: ignore[attr-defined]
        self._observation = np.zeros((num_envs, *self.info.observation_shape), self.info.observation_dtype)
        self._episode = np.zeros(num_envs, np.int64)
        self._length = np.zeros(num_envs, np.int64)
        self._played = np.zeros((num_envs, 64), np.uint8)  # actions of the current episodes
        self._resetting = np.zeros(num_envs, bool)
        self._pool: Any = None

    @property
    def num_envs(self) -> int:
        return len(self._observation)

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere; [N, ...] first observations. The same seed gives the same episodes."""
        self._seed_pool(seed)
        self._begin_episodes(np.arange(self.num_envs, dtype=np.int32))
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] each; an environment whose episode ended in the last tick only resets."""
        self._require_reset()
        reward = np.zeros(self.num_envs, np.float32)
        terminated, truncated, life_lost = np.zeros((3, self.num_envs), bool)
        resetting, playing = np.flatnonzero(self._resetting), np.flatnonzero(~self._resetting)
        if len(resetting):
            self._episode[resetting] += 1
            self._begin_episodes(resetting)
        if len(playing):
            played = self._play(playing, np.asarray(actions)[playing])
            reward[playing], terminated[playing], truncated[playing] = played
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Where every environment stands; `restore` with the seed of the run brings it back."""
        self._require_reset()
        played = [self._played[i, : self._length[i]] for i in range(self.num_envs)]
        return {
            "episode": self._episode.copy(),  # [N] how many ended before this one
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "lengths": self._length.copy(),  # [N]
            "actions": np.concatenate(played),  # [sum of lengths]
            "observation": self._observation.copy(),  # [N, ...] the newest, to check the way back
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go to where `snapshot` was taken in a run with this seed: as many resets, then the same actions."""
        episode, lengths = np.asarray(snapshot["episode"]), np.asarray(snapshot["lengths"])
        if len(episode) != self.num_envs:
            raise UserError(f"the checkpoint holds {len(episode)} environments, but the run has {self.num_envs}")
        self._seed_pool(seed)
        for number in range(int(episode.max()) + 1):
            self._begin_episodes(np.flatnonzero(episode >= number))
        self._episode[:] = episode
        begin = np.cumsum(lengths) - lengths
        for t in range(int(lengths.max())):
            playing = np.flatnonzero(lengths > t)
            self._play(playing, snapshot["actions"][begin[playing] + t])
        same = np.array_equal(self._resetting, snapshot["resetting"])
        if not (same and np.array_equal(self._observation, snapshot["observation"])):
            raise UserError(
                f"{self.info.env_id} of envpool {envpool.__version__} does not repeat the episode of the checkpoint, "
                "so the run cannot be resumed; was it made with another version?"
            )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _seed_pool(self, seed: int) -> None:
        """envpool takes seeds when it is made; one for each environment, 31 bits."""
        seeds = [
            np.random.SeedSequence(int(seed), spawn_key=(i,)).generate_state(1)[0] >> 1 for i in range(self.num_envs)
        ]
        # One thread: a step of so small a game costs less than waking another.
        self._pool = envpool.make_gymnasium(
            self._env_id, num_envs=self.num_envs, env_seed=seeds, num_threads=1, **self._settings
        )
        self._episode[:] = 0

    def _begin_episodes(self, envs: np.ndarray) -> None:
        observation, _ = self._pool.reset(envs.astype(np.int32))
        self._length[envs] = 0
        self._resetting[envs] = False
        if self._has_mission:
            planes = [mission_plane(text, *self._observation.shape[1:3]) for text in _texts(observation["mission"])]
            self._observation[envs, ..., 4] = planes
        self._observe(envs, observation)

    def _play(self, envs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reward, terminated and truncated of one step of some environments."""
        if self._length.max() == self._played.shape[1]:
            self._played = np.pad(self._played, ((0, 0), (0, self._played.shape[1])))
        self._played[envs, self._length[envs]] = actions
        self._length[envs] += 1
        observation, reward, terminated, truncated, _ = self._pool.step(actions.astype(np.int32), envs.astype(np.int32))
        assert not truncated.any()
        truncated = (self._length[envs] >= self.info.max_episode_steps) & ~terminated
        self._resetting[envs] = terminated | truncated
        self._observe(envs, observation)
        # The package's own formula, for its own limit.
        reward = np.where(reward > 0, 1 - 0.9 * (self._length[envs] / self._max_steps), 0)
        return reward, terminated, truncated

    def _observe(self, envs: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        self._observation[envs, ..., :3] = observation["image"]
        self._observation[envs, ..., 3] = observation["direction"][:, None, None]

    def _require_reset(self) -> None:
        if self._pool is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")


def _texts(missions: np.ndarray) -> Sequence[str]:
    """The texts of byte rows [B, bytes]."""
    return decode_mission(missions)  # type: ignore[return-value]
