"""One environment of each family as a vector, so that one contract can be tested on all."""

from functools import cache

import numpy as np
import pytest

from masp.environments import is_jax, make_env
from masp.environments.base import SUCCESS_UNKNOWN, Step
from masp.environments.gymnasium_vector import GymVector
from masp.training.jax_vector import JaxVector
from tape_env import TapeEnv

ENVS = {
    "planted-bandit": (),
    "planted-grid": ("max_steps=9",),
    "minatar-breakout": ("max_steps=11",),
    "DoorKey-5x5": ("max_episode_steps=25",),
    "Fetch-5x5-N2": ("backend=envpool", "max_episode_steps=25"),
    "CartPole-v1": ("max_episode_steps=14",),
    "CartPole-v1 in 2 processes": ("max_episode_steps=14",),
    "DoorKey-5x5 in 2 processes": ("max_episode_steps=25",),
    "Pong": ("max_frames=60",),
    "Breakout": ("backend=envpool", "max_frames=60"),
    "Airstriker-Genesis-v0": ("buttons=LEFT,RIGHT,B", "repeat=1", "noops=5", "max_steps=15"),
    "tape": (),
}
"""Environments, with options that end some episodes within few steps. A new family needs one line here.

An option whose name begins with `max` is the limit after which an episode is truncated.
"""

REQUIRED_PACKAGES = {
    "minatar-breakout": ("pgx",),
    "Fetch-5x5-N2": ("envpool",),
    "Pong": ("ale_py", "cv2"),
    "Breakout": ("ale_py", "cv2", "envpool"),
    "Airstriker-Genesis-v0": ("stable_retro",),
}
"""Optional packages of some of them."""


def make_vector(name, num_envs, later=1):
    """One of `ENVS`, as a vector of N environments; `later` multiplies the limit of the episodes."""
    for package in REQUIRED_PACKAGES.get(name, ()):
        pytest.importorskip(package)
    if name == "tape":
        return GymVector(TapeEnv, num_envs)
    options = tuple(_with_later_limit(option, later) for option in ENVS[name])
    shared = name.startswith(SHARED) or name.endswith("processes")
    return _shared(name, options, num_envs) if shared else make_env(name, options, num_envs)


def _with_later_limit(option, factor):
    option, _, value = option.partition("=")
    return f"{option}={int(value) * factor if option.startswith('max') else value}"


SHARED = ("planted", "minatar", "Airstriker")
"""Environments that start slowly, as do those in processes: compiled ones, and emulators."""


@cache
def _shared(name, options, num_envs):
    """One instance for all tests; `reset` starts anew."""
    env_id, _, processes = name.partition(" in ")
    env = make_env(env_id, options, num_envs, int(processes.partition(" ")[0] or 0))
    return JaxVector(env, num_envs) if is_jax(env) else env


def play(env, ticks, seed=0, action_seed=0):
    """`ticks` ticks of random actions: first observations, actions, and the stacked steps, [ticks, N, ...] each."""
    rng = np.random.default_rng(action_seed)
    actions = rng.integers(env.info.actions.num_primitives, size=(ticks, env.num_envs))
    first = env.reset(seed)
    return first, actions, stack(env, actions)


def stack(env, actions):
    """The stacked steps of `actions` [ticks, N]."""
    return stacked([env.step(row) for row in actions])


def stacked(steps):
    """Steps of consecutive ticks as one, [ticks, N, ...] each."""
    return Step(*[None if part[0] is None else np.stack(part) for part in zip(*steps, strict=True)])


def assert_equal(one, other):
    """All arrays of two steps are identical."""
    unknown = np.full(one.reward.shape, SUCCESS_UNKNOWN, np.int8)  # what a vector means that never says
    one, other = (step._replace(success=unknown if step.success is None else step.success) for step in (one, other))
    for name, a, b in zip(Step._fields, one, other, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)
