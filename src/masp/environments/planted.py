"""Tasks with planted groups of equivalent actions, so that the similarity has a known truth.

The primitives are the groups; every copy is a macro of length one, in an order hidden by a permutation. `rainbow` thus
plays with one action per group, `macros` and `masp` with all copies. The grid can have real macros instead
(`sequences`): then those of the same displacement are a group.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.environments.base import EnvInfo
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro


def _require(task: str, name: str, value: float, low: float, high: float = math.inf) -> None:
    if not low <= value <= high:
        bounds = f"at least {low}" if high == math.inf else f"in [{low}, {high}]"
        raise UserError(f"{task}: {name} must be {bounds}, got {value}")


def aliased_actions(
    names: list[str], copies: int, order_seed: int, uneven: bool = False
) -> tuple[ActionSet, np.ndarray]:
    """One primitive per name and aliases in hidden order, `copies` actions per name; and the group of every action.

    With `uneven`, groups have 1, 2, 4, ... shares of as many actions in all, the larger ones first.
    """
    _require("planted task", "copies", copies, 1)
    _require("planted task", "order_seed", order_seed, 0)
    total = len(names) * (copies - 1)
    if uneven:
        ends = np.round(total * np.cumsum(0.5 ** np.arange(len(names))) / np.sum(0.5 ** np.arange(len(names))))
        aliases = np.repeat(np.arange(len(names)), np.diff(ends.astype(int), prepend=0))
    else:
        aliases = np.repeat(np.arange(len(names)), copies - 1)
    np.random.default_rng(order_seed).shuffle(aliases)
    seen = [0] * len(names)
    macros = []
    for group in aliases.tolist():
        seen[group] += 1
        macros.append(Macro((group,), f"{names[group]}'{seen[group]}"))
    groups = np.concatenate([np.arange(len(names)), aliases])
    return ActionSet(len(names), macros, names), groups


def sequence_actions(
    names: list[str], moves: np.ndarray, count: int, longest: int, order_seed: int
) -> tuple[ActionSet, np.ndarray]:
    """The primitives and `count` different random sequences of them; and the group of every action: its displacement.

    Args:
      moves: [primitives, 2] displacement of each primitive.
    """
    possible = sum(len(names) ** length for length in range(2, longest + 1))
    _require("planted-grid", "sequences", count, 0, possible)
    rng = np.random.default_rng(order_seed)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        length = int(rng.integers(2, longest + 1))
        found[tuple(rng.integers(0, len(names), length).tolist())] = None
    actions = ActionSet(len(names), list(found), names)
    displacement = [tuple(moves[list(sequence)].sum(axis=0).tolist()) for sequence in actions.sequences()]
    numbers = {place: number for number, place in enumerate(dict.fromkeys(displacement))}
    return actions, np.array([numbers[place] for place in displacement])


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
        uneven: bool = False,
    ):
        for name, value in (("contexts", contexts), ("groups", groups)):
            _require("planted-bandit", name, value, 1)
        for name, chance in (("pay_good", pay_good), ("pay_bad", pay_bad)):
            _require("planted-bandit", name, chance, 0, 1)
        actions, truth = aliased_actions([f"g{i}" for i in range(groups)], copies, order_seed, uneven)
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
    """Walk from a random cell to a random goal; reward 1 there, the episode is cut after `max_steps`.

    `cliff`: who leaves the grid falls, and the episode is over. `pay`: chance that arriving pays. `sequences`: so many
    random sequences of two to four moves as macros, instead of copies of the moves. `opaque`: every copy is a primitive
    of its own, so that nothing but what it does tells what it is alike to; `rainbow` has them all, too. Both: macros
    are sequences of such copies, as where several buttons of a game do the same.
    """

    def __init__(
        self,
        size: int = 9,
        copies: int = 8,
        max_steps: int = 30,
        order_seed: int = 0,
        uneven: bool = False,
        cliff: bool = False,
        pay: float = 1.0,
        sequences: int = 0,
        opaque: bool = False,
    ):
        _require("planted-grid", "size", size, 2)  # with one cell there is nowhere to start from
        _require("planted-grid", "max_steps", max_steps, 1)
        _require("planted-grid", "pay", pay, 0, 1)
        names, moves = ["up", "right", "down", "left"], np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])
        actions, truth = aliased_actions(names, copies, order_seed, uneven)
        if opaque:
            actions, moves = ActionSet(len(truth), (), actions.names), moves[truth]
        if sequences:
            names = actions.names if opaque else names
            actions, truth = sequence_actions(list(names), moves, sequences, 4, order_seed)
        self._size, self._max_steps, self._cliff, self._pay = size, max_steps, cliff, pay
        self._moves = jnp.asarray(moves)
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
        wanted = state.position + self._moves[action]
        position = jnp.clip(wanted, 0, self._size - 1)
        fallen = jnp.any(wanted != position) & self._cliff
        state = GridState(position, state.goal, state.steps + 1)
        arrived = jnp.all(position == state.goal) & ~fallen
        cut = (state.steps >= self._max_steps) & ~arrived & ~fallen
        paid = arrived & jax.random.bernoulli(key, self._pay) if self._pay < 1 else arrived
        return state, self._observe(state), paid.astype(jnp.float32), arrived | fallen, cut

    def _cell(self, index: Array) -> Array:
        return jnp.stack([index // self._size, index % self._size])

    def _observe(self, state: GridState) -> Array:
        """[4 * size] one-hot row and column of agent and goal."""
        return jax.nn.one_hot(jnp.concatenate([state.position, state.goal]), self._size).reshape(-1)
