"""Updates and schedules count steps: ticks that only reset an environment are none."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from masp.config import replace
from masp.environments import make_env
from masp.training.loop import make_loop

BANDIT = {"env": "planted-bandit", "env_options": ("contexts=2", "groups=2", "copies=2"), "embedding": 0}


def bandit_config(tiny_config, **changes):
    return replace(tiny_config, **BANDIT, variant="macros", **changes).resolved()


def agents(loop, state):
    return [checkpoint.agent for checkpoint in loop.checkpoints(state)]


@pytest.mark.parametrize(("num_envs", "steps_per_update"), [(3, 1), (3, 5), (8, 4)])
def test_one_update_per_so_many_steps_exactly(tiny_config, num_envs, steps_per_update):
    """Every other tick of the bandit is a reset, so ticks would make twice as many updates."""
    config = bandit_config(tiny_config, num_envs=num_envs, steps_per_update=steps_per_update)
    loop = make_loop(config)
    start = loop.run(loop.init([config], [loop.agent.actions]), 7, False)
    (before,) = agents(loop, start)
    assert before.actor.steps == 4 * num_envs  # ticks 0, 2, 4, 6
    assert before.learner.updates == 0 and before.unused_steps == num_envs  # those of the last tick
    (after,) = agents(loop, loop.run(start, 41, True))
    steps = int(after.actor.steps - before.actor.steps)
    assert steps == 20 * num_envs
    assert int(after.learner.updates) == (int(before.unused_steps) + steps) // steps_per_update
    assert 0 <= int(after.unused_steps) < steps_per_update + num_envs


def test_epsilon_and_importance_follow_steps(tiny_config):
    config = bandit_config(tiny_config, epsilon=(1.0, 0.5), epsilon_decay_steps=48, importance=(0.0, 1.0), frames=96)
    loop = make_loop(config)
    state = loop.run(loop.init([config], [loop.agent.actions]), 16, False)
    (agent,) = agents(loop, state)
    assert agent.actor.steps == 24  # half of 16 ticks of 3 environments
    assert loop.agent._epsilon(agent) == pytest.approx(1.0 - 0.5 * 24 / 48)
    assert loop.agent._importance_exponent(agent) == pytest.approx(24 / 96)


def test_seeds_together_make_the_updates_of_the_seed_with_fewest_steps(tiny_config):
    """Episodes of a grid end at different times, so that seeds come to have played differently many steps."""
    config = replace(tiny_config, steps_per_update=2, variant="macros").resolved()
    configs = [replace(config, seed=seed) for seed in range(3)]
    loop = make_loop(config)
    start = loop.run(loop.init(configs, [loop.agent.actions] * 3), 20, False)
    before = agents(loop, start)
    after = agents(loop, loop.run(start, 60, True))
    steps = np.array([late.actor.steps - early.actor.steps for early, late in zip(before, after, strict=True)])
    carried = np.array([early.unused_steps for early in before])
    updates = {int(agent.learner.updates) for agent in after}
    unused = np.array([agent.unused_steps for agent in after])
    assert len(set(steps)) > 1 and len(updates) == 1
    np.testing.assert_array_equal(carried + steps, 2 * updates.pop() + unused)
    assert unused.min() < 2 + config.num_envs  # the steps of the last tick have not been used yet


def test_every_update_has_its_own_keys(tiny_config):
    config = bandit_config(tiny_config, num_envs=8, steps_per_update=2)
    loop = make_loop(config)
    state = loop.checkpoints(loop.init([config], [loop.agent.actions]))[0].agent
    keys = [jax.random.key_data(loop.agent.update_keys(at(state, updates))) for updates in (0, 4)]
    assert keys[0].shape[:2] == (loop.agent.most_updates, 3) == (4, 3)
    assert len(np.unique(np.concatenate(keys).reshape(24, -1), axis=0)) == 24


def at(state, updates):
    return state._replace(learner=state.learner._replace(updates=np.int32(updates)))


def test_bandit_resets_every_other_tick():
    """What the tests above take for granted."""
    assert make_env("planted-bandit", BANDIT["env_options"]).info.max_episode_steps == 1
