"""What an evaluation expects and obtains, by hand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from masp.agent.agent import Agent, MacroTables
from masp.config import TrainConfig, replace
from masp.environments.base import EnvInfo, Step
from masp.errors import TrainingError
from masp.macros.actions import ActionSet
from masp.training import evaluation
from masp.training.evaluation import FLAWS, Played, Policy
from masp.training.finite import require_finite_evaluation

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


def test_flaws_of_an_episode_by_hand():
    """Environment 0: the mask allows nothing after tick 1, then a number is infinite; environment 1: the reverse.

    Environment 2 has an empty mask at its end only, which is none; after the reset, its first observation is NaN.
    """
    config = replace(TrainConfig(env="tape"), hidden=4, num_atoms=1, noisy=False)
    agent = Agent(config, INFO, ACTIONS)
    policy = Policy(jax.jit(agent.policy_template)()["params"], jnp.eye(3), MacroTables.of(ACTIONS))
    observation, mask = np.ones((4, 3, 3), np.float32), np.ones((4, 3, 2), bool)
    reward, terminated, off = np.ones((4, 3), np.float32), np.zeros((4, 3), bool), np.zeros(3, bool)
    mask[0, 0], reward[1, 0] = False, np.inf
    observation[0, 1, 2], mask[1, 1] = np.nan, False
    mask[1, 2], terminated[1, 2], observation[2, 2, 0] = False, True, np.nan
    rollout = evaluation.begin(agent, policy, jnp.ones((3, 3)), jnp.ones((3, 2), bool))
    flaws = []
    for tick in range(4):
        rollout, _ = evaluation.decide(agent, policy, rollout, tick, jax.random.PRNGKey(tick))
        step = Step(observation[tick], reward[tick], terminated[tick], off, off, mask[tick])
        rollout, _ = evaluation.advance(agent, policy, rollout, step)
        flaws.append(np.asarray(rollout.flaw).tolist())
    finite, nothing = 1, 2
    expected = [nothing, finite, 0], [nothing, finite, 0], [nothing, finite, finite], [nothing, finite, finite]
    assert flaws == list(expected)
    begun = evaluation.begin(agent, policy, jnp.ones((2, 3)).at[1].set(jnp.nan), jnp.array([[False] * 2, [True] * 2]))
    assert np.asarray(begun.flaw).tolist() == [nothing, finite]


def test_a_flaw_is_named_with_its_episode():
    played = Played(*[np.zeros((2, 3))] * 5, flaw=np.array([[0, 0, 0], [0, 2, 1]]))
    with pytest.raises(TrainingError) as caught:
        require_finite_evaluation(played, "tape", "; a hint")
    assert str(caught.value) == "tape: the action mask allows no action (evaluation episode 1); a hint"
    assert len(FLAWS) == 3
    require_finite_evaluation(played._replace(flaw=np.zeros((2, 3))), "tape")
