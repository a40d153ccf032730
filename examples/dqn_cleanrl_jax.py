"""A single-file DQN in the style of CleanRL's dqn_jax.py, with macros and the penalty of masp (marked `# masp`).

Macros come from a wrapper of the environment; `info["discount"]` says how much the next value counts after a macro:
gamma to the number of steps that were played.

    python dqn_cleanrl_jax.py                                      # CartPole with four macros
    python dqn_cleanrl_jax.py --env-id Acrobot-v1 --macros 0,0 1,1 2,2 --total-timesteps 100000
"""

import argparse

import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState as FlaxTrainState

import masp


class QNetwork(nn.Module):
    action_dim: int

    @nn.compact
    def __call__(self, x):  # [B, ...] -> [B, A]
        x = nn.relu(nn.Dense(120)(x.reshape(x.shape[0], -1)))
        x = nn.relu(nn.Dense(84)(x))
        return nn.Dense(self.action_dim, kernel_init=nn.initializers.variance_scaling(1e-4, "fan_in", "normal"))(x)


class TrainState(FlaxTrainState):
    target_params: dict


class ReplayBuffer:
    """The last `size` decisions as arrays; each has its own discount."""

    def __init__(self, size, observation_shape):
        self.size, self.count = size, 0
        self.arrays = {
            "observations": np.zeros((size, *observation_shape), np.float32),
            "next_observations": np.zeros((size, *observation_shape), np.float32),
            "actions": np.zeros(size, np.int32),
            "rewards": np.zeros(size, np.float32),
            "discounts": np.zeros(size, np.float32),
        }

    def add(self, **values):
        for name, value in values.items():
            self.arrays[name][self.count % self.size] = value
        self.count += 1

    def sample(self, rng, batch_size):
        rows = rng.integers(0, min(self.count, self.size), batch_size)
        return {name: array[rows] for name, array in self.arrays.items()}


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env-id", default="CartPole-v1")
    parser.add_argument("--macros", nargs="*", default=["0,0", "1,1", "0,1", "1,0"], help="primitives, with commas")
    parser.add_argument("--penalty-weight", type=float, default=0.1, help="0: no penalty")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, default=20_000, help="primitive steps")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--buffer-size", type=int, default=10_000)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--target-network-frequency", type=int, default=250, help="decisions")
    parser.add_argument("--exploration-fraction", type=float, default=0.5)
    parser.add_argument("--learning-starts", type=int, default=1_000)
    parser.add_argument("--train-frequency", type=int, default=4, help="decisions per update")
    return parser.parse_args()


def main():
    args = parse_args()
    env = gym.make(args.env_id)
    macros = [tuple(map(int, macro.split(","))) for macro in args.macros]
    actions = masp.ActionSet(int(env.action_space.n), macros)  # masp
    env = masp.MacroActionEnv(gym.wrappers.RecordEpisodeStatistics(env), actions, args.gamma)  # masp
    rng, key = np.random.default_rng(args.seed), jax.random.PRNGKey(args.seed)
    network = QNetwork(len(actions))
    obs, _ = env.reset(seed=args.seed)
    params = network.init(key, obs[None])
    tx = optax.adam(args.learning_rate, eps_root=1e-16)  # masp needs eps_root
    state = TrainState.create(apply_fn=network.apply, params=params, target_params=params, tx=tx)
    meta = masp.MetaSimilarity(network.apply, tx, actions, args.penalty_weight)  # masp
    similarity = meta.init(params, obs[None], start="overlap")  # masp
    buffer = ReplayBuffer(args.buffer_size, obs.shape)

    def td_loss(params, target_params, batch):
        q_next = jnp.max(network.apply(target_params, batch["next_observations"]), axis=1)
        target = batch["rewards"] + batch["discounts"] * q_next
        q = network.apply(params, batch["observations"])  # [B, A]
        return jnp.mean(jnp.square(q[jnp.arange(len(q)), batch["actions"]] - target)), q

    @jax.jit
    def update(state, similarity, batch, other_batch):
        def loss(params):
            td, q = td_loss(params, state.target_params, batch)
            return td + meta.penalty(similarity, q)  # masp

        gradient = jax.grad(loss)(state.params)
        new = state.apply_gradients(grads=gradient)
        held_out = jax.grad(td_loss, has_aux=True)(new.params, state.target_params, other_batch)[0]  # masp
        evidence = (state.params, state.opt_state, gradient, batch["observations"], held_out)
        return new, meta.learn(similarity, *evidence)  # masp

    q_values, returns, steps, decisions = jax.jit(network.apply), [], 0, 0
    while steps < args.total_timesteps:
        epsilon = max(0.05, 1 - 0.95 * steps / (args.exploration_fraction * args.total_timesteps))
        greedy = int(np.argmax(q_values(state.params, obs[None])[0]))
        action = int(rng.integers(len(actions))) if rng.random() < epsilon else greedy
        next_obs, reward, terminated, truncated, info = env.step(action)
        buffer.add(
            observations=obs, next_observations=next_obs, actions=action, rewards=reward, discounts=info["discount"]
        )
        steps, decisions, obs = steps + info["steps"], decisions + 1, next_obs
        if terminated or truncated:
            returns.append(float(info["episode"]["r"]))
            obs, _ = env.reset()
        if steps > args.learning_starts and decisions % args.train_frequency == 0:
            batch, other_batch = buffer.sample(rng, args.batch_size), buffer.sample(rng, args.batch_size)
            state, similarity = update(state, similarity, batch, other_batch)
        if decisions % args.target_network_frequency == 0:
            state = state.replace(target_params=state.params)
    env.close()
    print(f"{args.env_id}: {steps:,} steps, {decisions:,} decisions, {len(returns)} episodes")
    print(f"return of the last 20 episodes: {np.mean(returns[-20:]):.1f}")
    print("similarity of the first action to all:", [round(float(x), 2) for x in similarity.similarity[0]])


if __name__ == "__main__":
    main()
