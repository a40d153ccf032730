"""Environments and torsos such as users write, which tests import by name."""

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from masp.environments.base import EnvInfo
from masp.macros.actions import default_macros


class Corridor(gymnasium.Env):
    """Walk right to the end of a corridor."""

    observation_space = gymnasium.spaces.Box(0, 1, (6,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length=5):
        self._length, self._place = length, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._time = 0, 0
        return self._observation(), {}

    def step(self, action):
        self._time += 1
        self._place = max(0, self._place + (1 if action == 1 else -1))
        end = self._place == self._length
        return self._observation(), float(end), end, self._time >= 30, {}

    def _observation(self):
        return np.eye(6, dtype=np.float32)[self._place]


def make_corridor(length=5):
    return Corridor(length)


def make_nothing():
    return 7


class JaxCorridor:
    """The same, in JAX."""

    def __init__(self):
        self.info = EnvInfo("jax-corridor", (6,), np.dtype(np.float32), "vector", default_macros(2, (), "corridor"))

    def reset(self, key):
        del key
        state = jnp.zeros(2, jnp.int32)
        return state, jax.nn.one_hot(state[0], 6)

    def step(self, state, action, key):
        del key
        place = jnp.clip(state[0] + jnp.where(action == 1, 1, -1), 0, 5)
        time, end = state[1] + 1, place == 5
        observation = jax.nn.one_hot(place, 6)
        return jnp.stack([place, time]), observation, end.astype(jnp.float32), end, (time >= 30) & ~end


def make_jax_corridor():
    return JaxCorridor()


class Wide(nn.Module):
    """One layer."""

    width: int = 8
    more: tuple[int, ...] = ()

    @nn.compact
    def __call__(self, x):
        for width in (self.width, *self.more):
            x = nn.relu(nn.Dense(width)(x))
        return x


class Unflattened(nn.Module):
    @nn.compact
    def __call__(self, x):
        return x[:, :, None]


class Raising(nn.Module):
    @nn.compact
    def __call__(self, x):
        raise KeyError("no weights")
