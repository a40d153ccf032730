"""Tianshou's Rainbow on Breakout: its own network, buffer, collector and vector environment."""

import sys

import ale_py
import gymnasium
from tianshou.algorithm.modelfree.c51 import C51Policy
from tianshou.algorithm.modelfree.rainbow import RainbowDQN
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, PrioritizedVectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.atari.atari_network import RainbowNet, ScaledObsInputActionReprNet
from turns import serve

ENVS, UPDATES = int(sys.argv[1]), int(sys.argv[2])


def make_env():
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.25, full_action_space=True)
    env = gymnasium.wrappers.AtariPreprocessing(env, terminal_on_life_loss=False)
    return gymnasium.wrappers.FrameStackObservation(env, 4)


def main():
    envs = DummyVectorEnv([make_env for _ in range(ENVS)])
    space = make_env().action_space
    net = ScaledObsInputActionReprNet(RainbowNet(c=4, h=84, w=84, action_shape=[space.n]))
    policy = C51Policy(model=net, action_space=space, num_atoms=51, v_min=-10, v_max=10, eps_training=0.01)
    algorithm = RainbowDQN(
        policy=policy,
        optim=AdamOptimizerFactory(lr=6.25e-5, eps=1.5e-4),
        gamma=0.99,
        n_step_return_horizon=3,
        target_update_freq=2000,
    )
    buffer = PrioritizedVectorReplayBuffer(
        20_000,
        buffer_num=ENVS,
        ignore_obs_next=True,
        save_only_last_obs=True,
        stack_num=4,
        alpha=0.5,
        beta=0.4,
    )
    collector = Collector(algorithm, envs, buffer, exploration_noise=True)
    collector.reset()
    collector.collect(n_step=1_000 // ENVS * ENVS, random=True)
    steps = 4 * UPDATES

    def turn():
        from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

        burst = max(ENVS, 4)  # steps between updates: the fewest that keep four steps per update
        for _ in range(steps // burst):
            with policy_within_training_step(algorithm.policy):
                collector.collect(n_step=burst)
                with torch_train_mode(algorithm):
                    for _ in range(burst // 4):
                        algorithm.update(buffer=buffer, sample_size=32)

    turn()
    serve(turn, steps, UPDATES)


main()
