"""Train in an environment of your own.

Any class or function that makes a Gymnasium environment with discrete actions can be passed to `masp.train`. Because it
stands at the top level of this file, the run can be opened again, and the command line finds it too:

  masp train own_environment:Corridor --frames 8000 --env-options length=12
"""

import tempfile

import gymnasium
import numpy as np

import masp


class Corridor(gymnasium.Env):
    """Walk to the right end of a corridor; a step to the left leads back to the start."""

    def __init__(self, length: int = 8):
        self.length, self.place, self.time = length, 0, 0
        self.observation_space = gymnasium.spaces.Box(0, 1, (length + 1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.time = 0
        return self.observation(), {}

    def step(self, action):
        self.time += 1
        self.place = self.place + 1 if action == 1 else 0
        arrived = self.place == self.length
        return self.observation(), float(arrived), arrived, self.time == 40, {}

    def observation(self):
        return np.eye(self.length + 1, dtype=np.float32)[self.place]


if __name__ == "__main__":
    macros = masp.ActionSet(2, [(1, 1), (1, 1, 1, 1), (0, 1)])
    with tempfile.TemporaryDirectory() as folder:
        run = masp.train(Corridor, macros=macros, frames=6000, min_replay_steps=500, out=f"{folder}/run")
        print(run)
        scores, steps = run.evaluate(episodes=10)
        print(f"{scores.mean():.2f} of the episodes arrive, after {steps.mean():.1f} steps on average")
        print("similarity of the two macros that go right:", run.similarity[2, 3].round(3))
