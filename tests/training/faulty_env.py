"""A Gymnasium environment that makes one mistake, at a step of the first training environment."""

from __future__ import annotations

import gymnasium
import numpy as np

FAULTS = ("nan-observation", "inf-reward", "raise", "four-values", "shape", "os-error")


class FaultyEnv(gymnasium.Env):
    """Episodes of ten steps; after `good_steps` steps, `fault` happens at every step."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault: str = "", good_steps: int = 60):
        self._fault, self._good_steps, self._steps, self._all_steps = fault, good_steps, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        self._steps += 1
        self._all_steps += 1
        fault = self._fault if self._all_steps > self._good_steps else ""
        observation, reward, ended = self._observe(), float(action), self._steps == 10
        if fault == "raise":
            raise RuntimeError("the simulator is on fire")
        if fault == "os-error":
            raise FileNotFoundError(2, "No such file or directory", "level.dat")
        if fault == "four-values":
            return observation, reward, ended, {}
        if fault == "nan-observation":
            observation[1] = np.nan
        if fault == "inf-reward":
            reward = np.inf
        return observation[:1] if fault == "shape" else observation, reward, ended, False, {}

    def _observe(self):
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)


if "Faulty-v0" not in gymnasium.registry:
    gymnasium.register("Faulty-v0", "faulty_env:FaultyEnv", disable_env_checker=True, order_enforce=False)
