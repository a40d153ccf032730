"""Every kind of environment behind one interface, so that one contract can be tested on all."""

from functools import cache

import numpy as np
import pytest

from masp.environments import is_jax, make_env
from masp.environments.base import Step
from masp.environments.gymnasium_vector import GymVector
from masp.training.jax_vector import JaxVector
from tape_env import TapeEnv

MADE = {
    "planted-bandit": (),
    "planted-grid": ("max_steps=9",),
    "minatar-breakout": ("max_steps=11",),
    "DoorKey-5x5": ("max_steps=25",),
    "Fetch-5x5-N2": ("backend=envpool", "max_steps=25"),
    "CartPole-v1": ("max_episode_steps=14",),
    "Pong": ("max_frames=60",),
    "Breakout": ("backend=envpool", "max_frames=60"),
    "Airstriker-Genesis-v0": ("buttons=LEFT,RIGHT,B", "repeat=1", "noops=5", "max_steps=15"),
    "tape": (),
}
"""Environments and options that let some episodes end within few steps; a new family needs a line here, no more.

An option whose name begins with `max` is the limit after which an episode is cut.
"""

NEEDS = {
    "minatar-breakout": ("pgx",),
    "Fetch-5x5-N2": ("envpool",),
    "Pong": ("ale_py", "cv2"),
    "Breakout": ("ale_py", "cv2", "envpool"),
    "Airstriker-Genesis-v0": ("stable_retro",),
}
"""Optional packages of some of them."""


def make_vector(name, num_envs, later=1):
    """One of `MADE`, as N environments that reset by themselves; episodes are cut `later` times as late."""
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    if name == "tape":
        return GymVector(TapeEnv, num_envs)
    options = tuple(_later(option, later) for option in MADE[name])
    return _shared(name, options, num_envs) if name.startswith(SHARED) else make_env(name, options, num_envs)


def _later(option, times):
    option, _, value = option.partition("=")
    return f"{option}={int(value) * times if option.startswith('max') else value}"


SHARED = ("planted", "minatar", "Airstriker")
"""Those that take long to start: compiled ones, and processes."""


@cache
def _shared(name, options, num_envs):
    """Made once for all tests; `reset` makes it as new."""
    env = make_env(name, options, num_envs)
    return JaxVector(env, num_envs) if is_jax(env) else env


def play(env, ticks, seed=0, action_seed=0):
    """`ticks` ticks of random actions: the actions, and all steps stacked, [ticks, N, ...] each."""
    rng = np.random.default_rng(action_seed)
    actions = rng.integers(env.info.actions.num_primitives, size=(ticks, env.num_envs))
    first = env.reset(seed)
    return first, actions, stack(env, actions)


def stack(env, actions):
    """The steps that `actions` [ticks, N] bring, stacked."""
    return Step(*[np.stack(part) for part in zip(*[env.step(row) for row in actions], strict=True)])


def assert_equal(one, other):
    """All arrays of two steps are the same to the bit."""
    for name, a, b in zip(Step._fields, one, other, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
