"""An environment with action masks, for Gymnasium and in JAX, in which a forbidden action shows."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from masp.environments.base import EnvInfo
from masp.macros.actions import ActionSet

PLACES, STEPS = 7, 6
ACTIONS = ActionSet(3, [(0, 0), (1, 2, 0), (2, 1), (0, 1, 2, 2)])
INFO = EnvInfo("masked", (PLACES,), np.dtype(np.float32), "vector", ACTIONS, max_episode_steps=STEPS)


class MaskedEnv(gymnasium.Env):
    """Primitive a moves on by a + 1 of 7 places; at place k the primitive k % 4 is forbidden, if there is one.

    A forbidden primitive raises. An episode succeeds if it ends at an even place.

    Args:
      masks: `given`; `all`: every primitive is always allowed; `none`: no masks; `empty`: after three steps nothing is
        allowed; `late`: those of resets are missing; `wide`: of another size.
    """

    observation_space = gymnasium.spaces.Box(0, 1, (PLACES,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, masks: str = "given"):
        self._masks = masks

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._place, self._steps = int(self.np_random.integers(PLACES)), 0
        return self._observation(), {} if self._masks == "late" else self._info()

    def step(self, action):
        assert self._masks in ("all", "none") or self._mask()[action], f"{action} is forbidden at {self._place}"
        self._place, self._steps = (self._place + int(action) + 1) % PLACES, self._steps + 1
        reward, over = float(self._place == 0), self._steps == STEPS
        terminated = over and self._place < 3
        info = self._info() | ({"success": np.bool_(self._place % 2 == 0)} if over else {})
        return self._observation(), reward, terminated, over and not terminated, info

    def _mask(self):
        return np.arange(3) != (self._place % 4 if self._masks != "all" else 3)

    def _info(self):
        if self._masks == "none":
            return {}
        if self._masks == "empty" and self._steps == 3:
            return {"action_mask": np.zeros(3, bool)}
        return {"action_mask": np.ones(4, bool) if self._masks == "wide" else self._mask().astype(np.int8)}

    def _observation(self):
        return np.eye(PLACES, dtype=np.float32)[self._place]


class JaxMaskedEnv:
    """The same in JAX; a forbidden primitive ends the episode with -100.

    `empty_at`: place at which nothing is allowed; -1: none.
    """

    info = INFO

    def __init__(self, empty_at: int = -1):
        self._empty_at = empty_at

    def reset(self, key):
        state = jnp.stack([jax.random.randint(key, (), 0, PLACES), 0])
        return state, jax.nn.one_hot(state[0], PLACES)

    def step(self, state, action, key):
        del key
        forbidden = action == state[0] % 4
        state = jnp.stack([(state[0] + action + 1) % PLACES, state[1] + 1])
        over = state[1] == STEPS
        terminated = forbidden | (over & (state[0] < 3))
        reward = jnp.where(forbidden, -100.0, jnp.where(state[0] == 0, 1.0, 0.0))
        return state, jax.nn.one_hot(state[0], PLACES), reward, terminated, over & ~terminated

    def action_mask(self, state):
        return (jnp.arange(3) != state[0] % 4) & (state[0] != self._empty_at)

    def success(self, state):
        return state[0] % 2 == 0
