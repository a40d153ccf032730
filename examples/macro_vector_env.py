"""Macros in vectorised code: Q-learning in 16 environments, each at its own position in its own macro.

    python examples/macro_vector_env.py

The task is a corridor of 12 cells. The loop is that of any vectorised agent; what macros change are two lines: only
decisions that ended are learned from, and each with its own discount.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

import masp

CELLS = 12


class Corridor(gymnasium.Env):
    """Actions: 0 left, 1 right. An episode ends with reward 1 in the last cell, or after 40 steps."""

    observation_space = spaces.Discrete(CELLS)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = self.steps = 0
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.cell = int(np.clip(self.cell + (1 if action == 1 else -1), 0, CELLS - 1))
        self.steps += 1
        arrived = self.cell == CELLS - 1
        return self.cell, float(arrived), arrived, self.steps == 40 and not arrived, {}


def main() -> None:
    actions = masp.ActionSet(2, [(1, 1, 1, 1), (0, 0)], ("left", "right"))
    envs = masp.MacroVectorEnv(SyncVectorEnv([Corridor] * 16), actions, gamma=0.95)
    rng, q = np.random.default_rng(0), np.zeros((CELLS, len(actions)))
    observation, _ = envs.reset(seed=0)
    decisions = 0
    for _ in range(1_000):
        greedy = q[observation].argmax(axis=1)
        action = np.where(rng.random(16) < 0.3, rng.integers(len(actions), size=16), greedy)
        next_observation, reward, _, _, infos = envs.step(action)
        ended = infos["decided"]
        s, a = infos["observation"][ended], infos["action"][ended]
        target = reward[ended] + infos["discount"][ended] * q[next_observation[ended]].max(axis=1)
        np.add.at(q, (s, a), 0.1 * (target - q[s, a]))
        decisions += int(ended.sum())
        observation = next_observation
    best = actions.names[int(q[0].argmax())]
    print(
        f"{decisions:,} decisions in 1,000 steps of 16 environments; value of the first cell {q[0].max():.3f}, "
        f"by {best}"
    )
    print(f"true value: {0.95 ** (CELLS - 2):.3f}")


if __name__ == "__main__":
    main()
