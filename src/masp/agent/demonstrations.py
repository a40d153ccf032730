"""Demonstrations: recorded play in a frozen memory beside the replay, from which part of every batch is drawn.

A row is drawn uniformly from all steps of the play, then an action uniformly from those that would have played what was
demonstrated from there: the primitive, and every macro that begins the same way (`credit.continuations`). So a
demonstration teaches macros although nobody played any, as a transition with its own return and discount.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp import ops
from masp.agent import credit
from masp.agent.credit import CONTINUES, TERMINATED, TRUNCATED, Steps
from masp.agent.replay import Batch, Transition
from masp.macros.recording import Seen

SHARE = 0.25
"""Share of the windows of a batch that are demonstrated."""


class Demonstrations(NamedTuple):
    """All observations of E episodes with S steps in total, one after the other: R = S + E rows."""

    observations: Array  # [R, 1, D]
    age: Array  # [R, 1] uint8, rows since the first of the episode, saturating at 255
    steps: Steps  # [R, 1] the step that follows each row; the last row of an episode has none
    starts: Array  # [S] int32, the rows that a step follows


def init(episodes: list[tuple[list[int], Seen]], clip_rewards: bool) -> Demonstrations:
    """The memory of episodes: their primitives, and what they brought."""
    observations, ages, primitives, rewards, ends, has_step = [], [], [], [], [], []
    for actions, seen in episodes:
        length = len(actions)
        end = np.where(seen.life_lost, TERMINATED, CONTINUES)
        end[-1] = TERMINATED if seen.terminated or seen.life_lost[-1] else TRUNCATED
        reward = np.clip(seen.rewards, -1, 1) if clip_rewards else seen.rewards
        observations.append(np.asarray(seen.observations).reshape(length + 1, -1))
        ages.append(np.minimum(np.arange(length + 1), 255))
        primitives.append([*actions, 0])
        rewards.append([*reward, 0.0])
        ends.append([*end, CONTINUES])
        has_step.append([True] * length + [False])

    def column(parts: list, dtype: type) -> np.ndarray:
        return np.concatenate(parts).astype(dtype)[:, None]

    return Demonstrations(
        observations=jnp.asarray(np.concatenate(observations)[:, None]),
        age=jnp.asarray(column(ages, np.uint8)),
        steps=Steps(
            jnp.asarray(column(primitives, np.int32)),
            jnp.asarray(column(rewards, np.float32)),
            jnp.asarray(column(ends, np.uint8)),
        ),
        starts=jnp.asarray(np.flatnonzero(np.concatenate(has_step)), jnp.int32),
    )


def draw(
    memory: Demonstrations,
    key: Array,
    batch_size: int,
    table: Array,
    lengths: Array,
    gamma: float,
    n_step: int,
    observation_shape: tuple[int, ...],
    stack: int,
) -> Batch:
    """[B] transitions of n decisions: the action drawn, then primitives as they were played."""
    key_row, key_action = jax.random.split(key)
    row = memory.starts[jax.random.randint(key_row, (batch_size,), 0, len(memory.starts))]
    env = jnp.zeros_like(row)
    newest = jnp.asarray(len(memory.age) - 1)
    options = credit.continuations(memory.steps, newest, row, env, table, lengths, gamma, more_steps=n_step - 1)
    action = credit.choose(options.consistent, key_action)
    frames = (memory.observations, memory.age)
    next_row = row + credit.of_action(options.steps, action)
    transition = Transition(
        s_tm1=ops.stack_frames(*frames, row, env, observation_shape, stack),
        a_tm1=action,
        r_t=credit.of_action(options.reward, action),
        discount_t=credit.of_action(options.discount, action),
        s_t=ops.stack_frames(*frames, next_row, env, observation_shape, stack),
    )
    return Batch(transition, jnp.ones(batch_size), jnp.zeros(0, jnp.int32), options.consistent)


def mixed(batch: Batch, demonstrated: Batch) -> Batch:
    """The windows of `batch`, then those that were demonstrated."""
    transition = jax.tree.map(lambda *rows: jnp.concatenate(rows), batch.transition, demonstrated.transition)
    weight = jnp.concatenate([batch.weight, demonstrated.weight])
    return Batch(transition, weight, batch.leaf, demonstrated.demonstrated)
