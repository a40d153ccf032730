"""N Gymnasium environments, each in a process of its own, as a `HostEnv`.

For environments of which a process can hold only one, as emulators, and for those so slow that stepping them side by
side pays. Like `GymVector`, and with the same seeds: the same environments give the same steps in either.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from masp.environments.base import EnvInfo, Step
from masp.environments.gym_vector import episode_seed
from masp.environments.process_pool import Worker, end, start
from masp.errors import UserError


class ProcessVector:
    """Processes start with the first `reset` or `restore`: what is only looked at costs nothing."""

    def __init__(self, make: Callable[[], gymnasium.Env], num_envs: int, info: EnvInfo):
        """`make` builds one environment, inside its process, so it must be picklable; `info` says what it is."""
        if num_envs < 1:
            raise UserError(f"num_envs must be at least 1, got {num_envs}")
        self.info, self.num_envs, self._make = info, num_envs, make
        self._workers: list[Worker] = []
        self._observation = np.zeros((num_envs, *info.observation_shape), info.observation_dtype)
        self._seed: int | None = None
        self._episode = np.zeros(num_envs, np.int64)
        self._resetting = np.zeros(num_envs, bool)
        weakref.finalize(self, end, self._workers)  # also at exit, where nobody called `close`

    def reset(self, seed: int) -> np.ndarray:
        """New episodes everywhere; [N, ...] first observations. The same seed gives the same episodes."""
        self._start(seed)
        self._episode[:] = 0
        self._resetting[:] = False
        self._ask([("reset", self._episode_seed(i)) for i in range(self.num_envs)])
        return self._observation.copy()

    def step(self, actions: np.ndarray) -> Step:
        """Play one primitive [N] each; an environment whose episode ended in the last tick only resets."""
        self._require_reset()
        self._episode += self._resetting
        played = enumerate(np.asarray(actions).tolist())
        answers = self._ask(
            [("reset", self._episode_seed(i)) if self._resetting[i] else ("step", a) for i, a in played]
        )
        reward = np.array([0.0 if answer is None else answer.reward for answer in answers], np.float32)
        terminated, truncated, life_lost = (
            np.array([answer is not None and getattr(answer, flag) for answer in answers])
            for flag in ("terminated", "truncated", "life_lost")
        )
        self._resetting = terminated | truncated
        # A copy: the processes write the next observations into the same memory.
        return Step(self._observation.copy(), reward, terminated, truncated, life_lost)

    def snapshot(self) -> dict[str, np.ndarray]:
        """Where every environment stands; `restore` with the seed of the run brings it back."""
        self._require_reset()
        saved = self._ask([("save", None)] * self.num_envs)
        return {
            "episode": self._episode.copy(),  # [N] how many ended before this one
            "resetting": self._resetting.copy(),  # [N] the next tick only resets
            "lengths": np.array([len(state) for state in saved], np.int64),  # [N] bytes of each state
            "state": np.frombuffer(b"".join(saved), np.uint8).copy(),  # [sum of lengths]
            "observation": self._observation.copy(),  # [N, ...] the newest
        }

    def restore(self, seed: int, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go to where `snapshot` was taken in a run with this seed."""
        if len(snapshot["episode"]) != self.num_envs:
            raise UserError(
                f"the checkpoint holds {len(snapshot['episode'])} environments, but the run has {self.num_envs}"
            )
        self._start(seed)
        self._episode[:] = snapshot["episode"]
        states = np.split(snapshot["state"], np.cumsum(snapshot["lengths"])[:-1])
        saved = zip(states, snapshot["observation"], strict=True)
        same = self._ask([("load", (self._episode_seed(i), s.tobytes(), o)) for i, (s, o) in enumerate(saved)])
        self._resetting[:] = snapshot["resetting"]
        if not all(same):
            raise UserError(
                f"{self.info.env_id} does not repeat an episode when its seed and actions are repeated, "
                "so a run of it cannot be resumed"
            )

    def render(self) -> np.ndarray | None:
        """What the first environment draws of itself; None if it was not made to."""
        self._require_reset()
        return self._ask([("render", None)])[0]

    def close(self) -> None:
        """End all processes; the next `reset` starts new ones."""
        self._seed = None
        end(self._workers)

    def _start(self, seed: int) -> None:
        self._seed = int(seed)
        if not self._workers:
            self._observation = start(self._workers, self.info.env_id, self._make, self._observation)

    def _ask(self, requests: list[tuple[str, Any]]) -> list[Any]:
        """One request to each of the first environments, all at once; their answers.

        Whatever goes wrong ends all processes.
        """
        asked = self._workers[: len(requests)]
        try:
            for worker, request in zip(asked, requests, strict=True):
                worker.send(request)
            return [worker.receive() for worker in asked]
        except BaseException:  # an interrupt as well: answers under way would be taken for those of the next request
            self.close()
            raise

    def _episode_seed(self, i: int) -> int:
        assert self._seed is not None
        return episode_seed(self._seed, i, int(self._episode[i]))

    def _require_reset(self) -> None:
        if self._seed is None:
            raise RuntimeError("reset(seed) or restore(seed, snapshot) comes first")
