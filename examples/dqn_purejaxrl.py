"""A single-file DQN in the style of PureJaxRL, with the penalty of masp in five lines (marked with `# masp`).

Everything is one `scan` under `jit`, and `vmap` trains all seeds at once. The task is a small grid on which every move
has many copies, so that unrelated actions learn slowly:

    python dqn_purejaxrl.py                    # 128 actions, with the penalty
    python dqn_purejaxrl.py --no-penalty       # 128 actions, without
    python dqn_purejaxrl.py --copies 1         # the four moves alone
"""

import argparse
import json
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState

import masp
from masp.environments import make_env

NUM_ENVS, BATCH, BUFFER, LEARNING_STARTS = 16, 64, 50_000, 2_000
LEARNING_RATE, GAMMA, TARGET_PERIOD, EXPLORATION_STEPS = 1e-3, 0.95, 125, 20_000


class QNetwork(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, x):  # [B, 24] -> [B, A]
        x = nn.relu(nn.Dense(64)(x))
        x = nn.relu(nn.Dense(64)(x))
        # Small at the start: random values are all that a penalty sees before the first reward.
        return nn.Dense(self.actions, kernel_init=nn.initializers.variance_scaling(1e-4, "fan_in", "normal"))(x)


class Transition(NamedTuple):
    observation: jax.Array  # [..., 24]
    action: jax.Array
    reward: jax.Array
    discount: jax.Array  # GAMMA, or 0 where the episode terminated
    next_observation: jax.Array


def make_train(copies, steps, penalty_weight, meta_learning_rate, start):
    env = make_env("planted-grid", ("size=6", f"copies={copies}", "max_steps=15"))
    actions = env.info.actions
    primitives = jnp.asarray(actions.table[:, 0])  # every macro here is a copy of one move
    network = QNetwork(len(actions))
    optimiser = optax.adam(LEARNING_RATE, eps_root=1e-16)
    meta = masp.MetaSimilarity(network.apply, optimiser, actions, penalty_weight, meta_learning_rate)  # masp
    start = "constant" if start is None else np.where(np.eye(len(actions)), 1.0, start)

    def td_loss(params, target_params, batch):
        q = network.apply(params, batch.observation)  # [B, A]
        best = jnp.max(network.apply(target_params, batch.next_observation), axis=1)
        target = batch.reward + batch.discount * best
        chosen = jnp.take_along_axis(q, batch.action[:, None], axis=1)[:, 0]
        return jnp.mean(jnp.square(chosen - target)), q

    def train(key):
        key, key_network, key_reset = jax.random.split(key, 3)
        observation = jnp.zeros((1, *env.info.observation_shape))
        params = network.init(key_network, observation)
        state = TrainState.create(apply_fn=network.apply, params=params, tx=optimiser)
        similarity = meta.init(params, observation, start)  # masp
        blank = Transition(observation[0], jnp.int32(0), jnp.float32(0), jnp.float32(0), observation[0])
        buffer = jax.tree.map(lambda x: jnp.zeros((BUFFER // NUM_ENVS, NUM_ENVS, *x.shape), x.dtype), blank)
        env_state, observation = jax.vmap(env.reset)(jax.random.split(key_reset, NUM_ENVS))

        def sample(buffer, filled, key):
            rows = jax.random.randint(key, (BATCH,), 0, filled)
            columns = jax.random.randint(jax.random.fold_in(key, 1), (BATCH,), 0, NUM_ENVS)
            return jax.tree.map(lambda x: x[rows, columns], buffer)

        def update(state, target_params, similarity, batch, other_batch):
            def loss(params):
                td, q = td_loss(params, target_params, batch)
                return td + meta.penalty(similarity, q)  # masp

            before, gradient = state, jax.grad(loss)(state.params)
            state = state.apply_gradients(grads=gradient)
            held_out = jax.grad(td_loss, has_aux=True)(state.params, target_params, other_batch)[0]  # masp
            evidence = (before.params, before.opt_state, gradient, batch.observation, held_out)
            return state, meta.learn(similarity, *evidence)  # masp

        def tick(carry, t):
            state, target_params, similarity, buffer, env_state, observation, key = carry
            key, *keys = jax.random.split(key, 7)
            # act
            epsilon = jnp.clip(1.0 - 0.9 * t * NUM_ENVS / EXPLORATION_STEPS, 0.1, 1.0)
            greedy = jnp.argmax(network.apply(state.params, observation), axis=1)
            random = jax.random.randint(keys[0], (NUM_ENVS,), 0, len(actions))
            action = jnp.where(jax.random.uniform(keys[1], (NUM_ENVS,)) < epsilon, random, greedy)
            # step, store, reset
            env_keys = jax.random.split(keys[2], NUM_ENVS)
            env_state, next_observation, reward, terminated, truncated = jax.vmap(env.step)(
                env_state, primitives[action], env_keys
            )
            new = Transition(observation, action, reward, GAMMA * (1.0 - terminated), next_observation)
            row, rows = t % (BUFFER // NUM_ENVS), jnp.minimum(t + 1, BUFFER // NUM_ENVS)
            buffer = jax.tree.map(lambda old, x: old.at[row].set(x), buffer, new)
            done = terminated | truncated
            fresh = jax.vmap(env.reset)(jax.random.split(keys[3], NUM_ENVS))
            env_state, observation = jax.tree.map(
                lambda a, b: jnp.where(done.reshape(-1, *[1] * (a.ndim - 1)), a, b),
                fresh,
                (env_state, next_observation),
            )
            # learn
            batch, other_batch = sample(buffer, rows, keys[4]), sample(buffer, rows, keys[5])
            state, similarity = jax.lax.cond(
                t * NUM_ENVS > LEARNING_STARTS,
                lambda: update(state, target_params, similarity, batch, other_batch),
                lambda: (state, similarity),
            )
            target_params = jax.tree.map(
                lambda new, old: jnp.where(t % TARGET_PERIOD == 0, new, old), state.params, target_params
            )
            carry = (state, target_params, similarity, buffer, env_state, observation, key)
            return carry, (jnp.sum(done), jnp.sum(reward))

        carry = (state, params, similarity, buffer, env_state, observation, key)
        carry, counts = jax.lax.scan(tick, carry, jnp.arange(steps // NUM_ENVS))
        return counts, carry[2].similarity

    return train, env.info.groups


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-penalty", action="store_true", help="the same agent without masp")
    parser.add_argument("--meta-learning-rate", type=float, default=0.001, help="0: the similarity stays constant")
    parser.add_argument("--start", type=float, help="similarity of all pairs at the start (default: 1 / actions)")
    parser.add_argument("--copies", type=int, default=32, help="actions per move")
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps")
    parser.add_argument("--seeds", type=int, default=5, help="seeds to train side by side")
    parser.add_argument("--json", metavar="FILE", help="write the curves")
    args = parser.parse_args()
    penalty_weight = 0.0 if args.no_penalty else 1.0
    train, groups = make_train(args.copies, args.steps, penalty_weight, args.meta_learning_rate, args.start)
    keys = jax.random.split(jax.random.PRNGKey(0), args.seeds)
    (episodes, successes), similarity = jax.jit(jax.vmap(train))(keys)  # [seeds, ticks] each
    windows = min(30, args.steps // NUM_ENVS)
    per_window = [sum_of_windows(np.asarray(x), windows) for x in (successes, episodes)]
    curves = per_window[0] / np.maximum(per_window[1], 1)  # [seeds, windows]
    final = curves[:, -max(1, windows // 6) :].mean(axis=1)
    print(f"{len(groups)} actions, {'no penalty' if args.no_penalty else 'penalty'}, {args.steps:,} steps")
    print("success in the last sixth, per seed:", np.round(final, 3).tolist(), f"mean {final.mean():.3f}")
    if not args.no_penalty and args.copies > 1:
        upper = np.triu_indices(len(groups), 1)
        same = (groups[:, None] == groups)[upper]
        entries = np.asarray(similarity).mean(axis=0)[upper]
        within, between = entries[same].mean(), entries[~same].mean()
        print(f"learned similarity: {within:.3f} between copies of a move, {between:.3f} between different moves")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"steps": args.steps, "success": curves.tolist()}, file)


def sum_of_windows(counts, windows):
    """[seeds, windows] sums of [seeds, ticks]; ticks that do not fill a window are left out."""
    length = counts.shape[1] // windows
    return counts[:, : windows * length].reshape(len(counts), windows, length).sum(axis=2)


if __name__ == "__main__":
    main()
