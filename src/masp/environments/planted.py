"""Tasks with planted groups of equivalent actions, in which the true similarity is known.

There is one primitive per group; each copy is a macro of length one, and the order of the copies is shuffled. So
`rainbow` has one action per group, `macros` and `masp` have all copies. The grid can have longer macros instead
(`sequences`): those with the same displacement form a group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.environments.base import EnvInfo, JaxEnv, Option, make_with_options
from masp.errors import UserError
from masp.macros.actions import ActionSet, Macro


def make(env_id: str, options: dict[str, Option], num_envs: int) -> JaxEnv:
    """One planted task; `num_envs` has no effect, because the compiled loop maps the environment."""
    del num_envs
    task: Callable[..., JaxEnv] = PlantedBandit if env_id == "planted-bandit" else PlantedGrid
    return make_with_options(task, env_id, options)


def aliased_actions(
    names: list[str], copies: int, order_seed: int, uneven: bool = False
) -> tuple[ActionSet, np.ndarray]:
    """One primitive per name, `copies` actions per name in shuffled order; and the group of each action.

    With `uneven`, each group has half as many copies as the group before it; the total stays the same.
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
    copy_numbers = [0] * len(names)
    macros = []
    for group in aliases.tolist():
        copy_numbers[group] += 1
        macros.append(Macro((group,), f"{names[group]}'{copy_numbers[group]}"))
    groups = np.concatenate([np.arange(len(names)), aliases])
    return ActionSet(len(names), macros, names), groups


def sequence_actions(
    names: list[str], moves: np.ndarray, count: int, longest: int, order_seed: int
) -> tuple[ActionSet, np.ndarray]:
    """The primitives and `count` distinct random sequences of them; and the group of each action: its displacement.

    Args:
      moves: [primitives, 2] displacement of each primitive.
      longest: the sequences have two to so many moves.
    """
    possible = sum(len(names) ** length for length in range(2, longest + 1))
    _require("planted-grid", "sequences", count, 0, possible)
    rng = np.random.default_rng(order_seed)
    sequences: dict[tuple[int, ...], None] = {}  # an ordered set
    while len(sequences) < count:
        length = int(rng.integers(2, longest + 1))
        sequences[tuple(rng.integers(0, len(names), length).tolist())] = None
    actions = ActionSet(len(names), list(sequences), names)
    displacements = [tuple(moves[list(sequence)].sum(axis=0).tolist()) for sequence in actions.sequences()]
    group_of = {displacement: group for group, displacement in enumerate(dict.fromkeys(displacements))}
    return actions, np.array([group_of[displacement] for displacement in displacements])


def _require(task: str, name: str, value: float, low: float, high: float = math.inf) -> None:
    if not low <= value <= high:
        bounds = f"at least {low}" if high == math.inf else f"in [{low}, {high}]"
        raise UserError(f"{task}: {name} must be {bounds}, got {value}")


class PlantedBandit:
    """One decision per episode: in each context, one group of actions is rewarded more often than the others.

    Args:
      contexts: number of contexts, one of which is shown per episode.
      groups: number of groups of actions.
      copies: actions per group.
      pay_good: probability of the reward for the group that the context favours.
      pay_bad: probability of the reward for the others.
      order_seed: draws the order of the actions and the favoured groups.
      uneven: each group has half as many actions as the one before it; the total stays the same.
    """

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
        for name, probability in (("pay_good", pay_good), ("pay_bad", pay_bad)):
            _require("planted-bandit", name, probability, 0, 1)
        actions, truth = aliased_actions([f"g{i}" for i in range(groups)], copies, order_seed, uneven)
        self._contexts, self._pay = contexts, (pay_bad, pay_good)
        good_groups = np.arange(contexts) % groups
        self._good_groups = jnp.asarray(np.random.default_rng(order_seed + 1).permutation(good_groups))
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
        probability = jnp.where(action == self._good_groups[state], self._pay[1], self._pay[0])
        reward = jax.random.bernoulli(key, probability).astype(jnp.float32)
        return state, jnp.zeros(self._contexts), reward, jnp.array(True), jnp.array(False)


CELL = 24
"""Side of a cell in pixels."""


class GridState(NamedTuple):
    """Agent and goal of one grid."""

    position: Array  # [2] int32
    goal: Array  # [2] int32
    steps: Array  # [] int32


class PlantedGrid:
    """Walk from a random cell to a random goal, with reward 1 at the goal; truncated after `max_steps`.

    Args:
      size: cells along a side.
      copies: actions per move.
      max_steps: steps after which an episode is truncated.
      order_seed: draws the order of the actions.
      uneven: each move has half as many actions as the one before it; the total stays the same.
      cliff: a move off the grid terminates the episode.
      pay: probability of the reward at the goal.
      sequences: number of macros that are random sequences of two to four moves, instead of copies of the moves; those
        with the same displacement form a group.
      opaque: each copy is a primitive of its own, for `rainbow` too, so that only its effect shows which actions are
        similar; with `sequences`, macros are sequences of such copies.
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
        _require("planted-grid", "size", size, 2)  # the start is not the goal
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
        start = (goal + jax.random.randint(key_offset, (), 1, cells)) % cells  # any cell except the goal
        state = GridState(self._cell(start), self._cell(goal), jnp.zeros((), jnp.int32))
        return state, self._observe(state)

    def step(self, state: GridState, action: Array, key: Array) -> tuple[GridState, Array, Array, Array, Array]:
        target = state.position + self._moves[action]
        position = jnp.clip(target, 0, self._size - 1)
        fallen = jnp.any(target != position) & self._cliff
        state = GridState(position, state.goal, state.steps + 1)
        arrived = jnp.all(position == state.goal) & ~fallen
        truncated = (state.steps >= self._max_steps) & ~arrived & ~fallen
        rewarded = arrived & jax.random.bernoulli(key, self._pay) if self._pay < 1 else arrived
        return state, self._observe(state), rewarded.astype(jnp.float32), arrived | fallen, truncated

    def render(self, state: GridState) -> np.ndarray:
        """[H, W, 3] uint8: the grid, the goal as a green cell and the agent as a blue disc."""
        image = np.full((self._size * CELL + 1, self._size * CELL + 1, 3), 245, np.uint8)
        image[::CELL] = image[:, ::CELL] = 190
        row, column = (int(x) * CELL for x in state.goal)
        image[row + 1 : row + CELL, column + 1 : column + CELL] = (80, 180, 100)
        row, column = (int(x) * CELL for x in state.position)
        distance = np.hypot(*np.ogrid[-CELL / 2 : CELL / 2 : CELL * 1j, -CELL / 2 : CELL / 2 : CELL * 1j])
        image[row : row + CELL, column : column + CELL][distance < 0.36 * CELL] = (40, 90, 190)
        return image

    def _cell(self, index: Array) -> Array:
        return jnp.stack([index // self._size, index % self._size])

    def _observe(self, state: GridState) -> Array:
        """[4 * size] one-hot row and column of agent and goal."""
        return jax.nn.one_hot(jnp.concatenate([state.position, state.goal]), self._size).reshape(-1)
