"""Environments for tests of `ProcessVector`; the processes import them from this module."""

import itertools
import os
import sys
import time

import gymnasium
import numpy as np

from masp.errors import UserError
from tape_env import TapeEnv


class Unmakeable(TapeEnv):
    def __init__(self):
        raise UserError("this environment cannot be made")


class Failing(TapeEnv):
    """Action 0 is harmless, 1 raises, 2 kills the process, 3 never returns."""

    def __init__(self):
        super().__init__([0.0] * 50, num_actions=4)

    def step(self, action):
        if action == 1:
            raise RuntimeError("this action fails")
        if action == 2:
            os._exit(7)
        if action == 3:
            time.sleep(600)
        return super().step(action)


_OBSERVATIONS = itertools.count()


class Drifting(TapeEnv):
    """Has another observation each time, whatever the seed."""

    def _observe(self, action):
        return np.array([self._steps, action, next(_OBSERVATIONS)], np.float32)


class ImportsOfJax(TapeEnv):
    """Its first number is how many parts of JAX the process has imported."""

    def _observe(self, action):
        return np.array([len([name for name in sys.modules if name.split(".")[0] == "jax"]), 0, 0], np.float32)


class Rendering(TapeEnv):
    """Renders the number that identifies the episode."""

    render_mode = "rgb_array"

    def render(self):
        return np.full((2, 2, 3), self._mark, np.float32)


class Composite(gymnasium.Env):
    """Has observations that must be flattened."""

    observation_space = gymnasium.spaces.Dict(
        {"a": gymnasium.spaces.Discrete(3), "b": gymnasium.spaces.Box(0, 1, (2,))}
    )
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        return self._observe(), 1.0, bool(self.np_random.random() < 0.2), False, {"life_lost": action == 1}

    def _observe(self):
        return {"a": int(self.np_random.integers(3)), "b": self.np_random.random(2).astype(np.float32)}
