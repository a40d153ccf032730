"""Macros in one Gymnasium environment."""

import gymnasium
import minigrid  # noqa: F401
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

from masked_envs import ACTIONS as MASKED_ACTIONS
from masked_envs import MaskedEnv
from masp.errors import UserError
from masp.macros.actions import ActionSet
from masp.macros.wrapper import MacroActionEnv
from tape_env import TapeEnv

ACTIONS = ActionSet(2, [(0, 1), (1, 1, 0)])


def test_reward_by_hand():
    env = MacroActionEnv(TapeEnv([1.0, 10.0, 100.0, 1000.0]), ActionSet(3, [(0, 2, 1)]), gamma=0.5)
    env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step(3)
    assert reward == 1.0 + 0.5 * 30.0 + 0.25 * 200.0
    assert (terminated, truncated) == (False, False)
    assert info == {"said": "tape", "steps": 3, "discount": 0.125, "raw_reward": 231.0}
    np.testing.assert_array_equal(observation[:2], [3, 1])
    _, reward, terminated, _, info = env.step(3)  # the episode has one step left
    assert (reward, terminated, info["steps"], info["discount"]) == (1000.0, True, 1, 0.0)


def test_truncation_bootstraps():
    env = MacroActionEnv(TapeEnv([1.0, 1.0], terminates=False), ActionSet(3, [(0, 0, 0, 0)]), gamma=0.9)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(3)
    assert (terminated, truncated, info["steps"]) == (False, True, 2)
    assert reward == pytest.approx(1.9)
    assert info["discount"] == pytest.approx(0.81)


@given(
    rewards=st.lists(st.floats(-10, 10), min_size=1, max_size=12),
    terminates=st.booleans(),
    macros=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=4),
    gamma=st.floats(0.0, 1.0),
    choices=st.lists(st.integers(0, 100), min_size=12, max_size=12),
)
def test_discount_counts_every_step(rewards, terminates, macros, gamma, choices):
    actions = ActionSet(3, macros)
    env = MacroActionEnv(TapeEnv(rewards, terminates), actions, gamma)
    env.reset(seed=0)
    position = 0
    for choice in choices:
        sequence = actions.sequence(choice % len(actions))
        _, reward, terminated, truncated, info = env.step(choice % len(actions))
        steps = min(len(sequence), len(rewards) - position)
        step_rewards = [rewards[position + i] * (sequence[i] + 1) for i in range(steps)]
        position += steps
        assert info["steps"] == steps
        assert reward == pytest.approx(sum(gamma**i * r for i, r in enumerate(step_rewards)))
        assert info["raw_reward"] == pytest.approx(sum(step_rewards))
        assert (terminated or truncated) == (position == len(rewards))
        assert terminated == (terminates and position == len(rewards))
        assert info["discount"] == (0.0 if terminated else pytest.approx(gamma**steps))
        if terminated or truncated:
            break
    assert position == len(rewards)


def test_masks_end_macros_and_are_of_all_actions():
    """At place 1 primitive 1 is forbidden, at 2 it is 2; primitive a moves on by a + 1. Macro 4 plays 1, 2, 0."""
    env = MacroActionEnv(MaskedEnv(), MASKED_ACTIONS, gamma=0.5)
    firsts, cut = [0, 1, 2, 0, 1, 2, 0], 0
    for seed in range(40):
        _, info = env.reset(seed=seed)
        over = False
        while not over:
            place = env.unwrapped._place
            np.testing.assert_array_equal(info["action_mask"], [first != place % 4 for first in firsts])
            assert info["action_mask"].dtype == np.int8  # as the environment gives it, so that a space can sample by it
            env.action_space.seed(seed)
            action = env.action_space.sample(info["action_mask"])
            steps_before = env.unwrapped._steps
            _, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            sequence, steps = MASKED_ACTIONS.sequence(action), 0
            for primitive in sequence:  # until it is forbidden, or the episode is over
                if (steps and primitive == place % 4) or steps_before + steps == 6:
                    break
                place, steps = (place + primitive + 1) % 7, steps + 1
            cut += steps < len(sequence) and not over
            assert (info["steps"], info["discount"]) == (steps, 0.0 if terminated else 0.5**steps)
    assert cut > 5


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")
@pytest.mark.filterwarnings("ignore:.*Box observation space m..imum value is")
@pytest.mark.parametrize("env_id", ["CartPole-v1", "MiniGrid-DoorKey-5x5-v0"])
def test_passes_the_checker_of_gymnasium(env_id):
    env = gymnasium.make(env_id)
    check_env(MacroActionEnv(env, ActionSet(env.action_space.n, [(0, 1), (1, 1, 0)])), skip_render_check=True)


def test_vectorised_by_gymnasium():
    """A vector of wrapped environments, as in Stable-Baselines3, has the additions as arrays in `infos`."""
    envs = gymnasium.make_vec(
        "CartPole-v1", 3, vectorization_mode="sync", wrappers=[lambda env: MacroActionEnv(env, ACTIONS, gamma=0.9)]
    )
    assert envs.single_action_space == gymnasium.spaces.Discrete(4)
    envs.reset(seed=0)
    _, reward, _, _, infos = envs.step(np.array([0, 2, 3]))
    np.testing.assert_array_equal(infos["steps"], [1, 2, 3])
    np.testing.assert_allclose(infos["discount"], [0.9, 0.81, 0.729])
    np.testing.assert_allclose(reward, [1.0, 1.9, 2.71])
    envs.close()


def test_can_be_rebuilt_from_its_spec():
    env = gymnasium.make(MacroActionEnv(gymnasium.make("CartPole-v1"), ACTIONS, gamma=0.5).spec)
    assert env.action_space == gymnasium.spaces.Discrete(4)
    env.reset(seed=0)
    assert env.step(3)[4]["discount"] == 0.125


def test_a_seed_repeats_and_another_differs():
    def play(seed):
        env = MacroActionEnv(gymnasium.make("CartPole-v1"), ACTIONS)
        return [env.reset(seed=seed)[0], *[env.step(action)[0] for action in (3, 0, 2, 1)]]

    np.testing.assert_array_equal(play(1), play(1))
    assert not np.array_equal(play(1), play(2))


def test_invalid_arguments_are_named():
    with pytest.raises(UserError, match=r"Pendulum-v1 has continuous actions \(Box\); masp needs Discrete"):
        MacroActionEnv(gymnasium.make("Pendulum-v1"), ACTIONS)
    with pytest.raises(UserError, match=r"macro 0 uses action 2, but CartPole-v1 has actions 0\.\.1"):
        MacroActionEnv(gymnasium.make("CartPole-v1"), ActionSet(3, [(2, 2)]))
    with pytest.raises(UserError, match="made for 2 primitive actions, but TapeEnv has 3"):
        MacroActionEnv(TapeEnv(), ACTIONS)
    with pytest.raises(UserError, match=r"actions must be a masp\.ActionSet, got \[\(0, 1\)\]; make one with"):
        MacroActionEnv(gymnasium.make("CartPole-v1"), [(0, 1)])
    with pytest.raises(UserError, match="gamma must be between 0 and 1"):
        MacroActionEnv(TapeEnv(), ActionSet(3), gamma=1.5)
    shifted = TapeEnv()
    shifted.action_space = gymnasium.spaces.Discrete(3, start=1)
    with pytest.raises(UserError, match="numbers its actions from 1"):
        MacroActionEnv(shifted, ActionSet(3))
    env = MacroActionEnv(TapeEnv(), ActionSet(3))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"action 3 is not in 0\.\.2"):
        env.step(3)
