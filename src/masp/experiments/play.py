"""Play of a trained agent, to mine macros from."""

from __future__ import annotations

import numpy as np

from masp.training.playing import make_player_env
from masp.training.playing import play as ticks
from masp.training.run import Run

NUM_ENVS = 16


def play(run: Run, steps: int, epsilon: float, seed: int) -> list[list[int]]:
    """Primitives of episodes, at least `steps` in all, the last cut; decisions are random with chance `epsilon`."""
    env = make_player_env(run.config.env, run.config.env_options, min(NUM_ENVS, run.config.num_envs))
    current: list[list[int]] = [[] for _ in range(env.num_envs)]
    episodes = []
    played = 0
    for tick in ticks(run, env, seed, epsilon):
        over = np.asarray(tick.step.terminated) | np.asarray(tick.step.truncated)
        for i in np.flatnonzero(~tick.resetting):
            current[i].append(int(tick.primitive[i]))
            played += 1
            if over[i]:
                episodes.append(current[i])
                current[i] = []
        if played >= steps:
            break
    env.close()
    return episodes + [actions for actions in current if actions]
