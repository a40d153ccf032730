"""N environments as a `HostEnv` whose episodes have seeds of their own.

Gymnasium's own vector environments seed the first reset only. An episode then depends on all previous episodes, and a
run could only be resumed by a replay from its start. Here each episode has its own seed, so a checkpoint needs only
the seed and the state of the current episode. Where the environments are is up to the subclass: `GymVector` steps them
in turn, `ProcessVector` has them in processes. Both give the same steps, and a run may go on with the other one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from masp.environments.base import EnvInfo, Step, episode_seed
from masp.environments.episode_env import Outcome
from masp.errors import UserError

Request = tuple[str, Any]
"""Name of a method of `EpisodeEnv`, and its argument."""


class EpisodeVector(ABC):
    """Exact resume needs environments that are deterministic given the seed of their reset."""

    def __init__(self, num_envs: int, info: EnvInfo):
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self.info, self.num_envs = info, num_envs
        self._observation = np.zeros((num_envs, *info.observation_shape), info.observation_dtype)
        self._seed: int | None = None
        self._episode = np.zeros(num_envs, np.int64)
        self._resetting = np.zeros(num_envs, bool)
        self.action_mask: np.ndarray | None = None
        """[N, P] of the newest observations; None: the environments have no masks."""

    def reset(self, seed: int) -> np.ndarray:
        """Start new episodes; [N, ...] first observations. The same seed gives the same episodes."""
        self._start(seed)
        self._episode[:] = 0
        self._resetting[:] = False
        outcomes = self._request([("reset", self._episode_seed(i)) for i in range(self.num_envs)])
        self.action_mask = _stacked_masks(outcomes)
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] in each environment; one whose episode ended in the last tick only resets."""
        self._require_reset()
        self._episode += self._resetting
        requests: list[Request] = [
            ("reset", self._episode_seed(i)) if self._resetting[i] else ("step", action)
            for i, action in enumerate(np.asarray(actions).tolist())
        ]
        outcomes: list[Outcome] = self._request(requests)
        with np.errstate(over="ignore"):  # infinite afterwards, which the agent finds
            reward = np.array([outcome.reward for outcome in outcomes], np.float32)
        terminated = np.array([outcome.terminated for outcome in outcomes])
        truncated = np.array([outcome.truncated for outcome in outcomes])
        life_lost = np.array([outcome.life_lost for outcome in outcomes])
        success = np.array([outcome.success for outcome in outcomes], np.int8)
        self._resetting = terminated | truncated
        self.action_mask = _stacked_masks(outcomes)
        # A copy, because the caller may keep it, or pass it to a device that reads it later.
        observation = self._observation.copy()
        return Step(observation, reward, terminated, truncated, life_lost, self.action_mask, success)

    @property
    def episode_seeds(self) -> list[int]:
        """[N] the seeds of the current episodes; the same seed and actions repeat an episode."""
        self._require_reset()
        return [self._episode_seed(i) for i in range(self.num_envs)]

    def snapshot(self) -> dict[str, np.ndarray]:
        """The current episode of each environment; `restore` with the seed of the run recovers it."""
        self._require_reset()
        states = self._request([("save", None)] * self.num_envs)
        return {
            "episode": self._episode.copy(),  # [N] number of earlier episodes
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "lengths": np.array([len(state) for state in states], np.int64),  # [N] bytes of each state
            "state": np.frombuffer(b"".join(states), np.uint8).copy(),  # [sum of lengths]
            "observation": self._observation.copy(),  # [N, ...] the newest, to verify a replay
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Recover the state of `snapshot` in a run with this seed."""
        saved_envs = len(snapshot["episode"])
        if saved_envs != self.num_envs:
            raise UserError(f"the checkpoint holds {saved_envs} environments, but the run has {self.num_envs}")
        self._start(seed)
        self._episode[:] = snapshot["episode"]
        states = np.split(snapshot["state"], np.cumsum(snapshot["lengths"])[:-1])
        same = self._request(
            [
                ("load", (self._episode_seed(i), state.tobytes(), observation))
                for i, (state, observation) in enumerate(zip(states, snapshot["observation"], strict=True))
            ]
        )
        self._resetting = np.array(snapshot["resetting"], bool)
        if not all(same):
            raise UserError(
                f"{self.info.env_id} does not repeat an episode when its seed and actions are repeated, "
                "so a run of it cannot be resumed"
            )

    def render(self) -> np.ndarray | None:
        """A picture of the first environment; None if its render mode is not rgb_array."""
        self._require_reset()
        return self._request([("render", None)])[0]

    @abstractmethod
    def close(self) -> None:
        """End all environments."""

    @abstractmethod
    def _request(self, requests: list[Request]) -> list[Any]:
        """The answers of the first environments, to one request each."""

    def _start(self, seed: int) -> None:
        """Remember the seed, before the first request."""
        self._seed = int(seed)

    def _episode_seed(self, i: int) -> int:
        assert self._seed is not None
        return episode_seed(self._seed, i, int(self._episode[i]))

    def _require_reset(self) -> None:
        if self._seed is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")


def _stacked_masks(outcomes: list[Outcome]) -> np.ndarray | None:
    """[N, P] the action masks of all environments; None: they have none."""
    masks = [outcome.action_mask for outcome in outcomes]
    return None if masks[0] is None else np.stack(masks)  # type: ignore[arg-type]
