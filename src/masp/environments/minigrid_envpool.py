"""MiniGrid through envpool: the same tasks in C++, more than ten times faster than the `minigrid` package.

One reference environment of the package defines the task (limits, actions, view); envpool plays it. envpool takes seeds
only at construction, and a layout may depend on how the previous episode ended, for example in Fetch. So a snapshot is
the seed and all actions of the run, one byte each, and restoring replays them, about 100,000 actions per second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import envpool
import gymnasium
import numpy as np
from envpool.minigrid import decode_mission
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX

from masp.environments.base import Option, Step, episode_seed
from masp.environments.minigrid import CellsWithDirection, describe_minigrid
from masp.environments.minigrid_mission import mission_plane
from masp.environments.minigrid_whole import WholeView, cell_codes, whole_view
from masp.errors import UserError

LIMITS = ("max_steps", "max_episode_steps")
SHAPES = ("size", "room_size", "num_rows")
"""Options that envpool receives. It has others of the same name as the package's, but they differ in meaning; with an
`agent_view_size` other than 7 it writes out of bounds."""

UNUSABLE = {
    "Dynamic-Obstacles": "moves at random and was not compared with the minigrid package's",
    "ObstructedMaze-1D": "does not lay out its rooms as the minigrid package does",
}


def settings_of(env_id: str, reference: gymnasium.Env, options: Mapping[str, Option]) -> dict[str, Any]:
    """Arguments with which envpool's `env_id` is the same task as `reference`, which was made with `options`."""
    if env_id not in envpool.list_all_envs():
        raise UserError(f"envpool has no {env_id}; leave out backend=envpool")
    for part, reason in UNUSABLE.items():
        if part in env_id:
            raise UserError(f"{env_id} of envpool {reason}; leave out backend=envpool")
    for name in options:
        if name not in LIMITS + SHAPES:
            raise UserError(f"{env_id} with backend=envpool has no option {name!r}; leave out one of the two")
    task: Any = reference.unwrapped
    settings: dict[str, Any] = {name: value for name, value in options.items() if name in SHAPES}
    # The class below truncates one step earlier: envpool reports a termination in the last allowed step as truncation.
    settings["max_episode_steps"] = task.max_steps + 1
    if hasattr(task, "agent_room"):
        settings["agent_room"] = task.agent_room  # envpool starts ObstructedMaze-Full in another room
    return settings


View = CellsWithDirection | WholeView


class EnvPoolMiniGrid:
    """N environments as a `HostEnv`, with the observations, rewards and ends of the package."""

    def __init__(self, env_id: str, reference: View, options: Mapping[str, Option], num_envs: int = 1):
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self._env_id, self._settings = env_id, settings_of(env_id, reference, options)
        self.info = describe_minigrid(reference)
        self._has_mission, self._sees_whole = reference.has_mission, isinstance(reference, WholeView)
        self._max_steps: int = reference.unwrapped.max_steps  # type: ignore[attr-defined]
        # ObstructedMaze hides its keys in boxes of one colour: blue in envpool, grey in the package.
        self._box_colour = COLOR_TO_IDX["grey"] if "ObstructedMaze" in env_id else None
        self._observation = np.zeros((num_envs, *self.info.observation_shape), self.info.observation_dtype)
        self._length = np.zeros(num_envs, np.int64)  # steps of the current episodes
        self._resetting = np.zeros(num_envs, bool)
        self._actions = np.zeros((1024, num_envs), np.uint8)  # of all ticks since the reset; grows by doubling
        self._ticks = 0
        self._pool: Any = None

    @property
    def num_envs(self) -> int:
        return len(self._observation)

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes; [N, ...] first observations. The same seed gives the same episodes."""
        self._seed_pool(seed)
        self._begin_episodes(np.arange(self.num_envs, dtype=np.int32))
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] in each environment; one whose episode ended in the last tick only resets."""
        self._require_reset()
        self._append(actions)
        reward = np.zeros(self.num_envs, np.float32)
        terminated, truncated, life_lost = np.zeros((3, self.num_envs), bool)
        resetting, playing = np.flatnonzero(self._resetting), np.flatnonzero(~self._resetting)
        if len(resetting):
            self._begin_episodes(resetting)
        if len(playing):
            outcome = self._play(playing, np.asarray(actions)[playing])
            reward[playing], terminated[playing], truncated[playing] = outcome
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """All actions since the reset; `restore` with the seed of the run replays them."""
        self._require_reset()
        return {
            "actions": self._actions[: self._ticks].copy(),  # [T, N]
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "observation": self._observation.copy(),  # [N, ...] the newest, to verify the replay
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Recover the state of `snapshot` in a run with this seed."""
        saved_envs = len(snapshot["resetting"])
        if saved_envs != self.num_envs:
            raise UserError(f"the checkpoint holds {saved_envs} environments, but the run has {self.num_envs}")
        self.reset(seed)
        for actions in np.asarray(snapshot["actions"]):
            self.step(actions)
        same = np.array_equal(self._resetting, snapshot["resetting"])
        if not (same and np.array_equal(self._observation, snapshot["observation"])):
            raise UserError(
                f"{self.info.env_id} of envpool {envpool.__version__} does not repeat the episodes of the checkpoint, "
                "so the run cannot be resumed; was it made with another version?"
            )

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _seed_pool(self, seed: int) -> None:
        """Construct the environments, with one seed each."""
        seeds = [episode_seed(int(seed), i, 0) for i in range(self.num_envs)]
        # One thread: a step of these small tasks costs less than waking another thread.
        self._pool = envpool.make_gymnasium(
            self._env_id, num_envs=self.num_envs, env_seed=seeds, num_threads=1, **self._settings
        )
        self._ticks = 0

    def _append(self, actions: np.ndarray) -> None:
        if self._ticks == len(self._actions):
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)])
        self._actions[self._ticks] = actions
        self._ticks += 1

    def _begin_episodes(self, envs: np.ndarray) -> None:
        observation, _ = self._pool.reset(envs.astype(np.int32))
        self._length[envs] = 0
        self._resetting[envs] = False
        if self._has_mission:
            texts: Sequence[str] = decode_mission(observation["mission"])  # type: ignore[assignment]
            planes = [mission_plane(text, *self._observation.shape[1:3]) for text in texts]
            self._observation[envs, ..., -1] = planes
        self._observe(envs, observation)

    def _play(self, envs: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Reward, terminated and truncated of one step of some environments."""
        self._length[envs] += 1
        observation, reward, terminated, truncated, _ = self._pool.step(actions.astype(np.int32), envs.astype(np.int32))
        assert not truncated.any()
        truncated = (self._length[envs] >= self.info.max_episode_steps) & ~terminated
        self._resetting[envs] = terminated | truncated
        self._observe(envs, observation)
        # The formula of the package, with the package's own step limit.
        reward = np.where(reward > 0, 1 - 0.9 * (self._length[envs] / self._max_steps), 0)
        return reward, terminated, truncated

    def _observe(self, envs: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        if self._sees_whole:
            for i, state in zip(envs, self._pool.debug_states(envs.tolist()), strict=True):
                self._observation[i, ..., 0] = self._whole_view(state)
            return
        cells = self._repainted(observation["image"])
        self._observation[envs, ..., :3] = cells
        self._observation[envs, ..., 3] = observation["direction"][:, None, None]

    def _whole_view(self, state: Any) -> np.ndarray:
        """[S, S] of one of envpool's `debug_states`; `bytes` turns their long lists into arrays fastest."""
        carried = (state.carrying_type, state.carrying_color, state.carrying_state) if state.has_carrying else (1, 0, 0)
        grid = np.frombuffer(bytes([*state.grid, *carried]), np.uint8).reshape(-1, 3)
        codes = cell_codes(self._repainted(grid.copy()))
        return whole_view(
            codes[:-1].reshape(state.width, state.height), state.agent_pos, state.agent_dir, int(codes[-1])
        )

    def _repainted(self, cells: np.ndarray) -> np.ndarray:
        """`cells` [..., 3] with boxes in the colour of the package."""
        if self._box_colour is not None:
            cells[..., 1][cells[..., 0] == OBJECT_TO_IDX["box"]] = self._box_colour
        return cells

    def _require_reset(self) -> None:
        if self._pool is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")
