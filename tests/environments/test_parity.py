"""The batched execution of macros and the Gymnasium wrapper give the same decisions."""

import jax
import jax.numpy as jnp
import numpy as np

from masp.agent.acting import Actor
from masp.environments.base import episode_seed
from masp.environments.gymnasium_vector import GymVector
from masp.macros.actions import ActionSet
from masp.macros.wrapper import MacroActionEnv
from tape_env import TapeEnv

ACTIONS = ActionSet(3, [(0, 1), (2, 2, 0), (1, 0, 2, 1, 1), (1,)])
N, TICKS, GAMMA, SEED = 3, 120, 0.9, 11


def batched_decisions(choices):
    """Per environment, the (action, reward, discount, steps, episode) of every decision that ended.

    With windows of one decision, `Actor.advance` closes one per decision: its reward and discount are the decision's.
    """
    vector = GymVector(TapeEnv, N)
    actor = Actor(
        jnp.asarray(ACTIONS.table), jnp.asarray(ACTIONS.lengths), GAMMA, 1, 1, False, choosable=(True,) * len(ACTIONS)
    )
    decide, advance = jax.jit(actor.decide), jax.jit(actor.advance)
    state = actor.init(jnp.asarray(vector.reset(SEED)))
    decisions = [[] for _ in range(N)]
    episode = [0] * N
    for tick in range(TICKS):
        chosen = np.array([choices[i, len(decisions[i])] for i in range(N)])
        values = jax.nn.one_hot(chosen, len(ACTIONS))  # makes `chosen` the greedy action
        state, primitives = decide(state, values, 0.0, jnp.asarray(tick), jax.random.PRNGKey(tick))
        state, windows, episodes = advance(state, vector.step(np.asarray(primitives)))
        for i in range(N):
            if windows.closed[i, 0]:
                steps = tick + 1 - int(windows.start[i, 0])
                row = (windows.action[i, 0], windows.reward[i, 0], windows.discount[i, 0], steps, episode[i])
                decisions[i].append(tuple(float(x) for x in row))
            episode[i] += bool(episodes.ended[i])
    return decisions


def wrapped_decisions(env_index, choices, count):
    """The same from the wrapper, episode after episode."""
    env = MacroActionEnv(TapeEnv(), ACTIONS, GAMMA)
    episode = 0
    env.reset(seed=episode_seed(SEED, env_index, episode))
    for action in choices[:count]:
        _, reward, terminated, truncated, info = env.step(action)
        yield (action, reward, info["discount"], info["steps"], episode)
        if terminated or truncated:
            episode += 1
            env.reset(seed=episode_seed(SEED, env_index, episode))


def test_same_decisions_same_rewards_discounts_and_steps():
    choices = np.random.default_rng(0).integers(len(ACTIONS), size=(N, TICKS))
    decisions = batched_decisions(choices)
    for i in range(N):
        wrapped = list(wrapped_decisions(i, choices[i], len(decisions[i])))
        np.testing.assert_allclose(decisions[i], wrapped, rtol=1e-5, atol=1e-6)
        assert wrapped[-1][-1] >= 5  # several episodes
    every = np.concatenate([np.array(rows) for rows in decisions])
    cut_short = every[:, 3] < ACTIONS.lengths[every[:, 0].astype(int)]
    assert (cut_short & (every[:, 2] == 0)).any()  # macros cut short by a termination
    assert (cut_short & np.isclose(every[:, 2], GAMMA ** every[:, 3])).any()  # and by a truncation
