"""What an evaluation expects and obtains, by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from masp.agent.agent import Agent, MacroTables
from masp.config import TrainConfig, replace
from masp.environments.base import EnvInfo, Step
from masp.macros.actions import ActionSet
from masp.training import evaluation
from masp.training.evaluation import Policy

GAMMA = 0.5
ACTIONS = ActionSet(2, [(0, 1, 0)])
INFO = EnvInfo("tape", (3,), np.dtype(np.float32), "vector", ACTIONS)


def test_discounted_return_as_it_is_learned_from():
    """Rewards are clipped and count gamma^steps whatever the decisions; a lost life ends the count, not the episode."""
    config = replace(TrainConfig(env="tape"), gamma=GAMMA, clip_rewards=True, hidden=4, num_atoms=1, noisy=False)
    agent = Agent(config, INFO, ACTIONS)
    similarity = jnp.eye(3)
    observations = np.random.default_rng(0).normal(size=(6, 2, 3)).astype(np.float32)
    params = jax.jit(agent.policy_template)()["params"]
    policy = Policy(params, similarity, jax.tree.map(jnp.asarray, MacroTables.of(ACTIONS)))
    decide = jax.jit(lambda rollout, tick: evaluation.decide(agent, policy, rollout, tick, jax.random.PRNGKey(tick)))
    advance = jax.jit(lambda rollout, step: evaluation.advance(agent, policy, rollout, step))
    script = [  # per environment: reward, terminated, truncated, life lost
        [(1.0, 0, 0, 0), (8.0, 0, 0, 0)],
        [(-0.5, 0, 0, 0), (1.0, 0, 0, 1)],
        [(1.0, 1, 0, 0), (1.0, 0, 0, 0)],
        [(99.0, 0, 0, 0), (1.0, 0, 1, 0)],  # the first environment only resets
        [(0.25, 0, 1, 0), (99.0, 0, 0, 0)],  # the second, too
    ]
    rollout, ended = evaluation.begin(agent, policy, jnp.asarray(observations[0])), []
    for tick, line in enumerate(script):
        rollout, _ = decide(rollout, tick)
        reward, *flags = (np.array(column) for column in zip(*line, strict=True))
        step = Step(observations[tick + 1], reward.astype(np.float32), *[flag.astype(bool) for flag in flags])
        rollout, episodes = advance(rollout, step)
        for env in np.flatnonzero(episodes.ended):
            ended.append((env, float(episodes.score[env]), float(rollout.obtained[env]), rollout.predicted[env]))
    assert [figures[:3] for figures in ended] == [(0, 1.5, 1 - 0.25 + 0.25), (1, 11.0, 1 + 0.5), (0, 0.25, 0.25)]
    # First states: the beginning, and what the reset in the fourth tick brought.
    firsts = np.stack([observations[0, 0], observations[0, 1], observations[4, 0]])
    best = agent.learner.values(params, firsts, similarity, None).max(axis=1)
    np.testing.assert_allclose([figures[3] for figures in ended], best, rtol=1e-5)
