"""A tiny environment whose whole episode is written on a tape, for tests."""

import gymnasium
import numpy as np


class TapeEnv(gymnasium.Env):
    """Step t pays `rewards[t] * (action + 1)`; the episode ends with the tape.

    Without given rewards, the seed of the reset draws them, how many there are (1 to 9) and how the episode ends. The
    observation is (steps played, last action, a number that only this episode has).
    """

    observation_space = gymnasium.spaces.Box(-1.0, 100.0, (3,), np.float32)

    def __init__(self, rewards=None, terminates=True, num_actions=3):
        self.action_space = gymnasium.spaces.Discrete(num_actions)
        self._given = (rewards, terminates)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._rewards, self._terminates = self._given
        if self._rewards is None:
            self._rewards = self.np_random.normal(size=self.np_random.integers(1, 10)).tolist()
            self._terminates = bool(self.np_random.integers(2))
        self._mark = self.np_random.random()
        self._steps = 0
        return self._observe(-1), {}

    def step(self, action):
        assert self.action_space.contains(action)
        reward = self._rewards[self._steps] * (int(action) + 1)
        self._steps += 1
        over = self._steps == len(self._rewards)
        return self._observe(action), reward, over and self._terminates, over and not self._terminates, {"said": "tape"}

    def _observe(self, action):
        return np.array([self._steps, action, self._mark], np.float32)
