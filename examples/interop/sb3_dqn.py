"""Macros in Stable-Baselines3: DQN with the right discounts, and `MaspDQN` with the learned similarity.

pip install "masp-rl[sb3]"
python examples/interop/sb3_dqn.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import gymnasium
import torch
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import masp
from masp.sb3 import MacroReplayBuffer, MaspDQN, StepBudget

ACTIONS = masp.ActionSet(2, [(0, 1), (1, 0), (0, 0, 1, 1)], ("left", "right"))
SETTINGS = {"learning_rate": 1e-3, "buffer_size": 10_000, "learning_starts": 200, "train_freq": 2, "device": "cpu"}


def make() -> gymnasium.Env:
    """Monitor belongs inside: there it counts primitive steps and sums the rewards of the task."""
    return masp.MacroActionEnv(Monitor(gymnasium.make("CartPole-v1")), ACTIONS, gamma=0.99)


def main() -> None:
    torch.set_num_threads(1)  # the networks are so small that more threads only wait for each other
    dqn = DQN("MlpPolicy", make(), replay_buffer_class=MacroReplayBuffer, seed=0, **SETTINGS)
    ours = MaspDQN("MlpPolicy", make(), penalty_weight=0.1, seed=0, **SETTINGS)
    for model in (dqn, ours):
        budget = StepBudget(3_000)  # primitive steps: the same for both, however long their macros
        model.learn(3_000, callback=budget)
        mean, _ = evaluate_policy(model, make(), n_eval_episodes=5)
        print(f"{type(model).__name__}: {budget.steps:,} steps, {model.num_timesteps:,} decisions, return {mean:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        ours.save(Path(folder) / "model")
        loaded = MaspDQN.load(Path(folder) / "model", env=make())
    print(f"loaded: similarity of 'left-right' and 'right-left' is {loaded.similarity[2, 3]:.2f}")


if __name__ == "__main__":
    main()
