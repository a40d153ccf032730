"""The loop for JAX environments: environments, acting and learning in one compiled program, many seeds at once.

Where JAX has several devices, they share the seeds (`devices.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from masp.agent.agent import Agent, AgentState, Keys, MacroTables, Report, Start, empty_tally, seed_axes
from masp.config import TrainConfig
from masp.environments.base import JaxEnv, JudgingJaxEnv, MaskedJaxEnv, Step
from masp.macros.actions import ActionSet
from masp.ops.ordering import after
from masp.training import evaluation
from masp.training.devices import OWN, SHARED, Devices
from masp.training.evaluation import Played, Policy
from masp.training.lanes import start_of


class TrainState(NamedTuple):
    """A run with an axis of seeds on everything but the shared counters; a checkpoint holds exactly this."""

    agent: AgentState
    envs: Any  # [seeds, N, ...]


class CompiledLoop:
    """Trains all seeds in lockstep."""

    def __init__(self, agent: Agent, env: JaxEnv):
        self.agent, self.env = agent, env

    def close(self) -> None:
        """No-op: a JAX environment holds nothing."""

    def init(
        self, configs: Sequence[TrainConfig], actions: Sequence[ActionSet], demonstrations: Any = ()
    ) -> TrainState:
        """The initial state of these runs, which the agent's configuration fits (`lanes.shared_config`)."""
        starts = [start_of(config, self.agent, own) for config, own in zip(configs, actions, strict=True)]
        state = self._init(*jax.tree.map(lambda *leaves: np.stack(leaves), *starts))
        return state._replace(agent=state.agent._replace(demonstrations=demonstrations))

    @partial(jax.jit, static_argnums=0)
    def _init(self, keys: Keys, starts: Start) -> TrainState:
        def one(keys: Keys, start: Start) -> TrainState:
            resets = jax.random.split(jax.random.fold_in(keys.environment, 0), self.agent.config.num_envs)
            envs, observation = jax.vmap(self.env.reset)(resets)
            return TrainState(self.agent.init(keys, observation, start, action_masks(self.env, envs)), envs)

        state = Devices.of(keys.act.shape[0]).spread(jax.vmap(one), OWN, OWN)(keys, starts)
        learner = state.agent.learner._replace(updates=state.agent.learner.updates[0])
        return state._replace(agent=state.agent._replace(tick=state.agent.tick[0], learner=learner))

    def frames(self, state: TrainState) -> np.ndarray:
        """[seeds] frames played so far."""
        return np.asarray(state.agent.actor.steps).astype(np.int64) * self.agent.info.frames_per_step

    def program(self, learn: bool) -> str:
        """What the program that `run` calls does."""
        del learn  # it is one program
        return "plays and learns"

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def run(self, state: TrainState, ticks: Array | int, learn: Array | bool) -> TrainState:
        """Play (and learn) for so many ticks; the given state is used up."""
        devices, specs = _devices(state.agent), self._axes(state, OWN, SHARED)

        def run(state: TrainState, ticks: Array, learn: Array) -> TrainState:
            return jax.lax.fori_loop(0, ticks, lambda _, state: self._tick(state, learn, devices), state)

        return devices.spread(run, (specs, SHARED, SHARED), specs)(state, ticks, learn)

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def pretrain(self, state: TrainState, updates: Array | int) -> TrainState:
        """Make so many updates on demonstrations; the given state is used up."""
        axes, specs = seed_axes(state.agent), seed_axes(state.agent, OWN, SHARED)
        draw = jax.vmap(partial(self.agent.keys_of_updates, count=1), in_axes=(axes,))
        update = jax.vmap(partial(self.agent.update, demonstrated=True), in_axes=(axes, 0), out_axes=axes)

        def learn(agent: AgentState, updates: Array) -> AgentState:
            return jax.lax.fori_loop(0, updates, lambda _, agent: update(agent, draw(agent)[:, 0]), agent)

        agent = _devices(state.agent).spread(learn, (specs, SHARED), specs)(state.agent, updates)
        return state._replace(agent=agent)

    def _tick(self, state: TrainState, learn: Array, devices: Devices) -> TrainState:
        """One step of every environment of every seed; the agent learns between its decision and the step.

        Seeds that train together make the same number of updates: that of the seed that has played fewest steps.
        """
        axes = self._axes(state)
        decide = jax.vmap(self.agent.decide, in_axes=(axes.agent,), out_axes=(axes.agent, 0))
        agent, primitives = decide(state.agent)
        resetting = agent.actor.resetting
        # Steps of the warm-up make no update due, except those of its last tick. `learn` is data, because compiling a
        # second program for the warm-up would take longer than the warm-up.
        agent = agent._replace(unused_steps=jnp.where(learn, agent.unused_steps, 0))
        due = devices.least(agent.unused_steps) // self.agent.config.agent.steps_per_update
        # Learning overwrites the parameters that the decision reads: XLA must see that it comes later.
        keys = after(jnp.sum(primitives.astype(float)), jax.vmap(self.agent.update_keys, in_axes=(axes.agent,))(agent))
        update = jax.vmap(self.agent.update, in_axes=(axes.agent, 0), out_axes=axes.agent)
        agent = jax.lax.fori_loop(0, due, lambda i, agent: update(agent, keys[:, i]), agent)
        step = jax.vmap(self._step, in_axes=(axes, 0, 0), out_axes=axes)
        return step(TrainState(agent, state.envs), primitives, resetting)

    def _step(self, state: TrainState, primitives: Array, resetting: Array) -> TrainState:
        """The second half of a tick of one seed."""
        agent = state.agent
        key = jax.random.fold_in(agent.keys.environment, agent.tick + 1)
        envs, step = step_or_reset(self.env, state.envs, primitives, resetting, key)
        # The step overwrites rows of the replay that learning reads: XLA must see that it comes later.
        metrics = agent.tally.metrics
        actor = agent.actor._replace(age=after(metrics, agent.actor.age))
        agent, _ = self.agent.observe(agent._replace(actor=actor), after(metrics, step))
        return TrainState(agent, envs)

    def reports(self, state: TrainState) -> list[Report]:
        """One report per seed."""
        return self.per_seed(self.agent.report(state.agent))

    def per_seed(self, part: Any) -> list[Any]:
        """A part of the state that has the axis of seeds everywhere, as NumPy arrays, one per seed."""
        arrays = jax.tree.map(np.asarray, part)
        return [jax.tree.map(lambda leaf: leaf[i], arrays) for i in range(len(jax.tree.leaves(arrays)[0]))]

    def checkpoints(self, state: TrainState) -> list[TrainState]:
        """Everything but the replay's observations, one per seed, each with the counters that all seeds share."""
        state = state._replace(agent=without_observations(state.agent))
        axes, count = self._axes(state), state.agent.keys.act.shape[0]
        arrays = jax.tree.map(np.asarray, state)  # sliced by NumPy: JAX would compile a program for each leaf and seed
        return [
            jax.tree.map(lambda axis, leaf: leaf if axis is None else leaf[i], axes, arrays, is_leaf=_none)
            for i in range(count)
        ]

    def restore(self, states: list[TrainState], rings: list[np.ndarray], demonstrations: Any = ()) -> TrainState:
        """The inverse of `checkpoints` and `replay_rows`; `rings`: the replay's observations of every seed."""

        def joined(axis: int | None, *leaves: Any) -> Any:
            if leaves[0] is None:  # what a plain network leaves out
                return None
            return jnp.asarray(leaves[0] if axis is None else np.stack(leaves))

        state = jax.tree.map(joined, self._axes(states[0]), *states, is_leaf=_none)
        memory = state.agent.memory._replace(observations=jnp.asarray(np.stack(rings)))
        return state._replace(agent=state.agent._replace(memory=memory, demonstrations=demonstrations))

    def ring_shape(self, state: TrainState) -> tuple[int, ...]:
        """[T, N, D] of the replay's observations of one seed."""
        return state.agent.memory.observations.shape[1:]

    def replay_rows(self, state: TrainState, first: int, last: int) -> list[tuple[int, np.ndarray]]:
        """Copies of the replay's rows from tick `first` to `last`, as far as the ring has them, one per seed."""
        observations = state.agent.memory.observations
        first, ticks = ring_ticks(first, last, observations.shape[1])
        return [(first, rows) for rows in rows_on_host(observations, ticks, axis=1)]

    def replay_is_empty(self, state: TrainState) -> bool:
        """Whether a seed has not yet seen the end of any decision, so that there is nothing to sample."""
        return bool((np.asarray(state.agent.memory.tree[-1]).sum(axis=-1) == 0).any())

    def _axes(self, state: TrainState, own: Any = 0, shared: Any = None) -> TrainState:
        return TrainState(seed_axes(state.agent, own, shared), jax.tree.map(lambda _: own, state.envs))

    def reset_tally(self, state: TrainState) -> TrainState:
        """Start counting anew, after a row of the metrics was written."""
        count = state.agent.keys.act.shape[0]
        tally = jax.tree.map(lambda leaf: np.stack([leaf] * count), empty_tally(len(self.agent.actions)))
        return state._replace(agent=state.agent._replace(tally=tally))

    def evaluate(self, state: TrainState, episodes: int, number: int) -> Played:
        """[seeds, episodes] episodes with their own seeds, played without noise."""
        learner = state.agent.learner
        keys = _evaluation_keys(state.agent.keys.evaluation, number)
        policy = Policy(learner.params, self.agent.learner.similarity.context(learner.similarity), state.agent.macros)
        return Played(*map(np.asarray, self._evaluate(policy, keys, episodes)))

    def play(self, params: Any, similarity: np.ndarray, key: Array, episodes: int) -> Played:
        """[episodes] episodes of one policy."""
        policy = Policy(params, similarity, MacroTables.of(self.agent.actions))  # type: ignore[arg-type]
        one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], (policy, key))
        return Played(*[np.asarray(part)[0] for part in self._evaluate(*one, episodes)])

    @partial(jax.jit, static_argnums=(0, 3))
    def _evaluate(self, policy: Policy, keys: Array, episodes: int) -> Played:
        evaluate = jax.vmap(partial(self._evaluate_seed, episodes))
        return Devices.of(keys.shape[0]).spread(evaluate, (OWN, OWN), OWN)(policy, keys)

    def _evaluate_seed(self, episodes: int, policy: Policy, key: Array) -> Played:
        envs, observation = jax.vmap(self.env.reset)(jax.random.split(jax.random.fold_in(key, 0), episodes))
        blank = jnp.zeros(episodes)

        def going(carry: Any) -> Array:
            _, _, over, _, tick = carry
            return ~jnp.all(over) & (tick < self.agent.info.max_episode_steps)

        def tick(carry: Any) -> Any:
            envs, rollout, over, played, tick = carry
            key_choice, key_env = jax.random.split(jax.random.fold_in(key, tick + 1))
            rollout, primitives = evaluation.decide(self.agent, policy, rollout, tick, key_choice)
            envs, step = step_or_reset(self.env, envs, primitives, rollout.actor.resetting, key_env)
            rollout, ended = evaluation.advance(self.agent, policy, rollout, step)
            first = ended.ended & ~over
            newest = Played(ended.score, ended.steps, rollout.predicted, rollout.obtained, ended.success, rollout.flaw)
            played = jax.tree.map(lambda new, old: jnp.where(first, new, old), newest, played)
            return envs, rollout, over | ended.ended, played, tick + 1

        small = blank.astype(jnp.int8)
        nothing = Played(blank, blank.astype(jnp.int32), blank, blank, small, small)
        rollout = evaluation.begin(self.agent, policy, observation, action_masks(self.env, envs))
        carry = (envs, rollout, blank > 0, nothing, jnp.zeros((), jnp.int32))
        return jax.lax.while_loop(going, tick, carry)[3]

    def sampled_values(self, state: TrainState) -> list[np.ndarray]:
        """[states, A] action values of states from the replay, one per seed."""
        return list(np.asarray(self._sampled_values(state.agent)))

    @partial(jax.jit, static_argnums=0)
    def _sampled_values(self, agent: AgentState) -> Array:
        values = jax.vmap(self.agent.sampled_values, in_axes=(seed_axes(agent),))
        return _devices(agent).spread(values, (seed_axes(agent, OWN, SHARED),), OWN)(agent)


def _devices(agent: AgentState) -> Devices:
    return Devices.of(agent.keys.act.shape[0])


@jax.jit
def _evaluation_keys(keys: Array, number: Array) -> Array:
    """[seeds] keys of one evaluation."""
    return jax.vmap(lambda key: jax.random.fold_in(key, number))(keys)


def without_observations(agent: AgentState) -> AgentState:
    """The state as checkpoints hold it: the replay's observations are logged, demonstrations are in their file."""
    empty = jnp.zeros((agent.keys.act.shape[0], 0), agent.memory.observations.dtype)
    return agent._replace(memory=agent.memory._replace(observations=empty), demonstrations=())


def ring_ticks(first: int, last: int, capacity: int) -> tuple[int, np.ndarray]:
    """The first of the ticks from `first` to `last` that a ring of `capacity` rows still has, and all their slots."""
    first = max(first, last - capacity + 1)
    return first, np.arange(first, last + 1) % capacity


def rows_on_host(ring: Array, ticks: np.ndarray, axis: int) -> np.ndarray:
    """Copies of some rows of a ring; of one that is not in the memory of the host, nothing else is moved."""
    if _on_host(ring):
        return np.asarray(ring).take(ticks, axis)
    padded = np.pad(ticks, (0, (1 << int(len(ticks) - 1).bit_length()) - len(ticks)), mode="edge")  # few programs
    return np.asarray(_take(ring, padded, axis)).take(np.arange(len(ticks)), axis)


def _on_host(array: Array | np.ndarray) -> bool:
    """Whether NumPy can look at an array without a copy."""
    if isinstance(array, np.ndarray):
        return True
    return len(array.devices()) == 1 and all(device.platform == "cpu" for device in array.devices())


@partial(jax.jit, static_argnums=2)
def _take(ring: Array, ticks: Array, axis: int) -> Array:
    return jnp.take(ring, ticks, axis)


def _none(leaf: Any) -> bool:
    return leaf is None


def action_masks(env: JaxEnv, states: Any) -> Array | None:
    """[N, primitives] bool, the action masks of N environments; None: the environment has none."""
    return jax.vmap(env.action_mask)(states).astype(bool) if isinstance(env, MaskedJaxEnv) else None


def step_or_reset(env: JaxEnv, envs: Any, actions: Array, resetting: Array, key: Array) -> tuple[Any, Step]:
    """One tick of N environments: those that are `resetting` [N] start a new episode, the others play."""

    def one(state: Any, action: Array, reset: Array, key: Array) -> tuple[Any, Step]:
        key_step, key_reset = jax.random.split(key)
        new_state, new_observation = env.reset(key_reset)
        state, observation, reward, terminated, truncated = env.step(state, action, key_step)
        state = jax.tree.map(lambda new, old: jnp.where(reset, new, old), new_state, state)
        observation = jnp.where(reset, new_observation, observation)
        played = ~reset
        ends = (terminated & played, truncated & played, jnp.array(False))
        mask = env.action_mask(state).astype(bool) if isinstance(env, MaskedJaxEnv) else None
        success = env.success(state).astype(jnp.int8) if isinstance(env, JudgingJaxEnv) else None
        return state, Step(observation, reward * played, *ends, mask, success)

    return jax.vmap(one)(envs, actions, resetting, jax.random.split(key, resetting.shape[0]))
