"""An environment that hangs or dies in its seventh step: always, or only the first time on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import gymnasium
import numpy as np


class HangingEnv(gymnasium.Env):
    """Episodes of ten steps with random observations."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, marker: str = "", dies: bool = False):
        """`marker`: a file that is made with the first fault, after which there is none; empty: a fault each time."""
        self._marker, self._dies, self._steps = marker, dies, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        self._steps += 1
        if self._steps == 7 and not (self._marker and Path(self._marker).exists()):
            if self._marker:
                Path(self._marker).touch()
            if self._dies:
                os._exit(3)
            time.sleep(1e6)
        return self._observe(), float(action), self._steps == 10, False, {}

    def _observe(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class CalmEnv(HangingEnv):
    """The same without a fault."""

    def step(self, action):
        self._steps += 1
        return self._observe(), float(action), self._steps == 10, False, {}
