"""The score of Stable-Baselines3's DQN on a MinAtar game, at the settings of `peer_scores.py`.

    python sb3_dqn_score.py GAME FRAMES SEED

Prints one JSON object: `eval_return` and `train_return`.
"""

import json
import sys

import gymnasium
import numpy as np
import torch
from minatar.gym import BaseEnv
from sb3_parts import ChannelsFirst, SmallTorso
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

GAME, FRAMES, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ENVS, MAX_STEPS, TAIL_FRAMES, EPISODES = 8, 10_000, 100_000, 64


class AllMonitors(Monitor):
    """Remembers at which step of its environment each episode ended."""

    ended: list[tuple[int, float]]

    def __init__(self, env):
        super().__init__(env)
        self.ended = []

    def step(self, action):
        result = super().step(action)
        if result[2] or result[3]:
            self.ended.append((self.total_steps, self.episode_returns[-1]))
        return result


def make_env(seed):
    def make():
        env = AllMonitors(ChannelsFirst(gymnasium.wrappers.TimeLimit(BaseEnv(game=GAME), MAX_STEPS)))
        env.reset(seed=seed)
        return env

    return make


def main():
    torch.set_num_threads(1)
    vector = DummyVecEnv([make_env(1000 * SEED + i) for i in range(ENVS)])
    agent = DQN(
        "MlpPolicy",
        vector,
        learning_rate=1e-4,
        batch_size=32,
        buffer_size=100_000,
        learning_starts=1_000,
        gamma=0.99,
        train_freq=1,
        gradient_steps=ENVS // 4,
        target_update_interval=1_000,
        exploration_fraction=250_000 / FRAMES,
        exploration_initial_eps=1.0,
        exploration_final_eps=0.01,
        max_grad_norm=1e9,
        seed=SEED,
        policy_kwargs={
            "features_extractor_class": SmallTorso,
            "features_extractor_kwargs": {"features": 16},
            "net_arch": [128],
            "optimizer_kwargs": {"eps": 3.125e-4},
        },
        device="cpu",
    )
    agent.learn(FRAMES)
    tail = [r for env in vector.envs for step, r in env.ended if step > (FRAMES - TAIL_FRAMES) / ENVS]
    agent.exploration_rate = 0.001
    returns, _ = evaluate_policy(
        agent, DummyVecEnv([make_env(10**6 + SEED)]), EPISODES, deterministic=False, return_episode_rewards=True
    )
    print(json.dumps({"eval_return": float(np.mean(returns)), "train_return": float(np.mean(tail))}), flush=True)


main()
