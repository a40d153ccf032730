"""A single-file PyTorch DQN in the style of CleanRL, with the penalty of masp (lines marked with `# masp`).

The task is a small grid on which every move has many copies, so that unrelated actions learn slowly:

    python dqn_cleanrl_torch.py                    # 128 actions, with the penalty
    python dqn_cleanrl_torch.py --no-penalty       # 128 actions, without
    python dqn_cleanrl_torch.py --copies 1         # the four moves alone
"""

import argparse
import json

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim

import masp.torch

MOVES = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])


class CopiesGrid(gym.Env):
    """Walk to a goal on a 6x6 grid within 15 steps; reward 1 at the goal. Each move has `copies` actions, shuffled."""

    SIZE, MAX_STEPS = 6, 15

    def __init__(self, copies=32):
        self.groups = np.random.default_rng(0).permutation(np.repeat(np.arange(4), copies))  # move of each action
        self.action_space = gym.spaces.Discrete(len(self.groups))
        self.observation_space = gym.spaces.Box(0, 1, (4 * self.SIZE,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        start, goal = self.np_random.choice(self.SIZE**2, 2, replace=False)
        self.place, self.goal, self.steps = np.array(divmod(start, self.SIZE)), np.array(divmod(goal, self.SIZE)), 0
        return self.observation(), {}

    def step(self, action):
        self.place = np.clip(self.place + MOVES[self.groups[action]], 0, self.SIZE - 1)
        self.steps += 1
        arrived = bool((self.place == self.goal).all())
        return self.observation(), float(arrived), arrived, self.steps >= self.MAX_STEPS and not arrived, {}

    def observation(self):
        return np.eye(self.SIZE, dtype=np.float32)[np.concatenate([self.place, self.goal])].reshape(-1)


class QNetwork(nn.Module):
    def __init__(self, envs):
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(int(np.prod(envs.single_observation_space.shape)), 64),
            nn.ReLU(),
            nn.Linear(64, 64),
            nn.ReLU(),
            nn.Linear(64, envs.single_action_space.n),
        )
        # Small at the start: random values are all that a penalty sees before the first reward.
        nn.init.normal_(self.network[-1].weight, std=1e-3)
        nn.init.zeros_(self.network[-1].bias)

    def forward(self, x):
        return self.network(x)


class ReplayBuffer:
    """The last `size` transitions as arrays."""

    def __init__(self, size, observation_shape):
        self.observations = np.zeros((size, *observation_shape), np.float32)
        self.next_observations = np.zeros_like(self.observations)
        self.actions, self.rewards, self.dones = np.zeros(size, np.int64), *np.zeros((2, size), np.float32)
        self.size, self.count = size, 0

    def add(self, observations, next_observations, actions, rewards, dones):
        rows = (self.count + np.arange(len(actions))) % self.size
        self.observations[rows], self.next_observations[rows] = observations, next_observations
        self.actions[rows], self.rewards[rows], self.dones[rows] = actions, rewards, dones
        self.count += len(actions)

    def sample(self, rng, batch_size):
        rows = rng.integers(0, min(self.count, self.size), batch_size)
        parts = (self.observations, self.next_observations, self.actions, self.rewards, self.dones)
        return [torch.as_tensor(part[rows]) for part in parts]


def train(args, seed):
    """Train one agent; returns the share of successful episodes in each thirtieth of the run, and the similarity."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    same_step = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.vector.SyncVectorEnv([lambda: CopiesGrid(args.copies)] * args.num_envs, **same_step)
    q_network, target_network = QNetwork(envs), QNetwork(envs)
    target_network.load_state_dict(q_network.state_dict())
    optimizer = optim.Adam(q_network.parameters(), lr=args.learning_rate)
    count = int(envs.single_action_space.n)
    start = "constant" if args.start is None else np.where(np.eye(count), 1.0, args.start)
    meta = masp.torch.MetaSimilarity(  # masp
        q_network, optimizer, count, args.penalty_weight, args.meta_learning_rate, start=start
    )
    buffer = ReplayBuffer(args.buffer_size, envs.single_observation_space.shape)
    windows = np.zeros((30, 2))

    def td_loss(batch):
        observations, next_observations, actions, rewards, dones = batch
        with torch.no_grad():
            target_max = target_network(next_observations).max(dim=1)[0]
            td_target = rewards + args.gamma * target_max * (1 - dones)
        q = q_network(observations)  # [B, A]
        return F.mse_loss(td_target, q.gather(1, actions[:, None]).squeeze(1)), q

    observations, _ = envs.reset(seed=seed)
    for global_step in range(0, args.total_timesteps, args.num_envs):
        epsilon = max(0.1, 1.0 - 0.9 * global_step / args.exploration_steps)
        with torch.no_grad():
            actions = q_network(torch.as_tensor(observations)).argmax(dim=1).numpy()
        explore = rng.random(args.num_envs) < epsilon
        actions = np.where(explore, rng.integers(0, envs.single_action_space.n, args.num_envs), actions)
        next_observations, rewards, terminations, truncations, infos = envs.step(actions)
        done = terminations | truncations
        real_next_observations = next_observations.copy()
        for i in np.flatnonzero(done):
            real_next_observations[i] = infos["final_obs"][i]
        buffer.add(observations, real_next_observations, actions, rewards, terminations)
        windows[30 * global_step // args.total_timesteps] += rewards.sum(), done.sum()
        observations = next_observations

        if global_step > args.learning_starts:
            batch = buffer.sample(rng, args.batch_size)
            loss, q = td_loss(batch)
            if not args.no_penalty:
                loss = loss + meta.penalty(q)  # masp
            optimizer.zero_grad()
            loss.backward()
            if not args.no_penalty:
                meta.remember(batch[0])  # masp
            optimizer.step()
            if not args.no_penalty:
                meta.learn(td_loss(buffer.sample(rng, args.batch_size))[0])  # masp
        if global_step % args.target_frequency < args.num_envs:
            target_network.load_state_dict(q_network.state_dict())
    return windows[:, 0] / np.maximum(windows[:, 1], 1), meta.similarity.numpy(), envs.envs[0].groups


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-penalty", action="store_true", help="the same agent without masp")
    parser.add_argument("--penalty-weight", type=float, default=1.0)
    parser.add_argument("--meta-learning-rate", type=float, default=0.001, help="0: the similarity stays constant")
    parser.add_argument("--start", type=float, help="similarity of all pairs at the start (default: 1 / actions)")
    parser.add_argument("--copies", type=int, default=32, help="actions per move")
    parser.add_argument("--seeds", type=int, default=1, help="seeds, one after the other")
    parser.add_argument("--total-timesteps", type=int, default=60_000)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--buffer-size", type=int, default=50_000)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--target-frequency", type=int, default=2_000)
    parser.add_argument("--exploration-steps", type=int, default=20_000)
    parser.add_argument("--learning-starts", type=int, default=2_000)
    parser.add_argument("--json", metavar="FILE", help="write the curves")
    args = parser.parse_args()
    torch.set_num_threads(1)  # the network is tiny
    results = [train(args, seed) for seed in range(args.seeds)]
    curves, groups = np.array([curve for curve, _, _ in results]), results[0][2]
    final = curves[:, -5:].mean(axis=1)
    print(f"{len(groups)} actions, {'no penalty' if args.no_penalty else 'penalty'}, {args.total_timesteps:,} steps")
    print("success in the last sixth, per seed:", np.round(final, 3).tolist(), f"mean {final.mean():.3f}")
    if not args.no_penalty and args.copies > 1:
        upper = np.triu_indices(len(groups), 1)
        same = (groups[:, None] == groups)[upper]
        entries = np.mean([similarity for _, similarity, _ in results], axis=0)[upper]
        within, between = entries[same].mean(), entries[~same].mean()
        print(f"learned similarity: {within:.3f} between copies of a move, {between:.3f} between different moves")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"steps": args.total_timesteps, "success": curves.tolist()}, file)


if __name__ == "__main__":
    main()
