"""Tasks with planted groups of equivalent actions, so that the similarity has a known truth.

The primitives are the groups; every copy is a macro of length one, in an order hidden by a permutation. `rainbow` thus
plays with one action per group, `macros` and `masp` with all copies.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.actions import ActionSet, Macro
from masp.environments.base import EnvInfo
from masp.errors import UserError


def _require(task: str, name: str, value: float, low: float, high: float = math.inf) -> None:
    if not low <= value <= high:
        bounds = f"at least {low}" if high == math.inf else f"in [{low}, {high}]"
        raise UserError(f"{task}: {name} must be {bounds}, got {value}")


def aliased_actions(names: list[str], copies: int, order_seed: int) -> tuple[ActionSet, np.ndarray]:
    """One primitive per name and `copies - 1` aliases of each in hidden order; and the group of every action."""
    _require("planted task", "copies", copies, 1)
    _require("planted task", "order_seed", order_seed, 0)
    aliases = np.repeat(np.arange(len(names)), copies - 1)
    np.random.default_rng(order_seed).shuffle(aliases)
    seen = [0] * len(names)
    macros = []
    for group in aliases.tolist():
        seen[group] += 1
        macros.append(Macro((group,), f"{names[group]}'{seen[group]}"))
    groups = np.concatenate([np.arange(len(names)), aliases])
    return ActionSet(len(names), macros, names), groups


class PlantedBandit:
    """One decision per episode: in each context one group of actions pays more often than the others."""

    def __init__(
        self,
        contexts: int = 8,
        groups: int = 8,
        copies: int = 8,
        pay_good: float = 0.9,
        pay_bad: float = 0.1,
        order_seed: int = 0,
    ):
        for name, value in (("contexts", contexts), ("groups", groups)):
            _require("planted-bandit", name, value, 1)
        for name, chance in (("pay_good", pay_good), ("pay_bad", pay_bad)):
            _require("planted-bandit", name, chance, 0, 1)
        actions, truth = aliased_actions([f"g{i}" for i in range(groups)], copies, order_seed)
        self._contexts, self._pay = contexts, (pay_bad, pay_good)
        good = np.arange(contexts) % groups
        self._good = jnp.asarray(np.random.default_rng(order_seed + 1).permutation(good))
        self.info = EnvInfo(
            env_id="planted-bandit",
            observation_shape=(contexts,),
            observation_dtype=np.dtype(np.float32),
            observation_kind="vector",
            actions=actions,
            success_above=0.5,
            groups=truth,
            max_episode_steps=1,
        )

    def reset(self, key: Array) -> tuple[Array, Array]:
        context = jax.random.randint(key, (), 0, self._contexts)
        return context, jax.nn.one_hot(context, self._contexts)

    def step(self, state: Array, action: Array, key: Array) -> tuple[Array, Array, Array, Array, Array]:
        chance = jnp.where(action == self._good[state], self._pay[1], self._pay[0])
        reward = jax.random.bernoulli(key, chance).astype(jnp.float32)
        return state, jnp.zeros(self._contexts), reward, jnp.array(True), jnp.array(False)


class GridState(NamedTuple):
    """Agent and goal of one grid."""

    position: Array  # [2] int32
    goal: Array  # [2] int32
    steps: Array  # [] int32


class PlantedGrid:
    """Walk from a random cell to a random goal; reward 1 there, the episode is cut after `max_steps`."""

    def __init__(self, size: int = 9, copies: int = 8, max_steps: int = 30, order_seed: int = 0):
        _require("planted-grid", "size", size, 2)  # with one cell there is nowhere to start from
        _require("planted-grid", "max_steps", max_steps, 1)
        actions, truth = aliased_actions(["up", "right", "down", "left"], copies, order_seed)
        self._size, self._max_steps = size, max_steps
        self._moves = jnp.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
        self.info = EnvInfo(
            env_id="planted-grid",
            observation_shape=(4 * size,),
            observation_dtype=np.dtype(np.float32),
            observation_kind="vector",
            actions=actions,
            success_above=0.5,
            groups=truth,
            max_episode_steps=max_steps,
        )

    def reset(self, key: Array) -> tuple[GridState, Array]:
        cells = self._size**2
        key_goal, key_offset = jax.random.split(key)
        goal = jax.random.randint(key_goal, (), 0, cells)
        start = (goal + jax.random.randint(key_offset, (), 1, cells)) % cells  # anywhere but on the goal
        state = GridState(self._cell(start), self._cell(goal), jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, state: GridState, action: Array, key: Array) -> tuple[GridState, Array, Array, Array, Array]:
        del key
        position = jnp.clip(state.position + self._moves[action], 0, self._size - 1)
        state = GridState(position, state.goal, state.steps + 1)
        arrived = jnp.all(position == state.goal)
        cut = (state.steps >= self._max_steps) & ~arrived
        return state, self._observe(state), arrived.astype(jnp.float32), arrived, cut

    def _cell(self, index: Array) -> Array:
        return jnp.stack([index // self._size, index % self._size])

    def _observe(self, state: GridState) -> Array:
        """[4 * size] one-hot row and column of agent and goal."""
        return jax.nn.one_hot(jnp.concatenate([state.position, state.goal]), self._size).reshape(-1)
