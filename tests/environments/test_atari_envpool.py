"""Atari through envpool equals Atari through ale-py, except for random numbers."""

import numpy as np
import pytest
from vectors import assert_equal, play, stack

from masp.environments import make_env
from masp.errors import UserError
from masp.macros.actions import ALE_ACTIONS

pytest.importorskip("ale_py")
pytest.importorskip("envpool")

FIRE = ALE_ACTIONS.index("FIRE")
ENVPOOL = ("backend=envpool", "noops=1", "sticky=0")


@pytest.mark.parametrize("game", ["Breakout", "Pong", "SpaceInvaders", "MsPacman", "Skiing"])
def test_equals_ale_without_random_numbers(game):
    ale, pool = make_env(game, ["noops=1", "sticky=0"], 2), make_env(game, ENVPOOL, 2)
    assert ale.info == pool.info
    np.testing.assert_array_equal(ale.reset(0), pool.reset(0))
    actions = np.random.default_rng(2).integers(18, size=(120, 2))
    ale_steps, pool_steps = stack(ale, actions), stack(pool, actions)
    assert not ale_steps.terminated.any()
    assert_equal(ale_steps, pool_steps)


def test_lives_and_ends_equal_those_of_ale():
    for options in ((), ("max_frames=400",), ("life_loss=false",)):
        ale, pool = (
            make_env("Breakout", ("noops=1", "sticky=0", *options)),
            make_env("Breakout", (*ENVPOOL, *options)),
        )
        ale.reset(0)
        pool.reset(0)
        ale_steps, pool_steps = (stack(env, np.full((260, 1), FIRE)) for env in (ale, pool))
        for name in ("reward", "terminated", "truncated", "life_lost"):
            np.testing.assert_array_equal(getattr(ale_steps, name), getattr(pool_steps, name), err_msg=name)
        ended = ale_steps.terminated | ale_steps.truncated
        # envpool shows the frame before the final one; no update uses a terminal observation
        np.testing.assert_array_equal(
            ale_steps.observation[~ale_steps.terminated], pool_steps.observation[~ale_steps.terminated]
        )
        assert ended.sum() >= 1
        assert ale_steps.life_lost.any() == ("life_loss=false" not in options)
        assert ale_steps.terminated.any() == ("max_frames=400" not in options)


def test_a_seed_repeats_the_run():
    env = make_env("Breakout", ["backend=envpool", "max_frames=100"], 3)
    first, actions, steps = play(env, 60, seed=1)
    np.testing.assert_array_equal(env.reset(1), first)
    assert_equal(stack(env, actions), steps)
    _, _, other = play(env, 60, seed=2)
    assert not np.array_equal(steps.observation, other.observation)


def test_resuming_is_refused():
    env = make_env("Breakout", ["backend=envpool"])
    env.reset(0)
    with pytest.raises(UserError, match="a run of Breakout with backend=envpool cannot be resumed"):
        env.restore(0, env.snapshot())


def test_invalid_options_are_named(monkeypatch):
    with pytest.raises(UserError, match="backend=envpool plays at least one no-op; give noops=1"):
        make_env("Breakout", ["backend=envpool", "noops=0"])
    with pytest.raises(UserError, match="num_envs must be at least 1, got 0"):
        make_env("Breakout", ["backend=envpool"], 0)
    with pytest.raises(RuntimeError, match="comes first"):
        make_env("Breakout", ["backend=envpool"]).step(np.array([0]))
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name == "envpool" else find(name, *rest))
    with pytest.raises(UserError, match=r"backend=envpool needs the package envpool: pip install 'masp-rl\[envpool\]'"):
        make_env("Breakout", ["backend=envpool"])
