"""The loop for JAX environments: environments, acting and learning in one compiled program, many seeds at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.config import TrainConfig
from masp.environments.base import JaxEnv, Step
from masp.training.agent import Agent, AgentState, Keys, MacroTables, Report, empty_tally, report, seed_axes
from masp.training.lanes import Start


class TrainState(NamedTuple):
    """A run with an axis of seeds on everything but the shared counters; a checkpoint holds exactly this."""

    agent: AgentState
    envs: Any  # [seeds, N, ...]


class CompiledLoop:
    """Trains all seeds in lockstep."""

    def __init__(self, agent: Agent, env: JaxEnv):
        self.agent, self.env = agent, env

    def close(self) -> None:
        """There is nothing to end."""

    def init(self, configs: Sequence[TrainConfig]) -> TrainState:
        """Before the first tick of these runs, which the agent's configuration fits (`lanes.shared_config`)."""

        def one(keys: Keys, start: Start) -> TrainState:
            resets = jax.random.split(jax.random.fold_in(keys.environment, 0), self.agent.config.num_envs)
            envs, observation = jax.vmap(self.env.reset)(resets)
            return TrainState(self.agent.init(keys, observation, start), envs)

        starts = [self.agent.start(config) for config in configs]
        state = jax.jit(jax.vmap(one))(*jax.tree.map(lambda *leaves: np.stack(leaves), *starts))
        shared = state.agent._replace(
            tick=state.agent.tick[0],
            learner=state.agent.learner._replace(updates=state.agent.learner.updates[0]),
        )
        return state._replace(agent=shared)

    def frames(self, state: TrainState) -> np.ndarray:
        """[seeds] frames played so far."""
        return np.asarray(state.agent.actor.steps).astype(np.int64) * self.agent.info.frames_per_step

    def run(self, state: TrainState, iterations: int, learn: bool) -> TrainState:
        """Play (and learn) `iterations` iterations; the given state is used up."""
        return self._run(state, iterations, learn)

    @partial(jax.jit, static_argnums=(0, 3), donate_argnums=1)
    def _run(self, state: TrainState, iterations: Array, learn: bool) -> TrainState:
        axes = self._axes(state)
        over_seeds = partial(jax.vmap, in_axes=(axes,), out_axes=axes)

        def learning(state: TrainState) -> TrainState:
            return state._replace(agent=self.agent.learn(state.agent)) if learn else state

        def iteration(_: Array, state: TrainState) -> TrainState:
            ticks = self.agent.config.ticks_per_iteration
            if ticks > 1:
                state = jax.lax.fori_loop(0, ticks - 1, lambda _, s: over_seeds(self._tick)(s), state)
            return over_seeds(partial(self._tick, between=learning))(state)

        return jax.lax.fori_loop(0, iterations, iteration, state)

    def _tick(self, state: TrainState, between: Callable[[TrainState], TrainState] = lambda s: s) -> TrainState:
        """One step of every environment of one seed; `between` comes after the decision and before the step."""
        agent, primitives = self.agent.decide(state.agent)
        state = between(state._replace(agent=agent))
        key = jax.random.fold_in(agent.keys.environment, agent.tick + 1)
        envs, step = step_or_reset(self.env, state.envs, primitives, agent.actor.resetting, key)
        agent, _ = self.agent.observe(state.agent, step)
        return TrainState(agent, envs)

    def reports(self, state: TrainState) -> list[Report]:
        """What to show, one per seed."""
        return self.per_seed(report(state.agent))

    def per_seed(self, part: Any) -> list[Any]:
        """A part of the state that has the axis of seeds everywhere, as NumPy arrays, one per seed."""
        shown = jax.tree.map(np.asarray, part)
        return [jax.tree.map(lambda leaf: leaf[i], shown) for i in range(len(jax.tree.leaves(shown)[0]))]

    @partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
    def changed(self, change: Callable[[AgentState, Any], AgentState], state: TrainState, how: Any) -> TrainState:
        """`change(agent, how)` for every seed; `how` has an axis of seeds. The given state is used up."""
        axes = self._axes(state)
        return state._replace(agent=jax.vmap(change, in_axes=(axes.agent, 0), out_axes=axes.agent)(state.agent, how))

    def checkpoints(self, state: TrainState) -> list[TrainState]:
        """Everything, one per seed, each with a copy of the counters that all seeds share."""
        axes = self._axes(state)
        count = state.agent.keys.act.shape[0]
        known = jax.tree.map(np.asarray, state)  # sliced by NumPy: JAX would compile a program for each leaf and seed
        return [
            jax.tree.map(lambda axis, leaf: leaf if axis is None else leaf[i], axes, known, is_leaf=_none)
            for i in range(count)
        ]

    def restore(self, states: list[TrainState]) -> TrainState:
        """The inverse of `checkpoints`."""

        def joined(axis: int | None, *leaves: Any) -> Any:
            if leaves[0] is None:  # what a plain network leaves out
                return None
            return jnp.asarray(leaves[0] if axis is None else np.stack(leaves))

        return jax.tree.map(joined, self._axes(states[0]), *states, is_leaf=_none)

    def _axes(self, state: TrainState) -> TrainState:
        return TrainState(seed_axes(state.agent), jax.tree.map(lambda _: 0, state.envs))

    def reset_tally(self, state: TrainState) -> TrainState:
        """Start counting anew, after a row of the metrics was written."""
        count = state.agent.keys.act.shape[0]
        tally = jax.tree.map(lambda leaf: jnp.asarray(np.stack([leaf] * count)), empty_tally())
        return state._replace(agent=state.agent._replace(tally=tally))

    def evaluate(self, state: TrainState, episodes: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """[seeds, episodes] returns and steps of episodes with their own seeds, without noise."""
        learner = state.agent.learner
        keys = jax.vmap(lambda key: jax.random.fold_in(key, number))(state.agent.keys.evaluation)
        score, steps = self._evaluate(learner.params, learner.similarity, state.agent.macros, keys, episodes)
        return np.asarray(score), np.asarray(steps)

    def play(self, params: Any, similarity: np.ndarray, key: Array, episodes: int) -> tuple[np.ndarray, np.ndarray]:
        """[episodes] returns and steps of one policy."""
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (params, similarity, self.agent.tables(), key))
        score, steps = self._evaluate(*one, episodes)
        return np.asarray(score)[0], np.asarray(steps)[0]

    @partial(jax.jit, static_argnums=(0, 5))
    def _evaluate(
        self, params: Any, similarity: Array, macros: MacroTables, keys: Array, episodes: int
    ) -> tuple[Array, Array]:
        return jax.vmap(partial(self._evaluate_seed, episodes))(params, similarity, macros, keys)

    def _evaluate_seed(
        self, episodes: int, params: Any, similarity: Array, macros: MacroTables, key: Array
    ) -> tuple[Array, Array]:
        actor, epsilon = self.agent.actor(macros), self.agent.config.eval_epsilon
        envs, observation = jax.vmap(self.env.reset)(jax.random.split(jax.random.fold_in(key, 0), episodes))
        blank = jnp.zeros(episodes)

        def going(carry: Any) -> Array:
            _, _, over, _, _, tick = carry
            return ~jnp.all(over) & (tick < self.agent.info.max_episode_steps)

        def tick(carry: Any) -> Any:
            envs, state, over, score, steps, tick = carry
            key_choice, key_env = jax.random.split(jax.random.fold_in(key, tick + 1))
            values = self.agent.learner.values(params, actor.inputs(state), similarity, None)
            state, primitives = actor.decide(state, values, epsilon, tick, key_choice)
            envs, step = step_or_reset(self.env, envs, primitives, state.resetting, key_env)
            state, _, ended = actor.advance(state, step)
            first = ended.ended & ~over
            score = jnp.where(first, ended.score, score)
            steps = jnp.where(first, ended.steps, steps)
            return envs, state, over | ended.ended, score, steps, tick + 1

        carry = (envs, actor.init(observation), blank > 0, blank, blank.astype(jnp.int32), jnp.zeros((), jnp.int32))
        _, _, _, score, steps, _ = jax.lax.while_loop(going, tick, carry)
        return score, steps


def _none(leaf: Any) -> bool:
    return leaf is None


def step_or_reset(env: JaxEnv, envs: Any, actions: Array, resetting: Array, key: Array) -> tuple[Any, Step]:
    """One tick of N environments: those that are `resetting` [N] start a new episode, the others play."""

    def one(state: Any, action: Array, reset: Array, key: Array) -> tuple[Any, Step]:
        key_step, key_reset = jax.random.split(key)
        new_state, new_observation = env.reset(key_reset)
        state, observation, reward, terminated, truncated = env.step(state, action, key_step)
        state = jax.tree.map(lambda new, old: jnp.where(reset, new, old), new_state, state)
        observation = jnp.where(reset, new_observation, observation)
        played = ~reset
        step = Step(observation, reward * played, terminated & played, truncated & played, jnp.array(False))
        return state, step

    return jax.vmap(one)(envs, actions, resetting, jax.random.split(key, resetting.shape[0]))
