"""Stable-Baselines3 DQN on MiniGrid or MinAtar: a small network, updates as often as ours."""

import sys

import gymnasium
from sb3_parts import ChannelsFirst, OneHotCells, SmallTorso
from stable_baselines3 import DQN
from stable_baselines3.common.vec_env import DummyVecEnv
from turns import serve

CASE, ENVS, UPDATES, STEPS_PER_UPDATE, BATCH, HIDDEN = sys.argv[1], *map(int, sys.argv[2:7])


def make_env():
    if CASE == "minigrid":
        import minigrid  # noqa: F401

        return OneHotCells(gymnasium.make("MiniGrid-DoorKey-5x5-v0"))
    from minatar.gym import BaseEnv

    return ChannelsFirst(gymnasium.wrappers.TimeLimit(BaseEnv(game="breakout"), 5000))


def main():
    agent = DQN(
        "MlpPolicy",
        DummyVecEnv([make_env for _ in range(ENVS)]),
        batch_size=BATCH,
        buffer_size=50_000,
        learning_starts=1_000,
        train_freq=max(1, STEPS_PER_UPDATE // ENVS),
        gradient_steps=max(1, ENVS // STEPS_PER_UPDATE),
        policy_kwargs={
            "features_extractor_class": SmallTorso,
            "features_extractor_kwargs": {"features": 32 if CASE == "minigrid" else 16},
            "net_arch": [HIDDEN],
        },
        device="cpu",
    )
    steps = UPDATES * STEPS_PER_UPDATE
    agent.learn(1_500)
    serve(lambda: agent.learn(steps, reset_num_timesteps=False), steps, UPDATES)


main()
